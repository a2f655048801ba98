//! The way of one call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use mcp_proto::{CallTool, ListTools};
use mcp_session::{CallOptions, SessionOptions, open};
use mcp_transport::testing::{ServerScript, memory, serve};
use support::*;

#[tokio::test(start_paused = true)]
async fn a_session_with_a_well_behaved_server_of_each_era_lists_and_calls() {
    for script in [ServerScript::legacy(), ServerScript::modern()] {
        let (connection, peer) = memory();
        let (opening, driver) = open(connection, SessionOptions::default());
        let driver = tokio::spawn(driver.run());
        let server = tokio::spawn(serve(peer, script.start()));
        let session = opening.handshake(soon()).await.unwrap();
        let tools = session.list::<ListTools>(CallOptions::default(), Default::default()).await.unwrap();
        assert!(tools.items.iter().any(|tool| tool.name == "echo"));
        let call = CallTool::new("echo");
        let result = session.call(call, CallOptions::default()).await.unwrap();
        assert!(!result.is_error);
        assert_quiescent(&session);
        session.close(soon()).await;
        driver.await.unwrap();
        server.await.unwrap();
    }
}
