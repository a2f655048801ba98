use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mcp_proto::RequestId;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::error::{CloseReason, CloseReport, Closed, Ending, Exit, Full};
use crate::testing::memory::MemoryOptions;
use crate::testing::peer::Received;
use crate::transport::{Abandoned, Dispatch, Inbound, Outbound};

/// How long a cancel notice may wait to be written before the connection is given up.
const NOTICE_LIMIT: Duration = Duration::from_millis(50);

/// The state between a memory connection and its peer. Pure: it waits for nothing and wakes nobody.
///
/// ```text
///   send ─▶ queued ──pump──▶ pipe ─▶ ScriptedPeer::receive
///             │ abandon        │ from here on a frame may have left
///             ▼ takes it back
///   poll_receive ◀─ inbound ◀─ ScriptedPeer::send
/// ```
#[derive(Debug)]
pub(super) struct Wire {
    options: MemoryOptions,
    phase: Phase,
    report: Option<CloseReport>,
    linger: Option<(Duration, Ending)>,
    /// Handed over, not begun to leave.
    queued: VecDeque<Queued>,
    /// Left, not yet taken by the peer.
    pipe: VecDeque<Received>,
    /// Requests that have left.
    left: BTreeSet<RequestId>,
    transcript: Vec<Received>,
    /// What the peer has sent, each with its place in the bounded queue.
    inbound: VecDeque<(Inbound, OwnedSemaphorePermit)>,
    /// Calls of `receive` that wait: each takes one frame more than the window.
    waiting: usize,
    paused: bool,
}

#[derive(Debug)]
enum Phase {
    Open,
    /// Our side closes: nothing new is taken, what is queued may still leave.
    Closing(Instant),
    Closed(Closed),
}

#[derive(Debug)]
struct Queued {
    message: Outbound,
    /// The place in the queue; `None` for what uses the reserve.
    _slot: Option<OwnedSemaphorePermit>,
    /// A cancel notice that is still here at this time closes the connection.
    by: Option<Instant>,
}

impl Wire {
    pub(super) fn new(options: MemoryOptions) -> Self {
        Self {
            options,
            phase: Phase::Open,
            report: None,
            linger: None,
            queued: VecDeque::new(),
            pipe: VecDeque::new(),
            left: BTreeSet::new(),
            transcript: Vec::new(),
            inbound: VecDeque::new(),
            waiting: 0,
            paused: false,
        }
    }

    /// Takes a frame into the queue; `None` when the connection takes no more.
    pub(super) fn send(&mut self, message: Outbound, slot: OwnedSemaphorePermit, now: Instant) -> Option<()> {
        self.is_open().then(|| self.enqueue(Queued { message, _slot: Some(slot), by: None }, now))
    }

    pub(super) fn post(&mut self, message: Outbound, now: Instant) -> Result<(), Full> {
        if !self.is_open() || !self.has_reserve() {
            return Err(Full);
        }
        self.enqueue(Queued { message, _slot: None, by: None }, now);
        Ok(())
    }

    pub(super) fn abandon(&mut self, id: &RequestId, notice: Option<Outbound>, now: Instant) -> Abandoned {
        let queued = self.queued.iter().position(|entry| entry.message.request_id() == Some(id));
        if queued.and_then(|index| self.queued.remove(index)).is_some() || !self.left.remove(id) {
            return Abandoned { dispatch: Dispatch::NotSent, is_told: false };
        }
        let is_told = notice.is_some_and(|notice| self.insist(notice, now).is_ok());
        Abandoned { dispatch: Dispatch::MayHaveLeft, is_told }
    }

    /// Takes a frame that must leave in time, or ends the connection.
    pub(super) fn insist(&mut self, message: Outbound, now: Instant) -> Result<(), Full> {
        if self.closed().is_some() {
            return Err(Full);
        }
        if !self.has_reserve() {
            self.end(CloseReason::Stuck, now);
            return Err(Full);
        }
        self.enqueue(Queued { message, _slot: None, by: Some(now + NOTICE_LIMIT) }, now);
        Ok(())
    }

    /// Our side closes.
    pub(super) fn begin_closing(&mut self, now: Instant) {
        if self.is_open() {
            self.phase = Phase::Closing(now);
        }
        self.on_time(now);
    }

    /// Our side has no time left to wait for the end.
    pub(super) fn abandon_closing(&mut self, now: Instant) {
        if let Phase::Closing(since) = self.phase {
            self.report = Some(CloseReport::new(Ending::Abandoned, None, now.duration_since(since)));
            self.end(CloseReason::Local, now);
        }
    }

    /// Both halves of our side, or one of them, were dropped.
    pub(super) fn end_locally(&mut self, now: Instant) {
        if self.closed().is_none() {
            self.end(CloseReason::Local, now);
        }
    }

    /// The peer ends the connection.
    pub(super) fn peer_closes(&mut self, reason: CloseReason, now: Instant) {
        if self.closed().is_none() {
            // It went by itself, however long it would have taken otherwise.
            self.linger = None;
            self.end(reason, now);
        }
    }

    /// The peer was dropped: that closes its stream, unless it was told how long its end takes.
    pub(super) fn peer_dropped(&mut self, now: Instant) {
        match self.phase {
            Phase::Open => self.end(CloseReason::EndOfStream, now),
            Phase::Closing(_) if self.linger.is_none() => self.end(CloseReason::Local, now),
            Phase::Closing(_) => self.queued.clear(),
            Phase::Closed(_) => {}
        }
    }

    /// Takes what the peer sends; it is dropped when nobody can receive it any more.
    pub(super) fn peer_sends(&mut self, inbound: Inbound, slot: OwnedSemaphorePermit) {
        if self.closed().is_none() {
            self.inbound.push_back((inbound, slot));
        }
    }

    pub(super) fn set_waiting(&mut self, waiting: bool, now: Instant) {
        self.waiting = if waiting { self.waiting + 1 } else { self.waiting.saturating_sub(1) };
        self.pump(now);
    }

    pub(super) fn set_paused(&mut self, paused: bool, now: Instant) {
        self.paused = paused;
        self.pump(now);
    }

    pub(super) fn set_linger(&mut self, linger: Duration, ending: Ending) {
        self.linger = Some((linger, ending));
    }

    /// The next frame for the peer; `Some(None)` when none will come any more.
    pub(super) fn peer_takes(&mut self, now: Instant) -> Option<Option<Received>> {
        if !self.paused
            && let Some(frame) = self.pipe.pop_front()
        {
            self.pump(now);
            return Some(Some(frame));
        }
        let is_over = match self.phase {
            Phase::Open => false,
            Phase::Closing(_) => self.queued.is_empty() && self.pipe.is_empty(),
            Phase::Closed(_) => true,
        };
        is_over.then_some(None)
    }

    pub(super) fn take_inbound(&mut self) -> Option<Inbound> {
        self.inbound.pop_front().map(|(inbound, _slot)| inbound)
    }

    pub(super) fn on_time(&mut self, now: Instant) {
        match self.phase {
            Phase::Closing(since) if self.closes_at(since) <= now => self.end(CloseReason::Local, now),
            Phase::Closed(_) => {}
            _ if self.notice_limit().is_some_and(|by| by <= now) => self.end(CloseReason::Stuck, now),
            _ => {}
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open => self.notice_limit(),
            Phase::Closing(since) => {
                let end = self.closes_at(since);
                Some(self.notice_limit().map_or(end, |by| by.min(end)))
            }
            Phase::Closed(_) => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    pub(super) fn closed(&self) -> Option<&Closed> {
        match &self.phase {
            Phase::Closed(closed) => Some(closed),
            Phase::Open | Phase::Closing(_) => None,
        }
    }

    pub(super) fn report(&self) -> Option<&CloseReport> {
        self.report.as_ref()
    }

    pub(super) fn has_inbound(&self) -> bool {
        !self.inbound.is_empty()
    }

    pub(super) fn transcript(&self) -> &[Received] {
        &self.transcript
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.len()
    }

    fn enqueue(&mut self, entry: Queued, now: Instant) {
        self.queued.push_back(entry);
        self.pump(now);
    }

    /// Lets frames leave while the peer has room. Here, and nowhere else, *not sent* ends.
    fn pump(&mut self, now: Instant) {
        while !self.paused
            && self.closed().is_none()
            && self.pipe.len() < self.options.window + self.waiting
            && let Some(entry) = self.queued.pop_front()
        {
            if let Some(id) = entry.message.request_id() {
                self.left.insert(id.clone());
            }
            let received = Received::new(entry.message.frame, now);
            self.transcript.push(received.clone());
            self.pipe.push_back(received);
        }
        // The last queued frame may have been all that a closing connection waited for.
        if matches!(self.phase, Phase::Closing(_)) {
            self.on_time(now);
        }
    }

    fn end(&mut self, reason: CloseReason, now: Instant) {
        let exit = match reason {
            CloseReason::Exited(exit) => Some(exit),
            _ => None,
        };
        if self.report.is_none() {
            self.report = Some(self.ordinary_report(exit, now));
        }
        self.queued.clear();
        if exit.is_some() {
            // A process that has ended reads no more.
            self.pipe.clear();
        }
        self.phase = Phase::Closed(Closed::new(reason, ""));
    }

    fn ordinary_report(&self, exit: Option<Exit>, now: Instant) -> CloseReport {
        match (&self.phase, self.linger) {
            (Phase::Closing(since), Some((_, ending))) => {
                CloseReport::new(ending, exit, now.duration_since(*since))
            }
            (Phase::Closing(since), None) => {
                CloseReport::new(Ending::Clean, exit, now.duration_since(*since))
            }
            _ => CloseReport::new(Ending::Clean, exit, Duration::ZERO),
        }
    }

    fn closes_at(&self, since: Instant) -> Instant {
        let flushed = if self.queued.is_empty() { since } else { since + self.options.flush_grace };
        flushed.max(since + self.linger.map_or(Duration::ZERO, |(linger, _)| linger))
    }

    fn notice_limit(&self) -> Option<Instant> {
        self.queued.iter().filter_map(|entry| entry.by).min()
    }

    fn has_reserve(&self) -> bool {
        self.queued.len() < self.options.queue + self.options.reserve
    }
}
