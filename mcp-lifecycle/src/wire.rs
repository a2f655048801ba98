use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_session::Session;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::aside::Aside;
use crate::bell::Bell;
use crate::failure::Failure;
use crate::lists::Lists;

/// What the task of a connection tells while it lives; its end is the end of the task.
#[derive(Debug)]
pub(crate) enum News {
    /// It could not be made, or broke.
    Lost(Failure),
    /// The handshake is done and the lists are loaded.
    Up(Session, Lists),
}

/// Between the task of a connection and its owner, who tell each other things without ever waiting.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    told: Mutex<Told>,
    /// Rung for the owner: there is news.
    news: Bell,
    /// Rung for the task: it has to close, or earlier than before.
    order: Bell,
    /// Is there still anybody? The machine has slept.
    pub(crate) slept: Notify,
    /// Is there still anybody? A call has timed out.
    pub(crate) timed_out: Notify,
}

#[derive(Debug, Default)]
struct Told {
    /// When it must have closed, once that was ordered.
    close: Option<Instant>,
    /// What the owner has not taken yet: two pieces at most, up and lost.
    news: VecDeque<Box<News>>,
}

impl Wire {
    /// Orders the end, which must come before `by`. A second order can only make it earlier.
    pub(crate) fn close(&self, by: Instant) {
        let mut told = self.told();
        told.close = Some(told.close.map_or(by, |present| present.min(by)));
        drop(told);
        self.order.ring();
    }

    /// When the connection must have closed, if that was ordered.
    pub(crate) fn closes_by(&self) -> Option<Instant> {
        self.told().close
    }

    /// Does `work` unless the order to close comes before it is done: `None` then. The order wins a tie.
    pub(crate) async fn unless_closed<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut ordered = Aside::new(self.order.until(|| self.closes_by()));
        tokio::select! {
            biased;
            _ = ordered.output() => None,
            output = work => Some(output),
        }
    }

    /// Waits for an order to close before `by`.
    pub(crate) async fn closes_before(&self, by: Instant) -> Instant {
        self.order.until(|| self.closes_by().filter(|earlier| *earlier < by)).await
    }

    pub(crate) fn tell(&self, news: News) {
        self.told().news.push_back(Box::new(news));
        self.news.ring();
    }

    /// What was told first of what nobody has taken.
    pub(crate) fn take_news(&self) -> Option<Box<News>> {
        self.told().news.pop_front()
    }

    pub(crate) async fn next_news(&self) -> Box<News> {
        self.news.until(|| self.take_news()).await
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_order_ends_what_is_waited_for_and_can_only_become_earlier() {
        let (wire, now) = (Wire::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(wire.unless_closed(async { 7 }).await, Some(7));
        let order = async { wire.close(at(5)) };
        let (work, ()) = tokio::join!(wire.unless_closed(std::future::pending::<()>()), order);
        assert_eq!(work, None);
        assert_eq!(wire.unless_closed(async { 7 }).await, None, "the order wins a tie");
        let later = async {
            wire.close(at(6));
            assert_eq!(wire.closes_by(), Some(at(5)));
            wire.close(at(4));
        };
        let (by, ()) = tokio::join!(wire.closes_before(at(5)), later);
        assert_eq!(by, at(4));
    }

    #[tokio::test(start_paused = true)]
    async fn news_waits_in_its_order_until_it_is_taken() {
        let wire = Wire::default();
        let tell = async {
            wire.tell(News::Lost(Failure::Panicked));
            wire.tell(News::Lost(Failure::Unauthorized));
        };
        let (first, ()) = tokio::join!(wire.next_news(), tell);
        assert!(matches!(*first, News::Lost(Failure::Panicked)));
        assert!(matches!(wire.take_news().as_deref(), Some(News::Lost(Failure::Unauthorized))));
        assert!(timeout(Duration::from_secs(1), wire.next_news()).await.is_err(), "there is no more");
    }
}
