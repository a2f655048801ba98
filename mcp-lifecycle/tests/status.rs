//! What is published of a server: snapshots, figures and events.
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

use mcp_lifecycle::{
    BreakerOptions, BreakerState, CallCounters, ServerEvent, ServerHandle, ServerSpec, Startup, Supervisor,
    SupervisorOptions,
};
use mcp_session::CallOptions;
use mcp_transport::testing::{MemoryConnector, ScriptedPeer};
use mcp_transport::{CloseReason, Exit};
use serde_json::json;
use support::{Bench, accept, echo, in_seconds, plain, ready, seconds, tool, until};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep};

/// The counters as an array, in the order of their names.
fn counted(calls: CallCounters) -> [u64; 7] {
    let CallCounters { cancelled, failed, lost, refused, repeated, succeeded, timed_out, .. } = calls;
    [cancelled, failed, lost, refused, repeated, succeeded, timed_out]
}

async fn answer(peer: &ScriptedPeer) {
    let request = peer.expect("tools/call").await;
    peer.respond(request.id(), json!({"content": []})).await;
}

fn short() -> CallOptions {
    CallOptions::default().with_deadline(in_seconds(1))
}

#[tokio::test(start_paused = true)]
async fn each_call_is_counted_once_as_what_became_of_it_over_all_connections() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain().with_idempotent_tools(["again".into()].into()));
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    assert_eq!(counted(server.status().calls), [0; 7]);

    let (result, ()) = tokio::join!(server.call(echo(), short()), answer(&peer));
    result.unwrap();
    assert_eq!(counted(server.status().calls), [0, 0, 0, 0, 0, 1, 0]);

    let (result, ()) = tokio::join!(server.call(echo(), short()), async {
        let request = peer.expect("tools/call").await;
        peer.respond_error(request.id(), -32602, "no").await;
    });
    result.unwrap_err();
    assert_eq!(counted(server.status().calls), [0, 1, 0, 0, 0, 1, 0]);

    // Too late, and the answer to it later still.
    assert!(server.call(echo(), short()).await.unwrap_err().is_timeout());
    assert_eq!(counted(server.status().calls), [0, 1, 0, 0, 0, 1, 1]);
    let late = peer.expect("tools/call").await;
    peer.expect("notifications/cancelled").await;
    let ping = peer.expect("ping").await;
    peer.respond(ping.id(), json!({})).await;
    peer.respond(late.id(), json!({"content": []})).await;
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/unheard_of"})).await;
    sleep(seconds(1)).await;
    let received = server.status().received;
    assert_eq!((received.late_replies, received.cancels_sent, received.ignored_notifications), (1, 1, 1));

    {
        let mut given_up = Box::pin(server.call(echo(), short()));
        assert!(futures_util::poll!(given_up.as_mut()).is_pending());
    }
    assert_eq!(counted(server.status().calls), [1, 1, 0, 0, 0, 1, 1]);

    // Lost with its connection; one that may be repeated is, and succeeds.
    let calls = async { tokio::join!(server.call(echo(), short()), server.call(tool("again"), short())) };
    let ((lost, again), peer) = tokio::join!(calls, async {
        peer.expect("tools/call").await;
        peer.expect("notifications/cancelled").await;
        peer.expect("tools/call").await;
        peer.expect("tools/call").await;
        peer.close(CloseReason::Exited(Exit::Code(1)));
        let peer = connector.next_peer().await;
        accept(&peer).await;
        answer(&peer).await;
        peer
    });
    lost.unwrap_err();
    again.unwrap();
    assert_eq!(counted(server.status().calls), [1, 1, 1, 0, 1, 2, 1]);

    server.disable();
    server.settled(in_seconds(60)).await;
    server.call(echo(), short()).await.unwrap_err();
    let status = server.status();
    assert_eq!(counted(status.calls), [1, 1, 1, 1, 1, 2, 1]);
    assert_eq!(status.calls.ended(), 7);
    assert_eq!(status.received.late_replies, 1, "what an earlier connection has received stays counted");
    assert!(status.received.frames > received.frames);
    drop(peer);
    bench.end().await;
}

/// Takes a server down as often as it takes to open its breaker.
async fn break_it(server: &ServerHandle, connector: &MemoryConnector) {
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(server).await;
    peer.close(CloseReason::EndOfStream);
    until(server, |status| (!status.state.is_ready()).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_moves_is_published_and_told_once_for_each_move() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let breaker = BreakerOptions::default().with_open_after(2).with_open_for(seconds(30));
    let server = bench.add_by_hand("one", &connector, plain().with_breaker(breaker));
    break_it(&server, &connector).await;
    break_it(&server, &connector).await;
    until(&server, |status| (status.breaker == BreakerState::Open).then_some(())).await;
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    sleep(seconds(31)).await;
    let watch = server.watch();
    let (result, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
        let request = peer.expect("tools/call").await;
        assert_eq!(watch.borrow().breaker, BreakerState::HalfOpen);
        peer.respond(request.id(), json!({"content": []})).await;
    });
    result.unwrap();
    assert_eq!(watch.borrow().breaker, BreakerState::Closed);
    assert!(watch.borrow().state.is_ready(), "nothing else has changed with it");
    let told: Vec<_> = std::iter::from_fn(|| bench.events.try_recv().ok())
        .filter_map(|event| match event {
            ServerEvent::BreakerChanged { status } => Some(status.breaker),
            _ => None,
        })
        .collect();
    assert_eq!(told, [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_told_how_much_it_has_missed_and_slows_nothing() {
    let supervisor = Supervisor::start(&Handle::current(), SupervisorOptions::default().with_events(16));
    let (mut slow, mut quick) = (supervisor.events(), supervisor.events());
    let connector = Arc::new(MemoryConnector::new());
    let options = plain().with_startup(Startup::Disabled);
    let server = supervisor.add(ServerSpec::new("one", connector).with_options(options)).unwrap();
    let began = Instant::now();
    quick.recv().await.unwrap(); // it is switched off
    let mut told = 1;
    for _ in 0..100 {
        for switch in [ServerHandle::enable, ServerHandle::disable] {
            switch(&server);
            server.settled(Instant::now()).await;
            quick.recv().await.unwrap();
            told += 1;
        }
    }
    assert_eq!(began.elapsed(), seconds(0));
    let Err(RecvError::Lagged(missed)) = slow.recv().await else { panic!("it has missed nothing") };
    let kept = std::iter::from_fn(|| slow.try_recv().ok()).count() as u64;
    assert_eq!((missed + kept, kept), (told, 16));
    assert!(matches!(slow.try_recv(), Err(TryRecvError::Empty)));
    supervisor.shutdown().await;
}
