use std::sync::OnceLock;

use mcp_transport::Closed;
use tokio::sync::Notify;

/// How a session has ended, for all who wait for that.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    closed: OnceLock<Closed>,
    told: Notify,
}

impl Ending {
    /// Tells everybody, once.
    pub(crate) fn tell(&self, closed: Closed) {
        if self.closed.set(closed).is_ok() {
            self.told.notify_waiters();
        }
    }

    pub(crate) async fn wait(&self) -> Closed {
        loop {
            let mut told = std::pin::pin!(self.told.notified());
            // From here on it is not missed.
            told.as_mut().enable();
            if let Some(closed) = self.closed.get() {
                return closed.clone();
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_transport::CloseReason;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn everybody_is_told_how_it_ended_first_however_early_or_late_they_ask() {
        let (ending, first) = (Ending::default(), Closed::new(CloseReason::EndOfStream, ""));
        let tell = async {
            ending.tell(first);
            ending.tell(Closed::new(CloseReason::Local, ""));
        };
        let told = async { tokio::join!(ending.wait(), ending.wait(), tell) };
        let (one, other, ()) = timeout(Duration::from_secs(1), told).await.unwrap();
        for closed in [one, other, ending.wait().await] {
            assert_eq!(*closed.reason(), CloseReason::EndOfStream);
        }
    }
}
