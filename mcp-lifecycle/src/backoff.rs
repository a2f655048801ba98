use std::time::Duration;

use crate::jitter::Jitter;

/// How long a server waits between failed attempts: full jitter under a growing ceiling.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BackoffOptions {
    /// Ceiling of the first delay. Default 1 s.
    pub first: Duration,
    /// How much the ceiling grows with each failure. Default 1.6.
    pub factor: f64,
    /// The ceiling grows no further than this. Default 60 s.
    pub cap: Duration,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), factor: 1.6, cap: Duration::from_secs(60) }
    }
}

impl BackoffOptions {
    /// Sets the ceiling of the first delay.
    #[must_use]
    pub fn with_first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// Sets the growth of the ceiling.
    #[must_use]
    pub fn with_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the highest ceiling.
    #[must_use]
    pub fn with_cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// The longest possible delay after `failures` earlier ones; never over [`cap`](Self::cap).
    #[must_use]
    pub fn ceiling(&self, failures: u32) -> Duration {
        let exponent = i32::try_from(failures).unwrap_or(i32::MAX);
        let seconds = self.first.as_secs_f64() * self.factor.powi(exponent);
        // Not a number, infinite or negative: the cap is the only sane reading.
        Duration::try_from_secs_f64(seconds).unwrap_or(self.cap).min(self.cap)
    }
}

/// Counts failures and draws the delay after each.
#[derive(Debug)]
pub(crate) struct Backoff {
    options: BackoffOptions,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(options: BackoffOptions) -> Self {
        Self { options, failures: 0 }
    }

    /// One more failure: how long to wait after it.
    pub(crate) fn on_failure(&mut self, jitter: &mut Jitter) -> Duration {
        let ceiling = self.options.ceiling(self.failures);
        self.failures = self.failures.saturating_add(1);
        jitter.up_to(ceiling)
    }

    /// The server was stable for long enough: the next failure counts as the first.
    pub(crate) fn on_stable(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_history_waits_below_the_ceiling_of_its_failures(
            first in 0_u64..10_000,
            cap in 0_u64..100_000,
            factor in 1.0..10.0,
            seed: u64,
            history in prop::collection::vec(prop::bool::weighted(0.9), 0..200),
        ) {
            let options = BackoffOptions::default()
                .with_first(Duration::from_millis(first))
                .with_cap(Duration::from_millis(cap))
                .with_factor(factor);
            let (mut backoff, mut jitter) = (Backoff::new(options.clone()), Jitter::new(seed));
            let mut failures = 0;
            // What the ceiling is, reckoned step by step.
            let mut ceiling = options.first.min(options.cap).as_secs_f64();
            for fails in history {
                if fails {
                    let delay = backoff.on_failure(&mut jitter);
                    // A nanosecond for the rounding of another way to reckon.
                    prop_assert!(delay.as_secs_f64() <= ceiling + 1e-9, "{delay:?} after {failures}");
                    failures += 1;
                    ceiling = (ceiling * factor).min(options.cap.as_secs_f64());
                } else {
                    backoff.on_stable();
                    failures = 0;
                    ceiling = options.first.min(options.cap).as_secs_f64();
                }
                prop_assert_eq!(backoff.failures(), failures);
                let next = options.ceiling(failures).as_secs_f64();
                prop_assert!((next - ceiling).abs() <= 1e-9 * ceiling.max(1.0), "{next} is not {ceiling}");
            }
        }
    }

    #[test]
    fn each_limit_is_set_and_leaves_the_others() {
        let (first, cap) = (Duration::from_secs(2), Duration::from_secs(50));
        let options = BackoffOptions::default().with_first(first).with_cap(cap).with_factor(5.0);
        assert_eq!(options, BackoffOptions { first, factor: 5.0, cap });
        let ceilings = [0, 1, 2, 3].map(|failures| options.ceiling(failures).as_secs());
        assert_eq!(ceilings, [2, 10, 50, 50]);
    }

    #[test]
    fn the_ceiling_grows_to_the_cap_and_stays_there() {
        let options = BackoffOptions::default();
        let table = [(0, 1.0), (1, 1.6), (2, 2.56), (8, 42.949_672_96), (9, 60.0), (u32::MAX, 60.0)];
        for (failures, seconds) in table {
            assert_eq!(options.ceiling(failures), Duration::from_secs_f64(seconds), "{failures}");
        }
    }

    #[test]
    fn f155_odd_factors_end_at_the_cap_and_never_overflow() {
        for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -2.0, f64::MAX] {
            let options = BackoffOptions::default().with_factor(factor);
            for failures in [0, 1, 2, 1000, u32::MAX] {
                assert!(options.ceiling(failures) <= options.cap, "{factor} {failures}");
            }
        }
    }

    #[test]
    fn only_stability_starts_over() {
        let mut jitter = Jitter::new(3);
        let mut backoff = Backoff::new(BackoffOptions::default());
        let longest = (0..40).map(|_| backoff.on_failure(&mut jitter)).max().unwrap();
        assert!(longest > Duration::from_secs(30), "{longest:?}");
        assert_eq!(backoff.failures(), 40);
        backoff.on_stable();
        assert!(backoff.on_failure(&mut jitter) < Duration::from_secs(1));
    }
}
