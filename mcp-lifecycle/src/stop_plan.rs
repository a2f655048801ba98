use std::time::Duration;

use tokio::time::Instant;

/// Between closing a connection and giving it up: time to abort its task and to join it.
const MARGIN: Duration = Duration::from_millis(200);
/// A timer that fires this late shows that the runtime stood still meanwhile.
const STOOD_STILL: Duration = Duration::from_millis(100);
/// In which everybody can catch up with what has happened while the runtime stood still.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);
/// Further ahead than any limit, and far from the end of the clock.
const DECADES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// The deadlines of one stop, fixed when the sequence begins, by whoever runs it.
///
/// They move for one reason: the runtime stood still, and nothing could be done in that time.
///
/// ```text
///   began ── running calls finish ── drain_by ── connection closes ── close_by ── abort_at ── end_by
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StopPlan {
    pub(crate) began: Instant,
    /// Running calls may go on until then.
    pub(crate) drain_by: Instant,
    /// The connection must be closed by then.
    pub(crate) close_by: Instant,
    /// Tasks that still live are aborted then.
    pub(crate) abort_at: Instant,
    /// Whatever still lives then is given up.
    pub(crate) end_by: Instant,
}

impl StopPlan {
    pub(crate) fn new(began: Instant, drain: Duration, total: Duration) -> Self {
        let end_by = later(began, total);
        let margin = MARGIN.min(total / 4);
        let close_by = end_by.checked_sub(margin).unwrap_or(began);
        let drain_by = later(began, drain).min(close_by);
        Self { began, drain_by, close_by, abort_at: close_by + margin / 2, end_by }
    }

    /// The stricter of two plans.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            began: self.began.min(other.began),
            drain_by: self.drain_by.min(other.drain_by),
            close_by: self.close_by.min(other.close_by),
            abort_at: self.abort_at.min(other.abort_at),
            end_by: self.end_by.min(other.end_by),
        }
    }

    /// Moves all deadlines if the one that was `due` fires much too late: time in which the runtime
    /// stood still is nobody's fault, and no step may overtake another because of it.
    pub(crate) fn excuse(&mut self, due: Instant, now: Instant) -> bool {
        let Some(late) = standstill(due, now) else { return false };
        for deadline in [&mut self.drain_by, &mut self.close_by, &mut self.abort_at, &mut self.end_by] {
            *deadline += late + MOMENT;
        }
        true
    }
}

/// How long the runtime stood still, if a timer that was `due` shows that it did.
pub(crate) fn standstill(due: Instant, now: Instant) -> Option<Duration> {
    Some(now.saturating_duration_since(due)).filter(|late| *late >= STOOD_STILL)
}

/// `start + span`, without overflow.
pub(crate) fn later(start: Instant, span: Duration) -> Instant {
    start.checked_add(span.min(DECADES)).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_keep_their_order_whatever_the_limits() {
        let now = Instant::now();
        for drain in [0, 1, 5_000, u64::MAX] {
            for total in [0, 1, 100, 10_000, u64::MAX] {
                let (drain, total) = (Duration::from_millis(drain), Duration::from_millis(total));
                let plan = StopPlan::new(now, drain, total);
                assert!(plan.began <= plan.drain_by, "{plan:?}");
                assert!(plan.drain_by <= plan.close_by, "{plan:?}");
                assert!(plan.close_by <= plan.abort_at && plan.abort_at <= plan.end_by, "{plan:?}");
            }
        }
    }

    #[test]
    fn only_a_runtime_that_stood_still_moves_the_deadlines() {
        let now = Instant::now();
        let mut plan = StopPlan::new(now, Duration::from_secs(5), Duration::from_secs(10));
        let before = plan;
        assert!(!plan.excuse(plan.drain_by, plan.drain_by + Duration::from_millis(99)));
        assert_eq!(plan, before);
        assert!(plan.excuse(plan.drain_by, plan.drain_by + Duration::from_secs(20)));
        let moved = Duration::from_secs(20) + MOMENT;
        assert_eq!(plan.close_by, before.close_by + moved);
        assert_eq!(plan.end_by, before.end_by + moved);
    }
}
