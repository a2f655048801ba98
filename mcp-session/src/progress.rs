use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_proto::Progress;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::options::ProgressHandler;
use crate::slot::Show;

/// Least time between two deliveries to one handler: 20 a second.
const SPACING: Duration = Duration::from_millis(50);

/// Shows the progress of one call to its handler, not too often.
///
/// It runs where the call is polled. The driver only leaves the newest progress in the slot, so a
/// flood costs neither memory nor wake-ups and a slow handler delays nobody but its own caller.
pub(crate) struct ProgressLane {
    handler: ProgressHandler,
    next: Option<Instant>,
    /// Made only when progress has to be held back, which most calls never see.
    rest: Option<Pin<Box<Sleep>>>,
}

impl ProgressLane {
    pub(crate) fn new(handler: ProgressHandler) -> Self {
        Self { handler, next: None, rest: None }
    }

    pub(crate) fn deliver(&mut self, progress: Progress) {
        (self.handler)(progress);
        // Counted from here: a handler slower than that would be called again and again in one poll.
        self.next = Some(Instant::now() + SPACING);
    }

    /// Whether progress may be delivered now.
    pub(crate) fn show(&self) -> Show {
        match self.next {
            Some(next) if Instant::now() < next => Show::Nothing,
            _ => Show::Progress,
        }
    }

    /// Waits until progress may be delivered again.
    pub(crate) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(next) = self.next else { return Poll::Ready(()) };
        let rest = self.rest.get_or_insert_with(|| Box::pin(sleep_until(next)));
        if rest.deadline() != next {
            rest.as_mut().reset(next);
        }
        rest.as_mut().poll(cx)
    }
}
