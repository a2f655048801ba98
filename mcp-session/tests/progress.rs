//! Progress: who sees it, how often, and what it prolongs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_proto::CallTool;
use mcp_session::{Call, CallError, CallOptions, Session, SessionOptions};
use mcp_transport::testing::ScriptedPeer;
use serde_json::{Value, json};
use support::*;
use tokio::time::Instant;

type Seen = Arc<Mutex<Vec<(Duration, f64)>>>;

/// A call that notes when it was shown which progress.
fn watched(session: &Session, options: CallOptions) -> (Call<CallTool>, Seen) {
    let seen = Seen::default();
    let began = Instant::now();
    let options = options.with_progress({
        let seen = Arc::clone(&seen);
        move |progress| seen.lock().unwrap().push((began.elapsed(), progress.progress))
    });
    (session.call(CallTool::new("slow"), options), seen)
}

async fn report(peer: &ScriptedPeer, token: &Value, progress: f64) {
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": progress, "total": 100}}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn s101_every_call_asks_for_progress_and_is_prolonged_by_it_though_nobody_looks() {
    for it in [legacy().await, modern().await] {
        let began = Instant::now();
        let options = CallOptions::default().with_timeout(seconds(10)).with_meta("own", &1).unwrap();
        let mut call = ByHand::new(it.session.call(CallTool::new("x"), options));
        assert!(call.poll().is_pending());
        let request = it.peer.expect("tools/call").await;
        let token = &request.params()["_meta"]["progressToken"];
        assert_eq!(token, &request.value["id"]);
        assert_eq!(request.params()["_meta"]["own"], 1);
        for value in [1.0, 1.0, 2.0] {
            tokio::time::sleep(seconds(8)).await;
            report(&it.peer, token, value).await;
        }
        tokio::time::sleep(seconds(2)).await;
        assert_eq!((it.session.in_flight(), call.wakes()), (0, 1), "what does not grow prolongs nothing");
        assert_eq!(began.elapsed(), seconds(26));
        assert_eq!(it.session.counters().ignored_progress, 2, "no growth, and too late");
    }
}

#[tokio::test(start_paused = true)]
async fn f108_s103_a_flood_of_progress_is_shown_at_most_twenty_times_a_second_and_the_newest_each_time() {
    let it = legacy().await;
    let (call, seen) = watched(&it.session, CallOptions::default());
    let server = async {
        let request = it.peer.expect("tools/call").await;
        let token = &request.value["id"];
        let mut value = 0.0;
        for _ in 0..100 {
            for _ in 0..100 {
                value += 1.0;
                report(&it.peer, token, value).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(seconds(1)).await;
        it.peer.respond(request.id(), said("done")).await;
    };
    let (result, ()) = tokio::join!(call, server);
    result.unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.len() <= 21 && seen.len() >= 15, "{}", seen.len());
    assert!(seen.is_sorted_by(|a, b| a.0 + Duration::from_millis(50) <= b.0 && a.1 < b.1), "{seen:?}");
    assert_eq!(seen.last().unwrap().1, 10_000.0, "the newest is shown although nothing follows it");
}

#[tokio::test(start_paused = true)]
async fn f108_s101_progress_that_falls_or_belongs_to_nobody_is_dropped_and_prolongs_nothing() {
    let it = legacy().await;
    let began = Instant::now();
    let (call, seen) = watched(&it.session, CallOptions::default().with_timeout(seconds(10)));
    let server = async {
        let request = it.peer.expect("tools/call").await;
        let token = &request.value["id"];
        report(&it.peer, token, 5.0).await;
        tokio::time::sleep(seconds(5)).await;
        for (token, value) in
            [(token, 5.0), (token, 4.0), (&json!("x"), 9.0), (&json!(999), 9.0), (&json!(1), 9.0)]
        {
            report(&it.peer, token, value).await;
        }
        it.peer
            .send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": "?"}}))
            .await;
    };
    let (result, ()) = tokio::join!(call, server);
    assert!(result.unwrap_err().is_timeout());
    assert_eq!(began.elapsed(), seconds(10));
    assert_eq!(seen.lock().unwrap().len(), 1);
    assert_eq!(it.session.counters().ignored_progress, 5);
    assert_eq!(it.session.counters().ignored_notifications, 1);
}

#[tokio::test(start_paused = true)]
async fn f109_progress_for_ever_prolongs_the_soft_limit_and_not_the_hard_one() {
    let it = legacy().await;
    let began = Instant::now();
    let (call, seen) = watched(&it.session, CallOptions::default());
    let server = async {
        let request = it.peer.expect("tools/call").await;
        for value in 1..1000 {
            tokio::time::sleep(seconds(30)).await;
            report(&it.peer, &request.value["id"], f64::from(value)).await;
            if it.session.in_flight() == 0 {
                return;
            }
        }
    };
    let ended = async { (call.await, began.elapsed()) };
    let ((result, elapsed), ()) = tokio::join!(ended, server);
    assert!(matches!(result, Err(CallError::Timeout { waited, .. }) if waited == seconds(300)));
    assert_eq!(elapsed, seconds(300));
    assert!(seen.lock().unwrap().len() >= 9);
    assert_eq!(cancelled_ids(&it.peer).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_soft_limit_ends_a_call_that_stops_reporting() {
    let it = legacy_with(SessionOptions::default().with_call_limit(seconds(10)), Default::default()).await;
    let began = Instant::now();
    let (call, _) = watched(&it.session, CallOptions::default());
    let server = async {
        let request = it.peer.expect("tools/call").await;
        tokio::time::sleep(seconds(9)).await;
        report(&it.peer, &request.value["id"], 1.0).await;
    };
    let (result, ()) = tokio::join!(call, server);
    assert!(result.unwrap_err().is_timeout());
    assert_eq!(began.elapsed(), seconds(19));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_the_caller_ends_a_call_that_reports() {
    let it = legacy().await;
    let began = Instant::now();
    let options = CallOptions::default().with_deadline(began + seconds(100));
    let (call, _) = watched(&it.session, options);
    let (result, _) = tokio::join!(call, it.peer.expect("tools/call"));
    assert!(result.unwrap_err().is_timeout());
    assert_eq!(began.elapsed(), seconds(100), "without a time-out of its own, the deadline alone counts");
}

#[tokio::test(start_paused = true)]
async fn progress_that_comes_together_with_the_answer_is_shown_first() {
    let it = legacy().await;
    let (call, seen) = watched(&it.session, CallOptions::default());
    let mut call = ByHand::new(call);
    assert!(call.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    report(&it.peer, &request.value["id"], 50.0).await;
    it.peer.respond(request.id(), said("x")).await;
    settle().await;
    assert!(call.poll().is_ready());
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// The end does not wait for the time between two deliveries, nor is the last of them lost.
#[tokio::test(start_paused = true)]
async fn f108_the_last_progress_is_shown_before_the_answer_however_soon_it_comes() {
    let it = legacy().await;
    let (call, seen) = watched(&it.session, CallOptions::default());
    let server = async {
        let request = it.peer.expect("tools/call").await;
        report(&it.peer, &request.value["id"], 50.0).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        report(&it.peer, &request.value["id"], 100.0).await;
        it.peer.respond(request.id(), said("x")).await;
    };
    let (result, ()) = tokio::join!(call, server);
    result.unwrap();
    let seen: Vec<f64> = seen.lock().unwrap().iter().map(|(_, progress)| *progress).collect();
    assert_eq!(seen, [50.0, 100.0]);
}

/// On a real clock, with the driver on another thread: each time that the handler is done, more has come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_progress_handler_leaves_the_task_of_its_caller_in_a_poll() {
    let it = legacy().await;
    let shown = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let options = CallOptions::default().with_progress({
        let shown = Arc::clone(&shown);
        move |_| {
            shown.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(60));
        }
    });
    let call = it.session.call(CallTool::new("slow"), options);
    let calling = tokio::spawn(async move {
        let began = Instant::now();
        let ended = tokio::time::timeout(Duration::from_millis(300), call).await;
        (ended.is_err(), began.elapsed())
    });
    let request = it.peer.expect("tools/call").await;
    let mut value = 0.0;
    while !calling.is_finished() && value < 1_000_000.0 {
        value += 1.0;
        report(&it.peer, &request.value["id"], value).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (is_out_of_time, elapsed) = calling.await.unwrap();
    assert!(is_out_of_time && elapsed < seconds(5), "{elapsed:?}");
    assert!(shown.load(std::sync::atomic::Ordering::SeqCst) > 1, "it was shown, and again");
}

#[tokio::test(start_paused = true)]
async fn f145_a_panic_in_a_progress_handler_is_the_callers_alone() {
    let it = legacy().await;
    let options = CallOptions::default().with_progress(|_| panic!("handler"));
    let broken = tokio::spawn(it.session.call(CallTool::new("slow"), options));
    let request = it.peer.expect("tools/call").await;
    report(&it.peer, &request.value["id"], 1.0).await;
    assert!(broken.await.unwrap_err().is_panic());
    let cancel = it.peer.expect("notifications/cancelled").await;
    assert_eq!(cancel.params()["requestId"], request.value["id"], "the call is over like a dropped one");
    assert_quiescent(&it.session);
    let (next, ()) = tokio::join!(it.session.call(CallTool::new("x"), CallOptions::default()), async {
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), said("x")).await;
    });
    next.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_polls_keeps_only_the_newest_progress() {
    let it = legacy().await;
    let (call, seen) = watched(&it.session, CallOptions::default());
    let mut call = ByHand::new(call);
    assert!(call.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    for value in 1..=1000 {
        report(&it.peer, &request.value["id"], f64::from(value)).await;
    }
    settle().await;
    assert_eq!(call.wakes(), 1, "woken once for all of it");
    assert!(call.poll().is_pending());
    assert_eq!(seen.lock().unwrap().iter().map(|seen| seen.1).collect::<Vec<_>>(), [1000.0]);
}
