//! Waiting until a gate has no call left.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use mcp_proto::CallTool;
use mcp_session::{CallOptions, Gate, GateError};
use support::{ByHand, legacy, seconds, soon};

#[tokio::test(start_paused = true)]
async fn a_closed_gate_is_drained_when_the_last_call_has_ended() {
    let fixture = legacy().await;
    let gate = Gate::alone(fixture.session.clone(), NonZeroUsize::new(2).unwrap(), 4);
    let echo = CallTool::new("echo");
    let mut answered = Box::pin(gate.enter(soon()).await.unwrap().call_ref(&echo, CallOptions::default()));
    let timeout = CallOptions::default().with_timeout(seconds(3));
    let mut unanswered = Box::pin(gate.enter(soon()).await.unwrap().call(CallTool::new("hang"), timeout));
    assert!(answered.as_mut().now_or_never().is_none());
    assert!(unanswered.as_mut().now_or_never().is_none());

    gate.close();
    assert_eq!(gate.enter(soon()).await.unwrap_err(), GateError::Closed);
    let mut drained = Box::pin(gate.drained());
    assert!(drained.as_mut().now_or_never().is_none());
    let request = fixture.peer.expect("tools/call").await;
    fixture.peer.respond(request.id(), serde_json::json!({"content": []})).await;
    answered.await.unwrap();
    assert!(drained.as_mut().now_or_never().is_none(), "one is left");

    // Nobody polls the other call: its deadline alone ends it.
    drained.await;
    assert!(gate.idle());
}

#[tokio::test(start_paused = true)]
async fn a_gate_without_calls_is_drained_at_once() {
    let gate = Gate::new(NonZeroUsize::MIN, 0);
    assert!(gate.drained().now_or_never().is_some());
}

/// How a caller leaves the queue of a gate that is being drained, with a permit that it never sees.
enum Leaving {
    /// It finds the gate closed.
    Closed,
    /// It goes away.
    Dropped,
    /// It finds no session.
    Retracted,
}

#[tokio::test(start_paused = true)]
async fn a_permit_on_its_way_to_a_caller_that_is_refused_is_waited_for_and_its_return_is_told() {
    for leaving in [Leaving::Closed, Leaving::Dropped, Leaving::Retracted] {
        let fixture = legacy().await;
        let gate = Gate::alone(fixture.session.clone(), NonZeroUsize::MIN, 4);
        let by_hand = || {
            let gate = Arc::clone(&gate);
            ByHand::new(async move { gate.enter(soon()).await })
        };
        let first = gate.enter(soon()).await.unwrap();
        let mut second = by_hand();
        assert!(second.poll().is_pending());
        // The permit goes straight to the second caller, who has not looked yet.
        drop(first);
        match leaving {
            Leaving::Retracted => gate.retract(0),
            Leaving::Closed | Leaving::Dropped => gate.close(),
        }
        let mut drained = ByHand::new(gate.drained());
        assert!(drained.poll().is_pending());
        match leaving {
            Leaving::Closed => assert!(matches!(second.poll(), Poll::Ready(Err(GateError::Closed)))),
            Leaving::Dropped => drop(second),
            Leaving::Retracted => assert!(matches!(second.poll(), Poll::Ready(Err(GateError::NotLive)))),
        }
        assert_eq!(drained.wakes(), 1, "told once");
        assert!(drained.poll().is_ready() && gate.idle());
    }
}
