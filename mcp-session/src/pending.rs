use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_transport::Closed;
use tokio::time::Instant;

/// The calls of one connection that wait for an answer.
///
/// Pure: no I/O, no task, no clock. It stands behind one short mutex that callers (insert, remove,
/// also from `Drop`) share with the driver (remove, expire, close). **Whoever takes an entry out
/// decides how its call ends**, so every call ends exactly once, and everything an entry owns is
/// free at that moment.
///
/// ```text
///            insert              remove (reply, cancel, drop, send error)
///   caller ─────────▶ entries ──────────────────────────────────────────▶ taker
///              │         │      expire (deadline)   close (connection gone)
///              ▼         ▼
///           refused   deadlines: one ordered set, one entry per call
/// ```
#[derive(Debug)]
pub(crate) struct PendingTable<T> {
    intake: Intake,
    entries: BTreeMap<i64, Pending<T>>,
    /// When each entry ends unless something happens before; kept exact, so that an answered call
    /// leaves nothing behind that could wake the driver.
    deadlines: BTreeSet<(Instant, i64)>,
    /// What the driver's timer is set to; an earlier deadline has to wake it.
    armed: Option<Instant>,
    capacity: usize,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The time without progress that ends the call.
    pub(crate) soft: Duration,
    /// When the soft limit ends the call; progress moves it.
    pub(crate) soft_end: Instant,
    /// When the call ends whatever the server reports.
    pub(crate) hard_end: Instant,
}

/// The way a call comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Through a gate: refused once the gate has taken the session back.
    Gate,
    /// Straight from a session handle.
    Session,
}

/// A call was not taken in; nothing of it may be sent.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The connection has ended.
    Closed(Closed),
    /// As many calls as the table may hold are waiting.
    Full,
    /// The gate has taken the session back.
    Retracted,
}

/// Whether the driver has to set its timer to an earlier instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// It fires early enough.
    Armed,
    /// It fires too late or not at all: the driver must be woken.
    Late,
}

#[derive(Debug)]
enum Intake {
    Open,
    Retracted,
    Closed(Closed),
}

#[derive(Debug)]
struct Pending<T> {
    value: T,
    patience: Patience,
    due: Instant,
}

impl<T> PendingTable<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            intake: Intake::Open,
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            armed: None,
            capacity,
        }
    }

    /// Takes a call in, unless the connection has ended or the call came through a gate that has
    /// taken the session back: both are checked here, under the lock that the caller holds.
    ///
    /// `id` must be new; ids come from one counter that never repeats.
    pub(crate) fn insert(
        &mut self,
        id: i64,
        value: T,
        patience: Patience,
        door: Door,
    ) -> Result<Timer, Refused> {
        match &self.intake {
            Intake::Closed(closed) => return Err(Refused::Closed(closed.clone())),
            Intake::Retracted if door == Door::Gate => return Err(Refused::Retracted),
            Intake::Open | Intake::Retracted => {}
        }
        if self.entries.len() >= self.capacity {
            return Err(Refused::Full);
        }
        let due = patience.due();
        self.entries.insert(id, Pending { value, patience, due });
        self.deadlines.insert((due, id));
        Ok(if self.armed.is_some_and(|armed| armed <= due) { Timer::Armed } else { Timer::Late })
    }

    /// Takes a call out; `None` means that somebody else has, or that it never was here.
    pub(crate) fn remove(&mut self, id: i64) -> Option<T> {
        let pending = self.entries.remove(&id)?;
        self.deadlines.remove(&(pending.due, id));
        Some(pending.value)
    }

    /// Starts the soft limit of a call anew at `now`; the hard limit stays.
    ///
    /// A deadline only ever moves back, so the driver's timer may fire early but never late.
    pub(crate) fn extend(&mut self, id: i64, now: Instant) {
        let Some(pending) = self.entries.get_mut(&id) else { return };
        let soft_end = later(now, pending.patience.soft);
        if soft_end <= pending.patience.soft_end {
            return;
        }
        pending.patience.soft_end = soft_end;
        let due = pending.patience.due();
        if due != pending.due {
            self.deadlines.remove(&(pending.due, id));
            self.deadlines.insert((due, id));
            pending.due = due;
        }
    }

    /// Takes out every call whose deadline is not after `now`, earliest first.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(i64, T)> {
        self.armed = self.armed.filter(|&armed| armed > now);
        let mut expired = Vec::new();
        while let Some(&(due, id)) = self.deadlines.first()
            && due <= now
        {
            self.deadlines.pop_first();
            if let Some(pending) = self.entries.remove(&id) {
                expired.push((id, pending.value));
            }
        }
        expired
    }

    /// Ends the table: everything is taken out, oldest call first, and nothing comes in again.
    ///
    /// `None` if it had ended before; the first reason stays.
    pub(crate) fn close(&mut self, closed: Closed) -> Option<Vec<(i64, T)>> {
        if matches!(self.intake, Intake::Closed(_)) {
            return None;
        }
        self.intake = Intake::Closed(closed);
        self.deadlines.clear();
        let entries = std::mem::take(&mut self.entries);
        Some(entries.into_iter().map(|(id, pending)| (id, pending.value)).collect())
    }

    /// Refuses calls that come through a gate from now on.
    pub(crate) fn retract(&mut self) {
        if matches!(self.intake, Intake::Open) {
            self.intake = Intake::Retracted;
        }
    }

    /// Tells the instant that the driver's timer must be set to, and remembers it.
    ///
    /// A timer that fires before there is anything to do is left alone: answering a call never
    /// touches the timer, and the one early wake-up costs less than setting it anew for every call.
    pub(crate) fn arm(&mut self) -> Option<Instant> {
        let next = self.next_deadline();
        if self.armed.is_none() || next.is_some_and(|next| Some(next) < self.armed) {
            self.armed = next;
        }
        self.armed
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(due, _)| due)
    }

    /// The value of a waiting call.
    pub(crate) fn get(&self, id: i64) -> Option<&T> {
        self.entries.get(&id).map(|pending| &pending.value)
    }

    /// The id of the only waiting call.
    pub(crate) fn sole(&self) -> Option<i64> {
        let mut ids = self.entries.keys();
        ids.next().copied().filter(|_| ids.next().is_none())
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Why the connection has ended, once it has.
    pub(crate) fn closed(&self) -> Option<&Closed> {
        match &self.intake {
            Intake::Closed(closed) => Some(closed),
            Intake::Open | Intake::Retracted => None,
        }
    }
}

impl Patience {
    pub(crate) fn new(start: Instant, soft: Duration, hard_end: Instant) -> Self {
        Self { soft, soft_end: later(start, soft), hard_end }
    }

    pub(crate) fn due(&self) -> Instant {
        self.soft_end.min(self.hard_end)
    }
}

/// `start + span`, or an instant decades ahead where that is beyond the clock.
pub(crate) fn later(start: Instant, span: Duration) -> Instant {
    const DECADES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    start.checked_add(span.min(DECADES)).unwrap_or(start)
}
