//! Disables one guarantee at a time, through the same seams that users have: options, connectors and
//! process factories. The demo must then turn exactly that line red.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle::{ServerOptions, SupervisorOptions};
use mcp_proto::RequestId;
use mcp_session::EraPolicy;
use mcp_transport::process::{Child, Command, Graces, Process, ProcessEnd, ProcessFactory, SpawnError};
use mcp_transport::testing::{FaultConnector, FaultControl};
use mcp_transport::{
    Abandoned, CloseReport, ConnectError, Connection, Connector, Dispatch, Full, HttpProfile, Outbound,
    SendError, Sent, Streams, Transport,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::stage::{BROKEN, CRASHING, HEALTHY, MODERN, MODERN_WEB, SILENT, STARTS, STUBBORN, WEB};
use crate::problem::Problem;

/// How long a server that is not to be started with the others waits.
const LATE: Duration = Duration::from_secs(8);

/// How long a connection that is not to be closed in time takes.
const SLOW_CLOSE: Duration = Duration::from_secs(11);

/// A guarantee that can be disabled; each has the name of the check that must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sabotage {
    Breaker,
    Call,
    Cancel,
    Drain,
    Eras,
    NothingLeft,
    Outcome,
    Park,
    Recovery,
    Revive,
    Session,
    Shutdown,
    Stream,
    Together,
}

impl Sabotage {
    pub(super) const ALL: [Self; 14] = [
        Self::Together,
        Self::Call,
        Self::Eras,
        Self::Cancel,
        Self::Stream,
        Self::Outcome,
        Self::Breaker,
        Self::Recovery,
        Self::Session,
        Self::Park,
        Self::Revive,
        Self::Drain,
        Self::Shutdown,
        Self::NothingLeft,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Breaker => "breaker",
            Self::Call => "call",
            Self::Cancel => "cancel",
            Self::Drain => "drain",
            Self::Eras => "eras",
            Self::NothingLeft => "nothing-left",
            Self::Outcome => "outcome",
            Self::Park => "park",
            Self::Recovery => "recovery",
            Self::Revive => "revive",
            Self::Session => "session",
            Self::Shutdown => "shutdown",
            Self::Stream => "stream",
            Self::Together => "together",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self, Problem> {
        let known = Self::ALL.into_iter().find(|sabotage| sabotage.name() == name);
        known.ok_or_else(|| Problem::usage(format!("nothing to break is called {name:?}; try --break list")))
    }
}

/// How the client is wired up, with everything that was broken on purpose.
#[derive(Debug)]
pub(super) struct Wiring {
    sabotages: Vec<Sabotage>,
    doubling: Mutex<Option<FaultControl>>,
    unstopped: Handles,
}

/// Handles that nobody may drop, because a handle that is dropped kills.
type Handles = Arc<Mutex<Vec<Arc<dyn Process>>>>;

impl Wiring {
    pub(super) fn new(sabotages: Vec<Sabotage>) -> Self {
        Self { sabotages, doubling: Mutex::new(None), unstopped: Arc::default() }
    }

    fn breaks(&self, sabotage: Sabotage) -> bool {
        self.sabotages.contains(&sabotage)
    }

    /// Whether requests to the healthy server are sent twice; only while the first call is made.
    pub(super) fn double_requests(&self, is_on: bool) {
        if let Some(control) = &*self.doubling.lock().unwrap_or_else(PoisonError::into_inner) {
            control.duplicate_requests(is_on);
        }
    }

    /// The limits of all servers together; stopping may take as long as `bound`.
    pub(super) fn supervisor(&self, bound: Duration) -> SupervisorOptions {
        let total = if self.breaks(Sabotage::Shutdown) { bound * 6 } else { bound };
        let options = SupervisorOptions::default().with_total(total);
        if self.breaks(Sabotage::Drain) { options.with_drain(Duration::ZERO) } else { options }
    }

    pub(super) fn options(&self, server: &str, mut options: ServerOptions) -> ServerOptions {
        if server == MODERN && self.breaks(Sabotage::Eras) {
            let session = options.session.clone().with_era(EraPolicy::Legacy);
            options = options.with_session(session);
        }
        if server == CRASHING && self.breaks(Sabotage::Outcome) {
            options = options.with_idempotent_tools(["crash".to_owned()].into());
        }
        if server == CRASHING && self.breaks(Sabotage::Breaker) {
            let breaker = options.breaker.clone().with_open_after(u32::MAX);
            options = options.with_breaker(breaker);
        }
        if server == BROKEN && self.breaks(Sabotage::Park) {
            options = options.with_park_after(u32::MAX);
        }
        options
    }

    pub(super) fn connector(&self, server: &str, inner: Arc<dyn Connector>) -> Arc<dyn Connector> {
        match server {
            HEALTHY if self.breaks(Sabotage::Call) => {
                let (connector, control) = FaultConnector::new(inner);
                *self.doubling.lock().unwrap_or_else(PoisonError::into_inner) = Some(control);
                Arc::new(connector)
            }
            BROKEN if self.breaks(Sabotage::Revive) => Arc::new(OnlySoOften::new(inner, STARTS)),
            HEALTHY if self.breaks(Sabotage::Recovery) => Arc::new(OnlySoOften::new(inner, 1)),
            SILENT if self.breaks(Sabotage::Cancel) => {
                let (connector, control) = FaultConnector::new(inner);
                control.drop_cancels(true);
                Arc::new(connector)
            }
            STUBBORN if self.breaks(Sabotage::Shutdown) => {
                Arc::new(Hindered::new(inner, Hindrance::SlowClose))
            }
            MODERN_WEB if self.breaks(Sabotage::Together) => Arc::new(ConnectsLate(inner)),
            WEB if self.breaks(Sabotage::Session) => Arc::new(OnlySoOften::new(inner, 1)),
            MODERN_WEB if self.breaks(Sabotage::Stream) => {
                Arc::new(Hindered::new(inner, Hindrance::NoAbandon))
            }
            _ => inner,
        }
    }

    pub(super) fn processes(&self, server: &str, inner: Arc<dyn ProcessFactory>) -> Arc<dyn ProcessFactory> {
        if server == STUBBORN && self.breaks(Sabotage::NothingLeft) {
            return Arc::new(NeverStops { inner, kept: Arc::clone(&self.unstopped) });
        }
        inner
    }
}

/// Connects so often and never again.
#[derive(Debug)]
struct OnlySoOften {
    inner: Arc<dyn Connector>,
    limit: usize,
    connects: AtomicUsize,
}

impl OnlySoOften {
    fn new(inner: Arc<dyn Connector>, limit: usize) -> Self {
        Self { inner, limit, connects: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Connector for OnlySoOften {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        if self.connects.fetch_add(1, Ordering::SeqCst) >= self.limit {
            return Err(ConnectError::Timeout);
        }
        self.inner.connect(by).await
    }
}

/// Connects long after all others.
#[derive(Debug)]
struct ConnectsLate(Arc<dyn Connector>);

#[async_trait]
impl Connector for ConnectsLate {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        sleep(LATE).await;
        self.0.connect(by).await
    }
}

/// Its connections lack one thing that a connection does.
#[derive(Debug)]
struct Hindered<T> {
    inner: T,
    hindrance: Hindrance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hindrance {
    /// A request that is given up goes on.
    NoAbandon,
    /// Closing takes long.
    SlowClose,
}

impl<T> Hindered<T> {
    fn new(inner: T, hindrance: Hindrance) -> Self {
        Self { inner, hindrance }
    }
}

#[async_trait]
impl Connector for Hindered<Arc<dyn Connector>> {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let connection = self.inner.connect(by).await?;
        let transport = Hindered::new(connection.transport, self.hindrance);
        Ok(Connection::new(Arc::new(transport), connection.receive))
    }
}

#[async_trait]
impl Transport for Hindered<Arc<dyn Transport>> {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        self.inner.send(message).await
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        self.inner.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        match self.hindrance {
            Hindrance::NoAbandon => Abandoned { dispatch: Dispatch::MayHaveLeft, is_told: false },
            Hindrance::SlowClose => self.inner.abandon(id, notice),
        }
    }

    fn set_profile(&self, profile: HttpProfile) {
        self.inner.set_profile(profile);
    }

    async fn close(&self, by: Instant) -> CloseReport {
        if self.hindrance == Hindrance::SlowClose {
            sleep(SLOW_CLOSE).await;
        }
        self.inner.close(by).await
    }
}

/// Starts processes that no stop and no kill reaches.
struct NeverStops {
    inner: Arc<dyn ProcessFactory>,
    kept: Handles,
}

#[async_trait]
impl ProcessFactory for NeverStops {
    async fn spawn(&self, command: &Command) -> Result<Child, SpawnError> {
        let Child { stdin, stdout, process, .. } = self.inner.spawn(command).await?;
        let process: Arc<dyn Process> = Arc::from(process);
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&process));
        Ok(Child::new(stdin, stdout, Box::new(Untouchable(process))))
    }

    fn kill_all(&self) {}

    fn close(&self) {}

    fn live(&self) -> usize {
        self.inner.live()
    }
}

impl fmt::Debug for NeverStops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeverStops").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Untouchable(Arc<dyn Process>);

impl Process for Untouchable {
    fn id(&self) -> u32 {
        self.0.id()
    }

    fn end(&self) -> watch::Receiver<Option<ProcessEnd>> {
        self.0.end()
    }

    fn begin_stop(&self, _graces: Graces, _by: Instant) {}

    fn kill(&self) {}

    fn discard_output(&self, stdout: OwnedFd) {
        self.0.discard_output(stdout);
    }

    fn stderr_tail(&self) -> String {
        self.0.stderr_tail()
    }
}
