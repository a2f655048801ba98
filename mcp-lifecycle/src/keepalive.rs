use std::time::Duration;

use tokio::time::Instant;

use crate::stop_plan::later;

/// How a connection is found out that stands but does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepaliveOptions {
    /// How often a connection without running calls is probed; `None`: never. Default 60 s.
    pub interval: Option<Duration>,
    /// How long an answer may take. Default 10 s.
    pub reply_limit: Duration,
    /// Probes in a row without an answer, and without any other sign of life, that end the
    /// connection. Each counts for [`reply_limit`](Self::reply_limit), also if it fails at once. Default 2.
    pub misses: u32,
}

impl Default for KeepaliveOptions {
    fn default() -> Self {
        Self { interval: Some(Duration::from_secs(60)), reply_limit: Duration::from_secs(10), misses: 2 }
    }
}

impl KeepaliveOptions {
    /// Sets how often an idle connection is probed.
    #[must_use]
    pub fn with_interval(mut self, interval: Option<Duration>) -> Self {
        self.interval = interval;
        self
    }

    /// Sets how long an answer may take.
    #[must_use]
    pub fn with_reply_limit(mut self, limit: Duration) -> Self {
        self.reply_limit = limit;
        self
    }

    /// Sets how many misses end the connection.
    #[must_use]
    pub fn with_misses(mut self, misses: u32) -> Self {
        self.misses = misses;
        self
    }
}

/// Decides when one connection is probed and when it counts as dead.
///
/// A connection is probed when it was idle for the interval, when a call has timed out on it, or when the
/// machine has slept. A busy connection is not probed by the interval: its calls have deadlines of their own, and each that
/// passes asks for a probe.
#[derive(Debug)]
pub(crate) struct Keepalive {
    options: KeepaliveOptions,
    due: Option<Instant>,
    /// When the time of the last probe is over.
    asked_until: Option<Instant>,
    misses: u32,
    /// When the last probe was answered.
    answered: Option<Instant>,
}

/// What to do when a probe is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ask, and wait no longer than this for the answer.
    Probe { by: Instant },
    /// Nothing now.
    Skip,
}

/// What a missing answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Alive,
    Dead { misses: u32 },
}

impl Keepalive {
    pub(crate) fn new(options: KeepaliveOptions, now: Instant) -> Self {
        let mut keepalive = Self { options, due: None, asked_until: None, misses: 0, answered: None };
        keepalive.rearm(now);
        keepalive
    }

    /// When [`on_due`](Self::on_due) is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.due
    }

    /// The time has come.
    pub(crate) fn on_due(&mut self, now: Instant, calls: usize) -> Due {
        self.due = None;
        if calls > 0 && self.misses == 0 {
            self.rearm(now);
            return Due::Skip;
        }
        self.ask(now)
    }

    /// A call has timed out. A server that has answered a probe just now is not asked again, so that
    /// a thousand calls that time out are not followed by as many probes; one that has missed a probe is
    /// asked again soon anyway.
    pub(crate) fn on_suspicion(&mut self, now: Instant) -> Due {
        let has_answered = self.answered.is_some_and(|answered| now - answered < self.options.reply_limit);
        if has_answered || self.misses > 0 {
            return Due::Skip;
        }
        self.ask(now)
    }

    /// The machine has slept: what was answered before says nothing any more.
    pub(crate) fn on_resumed(&mut self, now: Instant) -> Due {
        self.misses = 0;
        self.ask(now)
    }

    /// The probe was answered.
    pub(crate) fn on_answer(&mut self, now: Instant) {
        self.misses = 0;
        self.answered = Some(now);
        self.rearm(now);
    }

    /// The probe was not answered; `heard` tells whether anything else arrived meanwhile.
    pub(crate) fn on_miss(&mut self, heard: bool, now: Instant) -> Verdict {
        if heard {
            self.on_answer(now);
            return Verdict::Alive;
        }
        self.misses += 1;
        // Silence is either confirmed or refuted soon: the next one follows as soon as the time of this one
        // is over. An error that came at once does not make that earlier, or two of them in one moment, of
        // a balancer that restarts, would be two misses.
        self.due = Some(self.asked_until.map_or(now, |until| until.max(now)));
        if self.misses >= self.options.misses {
            Verdict::Dead { misses: self.misses }
        } else {
            Verdict::Alive
        }
    }

    fn ask(&mut self, now: Instant) -> Due {
        self.due = None;
        let by = later(now, self.options.reply_limit);
        self.asked_until = Some(by);
        Due::Probe { by }
    }

    fn rearm(&mut self, now: Instant) {
        self.due = self.options.interval.and_then(|interval| now.checked_add(interval));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn started() -> (Keepalive, Instant) {
        let now = Instant::now();
        (Keepalive::new(KeepaliveOptions::default(), now), now)
    }

    #[test]
    fn an_idle_connection_is_probed_once_in_an_interval() {
        let (mut keepalive, mut now) = started();
        for _ in 0..10 {
            let due = keepalive.next_deadline().unwrap();
            assert_eq!(due - now, 60 * SECOND);
            now = due;
            assert_eq!(keepalive.on_due(now, 0), Due::Probe { by: now + 10 * SECOND });
            assert_eq!(keepalive.next_deadline(), None, "no second probe beside the first");
            keepalive.on_answer(now);
        }
    }

    #[test]
    fn i21_a_busy_connection_is_not_probed() {
        let (mut keepalive, now) = started();
        assert_eq!(keepalive.on_due(now + 60 * SECOND, 1), Due::Skip);
        assert_eq!(keepalive.next_deadline(), Some(now + 120 * SECOND));
    }

    #[test]
    fn f035_two_misses_in_a_row_without_any_sign_of_life_end_the_connection() {
        let (mut keepalive, now) = started();
        keepalive.on_suspicion(now);
        let now = now + 10 * SECOND;
        assert_eq!(keepalive.on_miss(false, now), Verdict::Alive);
        assert_eq!(keepalive.next_deadline(), Some(now));
        assert_eq!(keepalive.on_due(now, 7), Due::Probe { by: now + 10 * SECOND }, "also when busy");
        assert_eq!(keepalive.on_miss(false, now), Verdict::Dead { misses: 2 });

        let (mut keepalive, now) = started();
        for _ in 0..10 {
            assert_eq!(keepalive.on_miss(false, now), Verdict::Alive);
            assert_eq!(keepalive.on_miss(true, now), Verdict::Alive, "bytes arrived");
        }
    }

    #[test]
    fn f035_a_miss_that_comes_at_once_is_confirmed_only_when_the_time_of_its_probe_is_over() {
        let (mut keepalive, now) = started();
        let by = now + 10 * SECOND;
        assert_eq!(keepalive.on_suspicion(now), Due::Probe { by });
        assert_eq!(keepalive.on_miss(false, now), Verdict::Alive);
        assert_eq!(keepalive.next_deadline(), Some(by));
        assert_eq!(keepalive.on_suspicion(now + SECOND), Due::Skip, "another call has timed out meanwhile");
        assert_eq!(keepalive.next_deadline(), Some(by));
        assert_eq!(keepalive.on_due(by, 7), Due::Probe { by: by + 10 * SECOND });
        assert_eq!(keepalive.on_miss(false, by), Verdict::Dead { misses: 2 });
    }

    #[test]
    fn f155_limits_without_end_are_no_panic() {
        let now = Instant::now();
        let options = KeepaliveOptions::default()
            .with_interval(Some(Duration::MAX))
            .with_reply_limit(Duration::MAX)
            .with_misses(u32::MAX);
        let mut keepalive = Keepalive::new(options, now);
        assert_eq!(keepalive.next_deadline(), None, "it is never due");
        let Due::Probe { by } = keepalive.on_suspicion(now) else { panic!("it is asked") };
        assert!(by > now + 900_000_000 * SECOND, "decades");
        assert_eq!(keepalive.on_miss(false, now), Verdict::Alive);
        assert_eq!(keepalive.next_deadline(), Some(by));
        assert!(matches!(keepalive.on_resumed(now), Due::Probe { .. }));
        keepalive.on_answer(now);
        assert_eq!(keepalive.on_suspicion(now + 1_000_000 * SECOND), Due::Skip, "it has just answered");
    }

    #[test]
    fn without_an_interval_only_suspicion_probes() {
        let now = Instant::now();
        let mut keepalive = Keepalive::new(KeepaliveOptions::default().with_interval(None), now);
        assert_eq!(keepalive.next_deadline(), None);
        assert_eq!(keepalive.on_suspicion(now), Due::Probe { by: now + 10 * SECOND });
        keepalive.on_answer(now);
        assert_eq!(keepalive.next_deadline(), None);
        assert_eq!(keepalive.on_suspicion(now + 9 * SECOND), Due::Skip, "it has just answered");
        assert_eq!(keepalive.on_suspicion(now + 10 * SECOND), Due::Probe { by: now + 20 * SECOND });
    }
}
