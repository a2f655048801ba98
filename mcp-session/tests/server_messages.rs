//! What a server says unasked: requests, notifications, floods of them.
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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use mcp_proto::CallTool;
use mcp_session::{Call, CallOptions, EraPolicy, ListKind, Session, SessionEvent, SessionOptions, open};
use mcp_transport::testing::{MemoryOptions, ScriptedPeer, memory};
use mcp_transport::{Closed, Connection, Inbound, Receive};
use serde_json::{Value, json};
use support::*;
use tokio::time::Instant;

fn call(session: &Session) -> Call<CallTool> {
    session.call(CallTool::new("any"), CallOptions::default())
}

async fn request(peer: &ScriptedPeer, id: Value, method: &str) {
    peer.send(json!({"jsonrpc": "2.0", "id": id, "method": method})).await;
}

async fn notify(peer: &ScriptedPeer, method: &str, params: Value) {
    peer.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
}

async fn log(peer: &ScriptedPeer, line: usize) {
    notify(peer, "notifications/message", json!({"level": "info", "data": line})).await;
}

fn logged(event: &SessionEvent) -> usize {
    let SessionEvent::Log(message) = event else { panic!("{event:?}") };
    message.data.decode().unwrap()
}

#[tokio::test(start_paused = true)]
async fn f122_a_ping_is_answered_at_once_while_a_call_waits() {
    let it = legacy().await;
    let mut waiting = ByHand::new(call(&it.session));
    assert!(waiting.poll().is_pending());
    it.peer.expect("tools/call").await;
    let began = Instant::now();
    for id in [json!(1), json!("a"), json!("1")] {
        request(&it.peer, id.clone(), "ping").await;
        assert_eq!(it.peer.receive().await.value, json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    assert_eq!(began.elapsed(), seconds(0));
    assert!(waiting.poll().is_pending());
}

#[tokio::test(start_paused = true)]
async fn f122_a_ping_is_answered_although_the_queue_is_full_of_calls() {
    let memory = MemoryOptions::default().with_queue(1).with_window(0);
    let it = legacy_with(SessionOptions::default(), memory).await;
    let mut calls = [ByHand::new(call(&it.session)), ByHand::new(call(&it.session))];
    assert!(calls.iter_mut().all(|call| call.poll().is_pending()));
    request(&it.peer, json!(7), "ping").await;
    settle().await;
    it.peer.expect("tools/call").await;
    assert_eq!(it.peer.receive().await.value["id"], 7);
}

#[tokio::test(start_paused = true)]
async fn b7_b8_an_unknown_request_is_refused_and_a_notification_never_answered() {
    let it = legacy().await;
    notify(&it.peer, "notifications/what", json!({})).await;
    notify(&it.peer, "tools/call", json!([])).await;
    notify(&it.peer, "notifications/message", json!({"no": "level"})).await;
    for method in ["roots/list", "sampling/createMessage", "no\u{1b}[2Jsuch"] {
        request(&it.peer, json!(3), method).await;
        let refusal = it.peer.receive().await.value;
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(3), &json!(-32601)));
    }
    let counters = it.session.counters();
    assert_eq!((counters.refused_requests, counters.ignored_notifications), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn f093_t49_a_request_from_a_modern_server_gets_not_one_byte() {
    let it = modern().await;
    for method in ["ping", "roots/list"] {
        request(&it.peer, json!(3), method).await;
    }
    settle().await;
    assert_eq!(methods(&it.peer), ["server/discover"]);
    assert_eq!(it.session.counters().refused_requests, 2);
}

#[tokio::test(start_paused = true)]
async fn f119_s97_a_cancel_notice_from_the_server_changes_nothing() {
    for it in [legacy().await, modern().await] {
        let running = tokio::spawn(call(&it.session));
        let request = it.peer.expect("tools/call").await;
        for id in [request.value["id"].clone(), json!("unknown"), json!(null)] {
            notify(&it.peer, "notifications/cancelled", json!({"requestId": id})).await;
        }
        it.peer.respond(request.id(), said("fine")).await;
        running.await.unwrap().unwrap();
        assert_eq!(it.session.counters().ignored_notifications, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn events_come_in_order_and_end_with_the_session() {
    let it = legacy().await;
    log(&it.peer, 1).await;
    notify(&it.peer, "notifications/tools/list_changed", json!({})).await;
    notify(&it.peer, "notifications/prompts/list_changed", json!({})).await;
    log(&it.peer, 2).await;
    notify(&it.peer, "notifications/resources/list_changed", json!({})).await;
    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(it.session.next_event().await.unwrap());
    }
    assert_eq!(logged(&events.remove(0)), 1);
    assert_eq!(logged(&events.remove(2)), 2);
    let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];
    assert_eq!(events, kinds.map(SessionEvent::ListChanged));

    log(&it.peer, 3).await;
    it.peer.close(mcp_transport::CloseReason::EndOfStream);
    it.driver.await.unwrap();
    assert_eq!(logged(&it.session.next_event().await.unwrap()), 3, "what came before the end is kept");
    let (one, two) = tokio::join!(it.session.next_event(), it.session.next_event());
    assert_eq!((one, two), (None, None));
}

#[tokio::test(start_paused = true)]
async fn f110_a_storm_of_list_changes_is_one_event() {
    let it = legacy().await;
    for _ in 0..10_000 {
        notify(&it.peer, "notifications/tools/list_changed", json!({})).await;
    }
    settle().await;
    assert_eq!(it.session.next_event().await, Some(SessionEvent::ListChanged(ListKind::Tools)));
    notify(&it.peer, "notifications/tools/list_changed", json!({})).await;
    assert_eq!(it.session.next_event().await, Some(SessionEvent::ListChanged(ListKind::Tools)));
    assert_eq!(it.session.counters().dropped_events, 0);
    let mut none = ByHand::new(it.session.next_event());
    assert!(none.poll().is_pending());
}

#[tokio::test(start_paused = true)]
async fn f026_f107_a_flood_of_notifications_drops_the_oldest_lines_and_no_answer() {
    const FLOOD: usize = 20_000;
    let it = legacy().await;
    notify(&it.peer, "notifications/tools/list_changed", json!({})).await;
    let running = tokio::spawn(call(&it.session));
    let request = it.peer.expect("tools/call").await;
    for line in 0..FLOOD {
        log(&it.peer, line).await;
        notify(&it.peer, "notifications/unknown", json!({"line": line})).await;
        if line == FLOOD / 2 {
            it.peer.respond(request.id(), said("in between")).await;
        }
    }
    running.await.unwrap().unwrap();
    settle().await;
    assert_eq!(it.session.next_event().await, Some(SessionEvent::ListChanged(ListKind::Tools)));
    for line in FLOOD - 256..FLOOD {
        assert_eq!(logged(&it.session.next_event().await.unwrap()), line);
    }
    let counters = it.session.counters();
    assert_eq!(counters.ignored_notifications, FLOOD as u64);
    assert_eq!(counters.dropped_events, FLOOD as u64 - 256);
}

/// A receiving half that never runs dry: behind the messages of another one it brings as many unknown
/// notifications as are left.
#[derive(Debug)]
struct Flood {
    inner: Box<dyn Receive>,
    left: Arc<AtomicUsize>,
}

impl Receive for Flood {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        let polled = self.inner.poll_receive(cx, into);
        if polled.is_pending() && self.left.load(Ordering::SeqCst) > 0 {
            self.left.fetch_sub(1, Ordering::SeqCst);
            let frame = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/noise"}"#);
            into.push(Inbound::Message { frame, stream: None });
            return Poll::Ready(Ok(()));
        }
        polled
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_stops_talking_starves_neither_callers_nor_deadlines() {
    const FLOOD: usize = 200_000;
    fail_instead_of_hanging();
    let (connection, peer) = memory();
    let left = Arc::new(AtomicUsize::new(0));
    let receive = Box::new(Flood { inner: connection.receive, left: Arc::clone(&left) });
    let options = SessionOptions::default().with_era(EraPolicy::Legacy);
    let (opening, driver) = open(Connection::new(connection.transport, receive), options);
    let _driver = tokio::spawn(driver.run());
    let (session, ()) = tokio::join!(opening.handshake(soon()), accept_initialize(&peer, "2025-11-25"));
    let session = session.unwrap();

    let options = CallOptions::default().with_timeout(seconds(1));
    let mut call = ByHand::new(session.call(CallTool::new("any"), options));
    assert!(call.poll().is_pending());
    settle().await;
    left.store(FLOOD, Ordering::SeqCst);
    tokio::time::advance(seconds(2)).await;
    // One more turn for everybody, in which the runtime polls the driver a few dozen times.
    tokio::task::yield_now().await;
    assert!(left.load(Ordering::SeqCst) > FLOOD / 2, "the driver took the whole flood in one go");
    let Poll::Ready(ended) = call.poll() else { panic!("the deadline was not seen") };
    assert!(ended.unwrap_err().is_timeout());
    left.store(0, Ordering::SeqCst);
}

#[tokio::test(start_paused = true)]
async fn f025_two_full_pipes_do_not_lock_each_other() {
    // The server reads nothing until somebody has taken what it writes, and the way to it is full.
    let memory = MemoryOptions::default().with_queue(2).with_window(0).with_inbound(1);
    let it = legacy_with(SessionOptions::default(), memory).await;
    let calls: Vec<_> = (0..8).map(|_| tokio::spawn(call(&it.session))).collect();
    settle().await;
    for line in 0..1000 {
        log(&it.peer, line).await;
    }
    for _ in 0..8 {
        let request = it.peer.expect("tools/call").await;
        for line in 0..100 {
            log(&it.peer, line).await;
        }
        it.peer.respond(request.id(), said("x")).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn answers_that_a_server_does_not_read_are_dropped_and_counted() {
    let memory = MemoryOptions::default().with_queue(1).with_reserve(1).with_window(0);
    let it = legacy_with(SessionOptions::default(), memory).await;
    it.peer.pause_reading();
    for id in 0..10 {
        request(&it.peer, json!(id), "ping").await;
    }
    settle().await;
    assert_eq!(it.session.counters().unsent_replies, 8);
    it.peer.resume();
    assert_eq!(it.peer.receive().await.value["id"], 0);
}

#[tokio::test(start_paused = true)]
async fn long_log_lines_are_kept_up_to_a_mebibyte_in_all() {
    let it = legacy().await;
    for size in [100, 2_000_000, 400_000, 400_000, 400_000] {
        let data = "x".repeat(size);
        notify(&it.peer, "notifications/message", json!({"level": "info", "data": data})).await;
    }
    settle().await;
    assert_eq!(it.session.counters().dropped_events, 3);
    for _ in 0..2 {
        let Some(SessionEvent::Log(line)) = it.session.next_event().await else { panic!("no line") };
        assert_eq!(line.data.get().len(), 400_002);
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_of_progress_is_cut() {
    let it = legacy().await;
    let (sender, shown) = std::sync::mpsc::sync_channel(1);
    let options = CallOptions::default().with_progress(move |progress| sender.send(progress).unwrap());
    let mut call = ByHand::new(it.session.call(CallTool::new("any"), options));
    assert!(call.poll().is_pending());
    let token = &it.peer.expect("tools/call").await.value["id"];
    let text = format!("{}é", "x".repeat(8191));
    notify(
        &it.peer,
        "notifications/progress",
        json!({"progressToken": token, "progress": 1, "message": text}),
    )
    .await;
    settle().await;
    assert!(call.poll().is_pending());
    assert_eq!(shown.recv().unwrap().message.unwrap().len(), 8191, "cut where a character begins");
}
