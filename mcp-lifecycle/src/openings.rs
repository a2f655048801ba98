use std::pin::pin;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::machine::Standing;
use crate::stop_plan::later;
use crate::timer;

/// How long an opening keeps its place. A process has been started by then, and a host that can be reached
/// has answered.
const PATIENCE: Duration = Duration::from_secs(1);

/// The places among the connections that are being opened, so that hundreds do not begin in one moment.
///
/// Servers that cannot be reached keep nobody out: they hold their places no longer than a second, and those
/// that were well when they were seen last have places of their own.
#[derive(Debug)]
pub(crate) struct Openings {
    well: Semaphore,
    others: Semaphore,
}

impl Openings {
    /// So many places, of either kind.
    pub(crate) fn new(places: usize) -> Self {
        let places = places.clamp(1, Semaphore::MAX_PERMITS);
        Self { well: Semaphore::new(places), others: Semaphore::new(places) }
    }

    /// Waits for a place, then begins to open.
    ///
    /// Cancel safe as far as the opening is: dropping the future gives the place back.
    pub(crate) async fn open<F: Future>(&self, standing: Standing, begin: impl FnOnce() -> F) -> F::Output {
        let places = match standing {
            Standing::Unknown => &self.others,
            Standing::Well => &self.well,
        };
        // They are never closed.
        let place = places.acquire().await;
        let mut opening = pin!(begin());
        tokio::select! {
            biased;
            opened = &mut opening => return opened,
            () = timer::until(Some(later(Instant::now(), PATIENCE))) => drop(place),
        }
        opening.await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn so_many_are_opened_at_once_and_one_that_takes_long_goes_on_without_a_place() {
        let openings = Openings::new(2);
        let began = Instant::now();
        let (running, most) = (Cell::new(0), Cell::new(0));
        let quick = || async {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            sleep(SECOND / 2).await;
            running.set(running.get() - 1);
            began.elapsed()
        };
        let ended = join_all((0..6).map(|_| openings.open(Standing::Unknown, quick))).await;
        assert_eq!(ended, [1, 1, 2, 2, 3, 3].map(|halves| halves * SECOND / 2));
        assert_eq!(most.get(), 2);
        let began = Instant::now();
        let slow = || async {
            sleep(10 * SECOND).await;
            began.elapsed().as_secs()
        };
        // Two by two they begin, a second apart, and each takes as long as it takes.
        let ended = join_all((0..6).map(|_| openings.open(Standing::Unknown, slow))).await;
        assert_eq!(ended, [10, 10, 11, 11, 12, 12]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_well_does_not_wait_for_others() {
        let openings = Openings::new(1);
        let began = Instant::now();
        let others = join_all((0..20).map(|_| openings.open(Standing::Unknown, || sleep(10 * SECOND))));
        let well = async {
            openings.open(Standing::Well, || std::future::ready(())).await;
            began.elapsed()
        };
        tokio::select! {
            biased;
            _ = others => panic!("it waits"),
            waited = well => assert_eq!(waited, Duration::ZERO),
        }
    }
}
