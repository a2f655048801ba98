use std::task::{Context, Waker};

use mcp_proto::RequestId;
use tokio::time::Instant;

use super::limits::StdioLimits;
use super::queue::{Batch, Queue, Queued, Room, TakenBack};
use crate::error::Closed;
use crate::transport::Outbound;

/// What waits to be written, who waits for room, and whether more is taken.
///
/// Decides and writes nothing. Always behind the lock of the [`Writer`](super::writer::Writer), which is
/// held for moments: nobody who sends waits while somebody writes.
#[derive(Debug)]
pub(super) struct Outgoing {
    state: State,
    queue: Queue,
    /// Senders in line for room, oldest first.
    line: Vec<(Ticket, Option<RequestId>)>,
    last_ticket: Ticket,
    /// Somebody is writing, and looks at the queue once more before it stops.
    is_written: bool,
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

/// Why a frame was not let in.
#[derive(Debug)]
pub(super) enum Refused {
    Closed(Closed),
    /// Come back when there is room.
    Full,
    /// It was given up while it waited in line.
    Abandoned,
}

impl Outgoing {
    pub(super) fn new(limits: &StdioLimits) -> Self {
        Self {
            state: State::Open,
            queue: Queue::new(limits),
            line: Vec::new(),
            last_ticket: 0,
            is_written: false,
            is_busy: false,
            is_gathering: false,
            driver: None,
        }
    }

    /// Lets a frame in if there is room for it.
    ///
    /// `turn` is the ticket of a sender that has come to the head of the line; everybody else has to
    /// line up behind those who wait already.
    pub(super) fn let_in(
        &mut self,
        message: &Outbound,
        room: Room,
        turn: Option<Ticket>,
    ) -> Result<(), Refused> {
        if let State::Closing(closed) | State::Closed(closed) = &self.state {
            return Err(Refused::Closed(closed.clone()));
        }
        if let Some(ticket) = turn
            && !self.line.iter().any(|(waiting, _)| *waiting == ticket)
        {
            return Err(Refused::Abandoned);
        }
        let must_line_up = turn.is_none() && room == Room::Common && !self.line.is_empty();
        if must_line_up || !self.queue.has_room(message.frame.len(), room) {
            return Err(Refused::Full);
        }
        if let Some(ticket) = turn {
            self.line.retain(|(waiting, _)| *waiting != ticket);
        }
        Ok(())
    }

    /// Whether the next frame is alone, so that its caller had best write it; whoever comes after it is not.
    pub(super) fn is_quiet(&mut self) -> bool {
        let is_busy = std::mem::replace(&mut self.is_busy, true);
        !is_busy && !self.is_written && self.queue.is_empty()
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.queue.push(queued);
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

    /// Somebody has the pipe and begins to write.
    pub(super) fn begin_writing(&mut self) {
        self.is_written = true;
    }

    /// What is to be written next, if anything is.
    pub(super) fn take_batch(&mut self) -> Option<Batch> {
        self.queue.take_batch()
    }

    /// `written` bytes of a batch have left; the rest waits again.
    pub(super) fn put_back(&mut self, batch: Batch, written: usize) {
        self.queue.put_back(batch, written);
    }

    /// Puts a frame back that could not be written as a whole: `begun` bytes of it have left.
    pub(super) fn put_first(&mut self, queued: Queued, begun: usize) {
        self.queue.put_first(queued, begun);
    }

    /// Nobody writes any more.
    pub(super) fn end_writing(&mut self) {
        self.is_written = false;
    }

    /// The driver, if there is something that nobody writes: to be woken, outside the lock.
    #[must_use]
    pub(super) fn wake_for_queue(&mut self) -> Option<Waker> {
        if self.is_written || self.queue.is_empty() { None } else { self.driver.take() }
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

    /// Has the driver write in its next turn, as others had one.
    pub(super) fn go_on(&mut self) {
        self.is_gathering = true;
    }

    /// Takes no more frames from now on. Answers who is to be woken, outside the lock.
    pub(super) fn begin_close(&mut self, closed: Closed) -> Option<Waker> {
        if let State::Open = self.state {
            self.state = State::Closing(closed);
        }
        self.driver.take()
    }

    /// Throws away what has not left; the first reason to close is kept. Answers it, and who is to be woken,
    /// outside the lock.
    pub(super) fn close(&mut self, closed: Closed) -> (Closed, Option<Waker>) {
        let closed = match std::mem::replace(&mut self.state, State::Open) {
            State::Open => closed,
            State::Closing(first) | State::Closed(first) => first,
        };
        self.state = State::Closed(closed.clone());
        self.queue.clear();
        (closed, self.driver.take())
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
}
