//! Which log lines a server is asked for, in both eras.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use mcp_proto::{CallTool, LogLevel, Method};
use mcp_session::{CallError, CallOptions, CallOutcome, SessionEvent, SessionOptions, UnsupportedWhy};
use mcp_transport::testing::{MemoryOptions, Received};
use serde_json::{Value, json};
use support::*;

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

async fn call(it: &Fixture) -> Received {
    let answer = async {
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), said("x")).await;
        request
    };
    let (called, request) =
        tokio::join!(it.session.call(CallTool::new("any"), CallOptions::default()), answer);
    called.unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn g145_a_legacy_server_is_told_once_what_to_log() {
    let it = legacy().await;
    let set = it.session.set_log_level(LogLevel::Warning, CallOptions::default());
    let (set, ()) = tokio::join!(set, async {
        let request = it.peer.expect("logging/setLevel").await;
        assert_eq!(request.params()["level"], "warning");
        it.peer.respond(request.id(), json!({})).await;
    });
    set.unwrap();
    assert_eq!(call(&it).await.params()["_meta"].get(LEVEL), None, "a legacy call says nothing of it");
    let line = json!({"level": "error", "data": "lost"});
    it.peer.send(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": line})).await;
    let Some(SessionEvent::Log(line)) = it.session.next_event().await else { panic!("no line") };
    assert_eq!(line.level, LogLevel::Error);
}

#[tokio::test(start_paused = true)]
async fn g146_a_modern_server_is_told_with_every_later_call_and_by_nothing_else() {
    let it = modern().await;
    let before = call(&it).await;
    assert_eq!(before.params()["_meta"].get(LEVEL), None, "nothing is asked for by default");
    for level in [LogLevel::Info, LogLevel::Debug] {
        let sent = it.peer.transcript().len();
        it.session.set_log_level(level.clone(), CallOptions::default()).await.unwrap();
        settle().await;
        assert_eq!(it.peer.transcript().len(), sent, "nothing is sent for it");
        let after = call(&it).await;
        let mut expected = before.params()["_meta"].clone();
        expected[LEVEL] = json!(level);
        expected["progressToken"] = after.value["id"].clone();
        assert_eq!(after.params()["_meta"], expected);
    }
    // Members of the caller's own come beside it.
    let options = CallOptions::default().with_meta("example.com/a", &1).unwrap();
    let mut own = ByHand::new(it.session.call(CallTool::new("any"), options));
    assert!(own.poll().is_pending());
    let own = it.peer.expect("tools/call").await;
    let meta = &own.params()["_meta"];
    assert_eq!((&meta[LEVEL], &meta["example.com/a"]), (&json!("debug"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn g145_nothing_is_asked_of_a_server_that_does_not_log() {
    for (method, result) in
        [("initialize", initialize_result("2025-11-25")), ("server/discover", discover_result())]
    {
        let options = match method {
            "initialize" => SessionOptions::default().with_era(mcp_session::EraPolicy::Legacy),
            _ => SessionOptions::default(),
        };
        let (opening, driver, peer) = unopened(options, MemoryOptions::default());
        let driver = tokio::spawn(driver.run());
        let server = async {
            let request = peer.expect(method).await;
            let mut result: Value = result;
            result["capabilities"] = json!({"tools": {}});
            peer.respond(request.id(), result).await;
            if method == "initialize" {
                peer.expect("notifications/initialized").await;
            }
        };
        let (session, ()) = tokio::join!(opening.handshake(soon()), server);
        let it = Fixture { session: session.unwrap(), peer, driver };
        let refused = it.session.set_log_level(LogLevel::Info, CallOptions::default()).await.unwrap_err();
        assert_eq!(refused.outcome(), CallOutcome::NotSent);
        let CallError::Unsupported { method, why } = refused else { panic!("{refused:?}") };
        assert_eq!((method, why), (Method::LOGGING_SET_LEVEL, UnsupportedWhy::Capability));
        assert_eq!(call(&it).await.params()["_meta"].get(LEVEL), None);
    }
}
