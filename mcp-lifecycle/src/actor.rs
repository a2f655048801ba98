use std::sync::Arc;
use std::time::Duration;

use mcp_session::Session;
use mcp_transport::{AuthFailure, AuthFailureKind, CloseReport, Connector, Ending};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::account::Account;
use crate::connection::{Link, Turn, prepare};
use crate::errands::{Errand, Errands};
use crate::failure::Failure;
use crate::interruption::Interruption;
use crate::jitter::Jitter;
use crate::machine::{Action, Event, Loss, Machine};
use crate::orders::Wishes;
use crate::registry::NewServer;
use crate::report::{ServerReport, StopStep};
use crate::server::{Offer, Server, left};
use crate::state::State;
use crate::stop_plan::{StopPlan, later};
use crate::timer;
use crate::wire::{News, Wire};

/// The owner of one server: of its state, its connection and every task that belongs to it.
///
/// It feeds the [`Machine`] with what happens and does what that answers; it decides nothing.
#[derive(Debug)]
pub(crate) struct Actor {
    server: Arc<Server>,
    connector: Arc<dyn Connector>,
    predecessor: Option<Arc<Server>>,
    machine: Machine,
    /// The one connection that may exist.
    link: Option<Link>,
    /// Its task: one at a time.
    tasks: JoinSet<Option<CloseReport>>,
    /// What is done about credentials meanwhile.
    errands: Errands,
    last_error: Option<Arc<Failure>>,
    /// The connection on which nothing is told unasked, though it should be.
    degraded: Option<u64>,
    /// The calls of this connection are given their time.
    draining: Option<u64>,
    /// Boxed, as most of the time there is none.
    stopping: Option<Box<Stopping>>,
    is_finished: bool,
}

/// A stop in progress.
#[derive(Debug)]
struct Stopping {
    plan: StopPlan,
    report: ServerReport,
    is_aborted: bool,
    /// The present step has been given back a standstill of the runtime. Once for each step: a runtime
    /// that stands still again and again must come to an end as well.
    is_excused: bool,
}

/// One thing that the actor has to deal with.
enum Input {
    Drained(u64),
    Errand(Errand),
    Joined(Result<Option<CloseReport>, JoinError>),
    News(Box<News>),
    Time,
    Wishes(Wishes, u64),
}

impl Actor {
    pub(crate) fn new(new: NewServer) -> Self {
        let NewServer { server, connector, predecessor } = new;
        let jitter = Jitter::for_server(server.runtime.seed, &server.name);
        Self {
            machine: Machine::new(server.options.policy(server.runtime.options.drain), jitter),
            errands: Errands::new(server.authorizer.clone()),
            server,
            connector,
            predecessor,
            link: None,
            tasks: JoinSet::new(),
            last_error: None,
            degraded: None,
            draining: None,
            stopping: None,
            is_finished: false,
        }
    }

    /// Runs the server until it is stopped; returns when nothing of it is left.
    ///
    /// A server that takes the place of another one begins when nothing of that is left: there is never
    /// more than one connection to what a name stands for.
    pub(crate) async fn run(&mut self) {
        if let Some(predecessor) = self.predecessor.take() {
            predecessor.ended.wait().await;
            if self.server.is_over() {
                // Replaced or stopped before it has begun.
                self.server.ended.set(ServerReport::new(Arc::clone(&self.server.name)));
                return self.server.retire("it was never started");
            }
        }
        // Nobody of this name makes connections any more.
        self.machine.count_from(self.server.newest_generation());
        match self.server.options.begin() {
            Some(begin) => self.feed(Event::Enable(begin)),
            None => self.announce(),
        }
        while !self.is_finished {
            match self.next().await {
                Input::Drained(generation) => self.on_drained(generation),
                Input::Errand(errand) => self.on_errand(errand),
                Input::Joined(joined) => self.on_joined(joined),
                Input::News(news) => self.on_news(*news),
                Input::Time => self.on_time(),
                Input::Wishes(wishes, number) => {
                    self.on_wishes(wishes);
                    self.server.on_handled(number);
                }
            }
        }
        self.close_authorizer().await;
        self.conclude();
    }

    /// Waits for the next thing, in the order in which things matter: orders, what the connection
    /// tells (before its end), the end, and timers last, so that no limit beats what it limits.
    async fn next(&mut self) -> Input {
        let deadline = self.next_deadline();
        let (wire, session) = match &self.link {
            Some(link) => (Some(&*link.wire), link.session.as_ref()),
            None => (None, None),
        };
        // Tasks are given the time of the calls on a connection that is left, but hold up no stop.
        let tasks = session.filter(|_| self.stopping.is_none());
        tokio::select! {
            biased;
            (wishes, number) = self.server.orders.next() => Input::Wishes(wishes, number),
            news = next_news(wire) => Input::News(news),
            Some(joined) = self.tasks.join_next() => Input::Joined(joined),
            errand = self.errands.next() => Input::Errand(errand),
            generation = drained(&self.server, self.draining, tasks) => Input::Drained(generation),
            () = timer::until(deadline) => Input::Time,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let Some(stopping) = &self.stopping else { return self.machine.next_deadline() };
        Some(stopping.next_deadline(self.draining.is_some()))
    }

    fn on_wishes(&mut self, wishes: Wishes) {
        if wishes.stop {
            self.on_stop();
        }
        if let (Some(false), Some(link)) = (wishes.enabled, &self.link)
            && link.wire.closes_by().is_none()
        {
            self.server.switch_off(link.generation);
        }
        let begin = self.server.options.begin().unwrap_or(crate::machine::Begin::Now);
        let events = [
            wishes.enabled.map(|on| if on { Event::Enable(begin) } else { Event::Disable }),
            wishes.reconnect.map(Event::Reconnect),
            wishes.wake.then_some(Event::Wake),
            wishes.resumed.then_some(Event::Resumed),
            wishes.demand.then_some(Event::Demand),
            wishes.proven.map(Event::Proven),
        ];
        for event in events.into_iter().flatten() {
            self.feed(event);
        }
        if let Some((generation, is_degraded)) = wishes.degraded {
            self.on_degraded(generation, is_degraded);
        }
        if let Some((generation, failure)) = wishes.unauthorized {
            self.on_unauthorized(generation, failure);
        }
        if wishes.login && !self.is_ending() {
            self.errands.have_login(self.server.desk.is_wanted());
        }
        if let Some(link) = self.link.as_ref().filter(|link| Some(link.generation) == wishes.suspect) {
            link.wire.timed_out.notify_one();
        }
    }

    fn on_degraded(&mut self, generation: u64, is_degraded: bool) {
        let before = self.degraded;
        if is_degraded {
            self.degraded = Some(generation);
        } else if before == Some(generation) {
            self.degraded = None;
        }
        let is_current = self.machine.state() == (State::Ready { generation });
        if is_current && before != self.degraded {
            tracing::info!(server = %self.server.name, generation, is_degraded, "whether the server tells of changes has changed");
            self.announce();
        }
    }

    fn on_unauthorized(&mut self, generation: u64, failure: Option<AuthFailure>) {
        let is_config = failure.as_ref().is_some_and(|failure| failure.kind == AuthFailureKind::Config);
        if self.machine.state() == (State::Ready { generation }) {
            let why = failure.as_ref().map(|failure| failure.message.as_str());
            tracing::warn!(server = %self.server.name, generation, why, "a call was refused: the server wants credentials");
            let failure = failure.map_or(Failure::Unauthorized, Failure::Authorization);
            self.last_error = Some(Arc::new(failure));
        }
        self.feed(if is_config { Event::Misconfigured(generation) } else { Event::Unauthorized(generation) });
    }

    fn on_errand(&mut self, errand: Errand) {
        let is_renewed = !matches!(errand, Errand::Login(Err(_)));
        if is_renewed && !self.is_ending() {
            tracing::info!(server = %self.server.name, "there are new credentials");
            self.server.change_account(Account::on_renewed);
            self.feed(Event::Wake);
        }
        // Whoever waits for it looks at the state next.
        if let Errand::Login(result) = errand {
            self.server.on_login_over(result);
        }
    }

    fn on_stop(&mut self) {
        let limits = &self.server.runtime.options;
        let shutdown = self.server.runtime.plan.get().copied();
        match &mut self.stopping {
            Some(stopping) => stopping.plan = shutdown.map_or(stopping.plan, |plan| plan.min(stopping.plan)),
            None => {
                let plan =
                    shutdown.unwrap_or_else(|| StopPlan::new(Instant::now(), limits.drain, limits.total));
                let report = ServerReport::new(Arc::clone(&self.server.name));
                let stopping = Stopping { plan, report, is_aborted: false, is_excused: false };
                self.stopping = Some(Box::new(stopping));
                self.errands.drop_all();
                self.feed(Event::Stop);
            }
        }
        self.tell_end();
        // A connection that is being closed already has as much time as the plan leaves, no more.
        if let Some(link) = self.link.as_ref().filter(|link| link.wire.closes_by().is_some()) {
            link.wire.close(self.close_by());
        }
    }

    fn on_news(&mut self, news: News) {
        let Some(link) = &mut self.link else { return };
        let generation = link.generation;
        match news {
            News::Up(session, lists) => {
                let peer = session.shared_peer();
                let era = peer.era;
                self.server.count_session(&session);
                link.session = Some(session);
                // Made too late, it offers nothing: whatever ended it has been announced already.
                if link.wire.closes_by().is_none() {
                    self.server.set_offer(Some(Offer { generation, lists: Arc::new(lists), peer }));
                }
                self.feed(Event::Up(generation, era));
            }
            News::Lost(failure) => self.on_lost(generation, failure),
        }
    }

    fn on_lost(&mut self, generation: u64, failure: Failure) {
        let loss = failure.loss();
        let was_wanted = self.link.as_ref().is_some_and(|link| link.wire.closes_by().is_none());
        let failure = Arc::new(failure);
        if was_wanted {
            self.last_error = Some(Arc::clone(&failure));
        }
        // Where the connection was given up before, the reason for that stays.
        self.server.fate.seal(generation, Interruption::Lost(Arc::clone(&failure)));
        self.feed(Event::Lost(generation, loss));
        if was_wanted && !self.is_ending() {
            let next = self.machine.state();
            if loss == Loss::Expired && matches!(next, State::Connecting { .. }) {
                tracing::info!(server = %self.server.name, generation, "the server has forgotten the session; beginning another one");
                return;
            }
            let next_in_ms = next.until().map(|until| left(until).as_millis());
            tracing::warn!(server = %self.server.name, generation, error = %failure, next = next.name(), next_in_ms, "connection lost");
        }
    }

    /// The task of the connection has ended, and with it everything that belonged to it.
    fn on_joined(&mut self, joined: Result<Option<CloseReport>, JoinError>) {
        // It may have told something in the very moment before.
        while let Some(news) = self.link.as_ref().and_then(|link| link.wire.take_news()) {
            self.on_news(*news);
        }
        let Some(link) = self.link.take() else { return };
        let generation = link.generation;
        self.server.end_count();
        if self.draining == Some(generation) {
            self.draining = None;
        }
        match joined {
            Ok(closing) => self.on_closed(generation, closing),
            Err(error) if error.is_panic() => {
                tracing::error!(server = %self.server.name, generation, %error, "the task of a connection panicked");
                if let Some(stopping) = &mut self.stopping {
                    let what = format!("the task of connection {generation} panicked");
                    stopping.report.ending = Ending::Abandoned;
                    stopping.report.exceed(StopStep::Join, stopping.plan.began.elapsed(), what);
                }
                self.link = Some(link);
                self.on_lost(generation, Failure::Panicked);
                self.link = None;
            }
            // Aborted, which only a stop does.
            Err(_) => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.report.ending = Ending::Abandoned;
                }
            }
        }
        self.feed(Event::Gone(generation));
    }

    fn on_closed(&mut self, generation: u64, closing: Option<CloseReport>) {
        let Some(closing) = closing else { return };
        match &mut self.stopping {
            Some(stopping) => stopping.report.on_close(&closing),
            None if closing.ending >= Ending::Killed && !self.server.is_over() => {
                tracing::warn!(
                    server = %self.server.name,
                    generation,
                    ending = ?closing.ending,
                    elapsed_ms = closing.elapsed.as_millis(),
                    "a connection did not end by itself"
                );
            }
            None => {}
        }
    }

    fn on_drained(&mut self, generation: u64) {
        self.draining = None;
        if let Some(stopping) = &mut self.stopping {
            stopping.is_excused = false;
        }
        self.feed(Event::Drained(generation));
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        let running = self.server.gate.in_flight();
        let Some(stopping) = &mut self.stopping else { return self.feed(Event::Tick) };
        let due = stopping.next_deadline(self.draining.is_some());
        if now < due {
            return;
        }
        if !stopping.is_excused && stopping.plan.excuse(due, now) {
            stopping.is_excused = true;
            return self.tell_end();
        }
        let elapsed = now.saturating_duration_since(stopping.plan.began);
        if let Some(generation) = self.draining {
            stopping.report.calls_cancelled += running;
            stopping.report.exceed(StopStep::Drain, elapsed, format!("{running} running calls"));
            self.on_drained(generation);
        } else if !stopping.is_aborted {
            (stopping.is_aborted, stopping.is_excused) = (true, false);
            let generation = self.link.as_ref().map_or(0, |link| link.generation);
            stopping.report.tasks_aborted += self.tasks.len();
            stopping.report.exceed(StopStep::Join, elapsed, format!("the task of connection {generation}"));
            self.tasks.abort_all();
        } else {
            stopping.report.ending = Ending::Abandoned;
            let what = "an aborted task did not end".to_owned();
            stopping.report.exceed(StopStep::Join, elapsed, what);
            self.is_finished = true;
        }
    }

    /// Tells the machine what has happened and does what it answers.
    fn feed(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let before = self.machine.state();
            match self.machine.on(event, Instant::now()) {
                Ok(actions) => next = actions.into_iter().filter_map(|action| self.execute(action)).last(),
                Err(illegal) => {
                    tracing::error!(server = %self.server.name, error = %illegal, "a broken invariant")
                }
            }
            if self.machine.state() != before {
                self.errands.watch_credentials(self.machine.state() == State::NeedsAuth);
                self.announce();
            }
        }
    }

    /// Does what the machine wants. If that was a question, this is the answer.
    fn execute(&mut self, action: Action) -> Option<Event> {
        let link = |generation| self.link.as_ref().filter(|link: &&Link| link.generation == generation);
        match action {
            Action::Close(generation) => {
                // Closed although its calls have not ended: their time is over, or somebody has ordered it.
                if self.draining.take_if(|draining| *draining == generation).is_some() {
                    let running = self.server.gate.in_flight();
                    let session = link(generation).and_then(|link| link.session.as_ref());
                    let tasks = session.map_or(0, Session::wanted_tasks);
                    tracing::warn!(server = %self.server.name, generation, running, tasks, "a connection is closed under its running calls or tasks");
                }
                if let Some(link) = link(generation) {
                    link.wire.close(self.close_by());
                }
            }
            Action::Connect { generation, era, haste } => {
                let turn = Turn { haste, standing: self.machine.standing() };
                let (link, task) = prepare(&self.server, &self.connector, generation, era, turn);
                self.link = Some(link);
                // At the gravest level, so that it stands around whatever is logged below it.
                let span = tracing::error_span!("connection", server = %self.server.name, generation);
                self.tasks.spawn(async move { task.run().await }.instrument(span));
            }
            Action::Drain(generation) => self.draining = Some(generation),
            Action::Finish => self.is_finished = true,
            Action::Look(generation) => {
                let session = link(generation).and_then(|link| link.session.as_ref());
                let subscriptions = session.map_or(0, Session::subscriptions);
                let own = self.server.own_subscriptions(generation);
                let tasks = session.map_or(0, Session::wanted_tasks);
                let usage = self.server.usage(subscriptions.saturating_sub(own) + tasks);
                return Some(Event::Used(generation, usage));
            }
            Action::Publish(generation) => {
                if let Some(session) = link(generation).and_then(|link| link.session.clone()) {
                    self.server.fate.begin(generation);
                    self.server.gate.publish(generation, session);
                }
            }
            Action::Probe(generation) => {
                if let Some(link) = link(generation) {
                    link.wire.slept.notify_one();
                }
            }
            Action::Refuse => self.server.gate.close(),
            Action::Retract(generation) => {
                self.server.fate.seal(generation, self.why_retracted());
                self.server.gate.retract(generation);
            }
            Action::Strike(generation) => {
                self.server.account().on_loss();
                self.server.strike(generation);
            }
        }
        None
    }

    /// Why calls can take the present connection no more, as the state says in which that leaves the server.
    fn why_retracted(&self) -> Interruption {
        match self.machine.state() {
            State::Connecting { .. } | State::Ready { .. } => Interruption::Renewed,
            State::Disabled => Interruption::Disabled,
            State::Dormant { why } => Interruption::Rested(why),
            State::Draining | State::Stopped => self.server.interrupted_by_end(),
            // Noted before the machine was told.
            State::Backoff { .. } | State::NeedsAuth | State::Parked { .. } => {
                self.last_error.clone().map_or(Interruption::Renewed, Interruption::Lost)
            }
        }
    }

    fn announce(&self) {
        let state = self.machine.state();
        if let State::Parked { .. } | State::Disabled | State::Draining | State::NeedsAuth | State::Stopped =
            state
        {
            // Gone before it is announced: whoever sees the state does not see the tools.
            self.server.set_offer(None);
        }
        if state != State::Stopped {
            let attempt = state.attempt();
            tracing::info!(server = %self.server.name, state = state.name(), generation = self.machine.generation(), attempt, "state changed");
        }
        self.server.announce(|status| {
            status.state = state;
            status.generation = self.machine.generation();
            status.ever_ready = self.machine.ever_ready();
            status.degraded =
                matches!(state, State::Ready { generation } if self.degraded == Some(generation));
            status.last_error.clone_from(&self.last_error);
        });
    }

    /// Lets what must not be cut off come to its end, in the time that is left.
    async fn close_authorizer(&mut self) {
        let Some(stopping) = &mut self.stopping else { return };
        let (by, end_by) = (stopping.plan.abort_at, stopping.plan.end_by);
        let unfinished = self.errands.close(by, end_by).await;
        if unfinished > 0 {
            let what = format!("{unfinished} tasks of the authorization");
            stopping.report.exceed(StopStep::Finish, stopping.plan.began.elapsed(), what);
        }
    }

    /// Nothing is left: hands the report over.
    fn conclude(&mut self) {
        if let Some(stopping) = self.stopping.take() {
            let elapsed = stopping.plan.began.elapsed();
            tracing::info!(server = %self.server.name, ending = ?stopping.report.ending, elapsed_ms = elapsed.as_millis(), "server stopped");
            self.server.ended.set(stopping.report);
        }
        self.server.retire("it was never stopped");
    }

    /// Tells the root until when it has to wait: it must not overtake the steps that are left.
    fn tell_end(&self) {
        self.server.set_end(self.stopping.as_ref().map(|stopping| stopping.plan.end_by));
    }

    /// Whether losses are no news: the server is stopped, or its supervisor was dropped.
    fn is_ending(&self) -> bool {
        self.stopping.is_some() || self.server.is_over()
    }

    fn close_by(&self) -> Instant {
        let limit: Duration = self.server.options.close_limit;
        let by = later(Instant::now(), limit);
        self.stopping.as_ref().map_or(by, |stopping| stopping.plan.close_by)
    }
}

impl Stopping {
    fn next_deadline(&self, is_draining: bool) -> Instant {
        if is_draining {
            self.plan.drain_by
        } else if self.is_aborted {
            self.plan.end_by
        } else {
            self.plan.abort_at
        }
    }
}

async fn next_news(wire: Option<&Wire>) -> Box<News> {
    match wire {
        Some(wire) => wire.next_news().await,
        // Without a connection there is nothing to hear; its end is seen by joining it.
        None => std::future::pending().await,
    }
}

/// Waits until the calls of a connection have ended, and then its tasks, if they are given that time.
async fn drained(server: &Server, draining: Option<u64>, tasks: Option<&Session>) -> u64 {
    match draining {
        Some(generation) => {
            // Boxed, so that a server takes no room for it while it is used.
            Box::pin(server.gate.drained()).await;
            if let Some(session) = tasks {
                Box::pin(session.no_task_wanted()).await;
            }
            generation
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
