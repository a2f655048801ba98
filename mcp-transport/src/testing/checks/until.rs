use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(2);

/// Waits until `condition` holds, by looking at it again and again.
///
/// For what the system does not announce: a process that disappears, a line in a file. This is the one
/// place of the tests that sleeps. Not for the paused clock.
///
/// # Panics
///
/// The condition does not hold within `limit`; the text names `what` was waited for.
///
/// # Cancel safety
///
/// Dropping the future changes nothing.
pub async fn until(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    until_some(limit, what, || condition().then_some(())).await;
}

/// As [`until`], with a value.
///
/// # Panics
///
/// There is none within `limit`.
///
/// # Cancel safety
///
/// Dropping the future changes nothing.
pub async fn until_some<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let by = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < by, "{what}: not within {limit:?}");
        sleep(INTERVAL).await;
    }
}
