use tokio::time::{Instant, sleep_until};

/// Waits until `deadline`; for ever if there is none. The only place in this crate that sleeps: it is
/// awaited nowhere but beside the order to stop.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
