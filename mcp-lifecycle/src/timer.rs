use tokio::time::{Instant, sleep_until};

/// Waits until `deadline`; for ever if there is none. The only place in this crate that sleeps: it is
/// awaited nowhere but beside the order to stop.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        // The runtime's timer counts whole milliseconds and would wait for the next one.
        Some(deadline) if deadline <= Instant::now() => {}
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_time_that_has_come_is_not_waited_for() {
        // Between two milliseconds, as real times are.
        advance(Duration::from_micros(300)).await;
        let now = Instant::now();
        until(Some(now)).await;
        assert_eq!(Instant::now(), now);
    }
}
