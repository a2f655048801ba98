use std::time::Duration;

use tokio::time::Instant;

use crate::stop_plan::later;

/// When a list is fetched anew because its server says that it has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshOptions {
    /// How long changes are gathered before the list is fetched. Default 100 ms.
    pub gather: Duration,
    /// From the end of one fetch to the beginning of the next, if the list changes again at once; doubles
    /// as long as it goes on like that. Default 1 s.
    pub spacing: Duration,
    /// The longest spacing. Default 30 s.
    pub cap: Duration,
}

impl Default for RefreshOptions {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(100),
            spacing: Duration::from_secs(1),
            cap: Duration::from_secs(30),
        }
    }
}

impl RefreshOptions {
    /// Sets how long changes are gathered.
    #[must_use]
    pub fn with_gather(mut self, gather: Duration) -> Self {
        self.gather = gather;
        self
    }

    /// Sets the shortest spacing.
    #[must_use]
    pub fn with_spacing(mut self, spacing: Duration) -> Self {
        self.spacing = spacing;
        self
    }

    /// Sets the longest spacing.
    #[must_use]
    pub fn with_cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }
}

/// Decides when one list of one connection is fetched anew. Pure.
///
/// One fetch at a time; what changes meanwhile is brought by one more. A fetch that fails is followed
/// by another, as if the list had changed again.
///
/// ```text
///           change           time is up              end, nothing new
///   Quiet ─────────▶ Due ────────────────▶ Fetching ──────────────────▶ Quiet
///                     ▲                       │  ▲
///                     └── end: changed, or ───┘  └─ change: noted
///                         failed: spaced
/// ```
#[derive(Debug)]
pub(crate) struct Refresh {
    options: RefreshOptions,
    phase: Phase,
    ended: Option<Instant>,
    /// What the next fetch keeps from the end of the last, if nothing was quiet in between.
    spacing: Duration,
    is_stormy: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Due(Instant),
    Fetching { has_changed: bool },
    Quiet,
}

/// What an event has made of the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fair,
    /// The list changes without end: from here on it is fetched as rarely as may be. Told once for each
    /// storm.
    Storm,
}

impl Refresh {
    pub(crate) fn new(options: RefreshOptions) -> Self {
        Self { spacing: options.spacing, options, phase: Phase::Quiet, ended: None, is_stormy: false }
    }

    /// When [`on_begin`](Self::on_begin) is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Due(at) => Some(at),
            Phase::Fetching { .. } | Phase::Quiet => None,
        }
    }

    /// The server says that the list has changed, or may have.
    pub(crate) fn on_change(&mut self, now: Instant) -> Weather {
        match &mut self.phase {
            // That fetch will bring this change as well.
            Phase::Due(_) => Weather::Fair,
            Phase::Fetching { has_changed } => {
                *has_changed = true;
                Weather::Fair
            }
            Phase::Quiet => match self.ended {
                Some(ended) if now < later(ended, self.spacing) => self.again(ended),
                _ => {
                    self.spacing = self.options.spacing;
                    self.is_stormy = false;
                    self.phase = Phase::Due(later(now, self.options.gather));
                    Weather::Fair
                }
            },
        }
    }

    /// The fetch begins.
    pub(crate) fn on_begin(&mut self) {
        self.phase = Phase::Fetching { has_changed: false };
    }

    /// The fetch has ended.
    pub(crate) fn on_end(&mut self, has_failed: bool, now: Instant) -> Weather {
        let has_changed = matches!(self.phase, Phase::Fetching { has_changed: true });
        self.phase = Phase::Quiet;
        self.ended = Some(now);
        if has_changed || has_failed { self.again(now) } else { Weather::Fair }
    }

    fn again(&mut self, ended: Instant) -> Weather {
        self.phase = Phase::Due(later(ended, self.spacing));
        let before = self.is_stormy;
        self.is_stormy = self.spacing >= self.options.cap;
        self.spacing = self.spacing.saturating_mul(2).min(self.options.cap.max(self.options.spacing));
        if self.is_stormy && !before { Weather::Storm } else { Weather::Fair }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MOMENT: Duration = Duration::from_millis(100);

    fn begun(refresh: &mut Refresh, now: Instant) -> Instant {
        refresh.on_change(now);
        let due = refresh.next_deadline().unwrap();
        refresh.on_begin();
        due
    }

    #[test]
    fn changes_that_come_together_are_fetched_together() {
        let now = Instant::now();
        let mut refresh = Refresh::new(RefreshOptions::default());
        assert_eq!(refresh.next_deadline(), None);
        for late in 0..100 {
            refresh.on_change(now + late * Duration::from_millis(1));
        }
        assert_eq!(refresh.next_deadline(), Some(now + MOMENT), "the last change does not put it off");
        refresh.on_begin();
        assert_eq!(refresh.next_deadline(), None, "one at a time");
        assert_eq!(refresh.on_end(false, now + MOMENT), Weather::Fair);
        assert_eq!(refresh.next_deadline(), None);
    }

    #[test]
    fn i38_a_burst_during_a_fetch_leads_to_one_more() {
        let now = Instant::now();
        let mut refresh = Refresh::new(RefreshOptions::default());
        begun(&mut refresh, now);
        for _ in 0..200 {
            refresh.on_change(now + SECOND);
        }
        assert_eq!(refresh.next_deadline(), None);
        refresh.on_end(false, now + 5 * SECOND);
        assert_eq!(refresh.next_deadline(), Some(now + 6 * SECOND), "spaced from the end of the first");
        refresh.on_begin();
        refresh.on_end(false, now + 6 * SECOND);
        assert_eq!(refresh.next_deadline(), None);
    }

    #[test]
    fn f111_a_list_that_changes_with_every_fetch_is_fetched_ever_more_rarely_and_told_once() {
        let mut now = Instant::now();
        let mut refresh = Refresh::new(RefreshOptions::default());
        begun(&mut refresh, now);
        let mut gaps = Vec::new();
        let mut storms = 0;
        for _ in 0..20 {
            refresh.on_change(now);
            storms += usize::from(refresh.on_end(false, now) == Weather::Storm);
            let due = refresh.next_deadline().unwrap();
            gaps.push((due - now).as_secs());
            now = due;
            refresh.on_begin();
        }
        assert_eq!(gaps[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!((gaps.last(), storms), (Some(&30), 1));
        // A change that comes late enough is a new one.
        refresh.on_end(false, now);
        now += 30 * SECOND;
        assert_eq!(begun(&mut refresh, now), now + MOMENT);
        refresh.on_change(now);
        refresh.on_end(false, now);
        assert_eq!(refresh.next_deadline(), Some(now + SECOND));
    }

    #[test]
    fn a_change_soon_after_the_end_is_spaced_as_well() {
        let now = Instant::now();
        let mut refresh = Refresh::new(RefreshOptions::default());
        begun(&mut refresh, now);
        refresh.on_end(false, now);
        refresh.on_change(now + MOMENT);
        assert_eq!(refresh.next_deadline(), Some(now + SECOND));
        refresh.on_begin();
        refresh.on_end(false, now + SECOND);
        refresh.on_change(now + 3 * SECOND);
        assert_eq!(refresh.next_deadline(), Some(now + 3 * SECOND + MOMENT), "2 s later it is quiet");
    }

    #[test]
    fn a_fetch_that_fails_is_followed_by_another() {
        let now = Instant::now();
        let mut refresh = Refresh::new(RefreshOptions::default());
        begun(&mut refresh, now);
        refresh.on_end(true, now + SECOND);
        assert_eq!(refresh.next_deadline(), Some(now + 2 * SECOND));
    }
}
