//! Waiting until a gate has no call left.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::num::NonZeroUsize;

use futures_util::FutureExt;
use mcp_proto::CallTool;
use mcp_session::{CallOptions, Gate, GateError};
use support::{legacy, seconds, soon};

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
