use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::server::Server;

/// Which server has a name, for those that had it before: so a handle of a server that was replaced finds
/// the one that has taken its place, however many came in between.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    is_replaced: AtomicBool,
    /// Shared by all that have had the name; the registry keeps the one that has it.
    newest: Arc<Mutex<Weak<Server>>>,
}

impl Succession {
    /// The succession of the server that takes the place of this one.
    pub(crate) fn next(&self) -> Self {
        Self { is_replaced: AtomicBool::new(false), newest: Arc::clone(&self.newest) }
    }

    /// Another server has the name from now on.
    pub(crate) fn pass_to(&self, newest: &Arc<Server>) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(newest);
        self.is_replaced.store(true, Ordering::Release);
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }

    /// The server that has the name now, if this one was replaced and that was not removed since.
    pub(crate) fn successor(&self) -> Option<Arc<Server>> {
        if !self.is_replaced() {
            return None;
        }
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}
