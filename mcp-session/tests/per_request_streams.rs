//! A transport that has a stream for every request, as HTTP has.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use mcp_proto::{CallTool, Era, RequestId};
use mcp_session::{CallError, CallOptions, EraPolicy, ProtocolFault, Session, SessionOptions, open};
use mcp_transport::{
    Abandoned, CloseReport, Closed, Connection, Dispatch, Ending, Full, Inbound, Outbound, Receive,
    SendError, Sent, Streams, Transport,
};
use serde_json::{Value, json};
use support::*;
use tokio::time::Instant;

/// What a call was given up with: its id, and the notice that was to be sent.
type GivenUp = Arc<Mutex<Vec<(RequestId, Option<Bytes>)>>>;

/// A send that is not over yet.
struct Unfinished(Arc<AtomicUsize>);

impl Unfinished {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers the handshake inline and tool calls as `answer` says.
#[derive(Debug)]
struct Inline {
    given_up: GivenUp,
    unfinished: Arc<AtomicUsize>,
    answer: fn(&Value) -> Option<Value>,
}

#[async_trait]
impl Transport for Inline {
    fn streams(&self) -> Streams {
        Streams::PerRequest
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        let request: Value = serde_json::from_slice(&message.frame).unwrap();
        let reply = match request["method"].as_str().unwrap() {
            "initialize" => initialize_result("2025-11-25"),
            "server/discover" => discover_result(),
            "tools/call" => match (self.answer)(&request) {
                Some(answer) => return Ok(Sent::Answered(answer.to_string().into())),
                None => {
                    let _unfinished = Unfinished::new(&self.unfinished);
                    std::future::pending().await
                }
            },
            _ => return Ok(Sent::Queued),
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": reply});
        Ok(Sent::Answered(answer.to_string().into()))
    }

    fn post(&self, _: Outbound) -> Result<(), Full> {
        Err(Full)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        assert_eq!(self.unfinished.load(Ordering::SeqCst), 0, "asked while the send still goes on");
        self.given_up.lock().unwrap().push((id.clone(), notice.map(|notice| notice.frame)));
        Abandoned { dispatch: Dispatch::MayHaveLeft, is_told: true }
    }

    async fn close(&self, _: Instant) -> CloseReport {
        CloseReport::new(Ending::Clean, None, seconds(0))
    }
}

#[derive(Debug)]
struct Silent;

impl Receive for Silent {
    fn poll_receive(&mut self, _: &mut Context<'_>, _: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        Poll::Pending
    }
}

async fn opened(era: EraPolicy, answer: fn(&Value) -> Option<Value>) -> (Session, GivenUp) {
    fail_instead_of_hanging();
    let given_up = GivenUp::default();
    let unfinished = Arc::default();
    let transport = Inline { given_up: Arc::clone(&given_up), unfinished, answer };
    let connection = Connection::new(Arc::new(transport), Box::new(Silent));
    let (opening, driver) = open(connection, SessionOptions::default().with_era(era));
    tokio::spawn(driver.run());
    (opening.handshake(soon()).await.unwrap(), given_up)
}

fn call(session: &Session) -> mcp_session::Call<CallTool> {
    session.call(CallTool::new("any"), CallOptions::default().with_timeout(seconds(1)))
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_inline_ends_its_call() {
    for era in [EraPolicy::Legacy, EraPolicy::Modern] {
        let answer =
            |request: &Value| Some(json!({"jsonrpc": "2.0", "id": request["id"], "result": said("x")}));
        let (session, given_up) = opened(era, answer).await;
        call(&session).await.unwrap();
        assert_quiescent(&session);
        assert!(given_up.lock().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn h57_an_inline_answer_to_something_else_ends_the_call_with_an_error() {
    for answer in [
        (|_| Some(json!({"jsonrpc": "2.0", "id": "other", "result": {}}))) as fn(&Value) -> Option<Value>,
        |_| Some(json!({"jsonrpc": "2.0", "method": "notifications/message"})),
        |_| Some(json!("?")),
    ] {
        let (session, _) = opened(EraPolicy::Modern, answer).await;
        let error = call(&session).await.unwrap_err();
        let faults = [ProtocolFault::IdMismatch, ProtocolFault::NoAnswer];
        assert!(matches!(&error, CallError::Protocol(fault) if faults.contains(fault)), "{error:?}");
        assert_quiescent(&session);
    }
}

#[tokio::test(start_paused = true)]
async fn f123_a_modern_call_is_cancelled_by_its_stream_and_a_legacy_one_by_a_notice() {
    for era in [EraPolicy::Legacy, EraPolicy::Modern] {
        let (session, given_up) = opened(era, |_| None).await;
        assert!(call(&session).await.unwrap_err().is_timeout());
        let mut dropped = ByHand::new(call(&session));
        assert!(dropped.poll().is_pending());
        drop(dropped);
        assert_quiescent(&session);
        let given_up = given_up.lock().unwrap();
        assert_eq!(given_up.len(), 2);
        for (id, notice) in given_up.iter() {
            match session.peer().era {
                Era::Modern => assert_eq!(*notice, None, "ending the stream says it"),
                Era::Legacy => {
                    let notice: Value = serde_json::from_slice(notice.as_ref().unwrap()).unwrap();
                    assert_eq!(notice["method"], "notifications/cancelled");
                    assert_eq!(notice["params"]["requestId"], json!(id));
                }
            }
        }
    }
}
