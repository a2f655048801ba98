//! Subscriptions of the legacy era: changed lists come unasked, resources are asked for one by one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use mcp_proto::SubscriptionFilter;
use mcp_session::{
    CallError, CallOutcome, ListKind, Session, SessionEvent, SubscribeOptions, Subscription, SubscriptionEnd,
    SubscriptionEvent,
};
use mcp_transport::testing::ScriptedPeer;
use mcp_transport::{CloseReason, Dispatch};
use serde_json::{Value, json};
use support::*;
use tokio::task::JoinHandle;
use tokio::time::Instant;

fn resources(uris: &[&str]) -> SubscriptionFilter {
    let mut wanted = SubscriptionFilter::default();
    wanted.resource_subscriptions = uris.iter().map(|uri| (*uri).to_owned()).collect();
    wanted
}

fn tools() -> SubscriptionFilter {
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    wanted
}

fn subscribe(session: &Session, uris: &[&str]) -> JoinHandle<Result<Subscription, CallError>> {
    let (session, wanted) = (session.clone(), resources(uris));
    tokio::spawn(async move { session.subscribe(wanted, SubscribeOptions::default()).await })
}

/// Agrees to the next request, which must be this one.
async fn agree(peer: &ScriptedPeer, method: &str, uri: &str) {
    let request = peer.expect(method).await;
    assert_eq!(request.params()["uri"], uri);
    peer.respond(request.id(), json!({})).await;
}

async fn open(it: &Fixture, uri: &str) -> Subscription {
    let opening = subscribe(&it.session, &[uri]);
    agree(&it.peer, "resources/subscribe", uri).await;
    opening.await.unwrap().unwrap()
}

async fn tell(peer: &ScriptedPeer, method: &str, params: Value) {
    peer.send(json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})).await;
}

async fn update(peer: &ScriptedPeer, uri: &str) {
    tell(peer, "resources/updated", json!({"uri": uri})).await;
}

#[track_caller]
fn assert_updated(event: Option<SubscriptionEvent>, uri: &str) {
    assert!(matches!(&event, Some(SubscriptionEvent::ResourceUpdated(told)) if told == uri), "{event:?}");
}

/// What was asked of the server about resources, in order: `+a` and `-a`.
fn asked(it: &Fixture) -> Vec<String> {
    let transcript = it.peer.transcript();
    let asked = transcript.iter().filter_map(|frame| {
        let sign = match frame.method()? {
            "resources/subscribe" => "+",
            "resources/unsubscribe" => "-",
            _ => return None,
        };
        Some(format!("{sign}{}", frame.params()["uri"].as_str().unwrap()))
    });
    asked.collect()
}

#[tokio::test(start_paused = true)]
async fn u129_changed_lists_come_unasked_to_every_subscription_and_to_the_session() {
    let it = legacy().await;
    let sent = it.peer.transcript().len();
    let mut one = it.session.subscribe(tools(), SubscribeOptions::default()).await.unwrap();
    let mut other = it.session.subscribe(tools(), SubscribeOptions::default()).await.unwrap();
    for _ in 0..100 {
        tell(&it.peer, "tools/list_changed", json!({})).await;
        tell(&it.peer, "prompts/list_changed", json!({})).await;
    }
    settle().await;
    for subscription in [&mut one, &mut other] {
        let event = subscription.next().await;
        assert!(matches!(event, Some(SubscriptionEvent::ListChanged(ListKind::Tools))), "{event:?}");
    }
    assert_eq!(it.session.next_event().await, Some(SessionEvent::ListChanged(ListKind::Tools)));
    settle().await;
    assert!(ByHand::new(one.next()).poll().is_pending(), "what was not wanted is not told");
    drop((one, other));
    settle().await;
    assert_eq!(it.peer.transcript().len(), sent, "nothing is sent for it");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_asked_for_once_and_taken_back_with_its_last_subscription() {
    let it = legacy().await;
    let mut one = open(&it, "a:").await;
    let mut other = subscribe(&it.session, &["a:", "b:", "a:"]);
    agree(&it.peer, "resources/subscribe", "b:").await;
    let mut both = (&mut other).await.unwrap().unwrap();
    update(&it.peer, "a:below").await;
    assert_updated(one.next().await, "a:below");
    assert_updated(both.next().await, "a:below");
    drop(one);
    settle().await;
    assert_eq!(asked(&it), ["+a:", "+b:"], "somebody holds it still");
    both.close();
    agree(&it.peer, "resources/unsubscribe", "a:").await;
    agree(&it.peer, "resources/unsubscribe", "b:").await;
    assert!(matches!(both.next().await, Some(SubscriptionEvent::Ended(SubscriptionEnd::Closed))));
    settle().await;
    assert_quiescent(&it.session);
    update(&it.peer, "a:").await;
    settle().await;
    let counters = it.session.counters();
    assert_eq!((counters.late_replies, counters.unknown_replies, counters.stray_notices), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_a_resource_is_taken_back_asks_for_it_after_that() {
    let it = legacy().await;
    drop(open(&it, "a:").await);
    let parting = it.peer.expect("resources/unsubscribe").await;
    let again = subscribe(&it.session, &["a:"]);
    settle().await;
    assert_eq!(asked(&it), ["+a:", "-a:"], "it waits for its turn");
    it.peer.respond(parting.id(), json!({})).await;
    agree(&it.peer, "resources/subscribe", "a:").await;
    let mut subscription = again.await.unwrap().unwrap();
    update(&it.peer, "a:").await;
    assert_updated(subscription.next().await, "a:");
}

#[tokio::test(start_paused = true)]
async fn who_comes_before_a_resource_is_taken_back_keeps_it() {
    let it = legacy().await;
    let first = open(&it, "a:").await;
    // The driver has no turn in between.
    drop(first);
    let mut again = ByHand::new(it.session.subscribe(resources(&["a:"]), SubscribeOptions::default()));
    let std::task::Poll::Ready(Ok(_subscription)) = again.poll() else { panic!("it has to wait") };
    settle().await;
    assert_eq!(asked(&it), ["+a:"]);
}

#[tokio::test(start_paused = true)]
async fn f129_what_is_given_up_halfway_is_cancelled_and_taken_back() {
    let it = legacy().await;
    let mut opening =
        ByHand::new(it.session.subscribe(resources(&["a:", "b:"]), SubscribeOptions::default()));
    assert!(opening.poll().is_pending());
    agree(&it.peer, "resources/subscribe", "a:").await;
    settle().await;
    assert!(opening.poll().is_pending());
    let second = it.peer.expect("resources/subscribe").await;
    drop(opening);
    it.peer.expect("notifications/cancelled").await;
    agree(&it.peer, "resources/unsubscribe", "a:").await;
    agree(&it.peer, "resources/unsubscribe", "b:").await;
    settle().await;
    assert_eq!(cancelled_ids(&it.peer), [second.value["id"].as_i64().unwrap()]);
    assert_quiescent(&it.session);
    // Nothing at all, if nothing was sent.
    drop(it.session.subscribe(resources(&["c:"]), SubscribeOptions::default()));
    settle().await;
    assert_eq!(asked(&it).len(), 4);
}

/// One that was asked for, one whose turn comes while nobody looks, and one that is in line when its time is up.
#[tokio::test(start_paused = true)]
async fn subscriptions_that_nobody_polls_keep_nobody_waiting() {
    let it = legacy().await;
    let began = Instant::now();
    let mut idle: Vec<_> = [&["a:", "z:"][..], &["b:"], &["c:"]]
        .into_iter()
        .map(|uris| ByHand::new(it.session.subscribe(resources(uris), SubscribeOptions::default())))
        .collect();
    assert!(idle.iter_mut().all(|opening| opening.poll().is_pending()));
    let other = subscribe(&it.session, &["d:"]);
    agree(&it.peer, "resources/subscribe", "a:").await;
    agree(&it.peer, "resources/subscribe", "b:").await;
    let slow = it.peer.expect("resources/subscribe").await;
    drop(idle.pop());
    it.peer.expect("notifications/cancelled").await;
    agree(&it.peer, "resources/subscribe", "d:").await;
    drop(other.await.unwrap().unwrap());
    agree(&it.peer, "resources/unsubscribe", "c:").await;
    agree(&it.peer, "resources/unsubscribe", "d:").await;
    assert_eq!(began.elapsed(), seconds(0));
    assert_eq!(cancelled_ids(&it.peer), [slow.value["id"].as_i64().unwrap()]);
    // They get what they have waited for, however late they look.
    tokio::time::sleep(seconds(60)).await;
    let std::task::Poll::Ready(Ok(_b)) = idle[1].poll() else { panic!("it was agreed to") };
    let std::task::Poll::Ready(Err(late)) = idle[0].poll() else { panic!("not in time") };
    assert!(matches!(late, CallError::Timeout { dispatch: Dispatch::NotSent, .. }), "{late:?}");
    agree(&it.peer, "resources/unsubscribe", "a:").await;
    settle().await;
    assert_eq!(asked(&it), ["+a:", "+b:", "+c:", "+d:", "-c:", "-d:", "-a:"]);
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_its_turn_ends_with_the_session() {
    for is_ours in [true, false] {
        let it = legacy().await;
        let (asked_for, in_line) = (subscribe(&it.session, &["a:"]), subscribe(&it.session, &["b:"]));
        it.peer.expect("resources/subscribe").await;
        if is_ours {
            it.session.close(soon()).await;
        } else {
            it.peer.close(CloseReason::EndOfStream);
        }
        for (opening, outcome) in [(asked_for, CallOutcome::Unknown), (in_line, CallOutcome::NotSent)] {
            let error = opening.await.unwrap().unwrap_err();
            assert!(error.is_session_gone() && error.outcome() == outcome, "{is_ours}: {error:?}");
        }
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_resource_ends_the_subscription_and_can_be_asked_for_again() {
    let it = legacy().await;
    let opening = subscribe(&it.session, &["a:", "b:"]);
    agree(&it.peer, "resources/subscribe", "a:").await;
    let request = it.peer.expect("resources/subscribe").await;
    it.peer.respond_error(request.id(), -32602, "no such resource").await;
    let error = opening.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Peer(_)), "{error:?}");
    agree(&it.peer, "resources/unsubscribe", "a:").await;
    drop(open(&it, "b:").await);
    settle().await;
    assert_eq!(asked(&it), ["+a:", "+b:", "-a:", "+b:", "-b:"]);
}

#[tokio::test(start_paused = true)]
async fn f124_a_server_that_does_not_agree_in_ten_seconds_ends_the_opening() {
    let it = legacy().await;
    let began = Instant::now();
    let opening = subscribe(&it.session, &["a:"]);
    let queued = subscribe(&it.session, &["b:"]);
    it.peer.expect("resources/subscribe").await;
    let error = opening.await.unwrap().unwrap_err();
    assert!(error.is_timeout() && error.outcome() == CallOutcome::Unknown, "{error:?}");
    let error = queued.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Timeout { dispatch: Dispatch::NotSent, .. }), "{error:?}");
    assert_eq!(began.elapsed(), seconds(10));
    it.peer.expect("notifications/cancelled").await;
    agree(&it.peer, "resources/unsubscribe", "a:").await;
    settle().await;
    assert_eq!(asked(&it), ["+a:", "-a:"]);
}

#[tokio::test(start_paused = true)]
async fn f125_subscriptions_end_with_their_session_once() {
    for is_ours in [true, false] {
        let it = legacy().await;
        let mut subscription = open(&it, "a:").await;
        update(&it.peer, "a:").await;
        settle().await;
        if is_ours {
            it.session.close(soon()).await;
        } else {
            it.peer.close(CloseReason::EndOfStream);
            it.session.closed().await;
        }
        assert_updated(subscription.next().await, "a:");
        let Some(SubscriptionEvent::Ended(end)) = subscription.next().await else { panic!("no end") };
        let SubscriptionEnd::SessionGone(closed) = &end else { panic!("{end:?}") };
        assert_eq!(*closed.reason() == CloseReason::Local, is_ours);
        assert!(!end.is_graceful() && subscription.next().await.is_none());
        let late = it.session.subscribe(tools(), SubscribeOptions::default()).await.unwrap_err();
        assert!(matches!(late, CallError::SessionGone { dispatch: Dispatch::NotSent, .. }), "{late:?}");
        drop(subscription);
        settle().await;
        assert_eq!(asked(&it), ["+a:"], "nothing is taken back from a server that is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_ends_the_session_although_resources_are_still_to_be_taken_back() {
    let it = legacy().await;
    let subscription = open(&it, "a:").await;
    drop(it.session);
    update(&it.peer, "a:").await;
    settle().await;
    assert!(!it.driver.is_finished(), "a subscription keeps its session");
    drop(subscription);
    assert_eq!(*it.driver.await.unwrap().reason(), CloseReason::Local);
}
