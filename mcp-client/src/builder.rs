use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use mcp_lifecycle::{AddError, RecessOptions, ServerOptions, ServerSpec, Startup, SupervisorOptions};
use mcp_proto::{
    CreateMessage, CreateMessageResult, ElicitForm, ElicitResult, ElicitUrl, ErrorObject, Implementation,
    Redactor, Root, Secret,
};
use mcp_session::{Asker, ClientHandler, SessionOptions};
use mcp_transport::Connector;
use mcp_transport::auth::OAuth;
use mcp_transport::http::{HttpBackend, HttpConnector, HttpLimits, HyperBackend};
use mcp_transport::process::{Command, Inherited, LocalProcesses, ProcessFactory};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use tokio::runtime::Handle;

use crate::authorization::Authorization;
use crate::blocking::RuntimeError;
use crate::client::Client;
use crate::config::{
    ConfigError, ConfigFault, ConfigFile, HttpServer, Place, Reach, ServerConfig, ServerSettings,
    StdioServer, ToolFilter,
};
use crate::serving::Serving;

/// Puts a [`Client`] together.
#[derive(Debug, Default)]
#[must_use = "nothing is started before `start`"]
pub struct ClientBuilder {
    servers: Vec<Entry>,
    launch: Launch,
    supervisor: SupervisorOptions,
}

/// How programs are started; shared by all of them.
#[derive(Clone)]
pub(crate) struct Launch {
    /// How the client introduces itself.
    client_info: Implementation,
    environment: Inherited,
    processes: Option<Arc<dyn ProcessFactory>>,
    http: Option<Arc<dyn HttpBackend>>,
    authorization: Authorization,
    tune: Option<Tune>,
    wrap_connector: Option<Wrap<dyn Connector>>,
    wrap_processes: Option<Wrap<dyn ProcessFactory>>,
    serving: Serving,
    has_tasks: bool,
}

/// Changes the options of a server before it is added.
type Tune = Arc<dyn Fn(&str, ServerOptions) -> ServerOptions + Send + Sync>;

/// Puts something in front of a server's part, given the server's name.
type Wrap<T> = Arc<dyn Fn(&str, Arc<T>) -> Arc<T> + Send + Sync>;

/// One server that will be added.
pub(crate) enum Entry {
    /// Somebody else knows how to reach it.
    Connector {
        name: String,
        connector: Arc<dyn Connector>,
        options: Box<ServerOptions>,
        secrets: Vec<Secret>,
    },
    /// It has a configuration.
    Configured { server: Box<ServerConfig>, origin: Origin },
}

/// Who has named a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Code,
    /// A file, which may be read again.
    File,
}

/// The client could not be started; nothing was left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A server was not accepted.
    #[error("{0}")]
    Add(#[from] AddError),
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The background runtime could not be started.
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
}

impl ClientBuilder {
    /// Adds a program that speaks over standard input and output, with default settings.
    ///
    /// # Errors
    ///
    /// The name or the program is nothing that could be started.
    pub fn stdio(self, name: impl Into<String>, program: StdioServer) -> Result<Self, ConfigError> {
        Ok(self.server(ServerConfig::new(name, program, ServerSettings::default())?))
    }

    /// Adds a server that is reached over Streamable HTTP, with default settings.
    ///
    /// # Errors
    ///
    /// The name is empty.
    pub fn http(self, name: impl Into<String>, server: HttpServer) -> Result<Self, ConfigError> {
        Ok(self.server(ServerConfig::new(name, server, ServerSettings::default())?))
    }

    /// Adds a server with its settings.
    pub fn server(mut self, server: ServerConfig) -> Self {
        self.servers.push(Entry::program(server, Origin::Code));
        self
    }

    /// Adds every server of a configuration file that can be started.
    ///
    /// Its [`refused`](ConfigFile::refused) entries and warnings are for the caller to show.
    pub fn config(mut self, config: ConfigFile) -> Self {
        self.servers.extend(config.servers.into_iter().map(|server| Entry::program(server, Origin::File)));
        self
    }

    /// Adds a server that is reached in a way of its own. Its `secrets` are never shown.
    pub fn connector(
        mut self,
        name: impl Into<String>,
        connector: Arc<dyn Connector>,
        options: ServerOptions,
        secrets: impl IntoIterator<Item = Secret>,
    ) -> Self {
        let (options, secrets) = (Box::new(options), secrets.into_iter().collect());
        self.servers.push(Entry::Connector { name: name.into(), connector, options, secrets });
        self
    }

    /// The environment that programs may inherit from: they see an allow-list of it, and nothing else.
    ///
    /// Without it, programs see only their own variables, and commands are looked up nowhere. Pass
    /// [`std::env::vars_os`]: unlike `vars`, it does not panic at a variable that is no text.
    pub fn environment<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.launch.environment = variables.into_iter().collect();
        self
    }

    /// Starts processes through `processes`; by default the client makes a factory of its own.
    ///
    /// The client takes the factory over: [`Client::kill`], and dropping the client without a shutdown,
    /// kill *every* process of it. Give each client one of its own.
    pub fn processes(mut self, processes: Arc<dyn ProcessFactory>) -> Self {
        self.launch.processes = Some(processes);
        self
    }

    /// Makes HTTP requests through `backend`; by default hyper and rustls do.
    pub fn http_backend(mut self, backend: Arc<dyn HttpBackend>) -> Self {
        self.launch.http = Some(backend);
        self
    }

    /// How servers over HTTP are authorized for. By default credentials end with the client, and nobody is
    /// asked.
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.launch.authorization = authorization;
        self
    }

    /// The name and the version under which the client introduces itself to its servers; without this,
    /// those of this crate. A server whose own options name a client is told that one.
    pub fn client_info(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        let title = self.launch.client_info.title.take();
        self.launch.client_info = Implementation::new(name, version);
        self.launch.client_info.title = title;
        self
    }

    /// The name for people that goes with [`client_info`](Self::client_info).
    pub fn client_title(mut self, title: impl Into<String>) -> Self {
        self.launch.client_info.title = Some(title.into());
        self
    }

    /// Tells every server which folders and files it may work in;
    /// [`Client::set_roots`] changes them.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.launch.serving.set_roots(roots.into_iter().collect());
        self
    }

    /// Runs a model for any server that asks, without tools; see [`ClientHandler::create_message`].
    ///
    /// `Asker` names the server: show that name to the person who has to agree.
    pub fn on_sampling<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(Asker, CreateMessage) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    {
        self.launch.serving.set_sampling(answer);
        self
    }

    /// Asks a person to fill in a form for any server; see [`ClientHandler::elicit`].
    ///
    /// Time that the person takes is not taken from the server's, but a call's deadline goes on.
    pub fn on_elicitation<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(Asker, ElicitForm) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, ErrorObject>> + Send + 'static,
    {
        self.launch.serving.set_form(answer);
        self
    }

    /// Asks a person to open a URL for any server; see [`ClientHandler::elicit`].
    ///
    /// Nothing here opens it. Open it only after the person has seen the whole of it and agreed.
    pub fn on_url_elicitation<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(Asker, ElicitUrl) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, ErrorObject>> + Send + 'static,
    {
        self.launch.serving.set_url(answer);
        self
    }

    /// Lets modern servers make tasks of calls, which then go on until the task is over; see
    /// [`SessionOptions::with_tasks`](mcp_session::SessionOptions::with_tasks). Default not.
    ///
    /// A task often takes longer than a call may: 300 s, unless its entry says otherwise.
    pub fn tasks(mut self) -> Self {
        self.launch.has_tasks = true;
        self
    }

    /// Serves with `handler` whatever the methods above do not.
    ///
    /// What is served is declared to every server but those whose own options name a handler.
    pub fn handler(mut self, handler: Arc<dyn ClientHandler>) -> Self {
        self.launch.serving.set_rest(handler);
        self
    }

    /// Changes the options of each program, given its name, after its configuration has set them.
    pub fn tune(
        mut self,
        tune: impl Fn(&str, ServerOptions) -> ServerOptions + Send + Sync + 'static,
    ) -> Self {
        self.launch.tune = Some(Arc::new(tune));
        self
    }

    /// Puts something in front of the connector of each program, given its name: to watch, or to inject
    /// faults.
    pub fn wrap_connectors(
        mut self,
        wrap: impl Fn(&str, Arc<dyn Connector>) -> Arc<dyn Connector> + Send + Sync + 'static,
    ) -> Self {
        self.launch.wrap_connector = Some(Arc::new(wrap));
        self
    }

    /// Puts something in front of the process factory of each program, given its name: to watch, to
    /// contain more strictly, or to inject faults.
    pub fn wrap_processes(
        mut self,
        wrap: impl Fn(&str, Arc<dyn ProcessFactory>) -> Arc<dyn ProcessFactory> + Send + Sync + 'static,
    ) -> Self {
        self.launch.wrap_processes = Some(Arc::new(wrap));
        self
    }

    /// Sets the limits that concern all servers together.
    pub fn supervisor(mut self, options: SupervisorOptions) -> Self {
        self.supervisor = options;
        self
    }

    /// Starts the client and its servers on `runtime`. Does not wait for any connection.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; nothing was left behind.
    pub fn start(self, runtime: &Handle) -> Result<Client, StartError> {
        let Self { servers, mut launch, supervisor } = self;
        refuse_duplicates(&servers)?;
        let info = &launch.client_info;
        launch.authorization = launch.authorization.called(info.title.as_ref().unwrap_or(&info.name));
        let processes = launch.processes.take().unwrap_or_else(|| Arc::new(LocalProcesses::new()));
        let client = Client::new(supervisor, processes, launch, runtime);
        for server in servers {
            client.add_entry(server)?;
        }
        Ok(client)
    }
}

fn refuse_duplicates(servers: &[Entry]) -> Result<(), ConfigError> {
    let mut names = BTreeSet::new();
    match servers.iter().map(Entry::name).find(|name| !names.insert(*name)) {
        Some(twice) => Err(ConfigError::new(Place::server(twice), ConfigFault::Duplicate)),
        None => Ok(()),
    }
}

impl Entry {
    pub(crate) fn program(server: ServerConfig, origin: Origin) -> Self {
        Self::Configured { server: Box::new(server), origin }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Connector { name, .. } => name,
            Self::Configured { server, .. } => &server.name,
        }
    }

    pub(crate) fn secrets(&self) -> &[Secret] {
        match self {
            Self::Connector { secrets, .. } => secrets,
            Self::Configured { server, .. } => &server.secrets,
        }
    }

    /// What a file has said of the server, if it comes from one.
    pub(crate) fn in_file(&self) -> Option<&ServerConfig> {
        match self {
            Self::Configured { server, origin: Origin::File } => Some(server),
            _ => None,
        }
    }

    pub(crate) fn filter(&self) -> ToolFilter {
        match self {
            Self::Connector { .. } => ToolFilter::default(),
            Self::Configured { server, .. } => server.settings.tools.clone(),
        }
    }
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            client_info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            environment: Inherited::default(),
            has_tasks: false,
            processes: None,
            http: None,
            authorization: Authorization::default(),
            tune: None,
            wrap_connector: None,
            wrap_processes: None,
            serving: Serving::default(),
        }
    }
}

impl Launch {
    /// Makes what the supervisor needs to run a server, and what that is authorized with.
    pub(crate) fn spec(
        &self,
        entry: Entry,
        processes: &Arc<dyn ProcessFactory>,
        redactor: &Arc<Redactor>,
    ) -> (ServerSpec, Option<OAuth>) {
        match entry {
            Entry::Connector { name, connector, options, .. } => {
                let options = self.introduce(self.serve(discreet(*options, redactor)));
                (ServerSpec::new(name, connector).with_options(options), None)
            }
            Entry::Configured { server, .. } => {
                let name = server.name.as_str();
                let oauth = match &server.reach {
                    Reach::Http(address) => self.authorization.of(name, address),
                    Reach::Stdio(_) => None,
                };
                let connector = self.connector(&server, oauth.as_ref(), processes, redactor);
                let connector = wrapped(self.wrap_connector.as_ref(), name, connector);
                let options = self.introduce(self.serve(discreet(options(&server), redactor)));
                let options = match &self.tune {
                    Some(tune) => tune(name, options),
                    None => options,
                };
                let mut spec = ServerSpec::new(name, connector).with_options(options);
                if let (Some(oauth), Reach::Http(address)) = (&oauth, &server.reach) {
                    spec = spec.with_authorizer(self.authorization.authorizer(address, oauth.clone()));
                }
                (spec, oauth)
            }
        }
    }

    /// Has the server told who connects, unless its options say somebody else.
    fn introduce(&self, mut options: ServerOptions) -> ServerOptions {
        if options.session.client_info == SessionOptions::default().client_info {
            options.session = options.session.with_client_info(self.client_info.clone());
        }
        options
    }

    /// Answers servers with other roots from now on; `false` if there were none to be answered with.
    pub(crate) fn change_roots(&self, roots: Vec<Root>) -> bool {
        self.serving.change_roots(roots)
    }

    /// Lets the client answer what the server asks, unless somebody else does.
    fn serve(&self, mut options: ServerOptions) -> ServerOptions {
        if self.has_tasks {
            options.session = options.session.with_tasks();
        }
        match self.serving.handler() {
            Some(handler) if !options.session.has_handler() => options.with_handler(handler),
            _ => options,
        }
    }

    fn connector(
        &self,
        server: &ServerConfig,
        oauth: Option<&OAuth>,
        processes: &Arc<dyn ProcessFactory>,
        redactor: &Arc<Redactor>,
    ) -> Arc<dyn Connector> {
        match &server.reach {
            Reach::Http(address) => {
                let backend = self.http.clone().unwrap_or_else(|| Arc::new(HyperBackend::default()));
                let endpoint = address.endpoint().clone();
                let connector = HttpConnector::new(backend, endpoint, HttpLimits::default());
                let authorized = oauth.map(|oauth| connector.clone().with_auth(Arc::new(oauth.clone())));
                // Where there is a header in the way, there is no `oauth`.
                Arc::new(authorized.and_then(Result::ok).unwrap_or(connector))
            }
            Reach::Stdio(program) => {
                let processes = wrapped(self.wrap_processes.as_ref(), &server.name, Arc::clone(processes));
                let command = self.command(&server.name, program).redactor(Arc::clone(redactor));
                Arc::new(StdioConnector::new(processes, command, StdioLimits::default()))
            }
        }
    }

    fn command(&self, name: &str, program: &StdioServer) -> Command {
        let mut command = Command::new(program.command.as_str())
            .args(program.args.iter().map(String::as_str))
            .inherit_shared(self.environment.clone())
            .server(name);
        for (name, value) in &program.env {
            command = command.env(name.as_str(), value.expose());
        }
        match &program.cwd {
            Some(directory) => command.cwd(directory),
            None => command,
        }
    }
}

fn wrapped<T: ?Sized>(wrap: Option<&Wrap<T>>, name: &str, inner: Arc<T>) -> Arc<T> {
    match wrap {
        Some(wrap) => wrap(name, inner),
        None => inner,
    }
}

/// Keeps secrets out of the errors of a server's sessions.
fn discreet(options: ServerOptions, redactor: &Arc<Redactor>) -> ServerOptions {
    let session = options.session.clone().with_redactor(Arc::clone(redactor));
    options.with_session(session)
}

/// What a configuration says, in the terms of the lifecycle; what it does not say keeps its default.
fn options(server: &ServerConfig) -> ServerOptions {
    let settings = &server.settings;
    let mut options = ServerOptions::default();
    if let Reach::Stdio(_) = server.reach {
        let recess = RecessOptions::default();
        options =
            options.with_recess(recess.with_idle(settings.idle_timeout).with_age(settings.max_lifetime));
    }
    if !settings.enabled {
        options = options.with_startup(Startup::Disabled);
    }
    if let Some(limit) = settings.connect_timeout {
        options = options.with_connect_limit(limit);
    }
    if let Some(calls) = settings.in_flight {
        options = options.with_in_flight(calls);
    }
    let mut session = options.session.clone().with_era(settings.era);
    if let Some(limit) = settings.timeout {
        let hard = session.hard_limit.max(limit);
        session = session.with_call_limit(limit).with_hard_limit(hard);
    }
    if let Reach::Http(address) = &server.reach
        && let Some(extension) = address.oauth_settings().and_then(|settings| settings.grant.extension())
    {
        session = session.with_extension(extension);
    }
    options.with_session(session).with_idempotent_tools(settings.idempotent_tools.clone())
}

/// Shows no values: the environment may hold secrets.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("environment", &self.environment)
            .field("processes", &self.processes)
            .field("serving", &self.serving)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name()).finish()
    }
}
