use std::time::Duration;

use mcp_transport::process::{Command, Graces, LocalProcesses, Process, ProcessEnd, ProcessFactory};
use mcp_transport::testing::fixture::Fixture;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::stage::Stage;
use crate::exit::Exit;
use crate::problem::Problem;

/// How long a server may take to listen.
const LISTENING: Duration = Duration::from_secs(10);

/// A URL on loopback is much shorter.
const MAX_URL_BYTES: u64 = 256;

/// How long the servers may take to end, all together.
const ENDING: Duration = Duration::from_secs(5);

/// The servers over HTTP: this program again, listening on free ports of loopback.
///
/// They belong to the demo and not to the client, as a server elsewhere does. Dropping them kills them.
pub(super) struct WebServers {
    servers: Vec<(&'static str, WebServer)>,
    /// Their own, because a client takes over the one that it is given.
    _processes: LocalProcesses,
}

struct WebServer {
    url: String,
    stdin: pipe::Sender,
    process: Box<dyn Process>,
}

impl WebServers {
    /// Starts all of them and waits until they listen.
    pub(super) async fn start(stage: &Stage) -> Result<Self, Problem> {
        let processes = LocalProcesses::new();
        let mut servers = Vec::new();
        for (name, fixture) in stage.over_http() {
            servers.push((name, WebServer::start(&processes, fixture).await?));
        }
        Ok(Self { servers, _processes: processes })
    }

    /// Where a server listens; `None` if it is none of these.
    pub(super) fn url(&self, name: &str) -> Option<&str> {
        self.server(name).map(|server| server.url.as_str())
    }

    /// Makes a server forget its sessions, as if it had been started anew.
    pub(super) fn forget_sessions(&self, name: &str) {
        if let Some(server) = self.server(name) {
            // Short and the first in its pipe, so it fits; a server that has gone shows by itself.
            let _ = server.stdin.try_write(b"forget-sessions\n");
        }
    }

    /// Closes the input of all of them, with which they end.
    pub(super) async fn stop(self) {
        let by = Instant::now() + ENDING;
        let ends: Vec<_> = self.servers.into_iter().map(|(_, server)| server.begin_stop(by)).collect();
        for mut end in ends {
            // Nothing comes only if the factory is gone, and with it the process.
            let _ = end.wait_for(Option::is_some).await;
        }
    }

    fn server(&self, name: &str) -> Option<&WebServer> {
        self.servers.iter().find(|(known, _)| *known == name).map(|(_, server)| server)
    }
}

impl WebServer {
    async fn start(processes: &dyn ProcessFactory, fixture: &Fixture) -> Result<Self, Problem> {
        let failed = |error: &dyn std::fmt::Display| {
            Problem::new(Exit::Failed, format!("the demo needs a server over HTTP: {error}"))
        };
        let (variable, mark) = fixture.mark();
        let command = Command::new(fixture.program()).args(fixture.arguments()).env(variable, mark);
        let child = processes.spawn(&command).await.map_err(|error| failed(&error))?;
        let stdin = pipe::Sender::from_owned_fd(child.stdin).map_err(|error| failed(&error))?;
        let stdout = pipe::Receiver::from_owned_fd(child.stdout).map_err(|error| failed(&error))?;
        let mut stdout = BufReader::new(stdout.take(MAX_URL_BYTES));
        let mut url = String::new();
        match timeout(LISTENING, stdout.read_line(&mut url)).await {
            Ok(Ok(_)) if url.ends_with('\n') => {}
            Ok(Ok(_)) => return Err(failed(&"it ended before it listened")),
            Ok(Err(error)) => return Err(failed(&error)),
            Err(_) => return Err(failed(&"it does not listen in time")),
        }
        // It says no more.
        let stdout = stdout.into_inner().into_inner();
        child.process.discard_output(stdout.into_nonblocking_fd().map_err(|error| failed(&error))?);
        Ok(Self { url: url.trim_end().to_owned(), stdin, process: child.process })
    }

    /// Closes its input; the end will be announced.
    fn begin_stop(self, by: Instant) -> watch::Receiver<Option<ProcessEnd>> {
        let Self { stdin, process, .. } = self;
        drop(stdin);
        process.begin_stop(Graces::default(), by);
        process.end()
    }
}
