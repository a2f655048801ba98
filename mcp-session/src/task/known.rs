use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Most calls whose late answer is looked at for a task.
const MOST_AWAITED: usize = 256;

/// The tasks of a session that somebody follows, and the calls given up whose late answer may still bring
/// one.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// As many as tasks are followed.
    followed: Vec<Followed>,
    /// Calls that were given up while their server may have made a task of them; the oldest are forgotten.
    awaited: VecDeque<i64>,
}

#[derive(Debug)]
struct Followed {
    task_id: String,
    changed: Arc<Notify>,
}

/// Is woken while it lives when the server tells that a task has changed.
#[derive(Debug)]
pub(crate) struct TaskWatch<'a> {
    tasks: &'a Tasks,
    changed: Arc<Notify>,
}

impl Tasks {
    /// Begins to wait for changes of a task.
    pub(crate) fn watch(&self, task_id: &str) -> TaskWatch<'_> {
        let changed = Arc::new(Notify::new());
        self.lock().followed.push(Followed { task_id: task_id.to_owned(), changed: Arc::clone(&changed) });
        TaskWatch { tasks: self, changed }
    }

    /// Whether any task is followed.
    pub(crate) fn are_followed(&self) -> bool {
        !self.lock().followed.is_empty()
    }

    /// Wakes whoever follows the task; `false` if nobody does.
    pub(crate) fn wake(&self, task_id: &str) -> bool {
        let state = self.lock();
        let mut is_followed = false;
        for followed in state.followed.iter().filter(|followed| followed.task_id == task_id) {
            followed.changed.notify_one();
            is_followed = true;
        }
        is_followed
    }

    /// Notes that the call `id` was given up: should its answer be a task after all, nobody wants that.
    pub(crate) fn await_late(&self, id: i64) {
        let mut state = self.lock();
        if state.awaited.len() == MOST_AWAITED {
            state.awaited.pop_front();
        }
        state.awaited.push_back(id);
    }

    /// Whether the late answer to the call `id` is to be looked at; once.
    pub(crate) fn take_late(&self, id: i64) -> bool {
        let mut state = self.lock();
        let found = state.awaited.iter().position(|awaited| *awaited == id);
        found.and_then(|index| state.awaited.remove(index)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskWatch<'_> {
    /// Waits for a change, or notes one that was told since the last wait.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for TaskWatch<'_> {
    fn drop(&mut self) {
        self.tasks.lock().followed.retain(|followed| !Arc::ptr_eq(&followed.changed, &self.changed));
    }
}
