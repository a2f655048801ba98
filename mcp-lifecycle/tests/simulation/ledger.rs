use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mcp_lifecycle::CallError;
use mcp_session::CallOutcome;
use tokio::time::Instant;

use crate::wire::{Receipt, Wire};

/// P4: how long a server may believe that somebody waits for an answer.
const CANCEL_WITHIN: Duration = Duration::from_millis(50);

/// Every call of a run: when it began, when it had to end, and how it ended. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    calls: Arc<Mutex<BTreeMap<u64, Entry>>>,
    stood_still_until: Arc<Mutex<Option<Instant>>>,
}

#[derive(Debug)]
struct Entry {
    deadline: Instant,
    is_idempotent: bool,
    /// How and when it ended: P1 says once.
    ends: Vec<(End, Instant)>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its caller went away.
    Dropped,
    Failed(CallOutcome),
    Succeeded,
}

impl Ledger {
    /// A call begins; it must end within `limit`.
    pub(crate) fn begin(&self, number: u64, limit: Duration, is_idempotent: bool) {
        let entry = Entry { deadline: Instant::now() + limit, is_idempotent, ends: Vec::new() };
        assert!(self.lock().insert(number, entry).is_none());
    }

    /// A call ends: P1, not after its deadline.
    pub(crate) fn end(&self, number: u64, result: Result<(), &CallError>) {
        let end = match result {
            Ok(()) => End::Succeeded,
            Err(error) => End::Failed(error.outcome()),
        };
        let mut calls = self.lock();
        let entry = calls.get_mut(&number).expect("it has begun");
        assert!(Instant::now() <= entry.deadline, "p01: call {number} ends too late: {result:?}");
        entry.ends.push((end, Instant::now()));
    }

    /// The caller of a call goes away, if it has not ended before.
    pub(crate) fn give_up(&self, number: u64) {
        if let Some(entry) = self.lock().get_mut(&number).filter(|entry| entry.ends.is_empty()) {
            entry.ends.push((End::Dropped, Instant::now()));
        }
    }

    /// The runtime stands still from now until `until`: nothing can end in that time, or be cancelled.
    pub(crate) fn excuse(&self, until: Instant) {
        let now = Instant::now();
        *self.stood_still_until.lock().unwrap() = Some(until);
        for entry in self.lock().values_mut() {
            if entry.ends.is_empty() {
                entry.deadline = entry.deadline.max(until);
            }
            entry
                .ends
                .iter_mut()
                .filter(|(_, at)| *at + CANCEL_WITHIN >= now)
                .for_each(|(_, at)| *at = until);
        }
    }

    /// When the runtime last came to itself again.
    pub(crate) fn stood_still_until(&self) -> Option<Instant> {
        *self.stood_still_until.lock().unwrap()
    }

    /// How every call ended, for comparing runs.
    pub(crate) fn ends(&self) -> Vec<String> {
        let calls = self.lock();
        calls
            .iter()
            .map(|(number, entry)| format!("call {number}: {:?}", entry.ends.first().map(|(end, _)| end)))
            .collect()
    }

    /// Holds every call against what the servers have seen of it so far: P1 to P4.
    pub(crate) fn check(&self, wire: &Wire) {
        let (now, wire, nothing) = (Instant::now(), wire.lock(), Receipt::default());
        for (number, entry) in &*self.lock() {
            let seen = wire.calls.get(number).unwrap_or(&nothing);
            let runs = seen.runs;
            assert!(runs <= 1 || entry.is_idempotent, "p03: call {number} ran {runs} times: {entry:?}");
            assert!(runs <= 3, "p03: call {number} ran {runs} times: {entry:?}");
            let (end, at) = match entry.ends[..] {
                [] => {
                    assert!(now <= entry.deadline, "p01: call {number} has not ended: {entry:?}");
                    continue;
                }
                [end] => end,
                _ => panic!("p01: call {number} ended more than once: {entry:?}"),
            };
            match end {
                End::Failed(CallOutcome::NotSent) => {
                    assert!(seen.requests.is_empty(), "p02: call {number} was not sent: {seen:?}");
                }
                End::Succeeded => assert!(runs > 0, "p02: call {number} succeeded, but never ran"),
                End::Dropped | End::Failed(_) => {}
            }
            let by = at + CANCEL_WITHIN;
            for request in seen.requests.iter().filter(|_| now > by) {
                assert!(
                    wire.is_over_by(request, by),
                    "p04: {request:?} of call {number} lives on: {entry:?}"
                );
            }
        }
    }

    /// Every call has ended.
    pub(crate) fn check_all_ended(&self) {
        for (number, entry) in &*self.lock() {
            assert_eq!(entry.ends.len(), 1, "p01: call {number}: {entry:?}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.calls.lock().unwrap()
    }
}
