use std::time::Duration;

/// A seeded source of spread (SplitMix64): the same seed gives the same delays, run after run.
#[derive(Debug, Clone)]
pub(crate) struct Jitter(u64);

impl Jitter {
    #[cfg(test)]
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own for each server, so that one seed does not wake all of them together.
    pub(crate) fn for_server(seed: u64, name: &str) -> Self {
        // FNV-1a: stable over builds, which the standard hashers do not promise.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed ^ hash)
    }

    /// A duration spread evenly over `0..limit`.
    pub(crate) fn up_to(&mut self, limit: Duration) -> Duration {
        let nanos = limit.as_nanos().min(u128::from(u64::MAX));
        let part = (nanos * u128::from(self.next())) >> 64;
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// A duration spread evenly over `middle` ± `percent`.
    pub(crate) fn around(&mut self, middle: Duration, percent: u32) -> Duration {
        let reach = middle.saturating_mul(percent.min(100)) / 100;
        middle.saturating_sub(reach).saturating_add(self.up_to(reach.saturating_mul(2)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        let second = Duration::from_secs(1);
        let (mut a, mut b) = (Jitter::for_server(7, "git"), Jitter::for_server(7, "git"));
        let mut other = Jitter::for_server(7, "time");
        let delays: Vec<_> = (0..20).map(|_| a.up_to(second)).collect();
        assert_eq!(delays, (0..20).map(|_| b.up_to(second)).collect::<Vec<_>>());
        assert_ne!(delays, (0..20).map(|_| other.up_to(second)).collect::<Vec<_>>());
    }

    #[test]
    fn delays_stay_in_range_and_fill_it() {
        let mut jitter = Jitter::new(1);
        let second = Duration::from_secs(1);
        let delays: Vec<_> = (0..1000).map(|_| jitter.up_to(second)).collect();
        assert!(delays.iter().all(|delay| *delay < second));
        assert!(delays.iter().any(|delay| *delay < second / 20));
        assert!(delays.iter().any(|delay| *delay > second * 19 / 20));
        assert_eq!(jitter.up_to(Duration::ZERO), Duration::ZERO);
        assert!(jitter.up_to(Duration::MAX) < Duration::MAX);

        let (low, high) = (Duration::from_secs(240), Duration::from_secs(360));
        let probes: Vec<_> = (0..1000).map(|_| jitter.around(Duration::from_secs(300), 20)).collect();
        assert!(probes.iter().all(|probe| (low..=high).contains(probe)));
        assert!(probes.iter().any(|probe| *probe < Duration::from_secs(246)));
        assert!(probes.iter().any(|probe| *probe > Duration::from_secs(354)));
    }
}
