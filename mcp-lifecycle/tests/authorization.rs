//! Calls that only a person can have authorized: they wait for one login, or are refused at once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use mcp_lifecycle::{
    Authorizer, BreakerState, CallError, LoginFailed, ParkReason, ServerHandle, ServerOptions, ServerSpec,
    State, StopStep,
};
use mcp_proto::{RequestId, SubscriptionFilter};
use mcp_session::{CallOptions, CallOutcome, SubscribeOptions};
use mcp_transport::testing::{MemoryConnector, ServerScript, ToolBehaviour};
use mcp_transport::{
    Abandoned, AuthFailure, AuthFailureKind, CloseReport, ConnectError, Connection, Connector, Full,
    Outbound, Rejection, SendError, Sent, Streams, Transport,
};
use serde_json::Value;
use support::{Bench, echo, in_seconds, plain, ready, seconds, soon, tool, until};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// What stands before a server and looks at the credentials of each request.
#[derive(Debug, Default)]
struct Door {
    /// What is wrong with the credentials; nothing if they are good.
    wrong: Mutex<Option<AuthFailureKind>>,
    /// Whether the tool `write` wants more than the credentials have.
    wants_scope: Mutex<bool>,
    /// The methods of the requests that came, and whether they were let in.
    log: Mutex<Vec<(String, bool)>>,
}

impl Door {
    fn shut(kind: AuthFailureKind) -> Arc<Self> {
        let door = Self::default();
        door.judge_from_now_on(Some(kind));
        Arc::new(door)
    }

    fn judge_from_now_on(&self, kind: Option<AuthFailureKind>) {
        *self.wrong.lock().unwrap() = kind;
    }

    fn came(&self, method: &str) -> Vec<bool> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(came, _)| came == method).map(|(_, was_let_in)| *was_let_in).collect()
    }

    fn judge(&self, message: &Outbound) -> Option<Rejection> {
        message.request_id()?;
        let request: Value = serde_json::from_slice(&message.frame).unwrap();
        let is_write = request["params"]["name"] == "write";
        let refusal = match self.wrong.lock().unwrap().clone() {
            Some(kind) => Some((401, kind)),
            None if is_write && *self.wants_scope.lock().unwrap() => {
                Some((403, AuthFailureKind::InsufficientScope("write".to_owned())))
            }
            None => None,
        };
        let method = request["method"].as_str().unwrap().to_owned();
        self.log.lock().unwrap().push((method, refusal.is_none()));
        let (status, kind) = refusal?;
        let mut rejection = Rejection::new(status);
        if let AuthFailureKind::Unavailable(wait) = kind {
            rejection.retry_after = wait;
        }
        "nobody has logged in".clone_into(&mut rejection.text);
        rejection.auth = Some(AuthFailure::new(kind, "nobody has logged in"));
        Some(rejection)
    }
}

/// Opens connections through a [`Door`].
#[derive(Debug)]
struct Guarded {
    inner: MemoryConnector,
    door: Arc<Door>,
}

#[async_trait]
impl Connector for Guarded {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let connection = self.inner.connect(by).await?;
        let transport = GuardedTransport { inner: connection.transport, door: Arc::clone(&self.door) };
        Ok(Connection::new(Arc::new(transport), connection.receive))
    }
}

#[derive(Debug)]
struct GuardedTransport {
    inner: Arc<dyn Transport>,
    door: Arc<Door>,
}

#[async_trait]
impl Transport for GuardedTransport {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        match self.door.judge(&message) {
            Some(rejection) => Ok(Sent::Rejected(Box::new(rejection))),
            None => self.inner.send(message).await,
        }
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        self.inner.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        self.inner.abandon(id, notice)
    }

    async fn close(&self, by: Instant) -> CloseReport {
        self.inner.close(by).await
    }
}

/// What a person does about a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Grants access after so long.
    Grants(Duration),
    /// Has a desktop that breaks.
    Panics,
    /// Never answers.
    Sleeps,
    /// Wants nothing of it, after so long.
    Skips(Duration),
    /// Grants access, but the server wants none of it.
    InVain,
}

/// Asks a person, and counts.
#[derive(Debug)]
struct Person {
    door: Arc<Door>,
    may_ask: bool,
    habit: Mutex<Habit>,
    begun: AtomicUsize,
    given_up: AtomicUsize,
    asked: Notify,
    renewed: Notify,
    unfinished: AtomicUsize,
    closed: AtomicUsize,
}

impl Person {
    fn new(door: &Arc<Door>, habit: Habit) -> Arc<Self> {
        Self::make(door, habit, true)
    }

    fn absent(door: &Arc<Door>) -> Arc<Self> {
        Self::make(door, Habit::Sleeps, false)
    }

    fn make(door: &Arc<Door>, habit: Habit, may_ask: bool) -> Arc<Self> {
        Arc::new(Self {
            door: Arc::clone(door),
            may_ask,
            habit: Mutex::new(habit),
            begun: AtomicUsize::default(),
            given_up: AtomicUsize::default(),
            asked: Notify::default(),
            renewed: Notify::default(),
            unfinished: AtomicUsize::default(),
            closed: AtomicUsize::default(),
        })
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn given_up(&self) -> usize {
        self.given_up.load(Ordering::SeqCst)
    }
}

/// Counts logins that were given up.
struct Window<'a>(Option<&'a Person>);

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if let Some(person) = self.0 {
            person.given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Authorizer for Person {
    fn may_ask(&self) -> bool {
        self.may_ask
    }

    async fn login(&self) -> Result<(), LoginFailed> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.asked.notify_one();
        let mut window = Window(Some(self));
        let habit = *self.habit.lock().unwrap();
        let result = match habit {
            Habit::Grants(time) => {
                sleep(time).await; // while the person thinks
                self.door.judge_from_now_on(None);
                *self.door.wants_scope.lock().unwrap() = false;
                Ok(())
            }
            Habit::Panics => panic!("the desktop is gone"),
            Habit::Sleeps => std::future::pending().await,
            Habit::Skips(time) => {
                sleep(time).await; // while the person thinks
                Err(LoginFailed("the login was skipped".to_owned()))
            }
            Habit::InVain => Ok(()),
        };
        window.0 = None;
        result
    }

    async fn renewed(&self) {
        self.renewed.notified().await;
    }

    async fn close(&self, _by: Instant) -> usize {
        self.closed.fetch_add(1, Ordering::SeqCst);
        self.unfinished.load(Ordering::SeqCst)
    }
}

/// A server behind a door, and a person who can open that.
struct Site {
    bench: Bench,
    script: ServerScript,
    door: Arc<Door>,
    person: Arc<Person>,
    server: ServerHandle,
}

impl Site {
    fn new(door: &Arc<Door>, person: &Arc<Person>) -> Self {
        Self::with_options(door, person, plain())
    }

    fn with_options(door: &Arc<Door>, person: &Arc<Person>, options: ServerOptions) -> Self {
        let mut bench = Bench::new();
        let script = ServerScript::legacy().with_tool("write", ToolBehaviour::Echo);
        let connector = Guarded { inner: bench.serve(&script), door: Arc::clone(door) };
        let authorizer: Arc<dyn Authorizer> = Arc::<Person>::clone(person);
        let spec =
            ServerSpec::new("one", Arc::new(connector)).with_options(options).with_authorizer(authorizer);
        let server = bench.supervisor.add(spec).unwrap();
        Self { bench, script, door: Arc::clone(door), person: Arc::clone(person), server }
    }

    /// Nobody has logged in yet.
    async fn locked(habit: Habit) -> Self {
        let door = Door::shut(AuthFailureKind::NeedsAuth);
        let site = Self::new(&door, &Person::new(&door, habit));
        let status = site.server.settled(in_seconds(10)).await;
        assert_eq!((status.state, site.person.begun()), (State::NeedsAuth, 0), "by itself it asks nobody");
        site
    }

    /// Everything is well.
    async fn open(habit: Habit) -> Self {
        let door = Arc::new(Door::default());
        let site = Self::new(&door, &Person::new(&door, habit));
        ready(&site.server).await;
        site
    }

    async fn call(&self) -> Result<(), CallError> {
        self.server.call(echo(), CallOptions::default()).await.map(drop)
    }

    fn spawn_call(&self) -> tokio::task::JoinHandle<Result<(), CallError>> {
        let server = self.server.clone();
        tokio::spawn(async move { server.call(echo(), CallOptions::default()).await.map(drop) })
    }

    async fn end(self) {
        let report = self.bench.end().await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(self.person.closed.load(Ordering::SeqCst), 1);
    }
}

#[track_caller]
fn refused(result: Result<(), CallError>) -> (CallOutcome, String) {
    match result {
        Err(CallError::NeedsAuth { outcome, reason, .. }) => (outcome, reason.unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn l07_where_nobody_may_be_asked_a_call_is_refused_at_once_and_nothing_begins() {
    let door = Door::shut(AuthFailureKind::NeedsAuth);
    let site = Site::new(&door, &Person::absent(&door));
    site.server.settled(in_seconds(10)).await;
    let began = Instant::now();
    assert_eq!(refused(site.call().await), (CallOutcome::NotSent, "nobody has logged in".to_owned()));
    assert_eq!((began.elapsed(), site.person.begun()), (Duration::ZERO, 0));
    let status = site.server.status();
    assert_eq!((status.losses, status.breaker), (0, BreakerState::Closed), "no strike");
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn f060_x02_a_hundred_calls_wait_for_one_login_and_their_clocks_stand_still() {
    // Longer than a call may take, and than its hard limit.
    let site = Site::locked(Habit::Grants(seconds(400))).await;
    let began = Instant::now();
    for result in join_all((0..100).map(|_| site.call())).await {
        result.unwrap();
    }
    assert_eq!((began.elapsed(), site.person.begun()), (seconds(400), 1));
    assert_eq!(site.script.log().runs("echo"), 100, "each has run once");
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn f060_a_refused_call_is_repeated_once_on_the_same_connection_with_new_credentials() {
    let site = Site::open(Habit::Grants(seconds(100))).await;
    site.call().await.unwrap();
    site.door.judge_from_now_on(Some(AuthFailureKind::NeedsAuth));
    for result in join_all((0..10).map(|_| site.call())).await {
        result.unwrap();
    }
    assert_eq!(site.person.begun(), 1);
    assert_eq!(
        site.server.status().state,
        State::Ready { generation: 1 },
        "the session is as good as before"
    );
    let came = site.door.came("tools/call");
    let let_in = came.iter().filter(|was_let_in| **was_let_in).count();
    assert_eq!((came.len(), let_in, site.script.log().runs("echo")), (21, 11, 11));
    assert_eq!(site.server.status().calls.repeated, 10);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn t09_nobody_is_asked_twice_by_a_call_whose_new_credentials_are_refused() {
    let site = Site::open(Habit::InVain).await;
    site.door.judge_from_now_on(Some(AuthFailureKind::NeedsAuth));
    assert_eq!(refused(site.call().await).0, CallOutcome::Rejected);
    assert_eq!((site.person.begun(), site.door.came("tools/call").len()), (1, 2));
    until(&site.server, |status| (status.state == State::NeedsAuth).then_some(())).await;
    // Nor by one that was not sent.
    assert_eq!(refused(site.call().await).0, CallOutcome::NotSent);
    assert_eq!((site.person.begun(), site.door.came("tools/call").len()), (2, 2));
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn f061_k01_a_wider_scope_is_a_matter_of_the_call_that_needs_it() {
    let door = Arc::new(Door::default());
    *door.wants_scope.lock().unwrap() = true;
    let site = Site::new(&door, &Person::absent(&door));
    ready(&site.server).await;
    let error = site.server.call(tool("write"), CallOptions::default()).await.unwrap_err();
    let CallError::InsufficientScope { required, .. } = &error else { panic!("{error:?}") };
    assert_eq!((required.as_deref(), error.outcome()), (Some("write"), CallOutcome::Rejected));
    assert!(error.to_string().contains("wider scope") && error.to_string().contains("(write)"), "{error}");
    assert_eq!((site.server.status().state, site.person.begun()), (State::Ready { generation: 1 }, 0));
    site.call().await.unwrap();
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn f061_k01_a_call_that_needs_a_wider_scope_is_made_again_when_somebody_has_granted_it() {
    let site = Site::locked(Habit::Grants(seconds(1))).await;
    site.call().await.unwrap();
    assert_eq!(site.person.begun(), 1);
    *site.door.wants_scope.lock().unwrap() = true;
    site.server.call(tool("write"), CallOptions::default()).await.unwrap();
    assert_eq!((site.person.begun(), site.script.log().runs("write")), (2, 1));
    // As often as an operation may ask, and no more.
    *site.door.wants_scope.lock().unwrap() = true;
    *site.person.habit.lock().unwrap() = Habit::InVain;
    let error = site.server.call(tool("write"), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::InsufficientScope { .. }), "{error:?}");
    assert_eq!(site.person.begun(), 4);
    assert!(site.server.status().state.is_ready());
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_login_in_vain_refuses_all_who_waited_for_it_and_the_next_call_asks_again() {
    let site = Site::locked(Habit::Skips(seconds(10))).await;
    for result in join_all((0..10).map(|_| site.call())).await {
        assert_eq!(refused(result), (CallOutcome::NotSent, "the login was skipped".to_owned()));
    }
    assert_eq!(site.person.begun(), 1);
    assert_eq!(refused(site.call().await).1, "the login was skipped");
    assert_eq!((site.person.begun(), site.person.given_up()), (2, 0));
    // A desktop that breaks hurts nobody but who waits for it.
    *site.person.habit.lock().unwrap() = Habit::Panics;
    assert_eq!(refused(site.call().await).1, "the login panicked");
    *site.person.habit.lock().unwrap() = Habit::Grants(Duration::ZERO);
    site.call().await.unwrap();
    site.end().await;
}

/// A server whose connections have broken too often, and that wants other credentials by now.
async fn broken_and_locked(habit: Habit) -> Site {
    let door = Arc::new(Door::default());
    let person = Person::new(&door, habit);
    let site = Site::with_options(&door, &person, plain().with_park_after(1000));
    for _ in 0..5 {
        site.server.call(tool("crash"), CallOptions::default()).await.unwrap_err();
    }
    let generation = ready(&site.server).await;
    door.judge_from_now_on(Some(AuthFailureKind::NeedsAuth));
    site.server.reconnect(generation);
    until(&site.server, |status| (status.state == State::NeedsAuth).then_some(())).await;
    assert_eq!(site.server.status().breaker, BreakerState::Open);
    site
}

#[tokio::test(start_paused = true)]
async fn f060_whoever_needs_a_login_is_asked_although_the_breaker_is_open_and_a_login_closes_it() {
    let site = broken_and_locked(Habit::Skips(seconds(1))).await;
    assert_eq!(refused(site.call().await), (CallOutcome::NotSent, "the login was skipped".to_owned()));
    assert_eq!((site.person.begun(), site.server.status().breaker), (1, BreakerState::Open));
    *site.person.habit.lock().unwrap() = Habit::Grants(seconds(1));
    for result in join_all((0..10).map(|_| site.call())).await {
        result.unwrap();
    }
    assert_eq!((site.person.begun(), site.server.status().breaker), (2, BreakerState::Closed));
    let calls = site.server.status().calls;
    assert_eq!((calls.succeeded, calls.cancelled), (10, 0));
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn i26_an_open_breaker_refuses_a_call_that_has_come_while_credentials_were_missing() {
    let site = broken_and_locked(Habit::Sleeps).await;
    site.door.judge_from_now_on(None);
    // Before the order is carried out.
    site.server.wake();
    let error = site.call().await.unwrap_err();
    assert!(matches!(error, CallError::CircuitOpen { .. }), "{error:?}");
    assert_eq!((site.script.log().runs("echo"), site.person.begun()), (0, 0));
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_ends_no_login_of_others_and_the_last_one_ends_it() {
    let site = Site::locked(Habit::Sleeps).await;
    let (first, second) = (site.spawn_call(), site.spawn_call());
    site.person.asked.notified().await;
    soon(|| site.server.status().waiting == 2).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    sleep(seconds(60)).await; // in which nothing must happen
    assert_eq!((site.person.begun(), site.person.given_up()), (1, 0));
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    soon(|| site.person.given_up() == 1).await;
    assert_eq!((site.person.begun(), site.person.given_up()), (1, 1));
    *site.person.habit.lock().unwrap() = Habit::Grants(seconds(1));
    site.call().await.unwrap();
    assert_eq!(site.person.begun(), 2);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_the_caller_has_set_is_kept() {
    let site = Site::locked(Habit::Sleeps).await;
    let began = Instant::now();
    let options = CallOptions::default().with_deadline(began + seconds(30));
    let result = site.server.call(echo(), options).await.map(drop);
    assert!(refused(result).1.contains("time was up"));
    assert_eq!(began.elapsed(), seconds(30));
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn f136_x01_a_shutdown_ends_a_login_and_then_lets_tokens_be_kept() {
    let site = Site::locked(Habit::Sleeps).await;
    let waiting = site.spawn_call();
    site.person.asked.notified().await;
    site.person.unfinished.store(1, Ordering::SeqCst);
    let began = Instant::now();
    let report = site.bench.end().await;
    assert!(matches!(waiting.await.unwrap(), Err(CallError::ShuttingDown { .. })));
    assert_eq!((began.elapsed(), site.person.given_up()), (Duration::ZERO, 1));
    assert_eq!(site.person.closed.load(Ordering::SeqCst), 1);
    let exceeded = &report.servers[0].exceeded;
    assert_eq!((exceeded.len(), exceeded[0].step), (1, StopStep::Finish), "{exceeded:?}");
}

#[tokio::test(start_paused = true)]
async fn credentials_that_somebody_else_brings_wake_the_server() {
    let door = Door::shut(AuthFailureKind::NeedsAuth);
    let site = Site::new(&door, &Person::absent(&door));
    site.server.settled(in_seconds(10)).await;
    sleep(seconds(3600)).await; // in which nobody tries
    assert_eq!(site.server.status().generation, 1);
    site.door.judge_from_now_on(None);
    site.person.renewed.notify_one();
    assert_eq!(ready(&site.server).await, 2);
    site.call().await.unwrap();
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_login_on_request_wakes_the_server_although_calls_may_not_ask() {
    let door = Door::shut(AuthFailureKind::NeedsAuth);
    let person = Person::absent(&door);
    *person.habit.lock().unwrap() = Habit::Grants(seconds(5));
    let site = Site::new(&door, &person);
    site.server.settled(in_seconds(10)).await;
    let (one, other) = tokio::join!(site.server.login(), site.server.login());
    one.and(other).unwrap();
    assert_eq!(person.begun(), 1);
    site.call().await.unwrap();
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_follows_a_server_has_nobody_asked() {
    let site = Site::locked(Habit::Grants(Duration::ZERO)).await;
    let mut filter = SubscriptionFilter::default();
    filter.tools_list_changed = true;
    let mut following = site.server.follow(filter, SubscribeOptions::default());
    assert!(timeout(seconds(600), following.next()).await.is_err());
    assert_eq!(site.person.begun(), 0);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn t04_an_authorization_that_is_not_available_now_is_waited_for_and_costs_nothing() {
    let site = Site::open(Habit::Sleeps).await;
    let wait = seconds(20);
    site.door.judge_from_now_on(Some(AuthFailureKind::Unavailable(Some(wait))));
    let began = Instant::now();
    let recovery = async {
        sleep(seconds(10)).await; // before the server is asked again
        site.door.judge_from_now_on(None);
    };
    let (called, ()) = tokio::join!(site.call(), recovery);
    called.unwrap();
    assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
    assert_eq!(site.door.came("tools/call"), [false, true]);
    let status = site.server.status();
    assert_eq!((status.state, status.losses), (State::Ready { generation: 1 }, 0));
    assert_eq!((status.breaker, site.person.begun()), (BreakerState::Closed, 0));
    // What does not pass in the time of the call is an error that may pass.
    site.door.judge_from_now_on(Some(AuthFailureKind::Unavailable(Some(seconds(200)))));
    let error = site.call().await.unwrap_err();
    assert!(error.is_retryable() && error.outcome() == CallOutcome::Rejected, "{error:?}");
    assert!(site.server.status().state.is_ready());
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn t04_a_connection_is_not_tried_again_before_the_authorization_may_be_available() {
    let wait = seconds(120);
    let door = Door::shut(AuthFailureKind::Unavailable(Some(wait)));
    let site = Site::new(&door, &Person::absent(&door));
    let began = Instant::now();
    until(&site.server, |status| matches!(status.state, State::Backoff { .. }).then_some(())).await;
    door.judge_from_now_on(None);
    ready(&site.server).await;
    assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_does_not_fit_parks_the_server_with_the_reason() {
    let door = Door::shut(AuthFailureKind::Config);
    let site = Site::new(&door, &Person::new(&door, Habit::Sleeps));
    let is_parked = |state| matches!(state, State::Parked { why: ParkReason::Permanent, .. });
    assert!(is_parked(site.server.settled(in_seconds(10)).await.state));
    let error = site.call().await.unwrap_err();
    assert!(matches!(error, CallError::Parked { .. }) && error.to_string().contains("nobody has logged in"));
    // The same in a call.
    door.judge_from_now_on(None);
    site.server.wake();
    ready(&site.server).await;
    door.judge_from_now_on(Some(AuthFailureKind::Config));
    let error = site.call().await.unwrap_err();
    assert!(matches!(error, CallError::Session { .. }), "{error:?}");
    until(&site.server, |status| is_parked(status.state).then_some(())).await;
    assert_eq!((site.person.begun(), site.server.status().losses), (0, 0));
    site.end().await;
}
