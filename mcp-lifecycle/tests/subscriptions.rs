//! Subscriptions of a supervised server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::num::NonZeroUsize;

use mcp_lifecycle::{CallError, ServerEvent, ServerHandle, ServerOptions};
use mcp_proto::SubscriptionFilter;
use mcp_session::{
    CallOptions, EraPolicy, ListKind, SessionOptions, SubscribeOptions, Subscription, SubscriptionEnd,
    SubscriptionEvent,
};
use mcp_transport::testing::{MemoryConnector, Received, ScriptedPeer};
use mcp_transport::{CloseReason, Exit};
use serde_json::{Value, json};
use support::{Bench, answer_tools, echo, plain, ready, until};
use tokio::task::JoinHandle;

/// A modern server, one call at a time.
fn modern() -> ServerOptions {
    plain()
        .with_session(SessionOptions::default().with_era(EraPolicy::Modern))
        .with_in_flight(NonZeroUsize::MIN)
}

async fn accept(peer: &ScriptedPeer, capabilities: Value) {
    let discover = peer.expect("server/discover").await;
    let result = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities,
    });
    peer.respond(discover.id(), result).await;
    answer_tools(peer).await;
}

fn subscribe(server: &ServerHandle) -> JoinHandle<Result<Subscription, CallError>> {
    let server = server.clone();
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    tokio::spawn(async move { server.subscribe(wanted, SubscribeOptions::default()).await })
}

async fn tell(peer: &ScriptedPeer, listen: &Received, method: &str) {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.value["id"]});
    let params = json!({"notifications": listen.params()["notifications"], "_meta": meta});
    peer.send(json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})).await;
}

#[tokio::test(start_paused = true)]
async fn f125_a_subscription_ends_with_its_connection_and_a_new_one_waits_for_the_next() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let mut opening = subscribe(&server);
    for _ in 0..2 {
        let peer = connector.next_peer().await;
        accept(&peer, json!({"tools": {"listChanged": true}})).await;
        let listen = peer.expect("subscriptions/listen").await;
        // It has no place of a call: the only one is free before and after it is open.
        assert_eq!(server.status().in_flight, 0);
        tell(&peer, &listen, "subscriptions/acknowledged").await;
        let mut subscription = opening.await.unwrap().unwrap();
        let (called, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
            let request = peer.expect("tools/call").await;
            peer.respond(request.id(), json!({"content": []})).await;
        });
        called.unwrap();
        tell(&peer, &listen, "tools/list_changed").await;
        let event = subscription.next().await;
        assert!(matches!(event, Some(SubscriptionEvent::ListChanged(ListKind::Tools))), "{event:?}");

        peer.close(CloseReason::Exited(Exit::Code(0)));
        let event = subscription.next().await;
        let Some(SubscriptionEvent::Ended(SubscriptionEnd::SessionGone(_))) = event else {
            panic!("{event:?}")
        };
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
        opening = subscribe(&server);
    }
    opening.abort();
    let told = std::iter::from_fn(|| bench.events.try_recv().ok());
    let changes = told.filter(|event| matches!(event, ServerEvent::ListChanged { .. })).count();
    assert_eq!(changes, 2, "whoever follows the events is told as well");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_server_does_not_tell_is_refused_and_harms_nothing() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let peer = connector.next_peer().await;
    accept(&peer, json!({"tools": {}})).await;
    ready(&server).await;
    let error = subscribe(&server).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, CallError::Session { error: mcp_session::CallError::Unsupported { .. }, .. }),
        "{error:?}"
    );
    assert_eq!((server.status().in_flight, server.status().state.is_ready()), (0, true));
    bench.end().await;
}
