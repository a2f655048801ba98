use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_transport::AuthFailure;
use tokio::sync::Notify;

/// What a server's owner has been asked to do and has not yet begun.
///
/// Orders are wishes about a state, not messages in a queue: asking twice is asking once, so there is
/// no limit to hit and nobody ever waits to give one.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    state: Mutex<Given>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Given {
    wishes: Wishes,
    /// How many orders were given so far.
    number: u64,
}

/// Everything that is wished for at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Stop for good.
    pub(crate) stop: bool,
    /// Be switched on, or off; the last wish counts.
    pub(crate) enabled: Option<bool>,
    /// Replace this connection.
    pub(crate) reconnect: Option<u64>,
    /// The machine has slept.
    pub(crate) resumed: bool,
    /// Try now.
    pub(crate) wake: bool,
    /// A call needs it.
    pub(crate) demand: bool,
    /// A call has succeeded on this connection.
    pub(crate) proven: Option<u64>,
    /// A call has timed out on this connection.
    pub(crate) suspect: Option<u64>,
    /// The stream on which changes are told is down on this connection, or it is not.
    pub(crate) degraded: Option<(u64, bool)>,
    /// Look after whoever waits for a login, or does no longer.
    pub(crate) login: bool,
    /// A call on this connection was refused for want of credentials, and what is known of that.
    pub(crate) unauthorized: Option<(u64, Option<AuthFailure>)>,
}

impl Wishes {
    /// The latest of these connections counts: what a late caller tells of an earlier one is old news.
    pub(crate) fn raise(of: &mut Option<u64>, generation: u64) {
        *of = (*of).max(Some(generation));
    }

    /// As [`raise`](Self::raise), with what is known of the refusal.
    pub(crate) fn set_unauthorized(&mut self, generation: u64, failure: Option<AuthFailure>) {
        if self.unauthorized.as_ref().is_none_or(|(of, _)| *of <= generation) {
            self.unauthorized = Some((generation, failure));
        }
    }

    /// As [`raise`](Self::raise), with what is so on that connection; the last word on it counts.
    pub(crate) fn set_degraded(&mut self, generation: u64, is_degraded: bool) {
        if self.degraded.is_none_or(|(of, _)| of <= generation) {
            self.degraded = Some((generation, is_degraded));
        }
    }
}

impl Orders {
    pub(crate) fn give(&self, wish: impl FnOnce(&mut Wishes)) {
        let mut given = self.lock();
        wish(&mut given.wishes);
        given.number += 1;
        drop(given);
        self.arrived.notify_one();
    }

    /// The number of the last order given.
    pub(crate) fn last(&self) -> u64 {
        self.lock().number
    }

    /// Waits for orders and takes them all, with the number of the last one.
    ///
    /// Cancel safe: orders are taken in the last step.
    pub(crate) async fn next(&self) -> (Wishes, u64) {
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<(Wishes, u64)> {
        let mut given = self.lock();
        let wishes = std::mem::take(&mut given.wishes);
        (wishes != Wishes::default()).then_some((wishes, given.number))
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_news_of_an_earlier_connection_displaces_no_later_one() {
        let mut wishes = Wishes::default();
        for generation in [2, 1] {
            Wishes::raise(&mut wishes.proven, generation);
            wishes.set_degraded(generation, true);
        }
        assert_eq!((wishes.proven, wishes.degraded), (Some(2), Some((2, true))));
        wishes.set_degraded(2, false);
        assert_eq!(wishes.degraded, Some((2, false)));
        Wishes::raise(&mut wishes.proven, 3);
        assert_eq!(wishes.proven, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn orders_add_up_until_they_are_taken() {
        let orders = Orders::default();
        orders.give(|wishes| wishes.enabled = Some(true));
        orders.give(|wishes| wishes.enabled = Some(false));
        orders.give(|wishes| wishes.wake = true);
        let expected = Wishes { enabled: Some(false), wake: true, ..Wishes::default() };
        assert_eq!(orders.next().await, (expected, 3));
        let later = async { orders.give(|wishes| wishes.demand = true) };
        let (next, ()) = tokio::join!(orders.next(), later);
        assert_eq!(next, (Wishes { demand: true, ..Wishes::default() }, 4));
    }
}
