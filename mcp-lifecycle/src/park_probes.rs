use std::time::Duration;

use crate::jitter::Jitter;

/// How far the probes of parked servers are spread, so that many do not wake together.
const SPREAD_PERCENT: u32 = 20;

/// The first waits of a server that was there and cannot be reached, in seconds: most often it is being
/// restarted.
const EARLY: [u64; 3] = [5, 15, 60];

/// When a parked server is tried again by itself.
///
/// Where nobody listens, five attempts are over in a few seconds, which is less than many servers take to
/// start again. So a server that was ready once, and that now cannot even be reached, is tried early at
/// first; every other one in the long interval.
#[derive(Debug)]
pub(crate) struct ParkProbes {
    interval: Duration,
    /// Early ones since the server last proved healthy.
    early: usize,
}

/// What is known of a server that is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// It may be on its way back.
    Returning,
    Unknown,
}

impl ParkProbes {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, early: 0 }
    }

    /// The server is parked: how long until it is tried again.
    pub(crate) fn on_park(&mut self, prospect: Prospect, jitter: &mut Jitter) -> Duration {
        let early = EARLY.get(self.early).filter(|_| prospect == Prospect::Returning);
        let wait = match early {
            Some(seconds) => {
                self.early += 1;
                Duration::from_secs(*seconds).min(self.interval)
            }
            None => self.interval,
        };
        jitter.around(wait, SPREAD_PERCENT)
    }

    /// It has proved healthy.
    pub(crate) fn on_proven(&mut self) {
        self.early = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(probes: &mut ParkProbes, prospect: Prospect, number: usize) -> Vec<f64> {
        let mut jitter = Jitter::new(1);
        (0..number).map(|_| probes.on_park(prospect, &mut jitter).as_secs_f64()).collect()
    }

    #[track_caller]
    fn assert_around(waits: &[f64], expected: &[f64]) {
        assert_eq!(waits.len(), expected.len());
        for (wait, expected) in waits.iter().zip(expected) {
            assert!((wait - expected).abs() <= expected * 0.2, "{waits:?} for {expected:?}");
        }
    }

    #[test]
    fn a_server_that_may_return_is_tried_early_at_first() {
        let mut probes = ParkProbes::new(Duration::from_secs(300));
        assert_around(&waits(&mut probes, Prospect::Returning, 5), &[5.0, 15.0, 60.0, 300.0, 300.0]);
        probes.on_proven();
        assert_around(&waits(&mut probes, Prospect::Returning, 1), &[5.0]);
    }

    #[test]
    fn f033_any_other_server_is_tried_in_the_long_interval_alone() {
        let mut probes = ParkProbes::new(Duration::from_secs(300));
        assert_around(&waits(&mut probes, Prospect::Unknown, 3), &[300.0; 3]);
    }

    #[test]
    fn no_wait_is_longer_than_the_interval() {
        let mut probes = ParkProbes::new(Duration::from_secs(10));
        assert_around(&waits(&mut probes, Prospect::Returning, 4), &[5.0, 10.0, 10.0, 10.0]);
    }
}
