//! Real servers over HTTP.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mcp_client::HttpServer;
use mcp_transport::testing::checks::{marked, new_mark, until};
use mcp_transport::testing::fixture::MARK;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::TcpSocket;

use super::{DYING, Installed, PATIENCE};

/// The source of a server in Python, on `mcp`.
const IN_PYTHON: &str = include_str!("server.py");

/// The source of a server in JavaScript, on `@modelcontextprotocol/server`.
const IN_JAVASCRIPT: &str = include_str!("server.mjs");

/// The source of an authorization server and the server that it protects, on `oidc-provider` and
/// `@modelcontextprotocol/server`.
const AUTHORIZATION: &str = include_str!("authorization.mjs");

/// Makes a server of node tell what it is asked.
const OVERHEAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/installed/overhear.cjs");

/// A server over HTTP at an address of its own, in a process group of its own, until it is dropped.
pub struct Web {
    command: Command,
    child: Child,
    address: SocketAddr,
    /// Bound and never listening, so that nobody else gets the port while the server is down.
    _reserved: TcpSocket,
    log: PathBuf,
    mark: String,
}

impl Installed {
    /// `server-everything` over Streamable HTTP; legacy, with sessions. Its log is what it is asked.
    pub async fn everything_over_http(&self) -> Web {
        let program = self.node("mcp-server-everything");
        self.web("everything", |port, log| {
            let mut command = Command::new(program);
            command.arg("streamableHttp").env("PORT", port.to_string());
            command.env("NODE_OPTIONS", format!("--require {OVERHEAR}")).env("OVERHEARD", log);
            command
        })
        .await
    }

    /// A server on the SDK of Python; both eras, with sessions in the legacy one.
    pub async fn in_python_over_http(&self) -> Web {
        let python = self.python("python");
        self.web("python", |port, log| {
            let mut command = Command::new(python);
            command.args(["-c", IN_PYTHON]).arg(port.to_string()).arg(log);
            command
        })
        .await
    }

    /// A server on the SDK of TypeScript; both eras, without sessions.
    pub async fn in_javascript_over_http(&self) -> Web {
        self.script("javascript", IN_JAVASCRIPT, &[]).await
    }

    /// The same behind an authorization server whose refresh tokens can be used once.
    pub async fn protected(&self) -> Web {
        self.script("protected", AUTHORIZATION, &["Bearer"]).await
    }

    /// The same with tokens that are bound to a key, and with nonces of both servers.
    pub async fn protected_by_keys(&self) -> Web {
        self.script("bound", AUTHORIZATION, &["DPoP"]).await
    }

    async fn script(&self, name: &str, source: &str, more: &[&str]) -> Web {
        let packages = self.folder.join("node");
        self.web(name, |port, log| {
            let mut command = Command::new("node");
            // What it imports is looked for from here.
            command.current_dir(packages);
            command.args(["--input-type=module", "--eval", source]).arg(port.to_string()).arg(log).args(more);
            command
        })
        .await
    }

    async fn web(&self, name: &str, command: impl FnOnce(u16, &Path) -> Command) -> Web {
        let reserved = TcpSocket::new_v4().unwrap();
        // As servers do; it lets one of them listen where another socket is merely bound.
        reserved.set_reuseaddr(true).unwrap();
        reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = reserved.local_addr().unwrap();
        let log = self.work().join(format!("{name}.log"));
        let mut command = command(address.port(), &log);
        let mark = new_mark();
        command.env(MARK, &mark).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = start(&mut command, address).await;
        Web { command, child, address, _reserved: reserved, log, mark }
    }
}

impl Web {
    pub fn server(&self) -> HttpServer {
        HttpServer::new(format!("http://{}/mcp", self.address)).unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The lines of its log so far.
    pub fn log(&self) -> Vec<String> {
        // Without a first line there is no file.
        fs::read_to_string(&self.log).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
    }

    /// How many lines of its log are this one.
    pub fn logged(&self, line: &str) -> usize {
        self.log().iter().filter(|logged| *logged == line).count()
    }

    /// Starts it again at the same address, after it was killed.
    pub async fn start(&mut self) {
        self.child = start(&mut self.command, self.address).await;
    }

    /// Ends it and checks that nothing of it is left.
    pub async fn finish(mut self) {
        self.kill();
        until(DYING, "nothing is left of it", || marked(&self.mark).is_empty()).await;
        assert!(TcpStream::connect(self.address).is_err(), "nobody listens at {}", self.address);
    }

    /// Ends it, in the middle of whatever it does.
    pub fn kill(&mut self) {
        // Once it has been reaped, its number may be somebody else's.
        if self.child.try_wait().unwrap().is_none() {
            kill_process_group(Pid::from_child(&self.child), Signal::KILL).unwrap();
            self.child.wait().unwrap();
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn start(command: &mut Command, address: SocketAddr) -> Child {
    let mut child = command.spawn().unwrap();
    until(PATIENCE, "it listens", || {
        assert_eq!(child.try_wait().unwrap(), None, "it ended instead of listening");
        TcpStream::connect(address).is_ok()
    })
    .await;
    child
}
