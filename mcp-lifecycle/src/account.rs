use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::BackoffOptions;
use crate::breaker::{Admission, Breaker, BreakerOptions, BreakerState};
use crate::budget::RetryBudget;
use crate::call_counters::{CallCounters, CallEnd};
use crate::jitter::Jitter;

/// What the calls of one server have taught about it. Behind one short lock; knows no clock.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) breaker: Breaker,
    budget: RetryBudget,
    jitter: Jitter,
    last_ok: Option<Instant>,
    proven: u64,
    losses: u64,
    /// The moves of the breaker that nobody has told of yet, in their order.
    pub(crate) untold: VecDeque<BreakerState>,
    pub(crate) calls: CallCounters,
}

impl Account {
    pub(crate) fn new(breaker: BreakerOptions, jitter: Jitter) -> Self {
        Self {
            breaker: Breaker::new(breaker),
            budget: RetryBudget::new(),
            jitter,
            last_ok: None,
            proven: 0,
            losses: 0,
            untold: VecDeque::new(),
            calls: CallCounters::default(),
        }
    }

    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        self.breaker.admit(now)
    }

    /// A call on `generation` has succeeded. Tells whether this is the first proof of its health.
    pub(crate) fn on_success(&mut self, generation: u64, now: Instant) -> bool {
        self.breaker.on_answer();
        self.budget.on_success();
        self.last_ok = Some(now);
        self.calls.count(CallEnd::Succeeded);
        let is_first = generation > self.proven;
        self.proven = self.proven.max(generation);
        is_first
    }

    /// The server answered, but not with a success.
    pub(crate) fn on_answer(&mut self) {
        self.breaker.on_answer();
    }

    /// There are new credentials: what broke before may have had to do with the old ones.
    pub(crate) fn on_renewed(&mut self) {
        self.breaker.on_answer();
    }

    /// A connection that was ready broke.
    pub(crate) fn on_loss(&mut self) {
        self.losses += 1;
    }

    /// How long to wait before attempt number `attempts + 1`, so that repeats of many calls do not come
    /// together.
    pub(crate) fn pause(&mut self, backoff: &BackoffOptions, attempts: u32) -> Duration {
        self.jitter.up_to(backoff.ceiling(attempts.saturating_sub(1)))
    }

    /// Whether one more repeat is affordable.
    pub(crate) fn may_repeat(&mut self) -> bool {
        self.budget.withdraw()
    }

    pub(crate) fn breaker_state(&self) -> BreakerState {
        self.breaker.state()
    }

    pub(crate) fn last_ok(&self) -> Option<Instant> {
        self.last_ok
    }

    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }
}
