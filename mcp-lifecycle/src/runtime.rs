use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, Semaphore, SemaphorePermit, broadcast};
use tokio::time::Instant;

use crate::error::AddError;
use crate::event::ServerEvent;
use crate::latch::Latch;
use crate::options::{ServerSpec, SupervisorOptions};
use crate::pace::Pacer;
use crate::report::ShutdownReport;
use crate::server::{Place, Server};
use crate::stop_plan::StopPlan;

/// What the handles of one supervisor and its root task have in common.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) options: SupervisorOptions,
    pub(crate) seed: u64,
    /// Tells the root task that the registry has changed.
    pub(crate) changed: Notify,
    /// The deadlines of the shutdown, once it has begun.
    pub(crate) plan: OnceLock<StopPlan>,
    pub(crate) report: Latch<ShutdownReport>,
    registry: Mutex<Registry>,
    is_closing: AtomicBool,
    calls: AtomicUsize,
    connects: Semaphore,
    pacer: Mutex<Pacer>,
    events: broadcast::Sender<ServerEvent>,
}

/// The servers by name. A server is here before its first connection is made and until its last task
/// has ended.
#[derive(Debug, Default)]
struct Registry {
    servers: BTreeMap<Arc<str>, Arc<Server>>,
    /// Added and not yet taken over by the root task.
    new: Vec<Arc<Server>>,
    added: u64,
}

impl Runtime {
    pub(crate) fn new(options: SupervisorOptions) -> Self {
        Self {
            // Hashing nothing with the standard hasher's random keys is a random number.
            seed: options.seed.unwrap_or_else(|| RandomState::new().hash_one(())),
            changed: Notify::new(),
            plan: OnceLock::new(),
            report: Latch::new(),
            registry: Mutex::default(),
            is_closing: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            connects: Semaphore::new(options.connects.clamp(1, Semaphore::MAX_PERMITS)),
            pacer: Mutex::default(),
            events: broadcast::Sender::new(options.events.max(1)),
            options,
        }
    }

    /// Registers a server; the root task starts it.
    pub(crate) fn add(self: &Arc<Self>, spec: ServerSpec) -> Result<Arc<Server>, AddError> {
        check(&spec)?;
        let mut registry = self.registry();
        // Under the lock: whoever begins to close takes it afterwards and finds every server.
        if self.is_closing() {
            return Err(AddError::ShuttingDown { name: spec.name });
        }
        if registry.servers.contains_key(spec.name.as_str()) {
            return Err(AddError::Duplicate { name: spec.name });
        }
        let server = Arc::new(Server::new(spec, registry.added, Arc::clone(self)));
        registry.added += 1;
        registry.servers.insert(Arc::clone(&server.name), Arc::clone(&server));
        registry.new.push(Arc::clone(&server));
        drop(registry);
        self.changed.notify_one();
        Ok(server)
    }

    /// Takes the servers that were added since the last time.
    pub(crate) fn take_new(&self) -> Vec<Arc<Server>> {
        std::mem::take(&mut self.registry().new)
    }

    /// Forgets a server whose last task has ended; its name is free again.
    pub(crate) fn forget(&self, server: &Arc<Server>) {
        let mut registry = self.registry();
        if registry.servers.get(&server.name).is_some_and(|present| Arc::ptr_eq(present, server)) {
            registry.servers.remove(&server.name);
        }
    }

    pub(crate) fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.registry().servers.get(name).cloned()
    }

    /// All servers, in the order in which they were added.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers: Vec<_> = self.registry().servers.values().cloned().collect();
        servers.sort_unstable_by_key(|server| server.place);
        servers
    }

    /// Forgets all servers and returns them.
    ///
    /// A server refers to its runtime and is in its registry: without this, neither would ever go.
    pub(crate) fn forget_all(&self) -> Vec<Arc<Server>> {
        let mut registry = self.registry();
        registry.new.clear();
        std::mem::take(&mut registry.servers).into_values().collect()
    }

    /// Refuses new servers and calls from now on, and tells the root task.
    pub(crate) fn close(&self) {
        let registry = self.registry();
        self.is_closing.store(true, Ordering::Release);
        drop(registry);
        self.changed.notify_one();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Takes a place among the calls of all servers.
    pub(crate) fn take_call(&self) -> Option<Place<'_>> {
        Place::take(&self.calls, self.options.in_flight)
    }

    /// Waits for one of the places among the connections that are being opened.
    pub(crate) async fn connect_place(&self) -> Option<SemaphorePermit<'_>> {
        self.connects.acquire().await.ok()
    }

    /// When a connection that follows a loss may begin.
    pub(crate) fn book_reconnect(&self, now: Instant) -> Instant {
        let servers = self.registry().servers.len();
        self.pacer.lock().unwrap_or_else(PoisonError::into_inner).book(servers, now)
    }

    pub(crate) fn emit(&self, event: ServerEvent) {
        // No subscriber is no error: the event is for whoever listens.
        let _ = self.events.send(event);
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.events.subscribe()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses limits under which a server could never work.
fn check(spec: &ServerSpec) -> Result<(), AddError> {
    let options = &spec.options;
    let zero = [
        ("connect_limit", options.connect_limit.is_zero()),
        ("close_limit", options.close_limit.is_zero()),
        ("park_after", options.park_after == 0),
        ("park_probe", options.park_probe.is_zero()),
        ("attempts", options.attempts == 0),
        ("keepalive.interval", options.keepalive.interval.is_some_and(|interval| interval.is_zero())),
        ("keepalive.reply_limit", options.keepalive.reply_limit.is_zero()),
        ("keepalive.misses", options.keepalive.misses == 0),
        ("breaker.open_after", options.breaker.open_after == 0),
    ];
    match zero.into_iter().find(|(_, is_zero)| *is_zero) {
        Some((what, _)) => Err(AddError::Limit { name: spec.name.clone(), what }),
        None => Ok(()),
    }
}
