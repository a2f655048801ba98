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
}

#[derive(Debug, Default)]
struct Entries {
    servers: BTreeMap<Arc<str>, Arc<Server>>,
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
        check(&spec)?;
        let mut entries = self.entries();
        // Under the lock: whoever begins to close takes it as well, and finds every server.
        if self.runtime.is_closing() {
            return Err(AddError::ShuttingDown { name: spec.name });
        }
        if entries.servers.contains_key(spec.name.as_str()) {
            return Err(AddError::Duplicate { name: spec.name });
        }
        let ServerSpec { name, connector, options } = spec;
        let server = Arc::new(Server::new(name, options, entries.added, Arc::clone(&self.runtime)));
        entries.added += 1;
        entries.servers.insert(Arc::clone(&server.name), Arc::clone(&server));
        entries.new.push(NewServer { server: Arc::clone(&server), connector });
        self.runtime.servers.store(entries.servers.len(), Ordering::Relaxed);
        drop(entries);
        self.changed.notify_one();
        Ok(server)
    }

    /// Takes the servers that were added since the last time.
    pub(crate) fn take_new(&self) -> Vec<NewServer> {
        std::mem::take(&mut self.entries().new)
    }

    /// Forgets a server whose last task has ended; its name is free again.
    pub(crate) fn forget(&self, server: &Arc<Server>) {
        let mut entries = self.entries();
        if entries.servers.get(&server.name).is_some_and(|present| Arc::ptr_eq(present, server)) {
            entries.servers.remove(&server.name);
            self.runtime.servers.store(entries.servers.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.entries().servers.get(name).cloned()
    }

    /// All servers, in the order in which they were added.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers: Vec<_> = self.entries().servers.values().cloned().collect();
        servers.sort_unstable_by_key(|server| server.place);
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
