use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcp_lifecycle::{
    AddError, CallError, Removal, ServerEvent, ServerHandle, ServerStatus, Shutdown, Supervisor,
    SupervisorOptions,
};
use mcp_proto::{Redactor, Root, Secret};
use mcp_transport::auth::{AuthUi, OAuth, Revocation};
use mcp_transport::process::ProcessFactory;
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::authorization::{Insist, LoginError};
use crate::builder::{ClientBuilder, Entry, Launch, Origin};
use crate::config::{ConfigFile, ServerConfig};
use crate::handlers::Handlers;
use crate::offer::Offer;
use crate::outcome::Failure;
use crate::registry::ToolRegistry;
use crate::reload::{Change, Files, Reload};

/// How long a server may take to be told that the roots have changed.
const ROOTS_LIMIT: Duration = Duration::from_secs(10);

/// Many servers, each supervised on its own.
///
/// The client owns everything it has started. [`shutdown`](Self::shutdown) ends it in order, and
/// dropping it without that kills every child at once.
#[derive(Debug)]
#[must_use = "dropping the client kills its servers"]
pub struct Client {
    supervisor: Arc<Supervisor>,
    processes: Arc<dyn ProcessFactory>,
    launch: Launch,
    shared: Arc<Shared>,
    /// The servers that files have named. Held while a server is added, replaced or removed.
    files: Mutex<Files>,
    /// What the servers over HTTP are authorized with, by their names.
    authorized: Mutex<BTreeMap<String, OAuth>>,
}

/// The client was built without [`ClientBuilder::roots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client was built without roots")]
pub struct NoRoots;

impl Client {
    /// Begins a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn new(
        options: SupervisorOptions,
        processes: Arc<dyn ProcessFactory>,
        launch: Launch,
        runtime: &Handle,
    ) -> Self {
        let to_kill = Arc::clone(&processes);
        let options = options.with_kill(move || to_kill.kill_all());
        let supervisor = Arc::new(Supervisor::start(runtime, options));
        let shared = Arc::new(Shared::new(Arc::downgrade(&supervisor)));
        Self { supervisor, processes, launch, shared, files: Mutex::default(), authorized: Mutex::default() }
    }

    /// Names other folders and files that the servers may work in, in the place of those of
    /// [`ClientBuilder::roots`], and tells every connected server whose protocol version has a notice for
    /// that; each is given 10 s to take it. Modern servers ask anew each time.
    ///
    /// # Errors
    ///
    /// The client was built without roots, so that no server knows that there are any; nothing has changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future keeps the new roots; some servers may not be told.
    pub async fn set_roots(&self, roots: impl IntoIterator<Item = Root>) -> Result<(), NoRoots> {
        if !self.launch.change_roots(roots.into_iter().collect()) {
            return Err(NoRoots);
        }
        let by = Instant::now() + ROOTS_LIMIT;
        let tell = |server: ServerHandle| async move {
            if let Err(error) = server.roots_changed(by).await {
                tracing::debug!(server = server.name(), %error, "a server was not told that the roots have changed");
            }
        };
        let mut telling: FuturesUnordered<_> = self.servers().into_iter().map(tell).collect();
        while telling.next().await.is_some() {}
        Ok(())
    }

    /// Adds a server and starts it.
    ///
    /// # Errors
    ///
    /// The name is taken, or the client is shutting down.
    pub fn add(&self, server: ServerConfig) -> Result<ServerHandle, AddError> {
        self.add_entry(Entry::program(server, Origin::Code))
    }

    pub(crate) fn add_entry(&self, entry: Entry) -> Result<ServerHandle, AddError> {
        // The filter stands before anybody can see the server, and a server that has the name already
        // keeps its own: nobody else adds one between these steps.
        let mut files = self.files();
        let name = entry.name().to_owned();
        if self.supervisor.server(&name).is_some() {
            return Err(AddError::Duplicate { name });
        }
        self.put(&mut files, entry)
    }

    /// Adds a server in the place of the one that has its name, if there is one. No call is lost by that:
    /// see [`Supervisor::replace`].
    ///
    /// # Errors
    ///
    /// A limit makes no sense, or the client is shutting down; everything stays as it was.
    pub fn replace(&self, server: ServerConfig) -> Result<ServerHandle, AddError> {
        self.put(&mut self.files(), Entry::program(server, Origin::Code))
    }

    /// Brings the servers that files have named in line with a file that was read again, and touches no
    /// other: see [`Reload`]. Does not wait for anything.
    ///
    /// Whatever follows each other in a short time, the last file counts, and no server is started for one
    /// that was overtaken. A server whose entry cannot be used any more stays as it is.
    pub fn reload(&self, config: ConfigFile) -> Reload {
        let mut files = self.files();
        let mut reload = Reload::default();
        for name in files.missing_in(&config) {
            // It goes on by itself.
            drop(self.take_out(&mut files, &name));
            reload.removed.push(name);
        }
        for server in config.servers {
            let name = server.name.clone();
            match files.change_to(&server) {
                Change::Nothing => {
                    reload.unchanged.push(name);
                    continue;
                }
                Change::InPlace { enabled } => {
                    self.shared.lock().offer.set_filter(name.clone(), server.settings.tools.clone());
                    let handle = self.supervisor.server(&name);
                    match (handle, enabled) {
                        (Some(handle), Some(true)) => handle.enable(),
                        (Some(handle), Some(false)) => handle.disable(),
                        _ => {}
                    }
                    files.note(server);
                }
                Change::Replace => {
                    if let Err(error) = self.put(&mut files, Entry::program(server, Origin::File)) {
                        reload.failed.push(error);
                        continue;
                    }
                }
            }
            reload.changed.push(name);
        }
        reload
    }

    /// Puts a server in its place, whoever has its name. After an error everything is as it was.
    fn put(&self, files: &mut Files, entry: Entry) -> Result<ServerHandle, AddError> {
        let (name, filter, in_file) = (entry.name().to_owned(), entry.filter(), entry.in_file().cloned());
        self.shared.learn(entry.secrets());
        let (spec, oauth) = self.launch.spec(entry, &self.processes, &self.shared.redactor());
        let before = self.shared.lock().offer.known_filter(&name);
        self.shared.lock().offer.set_filter(name.clone(), filter);
        let placed = self.supervisor.replace(spec);
        if placed.is_ok() {
            self.authorize_with(&name, oauth);
        }
        match (&placed, in_file) {
            (Err(_), _) => self.shared.lock().offer.restore_filter(name, before),
            (Ok(_), Some(server)) => files.note(server),
            (Ok(_), None) => files.forget(&name),
        }
        placed
    }

    /// Takes a server out, if there is one of this name. Its filter stands for as long as anybody can see it.
    fn take_out(&self, files: &mut Files, name: &str) -> Option<Removal> {
        let removal = self.supervisor.remove(name);
        files.forget(name);
        self.authorize_with(name, None);
        self.shared.lock().offer.forget_filter(name);
        removal
    }

    fn authorize_with(&self, name: &str, oauth: Option<OAuth>) {
        let mut authorized = self.authorized.lock().unwrap_or_else(PoisonError::into_inner);
        match oauth {
            Some(oauth) => authorized.insert(name.to_owned(), oauth),
            None => authorized.remove(name),
        };
    }

    /// What a server is authorized with, and the server.
    fn authorized(&self, name: &str) -> Result<(OAuth, ServerHandle), LoginError> {
        let server = || name.to_owned();
        let handle =
            self.supervisor.server(name).ok_or_else(|| LoginError::UnknownServer { server: server() })?;
        let authorized = self.authorized.lock().unwrap_or_else(PoisonError::into_inner);
        let oauth = authorized.get(name).cloned().ok_or_else(|| LoginError::NoLogin { server: server() })?;
        Ok((oauth, handle))
    }

    /// Has a person log in to a server over HTTP, through `ui`; joins a login of it that is going on. The
    /// server is woken with the new credentials.
    ///
    /// Only one login at a time asks a person, over all servers of the client: others wait for their turn.
    ///
    /// # Errors
    ///
    /// See [`LoginError`]; the credentials that were there are as they were.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the login, unless others wait for it too.
    pub async fn login(&self, server: &str, ui: Arc<dyn AuthUi>, insist: Insist) -> Result<(), LoginError> {
        let (oauth, handle) = self.authorized(server)?;
        let login = oauth.login(ui, insist == Insist::Always).await;
        login.map_err(|error| LoginError::Failed { server: server.to_owned(), error })?;
        handle.wake();
        Ok(())
    }

    /// Forgets the credentials of a server over HTTP, also where they are kept, asks the authorization server
    /// to take them back, and ends the connection.
    ///
    /// # Errors
    ///
    /// See [`LoginError`]; then they are not forgotten.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the credentials.
    pub async fn logout(&self, server: &str) -> Result<Revocation, LoginError> {
        let (oauth, handle) = self.authorized(server)?;
        let logout = oauth.logout().await;
        let revocation = logout.map_err(|error| LoginError::Failed { server: server.to_owned(), error })?;
        handle.reconnect(handle.status().generation);
        Ok(revocation)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops and forgets a server; `None` if there is none of this name.
    ///
    /// It is stopped whether or not the future is awaited; its name is free when that completes.
    #[must_use = "the name is free only when it completes"]
    pub fn remove(&self, name: &str) -> Option<Removal> {
        self.take_out(&mut self.files(), name)
    }

    /// The server called `name`.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<ServerHandle> {
        self.supervisor.server(name)
    }

    /// Every server, in the order in which they were added.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerHandle> {
        self.supervisor.servers()
    }

    /// Follows what happens to the servers; a slow subscriber loses the oldest events.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.supervisor.events()
    }

    /// Gives the error of a call that was made through a [`ServerHandle`] the form that handlers give
    /// theirs, without any configured secret.
    #[must_use]
    pub fn failure(&self, server: &str, error: &CallError) -> Failure {
        Failure::call(server, error).redacted(&self.shared.redactor())
    }

    /// The state of every server.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.supervisor.servers().iter().map(ServerHandle::status).collect()
    }

    /// The tools that are offered right now: those of servers that are parked or gone are not.
    #[must_use]
    pub fn registry(&self) -> Arc<ToolRegistry> {
        self.shared.registry()
    }

    /// The five operations for an agent.
    #[must_use]
    pub fn handlers(&self) -> Handlers {
        Handlers::new(Arc::clone(&self.shared))
    }

    /// Takes every configured secret, and what looks like one, out of a text that is to be shown.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.shared.redactor().redact(text).into_owned()
    }

    /// Ends everything in order: refuse new calls, let running ones finish, stop every server, report.
    ///
    /// The sequence belongs to the client: it begins at once, giving the future up does not stop it,
    /// and calling again waits for the same one.
    pub fn shutdown(&self) -> Shutdown {
        self.shared.is_closing.store(true, Ordering::Release);
        self.supervisor.shutdown()
    }

    /// Kills every child process at once, without asking. Needs no runtime.
    ///
    /// That is every process of the client's factory, also of one that was given to
    /// [`ClientBuilder::processes`].
    pub fn kill(&self) {
        self.processes.kill_all();
    }
}

/// What handlers share with their client. It does not keep the client alive.
#[derive(Debug)]
pub(crate) struct Shared {
    supervisor: Weak<Supervisor>,
    /// Set before the shutdown begins: a server that is missing afterwards is no unknown name.
    is_closing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    redactor: Arc<Redactor>,
    offer: Offer,
}

impl Shared {
    fn new(supervisor: Weak<Supervisor>) -> Self {
        Self { supervisor, is_closing: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Learns the secrets of a server before anything of it can be shown.
    fn learn(&self, secrets: &[Secret]) {
        let mut state = self.lock();
        let mut redactor = Redactor::clone(&state.redactor);
        secrets.iter().for_each(|secret| redactor.add(secret));
        state.redactor = Arc::new(redactor);
    }

    pub(crate) fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.lock().redactor)
    }

    pub(crate) fn server(&self, name: &str) -> Result<ServerHandle, Failure> {
        let supervisor = self.supervisor.upgrade().ok_or_else(Failure::shutting_down)?;
        supervisor.server(name).ok_or_else(|| match self.is_closing.load(Ordering::Acquire) {
            true => Failure::shutting_down(),
            false => Failure::unknown_server(name),
        })
    }

    /// Whether the filters let the tool be called.
    pub(crate) fn allows(&self, server: &str, tool: &str) -> bool {
        self.lock().offer.filter(server).allows(tool)
    }

    /// Server and own name of the tool that has this minted name, also while it is withdrawn.
    pub(crate) fn owner_of(&self, name: &str) -> Option<(String, String)> {
        self.refreshed().offer.owner_of(name)
    }

    fn registry(&self) -> Arc<ToolRegistry> {
        self.refreshed().offer.registry()
    }

    fn refreshed(&self) -> MutexGuard<'_, State> {
        let servers = self.supervisor.upgrade().map(|supervisor| supervisor.servers()).unwrap_or_default();
        let mut state = self.lock();
        state.offer.refresh(&servers);
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything in it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
