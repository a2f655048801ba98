use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_transport::Connector;
use tokio::sync::Notify;

use crate::error::AddError;
use crate::latch::Latch;
use crate::options::ServerSpec;
use crate::report::ShutdownReport;
use crate::runtime::Runtime;
use crate::server::Server;

/// The servers of one supervisor by name, shared by its handle and its root task.
///
/// A server is here before its first connection is made and until its last task has ended.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) runtime: Arc<Runtime>,
    /// Tells the root task that something has changed here.
    pub(crate) changed: Notify,
    /// Whether the root task shall shut down.
    is_stopping: AtomicBool,
    /// How the shutdown went.
    pub(crate) report: Latch<ShutdownReport>,
    entries: Mutex<Entries>,
}

/// A server that nobody has started yet, with what only its owner will hold.
#[derive(Debug)]
pub(crate) struct NewServer {
    pub(crate) server: Arc<Server>,
    pub(crate) connector: Arc<dyn Connector>,
    /// The server whose place it takes: it does not begin before nothing of that is left.
    pub(crate) predecessor: Option<Arc<Server>>,
}

#[derive(Debug, Default)]
struct Entries {
    servers: BTreeMap<Arc<str>, Arc<Server>>,
    /// Those that were replaced and have not ended yet, in the order in which they were.
    replaced: Vec<Arc<Server>>,
    /// Added and not yet taken over by the root task.
    new: Vec<NewServer>,
    added: u64,
}

impl Registry {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            changed: Notify::new(),
            is_stopping: AtomicBool::new(false),
            report: Latch::new(),
            entries: Mutex::default(),
        }
    }

    /// Registers a server; the root task starts it.
    pub(crate) fn add(&self, spec: ServerSpec) -> Result<Arc<Server>, AddError> {
        self.register(spec, Taken::Refuse)
    }

    /// Registers a server in the place of the one that has its name, if there is one.
    pub(crate) fn replace(&self, spec: ServerSpec) -> Result<Arc<Server>, AddError> {
        self.register(spec, Taken::Replace)
    }

    fn register(&self, spec: ServerSpec, taken: Taken) -> Result<Arc<Server>, AddError> {
        check(&spec)?;
        let mut entries = self.entries();
        // Under the lock: whoever begins to close takes it as well, and finds every server.
        if self.runtime.is_closing() {
            return Err(AddError::ShuttingDown { name: spec.name });
        }
        let predecessor = entries.servers.get(spec.name.as_str()).cloned();
        if predecessor.is_some() && taken == Taken::Refuse {
            return Err(AddError::Duplicate { name: spec.name });
        }
        let ServerSpec { name, connector, options, authorizer } = spec;
        let place = predecessor.as_ref().map_or(entries.added, |before| before.place);
        let succession = predecessor.as_ref().map(|before| before.next_succession()).unwrap_or_default();
        let server =
            Arc::new(Server::new(name, options, authorizer, place, Arc::clone(&self.runtime), succession));
        entries.added += 1;
        entries.servers.insert(Arc::clone(&server.name), Arc::clone(&server));
        if let Some(before) = &predecessor {
            before.give_way_to(&server);
            entries.replaced.push(Arc::clone(before));
        }
        entries.new.push(NewServer { server: Arc::clone(&server), connector, predecessor });
        self.runtime.servers.store(entries.servers.len(), Ordering::Relaxed);
        drop(entries);
        self.changed.notify_one();
        Ok(server)
    }

    /// Takes the servers that were added since the last time.
    pub(crate) fn take_new(&self) -> Vec<NewServer> {
        std::mem::take(&mut self.entries().new)
    }

    /// Forgets a server whose last task has ended; its name is free again, unless another one has it.
    pub(crate) fn forget(&self, server: &Arc<Server>) {
        let mut entries = self.entries();
        entries.replaced.retain(|replaced| !Arc::ptr_eq(replaced, server));
        if entries.servers.get(&server.name).is_some_and(|present| Arc::ptr_eq(present, server)) {
            entries.servers.remove(&server.name);
            self.runtime.servers.store(entries.servers.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.entries().servers.get(name).cloned()
    }

    /// All servers that have a name, in the order in which they were added.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers: Vec<_> = self.entries().servers.values().cloned().collect();
        servers.sort_unstable_by_key(|server| server.place);
        servers
    }

    /// All servers, also those that were replaced and have not ended, each before its successor.
    pub(crate) fn everybody(&self) -> Vec<Arc<Server>> {
        let entries = self.entries();
        let mut servers: Vec<_> = entries.replaced.iter().chain(entries.servers.values()).cloned().collect();
        servers.sort_by_key(|server| server.place);
        servers
    }

    /// Refuses new servers and calls from now on.
    pub(crate) fn close(&self) {
        let _entries = self.entries();
        self.runtime.close();
    }

    /// Tells the root task to shut down.
    pub(crate) fn stop(&self) {
        self.close();
        self.is_stopping.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do about a name that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Refuse,
    Replace,
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
        ("refresh.spacing", options.refresh.spacing.is_zero()),
        ("keepalive.interval", options.keepalive.interval.is_some_and(|interval| interval.is_zero())),
        ("keepalive.reply_limit", options.keepalive.reply_limit.is_zero()),
        ("keepalive.misses", options.keepalive.misses == 0),
        ("recess.idle", options.recess.idle.is_some_and(|limit| limit.is_zero())),
        ("recess.age", options.recess.age.is_some_and(|limit| limit.is_zero())),
        ("breaker.open_after", options.breaker.open_after == 0),
    ];
    match zero.into_iter().find(|(_, is_zero)| *is_zero) {
        Some((what, _)) => Err(AddError::Limit { name: spec.name.clone(), what }),
        None => Ok(()),
    }
}
