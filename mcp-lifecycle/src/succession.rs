use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::server::Server;

/// Which server has a name, for those that had it before: so a handle of a server that was replaced finds
/// the one that has taken its place, however many came in between.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    is_replaced: AtomicBool,
    /// What all that have had the name know of it.
    name: Arc<Name>,
}

#[derive(Debug, Default)]
struct Name {
    holder: Mutex<Holder>,
    /// The newest connection that anybody of the name has asked for: a successor counts on from there, so
    /// that a number never means two connections.
    generation: AtomicU64,
}

/// Who has a name; the registry keeps it.
#[derive(Debug, Default)]
struct Holder {
    newest: Weak<Server>,
    /// It was removed, and with it the name. Known also when nothing else is left of it.
    is_removed: bool,
}

impl Succession {
    /// The succession of the server that takes the place of this one.
    pub(crate) fn next(&self) -> Self {
        Self { is_replaced: AtomicBool::new(false), name: Arc::clone(&self.name) }
    }

    /// Another server has the name from now on.
    pub(crate) fn pass_to(&self, newest: &Arc<Server>) {
        let mut holder = self.holder();
        *holder = Holder { newest: Arc::downgrade(newest), is_removed: false };
        // Under the lock: see `end`.
        self.is_replaced.store(true, Ordering::Release);
    }

    /// Nobody has the name any more, unless this server had given it away before.
    pub(crate) fn end(&self) {
        let mut holder = self.holder();
        holder.is_removed |= !self.is_replaced();
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }

    /// Whether the last server of the name was removed.
    pub(crate) fn has_ended(&self) -> bool {
        self.holder().is_removed
    }

    /// The server that has the name now, if this one was replaced and that was not forgotten since.
    pub(crate) fn successor(&self) -> Option<Arc<Server>> {
        if !self.is_replaced() {
            return None;
        }
        self.holder().newest.upgrade()
    }

    /// The newest connection of the name; 0 before the first.
    pub(crate) fn generation(&self) -> u64 {
        self.name.generation.load(Ordering::Acquire)
    }

    /// This connection was asked for.
    pub(crate) fn on_connection(&self, generation: u64) {
        self.name.generation.fetch_max(generation, Ordering::AcqRel);
    }

    fn holder(&self) -> MutexGuard<'_, Holder> {
        self.name.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
