//! The five operations over every transport: one test for all of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "test code"
)]

mod stage;

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ClientBuilder, HttpServer, StdioServer};
use mcp_lifecycle::ServerOptions;
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::fixture::Fixture;
use mcp_transport::testing::{
    HttpAnswers, HttpHost, MemoryConnector, ServerScript, ToolBehaviour, serve_all,
};
use serde_json::{Value, json};
use stage::{OPERATIONS, SERVER, is_right, perform};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Calls each of the five operations through its public handler, and ends everything.
async fn the_five_operations(builder: ClientBuilder) {
    let client = builder.start(&Handle::current()).unwrap();
    let server = client.server(SERVER).unwrap();
    let status = server.settled(Instant::now() + Duration::from_secs(20)).await;
    assert!(status.state.is_ready(), "{status:?}");
    let handlers = client.handlers();
    for (operation, _) in OPERATIONS {
        let answer = perform(&handlers, operation).await;
        assert!(is_right(operation, &answer), "{operation}: {answer}");
    }
    let report = client.shutdown().await;
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn over_streamable_http_in_both_eras_and_forms() {
    isolated(async |_| {
        for (script, has_session) in [(ServerScript::legacy(), true), (ServerScript::modern(), false)] {
            for answers in [HttpAnswers::Json, HttpAnswers::Events] {
                let host = HttpHost::bind(script.clone(), answers).await;
                let server = HttpServer::new(host.url()).unwrap().header("x-key", "canary").unwrap();
                let builder = Client::builder().http(SERVER, server).unwrap();
                host.beside(the_five_operations(builder)).await;
                let requests = host.requests();
                assert!(requests.iter().all(|request| request.header("x-key") == Some("canary")));
                assert_eq!(requests.last().unwrap().method == "DELETE", has_session);
            }
            assert!(script.log().violations().is_empty(), "{:?}", script.log().violations());
        }
    });
}

/// A script with one tool that asks for a header and one that cannot have the header it asks for.
fn with_headers(script: ServerScript) -> ServerScript {
    let schema = |header: &str| json!({"type": "object", "properties": {"message": {"type": "string", "x-mcp-header": header}}});
    script
        .with_input_schema("echo", schema("Message"))
        .with_tool("broken", ToolBehaviour::Echo)
        .with_input_schema("broken", schema("no token"))
}

/// Calls both tools of [`with_headers`]; answers with what came of the second and what is not offered.
async fn the_two_tools(builder: ClientBuilder) -> (Value, Vec<String>) {
    let client = builder.start(&Handle::current()).unwrap();
    let server = client.server(SERVER).unwrap();
    server.settled(Instant::now() + Duration::from_secs(20)).await;
    let handlers = client.handlers();
    let called = async |tool: &str| -> Value {
        let arguments = json!({"server": SERVER, "tool": tool, "arguments": {"message": "ö"}});
        serde_json::from_str(&handlers.call_tool(&arguments.to_string()).await).unwrap()
    };
    assert_eq!(called("echo").await, json!({"result": "ö"}));
    let answer = called("broken").await;
    let registry = client.registry();
    let offered = registry.tools().iter().any(|tool| tool.tool.name == "broken");
    let excluded: Vec<String> = registry.excluded().iter().map(|tool| tool.tool.clone()).collect();
    assert_eq!(offered, excluded.is_empty());
    client.shutdown().await;
    (answer, excluded)
}

#[test]
fn m83_and_m84_headers_of_arguments_exist_over_modern_http_alone() {
    isolated(async |test| {
        for (script, is_modern) in [(ServerScript::legacy(), false), (ServerScript::modern(), true)] {
            let host = HttpHost::bind(with_headers(script), HttpAnswers::Json).await;
            let builder = Client::builder().http(SERVER, HttpServer::new(host.url()).unwrap()).unwrap();
            let (answer, excluded) = host.beside(the_two_tools(builder)).await;
            let requests = host.requests();
            let sent: Vec<_> =
                requests.iter().filter_map(|request| request.header("mcp-param-message")).collect();
            if is_modern {
                assert_eq!(sent, ["=?base64?w7Y=?="]);
                assert_eq!(excluded, ["broken"]);
                assert_eq!(answer["outcome"], "not_sent");
                assert!(answer["error"].as_str().unwrap().contains("no token"), "{answer}");
            } else {
                assert!(sent.is_empty() && excluded.is_empty());
                assert_eq!(answer, json!({"result": "ö"}));
            }
        }
        let connector = MemoryConnector::new();
        let script = with_headers(ServerScript::modern());
        let served = serve_all(&connector, |_| script.start());
        let builder =
            Client::builder().connector(SERVER, Arc::new(connector.clone()), ServerOptions::default(), []);
        let (answer, excluded) = tokio::select! {
            found = the_two_tools(builder) => found,
            () = served => unreachable!("it serves for ever"),
        };
        assert_eq!((answer, excluded), (json!({"result": "ö"}), Vec::new()));
        test.expect_log(tracing::Level::WARN, "a tool is left out");
    });
}

#[test]
fn over_memory() {
    isolated(async |_| {
        for script in [ServerScript::legacy(), ServerScript::modern()] {
            let connector = MemoryConnector::new();
            let served = serve_all(&connector, |_| script.start());
            let reached = Arc::new(connector.clone());
            let builder = Client::builder().connector(SERVER, reached, ServerOptions::default(), []);
            tokio::select! {
                () = the_five_operations(builder) => {}
                () = served => {}
            }
        }
    });
}

#[test]
fn over_standard_input_and_output() {
    isolated(async |_| {
        for era in ["legacy", "modern"] {
            let folder = tempfile::tempdir().unwrap();
            let fixture = Fixture::from_program(env!("CARGO_BIN_EXE_mcpctl"), folder.path())
                .with_prefix(["fixture"])
                .option("--era", era);
            let arguments = fixture.arguments().iter().map(|argument| argument.to_str().unwrap());
            let (variable, mark) = fixture.mark();
            let program = StdioServer::new(fixture.program().to_str().unwrap()).args(arguments);
            let builder = Client::builder().stdio(SERVER, program.env(variable, mark)).unwrap();
            the_five_operations(builder).await;
        }
    });
}
