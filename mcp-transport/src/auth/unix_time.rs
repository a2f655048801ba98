use std::time::{Duration, SystemTime};

use serde_json::Value;

/// Longest lifetime that is believed: ten years. A longer one serves nobody, and cannot overflow.
const LONGEST_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A moment of the calendar, as files and other programs know it; exact to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime {
    /// Milliseconds since 1970.
    millis: u64,
}

impl UnixTime {
    /// From seconds since 1970. What no calendar knows is cut to the nearest moment that it does.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        // Beyond this no float is exact, and no clock will ever be.
        let millis = (seconds * 1000.0).clamp(0.0, 9e15).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0 and 9e15")]
        Self { millis: millis as u64 }
    }

    /// When `lifetime` after this one ends, counting at most ten years.
    #[must_use]
    pub fn after(self, lifetime: Duration) -> Self {
        let lifetime = lifetime.min(LONGEST_LIFETIME).as_millis();
        Self { millis: self.millis.saturating_add(u64::try_from(lifetime).unwrap_or(u64::MAX)) }
    }

    /// How long from `earlier` until this; nothing if that is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.millis.saturating_sub(earlier.millis))
    }

    /// Seconds since 1970; parts of one are left out.
    pub(super) fn to_whole_seconds(self) -> u64 {
        self.millis / 1000
    }

    pub(super) fn to_value(self) -> Value {
        if self.millis.is_multiple_of(1000) {
            return (self.millis / 1000).into();
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 9e15, which a float holds exactly")]
        (self.millis as f64 / 1000.0).into()
    }
}

impl From<SystemTime> for UnixTime {
    fn from(time: SystemTime) -> Self {
        // A clock before 1970 is no clock; whatever it says has expired.
        Self::from_seconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_cut_to_what_a_calendar_knows() {
        for (seconds, millis) in
            [(0.0, 0), (1.5, 1500), (0.0004, 0), (-5.0, 0), (1e300, 9_000_000_000_000_000), (f64::NAN, 0)]
        {
            assert_eq!(UnixTime::from_seconds(seconds), UnixTime { millis }, "{seconds}");
        }
        let start = UnixTime::from_seconds(1000.0);
        assert_eq!(start.after(Duration::MAX).since(start), LONGEST_LIFETIME);
        assert_eq!(start.since(start.after(Duration::from_secs(1))), Duration::ZERO);
    }

    #[test]
    fn a_moment_is_written_as_a_number_that_reads_as_itself() {
        for (seconds, text) in [(1.0, "1"), (1_700_000_000.0, "1700000000"), (1.25, "1.25")] {
            let time = UnixTime::from_seconds(seconds);
            assert_eq!(time.to_value().to_string(), text);
            assert_eq!(UnixTime::from_seconds(time.to_value().as_f64().unwrap()), time);
        }
    }
}
