//! The door of a server: permits, and the session of one generation.
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
use std::sync::Arc;

use mcp_proto::{CallTool, GetPrompt, ListPrompts, ListResources, ReadResource, Request};
use mcp_session::{CallError, CallOptions, CallOutcome, Gate, GateError, ListLimits, LiveSession};
use mcp_transport::Dispatch;
use serde_json::json;
use support::*;
use tokio::time::Instant;

fn serial(queue: usize) -> Arc<Gate> {
    Gate::new(NonZeroUsize::MIN, queue)
}

fn options() -> CallOptions {
    CallOptions::default().with_timeout(seconds(30))
}

#[track_caller]
fn assert_not_sent<T: std::fmt::Debug>(result: Result<T, CallError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, CallError::SessionGone { dispatch: Dispatch::NotSent, .. }), "{error:?}");
    assert_eq!(error.outcome(), CallOutcome::NotSent);
    assert!(error.is_session_gone() && error.is_retryable());
}

/// Uses a live session for one of the five operations.
async fn operate(kind: usize, live: LiveSession) -> Result<(), CallError> {
    async fn call<R: Request>(live: LiveSession, request: R) -> Result<(), CallError> {
        live.call(request, options()).await.map(drop)
    }
    match kind {
        0 => call(live, CallTool::new("x")).await,
        1 => live.list::<ListResources>(options(), ListLimits::default()).await.map(drop),
        2 => call(live, ReadResource::new("file:///x")).await,
        3 => live.list::<ListPrompts>(options(), ListLimits::default()).await.map(drop),
        _ => call(live, GetPrompt::new("x")).await,
    }
}

const OPERATIONS: [(&str, &str); 5] = [
    ("tools/call", r#"{"content":[]}"#),
    ("resources/list", r#"{"resources":[]}"#),
    ("resources/read", r#"{"contents":[]}"#),
    ("prompts/list", r#"{"prompts":[]}"#),
    ("prompts/get", r#"{"messages":[]}"#),
];

#[tokio::test(start_paused = true)]
async fn f127_i6_a_session_swapped_before_the_permit_means_the_new_session_in_all_five_operations() {
    for (kind, (method, result)) in OPERATIONS.into_iter().enumerate() {
        let (old, new) = (legacy().await, legacy().await);
        let gate = serial(8);
        gate.publish(1, old.session.clone());
        let holder = gate.enter(soon()).await.unwrap();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move {
                let live = gate.enter(soon()).await.unwrap();
                assert_eq!(live.generation(), 2);
                operate(kind, live).await
            }
        });
        settle().await;
        assert_eq!(gate.queued(), 1);
        gate.retract(1);
        gate.publish(2, new.session.clone());
        drop(holder);
        let request = new.peer.expect(method).await;
        new.peer.respond(request.id(), serde_json::from_str(result).unwrap()).await;
        waiting.await.unwrap().unwrap();
        assert_eq!(methods(&old.peer)[2..], [] as [&str; 0], "{method}");
        assert_gate_quiescent(&gate);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_session_may_be_published_again_as_long_as_it_was_not_retracted() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    gate.publish(2, it.session.clone());
    let live = gate.enter(soon()).await.unwrap();
    assert_eq!(live.generation(), 2);
    let (called, ()) = tokio::join!(operate(0, live), async {
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), json!({"content": []})).await;
    });
    called.unwrap();
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn f127_without_a_new_session_the_waiting_call_is_told_that_nothing_was_sent() {
    let old = legacy().await;
    let gate = serial(8);
    gate.publish(1, old.session.clone());
    let holder = gate.enter(soon()).await.unwrap();
    let mut waiting = ByHand::new(gate.enter(soon()));
    assert!(waiting.poll().is_pending());
    gate.retract(1);
    drop(holder);
    let std::task::Poll::Ready(refused) = waiting.poll() else { panic!("still waiting") };
    assert_eq!(refused.unwrap_err(), GateError::NotLive);
    drop(waiting);
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_was_closed_keeps_no_session_that_is_published_too_late() {
    let late = legacy().await;
    let gate = serial(8);
    gate.close();
    gate.publish(1, late.session.clone());
    assert_eq!(gate.enter(soon()).await.unwrap_err(), GateError::Closed);
    assert!(format!("{gate:?}").contains("session: None"), "{gate:?}");
}

#[tokio::test(start_paused = true)]
async fn f127_i7_a_session_swapped_between_permit_and_send_sends_nothing_in_all_five_operations() {
    for (kind, (method, _)) in OPERATIONS.into_iter().enumerate() {
        let (old, new) = (legacy().await, legacy().await);
        let gate = serial(8);
        gate.publish(1, old.session.clone());
        let live = gate.enter(soon()).await.unwrap();
        gate.retract(1);
        gate.publish(2, new.session.clone());
        assert_not_sent(operate(kind, live).await);
        for peer in [&old.peer, &new.peer] {
            assert_eq!(methods(peer)[2..], [] as [&str; 0], "{method}");
        }
        assert_gate_quiescent(&gate);
        assert!(old.session.is_open(), "taking a session back does not close it");
    }
}

#[tokio::test(start_paused = true)]
async fn f127_a_call_that_was_made_but_not_polled_is_refused_as_well() {
    let old = legacy().await;
    let gate = serial(8);
    gate.publish(1, old.session.clone());
    let call = gate.enter(soon()).await.unwrap().call(CallTool::new("x"), options());
    gate.retract(1);
    assert_not_sent(call.await);
    assert_eq!(methods(&old.peer)[2..], [] as [&str; 0]);
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn publishing_a_new_session_takes_the_old_one_back() {
    let (old, new) = (legacy().await, legacy().await);
    let gate = serial(8);
    gate.publish(1, old.session.clone());
    let live = gate.enter(soon()).await.unwrap();
    gate.publish(2, new.session.clone());
    assert_not_sent(operate(0, live).await);
    gate.publish(1, old.session.clone());
    assert_eq!(gate.enter(soon()).await.unwrap().generation(), 2, "an older generation never comes back");
    gate.retract(1);
    assert_eq!(gate.enter(soon()).await.unwrap().generation(), 2, "taking back another one is no-op");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_goes_on_after_its_session_was_taken_back() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    let call = gate.enter(soon()).await.unwrap().call(CallTool::new("x"), options());
    let (result, ()) = tokio::join!(call, async {
        let request = it.peer.expect("tools/call").await;
        gate.retract(1);
        it.peer.respond(request.id(), said("fine")).await;
    });
    result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn i11_queue_time_and_call_time_are_different_errors() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    let holder = gate.enter(soon()).await.unwrap();
    let began = Instant::now();
    assert_eq!(gate.enter(began + seconds(3)).await.unwrap_err(), GateError::Timeout);
    assert_eq!(began.elapsed(), seconds(3));
    let error = holder.call(CallTool::new("x"), CallOptions::default().with_timeout(seconds(2))).await;
    assert!(matches!(error.unwrap_err(), CallError::Timeout { dispatch: Dispatch::MayHaveLeft, .. }));
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once() {
    let it = legacy().await;
    let gate = serial(2);
    gate.publish(1, it.session.clone());
    let holder = gate.enter(soon()).await.unwrap();
    let mut waiting = [ByHand::new(gate.enter(soon())), ByHand::new(gate.enter(soon()))];
    assert!(waiting.iter_mut().all(|place| place.poll().is_pending()));
    assert_eq!(gate.queued(), 2);
    assert_eq!(gate.enter(soon()).await.unwrap_err(), GateError::Overloaded);
    let [first, second] = waiting;
    drop(first);
    let mut third = ByHand::new(gate.enter(soon()));
    assert!(third.poll().is_pending(), "a place in the queue is free again");
    drop((second, third, holder));
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_are_served_in_the_order_they_came() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    let holder = gate.enter(soon()).await.unwrap();
    let mut first = ByHand::new(gate.enter(soon()));
    let mut second = ByHand::new(gate.enter(soon()));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    drop(holder);
    let mut late = ByHand::new(gate.enter(soon()));
    assert!(late.poll().is_pending(), "nobody overtakes the queue");
    assert!(second.poll().is_pending());
    assert!(first.poll().is_ready());
    assert!(second.poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_sends_everybody_away() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    let live = gate.enter(soon()).await.unwrap();
    let mut waiting = ByHand::new(gate.enter(soon()));
    assert!(waiting.poll().is_pending());
    gate.close();
    let std::task::Poll::Ready(refused) = waiting.poll() else { panic!("still waiting") };
    assert_eq!(refused.unwrap_err(), GateError::Closed);
    drop(waiting);
    assert_eq!(gate.enter(soon()).await.unwrap_err(), GateError::Closed);
    assert_not_sent(operate(0, live).await);
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn a_list_holds_one_permit_from_its_first_page_to_its_last() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    let live = gate.enter(soon()).await.unwrap();
    let mut other = ByHand::new(gate.enter(soon()));
    let list = live.list::<ListPrompts>(options(), ListLimits::default());
    let server = async {
        for cursor in [Some("a"), Some("b"), None] {
            let request = it.peer.expect("prompts/list").await;
            assert!(other.poll().is_pending(), "the permit is held between pages");
            it.peer.respond(request.id(), json!({"prompts": [], "nextCursor": cursor})).await;
        }
    };
    let (listed, ()) = tokio::join!(list, server);
    assert_eq!(listed.unwrap().truncated, None);
    assert!(other.poll().is_ready(), "and free afterwards");
}

#[tokio::test(start_paused = true)]
async fn g141_a_list_whose_session_is_taken_back_between_two_pages_sends_no_further_page() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    let live = gate.enter(soon()).await.unwrap();
    let list = live.list::<ListPrompts>(options(), ListLimits::default());
    let server = async {
        let request = it.peer.expect("prompts/list").await;
        gate.retract(1);
        it.peer.respond(request.id(), json!({"prompts": [], "nextCursor": "more"})).await;
    };
    let (listed, ()) = tokio::join!(list, server);
    assert_not_sent(listed);
    assert_eq!(methods(&it.peer)[2..], ["prompts/list"]);
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn a_list_page_that_times_out_frees_the_permit_although_nobody_polls_the_list() {
    let it = legacy().await;
    let gate = serial(8);
    gate.publish(1, it.session.clone());
    let live = gate.enter(soon()).await.unwrap();
    let options = CallOptions::default().with_timeout(seconds(1));
    let mut list = ByHand::new(live.list::<ListPrompts>(options, ListLimits::default()));
    assert!(list.poll().is_pending());
    assert!(gate.enter(Instant::now() + seconds(2)).await.is_ok());
}
