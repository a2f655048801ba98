//! The life of one server, as a machine without I/O, tasks or a clock.
//!
//! ```text
//!               Enable                        Up                          Lost / Reconnect
//!   Disabled ───────────▶ Connecting{g} ──────────────▶ Ready{g} ────────────────┐
//!      ▲   └─ on demand ─▶ Dormant  ▲ │ ▲                                        │
//!      │                     │      │ │ └── Reconnect, exit of a proven process ─┤
//!      │ Disable             │Demand│ │ Lost                                     │
//!      │ (from any state     └──────┤ ▼                                          │
//!      │  but the last two)         │ what does the loss say? ◀──────────────────┘
//!      │                            │   ├─ transient ─▶ Backoff ── timer ──▶ Connecting{g+1}
//!      │                            │   ├─ permanent, or unproven too often ─▶ Parked ── timer ──▶ Connecting
//!      │                            │   ├─ authorization ─▶ NeedsAuth
//!      │                            │   └─ session expired, wrong era ─▶ Connecting{g+1} at once, no strike
//!      │                            └── Wake or Reconnect from Backoff, Parked, Dormant, NeedsAuth
//!      │
//!      └── every state ── Stop ─▶ Draining ── nothing of a connection left ─▶ Stopped
//!
//!   Ready{g} ── nobody has used it for so long, or it is old and nobody uses it ─▶ Dormant
//!   Ready{g} ── a call is refused for want of credentials ─▶ NeedsAuth, or for its configuration ─▶ Parked
//!   Ready{g} ── it is old and in use ─▶ Connecting{g+1}, once the calls on g have ended
//! ```
//!
//! At most one connection exists at a time: *Connecting* first waits until the one before is `Gone`.
//! A connection ends in two steps: `Lost` (no call can succeed any more, seen at once) and `Gone`
//! (its task, streams and child are no more). One that works is left before it is ended, in the last three
//! steps and by `Disable`: it takes no more calls, and those on it may end, within a limit that `Wake`
//! shortens and `Reconnect` ends. Whatever is not drawn is [`Illegal`].

mod action;
mod event;

use std::time::Duration;

use mcp_proto::Era;
use tokio::time::Instant;

use crate::backoff::{Backoff, BackoffOptions};
use crate::jitter::Jitter;
use crate::park_probes::{ParkProbes, Prospect};
use crate::recess::{Recess, RecessOptions, Verdict};
use crate::state::{DormantReason, ParkReason, State};
use crate::stop_plan::later;

pub(crate) use action::{Action, Haste, Standing};
pub(crate) use event::{Begin, Event, Loss, Usage};

/// An event that the machine has no transition for: a defect of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} is not possible in {state:?}")]
pub(crate) struct Illegal {
    event: Event,
    state: State,
}

/// The limits a machine goes by.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) backoff: BackoffOptions,
    pub(crate) park_after: u32,
    pub(crate) park_probe: Duration,
    pub(crate) stable_for: Duration,
    /// How long the calls on a connection that is left may go on.
    pub(crate) leave: Duration,
    /// The same if somebody waits for that.
    pub(crate) hurried: Duration,
    pub(crate) recess: RecessOptions,
}

/// A connection that is being made, ready, or being wound down.
#[derive(Debug, Clone, Copy)]
struct Existing {
    generation: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It broke, or its end was ordered: only `Gone` is still to come.
    Ending,
    /// Its calls may end, by then, and no more come.
    Leaving { by: Instant },
    /// It is being made, or stands.
    Live,
}

#[derive(Debug)]
pub(crate) struct Machine {
    policy: Policy,
    state: State,
    /// The newest connection that was asked for.
    generation: u64,
    /// The one connection that exists.
    existing: Option<Existing>,
    /// Whether the connection that waits for its predecessor's end follows a loss.
    haste: Haste,
    /// Attempts in a row that ended without proof of health.
    unproven: u32,
    /// Whether the present connection has proved healthy.
    proven: bool,
    /// When the present connection counts as stable.
    stable_at: Option<Instant>,
    /// The connection that was ready last.
    last_up: u64,
    /// Whether an expired session has been begun anew since the server last proved healthy.
    renewed: bool,
    /// When the present connection is ended because nobody needs it, or because it is old.
    recess: Recess,
    ever_ready: bool,
    /// What the server was found to speak, so that it is not asked again.
    era: Option<Era>,
    /// Whether this attempt is a repeat because the wrong era was assumed.
    corrected: bool,
    backoff: Backoff,
    park_probes: ParkProbes,
    jitter: Jitter,
}

impl Machine {
    /// A machine in the state `Disabled`.
    pub(crate) fn new(policy: Policy, jitter: Jitter) -> Self {
        Self {
            backoff: Backoff::new(policy.backoff.clone()),
            park_probes: ParkProbes::new(policy.park_probe),
            recess: Recess::new(policy.recess.clone()),
            policy,
            state: State::Disabled,
            generation: 0,
            existing: None,
            haste: Haste::AtOnce,
            unproven: 0,
            proven: false,
            stable_at: None,
            last_up: 0,
            renewed: false,
            ever_ready: false,
            era: None,
            corrected: false,
            jitter,
        }
    }

    /// Numbers connections from here on, before the first one.
    pub(crate) fn count_from(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Takes an event at `now` and tells what to do about it.
    pub(crate) fn on(&mut self, event: Event, now: Instant) -> Result<Vec<Action>, Illegal> {
        let mut actions = Vec::new();
        match event {
            Event::Demand => self.on_demand(&mut actions),
            Event::Disable => self.on_disable(now, &mut actions),
            Event::Drained(generation) => self.on_drained(generation, &mut actions),
            Event::Enable(begin) => self.on_enable(begin, &mut actions),
            Event::Gone(generation) if self.exists(generation) => {
                self.on_gone(generation, now, &mut actions);
            }
            Event::Lost(generation, loss) if self.exists(generation) => {
                self.on_lost(generation, loss, now, &mut actions);
            }
            Event::Misconfigured(generation) => self.on_misconfigured(generation, now, &mut actions),
            Event::Proven(generation) => self.on_proven(generation),
            Event::Reconnect(unwanted) => self.on_reconnect(unwanted, now, &mut actions),
            Event::Resumed => self.on_resumed(&mut actions),
            Event::Stop => self.on_stop(&mut actions),
            Event::Tick => self.on_tick(now, &mut actions),
            Event::Up(generation, era) if self.exists(generation) && !self.is_up(generation) => {
                self.on_up(generation, era, now, &mut actions);
            }
            Event::Unauthorized(generation) => self.on_unauthorized(generation, now, &mut actions),
            Event::Used(generation, usage) => self.on_used(generation, usage, now, &mut actions),
            Event::Wake => self.on_wake(now, &mut actions),
            Event::Gone(_) | Event::Lost(..) | Event::Up(..) => {
                return Err(Illegal { event, state: self.state });
            }
        }
        Ok(actions)
    }

    /// When [`Event::Tick`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.state {
            State::Backoff { until, .. } => Some(until),
            State::Parked { next_probe, .. } => self.leaving().into_iter().chain([next_probe]).min(),
            State::Ready { .. } => self.stable_at.into_iter().chain(self.recess.next_deadline()).min(),
            // Whoever stops it has limits of their own.
            State::Draining | State::Stopped => None,
            State::Connecting { .. } | State::Disabled | State::Dormant { .. } | State::NeedsAuth => {
                self.leaving()
            }
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The newest connection that was asked for; 0 before the first.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// What is known of the server, for the connection that is made now.
    pub(crate) fn standing(&self) -> Standing {
        let is_expected = self.haste == Haste::AtOnce || self.unproven == 0;
        if self.ever_ready && is_expected { Standing::Well } else { Standing::Unknown }
    }

    /// Whether the server was ever ready.
    pub(crate) fn ever_ready(&self) -> bool {
        self.ever_ready
    }

    fn on_demand(&mut self, actions: &mut Vec<Action>) {
        if let State::Dormant { .. } = self.state {
            self.connect(Haste::AtOnce, actions);
        }
    }

    fn on_disable(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.state {
            State::Disabled | State::Draining | State::Stopped => return,
            State::Ready { .. } => self.leave_present(self.policy.hurried, now, actions),
            _ if self.leaving().is_some() => self.hurry(now),
            _ => self.end_present(actions),
        }
        self.state = State::Disabled;
    }

    fn on_drained(&mut self, generation: u64, actions: &mut Vec<Action>) {
        // The connection may have ended by itself meanwhile: then there is nothing left to close.
        match self.phase_of(generation) {
            Some(Phase::Live) if self.state == State::Draining => {
                actions.push(Action::Retract(generation));
                self.close(generation, actions);
            }
            Some(Phase::Leaving { .. }) => self.close(generation, actions),
            _ => {}
        }
    }

    fn on_enable(&mut self, begin: Begin, actions: &mut Vec<Action>) {
        match (self.state, begin) {
            (State::Disabled, Begin::Now) => self.connect(Haste::AtOnce, actions),
            (State::Disabled, Begin::OnDemand) => {
                self.state = State::Dormant { why: DormantReason::NotNeededYet };
            }
            _ => {}
        }
    }

    fn on_gone(&mut self, generation: u64, now: Instant, actions: &mut Vec<Action>) {
        // If its end was never announced, that is a loss like any other.
        self.on_lost(generation, Loss::Transient, now, actions);
        self.existing = None;
        match self.state {
            State::Connecting { generation, .. } => self.open(generation, actions),
            State::Draining => self.finish(actions),
            _ => {}
        }
    }

    fn on_lost(&mut self, generation: u64, loss: Loss, now: Instant, actions: &mut Vec<Action>) {
        let phase = self.phase_of(generation);
        self.existing = Some(Existing { generation, phase: Phase::Ending });
        if phase != Some(Phase::Live) {
            return; // It is being wound down already.
        }
        let was_ready = self.state.is_ready();
        if was_ready || self.state == State::Draining {
            actions.push(Action::Retract(generation));
        }
        if self.state == State::Draining {
            return;
        }
        if was_ready && !matches!(loss, Loss::Auth | Loss::Expired) {
            actions.push(Action::Strike(generation));
        }
        if self.era_was_wrong(loss, was_ready) {
            self.connect(Haste::AtOnce, actions);
            self.corrected = true;
            return;
        }
        if self.session_has_expired(loss, was_ready) {
            self.connect(Haste::AtOnce, actions);
            return;
        }
        // The era was a guess, from a connection that broke while it was asked for: that may have been chance.
        let was_misjudged = self.corrected && loss == Loss::Refused && self.era.take().is_some();
        if !was_ready && self.era == Some(Era::Modern) {
            // A modern server may have been replaced by an older one that does not answer: ask again.
            self.era = None;
        }
        if loss == Loss::Auth {
            self.state = State::NeedsAuth;
            return;
        }
        let proven = was_ready && self.proven;
        if !proven {
            self.unproven = self.unproven.saturating_add(1);
        }
        let at_once = loss == Loss::Exited && proven && self.backoff.failures() == 0;
        let delay = self.backoff.on_failure(&mut self.jitter);
        let delay = if let Loss::Later(least) = loss { delay.max(least) } else { delay };
        let is_hopeless = match loss {
            Loss::Permanent => true,
            Loss::Refused => !was_misjudged,
            // A server that was ready speaks MCP: something else has come between its messages.
            Loss::NotMcp => !self.ever_ready,
            _ => false,
        };
        if is_hopeless {
            self.park(ParkReason::Permanent, Prospect::Unknown, now);
        } else if self.unproven >= self.policy.park_after {
            let may_return = self.ever_ready && loss == Loss::Unreachable;
            let prospect = if may_return { Prospect::Returning } else { Prospect::Unknown };
            self.park(ParkReason::Unproven { attempts: self.unproven }, prospect, now);
        } else if at_once {
            self.connect(Haste::Paced, actions);
        } else {
            self.state = State::Backoff { attempt: self.attempt(), until: later(now, delay) };
        }
    }

    /// A connection may be lost in the moment in which its first call succeeds: that was health as well. An
    /// attempt that has its number already keeps it.
    fn on_proven(&mut self, generation: u64) {
        if generation == self.last_up {
            self.prove();
        }
    }

    fn prove(&mut self) {
        self.proven = true;
        self.renewed = false;
        self.unproven = 0;
        self.park_probes.on_proven();
    }

    fn on_reconnect(&mut self, unwanted: u64, now: Instant, actions: &mut Vec<Action>) {
        if unwanted != self.generation {
            return; // Somebody else was faster.
        }
        match self.state {
            // Not begun yet: it still waits for its predecessor's end, which need not take its time.
            State::Connecting { generation, .. } if !self.exists(generation) => self.end_present(actions),
            State::Connecting { .. } | State::Ready { .. } => {
                self.end_present(actions);
                self.connect(Haste::AtOnce, actions);
            }
            State::Disabled | State::Draining | State::Stopped => {}
            State::Backoff { .. } | State::Dormant { .. } | State::NeedsAuth | State::Parked { .. } => {
                self.end_present(actions);
                self.on_wake(now, actions);
            }
        }
    }

    /// Whatever stands between this machine and its servers may be gone, or back: a connection is probed, and
    /// who waits tries, each in its turn. What cannot start does not start any better.
    fn on_resumed(&mut self, actions: &mut Vec<Action>) {
        match self.state {
            State::Ready { generation } => actions.push(Action::Probe(generation)),
            State::Backoff { .. } | State::Parked { why: ParkReason::Unproven { .. }, .. } => {
                self.connect(Haste::Paced, actions);
            }
            _ => {}
        }
    }

    fn on_stop(&mut self, actions: &mut Vec<Action>) {
        match self.state {
            State::Draining | State::Stopped => return,
            State::Ready { generation } => actions.extend([Action::Refuse, Action::Drain(generation)]),
            // Its calls have their time already.
            _ if self.leaving().is_some() => actions.push(Action::Refuse),
            _ => {
                actions.push(Action::Refuse);
                self.end_present(actions);
            }
        }
        self.state = State::Draining;
        if self.existing.is_none() {
            self.finish(actions);
        }
    }

    fn on_tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            State::Backoff { .. } => self.connect(Haste::Paced, actions),
            State::Parked { next_probe, .. } => {
                if self.leaving().is_some_and(|by| now >= by) {
                    self.end_present(actions);
                }
                if now >= next_probe {
                    self.connect(Haste::Paced, actions);
                }
            }
            State::Ready { .. } => self.on_tick_while_ready(now, actions),
            // The time of the calls on a connection that is left is over.
            _ => self.end_present(actions),
        }
    }

    fn on_tick_while_ready(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.stable_at.is_some_and(|stable_at| now >= stable_at) {
            self.stable_at = None;
            self.prove();
            self.backoff.on_stable();
        }
        if self.recess.is_due(now) {
            actions.push(Action::Look(self.generation));
        }
    }

    /// Other calls on the connection may end: the server has let them in.
    fn on_unauthorized(&mut self, generation: u64, now: Instant, actions: &mut Vec<Action>) {
        if self.state == (State::Ready { generation }) {
            self.leave_present(self.policy.leave, now, actions);
            self.state = State::NeedsAuth;
        }
    }

    /// As [`on_unauthorized`](Self::on_unauthorized), but nobody who logs in can help.
    fn on_misconfigured(&mut self, generation: u64, now: Instant, actions: &mut Vec<Action>) {
        if self.state == (State::Ready { generation }) {
            self.leave_present(self.policy.leave, now, actions);
            self.park(ParkReason::Permanent, Prospect::Unknown, now);
        }
    }

    fn on_used(&mut self, generation: u64, usage: Usage, now: Instant, actions: &mut Vec<Action>) {
        if self.state != (State::Ready { generation }) {
            return;
        }
        match self.recess.on_look(usage, now) {
            Verdict::Keep => {}
            Verdict::Rest(why) => {
                // A call may have begun since the look.
                self.leave_present(self.policy.leave, now, actions);
                self.state = State::Dormant { why };
            }
            Verdict::Replace => {
                self.leave_present(self.policy.leave, now, actions);
                self.connect(Haste::Paced, actions);
            }
        }
    }

    fn on_up(&mut self, generation: u64, era: Era, now: Instant, actions: &mut Vec<Action>) {
        if self.phase_of(generation) != Some(Phase::Live) {
            return; // Made too late: its end has been ordered already.
        }
        self.state = State::Ready { generation };
        self.last_up = generation;
        self.ever_ready = true;
        self.era = Some(era);
        self.proven = false;
        self.stable_at = Some(later(now, self.policy.stable_for));
        self.recess.on_up(now);
        actions.push(Action::Publish(generation));
    }

    fn on_wake(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.state {
            State::Backoff { .. } | State::Dormant { .. } | State::NeedsAuth | State::Parked { .. } => {
                self.connect(Haste::AtOnce, actions);
                self.hurry(now);
            }
            State::Connecting { .. } => self.hurry(now),
            State::Disabled | State::Draining | State::Ready { .. } | State::Stopped => {}
        }
    }

    /// Moves to the next generation, which is opened as soon as the one before is gone.
    fn connect(&mut self, haste: Haste, actions: &mut Vec<Action>) {
        self.generation += 1;
        self.haste = haste;
        self.corrected = false;
        self.state = State::Connecting { generation: self.generation, attempt: self.attempt() };
        if self.existing.is_none() {
            self.open(self.generation, actions);
        }
    }

    fn open(&mut self, generation: u64, actions: &mut Vec<Action>) {
        self.existing = Some(Existing { generation, phase: Phase::Live });
        actions.push(Action::Connect { generation, era: self.era, haste: self.haste });
    }

    /// Orders the end of the present connection, unless it is ending already.
    fn end_present(&mut self, actions: &mut Vec<Action>) {
        if let Some(Existing { generation, phase: Phase::Live | Phase::Leaving { .. } }) = self.existing {
            if self.state.is_ready() {
                actions.push(Action::Retract(generation));
            }
            self.close(generation, actions);
        }
    }

    /// Lets no more calls onto the present connection, and ends it when those on it have ended, or when
    /// their time is over.
    fn leave_present(&mut self, limit: Duration, now: Instant, actions: &mut Vec<Action>) {
        let Some(existing) = &mut self.existing else { return };
        existing.phase = Phase::Leaving { by: later(now, limit) };
        actions.extend([Action::Retract(existing.generation), Action::Drain(existing.generation)]);
    }

    /// Somebody waits until the connection that is left has ended.
    fn hurry(&mut self, now: Instant) {
        if let Some(Existing { phase: Phase::Leaving { by }, .. }) = &mut self.existing {
            *by = later(now, self.policy.hurried).min(*by);
        }
    }

    fn close(&mut self, generation: u64, actions: &mut Vec<Action>) {
        self.existing = Some(Existing { generation, phase: Phase::Ending });
        actions.push(Action::Close(generation));
    }

    fn park(&mut self, why: ParkReason, prospect: Prospect, now: Instant) {
        if !self.ever_ready {
            // What a server that never came up seemed to speak was a guess.
            self.era = None;
        }
        let after = self.park_probes.on_park(prospect, &mut self.jitter);
        self.state = State::Parked { why, next_probe: later(now, after) };
    }

    fn finish(&mut self, actions: &mut Vec<Action>) {
        self.state = State::Stopped;
        actions.push(Action::Finish);
    }

    /// Whether the loss says only that the wrong era was assumed; what is known of it is corrected.
    ///
    /// Once for each attempt: a server that wants neither era is a failing server.
    fn era_was_wrong(&mut self, loss: Loss, was_ready: bool) -> bool {
        if was_ready || self.corrected {
            return false;
        }
        match (loss, self.era) {
            (Loss::ProbeKilled, None) => self.era = Some(Era::Legacy),
            (Loss::Refused | Loss::Rejected, Some(_)) => self.era = None,
            _ => return false,
        }
        true
    }

    /// Whether the loss says only that the server has forgotten the session: a new one is begun.
    ///
    /// Once between two proofs of health: a server that lets nothing but handshakes succeed is a failing
    /// server.
    fn session_has_expired(&mut self, loss: Loss, was_ready: bool) -> bool {
        loss == Loss::Expired && was_ready && !std::mem::replace(&mut self.renewed, true)
    }

    fn exists(&self, generation: u64) -> bool {
        self.existing.is_some_and(|existing| existing.generation == generation)
    }

    /// How far the connection is, if it exists.
    fn phase_of(&self, generation: u64) -> Option<Phase> {
        self.existing.filter(|existing| existing.generation == generation).map(|existing| existing.phase)
    }

    /// Until when the calls on a connection that is left may go on, if there is one.
    fn leaving(&self) -> Option<Instant> {
        match self.existing {
            Some(Existing { phase: Phase::Leaving { by }, .. }) => Some(by),
            _ => None,
        }
    }

    fn is_up(&self, generation: u64) -> bool {
        self.state == (State::Ready { generation })
    }

    fn attempt(&self) -> u32 {
        self.unproven.saturating_add(1)
    }
}

#[cfg(test)]
mod tests;
