use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::task::token::TaskTokens;
use crate::task::wanted::Wanted;
use crate::wakes::Wakes;

/// Most calls whose late answer is looked at for a task.
const MOST_AWAITED: usize = 256;

/// The tasks of a session that somebody follows, and the calls given up whose late answer may still bring
/// one.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// Who is to be told that a task has changed, by its id.
    pub(crate) followed: Wakes,
    pub(super) wanted: Wanted,
    /// The tasks whose progress is told.
    pub(crate) tokens: Arc<TaskTokens>,
    /// Calls that were given up while their server may have made a task of them; the oldest are forgotten.
    awaited: Mutex<VecDeque<i64>>,
}

impl Tasks {
    /// Notes that the call `id` was given up: should its answer be a task after all, nobody wants that.
    pub(crate) fn await_late(&self, id: i64) {
        let mut awaited = self.awaited();
        if awaited.len() == MOST_AWAITED {
            awaited.pop_front();
        }
        awaited.push_back(id);
    }

    /// Whether the late answer to the call `id` is to be looked at; once.
    pub(crate) fn take_late(&self, id: i64) -> bool {
        let mut awaited = self.awaited();
        let found = awaited.iter().position(|awaited| *awaited == id);
        found.and_then(|index| awaited.remove(index)).is_some()
    }

    fn awaited(&self) -> MutexGuard<'_, VecDeque<i64>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
