//! How a server becomes ready, and what a failed start leaves behind: nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod support;

use mcp_lifecycle::{Failure, ServerOptions, Stage, State};
use mcp_proto::{Era, ListTools};
use mcp_session::{CallOptions, CallOutcome, ListLimits};
use mcp_transport::testing::{MemoryConnector, ServerScript};
use support::{Bench, accept, accept_initialize, echo, in_seconds, plain, ready, seconds, until};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_server_of_each_era_becomes_ready_with_its_lists_and_answers() {
    for (script, era) in [(ServerScript::legacy(), Era::Legacy), (ServerScript::modern(), Era::Modern)] {
        let mut bench = Bench::new();
        let script = script.with_page_size(2);
        let server = bench.add("one", &script, ServerOptions::default());
        assert!(matches!(server.settled(in_seconds(10)).await.state, State::Ready { generation: 1 }));
        let lists = server.lists().unwrap();
        assert_eq!(lists.tools.items.len(), 6);
        assert_eq!(lists.resources.items.len(), 3);
        assert_eq!(lists.templates.items.len(), 1);
        assert_eq!(lists.prompts.items.len(), 2);
        assert_eq!(server.peer().unwrap().era, era);
        server.call(echo(), CallOptions::default()).await.unwrap();
        let listed = server.list::<ListTools>(CallOptions::default(), ListLimits::default()).await.unwrap();
        assert_eq!(listed.items.len(), 6);
        assert_eq!(bench.moves("one"), ["connecting", "ready"]);
        assert_eq!(script.log().violations(), [""; 0]);
        assert!(bench.end().await.is_clean());
    }
}

#[tokio::test(start_paused = true)]
async fn f009_a_slow_start_is_not_killed_and_waiting_calls_keep_their_deadlines() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("slow", &connector, plain());
    let began = Instant::now();
    let impatient = CallOptions::default().with_timeout(seconds(3));
    let (early, late, _peer) = tokio::join!(
        async { (server.call(echo(), impatient).await, began.elapsed()) },
        server.call(echo(), CallOptions::default().with_timeout(seconds(60))),
        async {
            let peer = connector.next_peer().await;
            tokio::time::sleep(seconds(59)).await; // nothing happens for 59 s: that is the fault
            accept(&peer).await;
            let request = peer.expect("tools/call").await;
            peer.respond(request.id(), serde_json::json!({"content": []})).await;
            peer
        }
    );
    let (early, waited) = early;
    let early = early.unwrap_err();
    assert!(early.is_timeout() && early.outcome() == CallOutcome::NotSent, "{early}");
    assert_eq!(waited, seconds(3));
    late.unwrap();
    assert_eq!(connector.attempts(), 1);
    assert_eq!(bench.moves("slow"), ["connecting", "ready"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f012_a_server_that_never_answers_the_handshake_is_given_up_at_the_limit() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("mute", &connector, plain());
    let began = Instant::now();
    let peer = connector.next_peer().await;
    until(&server, |status| matches!(status.state, State::Backoff { .. }).then_some(())).await;
    assert_eq!(began.elapsed(), seconds(60));
    assert!(matches!(
        server.status().last_error.as_deref(),
        Some(Failure::Timeout { stage: Stage::Handshake, .. })
    ));
    peer.closed().await;
    assert_eq!(bench.moves("mute"), ["connecting", "backoff"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i19_a_list_that_never_comes_fails_a_reconnect_at_the_same_deadline() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("half", &connector, plain());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    server.reconnect(ready(&server).await);
    let peer = connector.next_peer().await;
    let began = Instant::now();
    accept_initialize(&peer).await;
    until(&server, |status| matches!(status.state, State::Backoff { .. }).then_some(())).await;
    assert_eq!(began.elapsed(), seconds(60));
    assert!(matches!(
        server.status().last_error.as_deref(),
        Some(Failure::Timeout { stage: Stage::Lists, .. })
    ));
    assert_eq!(bench.moves("half"), ["connecting", "ready", "connecting", "backoff"]);
    bench.end().await;
}
