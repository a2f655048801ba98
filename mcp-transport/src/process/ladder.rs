use std::time::Duration;

use tokio::time::Instant;

use crate::error::Ending;

/// How long each rung of the stop ladder lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Graces {
    /// From the closing of standard input to SIGTERM; 2 s.
    pub stdin_close: Duration,
    /// From SIGTERM to SIGKILL; 2 s.
    pub terminate: Duration,
    /// From SIGKILL to giving up waiting; 500 ms.
    pub kill: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            stdin_close: Duration::from_secs(2),
            terminate: Duration::from_secs(2),
            kill: Duration::from_millis(500),
        }
    }
}

impl Graces {
    /// Sets the time from the closing of standard input to SIGTERM.
    #[must_use]
    pub fn with_stdin_close(mut self, grace: Duration) -> Self {
        self.stdin_close = grace;
        self
    }

    /// Sets the time from SIGTERM to SIGKILL.
    #[must_use]
    pub fn with_terminate(mut self, grace: Duration) -> Self {
        self.terminate = grace;
        self
    }

    /// Sets the time from SIGKILL to giving up waiting.
    #[must_use]
    pub fn with_kill(mut self, grace: Duration) -> Self {
        self.kill = grace;
        self
    }

    /// The longest a stop can take.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.stdin_close.saturating_add(self.terminate).saturating_add(self.kill)
    }
}

/// The stop ladder of one process. Decides; sends nothing and knows no clock.
///
/// ```text
///            begin             stdin_close            terminate             kill
/// Running ──────────▶ Closing ────────────▶ Terminating ──────────▶ Killing ──────▶ Abandoned
///    │                   │                       │                     │ ▲              │
///    │  on_exit          │ on_exit               │ on_exit      on_exit│ │kill(), from  │ on_exit
///    ▼                   ▼                       ▼                     ▼ │any rung left ▼
///  Clean               Clean                Terminated              Killed            Killed
/// ```
///
/// The rungs are one schedule, fixed when the stop begins. A second `begin` can only bring the rungs
/// that are still ahead forward. If `by` comes before the graces are over, all of them shrink in
/// proportion, so that SIGKILL is still sent in time.
#[derive(Debug)]
pub(super) struct Ladder {
    rung: Rung,
    schedule: Option<Schedule>,
}

/// What to do to the process now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Tell whoever waits that it could not be seen to end.
    Abandon,
    /// SIGKILL to the group.
    Kill,
    /// SIGTERM to the group, then SIGCONT, so that a stopped process can act on it.
    Terminate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rung {
    Running,
    Closing,
    Terminating,
    Killing,
    Abandoned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schedule {
    terminate_at: Instant,
    kill_at: Instant,
    abandon_at: Instant,
}

impl Ladder {
    pub(super) fn new() -> Self {
        Self { rung: Rung::Running, schedule: None }
    }

    /// Starts the schedule, at the moment at which standard input was closed.
    pub(super) fn begin(&mut self, now: Instant, graces: Graces, by: Instant) {
        let next = Schedule::new(now, graces, by);
        self.schedule = Some(match self.schedule {
            Some(current) => current.earliest(next),
            None => next,
        });
        self.rung = self.rung.max(Rung::Closing);
    }

    /// Notes that SIGKILL is being sent without waiting for any rung.
    pub(super) fn kill(&mut self, now: Instant) {
        let abandon_at = later(now, Graces::default().kill);
        let schedule = Schedule { terminate_at: now, kill_at: now, abandon_at };
        self.schedule = Some(self.schedule.map_or(schedule, |current| current.earliest(schedule)));
        self.rung = self.rung.max(Rung::Killing);
    }

    /// Climbs one rung if its time has come; to be called until it has nothing more.
    pub(super) fn on_tick(&mut self, now: Instant) -> Option<Step> {
        if self.next_deadline()? > now {
            return None;
        }
        let schedule = self.schedule?;
        let (rung, step) = match self.rung {
            // Late by a whole rung: no point in asking first.
            Rung::Closing | Rung::Terminating if schedule.kill_at <= now => (Rung::Killing, Step::Kill),
            Rung::Closing => (Rung::Terminating, Step::Terminate),
            Rung::Killing => (Rung::Abandoned, Step::Abandon),
            Rung::Running | Rung::Terminating | Rung::Abandoned => return None,
        };
        self.rung = rung;
        Some(step)
    }

    /// When the next rung is due; `None` while nothing is to be stopped, or nothing is left to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let schedule = self.schedule?;
        match self.rung {
            Rung::Running | Rung::Abandoned => None,
            Rung::Closing => Some(schedule.terminate_at.min(schedule.kill_at)),
            Rung::Terminating => Some(schedule.kill_at),
            Rung::Killing => Some(schedule.abandon_at),
        }
    }

    /// What it took, now that the process has ended.
    pub(super) fn on_exit(&self) -> Ending {
        match self.rung {
            Rung::Running | Rung::Closing => Ending::Clean,
            Rung::Terminating => Ending::Terminated,
            Rung::Killing | Rung::Abandoned => Ending::Killed,
        }
    }

    /// Whether somebody has asked for the end.
    pub(super) fn is_stopping(&self) -> bool {
        self.rung != Rung::Running
    }
}

impl Schedule {
    fn new(now: Instant, graces: Graces, by: Instant) -> Self {
        let total = graces.total();
        let available = by.saturating_duration_since(now);
        let share = |grace: Duration| match total.is_zero() || available >= total {
            true => grace,
            false => grace.mul_f64(available.as_secs_f64() / total.as_secs_f64()),
        };
        let terminate_at = later(now, share(graces.stdin_close));
        let kill_at = later(terminate_at, share(graces.terminate));
        Self { terminate_at, kill_at, abandon_at: later(kill_at, share(graces.kill)) }
    }

    fn earliest(self, other: Self) -> Self {
        Self {
            terminate_at: self.terminate_at.min(other.terminate_at),
            kill_at: self.kill_at.min(other.kill_at),
            abandon_at: self.abandon_at.min(other.abandon_at),
        }
    }
}

/// Adds without overflow: a grace of centuries is a grace of thirty years.
fn later(from: Instant, by: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    from.checked_add(by.min(LONGEST)).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn stopping(by: u64) -> (Ladder, Instant) {
        let now = Instant::now();
        let mut ladder = Ladder::new();
        ladder.begin(now, Graces::default(), now + ms(by));
        (ladder, now)
    }

    /// Lets time pass to each deadline and writes down what happens when.
    fn climb(ladder: &mut Ladder, start: Instant) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        while let Some(now) = ladder.next_deadline() {
            let at = u64::try_from((now - start).as_millis()).unwrap();
            steps.push((at, ladder.on_tick(now).expect("a deadline brings a step")));
        }
        steps
    }

    #[test]
    fn one_schedule_from_the_closing_of_stdin_to_the_end() {
        let (mut ladder, start) = stopping(60_000);
        assert_eq!(
            climb(&mut ladder, start),
            [(2000, Step::Terminate), (4000, Step::Kill), (4500, Step::Abandon)]
        );
        assert_eq!(ladder.on_exit(), Ending::Killed);
    }

    #[test]
    fn the_ending_names_the_strongest_means() {
        let (mut ladder, start) = stopping(60_000);
        assert_eq!(Ladder::new().on_exit(), Ending::Clean);
        assert_eq!(ladder.on_exit(), Ending::Clean);
        assert_eq!(ladder.on_tick(start + ms(1999)), None);
        assert_eq!(ladder.on_exit(), Ending::Clean);
        assert_eq!(ladder.on_tick(start + ms(2000)), Some(Step::Terminate));
        assert_eq!(ladder.on_tick(start + ms(2000)), None);
        assert_eq!(ladder.on_exit(), Ending::Terminated);
        assert_eq!(ladder.on_tick(start + ms(4000)), Some(Step::Kill));
        assert_eq!(ladder.on_exit(), Ending::Killed);
    }

    #[test]
    fn a_nearer_end_shrinks_every_rung() {
        let (mut ladder, start) = stopping(450);
        assert_eq!(
            climb(&mut ladder, start),
            [(200, Step::Terminate), (400, Step::Kill), (450, Step::Abandon)]
        );
        let (mut ladder, start) = stopping(0);
        assert_eq!(climb(&mut ladder, start), [(0, Step::Kill), (0, Step::Abandon)]);
    }

    #[test]
    fn a_second_stop_brings_forward_and_never_delays() {
        let (mut ladder, start) = stopping(60_000);
        ladder.begin(start + ms(1000), Graces::default(), start + ms(60_000));
        assert_eq!(ladder.next_deadline(), Some(start + ms(2000)));
        ladder.begin(start + ms(1000), Graces::default(), start + ms(1450));
        assert_eq!(
            climb(&mut ladder, start),
            [(1200, Step::Terminate), (1400, Step::Kill), (1450, Step::Abandon)]
        );
    }

    #[test]
    fn a_ladder_that_is_looked_at_late_kills_at_once() {
        let (mut ladder, start) = stopping(60_000);
        assert_eq!(ladder.on_tick(start + ms(9000)), Some(Step::Kill));
        assert_eq!(ladder.on_tick(start + ms(9000)), Some(Step::Abandon));
        assert_eq!(ladder.on_tick(start + ms(9000)), None);
    }

    #[test]
    fn a_kill_skips_what_is_left() {
        let (mut ladder, start) = stopping(60_000);
        ladder.kill(start);
        assert_eq!(ladder.on_exit(), Ending::Killed);
        assert_eq!(climb(&mut ladder, start), [(500, Step::Abandon)]);
        let mut running = Ladder::new();
        running.kill(start);
        assert!(running.is_stopping());
    }

    #[test]
    fn graces_without_end_do_not_overflow() {
        let now = Instant::now();
        let graces = Graces::default().with_stdin_close(Duration::MAX).with_terminate(Duration::MAX);
        let mut ladder = Ladder::new();
        ladder.begin(now, graces, now + ms(1000));
        assert_eq!(ladder.next_deadline().map(|at| at <= now + ms(1000)), Some(true));
    }
}
