use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread waits, and what ends the wait earlier. A [`Duration`] is one without interruption.
#[derive(Debug, Clone)]
#[must_use = "it says only how to wait"]
pub struct Wait {
    pub(super) limit: Duration,
    pub(super) interrupt: Option<Interrupt>,
}

/// Ends waits from another thread: when a person has pressed a key, say, or when a thread that waits for
/// signals has got one. It takes a lock, so it must not be used in a signal handler itself.
///
/// Cheap to clone; all clones are one. Once interrupted it stays so: a wait that begins later ends at once.
#[derive(Clone, Default)]
pub struct Interrupt {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_interrupted: bool,
    begun: u64,
    /// Wakes each thread that waits.
    waiting: BTreeMap<u64, Box<dyn FnOnce() + Send>>,
}

/// What has woken a thread.
#[derive(Debug)]
pub(super) enum Woken<T> {
    Done(T),
    Interrupted,
    /// The work is gone and will never be done.
    Lost,
    Panicked,
}

/// A thread that waits; dropped when it does not any more.
pub(super) struct Waiting {
    interrupt: Interrupt,
    number: u64,
}

impl Wait {
    /// At most `limit`.
    pub fn at_most(limit: Duration) -> Self {
        Self { limit, interrupt: None }
    }

    /// No longer than until `interrupt` says so.
    pub fn until(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Self {
        Self::at_most(limit)
    }
}

impl Interrupt {
    /// One that has not happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends all waits that name it, now and from now on. Does not wait for them.
    pub fn interrupt(&self) {
        let waiting = {
            let mut state = self.lock();
            state.is_interrupted = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(|wake| wake());
    }

    /// Whether it has happened.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.lock().is_interrupted
    }

    pub(super) fn on_interrupt(&self, wake: impl FnOnce() + Send + 'static) -> Waiting {
        let mut state = self.lock();
        state.begun += 1;
        let number = state.begun;
        if state.is_interrupted {
            drop(state);
            wake();
        } else {
            state.waiting.insert(number, Box::new(wake));
        }
        Waiting { interrupt: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.interrupt.lock().waiting.remove(&self.number);
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("is_interrupted", &self.is_interrupted()).finish_non_exhaustive()
    }
}
