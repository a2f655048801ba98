//! Telling a server that the roots have changed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::Arc;

use mcp_proto::{ClientCapabilities, ElicitationCapability, RootsCapability};
use mcp_session::{CallError, SessionOptions, UnsupportedWhy};
use mcp_transport::CloseReason;
use mcp_transport::testing::{MemoryOptions, ScriptedPeer};
use serde_json::json;
use support::desk::{Desk, form};
use support::*;

/// A handler that has declared that it tells of changes, or that it does not.
fn desk(tells: bool) -> Arc<Desk> {
    let mut capabilities = with_elicitation(tells);
    capabilities.elicitation = None;
    Desk::serving(capabilities)
}

fn with_elicitation(tells: bool) -> ClientCapabilities {
    let mut roots = RootsCapability::default();
    roots.list_changed = tells;
    let mut capabilities = ClientCapabilities::default();
    capabilities.roots = Some(roots);
    capabilities.elicitation = Some(ElicitationCapability::form());
    capabilities
}

fn served_by(desk: &Arc<Desk>) -> SessionOptions {
    SessionOptions::default().with_handler(Arc::clone(desk) as _)
}

fn notices(peer: &ScriptedPeer) -> usize {
    methods(peer).iter().filter(|method| *method == "notifications/roots/list_changed").count()
}

#[tokio::test(start_paused = true)]
async fn f167_changes_are_told_once_until_the_server_has_asked() {
    let desk = desk(true);
    let it = legacy_with(served_by(&desk), MemoryOptions::default()).await;
    let initialize =
        it.peer.transcript().into_iter().find(|frame| frame.method() == Some("initialize")).unwrap();
    assert_eq!(initialize.params()["capabilities"]["roots"], json!({"listChanged": true}));
    for round in 1..=3 {
        for _ in 0..5 {
            it.session.roots_changed(soon()).await.unwrap();
        }
        settle().await;
        assert_eq!(notices(&it.peer), round);
        it.peer.send(json!({"jsonrpc": "2.0", "id": round, "method": "roots/list"})).await;
        settle().await;
    }
    assert_eq!(desk.asked().len(), 3);
}

/// It has asked, but does not know the roots: four other questions of its are being served.
#[tokio::test(start_paused = true)]
async fn f167_a_server_whose_question_was_refused_is_told_of_the_next_change() {
    let desk = Desk::serving(with_elicitation(true));
    let it = legacy_with(served_by(&desk), MemoryOptions::default()).await;
    for id in 1..=4 {
        it.peer
            .send(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form("wait")}))
            .await;
    }
    it.session.roots_changed(soon()).await.unwrap();
    it.peer.expect("notifications/roots/list_changed").await;
    it.peer.send(json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"})).await;
    assert_eq!(it.peer.receive().await.value["error"]["code"], -32603);
    it.session.roots_changed(soon()).await.unwrap();
    it.peer.expect("notifications/roots/list_changed").await;
    desk.let_go(4);
}

/// Until it has left, a notice may be given up.
#[tokio::test(start_paused = true)]
async fn a_change_is_not_told_before_the_notice_that_is_under_way_has_left() {
    let it = legacy_with(served_by(&desk(true)), MemoryOptions::default().with_queue(1)).await;
    it.peer.pause_reading();
    let mut telling: Vec<_> = (0..3)
        .map(|_| {
            let session = it.session.clone();
            ByHand::new(async move { session.roots_changed(soon()).await })
        })
        .collect();
    assert!(telling[0].poll().is_ready(), "there is room for one");
    it.peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})).await;
    settle().await;
    assert!(telling[1].poll().is_pending());
    assert!(telling[2].poll().is_pending(), "whether the server will be told is not known yet");
    it.peer.resume();
    settle().await;
    assert!(telling[1].poll().is_ready());
    assert!(telling[2].poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_was_given_up_is_sent_with_the_next_change() {
    let it = legacy_with(served_by(&desk(true)), MemoryOptions::default().with_queue(1)).await;
    it.peer.pause_reading();
    let mut telling: Vec<_> = (0..2)
        .map(|_| {
            let session = it.session.clone();
            ByHand::new(async move { session.roots_changed(soon()).await })
        })
        .collect();
    let stuck = tokio::spawn({
        let session = it.session.clone();
        async move { session.call(mcp_proto::Ping::default(), Default::default()).await.map(drop) }
    });
    settle().await;
    assert!(telling[0].poll().is_pending(), "the server does not read");
    drop(telling.remove(0));
    it.peer.resume();
    settle().await;
    assert_eq!(notices(&it.peer), 0);
    assert!(telling[0].poll().is_ready());
    settle().await;
    assert_eq!(notices(&it.peer), 1);
    stuck.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_that_was_not_declared_or_that_the_era_does_not_have() {
    let undeclared = legacy_with(served_by(&desk(false)), MemoryOptions::default()).await;
    let error = undeclared.session.roots_changed(soon()).await.unwrap_err();
    assert!(matches!(error, CallError::Unsupported { why: UnsupportedWhy::Undeclared, .. }), "{error}");
    let unserved = legacy().await;
    assert!(unserved.session.roots_changed(soon()).await.is_err());
    let modern = modern_with(served_by(&desk(true)), MemoryOptions::default()).await;
    modern.session.roots_changed(soon()).await.unwrap();
    settle().await;
    for it in [&undeclared, &unserved, &modern] {
        assert_eq!(notices(&it.peer), 0);
    }
    let gone = legacy_with(served_by(&desk(true)), MemoryOptions::default()).await;
    gone.peer.close(CloseReason::EndOfStream);
    settle().await;
    let error = gone.session.roots_changed(soon()).await.unwrap_err();
    assert!(error.is_session_gone(), "{error}");
}
