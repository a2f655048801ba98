//! What goes in and comes out of the five operations.
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

use std::time::Duration;

use mcp_client::Handlers;
use mcp_lifecycle::ServerOptions;
use mcp_session::{EraPolicy, SessionOptions};
use mcp_transport::testing::checks::LogCapture;
use mcp_transport::testing::{Action, Behaviour, Received, ServerScript};
use mcp_transport::{CloseReason, Closed, ConnectError};
use serde_json::{Value, json};
use stage::{OPERATIONS, SECRET, SERVER, Stage, eventually, is_right, perform};
use tokio::runtime::Builder;
use tokio::time::Instant;

async fn call(handlers: &Handlers, arguments: Value) -> Value {
    serde_json::from_str(&handlers.call_tool(&arguments.to_string()).await).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_operation_answers_in_its_shape() {
    let stage = Stage::start(ServerOptions::default()).await;
    for (operation, _) in OPERATIONS {
        let answer = perform(&stage.handlers, operation).await;
        assert!(is_right(operation, &answer), "{operation}: {answer}");
    }
    assert_eq!(
        perform(&stage.handlers, "list_prompts").await["prompts"][0],
        json!({
            "name": "prompt-0", "description": "asks for a text",
            "arguments": [{"name": "topic", "description": "what the text is about", "required": false}],
        })
    );
    assert_eq!(
        perform(&stage.handlers, "get_prompt").await,
        json!({
            "description": "asks for a text",
            "messages": [{"role": "user", "content": "Say something about rain."}],
        })
    );
    stage.finish().await;
}

#[tokio::test(start_paused = true)]
async fn failures_say_what_the_server_may_have_done() {
    let stage = Stage::start(ServerOptions::default()).await;
    let failed = call(&stage.handlers, json!({"server": SERVER, "tool": "fail"})).await;
    assert_eq!(
        failed,
        json!({"error": "it did not work", "outcome": "rejected", "server": SERVER, "retryable": false})
    );
    let refused = call(&stage.handlers, json!({"server": SERVER, "tool": "error"})).await;
    assert_eq!((&refused["outcome"], &refused["retryable"]), (&json!("rejected"), &json!(false)));
    let late = call(&stage.handlers, json!({"server": SERVER, "tool": "hang", "timeout_ms": 50})).await;
    assert_eq!((&late["outcome"], &late["retryable"]), (&json!("unknown"), &json!(false)));
    assert_eq!(stage.log.cancelled().len(), 1);
    let lost = call(&stage.handlers, json!({"server": SERVER, "tool": "crash"})).await;
    assert_eq!((&lost["outcome"], &lost["server"]), (&json!("unknown"), &json!(SERVER)));
    stage.settled().await;
    stage.finish().await;
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_told_before_anything_is_sent() {
    let stage = Stage::start(ServerOptions::default()).await;
    let handlers = &stage.handlers;
    for text in [
        "",
        "{",
        "[]",
        "7",
        "{}",
        r#"{"server": "s"}"#,
        r#"{"server": 7, "tool": "echo"}"#,
        r#"{"server": "s", "tool": "echo", "argument": {}}"#,
        r#"{"server": "s", "tool": "echo", "arguments": []}"#,
        r#"{"server": "s", "tool": "echo", "timeout_ms": 0}"#,
        r#"{"server": "s", "tool": "echo", "timeout_ms": -1}"#,
        r#"{"server": "s", "tool": "echo", "timeout_ms": 18446744073709551615}"#,
        r#"{"name": "mcp__s__echo", "server": "s", "tool": "echo"}"#,
    ] {
        let answer: Value = serde_json::from_str(&handlers.call_tool(text).await).unwrap();
        assert_eq!((&answer["outcome"], &answer["retryable"]), (&json!("not_sent"), &json!(false)), "{text}");
        assert!(answer["error"].as_str().unwrap().starts_with("the arguments cannot be used"), "{answer}");
    }
    for answer in [
        handlers.list_resources("{}").await,
        handlers.read_resource(r#"{"server": "s"}"#).await,
        handlers.list_prompts("x").await,
        handlers.get_prompt(r#"{"server": "s", "name": "p", "arguments": {"a": 1}}"#).await,
    ] {
        assert!(answer.contains("the arguments cannot be used"), "{answer}");
    }
    assert_eq!(stage.log.executions().len(), 0);
    stage.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_name_is_an_error_of_its_own() {
    let stage = Stage::start(ServerOptions::default()).await;
    let answer = call(&stage.handlers, json!({"server": "x\u{1b}[2J", "tool": "echo"})).await;
    assert_eq!(answer["error"], "there is no server \"x\\u{1b}[2J\"");
    let answer = call(&stage.handlers, json!({"name": "mcp__s__gone"})).await;
    assert_eq!(answer["error"], "there is no tool \"mcp__s__gone\"");
    stage.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_by_the_name_from_the_registry() {
    let stage = Stage::start(ServerOptions::default()).await;
    let name = stage.client.registry().find("mcp__s__echo").unwrap().name.clone();
    let answer = call(&stage.handlers, json!({"name": name, "arguments": {"message": "by name"}})).await;
    assert_eq!(answer, json!({"result": "by name"}));
    stage.finish().await;
}

#[tokio::test(start_paused = true)]
async fn f156_tools_of_a_parked_server_are_withdrawn() {
    let stage = Stage::start(ServerOptions::default().with_park_after(1)).await;
    assert!(stage.client.registry().find("mcp__s__echo").is_some());
    stage.memory.fail_next(ConnectError::Closed(Closed::new(CloseReason::EndOfStream, "boom")));
    stage.swap();
    eventually("the server is parked", || stage.server().status().state.name() == "parked").await;
    assert!(stage.client.registry().tools().is_empty());
    let answer = call(&stage.handlers, json!({"name": "mcp__s__echo"})).await;
    assert_eq!(answer["outcome"], "not_sent");
    assert!(answer["error"].as_str().unwrap().contains("parked"), "{answer}");

    stage.server().wake();
    assert!(stage.settled().await.state.is_ready());
    assert!(stage.client.registry().find("mcp__s__echo").is_some(), "they come back with the server");
    stage.finish().await;
}

#[tokio::test(start_paused = true)]
async fn f156_tools_of_a_removed_server_are_unknown() {
    let stage = Stage::start(ServerOptions::default()).await;
    assert!(stage.client.registry().find("mcp__s__echo").is_some());
    stage.client.remove(SERVER).unwrap().await;
    assert!(stage.client.registry().tools().is_empty());
    let answer = call(&stage.handlers, json!({"name": "mcp__s__echo"})).await;
    assert_eq!(answer["error"], "there is no tool \"mcp__s__echo\"");
    let report = stage.client.shutdown().await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn f140_everything_says_so_after_shutdown() {
    let stage = Stage::start(ServerOptions::default()).await;
    stage.client.shutdown().await;
    for (operation, _) in OPERATIONS {
        let answer = perform(&stage.handlers, operation).await;
        assert_eq!(answer["outcome"], "not_sent", "{operation}: {answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains("shutting down") || error.contains("no server"), "{answer}");
    }
    let late = mcp_client::ServerConfig::new("late", mcp_client::StdioServer::new("x"), Default::default());
    assert!(stage.client.add(late.unwrap()).is_err());
    assert!(stage.client.registry().tools().is_empty());
}

#[tokio::test(start_paused = true)]
async fn handlers_outlive_their_client_and_say_so() {
    let stage = Stage::start(ServerOptions::default()).await;
    let handlers = stage.handlers.clone();
    drop(stage);
    for (operation, _) in OPERATIONS {
        let answer = perform(&handlers, operation).await;
        assert_eq!(answer["outcome"], "not_sent", "{operation}: {answer}");
        assert_eq!(answer["error"], "the client is shutting down");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handler_cancels_its_call() {
    let stage = Stage::start(ServerOptions::default()).await;
    let arguments = json!({"server": SERVER, "tool": "hang"}).to_string();
    let left = tokio::time::timeout(Duration::from_millis(10), stage.handlers.call_tool(&arguments)).await;
    assert!(left.is_err());
    eventually("the server is told", || stage.log.cancelled().len() == 1).await;
    stage.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_the_server_does_not_offer_is_not_sent() {
    let script = ServerScript::legacy().with_resources(0).with_prompts(0);
    let stage = Stage::begin(ServerOptions::default(), script);
    stage.settled().await;
    for operation in ["list_resources", "read_resource", "list_prompts", "get_prompt"] {
        let answer = perform(&stage.handlers, operation).await;
        assert_eq!(
            (&answer["outcome"], &answer["retryable"]),
            (&json!("not_sent"), &json!(false)),
            "{answer}"
        );
    }
    stage.finish().await;
}

/// A server that puts the secret it was trusted with into everything it says.
struct Telltale {
    /// What it does to the handshake.
    opening: Opening,
}

#[derive(Clone, Copy, PartialEq)]
enum Opening {
    Agrees,
    Dies,
    Rejects,
}

impl Behaviour for Telltale {
    fn on_frame(&mut self, frame: &Received, _now: Instant) -> Vec<Action> {
        let Some(id) = frame.request_id() else { return Vec::new() };
        let tell = format!("my key is {SECRET}, and \"{SECRET}\" it is");
        let result =
            |result: Value| vec![Action::Send(json!({"jsonrpc": "2.0", "id": id, "result": result}))];
        let error = || {
            let error = json!({"code": -32000, "message": tell, "data": tell});
            vec![Action::Send(json!({"jsonrpc": "2.0", "id": id, "error": error}))]
        };
        match (frame.method().unwrap_or_default(), self.opening) {
            ("initialize", Opening::Agrees) => result(json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "telltale", "version": "1"},
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            })),
            ("initialize", Opening::Dies) => vec![Action::Close(CloseReason::Broken(tell))],
            ("tools/list", _) => result(json!({"tools": [{"name": "fail", "inputSchema": {}}]})),
            ("resources/list", _) => result(json!({"resources": []})),
            ("resources/templates/list", _) => result(json!({"resourceTemplates": []})),
            ("prompts/list", _) => result(json!({"prompts": []})),
            ("tools/call", _) if frame.params()["name"] == "fail" => {
                result(json!({"isError": true, "content": [{"type": "text", "text": tell}]}))
            }
            ("tools/call", _) if frame.params()["name"] == "garble" => result(json!({"content": tell})),
            ("tools/call", _) if frame.params()["name"] == "crash" => {
                vec![Action::Close(CloseReason::Broken(tell))]
            }
            _ => error(),
        }
    }
}

#[test]
fn i039_no_configured_secret_is_shown_on_any_path() {
    for opening in [Opening::Agrees, Opening::Rejects, Opening::Dies] {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        // On this thread alone, so that every record of the runtime is seen.
        let (log, _guard) = LogCapture::on_this_thread();
        let shown = runtime.block_on(async {
            let session = SessionOptions::default().with_era(EraPolicy::Legacy);
            let options = ServerOptions::default().with_park_after(1).with_session(session);
            let stage = Stage::playing(options, move |_| Telltale { opening });
            stage.settled().await;
            let mut shown = vec![];
            for tool in ["fail", "garble", "other", "crash"] {
                shown.push(
                    call(&stage.handlers, json!({"server": SERVER, "tool": tool, "timeout_ms": 100})).await,
                );
                stage.settled().await;
            }
            for operation in ["read_resource", "get_prompt"] {
                shown.push(perform(&stage.handlers, operation).await);
            }
            assert!(shown.iter().all(|answer| answer["error"].is_string()), "{shown:?}");
            let status = stage.client.redact(&json!(stage.client.status()).to_string());
            shown.push(json!(status));
            stage.client.shutdown().await;
            shown
        });
        let shown = shown.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.contains("[secret]"), "nothing was said at all: {shown}");
        if opening != Opening::Dies {
            // How a connection broke is told by the transport, which here knows no secrets.
            let records: Vec<String> = log.records().iter().map(ToString::to_string).collect();
            let leak =
                records.iter().find(|record| record.contains(SECRET) && !record.contains("connection broke"));
            assert!(leak.is_none(), "{leak:?}");
        }
    }
}

/// A tool that says of itself that it may be repeated is not believed; the user is.
#[tokio::test(start_paused = true)]
async fn f187_only_the_user_can_say_that_a_tool_may_be_repeated() {
    for (idempotent, most_runs) in [(false, 1), (true, 3)] {
        let mut options = ServerOptions::default();
        if idempotent {
            options = options.with_idempotent_tools(["crash".to_owned()].into());
        }
        let stage = Stage::start(options).await;
        let answer = call(&stage.handlers, json!({"server": SERVER, "tool": "crash"})).await;
        assert_eq!(answer["outcome"], "unknown", "{answer}");
        assert_eq!(stage.log.runs("crash"), most_runs);
        stage.settled().await;
        stage.finish().await;
    }
}
