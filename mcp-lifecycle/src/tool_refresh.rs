use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// Fetching the tools of a server anew, once for all calls that were refused for the same reason.
///
/// A call notes the count before it is sent. If it is refused, it waits for its turn and looks again: a
/// count that has moved means that another call has fetched them meanwhile.
#[derive(Debug, Default)]
pub(crate) struct ToolRefresh {
    turn: Mutex<()>,
    count: AtomicU64,
}

/// The right to fetch them.
#[derive(Debug)]
#[must_use = "dropping it gives the turn to the next"]
pub(crate) struct Turn<'a> {
    refresh: &'a ToolRefresh,
    _turn: MutexGuard<'a, ()>,
}

impl ToolRefresh {
    /// How many times they were fetched anew.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until nobody else fetches them.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn { refresh: self, _turn: self.turn.lock().await }
    }
}

impl Turn<'_> {
    pub(crate) fn count(&self) -> u64 {
        self.refresh.count()
    }

    /// They have been fetched.
    pub(crate) fn done(self) {
        self.refresh.count.fetch_add(1, Ordering::Release);
    }
}
