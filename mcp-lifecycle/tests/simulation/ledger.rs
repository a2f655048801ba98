use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mcp_lifecycle::CallError;
use mcp_session::CallOutcome;
use mcp_transport::testing::Execution;
use tokio::time::Instant;

/// Every call of a run: when it began, when it had to end, and how it ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    calls: Arc<Mutex<BTreeMap<u64, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    deadline: Instant,
    is_idempotent: bool,
    ends: Vec<End>,
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
        assert!(Instant::now() <= entry.deadline, "call {number} ends too late: {result:?}");
        entry.ends.push(end);
    }

    /// The caller of a call goes away, if it has not ended before.
    pub(crate) fn give_up(&self, number: u64) {
        if let Some(entry) = self.lock().get_mut(&number).filter(|entry| entry.ends.is_empty()) {
            entry.ends.push(End::Dropped);
        }
    }

    /// How every call ended, for comparing runs.
    pub(crate) fn ends(&self) -> Vec<String> {
        self.lock().iter().map(|(number, entry)| format!("call {number}: {:?}", entry.ends)).collect()
    }

    /// Holds every call against what the servers did: P1, P2 and P3.
    pub(crate) fn check(&self, executions: &[Execution]) {
        let mut runs: BTreeMap<u64, usize> = BTreeMap::new();
        for execution in executions {
            let number = execution.arguments["message"].as_str().and_then(|text| text.parse().ok());
            *runs.entry(number.expect("every call has its number")).or_default() += 1;
        }
        for (number, entry) in &*self.lock() {
            let runs = runs.get(number).copied().unwrap_or(0);
            let [end] = entry.ends[..] else {
                panic!("call {number} ended {} times: {entry:?}", entry.ends.len())
            };
            match end {
                End::Failed(CallOutcome::NotSent) => {
                    assert_eq!(runs, 0, "call {number} was not sent, but ran")
                }
                End::Succeeded => assert!(runs > 0, "call {number} succeeded, but never ran"),
                End::Dropped | End::Failed(_) => {}
            }
            assert!(runs <= 1 || entry.is_idempotent, "call {number} ran {runs} times: {entry:?}");
            assert!(runs <= 3, "call {number} ran {runs} times: {entry:?}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.calls.lock().unwrap()
    }
}
