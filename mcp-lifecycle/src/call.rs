use std::sync::Arc;
use std::time::Duration;

use mcp_proto::{CallTool, CallToolResult, ListTools, Method, Paginated, Request, SubscriptionFilter, code};
use mcp_session::{
    CallOptions, CallOutcome, GateError, ListKind, ListLimits, Listed, LiveSession, StartedTask,
    SubscribeOptions, Subscription, Truncated, UnsupportedWhy,
};
use mcp_transport::{AuthFailureKind, CloseReason, Dispatch, Rejection};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};

use crate::account::Account;
use crate::authorizer::Needs;
use crate::breaker::Admission;
use crate::call_counters::CallEnd;
use crate::error::{CallError, WaitingFor};
use crate::interruption::Fate;
use crate::lists::Part;
use crate::meter;
use crate::orders::Wishes;
use crate::server::{Entry, Place, Server, left};
use crate::state::State;
use crate::stop_plan::later;
use crate::uses::Use;

/// Whether a request that may have run may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Never,
    Safe,
}

/// Most logins that one call waits for: one that joins another's may need one for itself.
const MAX_LOGINS: u32 = 2;

/// Whether a person may be asked because of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// If the server has an [`Authorizer`](crate::Authorizer) that may.
    IfAllowed,
    /// Nobody waits for it.
    Never,
}

/// What the soft limit of a call holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// An attempt with its wait for the server: a task may be at work for longer than any of them.
    EachAttempt,
    /// Everything, from the beginning of the call.
    Whole,
}

/// The server that a call is made on.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    server: Named<'a>,
    ask: Ask,
    entry: Entry,
    /// When the call was made.
    began: Instant,
}

/// A server that its handle keeps, or the one that has taken its place.
#[derive(Debug)]
enum Named<'a> {
    Own(&'a Server),
    Heir(Arc<Server>),
}

impl<'a> Target<'a> {
    /// This server, whoever has its name by now.
    pub(crate) fn new(server: &'a Server, ask: Ask) -> Self {
        Self { server: Named::Own(server), ask, entry: Entry::First, began: Instant::now() }
    }

    /// The server that has the name of this one.
    pub(crate) fn newest(server: &'a Server, ask: Ask) -> Self {
        let target = Self::new(server, ask);
        match server.successor() {
            Some(heir) => Self { server: Named::Heir(heir), ..target },
            None => target,
        }
    }

    fn server(&self) -> &Server {
        match &self.server {
            Named::Own(server) => server,
            Named::Heir(server) => server,
        }
    }

    /// Goes on to the server that has taken the place of this one, if that is what the `error` says and
    /// nothing was sent. What was let in here is let in there.
    pub(crate) fn go_on(&mut self, error: CallError) -> Result<(), CallError> {
        self.server = Named::Heir(self.server().heir(error)?);
        self.entry = Entry::Again;
        Ok(())
    }
}

/// Makes one call on the guarded path.
pub(crate) async fn call<R: Request>(
    target: &Target<'_>,
    request: &R,
    options: &CallOptions,
) -> Result<R::Result, CallError> {
    let mut path = Path::begin(target, R::METHOD, request.mirrored_name(), options)?;
    let span = path.span();
    path.walk(|live, options| live.call_ref(request, options)).instrument(span).await
}

/// Fetches a list on the guarded path, under one permit.
pub(crate) async fn list<R: Paginated>(
    target: &Target<'_>,
    options: &CallOptions,
    limits: ListLimits,
) -> Result<Listed<R::Item>, CallError> {
    let mut path = Path::begin(target, R::METHOD, None, options)?;
    let span = path.span();
    path.walk(|live, options| live.list::<R>(options, limits)).instrument(span).await
}

/// Opens a subscription on the connection that a call would take now, whose fate comes with it. The permit goes
/// with the way there.
pub(crate) async fn subscribe(
    target: &Target<'_>,
    filter: SubscriptionFilter,
    options: SubscribeOptions,
) -> Result<(Subscription, Option<Fate>), CallError> {
    let limits = CallOptions::default();
    let mut path = Path::begin(target, Method::SUBSCRIPTIONS_LISTEN, None, &limits)?;
    let span = path.span();
    path.walk(|live, _| {
        let session = live.session().clone();
        let fate = target.server().fate.of(live.generation());
        drop(live);
        let (filter, options) = (filter.clone(), options.clone());
        async move { Ok((session.subscribe(filter, options).await?, fate)) }
    })
    .instrument(span)
    .await
    .inspect(|_| target.server().begin_lasting())
}

/// Calls a tool and takes the task that the server makes of it.
pub(crate) async fn start_task(
    target: &Target<'_>,
    request: CallTool,
    options: &CallOptions,
) -> Result<StartedTask, CallError> {
    let mut path = Path::begin(target, Method::TOOLS_CALL, Some(&request.name), options)?;
    let span = path.span();
    path.walk(|live, options| live.start_task(request.clone(), options))
        .instrument(span)
        .await
        .inspect(|_| target.server().begin_lasting())
}

/// Follows a task on the connection that a call would take now, and on the next one if that goes. No
/// permit is held meanwhile.
pub(crate) async fn task_result(
    target: &Target<'_>,
    task_id: &str,
    options: &CallOptions,
) -> Result<CallToolResult, CallError> {
    let mut path = Path::begin(target, Method::TASKS_GET, None, options)?;
    path.set_clock(Clock::EachAttempt);
    let span = path.span();
    path.walk(|live, options| {
        let task = live.session().task(task_id);
        drop(live);
        async move { task.result(options).await }
    })
    .instrument(span)
    .await
}

/// The one way of a call to a server: *admit* → *ready* → *gate* → *send* → *recover* → *account*.
///
/// Whatever a call takes on its way is a field or a guard, so that every way out, and dropping the
/// future too, gives it back before the caller can see the end.
struct Path<'a> {
    server: &'a Server,
    method: Method,
    options: &'a CallOptions,
    started: Instant,
    clock: Clock,
    /// How long it may go without progress.
    soft: Duration,
    /// The request must have left by then.
    by: Instant,
    /// When the call ends in any case. If its caller has set no deadline, that stands still while a person is asked.
    hard: Instant,
    repeat: Repeat,
    /// How an earlier attempt ended that may have run, and on which connection: whatever becomes of the next,
    /// that stays true.
    unknown: Option<Box<(u64, mcp_session::CallError)>>,
    unfinished: Unfinished<'a>,
    /// Whether it was let in before, and is refused no more for want of a place.
    entry: Entry,
    /// Its place among those that wait, for as long as it does.
    waiting: Option<Place<'a>>,
    may_ask: bool,
    /// The logins of the server that had ended when this attempt was begun.
    logins: u64,
    /// How many logins the call has waited for.
    asked: u32,
    /// The strikes of the breaker when this attempt was begun.
    strikes: u64,
    passage: Passage<'a>,
    _place: Place<'a>,
    _use: Option<Use<'a>>,
}

/// What a call is let in with.
struct Admitted<'a> {
    place: Place<'a>,
    passage: Passage<'a>,
    strikes: u64,
}

impl<'a> Admitted<'a> {
    fn take(target: &'a Target<'_>) -> Result<Self, CallError> {
        let server = target.server();
        if server.is_over() {
            return Err(server.over(CallOutcome::NotSent));
        }
        let Some(place) = server.runtime.take_call(target.entry) else {
            return Err(CallError::Overloaded { server: Arc::clone(&server.name) });
        };
        let now = match target.entry {
            Entry::First => target.began,
            Entry::Again => Instant::now(),
        };
        let (passage, strikes) = Passage::through_breaker(server, now)?;
        Ok(Self { place, passage, strikes })
    }
}

/// How far a call has come with the breaker.
enum Passage<'a> {
    /// It decides once there may be a connection: where credentials are waited for, none can break.
    Ahead,
    /// It has let the call pass, as the one that decides or as any other.
    Passed { _probe: Option<Probe<'a>> },
}

impl<'a> Passage<'a> {
    /// Asks the breaker; with it come the strikes of that moment.
    fn through_breaker(server: &'a Server, now: Instant) -> Result<(Self, u64), CallError> {
        let (admission, strikes) =
            server.change_account(|account| (account.admit(now), account.breaker.total()));
        let probe = match admission {
            Admission::Pass => None,
            Admission::Probe(number) => Some(Probe { server, number }),
            Admission::Refused { retry_in } => match server.state() {
                State::NeedsAuth => return Ok((Self::Ahead, strikes)),
                state => {
                    // Why no call goes through matters more than that the last ones broke.
                    refuse_for_state(server, state)?;
                    return Err(CallError::CircuitOpen { server: Arc::clone(&server.name), retry_in });
                }
            },
        };
        Ok((Self::Passed { _probe: probe }, strikes))
    }

    fn is_ahead(&self) -> bool {
        matches!(self, Self::Ahead)
    }
}

/// The one call that decides whether the breaker closes; see [`Admission::Probe`].
struct Probe<'a> {
    server: &'a Server,
    number: u64,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.server.account().breaker.on_end_of_probe(self.number);
    }
}

/// A call that nobody has counted yet. One that is dropped like that was given up.
struct Unfinished<'a> {
    server: &'a Server,
    /// What everything that is logged on the way stands in.
    span: Span,
    has_ended: bool,
}

impl Unfinished<'_> {
    fn end(&mut self, error: CallError) -> CallError {
        self.has_ended = true;
        tracing::debug!(%error, outcome = ?error.outcome(), "call failed");
        count(self.server, &error);
        error
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.span.in_scope(|| tracing::debug!("call given up by its caller"));
            self.server.count(CallEnd::Cancelled);
        }
    }
}

impl<'a> Path<'a> {
    /// Admits the call: shutting down? too many calls? breaker?
    fn begin(
        target: &'a Target<'_>,
        method: Method,
        name: Option<&str>,
        options: &'a CallOptions,
    ) -> Result<Self, CallError> {
        let server = target.server();
        let Admitted { place, passage, strikes } =
            Admitted::take(target).inspect_err(|error| count(server, error))?;
        let started = options.began.unwrap_or(target.began);
        let limits = &server.options.session;
        let soft = options.timeout.unwrap_or_else(|| match options.deadline {
            Some(deadline) => deadline.saturating_duration_since(started),
            None => limits.call_limit,
        });
        let hard = options.deadline.unwrap_or_else(|| later(started, limits.hard_limit));
        let is_declared = name.is_some_and(|name| server.options.idempotent_tools.contains(name));
        let is_safe = method.is_idempotent() || (method == Method::TOOLS_CALL && is_declared);
        let span = tracing::debug_span!("call", server = %server.name, method = %method);
        let may_ask = || server.authorizer.as_ref().is_some_and(|authorizer| authorizer.may_ask());
        Ok(Self {
            server,
            method,
            options,
            started,
            clock: Clock::Whole,
            soft,
            by: later(started, soft).min(hard),
            hard,
            repeat: if is_safe { Repeat::Safe } else { Repeat::Never },
            unknown: None,
            unfinished: Unfinished { server, span, has_ended: false },
            entry: target.entry,
            waiting: None,
            may_ask: target.ask == Ask::IfAllowed && may_ask(),
            logins: server.desk.ended(),
            asked: 0,
            strikes,
            passage,
            _place: place,
            _use: server.begin_use(),
        })
    }

    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.begin_attempt();
    }

    /// The request is about to be sent once more.
    fn begin_repeat(&mut self) {
        self.begin_attempt();
        self.strikes = self.server.account().breaker.total();
        self.logins = self.server.desk.ended();
    }

    /// From here on the soft limit holds anew, if it holds for each attempt.
    fn begin_attempt(&mut self) {
        if self.clock == Clock::EachAttempt {
            self.started = Instant::now();
            self.by = later(self.started, self.soft).min(self.hard);
        }
    }

    fn span(&self) -> Span {
        self.unfinished.span.clone()
    }

    async fn walk<T, F, Sent>(&mut self, send: F) -> Result<T, CallError>
    where
        F: Fn(LiveSession, CallOptions) -> Sent,
        Sent: Future<Output = Result<T, mcp_session::CallError>>,
    {
        let mut attempts = 0;
        let mut gone = None;
        let mut has_refreshed = false;
        loop {
            let live = match self.enter(gone).await {
                Ok(live) => live,
                Err(refused) => {
                    let error = match self.unknown.take() {
                        Some(earlier) => self.explain(earlier.0, earlier.1),
                        None => refused,
                    };
                    return Err(self.unfinished.end(error));
                }
            };
            let (generation, has_headers) = (live.generation(), live.session().has_headers());
            attempts += 1;
            let definitions = self.server.tool_refresh.count();
            match send(live, self.options_for_now()).await {
                Ok(value) => {
                    self.on_success(generation);
                    tracing::debug!(
                        generation,
                        attempts,
                        elapsed_ms = self.started.elapsed().as_millis(),
                        "call answered"
                    );
                    return Ok(value);
                }
                Err(error) => {
                    self.on_error(generation, &error);
                    if has_headers && !has_refreshed && self.misses_headers(&error) {
                        has_refreshed = true;
                        if self.refresh_tools(definitions).await {
                            self.server.count_repeat();
                            continue;
                        }
                    }
                    if let mcp_session::CallError::Http(rejection) = &error {
                        match self.after_refusal(generation, rejection).await {
                            Some(Ok(())) => {
                                self.server.count_repeat();
                                self.begin_repeat();
                                gone = None;
                                continue;
                            }
                            Some(Err(error)) => return Err(self.unfinished.end(error)),
                            None => {}
                        }
                    }
                    let Some(pause) = self.pause_before_repeat(&error, attempts) else {
                        let is_harmless = error.outcome() == CallOutcome::NotSent || error.is_session_gone();
                        let earlier = self.unknown.take().filter(|_| is_harmless);
                        let (generation, error) = earlier.map_or((generation, error), |earlier| *earlier);
                        return Err(self.unfinished.end(self.explain(generation, error)));
                    };
                    tracing::debug!(server = %self.server.name, method = %self.method, attempts, ?pause, %error, "repeating");
                    self.server.count_repeat();
                    self.wait(pause).await;
                    self.begin_repeat();
                    gone = error.is_session_gone().then_some(generation);
                    if error.outcome() == CallOutcome::Unknown {
                        self.unknown = Some(Box::new((generation, error)));
                    }
                }
            }
        }
    }

    /// Waits for a permit with a live session, not of the generation that is known to be `gone`; in one
    /// place, wherever it has to wait.
    async fn enter(&mut self, gone: Option<u64>) -> Result<LiveSession, CallError> {
        let entered = self.wait_to_enter(gone).await;
        self.waiting = None;
        if entered.is_ok() {
            self.entry = Entry::Again;
        }
        entered
    }

    async fn wait_to_enter(&mut self, gone: Option<u64>) -> Result<LiveSession, CallError> {
        if gone.is_none()
            && !self.passage.is_ahead()
            && let Some(live) = self.pass_gate().await?
        {
            return Ok(live);
        }
        self.wait_in_line()?;
        loop {
            let seen = self.server.moves();
            let state = self.server.state();
            if self.passage.is_ahead() && state != State::NeedsAuth {
                (self.passage, self.strikes) = Passage::through_breaker(self.server, Instant::now())?;
                continue;
            }
            match state {
                // A session is published before `Ready` is announced and retracted before it is
                // revoked: if the gate has none now, the announcement of that is on its way.
                State::Ready { .. } => match self.pass_gate().await? {
                    Some(live) if gone != Some(live.generation()) => return Ok(live),
                    _ => {}
                },
                State::Dormant { .. } => self.server.orders.give(|wishes| wishes.demand = true),
                state => {
                    if let Err(refused) = refuse_for_state(self.server, state) {
                        if self.server.catch_up(state, self.by).await {
                            continue;
                        }
                        let login = match state {
                            State::NeedsAuth => self.log_in(Needs::Login).await,
                            _ => None,
                        };
                        match login {
                            Some(Ok(())) => continue,
                            Some(Err(why)) => return Err(needs_auth(self.server, Some(why))),
                            None => return Err(refused),
                        }
                    }
                }
            }
            if timeout_at(self.by, self.server.moved_since(seen)).await.is_err() {
                return Err(self.too_late(WaitingFor::Connection));
            }
        }
    }

    /// Waits for a permit; `None` if no session is live then.
    async fn pass_gate(&mut self) -> Result<Option<LiveSession>, CallError> {
        let entered = match self.server.gate.try_enter() {
            Ok(None) => {
                self.wait_in_line()?;
                self.server.gate.enter(self.by).await.map(Some)
            }
            entered => entered,
        };
        match entered {
            Ok(live) => Ok(live),
            Err(GateError::NotLive) => Ok(None),
            Err(error) => Err(self.at_gate(error)),
        }
    }

    /// Takes a place among those that wait, unless it has one.
    fn wait_in_line(&mut self) -> Result<(), CallError> {
        if self.waiting.is_none() {
            self.waiting = Some(self.server.wait_in_line(self.entry)?);
        }
        Ok(())
    }

    /// Does something about the authorization of a request that the server has refused. Answers how that
    /// went: the request is to be sent again, or the call has failed; `None` if it was about something else.
    async fn after_refusal(
        &mut self,
        generation: u64,
        rejection: &Rejection,
    ) -> Option<Result<(), CallError>> {
        let needs = Needs::of(rejection)?;
        let logged_in = match needs {
            Needs::Login | Needs::WiderScope => self.log_in(needs).await,
            Needs::Config | Needs::Patience => None,
        };
        if let Some(Ok(())) = logged_in {
            return Some(Ok(()));
        }
        self.server.on_refused(generation, rejection);
        let server = Arc::clone(&self.server.name);
        let failure = rejection.auth.as_ref();
        match needs {
            Needs::Config | Needs::Patience => None,
            Needs::Login => {
                let told = failure.map(|failure| failure.message.clone());
                let reason = logged_in.and_then(Result::err).or(told);
                Some(Err(CallError::NeedsAuth { server, outcome: CallOutcome::Rejected, reason }))
            }
            Needs::WiderScope => {
                let required = failure.and_then(|failure| match &failure.kind {
                    AuthFailureKind::InsufficientScope(required) => Some(required.clone()),
                    _ => None,
                });
                Some(Err(CallError::InsufficientScope { server, method: self.method.clone(), required }))
            }
        }
    }

    /// Waits for a login, if one may be asked for and can help: `None` if not, else why there is none.
    ///
    /// The clock of the call stands still meanwhile: a person is not bound by it. A deadline that the caller
    /// has set is kept all the same.
    async fn log_in(&mut self, needs: Needs) -> Option<Result<(), String>> {
        let most = if needs == Needs::WiderScope { MAX_LOGINS } else { 1 };
        // One that was sent already finds a place in any case.
        if !self.may_ask || self.asked >= most || self.wait_in_line().is_err() {
            return None;
        }
        self.asked += 1;
        let began = Instant::now();
        let login = self.server.log_in(self.logins);
        let ended = match self.options.deadline {
            Some(deadline) => timeout_at(deadline, login).await,
            None => Ok(login.await),
        };
        self.logins = self.server.desk.ended();
        self.stand_still(began.elapsed());
        match ended {
            Ok(Some(Err(failed))) => Some(Err(failed.0)),
            // Or the state says what has come in between.
            Ok(Some(Ok(())) | None) => Some(Ok(())),
            Err(_) => Some(Err("the time was up before somebody had logged in".to_owned())),
        }
    }

    /// This time does not count.
    fn stand_still(&mut self, time: Duration) {
        self.started = later(self.started, time);
        if self.options.deadline.is_none() {
            self.hard = later(self.hard, time);
        }
        self.by = later(self.by, time).min(self.hard);
    }

    /// The options of one attempt: what the call has waited counts against its soft limit, until the
    /// server reports progress.
    fn options_for_now(&self) -> CallOptions {
        self.options.clone().with_timeout(self.soft).with_began(self.started).with_deadline(self.hard)
    }

    /// The retry rule: what was not sent may be sent; what may have run only if that does no harm. A
    /// server that has too much to do is given time. `None`: the call is not repeated.
    fn pause_before_repeat(&self, error: &mcp_session::CallError, attempts: u32) -> Option<Duration> {
        if attempts >= self.server.options.attempts || self.server.is_over() {
            return None;
        }
        if let mcp_session::CallError::Http(rejection) = error {
            return self.pause_for(rejection, attempts);
        }
        self.may_repeat(error, attempts).then_some(Duration::ZERO)
    }

    /// How long a server that is overloaded or failing is left alone: a random time, or longer if it
    /// asks for that. Waiting beyond the end of the call would be for nothing.
    fn pause_for(&self, rejection: &Rejection, attempts: u32) -> Option<Duration> {
        // Whatever the operation is, a request without an authorization has not run.
        let is_unauthorized = Needs::of(rejection) == Some(Needs::Patience);
        let passes = is_rate_limit(rejection) || is_failure(rejection);
        if !is_unauthorized && (!passes || self.repeat == Repeat::Never) {
            return None;
        }
        let mut account = self.server.account();
        let pause = account.pause(&self.server.options.backoff, attempts);
        let pause = pause.max(rejection.retry_after.unwrap_or_default());
        let is_in_time = later(Instant::now(), pause) < self.by;
        (is_in_time && account.may_repeat()).then_some(pause)
    }

    /// Waits, unless the server is stopped meanwhile.
    async fn wait(&self, pause: Duration) {
        if pause.is_zero() {
            return;
        }
        let stopped = self.server.until_state(|state| matches!(state, State::Draining | State::Stopped));
        // Whichever it was: the next step looks at the state again.
        let _ = timeout_at(later(Instant::now(), pause), stopped).await;
    }

    fn may_repeat(&self, error: &mcp_session::CallError, attempts: u32) -> bool {
        // Either the session has ended, or the connection of this one request.
        let is_loss = error.is_session_gone() || matches!(error, mcp_session::CallError::Lost);
        if !is_loss {
            return false;
        }
        // A server that refused a request together with its session has not acted on it.
        if error.outcome() == CallOutcome::Rejected {
            return attempts == 1;
        }
        match (error.outcome(), self.repeat) {
            (CallOutcome::NotSent, _) => true,
            (_, Repeat::Never) => false,
            (_, Repeat::Safe) => self.server.account().may_repeat(),
        }
    }

    /// Whether the server has refused the call because its headers do not fit the tool: a proxy or the
    /// server itself knows another definition of it than this side. Where there are no headers, the code
    /// is a server's own and may mean that the call has run.
    fn misses_headers(&self, error: &mcp_session::CallError) -> bool {
        let is_mismatch =
            matches!(error, mcp_session::CallError::Peer(error) if error.code == code::HEADER_MISMATCH);
        is_mismatch && self.method == Method::TOOLS_CALL
    }

    /// Fetches the tools again, unless another call has done so since the definitions numbered `known`;
    /// answers whether there are newer ones now.
    async fn refresh_tools(&mut self, known: u64) -> bool {
        let server = self.server;
        let Ok(turn) = timeout_at(self.by, server.tool_refresh.turn()).await else { return false };
        if turn.count() != known {
            return true;
        }
        let Ok(live) = self.enter(None).await else { return false };
        let (generation, session) = (live.generation(), live.session().clone());
        let options = CallOptions::default().with_deadline(self.by);
        match live.list::<ListTools>(options, server.options.lists).await {
            // What came in the time of this one call must not stand for the whole list, for all others.
            Ok(Listed { truncated: Some(Truncated::Deadline), .. }) => {
                tracing::debug!(server = %server.name, generation, "the tools were not fetched anew in the time of the call");
                false
            }
            Ok(tools) => {
                tracing::info!(server = %server.name, generation, "tools fetched anew: a call had other headers than the server expects");
                let part = Part::Tools(tools, session.rejected_tools());
                server.update_list(generation, ListKind::Tools, part);
                turn.done();
                true
            }
            Err(error) => {
                tracing::debug!(server = %server.name, generation, %error, "the tools could not be fetched anew");
                false
            }
        }
    }

    fn on_success(&mut self, generation: u64) {
        self.unfinished.has_ended = true;
        meter::call_ended(&self.server.name, CallEnd::Succeeded.name());
        let is_first = self.server.change_account(|account| account.on_success(generation, Instant::now()));
        if is_first {
            self.server.orders.give(|wishes| Wishes::raise(&mut wishes.proven, generation));
        }
    }

    fn on_error(&self, generation: u64, error: &mcp_session::CallError) {
        use mcp_session::CallError as Error;
        match error {
            // A session that has expired says nothing against the server.
            Error::SessionGone { closed, .. }
                if !matches!(closed.reason(), CloseReason::Local | CloseReason::SessionExpired) =>
            {
                self.server.strike(generation);
            }
            Error::Lost | Error::Timeout { dispatch: Dispatch::MayHaveLeft, .. } => {
                self.server.orders.give(|wishes| Wishes::raise(&mut wishes.suspect, generation));
            }
            Error::Peer(_)
            | Error::Input { .. }
            | Error::InputRequired(_)
            | Error::Protocol(_)
            | Error::Task(_)
            | Error::UrlsRequired(_)
            | Error::Unsupported { why: UnsupportedWhy::InputRequired, .. }
            | Error::FrameTooLarge { dispatch: Dispatch::MayHaveLeft, .. } => {
                self.server.change_account(Account::on_answer);
            }
            Error::Http(rejection) if is_failure(rejection) => self.server.on_failure(self.strikes),
            Error::Http(rejection) if is_answer(rejection) => self.server.change_account(Account::on_answer),
            _ => {}
        }
    }

    /// How an attempt on this connection has ended, with what only this side knows of it.
    fn explain(&self, generation: u64, error: mcp_session::CallError) -> CallError {
        let server = Arc::clone(&self.server.name);
        if let mcp_session::CallError::SessionGone { closed, .. } = &error
            && *closed.reason() == CloseReason::Local
        {
            if self.server.is_over() {
                return self.server.over(error.outcome());
            }
            if self.server.was_switched_off(generation) {
                return CallError::Disabled { server, outcome: error.outcome() };
            }
        }
        CallError::Session { server, method: self.method.clone(), error }
    }

    fn at_gate(&self, error: GateError) -> CallError {
        match error {
            GateError::Overloaded => CallError::Overloaded { server: Arc::clone(&self.server.name) },
            GateError::Timeout => self.too_late(WaitingFor::Turn),
            _ => self.server.over(CallOutcome::NotSent),
        }
    }

    fn too_late(&self, waiting_for: WaitingFor) -> CallError {
        let failure = match waiting_for {
            WaitingFor::Connection => self.server.last_error(),
            WaitingFor::Turn => None,
        };
        let waited = self.by - self.started;
        CallError::Timeout { server: Arc::clone(&self.server.name), waiting_for, waited, failure }
    }
}

/// Counts a call that has ended without a result; not here if it goes on to the server that has taken the
/// place of this one, which counts it.
fn count(server: &Server, error: &CallError) {
    let goes_on = matches!(error, CallError::Replaced { outcome: CallOutcome::NotSent, .. });
    if !goes_on || server.successor().is_none() {
        server.count(CallEnd::of(error));
    }
}

/// Whether the server asks for fewer requests. That says nothing against its health.
fn is_rate_limit(rejection: &Rejection) -> bool {
    rejection.status == 429
}

/// Whether the server, or what stands before it, could not serve the request now.
fn is_failure(rejection: &Rejection) -> bool {
    matches!(rejection.status, 500 | 502..=504)
}

/// Whether the server is well and merely does not take this request. Who wants other credentials has not
/// looked at it.
fn is_answer(rejection: &Rejection) -> bool {
    matches!(rejection.status, 400..=499) && !matches!(rejection.status, 401 | 403)
}

/// The error of a call that was not sent for want of credentials.
pub(crate) fn needs_auth(server: &Server, reason: Option<String>) -> CallError {
    CallError::NeedsAuth { server: Arc::clone(&server.name), outcome: CallOutcome::NotSent, reason }
}

/// Refuses the call if waiting does not help in this state.
fn refuse_for_state(server: &Server, state: State) -> Result<(), CallError> {
    let name = || Arc::clone(&server.name);
    match state {
        State::Disabled => Err(CallError::Disabled { server: name(), outcome: CallOutcome::NotSent }),
        State::Draining | State::Stopped => Err(server.over(CallOutcome::NotSent)),
        State::NeedsAuth => {
            let failure = server.last_error();
            let told = failure.as_ref().and_then(|failure| failure.authorization());
            Err(needs_auth(server, told.map(|failure| failure.message.clone())))
        }
        State::Parked { why, next_probe } => Err(CallError::Parked {
            server: name(),
            why,
            failure: server.last_error(),
            next_probe: left(next_probe),
        }),
        State::Backoff { .. } | State::Connecting { .. } | State::Dormant { .. } | State::Ready { .. } => {
            Ok(())
        }
    }
}
