use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, Sleep, sleep_until};

use super::exit::Exit;
use super::link::Link;
use super::spare;
use super::writer::Looked;
use crate::error::{CloseReason, Closed};
use crate::frame::{FrameError, Framer};
use crate::process::ProcessEnd;
use crate::transport::{BrokenWhy, Inbound, Receive};

/// How long to wait for the process to end after it closed its output or input, so that its exit
/// status can be told as the reason. Half of the 100 ms within which a loss must be known.
const EXIT_LIMIT: Duration = Duration::from_millis(50);

/// Entries that one poll hands up at most.
const MAX_ENTRIES: usize = 256;

/// Reads that one poll makes at most before others get a turn.
const MAX_READS: usize = 8;

/// Capacity of a pipe that does not tell it, in bytes: the most an ordinary process can ask for.
const PIPE_CAPACITY: usize = 1024 * 1024;

/// The receiving half of a stdio connection.
///
/// ```text
///            EOF, or a write fails
///   reading ───────────────────────▶ losing
///      │                               │ exit seen, or 50 ms later
///      │ exit seen, or a notice        ▼               nothing left
///      └──────────────────────────▶ draining ─────────────────────▶ closed
///        not written in time
/// ```
///
/// From each state, closing by this side and noise without end lead straight to *closed*.
///
/// The exit of the process decides, not the end of its output, which a descendant may hold open: what
/// the process itself has written is in the pipe when the exit is seen, so *draining* reads no more
/// than the pipe can hold and never waits. Time limits lead there as well: what has come before the
/// end is handed up, and a server that never stops writing cannot put the end off.
pub(super) struct StdioReceive {
    link: Arc<Link>,
    framer: Framer,
    exit: Exit,
    state: State,
    is_at_end: bool,
    /// Whether the last frames came several at once.
    is_busy: bool,
    has_warned: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum State {
    Reading,
    Losing {
        reason: CloseReason,
        until: Instant,
    },
    /// `left`: how many bytes at most are still read.
    Draining {
        reason: CloseReason,
        left: usize,
    },
    Closed(Closed),
}

/// What one look at standard output brought.
enum Read {
    Bytes,
    /// Nothing more will come.
    End,
}

impl StdioReceive {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self {
            framer: Framer::new(link.limits.max_frame_bytes),
            exit: Exit::of(&*link.process),
            link,
            state: State::Reading,
            is_at_end: false,
            is_busy: false,
            has_warned: false,
            timer: None,
        }
    }

    /// Moves complete frames to `into`, up to the limit of one poll.
    fn take_frames(&mut self, into: &mut Vec<Inbound>) -> Result<(), FrameError> {
        for _ in 0..MAX_ENTRIES {
            let next = if self.is_at_end { self.framer.finish() } else { self.framer.next_frame() };
            let Some(frame) = next? else { break };
            self.warn_of_noise(&frame);
            into.push(frame);
        }
        Ok(())
    }

    /// Says once per connection that the server's output is not clean.
    fn warn_of_noise(&mut self, frame: &Inbound) {
        let is_noise = matches!(frame, Inbound::Broken(broken) if broken.why == BrokenWhy::Noise);
        if is_noise && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(
                server = &*self.link.server,
                "skipping lines on standard output that are no messages; the server should log to standard error"
            );
        }
    }

    /// Reads once. When draining, the pipe itself is asked, not the poller, whose news may be older.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Read>> {
        let mut incoming = self.link.incoming();
        let Some(pipe) = incoming.as_mut() else { return Poll::Ready(Ok(Read::End)) };
        self.framer.lend(spare::take);
        let buffer = self.framer.buffer();
        let State::Draining { left, .. } = &mut self.state else {
            let Poll::Ready(read) = pin!(pipe.read_buf(buffer)).poll(cx) else {
                if let Some(room) = self.framer.give_back() {
                    spare::keep(room);
                }
                return Poll::Pending;
            };
            return Poll::Ready(Ok(if read? > 0 { Read::Bytes } else { Read::End }));
        };
        Poll::Ready(match rustix::io::read(&*pipe, spare_capacity(buffer)) {
            Ok(length) if length > 0 && *left > 0 => {
                *left = left.saturating_sub(length);
                Ok(Read::Bytes)
            }
            Ok(_) | Err(Errno::AGAIN) => Ok(Read::End),
            Err(error) => Err(error.into()),
        })
    }

    /// The process has ended: what it wrote is still read.
    fn on_exit(&mut self, end: Option<ProcessEnd>) {
        if let State::Reading | State::Losing { .. } = self.state {
            let exit = end.and_then(|end| end.exit);
            self.drain(exit.map_or(CloseReason::EndOfStream, CloseReason::Exited));
        }
    }

    /// The connection ends for `reason`, once what stands in the pipe has been read.
    fn drain(&mut self, reason: CloseReason) {
        let capacity = self.link.incoming().as_ref().map(rustix::pipe::fcntl_getpipe_size);
        let left = capacity.and_then(Result::ok).unwrap_or(PIPE_CAPACITY);
        self.state = State::Draining { reason, left };
    }

    /// Ends what is past its time limit, however much there may be to read.
    ///
    /// The timer alone would not do: it is looked at when nothing can be read, and a server that
    /// floods its output always has something.
    fn mind_limit(&mut self, notice_by: Option<Instant>) {
        if let Some((reason, by)) = self.limit(notice_by)
            && by <= Instant::now()
            && !self.exit.is_known()
        {
            self.drain(reason);
        }
    }

    /// What will end the connection if nothing else does, and when.
    fn limit(&self, notice_by: Option<Instant>) -> Option<(CloseReason, Instant)> {
        match &self.state {
            State::Reading => notice_by.map(|by| (CloseReason::Stuck, by)),
            State::Losing { reason, until } => Some((reason.clone(), *until)),
            State::Draining { .. } | State::Closed(_) => None,
        }
    }

    /// The connection is over, but the process may be about to end: its status says more.
    fn on_loss(&mut self, reason: CloseReason) {
        if let State::Reading = self.state {
            self.state = State::Losing { reason, until: Instant::now() + EXIT_LIMIT };
        }
    }

    fn close(&mut self, reason: CloseReason) -> Poll<Result<(), Closed>> {
        let closed = self.link.closed_by(reason);
        if *closed.reason() != CloseReason::Local {
            // Otherwise the sending half is at it, and may still have something to flush.
            self.link.shut(closed.clone());
            self.link.discard_output();
        }
        let counters = self.framer.counters();
        tracing::debug!(server = &*self.link.server, reason = %closed.reason(), ?counters, "connection has ended");
        self.state = State::Closed(closed.clone());
        self.timer = None;
        Poll::Ready(Err(closed))
    }

    /// Sleeps until `deadline`; `Ready` when it is over.
    fn poll_timer(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    }

    /// Looks at the sending side, which this half also drives.
    fn look(&mut self, cx: &mut Context<'_>) -> Result<Option<Instant>, CloseReason> {
        match self.link.look(std::mem::take(&mut self.is_busy), cx) {
            Looked::Open { notice_by } => Ok(notice_by),
            Looked::Closed(closed) => match closed.reason() {
                // The peer may have ended, or still have answers under way.
                CloseReason::Broken(_) => {
                    self.on_loss(closed.reason().clone());
                    Ok(None)
                }
                reason => Err(reason.clone()),
            },
        }
    }

    /// Reads until something has come, nothing is there, or others should get a turn.
    fn poll_frames(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<Inbound>,
    ) -> Poll<Result<(), CloseReason>> {
        let before = into.len();
        for _ in 0..MAX_READS {
            let fault = self.take_frames(into).err();
            if into.len() > before {
                self.is_busy = into.len() > before + 1;
                // A fault comes up again with the next poll.
                return Poll::Ready(Ok(()));
            }
            if let Some(fault) = fault {
                return Poll::Ready(Err(fault.into()));
            }
            if self.is_at_end {
                return Poll::Pending;
            }
            if self.exit.is_known() {
                self.on_exit(self.exit.now());
            }
            match ready!(self.poll_read(cx)) {
                Ok(Read::Bytes) => {}
                Ok(Read::End) => self.is_at_end = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Poll::Ready(Err(CloseReason::Broken(format!("reading failed: {error}"))));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits for the end in one way or another. `Ready` with a reason: it has come; `Ready` without
    /// one: look again.
    fn poll_end(&mut self, notice_by: Option<Instant>, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        if self.is_at_end {
            match &self.state {
                State::Draining { reason, .. } => return Poll::Ready(Some(reason.clone())),
                State::Reading | State::Losing { .. } | State::Closed(_) => {
                    self.on_loss(CloseReason::EndOfStream);
                }
            }
        }
        if let State::Reading | State::Losing { .. } = self.state
            && let Poll::Ready(end) = self.exit.poll(cx)
        {
            self.on_exit(end);
            return Poll::Ready(None);
        }
        // Draining has none: it never waits, and has asked for the next poll.
        let Some((reason, by)) = self.limit(notice_by) else { return Poll::Pending };
        ready!(self.poll_timer(by, cx));
        self.drain(reason);
        Poll::Ready(None)
    }
}

impl Receive for StdioReceive {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        loop {
            if let State::Closed(closed) = &self.state {
                return Poll::Ready(Err(closed.clone()));
            }
            let notice_by = match self.look(cx) {
                Ok(notice_by) => notice_by,
                Err(reason) => return self.close(reason),
            };
            self.mind_limit(notice_by);
            match self.poll_frames(cx, into) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(reason)) => return self.close(reason),
                Poll::Pending => {}
            }
            if let Some(reason) = ready!(self.poll_end(notice_by, cx)) {
                return self.close(reason);
            }
        }
    }
}

/// Without a reader there is no connection: a process that nobody has asked to stop is killed.
impl Drop for StdioReceive {
    fn drop(&mut self) {
        if let State::Closed(_) = self.state {
            return;
        }
        if self.link.closing().began.is_none() {
            self.link.fail(CloseReason::Local);
            self.link.process.kill();
        }
        self.link.discard_output();
    }
}

impl From<FrameError> for CloseReason {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::NotMcp => Self::NotMcp,
            FrameError::Endless { .. } => Self::Broken(error.to_string()),
        }
    }
}

impl fmt::Debug for StdioReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioReceive").field("state", &self.state).finish_non_exhaustive()
    }
}
