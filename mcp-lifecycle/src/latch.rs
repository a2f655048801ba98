use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// A value that is set once and awaited by many, inside a runtime and outside of any.
pub(crate) struct Latch<T> {
    value: Mutex<Option<Arc<T>>>,
    threads: Condvar,
    tasks: Notify,
}

impl<T> Latch<T> {
    pub(crate) fn new() -> Self {
        Self { value: Mutex::new(None), threads: Condvar::new(), tasks: Notify::new() }
    }

    /// Sets the value, unless it is set; returns what stands.
    pub(crate) fn set(&self, value: T) -> Arc<T> {
        let value = Arc::clone(self.lock().get_or_insert_with(|| Arc::new(value)));
        self.threads.notify_all();
        self.tasks.notify_waiters();
        value
    }

    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.lock().clone()
    }

    /// Waits for the value.
    pub(crate) async fn wait(&self) -> Arc<T> {
        loop {
            let mut set = std::pin::pin!(self.tasks.notified());
            set.as_mut().enable();
            if let Some(value) = self.get() {
                return value;
            }
            set.await;
        }
    }

    /// Blocks the thread until the value is there, no longer than `limit`.
    pub(crate) fn wait_blocking(&self, limit: Duration) -> Option<Arc<T>> {
        let (value, _) = self
            .threads
            .wait_timeout_while(self.lock(), limit, |value| value.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        value.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<T>>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Latch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("is_set", &self.lock().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_value_stands_and_everybody_gets_it() {
        let latch = Latch::new();
        assert_eq!(latch.wait_blocking(Duration::from_millis(1)), None);
        let set = async {
            assert_eq!(*latch.set(1), 1);
            assert_eq!(*latch.set(2), 1);
        };
        let (a, b, ()) = tokio::join!(latch.wait(), latch.wait(), set);
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(latch.wait_blocking(Duration::ZERO).as_deref(), Some(&1));
    }
}
