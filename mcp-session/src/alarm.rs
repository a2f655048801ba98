use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

/// The one timer of a session.
///
/// Asked with every turn of the driver, and a timer is dear to ask: one that is registered already is
/// left alone until it is over.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whom it wakes.
    waker: Option<Waker>,
}

impl Alarm {
    /// Waits until `deadline`.
    pub(crate) fn poll_until(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
            self.waker = None;
        }
        let is_registered = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_registered && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        // Without budget nobody is registered.
        self.waker = coop::has_budget_remaining().then(|| cx.waker().clone());
        sleep.as_mut().poll(cx)
    }

    /// Takes the timer away: there is nothing to wait for. Answers whether there was one.
    pub(crate) fn stop(&mut self) -> bool {
        std::mem::take(self).sleep.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::time::Duration;

    use futures_util::task::noop_waker;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_wakes_whoever_asked_last() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut alarm = Alarm::default();
        let waker = noop_waker();
        let mut other = Context::from_waker(&waker);
        for _ in 0..2 {
            assert!(alarm.poll_until(at(5), &mut other).is_pending());
        }
        poll_fn(|cx| alarm.poll_until(at(5), cx)).await;
        assert_eq!(Instant::now(), at(5));
        poll_fn(|cx| {
            // Later, then earlier than before: each time anew.
            assert!(alarm.poll_until(at(9), cx).is_pending());
            alarm.poll_until(at(7), cx)
        })
        .await;
        assert_eq!(Instant::now(), at(7));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_asked_without_budget_wakes_all_the_same() {
        let began = Instant::now();
        let mut alarm = Alarm::default();
        let mut has_budget = true;
        poll_fn(|cx| {
            while has_budget {
                has_budget = pin!(coop::consume_budget()).poll(cx).is_ready();
            }
            alarm.poll_until(began + Duration::from_secs(1), cx)
        })
        .await;
        assert_eq!(Instant::now(), began + Duration::from_secs(1));
    }
}
