//! Servers that nobody here wrote, where `cargo xtask real-servers` has installed them.

pub mod browser;
pub mod web;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ClientBuilder, Handlers, HttpServer, ServerConfig, ServerSettings, StdioServer};
use mcp_lifecycle::{BackoffOptions, ServerHandle, ServerStatus, ShutdownReport, State};
use mcp_session::EraPolicy;
use mcp_transport::testing::checks::{Isolated, Process, isolated, marked, new_mark, until, until_some};
use mcp_transport::testing::fixture::MARK;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Longest wait for anything a server does; python takes its time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a killed process may still be seen.
const DYING: Duration = Duration::from_millis(100);

/// Names the folder; set by `cargo xtask`.
const VARIABLE: &str = "MCP_REAL_SERVERS";

/// Runs a test with the servers, alone in the process, and checks that it leaves nothing behind.
///
/// Where they are not installed the test passes and says so.
///
/// # Panics
///
/// They are not installed and this is CI, where a test that does not run proves nothing.
pub fn with_servers(test: impl AsyncFnOnce(&Installed, &Isolated)) {
    let Some(folder) = Installed::find() else { return };
    isolated(async |isolated| {
        // Made and removed while no other test counts descriptors.
        let installed = Installed { folder, work: tempfile::tempdir().unwrap() };
        test(&installed, isolated).await;
    });
}

/// The servers, and a folder for them to work in.
pub struct Installed {
    folder: PathBuf,
    work: TempDir,
}

impl Installed {
    fn find() -> Option<PathBuf> {
        let folder = env::var_os(VARIABLE);
        if folder.is_none() {
            assert!(
                env::var_os("CI").is_none(),
                "in CI the real servers must be installed ({VARIABLE} is not set)"
            );
            // Past the capture of the test harness, which keeps what passing tests print to itself.
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            let line = format!("SKIPPED: {name}: run `cargo xtask real-servers` (needs node and python)\n");
            io::stderr().write_all(line.as_bytes()).unwrap();
        }
        folder.map(PathBuf::from)
    }

    /// The folder that the file and git servers work in.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    /// `server-everything`, on the SDK of TypeScript; legacy.
    pub fn everything(&self) -> StdioServer {
        StdioServer::new(self.node("mcp-server-everything"))
    }

    /// The same, with every line that reaches it also in `transcript`.
    pub fn everything_overheard(&self, transcript: &Path) -> StdioServer {
        let script = r#"tee "$0" | exec "$1""#;
        let words = [transcript.to_str().unwrap(), &self.node("mcp-server-everything")].map(str::to_owned);
        StdioServer::new("sh").args(["-c", script]).args(words)
    }

    /// `server-filesystem` on the work folder, on the SDK of TypeScript; legacy.
    pub fn filesystem(&self) -> StdioServer {
        StdioServer::new(self.node("mcp-server-filesystem")).args([self.work().to_str().unwrap()])
    }

    /// `mcp-server-time`, on the SDK of Python; both eras.
    pub fn time(&self) -> StdioServer {
        StdioServer::new(self.python("mcp-server-time")).args(["--local-timezone", "Etc/UTC"])
    }

    /// `mcp-server-git` on the work folder, which becomes a repository with one commit; both eras.
    pub fn git(&self) -> StdioServer {
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(self.work())
                .args(["-c", "user.name=n", "-c", "user.email=e@example.com"])
                .args(args);
            assert!(git.output().unwrap().status.success(), "git {args:?}");
        };
        if !self.work().join(".git").exists() {
            git(&["init", "--quiet"]);
            fs::write(self.work().join("first.txt"), "one\n").unwrap();
            git(&["add", "."]);
            git(&["commit", "--quiet", "--no-gpg-sign", "-m", "the first commit"]);
        }
        StdioServer::new(self.python("mcp-server-git")).args(["--repository", self.work().to_str().unwrap()])
    }

    fn node(&self, name: &str) -> String {
        self.program("node/node_modules/.bin", name)
    }

    fn python(&self, name: &str) -> String {
        self.program("python/bin", name)
    }

    fn program(&self, folder: &str, name: &str) -> String {
        let program = self.folder.join(folder).join(name);
        assert!(program.exists(), "{} is missing: run `cargo xtask real-servers`", program.display());
        program.to_str().unwrap().to_owned()
    }
}

/// A client with one real server, and the mark that finds the processes of that server from outside.
pub struct Running {
    pub client: Client,
    pub handlers: Handlers,
    pub server: ServerHandle,
    mark: String,
}

impl Running {
    /// Starts the server and waits until it is ready.
    pub async fn start(program: StdioServer, era: EraPolicy) -> Self {
        let mark = new_mark();
        let mut settings = ServerSettings::default();
        settings.era = era;
        let config = ServerConfig::new("real", program.env(MARK, mark.as_str()), settings).unwrap();
        Self::with(Client::builder().server(config), mark).await
    }

    /// Reaches a server that runs already and waits until it is ready.
    pub async fn at(server: HttpServer, era: EraPolicy) -> Self {
        let mut settings = ServerSettings::default();
        settings.era = era;
        let config = ServerConfig::new("real", server, settings).unwrap();
        // Where nobody listens an attempt fails at once, and the usual number of them is over sooner than
        // a server in Python has been started anew.
        let backoff = BackoffOptions::default().with_cap(Duration::from_millis(300));
        let builder = Client::builder().server(config);
        let builder =
            builder.tune(move |_, options| options.with_park_after(100).with_backoff(backoff.clone()));
        Self::with(builder, new_mark()).await
    }

    async fn with(builder: ClientBuilder, mark: String) -> Self {
        let client = builder.environment(env::vars_os()).start(&Handle::current()).unwrap();
        let server = client.server("real").unwrap();
        let status = server.settled(Instant::now() + PATIENCE).await;
        assert!(status.state.is_ready(), "{status:?}");
        Self { handlers: client.handlers(), client, server, mark }
    }

    /// Calls a tool through the public handler.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.begin(tool, &arguments).await.unwrap()
    }

    /// Begins a call in a task of its own.
    pub fn begin(&self, tool: &str, arguments: &Value) -> JoinHandle<Value> {
        let request = json!({"server": "real", "tool": tool, "arguments": arguments, "timeout_ms": 30_000});
        let handlers = self.handlers.clone();
        tokio::spawn(
            async move { serde_json::from_str(&handlers.call_tool(&request.to_string()).await).unwrap() },
        )
    }

    /// The processes of the server, seen from outside.
    pub fn processes(&self) -> Vec<Process> {
        marked(&self.mark)
    }

    /// Waits until the server is ready on a later connection than `generation`.
    pub async fn ready_after(&self, generation: u64) -> ServerStatus {
        until_some(PATIENCE, "ready again", || {
            let status = self.server.status();
            let is_later = matches!(status.state, State::Ready { generation: now } if now > generation);
            is_later.then_some(status)
        })
        .await
    }

    /// Shuts down and checks that the server went by itself and that nothing of it is left.
    pub async fn finish(self) {
        let report = self.stop().await;
        assert!(report.is_clean(), "{report:?}");
    }

    /// Shuts down and checks that nothing is left.
    pub async fn stop(self) -> Arc<ShutdownReport> {
        // Lists may still be fetched: a modern server is asked once more when it has begun to tell of changes.
        let is_quiet = || {
            let status = self.server.status();
            (status.in_flight, status.waiting) == (0, 0)
        };
        until(PATIENCE, "no call is left under way", is_quiet).await;
        let report = self.client.shutdown().await;
        // What the sweep of a group has killed takes a moment to die.
        until(DYING, "nothing is left", || self.processes().is_empty()).await;
        report
    }
}
