//! Servers that nobody here wrote, where `cargo xtask real-servers` has installed them.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, Handlers, HttpServer, ServerConfig, ServerSettings, StdioServer};
use mcp_lifecycle::{ServerHandle, ServerStatus, ShutdownReport, State};
use mcp_session::EraPolicy;
use mcp_transport::testing::checks::{Isolated, Process, isolated, marked, new_mark, until, until_some};
use mcp_transport::testing::fixture::MARK;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
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

    /// `server-everything` over Streamable HTTP.
    pub async fn everything_over_http(&self) -> Web {
        // Free a moment ago; nobody else on this machine asks for one that is not free.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = self.node("mcp-server-everything");
        Web { child: Web::spawn(&program, port).await, program, port }
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

/// A real server over HTTP, until it is dropped.
pub struct Web {
    child: Child,
    program: String,
    port: u16,
}

impl Web {
    pub fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.port)
    }

    /// Kills it and starts it again at the same address.
    pub async fn restart(&mut self) {
        self.kill();
        self.child = Self::spawn(&self.program, self.port).await;
    }

    async fn spawn(program: &str, port: u16) -> Child {
        let mut command = Command::new(program);
        command.arg("streamableHttp").env("PORT", port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let is_up = || ["127.0.0.1", "::1"].iter().any(|host| TcpStream::connect((*host, port)).is_ok());
        until(PATIENCE, "it listens", is_up).await;
        child
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.kill();
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
        Self::with(config, mark).await
    }

    /// Reaches a server that runs already and waits until it is ready.
    pub async fn at(server: HttpServer) -> Self {
        let config = ServerConfig::new("real", server, ServerSettings::default()).unwrap();
        Self::with(config, new_mark()).await
    }

    async fn with(config: ServerConfig, mark: String) -> Self {
        let client =
            Client::builder().environment(env::vars_os()).server(config).start(&Handle::current()).unwrap();
        let server = client.server("real").unwrap();
        let status = server.settled(Instant::now() + PATIENCE).await;
        assert!(status.state.is_ready(), "{status:?}");
        Self { handlers: client.handlers(), client, server, mark }
    }

    /// Calls a tool through the public handler.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let arguments = json!({"server": "real", "tool": tool, "arguments": arguments, "timeout_ms": 30_000});
        serde_json::from_str(&self.handlers.call_tool(&arguments.to_string()).await).unwrap()
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
        let status = self.server.status();
        assert_eq!((status.in_flight, status.waiting), (0, 0));
        let report = self.client.shutdown().await;
        // What the sweep of a group has killed takes a moment to die.
        until(DYING, "nothing is left", || self.processes().is_empty()).await;
        report
    }
}
