use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets one login at a time ask a person; whoever came first is next. Clones are the same gate.
///
/// A process has one, so that two servers never ask at once. It is held from the first question of a
/// login to the moment its tokens are kept, and by nothing else: renewing tokens and requests to
/// servers pass beside it.
#[derive(Debug, Clone)]
pub struct InteractiveGate(Arc<Semaphore>);

/// The right to ask a person. Dropping it lets the next one in, whichever task does so.
#[derive(Debug)]
#[must_use = "dropping it lets the next login in"]
pub struct GatePass {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for InteractiveGate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl InteractiveGate {
    /// Waits for its turn.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives its place in the line up.
    pub async fn enter(&self) -> GatePass {
        // The semaphore is never closed.
        GatePass { _permit: Arc::clone(&self.0).acquire_owned().await.ok() }
    }
}
