use std::collections::VecDeque;
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
    /// In the order of their ids. Calls mostly come in at the end and go out near the front, where a
    /// sorted queue is faster than a tree and allocates nothing.
    entries: VecDeque<Pending<T>>,
    /// When each entry ends unless something happens before, in order; kept exact, so that an answered
    /// call leaves nothing behind that could wake the driver.
    deadlines: VecDeque<(Instant, i64)>,
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
    /// How many reasons there are that the server need not answer now; meanwhile the soft limit rests.
    pub(crate) rests: u32,
    /// Since when the soft limit rests, if it does.
    rests_since: Instant,
}

/// The way a call comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// A further round of a call that was let in before: refused only if the connection has ended.
    Again,
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
    id: i64,
    value: T,
    patience: Patience,
}

impl<T> PendingTable<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            intake: Intake::Open,
            entries: VecDeque::new(),
            deadlines: VecDeque::new(),
            armed: None,
            capacity,
        }
    }

    /// Takes a call in, unless the connection has ended or the call came through a gate that has
    /// taken the session back: both are checked here, under the lock that the caller holds.
    ///
    /// `id` must be new; ids come from one counter that never repeats. A refused value is handed
    /// back, so that it is dropped outside the lock.
    pub(crate) fn insert(
        &mut self,
        id: i64,
        value: T,
        patience: Patience,
        door: Door,
    ) -> Result<Timer, (Refused, T)> {
        match &self.intake {
            Intake::Closed(closed) => return Err((Refused::Closed(closed.clone()), value)),
            Intake::Retracted if door == Door::Gate => return Err((Refused::Retracted, value)),
            Intake::Open | Intake::Retracted => {}
        }
        if self.entries.len() >= self.capacity && door != Door::Again {
            return Err((Refused::Full, value));
        }
        let due = patience.due();
        let pending = Pending { id, value, patience };
        insert_sorted(&mut self.entries, pending, |pending| pending.id);
        self.note_deadline(due, id);
        Ok(self.timer_for(due))
    }

    /// Takes a call out; `None` means that somebody else has, or that it never was here.
    pub(crate) fn remove(&mut self, id: i64) -> Option<T> {
        let pending = self.find(id).and_then(|index| self.entries.remove(index))?;
        self.forget_deadline(pending.patience.due(), id);
        Some(pending.value)
    }

    /// Takes a call out if it is `wanted`.
    pub(crate) fn remove_if(&mut self, id: i64, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        if self.get(id).is_some_and(wanted) { self.remove(id) } else { None }
    }

    /// Takes the deadline from a request that lives until somebody ends it.
    pub(crate) fn never_expire(&mut self, id: i64) {
        self.change(id, |patience| {
            patience.soft_end = later(patience.soft_end, Duration::MAX);
            patience.hard_end = later(patience.hard_end, Duration::MAX);
        });
    }

    /// Starts the soft limit of a call anew at `now`; the hard limit stays.
    ///
    /// The deadline moves back, if at all, so the driver's timer may fire early but never late.
    pub(crate) fn extend(&mut self, id: i64, now: Instant) {
        self.change(id, |patience| patience.begin_anew(now));
    }

    /// Lets the soft limit of a call rest from `now` on: the server waits for something, not the caller
    /// for it.
    pub(crate) fn rest(&mut self, id: i64, now: Instant) {
        self.change(id, |patience| patience.rest(now));
    }

    /// Ends one [`rest`](Self::rest); with the last one the soft limit goes on at `now`, with what was
    /// left of it.
    ///
    /// The deadline may move forward: the driver's timer has to be looked at.
    pub(crate) fn resume(&mut self, id: i64, now: Instant) -> Timer {
        let due = self.change(id, |patience| patience.resume(now));
        due.map_or(Timer::Armed, |due| self.timer_for(due))
    }

    /// Changes how long a call may take; answers when it ends now.
    fn change(&mut self, id: i64, change: impl FnOnce(&mut Patience)) -> Option<Instant> {
        let pending = self.find(id).and_then(|index| self.entries.get_mut(index))?;
        let before = pending.patience.due();
        change(&mut pending.patience);
        let after = pending.patience.due();
        if after != before {
            self.forget_deadline(before, id);
            self.note_deadline(after, id);
        }
        Some(after)
    }

    fn timer_for(&self, due: Instant) -> Timer {
        if self.armed.is_some_and(|armed| armed <= due) { Timer::Armed } else { Timer::Late }
    }

    /// Takes out every call whose deadline is not after `now`, earliest first.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(i64, T)> {
        self.armed = self.armed.filter(|&armed| armed > now);
        let mut expired = Vec::new();
        while let Some(&(due, id)) = self.deadlines.front()
            && due <= now
        {
            self.deadlines.pop_front();
            expired.extend(self.remove(id).map(|value| (id, value)));
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
        Some(entries.into_iter().map(|pending| (pending.id, pending.value)).collect())
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

    /// Takes the driver's timer back if nothing has a deadline: with its next turn, the driver rests.
    /// Answers whether it has to be woken for that.
    pub(crate) fn disarm(&mut self) -> bool {
        self.deadlines.is_empty() && self.armed.take().is_some()
    }

    /// Gives back the room that is not needed.
    pub(crate) fn trim(&mut self) {
        self.entries.shrink_to_fit();
        self.deadlines.shrink_to_fit();
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|&(due, _)| due)
    }

    /// The value of a waiting call.
    pub(crate) fn get(&self, id: i64) -> Option<&T> {
        self.find(id).and_then(|index| self.entries.get(index)).map(|pending| &pending.value)
    }

    /// The values of all waiting calls, oldest first.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|pending| &pending.value)
    }

    /// The ids of all waiting calls, oldest first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = i64> {
        self.entries.iter().map(|pending| pending.id)
    }

    /// The id of the only one among those that count.
    pub(crate) fn sole(&self, counts: impl Fn(&T) -> bool) -> Option<i64> {
        let mut counted = self.entries.iter().filter(|pending| counts(&pending.value));
        let first = counted.next();
        first.filter(|_| counted.next().is_none()).map(|pending| pending.id)
    }

    /// How many count.
    pub(crate) fn count(&self, counts: impl Fn(&T) -> bool) -> usize {
        self.entries.iter().filter(|pending| counts(&pending.value)).count()
    }

    /// Why the connection has ended, once it has.
    pub(crate) fn closed(&self) -> Option<&Closed> {
        match &self.intake {
            Intake::Closed(closed) => Some(closed),
            Intake::Open | Intake::Retracted => None,
        }
    }

    fn find(&self, id: i64) -> Option<usize> {
        find_sorted(&self.entries, &id, |pending| pending.id)
    }

    fn note_deadline(&mut self, due: Instant, id: i64) {
        insert_sorted(&mut self.deadlines, (due, id), |deadline| *deadline);
    }

    fn forget_deadline(&mut self, due: Instant, id: i64) {
        if let Some(index) = find_sorted(&self.deadlines, &(due, id), |deadline| *deadline) {
            self.deadlines.remove(index);
        }
    }
}

impl Patience {
    pub(crate) fn new(start: Instant, soft: Duration, hard_end: Instant) -> Self {
        Self { soft, soft_end: later(start, soft), hard_end, rests: 0, rests_since: start }
    }

    /// The same limits, the soft one at rest since `now`, with the whole of it left.
    pub(crate) fn at_rest(self, now: Instant) -> Self {
        Self { soft_end: later(now, self.soft), rests: 1, rests_since: now, ..self }
    }

    pub(crate) fn due(&self) -> Instant {
        if self.rests > 0 { self.hard_end } else { self.soft_end.min(self.hard_end) }
    }

    fn begin_anew(&mut self, now: Instant) {
        self.soft_end = self.soft_end.max(later(now, self.soft));
    }

    fn rest(&mut self, now: Instant) {
        if self.rests == 0 {
            self.rests_since = now;
        }
        self.rests += 1;
    }

    fn resume(&mut self, now: Instant) {
        if self.rests == 1 {
            let rested = now.saturating_duration_since(self.rests_since);
            // Progress may have come meanwhile, but nobody has more left than the whole.
            self.soft_end = later(self.soft_end, rested).min(later(now, self.soft));
        }
        self.rests = self.rests.saturating_sub(1);
    }
}

/// Puts a value into a queue that is in the order of `key`: almost always at the end.
fn insert_sorted<T, K: Ord>(queue: &mut VecDeque<T>, value: T, key: impl Fn(&T) -> K) {
    let new = key(&value);
    if queue.back().is_none_or(|last| key(last) < new) {
        queue.push_back(value);
    } else {
        queue.insert(queue.partition_point(|present| key(present) < new), value);
    }
}

/// Where the value with `key` is in a queue that is in that order: often at the front.
fn find_sorted<T, K: Ord>(queue: &VecDeque<T>, wanted: &K, key: impl Fn(&T) -> K) -> Option<usize> {
    if queue.front().is_some_and(|first| key(first) == *wanted) {
        return Some(0);
    }
    queue.binary_search_by_key(wanted, key).ok()
}

/// `start + span`, or an instant decades ahead where that is beyond the clock.
pub(crate) fn later(start: Instant, span: Duration) -> Instant {
    const DECADES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    start.checked_add(span.min(DECADES)).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use mcp_transport::CloseReason;

    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    fn patience(start: Instant, soft: u64, hard: u64) -> Patience {
        Patience::new(start, Duration::from_millis(soft), at(start, hard))
    }

    fn closed() -> Closed {
        Closed::new(CloseReason::EndOfStream, "")
    }

    #[test]
    fn an_answered_call_leaves_no_deadline() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, 'a', patience(start, 10, 10), Door::Session).unwrap();
        assert_eq!(table.remove(1), Some('a'));
        assert_eq!(table.next_deadline(), None);
        assert_eq!(table.remove(1), None, "a second answer finds nothing");
        assert!(table.expire(at(start, 100)).is_empty());
    }

    #[test]
    fn what_is_not_wanted_stays_in_its_place() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, 'a', patience(start, 10, 10), Door::Session).unwrap();
        assert_eq!(table.remove_if(1, |value| *value == 'b'), None);
        assert_eq!(table.get(1), Some(&'a'));
        assert_eq!(table.remove_if(1, |value| *value == 'a'), Some('a'));
        assert_eq!(table.get(1), None);
    }

    #[test]
    fn a_later_round_begins_at_rest_with_the_whole_of_its_soft_limit() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        let later_round = patience(start, 10, 1000).at_rest(at(start, 100));
        table.insert(1, (), later_round, Door::Again).unwrap();
        assert!(table.expire(at(start, 299)).is_empty());
        table.resume(1, at(start, 300));
        assert!(table.expire(at(start, 309)).is_empty());
        assert_eq!(table.expire(at(start, 310)).len(), 1);
    }

    #[test]
    fn the_driver_is_woken_only_for_an_earlier_deadline() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        let insert = |table: &mut PendingTable<()>, id, ms| {
            table.insert(id, (), patience(start, ms, ms), Door::Session).unwrap()
        };
        assert_eq!(insert(&mut table, 1, 50), Timer::Late, "no timer is set yet");
        assert_eq!(table.arm(), Some(at(start, 50)));
        assert_eq!(insert(&mut table, 2, 50), Timer::Armed);
        assert_eq!(insert(&mut table, 3, 60), Timer::Armed);
        assert_eq!(insert(&mut table, 4, 40), Timer::Late);
        assert_eq!(table.arm(), Some(at(start, 40)));
        for id in 1..=4 {
            table.remove(id);
        }
        assert_eq!(table.arm(), Some(at(start, 40)), "an idle timer is left to fire once");
        table.expire(at(start, 40));
        assert_eq!(table.arm(), None, "and then rests");
    }

    #[test]
    fn the_timer_is_taken_back_only_when_nothing_has_a_deadline() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, (), patience(start, 50, 50), Door::Session).unwrap();
        table.arm();
        assert!(!table.disarm(), "a call needs it");
        assert_eq!(table.arm(), Some(at(start, 50)));
        table.remove(1);
        assert!(table.disarm());
        assert!(!table.disarm(), "the driver is woken once");
        assert_eq!(table.arm(), None);
        assert_eq!(table.insert(2, (), patience(start, 60, 60), Door::Session).unwrap(), Timer::Late);
    }

    #[test]
    fn a_table_at_rest_keeps_no_room() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        for id in 1..=5 {
            table.insert(id, (), patience(start, 10, 10), Door::Session).unwrap();
        }
        table.trim();
        assert_eq!(table.ids().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(table.expire(at(start, 10)).len(), 5);
        table.trim();
        assert_eq!((table.entries.capacity(), table.deadlines.capacity()), (0, 0));
    }

    #[test]
    fn progress_moves_the_soft_limit_and_never_the_hard_one() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, (), patience(start, 10, 25), Door::Session).unwrap();
        table.extend(1, at(start, 8));
        assert!(table.expire(at(start, 17)).is_empty());
        table.extend(1, at(start, 17));
        assert!(table.expire(at(start, 24)).is_empty());
        assert_eq!(table.expire(at(start, 25)).len(), 1);
    }

    #[test]
    fn a_table_that_was_taken_back_refuses_gated_calls_alone() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.retract();
        let gated = table.insert(1, (), patience(start, 1, 1), Door::Gate);
        assert!(matches!(gated, Err((Refused::Retracted, _))));
        assert!(table.insert(2, (), patience(start, 1, 1), Door::Session).is_ok());
        assert_eq!(table.close(closed()).map(|entries| entries.len()), Some(1));
        let late = table.insert(3, (), patience(start, 1, 1), Door::Session);
        assert!(matches!(late, Err((Refused::Closed(_), _))));
        assert!(table.close(closed()).is_none(), "it ends once");
    }

    #[test]
    fn a_full_table_refuses_the_next_call_and_hands_it_back() {
        let start = Instant::now();
        let mut table = PendingTable::new(2);
        let mut insert = |id, value| table.insert(id, value, patience(start, 1, 1), Door::Gate);
        assert!(insert(1, 'a').is_ok() && insert(2, 'b').is_ok());
        assert!(matches!(insert(3, 'c'), Err((Refused::Full, 'c'))));
        assert_eq!(table.ids().collect::<Vec<_>>(), [1, 2]);
        table.remove(1);
        assert!(table.insert(4, 'd', patience(start, 1, 1), Door::Gate).is_ok());
    }

    #[test]
    fn what_waits_can_be_looked_at_oldest_first() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        assert_eq!((table.values().count(), table.ids().count(), table.count(|_| true)), (0, 0, 0));
        assert_eq!((table.get(1), table.sole(|_| true)), (None, None));
        for (id, value) in [(2, 'b'), (5, 'e'), (3, 'c')] {
            table.insert(id, value, patience(start, 10, 10), Door::Session).unwrap();
        }
        assert_eq!(table.ids().collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(table.values().collect::<String>(), "bce");
        assert_eq!([1, 2, 3, 5].map(|id| table.get(id).copied()), [None, Some('b'), Some('c'), Some('e')]);
        assert_eq!((table.count(|_| true), table.count(|value| *value > 'b')), (3, 2));
        assert_eq!(table.remove(4), None);
        assert_eq!(table.remove(3), Some('c'), "from the middle");
        assert_eq!(table.ids().collect::<Vec<_>>(), [2, 5]);
    }

    #[test]
    fn calls_end_in_the_order_of_their_deadlines_however_they_came() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        for (id, ms) in [(1, 50), (2, 80), (3, 60), (4, 70), (5, 60)] {
            table.insert(id, (), patience(start, ms, ms), Door::Session).unwrap();
        }
        table.arm();
        let ended = |table: &mut PendingTable<()>, ms| {
            table.expire(at(start, ms)).into_iter().map(|(id, ())| id).collect::<Vec<_>>()
        };
        assert!(ended(&mut table, 49).is_empty());
        assert_eq!(table.arm(), Some(at(start, 50)), "the timer has not fired");
        assert_eq!(ended(&mut table, 60), [1, 3, 5]);
        assert_eq!(table.arm(), Some(at(start, 70)));
        assert_eq!(ended(&mut table, 80), [4, 2]);
        assert_eq!(table.next_deadline(), None);
    }

    #[test]
    fn a_table_that_has_ended_tells_why_and_has_nothing_more_to_do() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        assert!(table.closed().is_none());
        for (id, value) in [(2, 'b'), (1, 'a')] {
            table.insert(id, value, patience(start, 10, 10), Door::Session).unwrap();
        }
        table.retract();
        assert!(table.closed().is_none(), "only taken back");
        assert_eq!(table.close(closed()), Some(vec![(1, 'a'), (2, 'b')]));
        assert_eq!((table.next_deadline(), table.ids().count()), (None, 0));
        let why = Closed::new(CloseReason::Local, "");
        assert_eq!(table.close(why), None);
        assert_eq!(table.closed().map(Closed::reason), Some(&CloseReason::EndOfStream), "the first reason");
        assert!(table.expire(at(start, 100)).is_empty());
    }

    #[test]
    fn spans_beyond_the_clock_are_far_away_and_no_panic() {
        let start = Instant::now();
        assert!(later(start, Duration::MAX) > at(start, 900_000_000_000));
    }

    #[test]
    fn the_soft_limit_rests_until_the_last_reason_is_gone_and_then_goes_on() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, (), patience(start, 10, 60), Door::Session).unwrap();
        table.arm();
        table.rest(1, at(start, 7));
        table.rest(1, at(start, 20));
        assert!(table.expire(at(start, 40)).is_empty());
        table.arm();
        assert_eq!(table.resume(1, at(start, 40)), Timer::Armed, "the timer stands at the hard limit");
        assert_eq!(table.next_deadline(), Some(at(start, 60)), "one reason is left");
        assert_eq!(table.resume(1, at(start, 41)), Timer::Late, "it ends before that now");
        assert_eq!(table.next_deadline(), Some(at(start, 44)), "3 were left");
        assert_eq!(table.expire(at(start, 44)).len(), 1);
        assert_eq!(table.resume(1, at(start, 44)), Timer::Armed, "a call that has ended needs no timer");
    }

    #[test]
    fn progress_during_a_rest_leaves_the_whole_soft_limit_and_no_more() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, (), patience(start, 10, 60), Door::Session).unwrap();
        table.rest(1, at(start, 7));
        table.extend(1, at(start, 20));
        table.resume(1, at(start, 30));
        assert_eq!(table.next_deadline(), Some(at(start, 40)));
    }

    #[test]
    fn a_request_that_lives_on_has_no_deadline_and_is_not_the_only_call() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, 'l', patience(start, 10, 25), Door::Session).unwrap();
        table.insert(2, 'c', patience(start, 30, 30), Door::Session).unwrap();
        table.never_expire(1);
        assert_eq!(table.expire(at(start, 1_000_000)), [(2, 'c')]);
        assert!(table.next_deadline() > Some(at(start, 900_000_000_000)));
        table.insert(3, 'c', patience(start, 10, 10), Door::Session).unwrap();
        assert_eq!((table.sole(|value| *value == 'c'), table.sole(|_| true)), (Some(3), None));
        assert_eq!((table.count(|value| *value == 'c'), table.remove(1)), (1, Some('l')));
    }

    #[test]
    fn the_hard_limit_never_rests() {
        let start = Instant::now();
        let mut table = PendingTable::new(8);
        table.insert(1, (), patience(start, 10, 25).at_rest(start), Door::Session).unwrap();
        assert!(table.expire(at(start, 24)).is_empty());
        assert_eq!(table.expire(at(start, 25)).len(), 1);
    }

    #[test]
    fn a_further_round_is_refused_only_by_the_end_of_the_connection() {
        let start = Instant::now();
        let mut table = PendingTable::new(1);
        table.insert(1, (), patience(start, 1, 1), Door::Session).unwrap();
        table.retract();
        assert!(table.insert(2, (), patience(start, 1, 1), Door::Again).is_ok());
        table.close(closed());
        let late = table.insert(3, (), patience(start, 1, 1), Door::Again);
        assert!(matches!(late, Err((Refused::Closed(_), ()))));
    }
}
