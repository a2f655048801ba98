use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_proto::RequestId;
use tokio::net::unix::pipe;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::limits::StdioLimits;
use super::outgoing::Ticket;
use super::queue::{Room, TakenBack};
use super::writer::{FailedWith, Looked, Offer, Writer};
use crate::error::{CloseReason, CloseReport, Closed, Full, SendError};
use crate::process::Process;
use crate::transport::{Abandoned, Dispatch, Outbound};

/// How long a cancel notice may take to be written before the connection is given up.
const NOTICE_LIMIT: Duration = Duration::from_millis(50);

/// What both halves of a connection share. The last one to go takes the process with it.
#[derive(Debug)]
pub(super) struct Link {
    writer: Writer,
    /// Taken when the connection closes: the factory then reads what still comes.
    incoming: Mutex<Option<pipe::Receiver>>,
    /// Whose turn it is among the senders in line: a fair lock.
    turn: Semaphore,
    pub(super) closing: Mutex<Closing>,
    pub(super) process: Box<dyn Process>,
    pub(super) limits: StdioLimits,
    pub(super) server: Arc<str>,
}

/// How far the closing by this side has come.
#[derive(Debug, Default)]
pub(super) struct Closing {
    pub(super) began: Option<Instant>,
    pub(super) is_stopping: bool,
    pub(super) report: Option<CloseReport>,
}

impl Link {
    pub(super) fn new(
        stdin: pipe::Sender,
        stdout: pipe::Receiver,
        process: Box<dyn Process>,
        limits: StdioLimits,
        server: Arc<str>,
    ) -> Self {
        Self {
            writer: Writer::new(stdin, &limits),
            incoming: Mutex::new(Some(stdout)),
            turn: Semaphore::new(1),
            closing: Mutex::default(),
            process,
            limits,
            server,
        }
    }

    /// Hands a frame over if that is possible without waiting; gives it back if it is not.
    pub(super) fn try_send(&self, message: Outbound) -> Result<Option<Outbound>, SendError> {
        self.offer(message, Room::Common, None, None)
    }

    /// Hands a frame over, waiting in line for room.
    pub(super) async fn send_in_turn(&self, mut message: Outbound) -> Result<(), SendError> {
        let place =
            InLine { link: self, ticket: self.writer.outgoing().line_up(message.request_id().cloned()) };
        // Closed together with the connection; the offer below then says why.
        let _turn = self.turn.acquire().await;
        loop {
            let mut has_room = std::pin::pin!(self.writer.room.notified());
            // Listening begins before the look, so that no change falls between the two.
            has_room.as_mut().enable();
            match self.offer(message, Room::Common, Some(place.ticket), None)? {
                None => return Ok(()),
                Some(back) => message = back,
            }
            has_room.await;
        }
    }

    /// Hands a frame over from the reserve.
    pub(super) fn post(&self, message: Outbound) -> Result<(), Full> {
        match self.offer(message, Room::Reserved, None, None) {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(Full),
        }
    }

    /// Gives a request up; see [`Transport::abandon`](crate::Transport::abandon).
    pub(super) fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        let taken_back = self.writer.outgoing().take_back(id);
        if taken_back == TakenBack::Unsent {
            self.writer.room.notify_one();
            return Abandoned { dispatch: Dispatch::NotSent, is_told: false };
        }
        let is_told = notice.is_some_and(|notice| self.insist(notice).is_ok());
        Abandoned { dispatch: Dispatch::MayHaveLeft, is_told }
    }

    /// Hands a frame over from the reserve, in time, or ends the connection.
    pub(super) fn insist(&self, message: Outbound) -> Result<(), Full> {
        let by = Instant::now() + NOTICE_LIMIT;
        match self.offer(message, Room::Reserved, None, Some(by)) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                self.fail(CloseReason::Stuck);
                Err(Full)
            }
            // It has ended before, or with the attempt to write.
            Err(_) => Err(Full),
        }
    }

    /// The driver's look at the sending side: flushes, and says what is to be minded.
    pub(super) fn look(&self, is_busy: bool, cx: &mut Context<'_>) -> Looked {
        let looked = self.writer.look(is_busy, cx);
        looked.unwrap_or_else(|error| Looked::Closed(self.fail(write_failure(&error))))
    }

    /// Writes what is queued while the connection closes; `Ready` when nothing is left.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        // A failed write leaves nothing to do either: the connection is closing anyway.
        self.writer.poll_flush(cx).map(|_| ())
    }

    /// Takes no more frames: this side closes.
    pub(super) fn begin_close(&self) {
        let closed = self.closed_by(CloseReason::Local);
        let driver = self.writer.outgoing().begin_close(closed);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Closes standard input and starts the stop ladder; whatever is still queued is gone.
    pub(super) fn stop(&self, by: Instant) {
        self.shut(self.closed_by(CloseReason::Local));
        self.process.begin_stop(self.limits.graces, by);
    }

    /// Ends the connection for `reason`, unless it has ended before. The process is left alone.
    pub(super) fn fail(&self, reason: CloseReason) -> Closed {
        self.shut(self.closed_by(reason))
    }

    /// Ends the connection; answers how it has ended, which may have been something else before.
    pub(super) fn shut(&self, closed: Closed) -> Closed {
        let closed = self.writer.close(closed);
        self.turn.close();
        closed
    }

    /// Gives standard output to the factory, which reads on and throws away.
    pub(super) fn discard_output(&self) {
        // Fails only if the runtime's poller refuses to let it go; it is closed then.
        if let Some(incoming) = self.incoming().take()
            && let Ok(stdout) = incoming.into_nonblocking_fd()
        {
            self.process.discard_output(stdout);
        }
    }

    pub(super) fn closed_by(&self, reason: CloseReason) -> Closed {
        Closed::new(reason, self.process.stderr_tail())
    }

    pub(super) fn incoming(&self) -> MutexGuard<'_, Option<pipe::Receiver>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn closing(&self) -> MutexGuard<'_, Closing> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(
        &self,
        message: Outbound,
        room: Room,
        turn: Option<Ticket>,
        by: Option<Instant>,
    ) -> Result<Option<Outbound>, SendError> {
        match self.writer.offer(message, room, turn, by) {
            Offer::Taken => Ok(None),
            Offer::Full(message) => Ok(Some(message)),
            Offer::Closed(closed) => Err(SendError::Closed(closed)),
            Offer::Failed(error, with) => {
                let closed = self.fail(write_failure(&error));
                if with == FailedWith::NothingLeft { Err(SendError::Closed(closed)) } else { Ok(None) }
            }
        }
    }
}

/// A sender in line; leaves it when dropped.
struct InLine<'a> {
    link: &'a Link,
    ticket: Ticket,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.link.writer.outgoing().leave_line(self.ticket);
    }
}

pub(super) fn write_failure(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CloseReason::Broken("the server closed its input".to_owned()),
        _ => CloseReason::Broken(format!("writing failed: {error}")),
    }
}
