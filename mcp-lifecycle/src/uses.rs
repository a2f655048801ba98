use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::machine::Usage;

/// The calls of a server that are on their way, and when the last one ended.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    running: AtomicUsize,
    last: Mutex<Option<Instant>>,
}

/// One call, from its first step to its last.
#[derive(Debug)]
#[must_use = "the call counts until this is dropped"]
pub(crate) struct Use<'a>(&'a Uses);

impl Uses {
    pub(crate) fn begin(&self) -> Use<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        Use(self)
    }

    /// Whether the server is used now. A call that begins a moment later either finds the gate shut, was not
    /// sent and waits for the next connection, or got in before and is given its time.
    pub(crate) fn look(&self, subscriptions: usize) -> Usage {
        if self.running.load(Ordering::SeqCst) > 0 {
            Usage::Busy
        } else if subscriptions > 0 {
            Usage::Subscribed
        } else {
            Usage::Free { since: *self.last.lock().unwrap_or_else(PoisonError::into_inner) }
        }
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        // Before it counts as ended: whoever sees no call sees when the last one ended.
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_come_first_then_subscriptions_then_the_end_of_the_last_call() {
        let uses = Uses::default();
        assert_eq!(uses.look(0), Usage::Free { since: None });
        let (first, second) = (uses.begin(), uses.begin());
        assert_eq!(uses.look(1), Usage::Busy);
        drop(first);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(uses.look(0), Usage::Busy);
        drop(second);
        let ended = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(uses.look(1), Usage::Subscribed);
        assert_eq!(uses.look(0), Usage::Free { since: Some(ended) });
    }
}
