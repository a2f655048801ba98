//! Callers, driver and server on several threads at once, on the real clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::{CallTool, RequestId};
use mcp_session::{CallError, CallOptions, CallOutcome, Gate, SessionOptions};
use mcp_transport::Dispatch;
use mcp_transport::testing::MemoryOptions;
use support::*;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Answers and deadlines fall together here again and again, with callers that give up in between:
/// still each call has one outcome, and the server has heard of each request once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f131_f127_replies_deadlines_drops_and_swaps_at_once_leave_one_outcome_each() {
    const CALLS: u64 = 4000;
    // So wide that a cancel never waits: on a busy machine that could end the connection.
    let memory = || MemoryOptions::default().with_window(10_000);
    let mut generations = Vec::new();
    for _ in 0..4 {
        generations.push(legacy_with(SessionOptions::default(), memory()).await);
    }
    let gate = Gate::new(NonZeroUsize::new(64).unwrap(), usize::try_from(CALLS).unwrap());
    gate.publish(0, generations[0].session.clone());

    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let gate = Arc::clone(&gate);
        calls.spawn(async move {
            let Ok(live) = gate.enter(Instant::now() + seconds(60)).await else { return None };
            let options = CallOptions::default().with_timeout(Duration::from_micros(number * 7919 % 3000));
            let call = live.call(CallTool::new(number.to_string()), options);
            if number % 5 == 0 {
                let patience = Duration::from_micros(number * 104_729 % 3000);
                return tokio::time::timeout(patience, call).await.ok().map(|outcome| (number, outcome));
            }
            Some((number, call.await))
        });
    }
    let mut servers = JoinSet::new();
    let mut sessions = Vec::new();
    for it in generations {
        sessions.push(it.session.clone());
        servers.spawn(async move {
            let (mut requests, mut cancels) = (BTreeMap::new(), Vec::new());
            while let Some(frame) = it.peer.next().await {
                match frame.request_id() {
                    Some(RequestId::Number(id)) => {
                        let number: u64 = frame.params()["name"].as_str().unwrap().parse().unwrap();
                        assert!(requests.insert(id, number).is_none(), "a request came twice");
                        it.peer.respond(id, said("x")).await;
                    }
                    _ => cancels.push(frame.params()["requestId"].as_i64().unwrap()),
                }
            }
            (requests, cancels)
        });
    }
    // The session is swapped while all that goes on.
    for (generation, session) in (1..).zip(&sessions[1..]) {
        settle_for(Duration::from_millis(20)).await;
        gate.retract(generation - 1);
        gate.publish(generation, session.clone());
    }

    let outcomes = calls.join_all().await;
    assert_gate_quiescent(&gate);
    let (mut answered, mut unsent) = (BTreeSet::new(), BTreeSet::new());
    for (number, outcome) in outcomes.into_iter().flatten() {
        match outcome {
            Ok(_) => {
                answered.insert(number);
            }
            Err(CallError::Timeout { dispatch: Dispatch::MayHaveLeft, .. }) => {}
            Err(error) => {
                assert_eq!(error.outcome(), CallOutcome::NotSent, "{error:?}");
                unsent.insert(number);
            }
        }
    }
    assert!(!answered.is_empty(), "some calls must have been answered");
    let mut told = 0;
    for session in &sessions {
        assert_quiescent(session);
        told += session.counters().cancels_sent;
        session.close(soon()).await;
    }
    let (mut heard, mut came) = (0, BTreeSet::new());
    for (requests, cancels) in servers.join_all().await {
        let once: BTreeSet<i64> = cancels.iter().copied().collect();
        assert_eq!(once.len(), cancels.len(), "a request was cancelled twice");
        assert!(once.iter().all(|id| requests.contains_key(id)), "a request was cancelled that never came");
        came.extend(requests.into_values());
        heard += cancels.len() as u64;
    }
    assert_eq!(told, heard);
    assert!(came.is_superset(&answered), "answered, but never asked");
    assert!(came.is_disjoint(&unsent), "said to be unsent, but it came");
}
