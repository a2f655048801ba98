use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(5);
/// What is missing, or too much, from here on is no pause of a busy machine.
const SLEPT: Duration = Duration::from_secs(10);

/// Notices that the machine was suspended.
///
/// Where the runtime's clock stands still meanwhile (Linux, macOS), no deadline passes, and the date has
/// run ahead of it afterwards. Where the clock goes on, or the whole machine was frozen, the look itself
/// comes much too late. A date that was set looks like the former: that costs a probe. One that was set back
/// looks like nothing.
#[derive(Debug)]
pub(crate) struct SleepWatch {
    date: SystemTime,
    at: Instant,
}

impl SleepWatch {
    pub(crate) fn new(date: SystemTime, now: Instant) -> Self {
        Self { date, at: now }
    }

    /// When to look next.
    pub(crate) fn next_look(&self) -> Instant {
        self.at + INTERVAL
    }

    /// Looks; tells how long the machine has slept, if it has.
    pub(crate) fn look(&mut self, date: SystemTime, now: Instant) -> Option<Duration> {
        let ran = now.saturating_duration_since(self.at);
        let passed = date.duration_since(self.date).unwrap_or_default();
        let (ahead, late) = (passed.saturating_sub(ran), ran.saturating_sub(INTERVAL));
        (self.date, self.at) = (date, now);
        Some(ahead.max(late)).filter(|slept| *slept >= SLEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const YEAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

    /// What a watch says that looks after `ran` on the runtime's clock, when the date has moved by `passed`.
    fn slept(ran: Duration, passed: Duration) -> Option<Duration> {
        let (date, now) = (SystemTime::UNIX_EPOCH + 50 * YEAR, Instant::now());
        let mut watch = SleepWatch::new(date, now);
        assert_eq!(watch.next_look(), now + INTERVAL);
        let slept = watch.look(date + passed, now + ran);
        assert_eq!(watch.look(date + passed + INTERVAL, now + ran + INTERVAL), None, "once");
        slept
    }

    #[test]
    fn a_sleep_shows_on_either_clock() {
        assert_eq!(slept(INTERVAL, 3600 * SECOND + INTERVAL), Some(3600 * SECOND));
        assert_eq!(slept(3600 * SECOND + INTERVAL, 3600 * SECOND + INTERVAL), Some(3600 * SECOND));
    }

    #[test]
    fn a_busy_machine_has_not_slept() {
        assert_eq!(slept(INTERVAL, INTERVAL), None);
        assert_eq!(slept(INTERVAL + 9 * SECOND, INTERVAL + 9 * SECOND), None);
        assert_eq!(slept(INTERVAL, INTERVAL + 9 * SECOND), None);
    }

    #[test]
    fn f154_a_date_that_jumps_by_years_does_no_harm() {
        assert_eq!(slept(INTERVAL, 10 * YEAR), Some(10 * YEAR - INTERVAL), "a probe, and that is all");
        let (date, now) = (SystemTime::UNIX_EPOCH + 50 * YEAR, Instant::now());
        let mut watch = SleepWatch::new(date, now);
        assert_eq!(watch.look(date - 10 * YEAR, now + INTERVAL), None);
        assert_eq!(watch.next_look(), now + 2 * INTERVAL);
    }
}
