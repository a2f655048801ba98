use std::time::Duration;

use tokio::time::Instant;

use crate::machine::Usage;
use crate::state::DormantReason;

/// When a server is let go although it is well. Meant for programs that are started for the client: they
/// cost memory while nobody needs them, and some of them grow with time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecessOptions {
    /// How long nobody may have used the server before it is stopped; the next call starts it again.
    /// Default `None`: it stays.
    ///
    /// It is used while a call runs or waits, while a subscription is open, and while somebody holds the
    /// [handle](mcp_session::TaskHandle) of a task that is not known to be over. What keepalive asks, and
    /// what the server asks or tells by itself, is no use. When a subscription or a task has ended, that is
    /// seen up to `idle` later, and the limit begins then.
    pub idle: Option<Duration>,
    /// How long one connection may last. Then it takes no more calls: if nobody uses it, the server is
    /// stopped as above. Otherwise running calls and tasks end within
    /// [`leave_limit`](crate::ServerOptions::leave_limit), new ones wait, and the next connection follows.
    /// Default `None`: as long as it works.
    pub age: Option<Duration>,
}

impl RecessOptions {
    /// Sets how long nobody may have used the server.
    #[must_use]
    pub fn with_idle(mut self, limit: Option<Duration>) -> Self {
        self.idle = limit;
        self
    }

    /// Sets how long one connection may last.
    #[must_use]
    pub fn with_age(mut self, limit: Option<Duration>) -> Self {
        self.age = limit;
        self
    }

    /// Whether there is any such limit.
    pub(crate) fn is_off(&self) -> bool {
        self.idle.is_none() && self.age.is_none()
    }
}

/// Decides when a connection that works is ended, because nobody uses it or because it is old.
///
/// Nobody tells it of each use. When a limit may have passed, it looks: [`is_due`](Self::is_due), then
/// [`on_look`](Self::on_look) with what was seen.
#[derive(Debug)]
pub(crate) struct Recess {
    options: RecessOptions,
    /// When nobody can have used it for the whole limit.
    idle_at: Option<Instant>,
    old_at: Option<Instant>,
    /// Nobody has used it since then, as far as is known.
    free_since: Option<Instant>,
}

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// It takes no more calls; another one follows when those that run have ended.
    Replace,
    /// It ends, and nothing follows until somebody needs it.
    Rest(DormantReason),
}

impl Recess {
    pub(crate) fn new(options: RecessOptions) -> Self {
        Self { options, idle_at: None, old_at: None, free_since: None }
    }

    /// A connection is up.
    pub(crate) fn on_up(&mut self, now: Instant) {
        self.old_at = self.options.age.and_then(|age| now.checked_add(age));
        self.used_until(now);
    }

    /// When [`is_due`](Self::is_due) becomes true.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.idle_at.into_iter().chain(self.old_at).min()
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_deadline().is_some_and(|deadline| now >= deadline)
    }

    /// This is what the look has seen.
    pub(crate) fn on_look(&mut self, usage: Usage, now: Instant) -> Verdict {
        let is_old = self.old_at.is_some_and(|old_at| now >= old_at);
        match usage {
            Usage::Free { .. } if is_old => return Verdict::Rest(DormantReason::Age),
            Usage::Awaited | Usage::Busy if is_old => return Verdict::Replace,
            Usage::Awaited | Usage::Busy => self.used_until(now),
            Usage::Free { since } => {
                let since = since.max(self.free_since).unwrap_or(now);
                self.used_until(since);
                if self.idle_at.is_some_and(|idle_at| now >= idle_at) {
                    return Verdict::Rest(DormantReason::Idle);
                }
            }
        }
        Verdict::Keep
    }

    fn used_until(&mut self, at: Instant) {
        self.free_since = Some(at);
        self.idle_at = self.options.idle.and_then(|idle| at.checked_add(idle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A connection that has just come up.
    fn up(idle: Option<Duration>, age: Option<Duration>) -> (Recess, Instant) {
        let now = Instant::now();
        let mut recess = Recess::new(RecessOptions::default().with_idle(idle).with_age(age));
        recess.on_up(now);
        (recess, now)
    }

    #[test]
    fn without_limits_nobody_ever_looks() {
        let (recess, now) = up(None, None);
        assert_eq!(recess.next_deadline(), None);
        assert!(!recess.is_due(now + 10_000 * MINUTE));
    }

    #[test]
    fn a_server_that_nobody_uses_rests_when_the_limit_has_passed_since_its_last_call() {
        let (mut recess, now) = up(Some(10 * MINUTE), None);
        assert!(!recess.is_due(now + 9 * MINUTE) && recess.is_due(now + 10 * MINUTE));
        let since = Some(now + 4 * MINUTE);
        assert_eq!(recess.on_look(Usage::Free { since }, now + 10 * MINUTE), Verdict::Keep);
        assert_eq!(recess.next_deadline(), Some(now + 14 * MINUTE));
        let verdict = recess.on_look(Usage::Free { since }, now + 14 * MINUTE);
        assert_eq!(verdict, Verdict::Rest(DormantReason::Idle));
    }

    #[test]
    fn a_running_call_and_an_open_subscription_keep_it_awake() {
        let (mut recess, mut now) = up(Some(10 * MINUTE), None);
        for usage in [Usage::Busy, Usage::Awaited, Usage::Busy, Usage::Awaited] {
            now = recess.next_deadline().unwrap();
            assert_eq!(recess.on_look(usage, now), Verdict::Keep);
            assert_eq!(recess.next_deadline(), Some(now + 10 * MINUTE));
        }
        now += 10 * MINUTE;
        let verdict = recess.on_look(Usage::Free { since: None }, now);
        assert_eq!(verdict, Verdict::Rest(DormantReason::Idle));
    }

    #[test]
    fn an_old_server_is_replaced_if_it_is_used_and_rests_if_not() {
        for (usage, verdict) in [
            (Usage::Busy, Verdict::Replace),
            (Usage::Awaited, Verdict::Replace),
            (Usage::Free { since: None }, Verdict::Rest(DormantReason::Age)),
        ] {
            let (mut recess, now) = up(None, Some(MINUTE));
            assert!(!recess.is_due(now + MINUTE / 2) && recess.is_due(now + MINUTE));
            assert_eq!(recess.on_look(usage, now + MINUTE), verdict);
        }
    }

    #[test]
    fn i22_no_look_leaves_a_deadline_in_the_past() {
        let (mut recess, now) = up(Some(MINUTE), Some(100 * MINUTE));
        for minutes in 1..100 {
            let now = now + minutes * MINUTE;
            for usage in [Usage::Busy, Usage::Awaited, Usage::Free { since: Some(now - MINUTE / 2) }] {
                assert_eq!(recess.on_look(usage, now), Verdict::Keep);
                assert!(recess.next_deadline().unwrap() > now);
            }
        }
    }
}
