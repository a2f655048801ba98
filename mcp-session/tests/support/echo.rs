use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use mcp_proto::RequestId;
use mcp_session::{EraPolicy, Session, SessionOptions, open};
use mcp_transport::{
    Abandoned, CloseReport, Closed, Connection, Dispatch, Ending, Full, Inbound, Outbound, Receive,
    SendError, Sent, Streams, Transport,
};
use tokio::time::Instant;

use super::desk::Desk;
use super::{discover_result, initialize_result, seconds, soon};

/// Answers every request at once: nothing here costs what a transport costs.
#[derive(Debug, Default)]
struct Echo(Mutex<EchoState>);

#[derive(Debug, Default)]
struct EchoState {
    answers: VecDeque<Bytes>,
    receiver: Option<Waker>,
    handshaken: bool,
}

#[async_trait]
impl Transport for Echo {
    fn streams(&self) -> Streams {
        Streams::Shared
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        self.try_send(message).map(|_| Sent::Queued)
    }

    fn try_send(&self, message: Outbound) -> Result<Option<Outbound>, SendError> {
        let mut state = self.0.lock().unwrap();
        let Some(RequestId::Number(id)) = message.request_id() else { return Ok(None) };
        let answer = if state.handshaken {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#,
                r#"{"content":[{"type":"text","text":"x"}]}"#
            )
        } else {
            state.handshaken = true;
            let is_probe = message.frame.windows(8).any(|part| part == b"discover");
            let result = if is_probe { discover_result() } else { initialize_result("2025-11-25") };
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
        };
        state.answers.push_back(answer.into());
        if let Some(receiver) = state.receiver.take() {
            receiver.wake();
        }
        Ok(None)
    }

    fn post(&self, _: Outbound) -> Result<(), Full> {
        Err(Full)
    }

    fn abandon(&self, _: &RequestId, _: Option<Outbound>) -> Abandoned {
        Abandoned { dispatch: Dispatch::MayHaveLeft, is_told: true }
    }

    async fn close(&self, _: Instant) -> CloseReport {
        CloseReport::new(Ending::Clean, None, seconds(0))
    }
}

#[derive(Debug)]
struct EchoReceive(Arc<Echo>);

impl Receive for EchoReceive {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        let mut state = self.0.0.lock().unwrap();
        if state.answers.is_empty() {
            state.receiver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        into.extend(state.answers.drain(..).map(|frame| Inbound::Message { frame, stream: None }));
        Poll::Ready(Ok(()))
    }
}

/// A session with a server that echoes, and with a handler.
pub async fn opened(era: EraPolicy) -> Session {
    let echo = Arc::new(Echo::default());
    let connection = Connection::new(Arc::clone(&echo) as Arc<dyn Transport>, Box::new(EchoReceive(echo)));
    let (opening, driver) =
        open(connection, SessionOptions::default().with_era(era).with_handler(Desk::new() as _));
    tokio::spawn(driver.run());
    opening.handshake(soon()).await.unwrap()
}
