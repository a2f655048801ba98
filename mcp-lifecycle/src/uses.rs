use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::machine::Usage;

/// The calls of a server that are on their way, when the last one ended, and what else they have begun.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    running: AtomicUsize,
    last: Mutex<Option<Instant>>,
    /// A subscription or a task was begun since a look has found none. When the last of them ended is not
    /// told: it may have been at that look.
    has_lasting: AtomicBool,
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

    /// A call has begun something that outlasts it: a subscription, or a task.
    pub(crate) fn begin_lasting(&self) {
        self.has_lasting.store(true, Ordering::SeqCst);
    }

    /// Whether the server is used now, given how many subscriptions and tasks somebody waits for. A call that begins a moment later either finds the gate shut, was not
    /// sent and waits for the next connection, or got in before and is given its time.
    pub(crate) fn look(&self, awaited: usize) -> Usage {
        if self.running.load(Ordering::SeqCst) > 0 {
            Usage::Busy
        } else if awaited > 0 {
            Usage::Awaited
        } else if self.has_lasting.swap(false, Ordering::SeqCst) {
            Usage::Free { since: Some(Instant::now()) }
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
    async fn calls_come_first_then_what_outlasts_them_then_the_end_of_the_last_call() {
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
        assert_eq!(uses.look(1), Usage::Awaited);
        assert_eq!(uses.look(0), Usage::Free { since: Some(ended) });
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_call_has_begun_may_have_ended_at_the_look_that_does_not_find_it() {
        let uses = Uses::default();
        drop(uses.begin());
        let ended = Instant::now();
        uses.begin_lasting();
        for awaited in [1, 1] {
            tokio::time::advance(Duration::from_secs(60)).await;
            assert_eq!(uses.look(awaited), Usage::Awaited);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(uses.look(0), Usage::Free { since: Some(Instant::now()) });
        assert_eq!(uses.look(0), Usage::Free { since: Some(ended) }, "once");
    }
}
