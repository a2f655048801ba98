use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::{AddError, StillDraining};
use crate::event::ServerEvent;
use crate::handle::ServerHandle;
use crate::latch::Latch;
use crate::options::{KillHook, ServerSpec, SupervisorOptions};
use crate::registry::Registry;
use crate::report::{ServerReport, ShutdownReport};
use crate::root::Root;
use crate::runtime::Runtime;

/// Many servers over time: starts them, keeps them connected, stops them. Owns every task.
///
/// All tasks run on one runtime, under one root task. Every method may be called from anywhere, inside
/// a runtime or not; none blocks. End it with [`shutdown`](Self::shutdown). Dropping it without that
/// aborts everything, kills all children at once if [`SupervisorOptions::with_kill`] says how, and
/// logs one warning.
#[derive(Debug)]
#[must_use = "dropping it stops all servers"]
pub struct Supervisor {
    owner: Arc<Owner>,
}

/// Ends everything when the last who may shut down is gone.
#[derive(Debug)]
struct Owner {
    registry: Arc<Registry>,
    /// Kills all children.
    kill: Option<Kill>,
    /// The root task. Dropping the set aborts it, and with it all that it owns.
    root: Mutex<JoinSet<()>>,
}

struct Kill(KillHook);

impl fmt::Debug for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kill")
    }
}

impl Supervisor {
    /// Starts a supervisor without servers on `runtime`.
    pub fn start(runtime: &Handle, mut options: SupervisorOptions) -> Self {
        let kill = options.take_kill().map(Kill);
        let registry = Arc::new(Registry::new(Arc::new(Runtime::new(options))));
        let mut root = JoinSet::new();
        root.spawn_on(Root::new(Arc::clone(&registry)).run(), runtime);
        Self { owner: Arc::new(Owner { registry, kill, root: Mutex::new(root) }) }
    }

    /// Adds a server: it is registered when this returns, and started on the supervisor's runtime.
    ///
    /// # Errors
    ///
    /// See [`AddError`]; nothing was started.
    pub fn add(&self, spec: ServerSpec) -> Result<ServerHandle, AddError> {
        self.owner.registry.add(spec).map(ServerHandle::new)
    }

    /// Adds a server in the place of the one that has its name, if there is one.
    ///
    /// The name is taken at every instant. The server that had it takes no more calls, gives running ones
    /// [`SupervisorOptions::drain`], and is stopped as in [`remove`](Self::remove); then the new one begins.
    /// Calls that come or wait meanwhile wait for the new one, inside their own time, also if they were made
    /// through a handle of the old. Breaker, budgets and counters begin anew. Of replacements that follow
    /// each other faster than that, only the last one is started.
    ///
    /// # Errors
    ///
    /// See [`AddError`], but never [`AddError::Duplicate`]; the server that has the name stays as it is.
    pub fn replace(&self, spec: ServerSpec) -> Result<ServerHandle, AddError> {
        self.owner.registry.replace(spec).map(ServerHandle::new)
    }

    /// Stops and forgets a server; `None` if there is none of this name.
    ///
    /// It is stopped in the same steps and within the same limits as in a shutdown, whether or not the
    /// returned future is awaited. Its name is free again when the future completes.
    #[must_use = "the name is free only when it completes"]
    pub fn remove(&self, name: &str) -> Option<Removal> {
        let server = self.owner.registry.server(name)?;
        server.mark_removed();
        server.orders.give(|wishes| wishes.stop = true);
        let registry = Arc::clone(&self.owner.registry);
        Some(Removal(Box::pin(async move {
            let report = server.ended.wait().await;
            registry.forget(&server);
            report
        })))
    }

    /// The server of this name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<ServerHandle> {
        self.owner.registry.server(name).map(ServerHandle::new)
    }

    /// All servers, in the order in which they were added.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerHandle> {
        self.owner.registry.servers().into_iter().map(ServerHandle::new).collect()
    }

    /// Subscribes to what happens from now on. A subscriber that falls behind loses the oldest events
    /// and is told how many.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.owner.registry.runtime.events()
    }

    /// Shuts down: refuses new work, lets running calls finish, cancels the rest, closes every
    /// connection, ends every process, joins every task.
    ///
    /// Begins at once and goes on under the supervisor, whatever becomes of the returned future. Calling
    /// it again joins the same shutdown.
    ///
    /// It takes no longer than [`SupervisorOptions::total`] and 100 ms. One thing is not counted: time
    /// in which the runtime itself stood still (a timer of the shutdown fired 100 ms late or more), for
    /// nothing could be done in it. Each of the three steps (running calls finish, connections close,
    /// tasks end) is given one such time back, with 100 ms to catch up; a further one counts. So a
    /// runtime that is blocked again and again delays the end by three standstills, not for ever.
    pub fn shutdown(&self) -> Shutdown {
        self.owner.registry.stop();
        Shutdown::new(Arc::clone(&self.owner))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let registry = &self.registry;
        if registry.report.get().is_some_and(|_| registry.runtime.plan.get().is_some()) {
            return;
        }
        let servers = registry.everybody();
        // One warning, however many servers: this is one mistake of one caller.
        tracing::warn!(
            servers = servers.len(),
            "a supervisor was dropped without a shutdown; its servers are killed"
        );
        registry.close();
        self.root.get_mut().unwrap_or_else(PoisonError::into_inner).abort_all();
        if let Some(Kill(kill)) = &self.kill {
            kill();
        }
        servers.iter().for_each(|server| server.retire("the supervisor was dropped without a shutdown"));
    }
}

/// A shutdown in progress: a future of its report.
///
/// Dropping it changes nothing: the shutdown goes on.
#[must_use = "the shutdown goes on by itself, but only this tells when it is over"]
pub struct Shutdown {
    owner: Arc<Owner>,
    report: Pin<Box<dyn Future<Output = Arc<ShutdownReport>> + Send>>,
}

impl Shutdown {
    fn new(owner: Arc<Owner>) -> Self {
        let registry = Arc::clone(&owner.registry);
        Self { owner, report: Box::pin(async move { registry.report.wait().await }) }
    }

    /// Waits no longer than `limit`, on the caller's runtime.
    ///
    /// # Errors
    ///
    /// The shutdown is not over; it goes on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn within(self, limit: Duration) -> Result<Arc<ShutdownReport>, StillDraining> {
        timeout(limit, self).await.map_err(|_| StillDraining { waited: limit })
    }

    /// Blocks the thread until the shutdown is over, no longer than `limit`. For threads that belong to
    /// no runtime: on the supervisor's own runtime it would hold up what it waits for.
    ///
    /// # Errors
    ///
    /// The shutdown is not over; it goes on.
    pub fn wait(self, limit: Duration) -> Result<Arc<ShutdownReport>, StillDraining> {
        let report: &Latch<ShutdownReport> = &self.owner.registry.report;
        report.wait_blocking(limit).ok_or(StillDraining { waited: limit })
    }
}

impl Future for Shutdown {
    type Output = Arc<ShutdownReport>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.report.as_mut().poll(cx)
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("report", &self.owner.registry.report).finish_non_exhaustive()
    }
}

/// A removal in progress: a future of the server's report.
///
/// Dropping it changes nothing: the removal goes on.
#[must_use = "the removal goes on by itself, but only this tells when it is over"]
pub struct Removal(Pin<Box<dyn Future<Output = Arc<ServerReport>> + Send>>);

impl Future for Removal {
    type Output = Arc<ServerReport>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Removal").finish_non_exhaustive()
    }
}
