//! Any order of events in the table of pending calls.

use std::time::Duration;

use mcp_transport::{CloseReason, Closed};
use tokio::time::Instant;

#[allow(dead_code, reason = "the table as the crate has it, of which not all is used here")]
#[path = "../../src/pending.rs"]
mod pending;

use pending::{Door, Patience, PendingTable, Refused, Timer};

/// Most calls that the table takes in.
const CAPACITY: usize = 12;

/// Fails if the table and a plain model of it come to differ: each pair of bytes is an event, which both
/// are told of.
pub(crate) fn run(data: &[u8]) {
    let mut both = Both::new();
    for event in data.chunks_exact(2) {
        both.on(event[0], event[1]);
        both.compare();
    }
    both.close();
    both.compare();
    assert!(both.model.is_empty() && both.table.count(|_| true) == 0, "each call has ended, and once");
}

/// The table, and what it must come to.
struct Both {
    table: PendingTable<i64>,
    /// A list, searched from end to end, in the order of the ids.
    model: Vec<Call>,
    start: Instant,
    now: u64,
    next_id: i64,
    /// What the driver's timer is set to.
    timer: Option<Instant>,
    is_retracted: bool,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    id: i64,
    soft: u64,
    soft_end: u64,
    hard_end: u64,
    rests: u32,
    rests_since: u64,
}

impl Call {
    fn end(&self) -> u64 {
        if self.rests == 0 { self.soft_end.min(self.hard_end) } else { self.hard_end }
    }
}

impl Both {
    fn new() -> Self {
        Self {
            table: PendingTable::new(CAPACITY),
            model: Vec::new(),
            start: Instant::now(),
            now: 0,
            next_id: 1,
            timer: None,
            is_retracted: false,
            is_closed: false,
        }
    }

    fn on(&mut self, what: u8, how: u8) {
        match what % 16 {
            0..=3 => self.insert(u64::from(what / 16) * 4, u64::from(how)),
            4..=6 => self.remove(how),
            7 | 8 => self.advance(u64::from(how) / 8),
            9 => self.extend(how),
            10 => self.rest(how),
            11 => self.resume(how),
            12 | 13 => self.timer = self.table.arm(),
            14 if how == 0 => self.retract(),
            15 if how == 0 => self.close(),
            _ => self.ask(how),
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn pick(&mut self, how: u8) -> Option<&mut Call> {
        let index = usize::from(how).checked_rem(self.model.len())?;
        self.model.get_mut(index)
    }

    fn on_timer(&mut self, timer: Timer) {
        if timer == Timer::Late {
            self.timer = self.table.arm();
        }
    }

    fn insert(&mut self, soft: u64, hard: u64) {
        let door = [Door::Again, Door::Gate, Door::Session][usize::try_from(hard % 3).unwrap()];
        let (id, now) = (self.next_id, self.now);
        self.next_id += 1;
        let is_resting = hard % 8 == 7;
        let mut patience = Patience::new(self.at(now), Duration::from_millis(soft), self.at(now + hard));
        if is_resting {
            patience = patience.at_rest(self.at(now));
        }
        match self.table.insert(id, id, patience, door) {
            Err((Refused::Closed(_), back)) => assert!(self.is_closed && back == id),
            Err((Refused::Retracted, _)) => {
                assert!(self.is_retracted && !self.is_closed && door == Door::Gate)
            }
            Err((Refused::Full, _)) => assert!(self.model.len() >= CAPACITY && door != Door::Again),
            Ok(timer) => {
                let is_refused = self.is_closed || (self.is_retracted && door == Door::Gate);
                assert!(!is_refused);
                assert!(self.model.len() < CAPACITY || door == Door::Again);
                let (soft_end, hard_end, rests) = (now + soft, now + hard, u32::from(is_resting));
                self.model.push(Call { id, soft, soft_end, hard_end, rests, rests_since: now });
                self.on_timer(timer);
            }
        }
    }

    fn remove(&mut self, how: u8) {
        let id = i64::from(how) % self.next_id.max(1);
        let found = self.model.iter().position(|call| call.id == id);
        assert_eq!(self.table.remove(id), found.map(|index| self.model.remove(index).id));
    }

    fn advance(&mut self, ms: u64) {
        self.now += ms;
        let (now, instant) = (self.now, self.at(self.now));
        let mut due: Vec<_> =
            self.model.iter().map(|call| (call.end(), call.id)).filter(|(end, _)| *end <= now).collect();
        due.sort_unstable();
        assert!(due.is_empty() || self.timer.is_some_and(|timer| timer <= instant), "the timer is late");
        let expired: Vec<i64> = self.table.expire(instant).into_iter().map(|(_, value)| value).collect();
        assert_eq!(expired, due.iter().map(|(_, id)| *id).collect::<Vec<_>>());
        self.model.retain(|call| !expired.contains(&call.id));
        self.timer = self.table.arm();
    }

    fn extend(&mut self, how: u8) {
        let now = self.now;
        let Some(call) = self.pick(how) else { return };
        call.soft_end = call.soft_end.max(now + call.soft);
        let id = call.id;
        self.table.extend(id, self.at(now));
    }

    fn rest(&mut self, how: u8) {
        let now = self.now;
        let Some(call) = self.pick(how) else { return };
        call.rests += 1;
        if call.rests == 1 {
            call.rests_since = now;
        }
        let id = call.id;
        self.table.rest(id, self.at(now));
    }

    fn resume(&mut self, how: u8) {
        let now = self.now;
        let Some(call) = self.pick(how) else { return };
        if call.rests == 1 {
            call.soft_end = now + (call.soft_end - call.rests_since).min(call.soft);
        }
        call.rests = call.rests.saturating_sub(1);
        let id = call.id;
        let timer = self.table.resume(id, self.at(now));
        self.on_timer(timer);
    }

    fn retract(&mut self) {
        self.table.retract();
        self.is_retracted = true;
    }

    fn close(&mut self) {
        let closed = self.table.close(Closed::new(CloseReason::EndOfStream, ""));
        assert_eq!(closed.is_some(), !self.is_closed, "it ends once");
        let ids: Vec<i64> = closed.into_iter().flatten().map(|(_, value)| value).collect();
        assert_eq!(ids, self.model.drain(..).map(|call| call.id).collect::<Vec<_>>());
        self.is_closed = true;
    }

    /// What is asked changes nothing.
    fn ask(&self, how: u8) {
        let id = i64::from(how);
        assert_eq!(self.table.get(id).is_some(), self.model.iter().any(|call| call.id == id));
        assert_eq!(self.table.closed().is_some(), self.is_closed);
    }

    fn compare(&self) {
        assert_eq!(
            self.table.ids().collect::<Vec<_>>(),
            self.model.iter().map(|call| call.id).collect::<Vec<_>>()
        );
        let next = self.model.iter().map(Call::end).min();
        assert_eq!(self.table.next_deadline(), next.map(|ms| self.at(ms)));
        let sole = match self.model.as_slice() {
            [only] => Some(only.id),
            _ => None,
        };
        assert_eq!(self.table.sole(|_| true), sole);
    }
}
