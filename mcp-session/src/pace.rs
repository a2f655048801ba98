use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The span that is looked back upon.
const SPAN: Duration = Duration::from_secs(60);

/// Lets through so many in any 60 s. Pure: the time is passed in.
#[derive(Debug)]
pub(crate) struct Pace {
    limit: usize,
    /// When the last ones went through, oldest first; never more than the limit.
    passed: VecDeque<Instant>,
}

impl Pace {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, passed: VecDeque::new() }
    }

    /// Whether `count` more may go through at `now`, all or none; if so, they count.
    pub(crate) fn admit(&mut self, count: usize, now: Instant) -> bool {
        while self.passed.front().is_some_and(|&passed| now.duration_since(passed) >= SPAN) {
            self.passed.pop_front();
        }
        let is_admitted = count <= self.limit.saturating_sub(self.passed.len());
        if is_admitted {
            self.passed.extend(std::iter::repeat_n(now, count));
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_sees_more_than_the_limit() {
        let start = Instant::now();
        let mut pace = Pace::new(2);
        let admitted: Vec<bool> =
            [0, 30, 59, 60, 61, 89, 90].map(|s| pace.admit(1, start + Duration::from_secs(s))).to_vec();
        assert_eq!(admitted, [true, true, false, true, false, false, true]);
    }

    #[test]
    fn a_limit_of_none_lets_nothing_through() {
        assert!(!Pace::new(0).admit(1, Instant::now()));
    }

    #[test]
    fn several_go_through_together_or_none_of_them_counts() {
        let start = Instant::now();
        let mut pace = Pace::new(3);
        assert_eq!(
            [4, 2, 2, 1, 1, 0].map(|count| pace.admit(count, start)),
            [false, true, false, true, false, true]
        );
    }
}
