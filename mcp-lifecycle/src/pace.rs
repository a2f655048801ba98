use std::time::Duration;

use tokio::time::Instant;

/// The least number of reconnects a second, whatever the number of servers.
const LEAST: u32 = 8;

/// Spreads the reconnects of all servers, or the subscriptions opened again, when many are lost at once.
///
/// In any second at most a tenth of the servers begin one (but never fewer than sixteen may), so that
/// a network that comes back is not hit by everybody in the same instant. One lost server alone never
/// waits here.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// When the reconnects already admitted would be over, spaced evenly.
    spent_until: Option<Instant>,
}

impl Pacer {
    /// Books one reconnect: when it may begin, `now` at the earliest.
    pub(crate) fn book(&mut self, servers: usize, now: Instant) -> Instant {
        // A twentieth as burst and a twentieth for each second make a tenth in the worst second.
        let twentieth = u32::try_from(servers / 20).unwrap_or(u32::MAX).max(LEAST);
        let spacing = Duration::from_secs(1) / twentieth;
        let burst = spacing.saturating_mul(twentieth.saturating_sub(1));
        let begin = self.spent_until.map_or(now, |until| until.max(now));
        self.spent_until = Some(begin + spacing);
        now.max(begin.checked_sub(burst).unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest number of bookings in any one second.
    fn busiest(begins: &[Instant]) -> usize {
        let second = Duration::from_secs(1);
        let from = |first: Instant| begins.iter().filter(move |at| **at >= first && **at - first < second);
        begins.iter().map(|first| from(*first).count()).max().unwrap_or_default()
    }

    #[test]
    fn f153_at_most_a_tenth_begins_in_any_second() {
        let now = Instant::now() + Duration::from_secs(1000);
        let mut pacer = Pacer::default();
        let begins: Vec<_> = (0..500).map(|_| pacer.book(500, now)).collect();
        assert!(busiest(&begins) <= 50, "{}", busiest(&begins));
        assert!(*begins.last().unwrap() - now <= Duration::from_secs(20));
    }

    #[test]
    fn one_lost_server_does_not_wait() {
        let now = Instant::now() + Duration::from_secs(1000);
        let mut pacer = Pacer::default();
        for second in 0..20 {
            let at = now + Duration::from_secs(second);
            assert_eq!(pacer.book(3, at), at);
        }
        assert!((0..8).all(|_| {
            let at = now + Duration::from_secs(60);
            pacer.book(3, at) == at
        }));
    }
}
