//! Calls that time out or are dropped are really over.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::task::Poll;

use mcp_proto::{CallTool, RequestId};
use mcp_session::{Call, CallError, CallOptions, CallOutcome, Gate, Session, SessionOptions};
use mcp_transport::Dispatch;
use mcp_transport::testing::{FaultTransport, MemoryOptions, memory_with};
use serde_json::json;
use support::*;
use tokio::task::JoinSet;
use tokio::time::Instant;

fn call(session: &Session, timeout: u64) -> Call<CallTool> {
    session.call(CallTool::new("any"), CallOptions::default().with_timeout(seconds(timeout)))
}

fn number(id: &RequestId) -> i64 {
    let RequestId::Number(number) = id else { panic!("our ids are numbers") };
    *number
}

async fn assert_next_call_works(it: &Fixture) {
    let (result, ()) = tokio::join!(call(&it.session, 60), async {
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), said("next")).await;
    });
    result.unwrap();
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn f123_s93_a_time_out_is_told_once_with_the_id_in_both_eras() {
    for it in [legacy().await, modern().await] {
        let began = Instant::now();
        let (outcome, request) = tokio::join!(call(&it.session, 7), it.peer.expect("tools/call"));
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, CallError::Timeout { dispatch: Dispatch::MayHaveLeft, waited } if waited == seconds(7))
        );
        assert_eq!(error.outcome(), CallOutcome::Unknown);
        assert_eq!(began.elapsed(), seconds(7));
        let cancel = it.peer.expect("notifications/cancelled").await;
        assert_eq!(cancel.params()["requestId"], json!(request.id()));
        assert_eq!(cancel.at, began + seconds(7));
        assert_eq!(it.session.counters().cancels_sent, 1);
        assert_next_call_works(&it).await;
    }
}

// S-93: nothing of a call that has timed out is left, and the server was told.
#[tokio::test(start_paused = true)]
async fn f128_a_thousand_timed_out_calls_leave_nothing_behind() {
    const LIMIT: usize = 64;
    let it = legacy().await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::new(LIMIT).unwrap(), 1000);
    let mut calls = JoinSet::new();
    for _ in 0..1000 {
        let gate = gate.clone();
        calls.spawn(async move {
            let live = gate.enter(Instant::now() + seconds(3600)).await.unwrap();
            live.call(CallTool::new("silent"), CallOptions::default().with_timeout(seconds(1))).await
        });
    }
    let server = async {
        let mut requests = BTreeSet::new();
        let mut cancels = BTreeSet::new();
        while cancels.len() < 1000 {
            let frame = it.peer.receive().await;
            match frame.method() {
                Some("tools/call") => assert!(requests.insert(number(&frame.id()))),
                Some("notifications/cancelled") => {
                    assert!(cancels.insert(frame.params()["requestId"].as_i64().unwrap()), "told twice");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(requests, cancels);
    };
    let (outcomes, ()) = tokio::join!(calls.join_all(), server);
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(CallError::is_timeout)));
    assert_gate_quiescent(&gate);
    let began = Instant::now();
    assert_next_call_works(&it).await;
    assert_eq!(began.elapsed(), seconds(0), "the good call has to wait for nothing");
    assert_eq!(it.session.counters().cancels_sent, 1000);
}

#[tokio::test(start_paused = true)]
async fn i9_slot_and_permit_are_free_before_the_time_out_can_be_seen() {
    let it = legacy().await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 1);
    let live = gate.enter(soon()).await.unwrap();
    let options = CallOptions::default().with_timeout(seconds(1));
    let mut first = ByHand::new(live.call(CallTool::new("silent"), options));
    assert!(first.poll().is_pending());
    it.peer.expect("tools/call").await;
    // Nobody polls the call; its time is up all the same, and the next one gets the only permit.
    let _second = gate.enter(Instant::now() + seconds(2)).await.unwrap();
    assert_quiescent(&it.session);
    it.peer.expect("notifications/cancelled").await;
    assert!(matches!(first.poll(), Poll::Ready(Err(CallError::Timeout { .. }))));
}

/// How far a call has come when it is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Point {
    NeverPolled,
    WaitingForTheQueue,
    InTheQueue,
    Written,
    Answered,
    TimedOut,
}

// S-93, S-94: the same of a call that was dropped, and nothing is cancelled that does not run.
#[tokio::test(start_paused = true)]
async fn f129_i10_a_dropped_call_is_cancelled_exactly_once_if_and_only_if_it_was_written() {
    use Point::*;
    for point in [NeverPolled, WaitingForTheQueue, InTheQueue, Written, Answered, TimedOut] {
        let it = legacy_with(SessionOptions::default(), MemoryOptions::default().with_queue(1)).await;
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::new(2).unwrap(), 0);
        let mut blocker = ByHand::new(call(&it.session, 100));
        if matches!(point, WaitingForTheQueue | InTheQueue) {
            it.peer.pause_reading();
        }
        if point == WaitingForTheQueue {
            assert!(blocker.poll().is_pending());
        }
        let live = gate.enter(soon()).await.unwrap();
        let options = CallOptions::default().with_timeout(seconds(5));
        let mut dropped = ByHand::new(live.call(CallTool::new("dropped"), options));
        if point != NeverPolled {
            assert!(dropped.poll().is_pending(), "{point:?}");
        }
        match point {
            Answered => {
                let request = it.peer.expect("tools/call").await;
                it.peer.respond(request.id(), said("x")).await;
                settle().await;
            }
            TimedOut => tokio::time::sleep(seconds(6)).await,
            _ => {}
        }
        assert_eq!(
            it.peer.queued(),
            usize::from(matches!(point, WaitingForTheQueue | InTheQueue)),
            "{point:?}"
        );
        drop(dropped);
        assert_gate_quiescent(&gate);
        drop(blocker);
        assert_quiescent(&it.session);
        it.peer.resume();
        settle().await;
        let expected: &[&str] = match point {
            NeverPolled | WaitingForTheQueue | InTheQueue => &[],
            Answered => &["tools/call"],
            Written | TimedOut => &["tools/call", "notifications/cancelled"],
        };
        assert_eq!(methods(&it.peer)[2..], *expected, "{point:?}");
    }
}

/// Any order of calling, dropping, answering, expiring and blocking the way: a request that has left
/// ends by an answer or by exactly one cancel, and nothing is left.
#[tokio::test(start_paused = true)]
async fn f129_in_any_order_of_events_each_request_is_answered_or_cancelled_once() {
    let mut runs_without_loss = 0;
    for seed in 1..=300_u64 {
        let mut random = Random(seed);
        let memory = MemoryOptions::default().with_queue(3).with_window(4).with_reserve(64);
        let it = legacy_with(SessionOptions::default(), memory).await;
        let mut calls: Vec<(i64, ByHand<Call<CallTool>>)> = Vec::new();
        let mut next_id = 2;
        let (mut succeeded, mut answered) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..60 {
            match random.below(8) {
                0..3 => {
                    calls.push((next_id, ByHand::new(call(&it.session, 1 + random.below(20)))));
                    next_id += 1;
                }
                3 if !calls.is_empty() => {
                    let index = usize::try_from(random.below(calls.len() as u64)).unwrap();
                    drop(calls.swap_remove(index));
                }
                4 => {
                    if let Some(frame) = it.peer.transcript().last()
                        && frame.method() == Some("tools/call")
                        && answered.insert(number(&frame.id()))
                    {
                        it.peer.respond(frame.id(), said("x")).await;
                    }
                }
                5 => it.peer.pause_reading(),
                6 => it.peer.resume(),
                _ => tokio::time::sleep(seconds(random.below(4))).await,
            }
            settle().await;
            // Takes a frame out of the window, if there is one.
            let _ = tokio::time::timeout(seconds(0), it.peer.next()).await;
            if !it.session.is_open() {
                // A cancel that could not be written in time has ended the connection.
                break;
            }
            // Not every call is polled every time.
            calls.retain_mut(|(id, call)| match call.poll_if(random.below(3) > 0) {
                Poll::Ready(result) => {
                    assert!(result.is_err() || succeeded.insert(*id));
                    false
                }
                Poll::Pending => true,
            });
        }
        let was_open = it.session.is_open();
        calls.clear();
        assert_quiescent(&it.session);
        it.peer.resume();
        while let Ok(Some(_)) = tokio::time::timeout(seconds(0), it.peer.next()).await {}
        let cancelled = cancelled_ids(&it.peer);
        let cancelled_once: BTreeSet<i64> = cancelled.iter().copied().collect();
        assert_eq!(cancelled.len(), cancelled_once.len(), "seed {seed}: told twice");
        let left: BTreeSet<i64> = it
            .peer
            .transcript()
            .iter()
            .filter(|frame| frame.method() == Some("tools/call"))
            .map(|frame| number(&frame.id()))
            .collect();
        assert!(cancelled_once.is_subset(&left), "seed {seed}: cancelled what never left");
        assert!(cancelled_once.is_disjoint(&succeeded), "seed {seed}: cancelled what was answered");
        if was_open {
            runs_without_loss += 1;
            let ended: BTreeSet<i64> = cancelled_once.union(&answered).copied().collect();
            assert_eq!(left, ended, "seed {seed}: neither answered nor cancelled");
        }
    }
    assert!(runs_without_loss >= 50, "only {runs_without_loss} seeds kept their connection");
}

#[tokio::test(start_paused = true)]
async fn f130_a_call_whose_time_is_up_in_the_queue_of_the_gate_is_never_sent() {
    let it = legacy().await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let busy = gate.enter(soon()).await.unwrap();
    let refused = gate.enter(Instant::now() + seconds(3)).await.unwrap_err();
    let error = refused.into_call_error(seconds(3));
    assert!(matches!(error, CallError::QueueTimeout { .. }) && error.is_timeout());
    assert_eq!(error.outcome(), CallOutcome::NotSent);
    drop(busy);
    assert_gate_quiescent(&gate);
    assert_eq!(methods(&it.peer)[2..], [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn f130_a_call_whose_time_is_up_in_the_queue_of_the_transport_is_never_sent() {
    let it = legacy_with(SessionOptions::default(), MemoryOptions::default().with_queue(1)).await;
    it.peer.pause_reading();
    let began = Instant::now();
    // The first fills the queue, the second waits for a place in it.
    let (first, second) = tokio::join!(call(&it.session, 3), call(&it.session, 2));
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert!(matches!(error, CallError::Timeout { dispatch: Dispatch::NotSent, .. }), "{error:?}");
        assert_eq!(error.outcome(), CallOutcome::NotSent);
    }
    assert_eq!(began.elapsed(), seconds(3));
    it.peer.resume();
    assert_next_call_works(&it).await;
    assert_eq!(methods(&it.peer)[2..], ["tools/call"], "only the last call was ever seen");
}

#[tokio::test(start_paused = true)]
async fn f130_a_request_that_is_still_being_handed_over_never_slips_out_later() {
    fail_instead_of_hanging();
    let (connection, peer) = memory_with(MemoryOptions::default());
    let (connection, faults) = FaultTransport::wrap(connection);
    let (opening, driver) =
        mcp_session::open(connection, SessionOptions::default().with_era(mcp_session::EraPolicy::Legacy));
    let _driver = tokio::spawn(driver.run());
    let (session, ()) = tokio::join!(opening.handshake(soon()), accept_initialize(&peer, "2025-11-25"));
    let session = session.unwrap();
    faults.delay_sends(seconds(10));
    let mut unpolled = ByHand::new(call(&session, 5));
    assert!(unpolled.poll().is_pending());
    tokio::time::sleep(seconds(30)).await;
    let Poll::Ready(Err(error)) = unpolled.poll() else { panic!("it has not ended") };
    assert!(matches!(error, CallError::Timeout { dispatch: Dispatch::NotSent, .. }), "{error:?}");
    assert_eq!(methods(&peer), ["initialize", "notifications/initialized"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_polled_too_late_is_not_sent() {
    let it = legacy().await;
    let late = call(&it.session, 1);
    tokio::time::sleep(seconds(2)).await;
    let error = late.await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { dispatch: Dispatch::NotSent, .. }), "{error:?}");
    assert_eq!(methods(&it.peer)[2..], [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn f131_a_reply_that_was_read_before_the_deadline_wins_also_if_it_is_seen_after_it() {
    let it = legacy().await;
    let mut call = ByHand::new(call(&it.session, 5));
    assert!(call.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), said("just in time")).await;
    settle().await;
    tokio::time::sleep(seconds(60)).await;
    assert!(matches!(call.poll(), Poll::Ready(Ok(_))));
    assert_eq!(cancelled_ids(&it.peer), Vec::<i64>::new());
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn f131_at_the_same_instant_there_is_exactly_one_outcome() {
    // The driver is polled by hand, so that reply and deadline are both there when it looks.
    let (opening, driver, peer) = unopened(
        SessionOptions::default().with_era(mcp_session::EraPolicy::Legacy),
        MemoryOptions::default(),
    );
    let mut driver = ByHand::new(driver.run());
    let mut opening = ByHand::new(opening.handshake(soon()));
    assert!(opening.poll().is_pending());
    let initialize = peer.expect("initialize").await;
    peer.respond(initialize.id(), initialize_result("2025-11-25")).await;
    assert!(driver.poll().is_pending());
    let Poll::Ready(Ok(session)) = opening.poll() else { panic!("no session") };
    peer.expect("notifications/initialized").await;

    let mut call = ByHand::new(call(&session, 5));
    assert!(call.poll().is_pending());
    assert!(driver.poll().is_pending());
    let request = peer.expect("tools/call").await;
    tokio::time::advance(seconds(5)).await;
    peer.respond(request.id(), said("at the deadline")).await;
    assert!(driver.poll().is_pending());
    assert!(matches!(call.poll(), Poll::Ready(Err(CallError::Timeout { .. }))));
    assert_eq!(cancelled_ids(&peer), [number(&request.id())]);
    assert_eq!(session.counters().late_replies, 1);
    assert_quiescent(&session);
}

#[tokio::test(start_paused = true)]
async fn f132_ten_thousand_calls_with_one_deadline_all_end_at_it() {
    const CALLS: usize = 10_000;
    let memory = MemoryOptions::default().with_queue(2 * CALLS).with_window(2 * CALLS);
    let it = legacy_with(SessionOptions::default().with_max_pending(CALLS), memory).await;
    let began = Instant::now();
    let deadline = began + seconds(30);
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let call = it.session.call(CallTool::new("any"), CallOptions::default().with_deadline(deadline));
        calls.spawn(async move { (call.await, Instant::now()) });
    }
    for (outcome, ended) in calls.join_all().await {
        assert!(outcome.unwrap_err().is_timeout());
        assert_eq!(ended, deadline);
    }
    assert_quiescent(&it.session);
    assert_eq!(cancelled_ids(&it.peer).into_iter().collect::<BTreeSet<_>>().len(), CALLS);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_limit_of_waiting_calls_the_next_one_is_refused_and_not_sent() {
    let it = legacy_with(SessionOptions::default().with_max_pending(2), MemoryOptions::default()).await;
    let mut waiting = [ByHand::new(call(&it.session, 9)), ByHand::new(call(&it.session, 9))];
    assert!(waiting.iter_mut().all(|call| call.poll().is_pending()));
    let error = call(&it.session, 9).await.unwrap_err();
    assert!(matches!(error, CallError::Overloaded) && error.is_retryable());
    assert_eq!(methods(&it.peer)[2..], ["tools/call", "tools/call"]);
    let [first, _second] = waiting;
    drop(first);
    let mut next = ByHand::new(call(&it.session, 9));
    assert!(next.poll().is_pending(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn f024_a_server_that_does_not_read_holds_nobody_up_and_is_given_up() {
    let it = legacy_with(SessionOptions::default(), MemoryOptions::default().with_window(0)).await;
    it.peer.pause_reading();
    let outcomes = tokio::join!(call(&it.session, 1), call(&it.session, 2));
    assert!(outcomes.0.unwrap_err().is_timeout() && outcomes.1.unwrap_err().is_timeout());
    // What was never written is taken back and needs no cancel: the connection stays.
    it.peer.resume();
    let server = async {
        let request = it.peer.expect("tools/call").await;
        it.peer.pause_reading();
        request
    };
    let (outcome, _) = tokio::join!(call(&it.session, 1), server);
    assert!(outcome.unwrap_err().is_timeout());
    // A cancel that cannot be written within 50 ms ends the connection.
    let began = Instant::now();
    let closed = it.session.closed().await;
    assert_eq!(*closed.reason(), mcp_transport::CloseReason::Stuck);
    assert_eq!(began.elapsed(), std::time::Duration::from_millis(50));
}

/// A small generator of test decisions (xorshift): a seed is a run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
