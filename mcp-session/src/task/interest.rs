use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::shared::Shared;

/// Somebody is interested in a task of a session that may still be at work: counted until this is dropped, or
/// until it is known that nothing more will come of the task.
pub(crate) struct Interest {
    shared: Arc<Shared>,
    is_counted: AtomicBool,
}

impl Interest {
    pub(crate) fn begin(shared: &Arc<Shared>) -> Self {
        shared.tasks.wanted.add();
        Self { shared: Arc::clone(shared), is_counted: AtomicBool::new(true) }
    }

    /// The task is over, and everything that is to be known of it is known.
    pub(crate) fn end(&self) {
        if self.is_counted.swap(false, Ordering::Relaxed) {
            self.shared.tasks.wanted.remove();
        }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.end();
    }
}
