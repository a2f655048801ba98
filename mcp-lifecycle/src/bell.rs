use std::pin::pin;

use tokio::sync::Notify;

/// Rung after each change of something that many wait for.
///
/// Those who wait are woken together, in the order in which they came. A `watch` wakes its receivers in
/// any order: of two calls the later one could be the first to be sent.
#[derive(Debug, Default)]
pub(crate) struct Bell(Notify);

impl Bell {
    pub(crate) fn ring(&self) {
        self.0.notify_waiters();
    }

    /// Looks now, and again after each ring, until `look` finds what it wants.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up one's place.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut rung = pin!(self.0.notified());
            // From here on no ring is missed.
            rung.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            rung.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_the_order_in_which_they_came() {
        let (bell, is_open) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = JoinSet::new();
        for number in 0..100 {
            let (bell, is_open, woken) = (Arc::clone(&bell), Arc::clone(&is_open), Arc::clone(&woken));
            waiting.spawn(async move {
                bell.until(|| is_open.load(Ordering::Relaxed).then_some(())).await;
                woken.lock().unwrap().push(number);
            });
        }
        let everybody_has_looked = async || {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        };
        everybody_has_looked().await;
        bell.ring(); // for nothing
        everybody_has_looked().await;
        is_open.store(true, Ordering::Relaxed);
        bell.ring();
        while waiting.join_next().await.is_some() {}
        assert_eq!(*woken.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }
}
