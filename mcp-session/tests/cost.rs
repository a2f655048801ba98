//! What a call costs: allocations and wake-ups. A guard against regressions, no benchmark.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::alloc::System;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use mcp_proto::{CallTool, Method, Payload, RequestId};
use mcp_session::{CallOptions, EraPolicy, Session, SessionOptions, open};
use mcp_transport::{
    Abandoned, CloseReport, Closed, Connection, Dispatch, Ending, Full, Inbound, Outbound, Receive,
    SendError, Sent, Streams, Transport,
};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::desk::Desk;
use support::*;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

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

async fn opened(era: EraPolicy) -> Session {
    let echo = Arc::new(Echo::default());
    let connection = Connection::new(Arc::clone(&echo) as Arc<dyn Transport>, Box::new(EchoReceive(echo)));
    let (opening, driver) =
        open(connection, SessionOptions::default().with_era(era).with_handler(Desk::new() as _));
    tokio::spawn(driver.run());
    opening.handshake(soon()).await.unwrap()
}

/// The most allocations of one call, from its request to its undecoded answer.
///
/// One is the frame, one is the slot, one is made by the parser, and two are the answer of the echo; what
/// is sent without a wait costs none. In the modern era one more reads the type of the result, and two
/// keep what a further round would need.
const MOST_ALLOCATIONS: [(EraPolicy, usize); 2] = [(EraPolicy::Legacy, 5), (EraPolicy::Modern, 8)];

#[test]
fn a_call_costs_few_allocations_and_wakes_its_caller_once() {
    for (era, most) in MOST_ALLOCATIONS {
        measure(era, most);
    }
}

fn measure(era: EraPolicy, most: usize) {
    const CALLS: usize = 1000;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let session = opened(era).await;
        let params = Payload::encode(&CallTool::new("x")).unwrap();
        let options = CallOptions::default().with_timeout(seconds(30));
        let call = || session.call_raw(Method::TOOLS_CALL, params.clone(), options.clone());
        for _ in 0..100 {
            call().await.unwrap();
        }
        let region = Region::new(ALLOCATOR);
        for _ in 0..CALLS {
            call().await.unwrap();
        }
        let change = region.change();
        // The threads of the test harness allocate a little now and then.
        let kept = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
        assert!(kept < 4 * CALLS, "{era:?}: {kept} bytes are kept of {CALLS} calls");
        let each = change.allocations / CALLS;
        assert!(each <= most, "{era:?}: {each} allocations a call");

        let mut counted = ByHand::new(call());
        assert!(counted.poll().is_pending());
        settle().await;
        assert_eq!(counted.wakes(), 1);
        let Poll::Ready(Ok(answer)) = counted.poll() else { panic!("no answer") };
        assert_eq!(serde_json::from_str::<Value>(answer.as_str()).unwrap(), said("x"));
    });
}
