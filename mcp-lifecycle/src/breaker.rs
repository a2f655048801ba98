use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::stop_plan::later;

/// When calls are refused because the connection keeps breaking under them, or because the server keeps
/// failing behind one that stands.
///
/// A strike is one event, however many calls it took down: a connection that was ready and broke, or,
/// over HTTP, an answer of 500, 502, 503 or 504 to a request that was begun after the strike before. What
/// a tool or the protocol answers is no strike, and neither is a call's time-out: it asks for a probe, and
/// only if that fails the connection breaks. Missing credentials are no strike, a server that waits for them is
/// not refused by its breaker, and new ones close it. Each server has a breaker of its own, which ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerOptions {
    /// Strikes in a row that open the breaker. Default 5.
    pub open_after: u32,
    /// How long it stays open the first time; doubles with each probe that fails. Default 30 s.
    pub open_for: Duration,
    /// The longest time it stays open. Default 300 s.
    pub cap: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { open_after: 5, open_for: Duration::from_secs(30), cap: Duration::from_secs(300) }
    }
}

impl BreakerOptions {
    /// Sets the number of strikes that open the breaker.
    #[must_use]
    pub fn with_open_after(mut self, strikes: u32) -> Self {
        self.open_after = strikes;
        self
    }

    /// Sets how long the breaker stays open the first time.
    #[must_use]
    pub fn with_open_for(mut self, time: Duration) -> Self {
        self.open_for = time;
        self
    }

    /// Sets the longest time it stays open.
    #[must_use]
    pub fn with_cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }
}

/// Whether calls are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// One call passes and decides.
    HalfOpen,
    /// Calls are refused.
    Open,
}

/// Refuses calls while a server's connection keeps breaking.
///
/// A generation that was ready and broke is one strike, however many calls it took down. So is a failure
/// of the server behind a connection that stands, together with all failures of requests that were begun
/// before it was seen. Whatever a tool answers is a success.
///
/// ```text
///            5 strikes in a row             time is up
///   Closed ──────────────────────▶ Open ──────────────────▶ HalfOpen: one call passes
///     ▲                             ▲                          │  │  ▲        │
///     │                             └── strike: twice as long ─┘  │  └─ no ───┘ dropped, timed out
///     └───────────────────────────── an answer ───────────────────┘     verdict
/// ```
#[derive(Debug)]
pub(crate) struct Breaker {
    options: BreakerOptions,
    state: Inner,
    strikes: u32,
    /// The newest generation that was struck: further losses of it are the same event.
    struck: u64,
    /// Counts the strikes of all time, so that failures that belong together are told from those in a row.
    total: u64,
    /// Counts the probes, so that a late end of an old one is told from the present one.
    probes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inner {
    Closed,
    HalfOpen { round: u32, probe: Option<u64> },
    Open { round: u32, until: Instant },
}

/// The answer to a call that asks to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Go on.
    Pass,
    /// Go on; this call decides. [`Breaker::on_end_of_probe`] must follow with this number.
    Probe(u64),
    /// Refused; `retry_in` is zero while another call is the probe.
    Refused { retry_in: Duration },
}

impl Breaker {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        Self { options, state: Inner::Closed, strikes: 0, struck: 0, total: 0, probes: 0 }
    }

    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        match self.state {
            Inner::Closed => Admission::Pass,
            Inner::Open { until, .. } if now < until => Admission::Refused { retry_in: until - now },
            Inner::HalfOpen { probe: Some(_), .. } => Admission::Refused { retry_in: Duration::ZERO },
            Inner::Open { round, .. } | Inner::HalfOpen { round, probe: None } => {
                self.probes += 1;
                self.state = Inner::HalfOpen { round, probe: Some(self.probes) };
                Admission::Probe(self.probes)
            }
        }
    }

    /// The server answered, with whatever.
    pub(crate) fn on_answer(&mut self) {
        self.strikes = 0;
        self.state = Inner::Closed;
    }

    /// The connection `generation` broke. Tells whether this opened the breaker.
    pub(crate) fn on_strike(&mut self, generation: u64, now: Instant) -> bool {
        if generation <= self.struck {
            return false;
        }
        self.struck = generation;
        self.strike(now)
    }

    /// How many strikes there were; a request notes it when it is begun.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The server failed on the level of the connection, which stays. The request was begun after `total`
    /// strikes: if there are more by now, this failure is part of the last. Tells whether this opened the
    /// breaker.
    pub(crate) fn on_failure(&mut self, total: u64, now: Instant) -> bool {
        total == self.total && self.strike(now)
    }

    fn strike(&mut self, now: Instant) -> bool {
        self.total += 1;
        self.strikes = self.strikes.saturating_add(1);
        let round = match self.state {
            Inner::Closed if self.strikes < self.options.open_after => return false,
            Inner::Closed => 0,
            Inner::HalfOpen { round, .. } => round.saturating_add(1),
            Inner::Open { .. } => return false,
        };
        let time = self.options.open_for.saturating_mul(2_u32.saturating_pow(round)).min(self.options.cap);
        self.state = Inner::Open { round, until: later(now, time) };
        true
    }

    /// The probing call has ended. If that told nothing about the connection, the next one may try.
    pub(crate) fn on_end_of_probe(&mut self, number: u64) {
        if let Inner::HalfOpen { round, probe } = self.state
            && probe == Some(number)
        {
            self.state = Inner::HalfOpen { round, probe: None };
        }
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state {
            Inner::Closed => BreakerState::Closed,
            Inner::HalfOpen { .. } => BreakerState::HalfOpen,
            Inner::Open { .. } => BreakerState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Something that happens around a breaker.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Admit,
        Answer,
        /// The end of a probe that was admitted, the newest or one before it.
        EndOfProbe {
            behind: usize,
        },
        Failure,
        /// The loss of a connection: another one, or one that has struck.
        Strike {
            is_new: bool,
        },
        TimePasses(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Admit),
            1 => Just(Step::Answer),
            2 => (0_usize..3).prop_map(|behind| Step::EndOfProbe { behind }),
            2 => Just(Step::Failure),
            4 => prop::bool::weighted(0.7).prop_map(|is_new| Step::Strike { is_new }),
            3 => (0_u32..400).prop_map(Step::TimePasses),
        ]
    }

    /// The same breaker, as a person would explain it.
    struct Model {
        now: Instant,
        strikes_in_a_row: u32,
        generation: u64,
        /// When calls are let through again, once it has opened.
        open_until: Option<Instant>,
        /// Probes that failed since it was closed.
        failed_probes: u32,
        /// Whether a probe was let through since it last opened.
        is_half_open: bool,
        /// The probe that runs.
        probe: Option<u64>,
        probes: Vec<u64>,
    }

    impl Model {
        fn new() -> Self {
            Self {
                now: Instant::now(),
                strikes_in_a_row: 0,
                generation: 0,
                open_until: None,
                failed_probes: 0,
                is_half_open: false,
                probe: None,
                probes: Vec::new(),
            }
        }

        fn admit(&mut self, admission: Admission) {
            match (self.open_until, admission) {
                (None, Admission::Pass) => {}
                (Some(until), Admission::Refused { retry_in }) if self.now < until => {
                    assert_eq!(retry_in, until - self.now);
                }
                (Some(_), Admission::Refused { retry_in: Duration::ZERO }) => {
                    assert!(self.probe.is_some(), "refused, and nobody tries");
                }
                (Some(until), Admission::Probe(number)) => {
                    assert!(until <= self.now, "a probe before its time");
                    assert!(self.probe.replace(number).is_none(), "two probes");
                    assert!(!self.probes.contains(&number), "a number twice");
                    self.probes.push(number);
                    self.is_half_open = true;
                }
                (until, admission) => panic!("{admission:?}, open until {until:?} at {:?}", self.now),
            }
        }

        fn answer(&mut self) {
            (self.strikes_in_a_row, self.failed_probes) = (0, 0);
            (self.open_until, self.probe, self.is_half_open) = (None, None, false);
        }

        /// A failure of the connection; whether that opens the breaker.
        fn fail(&mut self) -> bool {
            self.strikes_in_a_row += 1;
            let opens = match self.open_until {
                None => self.strikes_in_a_row >= 5,
                Some(_) => self.is_half_open,
            };
            self.failed_probes += u32::from(self.is_half_open);
            if opens {
                let seconds = (30_u32 << self.failed_probes.min(10)).min(300);
                self.open_until = Some(self.now + seconds * SECOND);
                (self.probe, self.is_half_open) = (None, false);
            }
            opens
        }

        fn state(&self) -> BreakerState {
            match (self.open_until, self.is_half_open) {
                (None, _) => BreakerState::Closed,
                (Some(_), true) => BreakerState::HalfOpen,
                (Some(_), false) => BreakerState::Open,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

        #[test]
        fn in_any_order_of_events_it_does_what_its_model_does(
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let (mut breaker, mut model) = (Breaker::new(BreakerOptions::default()), Model::new());
            for step in steps {
                match step {
                    Step::Admit => model.admit(breaker.admit(model.now)),
                    Step::Answer => {
                        breaker.on_answer();
                        model.answer();
                    }
                    Step::EndOfProbe { behind } => {
                        if let Some(number) = model.probes.iter().rev().nth(behind) {
                            breaker.on_end_of_probe(*number);
                            model.probe = model.probe.filter(|probe| probe != number);
                        }
                    }
                    Step::Failure => {
                        let total = breaker.total();
                        prop_assert_eq!(breaker.on_failure(total, model.now), model.fail());
                        // Begun before that: part of it, whatever it may be.
                        prop_assert!(!breaker.on_failure(total, model.now));
                    }
                    Step::Strike { is_new } => {
                        model.generation += u64::from(is_new);
                        let opens = breaker.on_strike(model.generation, model.now);
                        // What has struck before, or is none, does not count.
                        prop_assert_eq!(opens, is_new && model.fail());
                    }
                    Step::TimePasses(seconds) => model.now += seconds * SECOND,
                }
                prop_assert_eq!(breaker.state(), model.state());
            }
        }
    }

    /// A breaker that has just been opened by the generations 1 to 5.
    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(BreakerOptions::default());
        for generation in 1..=4 {
            assert!(!breaker.on_strike(generation, now));
            assert_eq!(breaker.admit(now), Admission::Pass);
        }
        assert!(breaker.on_strike(5, now));
        breaker
    }

    #[test]
    fn its_limits_are_those_that_were_set() {
        let mut now = Instant::now();
        let options =
            BreakerOptions::default().with_open_after(2).with_open_for(7 * SECOND).with_cap(10 * SECOND);
        let mut breaker = Breaker::new(options);
        assert!(!breaker.on_strike(1, now));
        assert!(breaker.on_strike(2, now), "two are enough");
        for (strike, seconds) in [(3, 7), (4, 10)] {
            assert_eq!(breaker.admit(now), Admission::Refused { retry_in: seconds * SECOND });
            now += seconds * SECOND;
            assert!(matches!(breaker.admit(now), Admission::Probe(_)));
            assert!(breaker.on_strike(strike, now));
        }
    }

    #[test]
    fn five_strikes_in_a_row_open_it() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.admit(now), Admission::Refused { retry_in: 30 * SECOND });
        assert_eq!(breaker.admit(now + 29 * SECOND), Admission::Refused { retry_in: SECOND });
    }

    #[test]
    fn i27_an_answer_in_between_starts_the_count_over() {
        let now = Instant::now();
        let mut breaker = Breaker::new(BreakerOptions::default());
        for generation in 1..100 {
            assert!(!breaker.on_strike(generation, now));
            if generation % 4 == 0 {
                breaker.on_answer();
            }
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn one_generation_is_one_strike_however_many_calls_it_took_down() {
        let now = Instant::now();
        let mut breaker = Breaker::new(BreakerOptions::default());
        for _ in 0..100 {
            breaker.on_strike(1, now);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn f066_failures_in_a_row_open_it_and_those_that_belong_together_are_one() {
        let now = Instant::now();
        let mut breaker = Breaker::new(BreakerOptions::default());
        for round in 1..=5 {
            let begun = breaker.total();
            let opened: Vec<_> = (0..100).map(|_| breaker.on_failure(begun, now)).collect();
            assert_eq!(opened[0], round == 5);
            assert!(opened[1..].iter().all(|opened| !opened));
        }
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn i26_half_open_admits_exactly_one_call() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + 30 * SECOND;
        assert_eq!(breaker.admit(later), Admission::Probe(1));
        for _ in 0..99 {
            assert_eq!(breaker.admit(later), Admission::Refused { retry_in: Duration::ZERO });
        }
        breaker.on_answer();
        assert_eq!(breaker.admit(later), Admission::Pass);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_failed_probe_doubles_the_time_up_to_the_cap() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for (round, seconds) in [30, 60, 120, 240, 300, 300].into_iter().enumerate() {
            let Admission::Refused { retry_in } = breaker.admit(now) else { panic!("open") };
            assert_eq!(retry_in, seconds * SECOND);
            now += retry_in;
            assert!(matches!(breaker.admit(now), Admission::Probe(_)));
            assert!(breaker.on_strike(6 + round as u64, now));
        }
    }

    #[test]
    fn a_probe_without_a_verdict_lets_the_next_call_try() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + 30 * SECOND;
        assert_eq!(breaker.admit(later), Admission::Probe(1));
        breaker.on_end_of_probe(1);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.admit(later), Admission::Probe(2));
        breaker.on_end_of_probe(1);
        assert!(matches!(breaker.admit(later), Admission::Refused { .. }), "the second probe still runs");
    }

    #[test]
    fn a_strike_while_open_changes_nothing() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(!breaker.on_strike(6, now + SECOND));
        assert_eq!(breaker.admit(now + SECOND), Admission::Refused { retry_in: 29 * SECOND });
    }
}
