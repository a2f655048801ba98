use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use mcp_proto::{Frame, Message, RequestId, parse_frame};
use tokio::time::{Instant, sleep};

use crate::connection::{ConnectError, Connection, Connector};
use crate::error::{CloseReason, CloseReport, Closed, Full, SendError};
use crate::profile::HttpProfile;
use crate::transport::{Abandoned, Inbound, Outbound, Receive, Sent, Streams, Transport};

/// A connector whose connections misbehave on demand.
#[derive(Debug)]
pub struct FaultConnector {
    inner: Arc<dyn Connector>,
    control: FaultControl,
}

impl FaultConnector {
    /// Wraps `inner`; the control works on all its connections, old and new.
    #[must_use]
    pub fn new(inner: Arc<dyn Connector>) -> (Self, FaultControl) {
        let control = FaultControl::default();
        (Self { inner, control: control.clone() }, control)
    }
}

#[async_trait]
impl Connector for FaultConnector {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        Ok(FaultTransport::wrap_with(self.inner.connect(by).await?, self.control.clone()))
    }
}

/// A connection that misbehaves on demand: in front of any other connection.
pub struct FaultTransport {
    inner: Arc<dyn Transport>,
    control: FaultControl,
}

impl FaultTransport {
    /// Wraps one connection. Without a fault it behaves as the connection itself.
    #[must_use]
    pub fn wrap(connection: Connection) -> (Connection, FaultControl) {
        let control = FaultControl::default();
        (Self::wrap_with(connection, control.clone()), control)
    }

    fn wrap_with(connection: Connection, control: FaultControl) -> Connection {
        let receive = FaultReceive { inner: connection.receive, control: control.clone() };
        let transport = Self { inner: connection.transport, control };
        Connection::new(Arc::new(transport), Box::new(receive))
    }
}

/// Switches faults on and off. Clones share the switches.
#[derive(Clone, Default)]
pub struct FaultControl {
    faults: Arc<Mutex<Faults>>,
}

#[derive(Default)]
struct Faults {
    drop_cancels: bool,
    duplicate_replies: bool,
    duplicate_requests: bool,
    send_delay: Duration,
    send_error: Option<Closed>,
    end: Option<Closed>,
    /// The drivers of all wrapped connections, to be woken when the end is decreed.
    receivers: Vec<Waker>,
}

impl FaultControl {
    /// Whether cancel notices are lost on the way.
    pub fn drop_cancels(&self, is_on: bool) {
        self.lock().drop_cancels = is_on;
    }

    /// Whether each answer arrives twice.
    pub fn duplicate_replies(&self, is_on: bool) {
        self.lock().duplicate_replies = is_on;
    }

    /// Whether each request is sent twice, as if somebody had repeated it.
    pub fn duplicate_requests(&self, is_on: bool) {
        self.lock().duplicate_requests = is_on;
    }

    /// How long each frame is held up before it is handed over. Zero: not at all.
    pub fn delay_sends(&self, delay: Duration) {
        self.lock().send_delay = delay;
    }

    /// Makes each `send` and `post` fail; `None` stops that.
    pub fn fail_sends(&self, reason: Option<CloseReason>) {
        self.lock().send_error = reason.map(|reason| Closed::new(reason, ""));
    }

    /// Ends the receiving half of each connection, now and in future; `None` stops that for new ones.
    ///
    /// The sending half stays as it is.
    pub fn break_receive(&self, reason: Option<CloseReason>) {
        let mut faults = self.lock();
        faults.end = reason.map(|reason| Closed::new(reason, ""));
        let receivers = std::mem::take(&mut faults.receivers);
        drop(faults);
        receivers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Transport for FaultTransport {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        let (delay, error, is_doubled) = {
            let faults = self.control.lock();
            (faults.send_delay, faults.send_error.clone(), faults.duplicate_requests)
        };
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if let Some(closed) = error {
            return Err(SendError::Closed(closed));
        }
        if is_doubled && message.request_id().is_some() {
            self.inner.send(message.clone()).await?;
        }
        self.inner.send(message).await
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        if self.control.lock().send_error.is_some() {
            return Err(Full);
        }
        self.inner.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        let is_lost = self.control.lock().drop_cancels;
        self.inner.abandon(id, notice.filter(|_| !is_lost))
    }

    fn insist(&self, message: Outbound) -> Result<(), Full> {
        if self.control.lock().send_error.is_some() {
            return Err(Full);
        }
        self.inner.insist(message)
    }

    fn set_profile(&self, profile: HttpProfile) {
        self.inner.set_profile(profile);
    }

    async fn close(&self, by: Instant) -> CloseReport {
        self.inner.close(by).await
    }
}

struct FaultReceive {
    inner: Box<dyn Receive>,
    control: FaultControl,
}

impl Receive for FaultReceive {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        let is_doubled = {
            let mut faults = self.control.lock();
            if let Some(closed) = &faults.end {
                return Poll::Ready(Err(closed.clone()));
            }
            if !faults.receivers.iter().any(|waker| waker.will_wake(cx.waker())) {
                faults.receivers.push(cx.waker().clone());
            }
            faults.duplicate_replies
        };
        let before = into.len();
        let result = std::task::ready!(self.inner.poll_receive(cx, into));
        if is_doubled {
            let copies: Vec<Inbound> = into[before..].iter().filter_map(copy_of_answer).collect();
            into.extend(copies);
        }
        Poll::Ready(result)
    }
}

fn copy_of_answer(inbound: &Inbound) -> Option<Inbound> {
    let Inbound::Message { frame, stream } = inbound else { return None };
    matches!(parse_frame(frame), Ok(Frame::Single(Message::Response { .. })))
        .then(|| Inbound::Message { frame: frame.clone(), stream: stream.clone() })
}

impl fmt::Debug for FaultTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultTransport").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl fmt::Debug for FaultReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultReceive").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl fmt::Debug for FaultControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.lock();
        f.debug_struct("FaultControl")
            .field("drop_cancels", &faults.drop_cancels)
            .field("duplicate_replies", &faults.duplicate_replies)
            .field("duplicate_requests", &faults.duplicate_requests)
            .field("send_delay", &faults.send_delay)
            .field("send_error", &faults.send_error)
            .field("end", &faults.end)
            .finish_non_exhaustive()
    }
}
