use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use mcp_session::{ClientHandler, ListLimits, SessionOptions};
use mcp_transport::{Connector, SystemClock, WallClock};
use tokio_util::task::TaskTracker;

use crate::authorizer::Authorizer;
use crate::backoff::BackoffOptions;
use crate::breaker::BreakerOptions;
use crate::keepalive::KeepaliveOptions;
use crate::machine::{Begin, Policy};
use crate::recess::RecessOptions;
use crate::refresh::RefreshOptions;

const SIXTY_FOUR: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// One server: its name, how to reach it, its limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerSpec {
    /// The name it goes by in calls, errors, events and logs; unique in its supervisor.
    pub name: String,
    /// Opens its connections, one after the other.
    pub connector: Arc<dyn Connector>,
    /// Its limits.
    pub options: ServerOptions,
    /// Who brings credentials about that only a person can; `None` if that is nobody's matter here.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

impl ServerSpec {
    /// A server with default limits.
    #[must_use]
    pub fn new(name: impl Into<String>, connector: Arc<dyn Connector>) -> Self {
        Self { name: name.into(), connector, options: ServerOptions::default(), authorizer: None }
    }

    /// Sets who brings credentials about that only a person can. One authorizer serves one server: it is
    /// closed with that.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }
}

/// When a server is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Startup {
    /// As soon as it is added.
    #[default]
    AtOnce,
    /// Not before it is switched on.
    Disabled,
    /// With the first call.
    OnDemand,
}

/// The limits of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// When it is started. Default: at once.
    pub startup: Startup,
    /// How its sessions are opened, who answers what it asks, and the limits of a call. The name of the
    /// server is set by the supervisor.
    pub session: SessionOptions,
    /// How much of its lists is fetched when it connects, and when they change.
    pub lists: ListLimits,
    /// When a list is fetched anew that has changed.
    pub refresh: RefreshOptions,
    /// Opening, handshake and lists together must take no longer. Default 60 s.
    pub connect_limit: Duration,
    /// How long one connection may take to end when its server is not stopped. Default 6 s.
    pub close_limit: Duration,
    /// Calls that may run at once; 1 makes the server strictly serial. Default 64.
    pub in_flight: NonZeroUsize,
    /// Calls that may wait, for a connection or for their turn; a further one is refused. Default 256.
    ///
    /// A call that was let in is not refused any more: those whose connection broke under them wait for the
    /// next one beside these, at most as many as may run at once.
    pub queued: usize,
    /// The delays between attempts.
    pub backoff: BackoffOptions,
    /// When calls are refused because the connection keeps breaking.
    pub breaker: BreakerOptions,
    /// Attempts in a row that do not prove healthy before the server is parked. Default 5.
    pub park_after: u32,
    /// How long a parked server waits before it is tried again, ± 20 %. Default 300 s.
    ///
    /// A server that was ready before, and that cannot even be reached now, may be about to return: where
    /// nobody listens, five attempts are over in 2 to 5 s. It is tried after 5, 15 and 60 s first, ± 20 %,
    /// until it proves healthy again.
    pub park_probe: Duration,
    /// How long a connection must last to count as stable. Default 30 s.
    pub stable_for: Duration,
    /// How a silent connection is found out.
    pub keepalive: KeepaliveOptions,
    /// When it is let go although it is well. Off by default.
    pub recess: RecessOptions,
    /// How long running calls may go on when their connection takes no more, because it is old, is not used,
    /// or lacks credentials; likewise tasks that somebody holds a [handle](mcp_session::TaskHandle) of, until
    /// they are known to be over. Default 300 s.
    ///
    /// Calls that wait for the next connection wait for their end. Whoever
    /// [wakes](crate::ServerHandle::wake) the server then shortens that to
    /// [`SupervisorOptions::drain`], and a [reconnect](crate::ServerHandle::reconnect) ends them.
    pub leave_limit: Duration,
    /// How often a call may be sent at all, if repeating it is safe. Default 3.
    ///
    /// Whatever this says, a tool call that a server over HTTP refuses because its headers do not fit
    /// (MCP 2026-07-28) is sent once more, after the tools were fetched anew: it has not run.
    pub attempts: u32,
    /// Tools that may be repeated although an earlier request may have run.
    pub idempotent_tools: BTreeSet<String>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            startup: Startup::AtOnce,
            session: SessionOptions::default(),
            lists: ListLimits::default(),
            refresh: RefreshOptions::default(),
            connect_limit: Duration::from_secs(60),
            close_limit: Duration::from_secs(6),
            in_flight: SIXTY_FOUR,
            queued: 256,
            backoff: BackoffOptions::default(),
            breaker: BreakerOptions::default(),
            park_after: 5,
            park_probe: Duration::from_secs(300),
            stable_for: Duration::from_secs(30),
            keepalive: KeepaliveOptions::default(),
            recess: RecessOptions::default(),
            leave_limit: Duration::from_secs(300),
            attempts: 3,
            idempotent_tools: BTreeSet::new(),
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $field:ident: $type:ty;)*) => {
        $($(#[$doc])* #[must_use] pub fn $name(mut self, $field: $type) -> Self { self.$field = $field; self })*
    };
}

impl ServerOptions {
    setters! {
        /// Sets when the server is started.
        with_startup: startup: Startup;
        /// Sets how sessions are opened.
        with_session: session: SessionOptions;
        /// Sets how much of the lists is fetched.
        with_lists: lists: ListLimits;
        /// Sets when a list is fetched anew that has changed.
        with_refresh: refresh: RefreshOptions;
        /// Sets the limit of connecting.
        with_connect_limit: connect_limit: Duration;
        /// Sets the limit of closing.
        with_close_limit: close_limit: Duration;
        /// Sets how many calls may run at once.
        with_in_flight: in_flight: NonZeroUsize;
        /// Sets how many calls may wait.
        with_queued: queued: usize;
        /// Sets the delays between attempts.
        with_backoff: backoff: BackoffOptions;
        /// Sets the breaker.
        with_breaker: breaker: BreakerOptions;
        /// Sets after how many unproven attempts the server is parked.
        with_park_after: park_after: u32;
        /// Sets how long a parked server waits.
        with_park_probe: park_probe: Duration;
        /// Sets how long a connection must last to count as stable.
        with_stable_for: stable_for: Duration;
        /// Sets how a silent connection is found out.
        with_keepalive: keepalive: KeepaliveOptions;
        /// Sets when it is let go although it is well.
        with_recess: recess: RecessOptions;
        /// Sets how long running calls may go on when their connection takes no more.
        with_leave_limit: leave_limit: Duration;
        /// Sets how often a call may be sent.
        with_attempts: attempts: u32;
        /// Sets which tools may be repeated.
        with_idempotent_tools: idempotent_tools: BTreeSet<String>;
    }

    /// Serves what the server asks of its client; the handler is told the name of the server.
    #[must_use]
    pub fn with_handler(mut self, handler: Arc<dyn ClientHandler>) -> Self {
        self.session = self.session.with_handler(handler);
        self
    }

    /// What the machine of the server goes by, under a supervisor that gives running calls this time when
    /// somebody waits for their end.
    pub(crate) fn policy(&self, drain: Duration) -> Policy {
        Policy {
            backoff: self.backoff.clone(),
            park_after: self.park_after,
            park_probe: self.park_probe,
            stable_for: self.stable_for,
            leave: self.leave_limit,
            hurried: drain.min(self.leave_limit),
            recess: self.recess.clone(),
        }
    }

    pub(crate) fn begin(&self) -> Option<Begin> {
        match self.startup {
            Startup::AtOnce => Some(Begin::Now),
            Startup::Disabled => None,
            Startup::OnDemand => Some(Begin::OnDemand),
        }
    }
}

/// Kills every child process of the supervised servers; see [`SupervisorOptions::with_kill`].
pub type KillHook = Arc<dyn Fn() + Send + Sync>;

/// The limits of a supervisor.
#[derive(Clone)]
#[non_exhaustive]
pub struct SupervisorOptions {
    /// How long running calls may go on when it shuts down, or when their server is removed, replaced or
    /// switched off. Default 5 s.
    pub drain: Duration,
    /// How long shutting down may take as a whole, not counting time in which the runtime stood still;
    /// see [`Supervisor::shutdown`](crate::Supervisor::shutdown). Default 10 s.
    pub total: Duration,
    /// Calls that may run or wait at once, over all servers. Default 10 000.
    pub in_flight: usize,
    /// Connections that may be begun at once. Default 16.
    ///
    /// One that takes longer than a second to open does not count any more, so that servers that cannot be
    /// reached keep no others out. Servers that were ready before have as many places of their own, as long as
    /// they prove healthy, or are asked for.
    pub connects: usize,
    /// Events that a slow subscriber may be behind before it loses the oldest. Default 1024.
    pub events: usize,
    /// Seed of every random delay; `None` takes a random one.
    pub seed: Option<u64>,
    /// What tells the date; by default the system's clock. It shows that the machine has slept: connections
    /// are probed then, and servers that wait to be tried again are tried.
    pub wall_clock: Arc<dyn WallClock>,
    kill: Option<KillHook>,
    last_work: Vec<(String, TaskTracker)>,
}

impl Default for SupervisorOptions {
    fn default() -> Self {
        Self {
            drain: Duration::from_secs(5),
            total: Duration::from_secs(10),
            in_flight: 10_000,
            connects: 16,
            events: 1024,
            seed: None,
            wall_clock: Arc::new(SystemClock),
            kill: None,
            last_work: Vec::new(),
        }
    }
}

impl SupervisorOptions {
    setters! {
        /// Sets how long running calls may go on.
        with_drain: drain: Duration;
        /// Sets how long shutting down may take.
        with_total: total: Duration;
        /// Sets how many calls may run or wait over all servers.
        with_in_flight: in_flight: usize;
        /// Sets how many connections may be opened at once.
        with_connects: connects: usize;
        /// Sets how far behind a subscriber may be.
        with_events: events: usize;
        /// Sets what tells the date.
        with_wall_clock: wall_clock: Arc<dyn WallClock>;
    }

    /// Sets the seed of every random delay, so that a run can be repeated.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets what kills all children at once when the supervisor is dropped without a shutdown.
    ///
    /// Called at most once, possibly outside any runtime; it must not block. Without it children are
    /// killed when the runtime drops their connections.
    #[must_use]
    pub fn with_kill(mut self, kill: impl Fn() + Send + Sync + 'static) -> Self {
        self.kill = Some(Arc::new(kill));
        self
    }

    /// Names work that must not be cut off, such as writing a token that its server gives only once.
    ///
    /// A shutdown waits for the tracker to be empty when every server has ended, inside what is left of
    /// [`total`](Self::total) and no longer; what has not ended then is in the
    /// [report](crate::ShutdownReport::unfinished). May be called again for further work. The tasks stay
    /// those of whoever made them.
    #[must_use]
    pub fn with_last_work(mut self, name: impl Into<String>, work: TaskTracker) -> Self {
        self.last_work.push((name.into(), work));
        self
    }

    pub(crate) fn last_work(&self) -> &[(String, TaskTracker)] {
        &self.last_work
    }

    /// Takes the hook out: it belongs to the one owner who may call it.
    pub(crate) fn take_kill(&mut self) -> Option<KillHook> {
        self.kill.take()
    }
}

impl fmt::Debug for SupervisorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorOptions")
            .field("drain", &self.drain)
            .field("total", &self.total)
            .field("in_flight", &self.in_flight)
            .field("connects", &self.connects)
            .field("events", &self.events)
            .field("seed", &self.seed)
            .field("wall_clock", &self.wall_clock)
            .field("kill", &self.kill.is_some())
            .field("last_work", &self.last_work)
            .finish()
    }
}
