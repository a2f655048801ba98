use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_session::SubscriptionEnd;

use crate::failure::Failure;
use crate::latch::Latch;
use crate::state::DormantReason;

/// Why a server that is followed tells nothing at present.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Interruption {
    /// It was switched off; it is followed on once it is switched on.
    #[error("the server was switched off")]
    Disabled,
    /// It is removed, or its supervisor shuts down: [`FollowEvent::Ended`](crate::FollowEvent::Ended) follows.
    #[error("the server is stopping")]
    Ending,
    /// Its connection broke, no longer answers, or can be used no more, for want of credentials or of another
    /// configuration.
    #[error("the server was lost: {0}")]
    Lost(Arc<Failure>),
    /// Another connection takes the place of one that worked: that was old, or somebody has asked for it.
    #[error("the server is connected anew")]
    Renewed,
    /// Another server has its name now, with another configuration, and is followed on.
    #[error("another server takes its place")]
    Replaced,
    /// It was let go to rest, and is woken again.
    #[error("the server was let go to rest")]
    Rested(DormantReason),
    /// The subscription alone has ended; the connection stands.
    #[error("{0}")]
    Subscription(SubscriptionEnd),
}

/// Why one connection was given up, for whoever is told something on it, however late that looks.
pub(crate) type Fate = Arc<Latch<Interruption>>;

/// The fate of the newest connection that calls could take. Its owner writes it, before the connection is
/// announced to be gone; the first reason stays.
#[derive(Debug, Default)]
pub(crate) struct NewestFate(Mutex<Option<(u64, Fate)>>);

impl NewestFate {
    /// Calls may take the connection `generation` from now on.
    pub(crate) fn begin(&self, generation: u64) {
        *self.lock() = Some((generation, Arc::new(Latch::new())));
    }

    /// The fate of this connection, if it is the newest.
    pub(crate) fn of(&self, generation: u64) -> Option<Fate> {
        self.lock().as_ref().filter(|(of, _)| *of == generation).map(|(_, fate)| Arc::clone(fate))
    }

    /// This connection, if it is the newest, is given up.
    pub(crate) fn seal(&self, generation: u64, why: Interruption) {
        if let Some(fate) = self.of(generation) {
            fate.set(why);
        }
    }

    /// Whatever connection there may be is given up.
    pub(crate) fn seal_any(&self, why: Interruption) {
        let newest = self.lock().as_ref().map(|(_, fate)| Arc::clone(fate));
        if let Some(fate) = newest {
            fate.set(why);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, Fate)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
