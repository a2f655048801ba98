//! Each fault does what it says, and nothing without being switched on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_transport::testing::{FaultConnector, FaultTransport, MemoryConnector, Received, memory};
use mcp_transport::{CloseReason, Closed, Connection, Connector, Dispatch, Inbound, Outbound, SendError};
use serde_json::json;
use tokio::time::Instant;

fn request(id: i64) -> Outbound {
    Outbound::request(id.into(), format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into())
}

fn notice() -> Outbound {
    Outbound::notification(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#))
}

async fn receive(connection: &mut Connection) -> Result<Vec<Inbound>, Closed> {
    let mut into = Vec::new();
    poll_fn(|cx| connection.receive.poll_receive(cx, &mut into)).await.map(|()| into)
}

#[tokio::test(start_paused = true)]
async fn without_a_fault_nothing_changes() {
    let (connection, peer) = memory();
    let (mut connection, _control) = FaultTransport::wrap(connection);
    let began = Instant::now();
    connection.transport.send(request(1)).await.unwrap();
    peer.respond(peer.receive().await.id(), json!({})).await;
    assert_eq!(receive(&mut connection).await.unwrap().len(), 1);
    assert_eq!(connection.transport.abandon(&1.into(), Some(notice())).dispatch, Dispatch::MayHaveLeft);
    assert_eq!(peer.receive().await.method(), Some("notifications/cancelled"));
    assert_eq!((peer.transcript().len(), began.elapsed()), (2, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn cancels_are_dropped() {
    let (connection, peer) = memory();
    let (connection, control) = FaultTransport::wrap(connection);
    control.drop_cancels(true);
    connection.transport.send(request(1)).await.unwrap();
    assert_eq!(connection.transport.abandon(&1.into(), Some(notice())).dispatch, Dispatch::MayHaveLeft);
    assert_eq!(peer.transcript().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn answers_and_requests_are_doubled() {
    let (connection, peer) = memory();
    let (mut connection, control) = FaultTransport::wrap(connection);
    control.duplicate_requests(true);
    control.duplicate_replies(true);
    connection.transport.send(request(1)).await.unwrap();
    connection.transport.send(notice()).await.unwrap();
    let methods: Vec<_> = peer.transcript().iter().map(|f| f.method().unwrap().to_owned()).collect();
    assert_eq!(methods, ["ping", "ping", "notifications/cancelled"]);
    peer.respond(1, json!({})).await;
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/message"})).await;
    assert_eq!(receive(&mut connection).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn sends_are_delayed_and_fail() {
    let (connection, peer) = memory();
    let (connection, control) = FaultTransport::wrap(connection);
    control.delay_sends(Duration::from_secs(3));
    let began = Instant::now();
    connection.transport.send(request(1)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    control.delay_sends(Duration::ZERO);
    control.fail_sends(Some(CloseReason::EndOfStream));
    let refused = connection.transport.send(request(2)).await;
    assert!(matches!(refused, Err(SendError::Closed(_))), "{refused:?}");
    assert!(connection.transport.post(notice()).is_err());
    control.fail_sends(None);
    connection.transport.send(request(3)).await.unwrap();
    let ids: Vec<_> = peer.transcript().iter().map(Received::id).collect();
    assert_eq!(ids, [1.into(), 3.into()]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_driver_sees_the_end() {
    let memory = MemoryConnector::new();
    let (connector, control) = FaultConnector::new(Arc::new(memory.clone()));
    let by = Instant::now() + Duration::from_secs(1);
    let (mut one, mut two) = (connector.connect(by).await.unwrap(), connector.connect(by).await.unwrap());
    let decree = async { control.break_receive(Some(CloseReason::NotMcp)) };
    let (one, two, ()) = tokio::join!(receive(&mut one), receive(&mut two), decree);
    assert_eq!(one.unwrap_err().reason(), &CloseReason::NotMcp);
    assert_eq!(two.unwrap_err().reason(), &CloseReason::NotMcp);
}
