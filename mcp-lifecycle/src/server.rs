use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::PeerInfo;
use mcp_session::{CallOutcome, Counters, Gate, HandlerQuota, ListKind, Session};
use mcp_transport::Rejection;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::account::Account;
use crate::authorizer::{Authorizer, LoginFailed, Needs};
use crate::bell::Bell;
use crate::breaker::BreakerState;
use crate::call_counters::{CallCounters, CallEnd};
use crate::error::CallError;
use crate::event::ServerEvent;
use crate::failure::Failure;
use crate::interruption::{Interruption, NewestFate};
use crate::jitter::Jitter;
use crate::latch::Latch;
use crate::lists::{Lists, Part};
use crate::login_desk::LoginDesk;
use crate::machine::{Begin, Usage};
use crate::meter;
use crate::options::ServerOptions;
use crate::orders::Orders;
use crate::report::ServerReport;
use crate::runtime::Runtime;
use crate::state::{DormantReason, EndReason, State};
use crate::status::ServerStatus;
use crate::stop_plan::later;
use crate::succession::Succession;
use crate::timer;
use crate::tool_refresh::ToolRefresh;
use crate::uses::{Use, Uses};

/// What a server's owner, its connection and its callers have in common. It owns nothing that lives:
/// the [`Actor`](crate::actor::Actor) does.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: Arc<str>,
    /// Its place among the servers of its supervisor, in the order in which they were added.
    pub(crate) place: u64,
    pub(crate) options: ServerOptions,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) orders: Orders,
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
    pub(crate) desk: LoginDesk,
    pub(crate) gate: Arc<Gate>,
    pub(crate) status: watch::Sender<Arc<ServerStatus>>,
    /// Rung when the status has changed, orders were carried out, or everything is over.
    moved: Bell,
    /// How often the status has changed.
    moves: AtomicU64,
    /// The number of the last order that was carried out.
    handled: AtomicU64,
    /// How it came to its end.
    pub(crate) ended: Latch<ServerReport>,
    pub(crate) fate: NewestFate,
    pub(crate) tool_refresh: ToolRefresh,
    /// The connection on which its owner has itself told of changed lists; 0: none.
    listening: AtomicU64,
    /// What its connections, one after the other, have had served.
    pub(crate) handler_quota: HandlerQuota,
    /// Counted only if it is let go when nobody uses it.
    uses: Option<Uses>,
    account: Mutex<Account>,
    /// Held while the moves of the breaker are told.
    telling: Mutex<()>,
    offer: Mutex<Option<Offer>>,
    received: Mutex<Received>,
    /// Until when its owner may take to stop it, once it has begun to.
    end_by: Mutex<Option<Instant>>,
    /// Calls that wait for it to be ready, or for their turn.
    waiting: AtomicUsize,
    /// The newest connection that was given up because the server was switched off; 0: none.
    switched_off: AtomicU64,
    is_removed: AtomicBool,
    succession: Succession,
}

/// What a server has said about itself when it became ready.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// The connection that told it.
    pub(crate) generation: u64,
    pub(crate) lists: Arc<Lists>,
    pub(crate) peer: Arc<PeerInfo>,
}

/// What was received on all connections.
#[derive(Debug, Default)]
struct Received {
    past: Counters,
    present: Option<Session>,
}

impl Received {
    fn total(&self) -> Counters {
        let mut total = self.past;
        if let Some(session) = &self.present {
            total += session.counters();
        }
        total
    }
}

impl Server {
    pub(crate) fn new(
        name: String,
        options: ServerOptions,
        authorizer: Option<Arc<dyn Authorizer>>,
        place: u64,
        runtime: Arc<Runtime>,
        succession: Succession,
    ) -> Self {
        let name: Arc<str> = name.into();
        let account = Account::new(options.breaker.clone(), Jitter::for_server(runtime.seed, &name));
        let uses = (!options.recess.is_off()).then(Uses::default);
        // What its owner will make of it first, so that nobody sees a state that never was.
        let state = match options.begin() {
            Some(Begin::Now) => State::Connecting { generation: succession.generation() + 1, attempt: 1 },
            Some(Begin::OnDemand) => State::Dormant { why: DormantReason::NotNeededYet },
            None => State::Disabled,
        };
        let status = ServerStatus {
            name: Arc::clone(&name),
            state,
            generation: succession.generation(),
            end: None,
            degraded: false,
            in_flight: 0,
            waiting: 0,
            breaker: account.breaker_state(),
            ever_ready: false,
            losses: 0,
            last_error: None,
            last_ok: None,
            calls: CallCounters::default(),
            received: Counters::default(),
        };
        Self {
            // Who may wait there is decided before: it is a matter of the whole way of a call.
            gate: Gate::new(options.in_flight, usize::MAX),
            handler_quota: HandlerQuota::new(options.session.handler_limits),
            name,
            place,
            options,
            runtime,
            orders: Orders::default(),
            authorizer,
            desk: LoginDesk::default(),
            status: watch::Sender::new(Arc::new(status)),
            moved: Bell::default(),
            moves: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            ended: Latch::new(),
            fate: NewestFate::default(),
            tool_refresh: ToolRefresh::default(),
            listening: AtomicU64::new(0),
            uses,
            account: Mutex::new(account),
            telling: Mutex::default(),
            offer: Mutex::default(),
            received: Mutex::default(),
            end_by: Mutex::default(),
            waiting: AtomicUsize::new(0),
            switched_off: AtomicU64::new(0),
            is_removed: AtomicBool::new(false),
            succession,
        }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the account; if that moves the breaker, tells of it.
    pub(crate) fn change_account<T>(&self, change: impl FnOnce(&mut Account) -> T) -> T {
        let mut account = self.account();
        let before = account.breaker_state();
        let result = change(&mut account);
        let after = account.breaker_state();
        if before != after {
            account.untold.push_back(after);
            drop(account);
            self.tell_of_breaker();
        }
        result
    }

    /// Tells of each move of the breaker once, in their order, also if several threads move it at once.
    fn tell_of_breaker(&self) {
        let _turn = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || self.account().untold.pop_front();
        while let Some(breaker) = next() {
            let status = self.publish(|status| status.breaker = breaker);
            if breaker == BreakerState::Closed {
                tracing::info!(server = %self.name, "calls are let through again");
            }
            self.runtime.emit(ServerEvent::BreakerChanged { status });
        }
    }

    /// Counts a call that has ended without a result.
    pub(crate) fn count(&self, end: CallEnd) {
        self.account().calls.count(end);
        meter::call_ended(&self.name, end.name());
    }

    /// Counts that a request is sent once more.
    pub(crate) fn count_repeat(&self) {
        self.account().calls.repeated += 1;
        meter::call_repeated(&self.name);
    }

    /// Counts what this session receives from now on.
    pub(crate) fn count_session(&self, session: &Session) {
        self.lock_received().present = Some(session.clone());
    }

    /// The session that was counted last has ended.
    pub(crate) fn end_count(&self) {
        let mut received = self.lock_received();
        if let Some(session) = received.present.take() {
            received.past += session.counters();
        }
    }

    /// The connection of `generation` broke: one strike, whoever sees it first, the owner or a call that
    /// ended with it. Whoever opens the breaker says so.
    pub(crate) fn strike(&self, generation: u64) {
        let has_opened = self.change_account(|account| account.breaker.on_strike(generation, Instant::now()));
        if has_opened {
            tracing::warn!(server = %self.name, generation, "calls are refused: the connection keeps breaking");
        }
    }

    /// The server failed to serve a request that was begun after `strikes` strikes, on a connection that
    /// stays.
    pub(crate) fn on_failure(&self, strikes: u64) {
        let has_opened = self.change_account(|account| account.breaker.on_failure(strikes, Instant::now()));
        if has_opened {
            tracing::warn!(server = %self.name, "calls are refused: the server keeps failing");
        }
    }

    /// The server has refused a request on the connection of `generation`: tells its owner, if that concerns
    /// every request.
    pub(crate) fn on_refused(&self, generation: u64, rejection: &Rejection) {
        if matches!(Needs::of(rejection), Some(Needs::Config | Needs::Login)) {
            self.orders.give(|wishes| wishes.set_unauthorized(generation, rejection.auth.clone()));
        }
    }

    /// Waits for a login, unless one has ended since `ended` were counted; `None` if there will be none, as
    /// the server is switched off or stopped.
    pub(crate) async fn log_in(&self, ended: u64) -> Option<Result<(), LoginFailed>> {
        let Some(_waiting) = self.desk.wait(ended, &self.orders) else { return self.desk.end_since(ended) };
        let is_off = |state| matches!(state, State::Disabled | State::Draining | State::Stopped);
        let look = || {
            let end = self.desk.end_since(ended);
            (end.is_some() || self.is_over() || is_off(self.state())).then_some(end)
        };
        self.moved.until(look).await
    }

    /// A login has ended.
    pub(crate) fn on_login_over(&self, result: Result<(), LoginFailed>) {
        self.desk.on_end(result);
        self.moved.ring();
    }

    /// Counts a call, from here until the answer is dropped.
    pub(crate) fn begin_use(&self) -> Option<Use<'_>> {
        self.uses.as_ref().map(Uses::begin)
    }

    /// A call has begun a subscription or a task, which outlasts it.
    pub(crate) fn begin_lasting(&self) {
        self.uses.iter().for_each(Uses::begin_lasting);
    }

    /// Whether anybody uses it, given how many subscriptions and tasks somebody waits for.
    pub(crate) fn usage(&self, awaited: usize) -> Usage {
        self.uses.as_ref().map_or(Usage::Busy, |uses| uses.look(awaited))
    }

    /// The owner itself is told of changed lists on this connection, until the guard is dropped.
    pub(crate) fn own_subscription(&self, generation: u64) -> OwnSubscription<'_> {
        self.listening.store(generation, Ordering::Release);
        OwnSubscription(self)
    }

    /// How many of the subscriptions on this connection are nobody's use of the server.
    pub(crate) fn own_subscriptions(&self, generation: u64) -> usize {
        usize::from(self.listening.load(Ordering::Acquire) == generation)
    }

    pub(crate) fn state(&self) -> State {
        self.status.borrow().state
    }

    pub(crate) fn last_error(&self) -> Option<Arc<Failure>> {
        self.status.borrow().last_error.clone()
    }

    pub(crate) fn offer(&self) -> Option<Offer> {
        self.lock_offer().clone()
    }

    pub(crate) fn set_offer(&self, offer: Option<Offer>) {
        *self.lock_offer() = offer;
    }

    /// Replaces a list that a connection has told of, if it is still the one that everything else comes
    /// from, and tells of it if that makes a difference.
    pub(crate) fn update_list(&self, generation: u64, kind: ListKind, part: Part) {
        let mut offer = self.lock_offer();
        let Some(offer) = offer.as_mut().filter(|offer| offer.generation == generation) else { return };
        let entries = part.len();
        let Some(lists) = offer.lists.with(part) else { return };
        offer.lists = Arc::new(lists);
        tracing::info!(server = %self.name, generation, list = kind.name(), entries, "a list has changed");
        // Under the lock, so that what is told comes in the order of what can be seen.
        self.runtime.emit(ServerEvent::ListUpdated { server: Arc::clone(&self.name), generation, kind });
    }

    /// Waits before a subscription that has ended is opened again: a random time, and then for its turn
    /// among all that are opened again, so that a server that restarts is not hit by everybody at once.
    pub(crate) async fn pause_before_subscribing(&self, failures: u32) {
        let pause = self.account().pause(&self.options.backoff, failures);
        timer::until(Some(later(Instant::now(), pause))).await;
        let turn = self.runtime.book_subscription(Instant::now());
        timer::until(Some(turn)).await;
    }

    pub(crate) fn end_by(&self) -> Option<Instant> {
        *self.end_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_end(&self, by: Option<Instant>) {
        *self.end_by.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }

    /// The status with the figures of this moment.
    pub(crate) fn status_now(&self) -> ServerStatus {
        let mut status = ServerStatus::clone(&self.status.borrow());
        self.fill_in(&mut status);
        status
    }

    /// Publishes that the state has moved, once for each move.
    ///
    /// *Stopped* is final, whoever was first: whoever retires a server may be faster than an owner that is
    /// still in the middle of a step.
    pub(crate) fn announce(&self, change: impl FnOnce(&mut ServerStatus)) {
        let mut is_over = false;
        let status = self.publish(|status| {
            is_over = status.state == State::Stopped;
            if !is_over {
                change(status);
                let ends = matches!(status.state, State::Draining | State::Stopped);
                status.end = ends.then(|| self.end_reason());
            }
        });
        if is_over {
            return;
        }
        self.succession.on_connection(status.generation);
        meter::moved(&self.name, status.state.name());
        self.moves.fetch_add(1, Ordering::Release);
        self.moved.ring();
        self.runtime.emit(ServerEvent::StateChanged { status });
    }

    /// Changes the status in one step, whoever else does so: its owner, or a call that moves the breaker.
    fn publish(&self, change: impl FnOnce(&mut ServerStatus)) -> Arc<ServerStatus> {
        let mut published = None;
        self.status.send_modify(|present| {
            let mut status = ServerStatus::clone(present);
            self.fill_in(&mut status);
            change(&mut status);
            *present = Arc::clone(published.insert(Arc::new(status)));
        });
        published.unwrap_or_else(|| Arc::clone(&self.status.borrow()))
    }

    /// Ends everything that callers can see, whoever owned the server. May be called again. If its owner has
    /// not reported how it ended, `why` says why not.
    pub(crate) fn retire(&self, why: &str) {
        self.gate.close();
        self.set_offer(None);
        self.end_count();
        self.fate.seal_any(self.interrupted_by_end());
        self.announce(|status| status.state = State::Stopped);
        if self.ended.get().is_none() {
            let elapsed = self.runtime.plan.get().map_or(Duration::ZERO, |plan| plan.began.elapsed());
            self.ended.set(ServerReport::abandoned(Arc::clone(&self.name), elapsed, why));
        }
        self.moved.ring();
    }

    pub(crate) fn mark_removed(&self) {
        self.is_removed.store(true, Ordering::Release);
        self.succession.end();
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// The succession of the server that will take the place of this one.
    pub(crate) fn next_succession(&self) -> Succession {
        self.succession.next()
    }

    /// Gives the name to another server: this one takes no more calls, and stops when those that run have
    /// ended or their time is over.
    pub(crate) fn give_way_to(&self, newest: &Arc<Self>) {
        self.succession.pass_to(newest);
        self.orders.give(|wishes| wishes.stop = true);
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.succession.is_replaced()
    }

    /// The newest connection of those that have had its name; 0 before the first.
    pub(crate) fn newest_generation(&self) -> u64 {
        self.succession.generation()
    }

    /// The server that has taken the place of this one.
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        self.succession.successor()
    }

    /// The server on which a call is made that ended here with `error`; the error itself if there is none.
    pub(crate) fn heir(&self, error: CallError) -> Result<Arc<Self>, CallError> {
        match error {
            CallError::Replaced { outcome: CallOutcome::NotSent, .. } => {
                self.successor().ok_or_else(|| self.over(CallOutcome::NotSent))
            }
            error => Err(error),
        }
    }

    /// Whether calls are refused for good.
    pub(crate) fn is_over(&self) -> bool {
        self.is_removed() || self.is_replaced() || self.runtime.is_closing()
    }

    /// Why it ends, if it does.
    fn end_reason(&self) -> EndReason {
        if self.is_replaced() {
            EndReason::Replaced
        } else if self.is_removed() {
            EndReason::Removed
        } else {
            EndReason::ShuttingDown
        }
    }

    /// Why a connection is given up, if that is because the server ends.
    pub(crate) fn interrupted_by_end(&self) -> Interruption {
        match self.end_reason() {
            EndReason::Replaced => Interruption::Replaced,
            EndReason::Removed | EndReason::ShuttingDown => Interruption::Ending,
        }
    }

    /// The error of a call that comes too late. One that was not sent ends like its name does, if nobody
    /// has that any more.
    pub(crate) fn over(&self, outcome: CallOutcome) -> CallError {
        let server = Arc::clone(&self.name);
        let has_heir = self.successor().is_some();
        if self.is_replaced() && (has_heir || outcome != CallOutcome::NotSent) {
            CallError::Replaced { server, outcome }
        } else if self.is_removed() || self.succession.has_ended() {
            CallError::Removed { server, outcome }
        } else {
            CallError::ShuttingDown { server, outcome }
        }
    }

    /// Waits, at most until `by`, for orders that were given and not yet carried out: a server that was
    /// woken or switched on a moment ago refuses no call for what it was before. `false` if there are
    /// none, or none that could help in this state.
    pub(crate) async fn catch_up(&self, state: State, by: Instant) -> bool {
        let given = self.orders.last();
        let is_handled = || self.handled.load(Ordering::Acquire) >= given;
        if matches!(state, State::Draining | State::Stopped) || is_handled() {
            return false;
        }
        // An owner that is gone carries nothing out.
        let is_carried_out = || (is_handled() || self.ended.get().is_some()).then_some(());
        timeout_at(by, self.moved.until(is_carried_out)).await.is_ok()
    }

    /// How often the status has changed so far. Read it before the status: then no change is missed by
    /// [`moved_since`](Self::moved_since).
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Waits until the status has changed more often than `seen`.
    pub(crate) async fn moved_since(&self, seen: u64) {
        self.moved.until(|| (self.moves() != seen).then_some(())).await;
    }

    /// Waits until the state is as wanted.
    pub(crate) async fn until_state(&self, is_wanted: impl Fn(State) -> bool) {
        self.moved.until(|| is_wanted(self.state()).then_some(())).await;
    }

    /// Every order up to the one with this number was carried out.
    pub(crate) fn on_handled(&self, number: u64) {
        self.handled.store(number, Ordering::Release);
        self.moved.ring();
    }

    /// Takes a place among the calls that wait: for the server to be ready, or for their turn.
    pub(crate) fn wait_in_line(&self, entry: Entry) -> Result<Place<'_>, CallError> {
        Place::take(&self.waiting, self.options.queued, entry)
            .ok_or_else(|| CallError::Overloaded { server: Arc::clone(&self.name) })
    }

    /// The server is switched off while this connection stands: whatever has not ended when that is closed,
    /// ends because of it.
    pub(crate) fn switch_off(&self, generation: u64) {
        self.switched_off.fetch_max(generation, Ordering::AcqRel);
    }

    /// Whether this connection was given up because the server was switched off.
    pub(crate) fn was_switched_off(&self, generation: u64) -> bool {
        self.switched_off.load(Ordering::Acquire) == generation
    }

    fn fill_in(&self, status: &mut ServerStatus) {
        status.in_flight = self.gate.in_flight();
        status.waiting = self.waiting.load(Ordering::Relaxed);
        let account = self.account();
        status.breaker = account.breaker_state();
        status.losses = account.losses();
        status.last_ok = account.last_ok();
        status.calls = account.calls;
        drop(account);
        status.received = self.lock_received().total();
    }

    fn lock_received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_offer(&self) -> MutexGuard<'_, Option<Offer>> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Server::own_subscription`].
#[derive(Debug)]
#[must_use = "dropping it says that there is none"]
pub(crate) struct OwnSubscription<'a>(&'a Server);

impl Drop for OwnSubscription<'_> {
    fn drop(&mut self) {
        self.0.listening.store(0, Ordering::Release);
    }
}

/// One place of a limited number; given back when dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the place back"]
pub(crate) struct Place<'a>(&'a AtomicUsize);

/// Whether a call that wants a place has been let in before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is refused if no place is free.
    First,
    /// It was let in, and has to begin anew: it takes a place beside those that there are.
    Again,
}

impl<'a> Place<'a> {
    pub(crate) fn take(taken: &'a AtomicUsize, limit: usize, entry: Entry) -> Option<Self> {
        let before = taken.fetch_add(1, Ordering::Relaxed);
        let place = Self(taken);
        (before < limit || entry == Entry::Again).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The delay of an instant from now, for texts.
pub(crate) fn left(until: Instant) -> std::time::Duration {
    until.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::BreakerOptions;
    use crate::options::SupervisorOptions;

    /// Threads that open the breaker, let a call try, and close it, all at once.
    #[test]
    fn p13_each_move_of_the_breaker_is_told_once_and_in_its_order() {
        let runtime = Arc::new(Runtime::new(SupervisorOptions::default().with_events(100_000)));
        let breaker = BreakerOptions::default().with_open_after(1).with_open_for(Duration::ZERO);
        let options = ServerOptions::default().with_breaker(breaker);
        let server =
            Server::new("one".to_owned(), options, None, 0, Arc::clone(&runtime), Succession::default());
        let mut events = runtime.events();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let begun = server.account().breaker.total();
                        server.on_failure(begun);
                        server.change_account(|account| account.admit(Instant::now()));
                        server.change_account(Account::on_answer);
                    }
                });
            }
        });
        let mut told = vec![BreakerState::Closed];
        while let Ok(event) = events.try_recv() {
            let ServerEvent::BreakerChanged { status } = event else { panic!("{event:?}") };
            told.push(status.breaker);
        }
        assert!(told.len() > 100, "{}", told.len());
        assert!(told.windows(2).all(|moves| moves[0] != moves[1]), "told twice");
        assert_eq!(
            (told.last(), server.status_now().breaker),
            (Some(&BreakerState::Closed), BreakerState::Closed)
        );
    }
}
