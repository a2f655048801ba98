use std::ops::Range;
use std::time::Duration;

/// A seeded source of decisions (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another source that this one determines.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn in_range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Whether something happens that does so in `percent` of all cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.in_range(0..100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.next() % from.len() as u64).unwrap()]
    }

    /// A time below `limit`, mostly a short one; in whole milliseconds, as the timers have it.
    pub(crate) fn time(&mut self, limit: Duration) -> Duration {
        let part = self.in_range(0..1000);
        let millis = u64::try_from(limit.as_millis()).unwrap();
        Duration::from_millis(millis * part * part / 1_000_000)
    }
}
