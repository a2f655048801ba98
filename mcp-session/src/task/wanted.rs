use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How many tasks of a session somebody is interested in that may still be at work.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    count: AtomicUsize,
    fewer: Notify,
}

impl Wanted {
    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.fewer.notify_waiters();
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until there are none.
    pub(super) async fn none(&self) {
        loop {
            let mut fewer = std::pin::pin!(self.fewer.notified());
            // From here on no change is missed.
            fewer.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            fewer.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_none_waits_for_the_last() {
        let wanted = Wanted::default();
        wanted.none().await;
        wanted.add();
        wanted.add();
        let none = async {
            wanted.none().await;
            assert_eq!(wanted.count(), 0);
        };
        let remove = async {
            wanted.remove();
            assert!(timeout(Duration::from_secs(1), wanted.none()).await.is_err(), "one is left");
            wanted.remove();
        };
        tokio::join!(none, remove);
    }
}
