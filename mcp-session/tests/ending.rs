//! How a session ends, and what its calls are told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use mcp_proto::CallTool;
use mcp_session::{Call, CallError, CallOptions, CallOutcome, Session, SessionOptions};
use mcp_transport::testing::MemoryOptions;
use mcp_transport::{CloseReason, Dispatch, Ending, Exit};
use support::*;
use tokio::time::Instant;

fn call(session: &Session) -> Call<CallTool> {
    session.call(CallTool::new("any"), CallOptions::default())
}

#[track_caller]
fn assert_gone<T: std::fmt::Debug>(result: Result<T, CallError>, outcome: CallOutcome, reason: &CloseReason) {
    let error = result.unwrap_err();
    let CallError::SessionGone { closed, .. } = &error else { panic!("{error:?}") };
    assert_eq!((error.outcome(), closed.reason()), (outcome, reason));
}

#[tokio::test(start_paused = true)]
async fn f017_i8_when_the_server_dies_every_call_ends_at_once_and_before_the_end_is_told() {
    let it = legacy().await;
    let calls: Vec<_> = (0..3).map(|_| tokio::spawn(call(&it.session))).collect();
    for _ in &calls {
        it.peer.expect("tools/call").await;
    }
    let watcher = tokio::spawn({
        let (closed, session) = (it.session.closed(), it.session.clone());
        async move {
            let closed = closed.await;
            assert_eq!(session.in_flight(), 0, "the end is told before the calls");
            closed
        }
    });
    let began = Instant::now();
    let reason = CloseReason::Exited(Exit::Signal(11));
    it.peer.close(reason.clone());
    for call in calls {
        assert_gone(call.await.unwrap(), CallOutcome::Unknown, &reason);
    }
    assert_eq!(began.elapsed(), seconds(0));
    assert_eq!(*watcher.await.unwrap().reason(), reason);
    assert_eq!(*it.driver.await.unwrap().reason(), reason);
    assert_eq!(cancelled_ids(&it.peer), Vec::<i64>::new(), "nobody is there to be told");
    assert_gone(call(&it.session).await, CallOutcome::NotSent, &reason);
    assert!(!it.session.is_open());
}

#[tokio::test(start_paused = true)]
async fn i8_the_end_is_told_last() {
    let it = legacy().await;
    let order = WakeOrder::default();
    let mut closed = ByHand::noted(it.session.closed(), "closed", &order);
    let mut calls = ["first", "second"].map(|name| ByHand::noted(call(&it.session), name, &order));
    assert!(closed.poll().is_pending() && calls.iter_mut().all(|call| call.poll().is_pending()));
    it.peer.close(CloseReason::EndOfStream);
    it.driver.await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["first", "second", "closed"]);
    assert!(closed.poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn f028_a_call_that_was_not_written_when_the_server_died_was_not_sent() {
    let it = legacy_with(SessionOptions::default(), MemoryOptions::default().with_queue(1)).await;
    let sent = tokio::spawn(call(&it.session));
    it.peer.expect("tools/call").await;
    it.peer.pause_reading();
    let mut queued = ByHand::new(call(&it.session));
    let mut waiting = ByHand::new(call(&it.session));
    assert!(queued.poll().is_pending() && waiting.poll().is_pending());
    it.peer.close(CloseReason::EndOfStream);
    assert_gone(sent.await.unwrap(), CallOutcome::Unknown, &CloseReason::EndOfStream);
    for call in [&mut queued, &mut waiting] {
        let std::task::Poll::Ready(result) = call.poll() else { panic!("still waiting") };
        assert_gone(result, CallOutcome::NotSent, &CloseReason::EndOfStream);
    }
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn closing_cancels_waiting_calls_refuses_new_ones_and_closes_the_transport() {
    let it = legacy().await;
    let running = tokio::spawn(call(&it.session));
    it.peer.expect("tools/call").await;
    it.peer.linger(seconds(1), Ending::Terminated);
    let began = Instant::now();
    let (report, again) = tokio::join!(it.session.close(soon()), it.session.close(soon()));
    assert_eq!((report.ending, began.elapsed()), (Ending::Terminated, seconds(1)));
    assert_eq!(report, again, "closing twice is closing once");
    assert_gone(running.await.unwrap(), CallOutcome::Unknown, &CloseReason::Local);
    assert_gone(call(&it.session).await, CallOutcome::NotSent, &CloseReason::Local);
    assert_eq!(methods(&it.peer)[2..], ["tools/call", "notifications/cancelled"]);
    assert_eq!(*it.driver.await.unwrap().reason(), CloseReason::Local);
    assert_eq!(*it.session.closed().await.reason(), CloseReason::Local);
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn the_first_reason_is_told_to_everybody() {
    let it = legacy().await;
    let running = tokio::spawn(call(&it.session));
    it.peer.expect("tools/call").await;
    it.peer.close(CloseReason::EndOfStream);
    it.driver.await.unwrap();
    it.session.close(soon()).await;
    assert_gone(running.await.unwrap(), CallOutcome::Unknown, &CloseReason::EndOfStream);
    assert_eq!(*it.session.closed().await.reason(), CloseReason::EndOfStream);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_driver_ends_the_session_and_nobody_hangs() {
    let it = legacy().await;
    let running = tokio::spawn(call(&it.session));
    it.peer.expect("tools/call").await;
    let events = tokio::spawn({
        let session = it.session.clone();
        async move { session.next_event().await }
    });
    settle().await;
    it.driver.abort();
    assert_gone(running.await.unwrap(), CallOutcome::Unknown, &CloseReason::Local);
    assert_eq!(events.await.unwrap(), None);
    assert_eq!(*it.session.closed().await.reason(), CloseReason::Local);
    assert_gone(call(&it.session).await, CallOutcome::NotSent, &CloseReason::Local);
    assert_quiescent(&it.session);
    it.session.close(soon()).await;
}

#[test]
fn a_driver_whose_runtime_is_gone_ends_the_session() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (mut call, it) = runtime.block_on(async {
        let it = legacy().await;
        let mut call = ByHand::new(call(&it.session));
        assert!(call.poll().is_pending());
        it.peer.expect("tools/call").await;
        (call, it)
    });
    drop(runtime);
    let std::task::Poll::Ready(result) = call.poll() else { panic!("the call hangs") };
    assert_gone(result, CallOutcome::Unknown, &CloseReason::Local);
    assert_eq!(call.wakes(), 1);
    drop(call);
    assert!(!it.session.is_open());
}

#[test]
fn a_call_may_be_dropped_outside_any_runtime() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (call, it) = runtime.block_on(async {
        let it = legacy().await;
        let mut call = ByHand::new(call(&it.session));
        assert!(call.poll().is_pending());
        it.peer.expect("tools/call").await;
        (call, it)
    });
    drop(call);
    assert_quiescent(&it.session);
    assert_eq!(cancelled_ids(&it.peer).len(), 1);
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_when_the_last_handle_is_gone() {
    let it = legacy().await;
    let clone = it.session.clone();
    let mut pending = ByHand::new(call(&it.session));
    assert!(pending.poll().is_pending());
    drop((it.session, clone));
    settle().await;
    assert!(!it.driver.is_finished(), "a call in progress keeps its session");
    drop(pending);
    assert_eq!(*it.driver.await.unwrap().reason(), CloseReason::Local);
    it.peer.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_dropped_half_way_goes_on() {
    let it = legacy().await;
    it.peer.linger(seconds(1), Ending::Clean);
    let mut closing = ByHand::new(it.session.close(soon()));
    assert!(closing.poll().is_pending());
    drop(closing);
    assert_gone(call(&it.session).await, CallOutcome::NotSent, &CloseReason::Local);
    it.driver.await.unwrap();
    it.peer.closed().await;
}

#[tokio::test(start_paused = true)]
async fn closing_returns_by_its_deadline_whatever_the_server_does() {
    let it = legacy().await;
    it.peer.linger(seconds(100), Ending::Killed);
    let began = Instant::now();
    let report = it.session.close(began + seconds(4)).await;
    assert_eq!((report.ending, began.elapsed()), (Ending::Abandoned, seconds(4)));
}

#[tokio::test(start_paused = true)]
async fn a_send_that_finds_the_connection_closed_was_not_sent() {
    fail_instead_of_hanging();
    let (connection, peer) = mcp_transport::testing::memory();
    let (connection, faults) = mcp_transport::testing::FaultTransport::wrap(connection);
    let options = SessionOptions::default().with_era(mcp_session::EraPolicy::Legacy);
    let (opening, driver) = mcp_session::open(connection, options);
    let _driver = tokio::spawn(driver.run());
    let (session, ()) = tokio::join!(opening.handshake(soon()), accept_initialize(&peer, "2025-11-25"));
    let session = session.unwrap();
    let broken = CloseReason::Broken("EPIPE".to_owned());
    faults.fail_sends(Some(broken.clone()));
    let result = call(&session).await;
    assert!(matches!(result, Err(CallError::SessionGone { dispatch: Dispatch::NotSent, .. })));
    assert_gone(result, CallOutcome::NotSent, &broken);
    assert_quiescent(&session);
}
