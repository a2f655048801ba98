use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker, ready};

use mcp_proto::RequestId;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::limits::StdioLimits;
use super::queue::{MAX_SLICES, Queue, Queued, Room, TakenBack};
use crate::error::Closed;
use crate::transport::Outbound;

/// The sending side of a connection: the pipe, what waits to be written, and who waits for room.
///
/// Always behind the link's lock, which is held for one attempt to write and never across a wait.
#[derive(Debug)]
pub(super) struct Outgoing {
    state: State,
    pipe: Option<pipe::Sender>,
    queue: Queue,
    /// Senders in line for room, oldest first.
    line: Vec<(Ticket, Option<RequestId>)>,
    last_ticket: Ticket,
    /// Set by a caller that has written by itself, and when several callers have been answered at once; cleared
    /// when the driver looks. Who comes meanwhile queues, so that under load frames gather and are written
    /// together.
    is_busy: bool,
    /// Set by the driver that has seen frames in the queue and lets others add theirs before it writes.
    is_gathering: bool,
    driver: Option<Waker>,
}

/// Names a sender in line.
pub(super) type Ticket = u64;

#[derive(Debug)]
enum State {
    Open,
    /// Takes no more frames, but still writes those it has.
    Closing(Closed),
    Closed(Closed),
}

/// What became of a frame that was offered.
#[derive(Debug)]
pub(super) enum Offer {
    Closed(Closed),
    /// Come back when there is room.
    Full(Outbound),
    Taken,
    /// Writing failed; what was offered may be gone with it.
    Failed(io::Error, FailedWith),
}

/// What a failed write means for the frame that was offered with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedWith {
    NothingLeft,
    SomeLeft,
}

impl Outgoing {
    pub(super) fn new(pipe: pipe::Sender, limits: &StdioLimits) -> Self {
        Self {
            state: State::Open,
            pipe: Some(pipe),
            queue: Queue::new(limits),
            line: Vec::new(),
            last_ticket: 0,
            is_busy: false,
            is_gathering: false,
            driver: None,
        }
    }

    /// Takes a frame if there is room, and writes it at once on a quiet connection.
    ///
    /// `turn` is the ticket of a sender that has come to the head of the line; everybody else has to
    /// line up behind those who wait already.
    pub(super) fn offer(
        &mut self,
        message: Outbound,
        room: Room,
        turn: Option<Ticket>,
        by: Option<Instant>,
    ) -> Offer {
        if let State::Closing(closed) | State::Closed(closed) = &self.state {
            return Offer::Closed(closed.clone());
        }
        if let Some(ticket) = turn
            && !self.line.iter().any(|(waiting, _)| *waiting == ticket)
        {
            // Abandoned while it waited: it counts as taken, and taken back.
            return Offer::Taken;
        }
        let must_line_up = turn.is_none() && room == Room::Common && !self.line.is_empty();
        if must_line_up {
            return Offer::Full(message);
        }
        if !self.queue.has_room(message.frame.len(), room) {
            // Who cannot wait does not wait for the driver either: frames may lie here only because it
            // has not had its turn.
            if room == Room::Reserved
                && let Err(error) = self.write()
            {
                return Offer::Failed(error, FailedWith::NothingLeft);
            }
            if !self.queue.has_room(message.frame.len(), room) {
                return Offer::Full(message);
            }
        }
        if let Some(ticket) = turn {
            self.line.retain(|(waiting, _)| *waiting != ticket);
        }
        let is_quiet = self.queue.is_empty() && !std::mem::replace(&mut self.is_busy, true);
        let id = message.request_id().cloned();
        let probe = id.clone();
        self.queue.push(Queued { frame: message.frame, id, by });
        if !is_quiet {
            return Offer::Taken;
        }
        match self.write() {
            Ok(()) => Offer::Taken,
            Err(error) => {
                let unsent = probe.is_some_and(|id| self.queue.take_back(&id) == TakenBack::Unsent);
                let with = if unsent { FailedWith::NothingLeft } else { FailedWith::SomeLeft };
                Offer::Failed(error, with)
            }
        }
    }

    /// Lines up for room.
    pub(super) fn line_up(&mut self, id: Option<RequestId>) -> Ticket {
        self.last_ticket += 1;
        self.line.push((self.last_ticket, id));
        self.last_ticket
    }

    /// Leaves the line, if still in it, and remembers that the request was never sent.
    pub(super) fn leave_line(&mut self, ticket: Ticket) {
        if let Some(index) = self.line.iter().position(|(waiting, _)| *waiting == ticket)
            && let (_, Some(id)) = self.line.remove(index)
        {
            self.queue.withdraw(id);
        }
    }

    /// Takes a request back, wherever it is.
    pub(super) fn take_back(&mut self, id: &RequestId) -> TakenBack {
        if let Some(index) = self.line.iter().position(|(_, waiting)| waiting.as_ref() == Some(id)) {
            self.line.remove(index);
            return TakenBack::Unsent;
        }
        self.queue.take_back(id)
    }

    /// Writes what is queued as far as the pipe takes it; `Ready` when nothing is left.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            let Some(pipe) = &self.pipe else { break };
            ready!(pipe.poll_write_ready(cx))?;
            self.write()?;
        }
        Poll::Ready(Ok(()))
    }

    /// Lets the driver be woken by whatever needs it, and notes that it has looked. `is_busy`: several callers
    /// have just been answered, and may have more to send.
    pub(super) fn on_driver(&mut self, is_busy: bool, cx: &Context<'_>) {
        self.is_busy = is_busy;
        if !self.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            self.driver = Some(cx.waker().clone());
        }
    }

    /// Whether the driver should give callers a turn before it writes: every first time that it sees frames.
    pub(super) fn should_gather(&mut self) -> bool {
        self.is_gathering = !self.is_gathering;
        self.is_gathering
    }

    /// Takes no more frames from now on.
    pub(super) fn begin_close(&mut self, closed: Closed) {
        if let State::Open = self.state {
            self.state = State::Closing(closed);
        }
    }

    /// Closes the pipe and throws away what has not left. Answers the pipe, to be dropped outside the
    /// lock; the first reason to close is kept.
    pub(super) fn close(&mut self, closed: Closed) -> Option<pipe::Sender> {
        self.state = match std::mem::replace(&mut self.state, State::Open) {
            State::Open => State::Closed(closed),
            State::Closing(first) | State::Closed(first) => State::Closed(first),
        };
        self.queue.clear();
        self.pipe.take()
    }

    /// Who is to be woken after a change; call it outside the lock.
    pub(super) fn take_driver(&mut self) -> Option<Waker> {
        self.driver.take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn has_line(&self) -> bool {
        !self.line.is_empty()
    }

    /// Why nothing is taken any more.
    pub(super) fn closed(&self) -> Option<&Closed> {
        match &self.state {
            State::Open => None,
            State::Closing(closed) | State::Closed(closed) => Some(closed),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline()
    }

    /// Writes until the queue is empty or the pipe is full. Never waits.
    fn write(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            let Some(pipe) = &self.pipe else { return Ok(()) };
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let used = self.queue.slices(&mut slices);
            match pipe.try_write_vectored(slices.get(..used).unwrap_or_default()) {
                Ok(written) => self.queue.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn offer(outgoing: &mut Outgoing, frame: &'static str) {
        let message = Outbound::notification(Bytes::from_static(frame.as_bytes()));
        assert!(matches!(outgoing.offer(message, Room::Common, None, None), Offer::Taken));
    }

    /// What has been written so far.
    fn written(pipe: &pipe::Receiver) -> String {
        let mut bytes = [0; 64];
        let length = rustix::io::read(pipe, &mut bytes).unwrap_or(0);
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_lone_frame_is_written_at_once_and_more_of_them_together() {
        let (pipe, far) = pipe::pipe().unwrap();
        pipe.writable().await.unwrap();
        let mut outgoing = Outgoing::new(pipe, &StdioLimits::default());
        let mut cx = Context::from_waker(Waker::noop());
        outgoing.on_driver(false, &cx);
        offer(&mut outgoing, "{}");
        assert_eq!(written(&far), "{}\n");
        offer(&mut outgoing, "{1}");
        assert_eq!(written(&far), "", "under load frames gather");
        assert!(outgoing.should_gather(), "others get their turn before they are written");
        offer(&mut outgoing, "{2}");
        assert!(!outgoing.should_gather());
        assert!(outgoing.poll_flush(&mut cx).is_ready());
        assert_eq!(written(&far), "{1}\n{2}\n");
        // Several callers have just been answered.
        outgoing.on_driver(true, &cx);
        offer(&mut outgoing, "{3}");
        assert_eq!(written(&far), "");
        outgoing.on_driver(false, &cx);
        assert!(outgoing.should_gather());
        assert!(!outgoing.should_gather());
        assert!(outgoing.poll_flush(&mut cx).is_ready());
        assert_eq!(written(&far), "{3}\n");
        offer(&mut outgoing, "{4}");
        assert_eq!(written(&far), "{4}\n");
    }
}
