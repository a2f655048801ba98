//! The connection in memory keeps what the transport traits promise, on the paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use mcp_transport::testing::{MemoryConnector, MemoryOptions, Received, ScriptedPeer, memory, memory_with};
use mcp_transport::{
    CloseReason, Closed, ConnectError, Connection, Connector, Dispatch, Ending, Exit, Inbound, Outbound,
    Receive, SendError,
};
use serde_json::json;
use tokio::time::{Instant, timeout};

const MS: Duration = Duration::from_millis(1);

fn request(id: i64) -> Outbound {
    let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
    Outbound::request(id.into(), frame.into())
}

fn notice() -> Outbound {
    Outbound::notification(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#))
}

async fn receive(receive: &mut Box<dyn Receive>) -> Result<Vec<Inbound>, Closed> {
    let mut into = Vec::new();
    poll_fn(|cx| receive.poll_receive(cx, &mut into)).await.map(|()| into)
}

/// Whether a future still waits after a virtual minute.
async fn waits(future: impl Future) -> bool {
    timeout(Duration::from_secs(60), future).await.is_err()
}

fn methods(peer: &ScriptedPeer) -> Vec<String> {
    peer.transcript().iter().filter_map(Received::method).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn frames_cross_in_both_directions() {
    let (mut connection, peer) = memory();
    connection.transport.send(request(1)).await.unwrap();
    let call = peer.expect("tools/call").await;
    peer.respond(call.id(), json!({"ok": true})).await;
    let inbound = receive(&mut connection.receive).await.unwrap();
    let [Inbound::Message { frame, stream: None }] = &inbound[..] else { panic!("{inbound:?}") };
    let answer: serde_json::Value = serde_json::from_slice(frame).unwrap();
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": {"ok": true}}));
}

#[tokio::test(start_paused = true)]
async fn send_waits_while_the_peer_does_not_read() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_window(1).with_queue(1));
    connection.transport.send(request(1)).await.unwrap();
    connection.transport.send(request(2)).await.unwrap();
    let mut third = Box::pin(connection.transport.send(request(3)));
    assert!(waits(&mut third).await);
    assert_eq!((peer.transcript().len(), peer.queued()), (1, 1));
    assert_eq!(peer.receive().await.id(), 1.into());
    third.await.unwrap();
    assert_eq!(peer.receive().await.id(), 2.into());
    assert_eq!(peer.receive().await.id(), 3.into());
}

#[tokio::test(start_paused = true)]
async fn without_a_window_a_frame_leaves_only_into_a_waiting_receive() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_window(0));
    connection.transport.send(request(1)).await.unwrap();
    assert_eq!(connection.transport.abandon(&1.into(), Some(notice())).dispatch, Dispatch::NotSent);
    connection.transport.send(request(2)).await.unwrap();
    assert_eq!(peer.receive().await.id(), 2.into());
    assert_eq!(connection.transport.abandon(&2.into(), None).dispatch, Dispatch::MayHaveLeft);
}

#[tokio::test(start_paused = true)]
async fn a_paused_peer_lets_nothing_leave() {
    let (connection, peer) = memory();
    peer.pause_reading();
    connection.transport.send(request(1)).await.unwrap();
    assert!(waits(peer.receive()).await);
    assert_eq!(peer.queued(), 1);
    peer.resume();
    assert_eq!(peer.receive().await.id(), 1.into());
}

#[tokio::test(start_paused = true)]
async fn abandoning_takes_an_unwritten_frame_back_and_says_nothing() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_window(1));
    connection.transport.send(request(1)).await.unwrap();
    connection.transport.send(request(2)).await.unwrap();
    assert_eq!(connection.transport.abandon(&2.into(), Some(notice())).dispatch, Dispatch::NotSent);
    assert_eq!(peer.receive().await.id(), 1.into());
    assert!(waits(peer.receive()).await);
}

#[tokio::test(start_paused = true)]
async fn abandoning_a_frame_that_left_tells_the_peer() {
    let (connection, peer) = memory();
    connection.transport.send(request(1)).await.unwrap();
    assert_eq!(connection.transport.abandon(&1.into(), Some(notice())).dispatch, Dispatch::MayHaveLeft);
    assert_eq!(methods(&peer), ["tools/call", "notifications/cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_was_dropped_while_waiting_is_not_sent() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_window(0).with_queue(1));
    connection.transport.send(request(1)).await.unwrap();
    assert!(waits(connection.transport.send(request(2))).await);
    assert_eq!(connection.transport.abandon(&2.into(), Some(notice())).dispatch, Dispatch::NotSent);
    assert_eq!(peer.receive().await.id(), 1.into());
    assert!(waits(peer.receive()).await);
}

#[tokio::test(start_paused = true)]
async fn an_unwritten_notice_closes_the_connection_after_50_ms() {
    let (mut connection, _peer) = memory_with(MemoryOptions::default().with_window(1));
    connection.transport.send(request(1)).await.unwrap();
    let began = Instant::now();
    // The driver polls already when the notice comes: it must be woken to arm its timer.
    let closed = async { receive(&mut connection.receive).await.unwrap_err() };
    let abandon = async { connection.transport.abandon(&1.into(), Some(notice())).dispatch };
    let (closed, dispatch) = tokio::join!(closed, abandon);
    assert_eq!(dispatch, Dispatch::MayHaveLeft);
    assert_eq!(closed.reason(), &CloseReason::Stuck);
    assert_eq!(began.elapsed(), 50 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_is_taken_in_time_keeps_the_connection() {
    let (mut connection, peer) = memory_with(MemoryOptions::default().with_window(1));
    connection.transport.send(request(1)).await.unwrap();
    connection.transport.abandon(&1.into(), Some(notice()));
    assert!(timeout(49 * MS, receive(&mut connection.receive)).await.is_err());
    peer.receive().await;
    peer.expect("notifications/cancelled").await;
    assert!(waits(receive(&mut connection.receive)).await);
}

#[tokio::test(start_paused = true)]
async fn a_notice_without_a_place_in_the_reserve_closes_at_once() {
    let options = MemoryOptions::default().with_window(1).with_queue(1).with_reserve(1);
    let (mut connection, _peer) = memory_with(options);
    connection.transport.send(request(1)).await.unwrap();
    connection.transport.send(request(2)).await.unwrap();
    connection.transport.post(notice()).unwrap();
    assert!(connection.transport.post(notice()).is_err());
    assert_eq!(connection.transport.abandon(&1.into(), Some(notice())).dispatch, Dispatch::MayHaveLeft);
    let closed = receive(&mut connection.receive).await.unwrap_err();
    assert_eq!(closed.reason(), &CloseReason::Stuck);
}

#[tokio::test(start_paused = true)]
async fn a_frame_over_the_limit_is_refused() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_max_frame_bytes(20));
    let refused = connection.transport.send(request(1)).await;
    assert!(matches!(refused, Err(SendError::TooLarge { limit: 20 })), "{refused:?}");
    assert!(peer.transcript().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_end_comes_after_everything_that_was_sent_and_stays() {
    let (mut connection, peer) = memory();
    peer.send_raw("not a message").await;
    peer.close(CloseReason::Exited(Exit::Code(3)));
    assert_eq!(receive(&mut connection.receive).await.unwrap().len(), 1);
    for _ in 0..2 {
        let closed = receive(&mut connection.receive).await.unwrap_err();
        assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(3)));
    }
    assert!(matches!(connection.transport.send(request(1)).await, Err(SendError::Closed(_))));
    assert!(connection.transport.post(notice()).is_err());
    let report = connection.transport.close(Instant::now()).await;
    assert_eq!((report.ending, report.exit), (Ending::Clean, Some(Exit::Code(3))));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_send_fails_when_the_connection_ends() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_window(0).with_queue(1));
    connection.transport.send(request(1)).await.unwrap();
    let end = async { drop(peer) };
    let (sent, ()) = tokio::join!(connection.transport.send(request(2)), end);
    let Err(SendError::Closed(closed)) = sent else { panic!("{sent:?}") };
    assert_eq!(closed.reason(), &CloseReason::EndOfStream);
}

#[tokio::test(start_paused = true)]
async fn closing_writes_what_is_queued_first() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_window(0));
    connection.transport.send(request(1)).await.unwrap();
    let by = Instant::now() + Duration::from_secs(10);
    let reader = async {
        tokio::time::sleep(MS).await;
        (peer.receive().await.id(), peer.next().await)
    };
    let (report, read) = tokio::join!(connection.transport.close(by), reader);
    assert_eq!(read, (1.into(), None));
    assert_eq!((report.ending, report.elapsed), (Ending::Clean, MS));
    assert_eq!(connection.transport.close(by).await, report);
}

#[tokio::test(start_paused = true)]
async fn closing_gives_a_peer_that_does_not_read_up_after_the_grace() {
    let (connection, peer) = memory_with(MemoryOptions::default().with_window(0));
    connection.transport.send(request(1)).await.unwrap();
    let report = connection.transport.close(Instant::now() + Duration::from_secs(10)).await;
    assert_eq!(report.elapsed, Duration::from_secs(2));
    assert!(peer.transcript().is_empty());
}

#[tokio::test(start_paused = true)]
async fn closing_takes_as_long_as_the_peer_lingers_but_no_longer_than_it_may() {
    for (limit, ending, elapsed) in [(10, Ending::Terminated, 2), (1, Ending::Abandoned, 1)] {
        let (connection, peer) = memory();
        peer.linger(Duration::from_secs(2), Ending::Terminated);
        let report = connection.transport.close(Instant::now() + Duration::from_secs(limit)).await;
        assert_eq!((report.ending, report.elapsed), (ending, Duration::from_secs(elapsed)));
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_closing_future_does_not_stop_the_closing() {
    let (mut connection, peer) = memory();
    peer.linger(Duration::from_secs(2), Ending::Terminated);
    let by = Instant::now() + Duration::from_secs(10);
    assert!(timeout(MS, connection.transport.close(by)).await.is_err());
    let closed = receive(&mut connection.receive).await.unwrap_err();
    assert_eq!(closed.reason(), &CloseReason::Local);
    let report = connection.transport.close(by).await;
    assert_eq!((report.ending, report.elapsed), (Ending::Terminated, Duration::from_secs(2)));
}

#[tokio::test(start_paused = true)]
async fn dropping_either_half_ends_the_connection() {
    let (Connection { transport, receive, .. }, peer) = memory();
    drop(transport);
    assert_eq!(peer.closed().await.reason(), &CloseReason::Local);
    drop((peer, receive));
    let (Connection { transport, receive, .. }, peer) = memory();
    drop(receive);
    assert_eq!(peer.next().await, None);
    drop(transport);
}

#[tokio::test(start_paused = true)]
async fn a_flooding_peer_waits_until_somebody_receives() {
    let (mut connection, peer) = memory_with(MemoryOptions::default().with_inbound(2));
    peer.send(json!(1)).await;
    peer.send(json!(2)).await;
    assert!(waits(peer.send(json!(3))).await);
    assert_eq!(receive(&mut connection.receive).await.unwrap().len(), 2);
    peer.send(json!(4)).await;
}

#[tokio::test(start_paused = true)]
async fn a_connector_hands_out_peers_and_fails_on_demand() {
    let connector = MemoryConnector::new();
    let by = Instant::now() + Duration::from_secs(1);
    connector.fail_next(ConnectError::Timeout);
    assert!(matches!(connector.connect(by).await, Err(ConnectError::Timeout)));
    let connection = connector.connect(by).await.unwrap();
    connection.transport.send(request(1)).await.unwrap();
    assert_eq!(connector.next_peer().await.receive().await.id(), 1.into());
    assert_eq!(connector.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_held_connect_waits_for_its_gate_or_its_deadline() {
    let connector = MemoryConnector::new();
    let gate = connector.hold();
    let late = connector.connect(Instant::now() + Duration::from_secs(1)).await;
    assert!(matches!(late, Err(ConnectError::Timeout)));
    let by = Instant::now() + Duration::from_secs(1);
    let (connection, ()) = tokio::join!(connector.connect(by), async { gate.open() });
    connection.unwrap();
    connector.connect(by).await.unwrap();
    assert_eq!(connector.attempts(), 3);
}
