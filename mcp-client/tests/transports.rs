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
use mcp_transport::testing::{HttpAnswers, HttpHost, MemoryConnector, ServerScript, serve_all};
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
                tokio::select! {
                    () = the_five_operations(builder) => {}
                    () = host.run() => {}
                }
                let requests = host.requests();
                assert!(requests.iter().all(|request| request.header("x-key") == Some("canary")));
                assert_eq!(requests.last().unwrap().method == "DELETE", has_session);
            }
            assert!(script.log().violations().is_empty(), "{:?}", script.log().violations());
        }
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
