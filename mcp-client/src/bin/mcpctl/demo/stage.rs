use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, HttpServer, Reach, ServerConfig, ServerSettings, StdioServer};
use mcp_lifecycle::{BackoffOptions, BreakerOptions, ServerOptions};
use mcp_transport::process::{LocalProcesses, ProcessFactory};
use mcp_transport::testing::fixture::{Fixture, Transcript};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::sabotage::{Sabotage, Wiring};
use super::scan;
use super::web::WebServers;
use crate::exit::Exit;
use crate::problem::Problem;

pub(super) const HEALTHY: &str = "healthy";
pub(super) const MODERN: &str = "modern";
pub(super) const SILENT: &str = "silent";
pub(super) const CRASHING: &str = "crashing";
pub(super) const BROKEN: &str = "broken";
pub(super) const STUBBORN: &str = "stubborn";
pub(super) const WEB: &str = "web";
pub(super) const MODERN_WEB: &str = "modern-web";

/// The servers that are programs, which the client starts.
pub(super) const OVER_STDIO: [&str; 6] = [HEALTHY, MODERN, SILENT, CRASHING, BROKEN, STUBBORN];

/// The servers that listen on loopback, which the client only reaches.
pub(super) const OVER_HTTP: [&str; 2] = [WEB, MODERN_WEB];

/// What the broken server writes before it goes.
pub(super) const BROKEN_REASON: &str = "cannot open the database";

/// How often a server that never proves healthy is started before it is parked. The demo is impatient.
pub(super) const ATTEMPTS: u32 = 3;

/// How often such a server is started altogether. Its first end may have been the fault of the question
/// which era it speaks, so it is started once more without that question, and that is no strike.
pub(super) const STARTS: usize = ATTEMPTS as usize + 1;

/// So many losses in a row open the breaker of the crashing server.
pub(super) const BREAKER_STRIKES: usize = 3;

/// For so long: the demo is impatient here too.
pub(super) const BREAKER_OPEN: Duration = Duration::from_millis(1000);

/// How long shutting down may take.
pub(super) const SHUTDOWN_BOUND: Duration = Duration::from_secs(10);

/// All servers with their transcripts, and what was done to the client on purpose.
pub(super) struct Stage {
    /// Goes with everything in it when the demo ends.
    _folder: TempDir,
    servers: Vec<(&'static str, Fixture)>,
    processes: Arc<dyn ProcessFactory>,
    pub(super) wiring: Arc<Wiring>,
}

impl Stage {
    pub(super) fn build(sabotages: Vec<Sabotage>) -> Result<Self, Problem> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Problem::new(Exit::Failed, format!("the demo needs {what}: {error}"))
        };
        let program = std::env::current_exe().map_err(|error| failed("to know its own program", &error))?;
        let folder = tempfile::tempdir().map_err(|error| failed("a temporary folder", &error))?;
        let mut servers = Vec::new();
        for name in OVER_STDIO.into_iter().chain(OVER_HTTP) {
            let own = folder.path().join(name);
            std::fs::create_dir(&own).map_err(|error| failed("a temporary folder", &error))?;
            servers
                .push((name, script(name, Fixture::from_program(&program, &own).with_prefix(["fixture"]))));
        }
        Ok(Self {
            _folder: folder,
            servers,
            processes: Arc::new(LocalProcesses::new()),
            wiring: Arc::new(Wiring::new(sabotages)),
        })
    }

    /// Starts the client on all servers at once.
    pub(super) fn start(&self, web: &WebServers) -> Result<Client, Problem> {
        let problem = |error: &dyn std::fmt::Display| Problem::new(Exit::Failed, error.to_string());
        let mut builder = Client::builder()
            .client_info("mcpctl", env!("CARGO_PKG_VERSION"))
            .processes(Arc::clone(&self.processes))
            .supervisor(self.wiring.supervisor(SHUTDOWN_BOUND));
        for (name, fixture) in &self.servers {
            let reach = match web.url(name) {
                Some(url) => Reach::from(HttpServer::new(url).map_err(|error| problem(&error))?),
                None => Reach::from(program(fixture)),
            };
            let config = ServerConfig::new(*name, reach, ServerSettings::default())
                .map_err(|error| problem(&error))?;
            builder = builder.server(config);
        }
        let wiring = Arc::clone(&self.wiring);
        builder = builder.tune(move |name, options| wiring.options(name, impatient(name, options)));
        let wiring = Arc::clone(&self.wiring);
        builder = builder.wrap_connectors(move |name, connector| wiring.connector(name, connector));
        let wiring = Arc::clone(&self.wiring);
        builder = builder.wrap_processes(move |name, processes| wiring.processes(name, processes));
        builder.start(&Handle::current()).map_err(|error| problem(&error))
    }

    /// The servers that listen on loopback.
    pub(super) fn over_http(&self) -> impl Iterator<Item = (&'static str, &Fixture)> {
        let servers = self.servers.iter().filter(|(name, _)| OVER_HTTP.contains(name));
        servers.map(|(name, fixture)| (*name, fixture))
    }

    /// What a server has recorded so far.
    pub(super) fn transcript(&self, name: &str) -> Transcript {
        self.fixture(name).map(Fixture::transcript).unwrap_or_default()
    }

    /// The living processes of one server, seen from outside.
    pub(super) fn alive(&self, name: &str) -> Vec<i32> {
        self.fixture(name).map(|fixture| scan::marked(fixture.mark().1)).unwrap_or_default()
    }

    /// The living processes of all servers, seen from outside.
    pub(super) fn all_alive(&self) -> Vec<i32> {
        self.servers.iter().flat_map(|(_, fixture)| scan::marked(fixture.mark().1)).collect()
    }

    /// Ends what a broken guarantee, or an interrupt, has left behind.
    pub(super) fn clear_up(&self) {
        self.processes.kill_all();
        self.all_alive().into_iter().for_each(scan::kill);
    }

    fn fixture(&self, name: &str) -> Option<&Fixture> {
        self.servers.iter().find(|(known, _)| *known == name).map(|(_, fixture)| fixture)
    }
}

/// What makes each server what it is.
fn script(name: &str, fixture: Fixture) -> Fixture {
    let fixture = fixture.option("--name", name);
    match name {
        MODERN => fixture.option("--era", "modern"),
        WEB => fixture.option("--era", "legacy").option("--http", "events"),
        MODERN_WEB => fixture.option("--era", "modern").option("--http", "events"),
        CRASHING => fixture.option("--era", "legacy").option("--tool", "crash=crash:3"),
        // In trouble for as long as it takes to be parked.
        BROKEN => (1..=STARTS).fold(fixture.option("--era", "legacy"), |fixture, start| {
            fixture.on(&format!("start@{start}"), &format!("stderr {BROKEN_REASON}; exit 1"))
        }),
        STUBBORN => fixture
            .option("--era", "legacy")
            .flag("--ignore-stdin-close")
            .flag("--ignore-sigterm")
            .flag("--fork-grandchild"),
        _ => fixture.option("--era", "legacy"),
    }
}

/// How the client starts a server.
fn program(fixture: &Fixture) -> StdioServer {
    let (variable, mark) = fixture.mark();
    let arguments = fixture.arguments().iter().map(|argument| argument.to_string_lossy());
    StdioServer::new(fixture.program().to_string_lossy()).args(arguments).env(variable, mark)
}

/// Short delays between attempts: nobody wants to watch a demo wait.
fn impatient(name: &str, options: ServerOptions) -> ServerOptions {
    let backoff =
        BackoffOptions::default().with_first(Duration::from_millis(100)).with_cap(Duration::from_millis(400));
    let options = options.with_backoff(backoff).with_park_after(ATTEMPTS);
    match name {
        // It crashes more often than that in a row, to show something else.
        CRASHING => {
            let strikes = u32::try_from(BREAKER_STRIKES).unwrap_or(u32::MAX);
            let breaker = BreakerOptions::default().with_open_after(strikes).with_open_for(BREAKER_OPEN);
            options.with_breaker(breaker).with_park_after(10)
        }
        _ => options,
    }
}
