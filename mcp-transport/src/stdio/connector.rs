use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use super::limits::StdioLimits;
use super::link::Link;
use super::receive::StdioReceive;
use super::transport::StdioTransport;
use crate::connection::{ConnectError, Connection, Connector};
use crate::process::{Child, Command, ProcessFactory, SpawnError, os_error};

/// Opens connections to a server by starting it, each time anew.
///
/// # Examples
///
/// ```no_run
/// use std::sync::Arc;
///
/// use mcp_transport::process::{Command, LocalProcesses};
/// use mcp_transport::stdio::{StdioConnector, StdioLimits};
///
/// let command = Command::new("mcp-server-time").inherit([("PATH", "/usr/bin:/bin")]);
/// let connector = StdioConnector::new(Arc::new(LocalProcesses::new()), command, StdioLimits::default());
/// ```
#[derive(Debug, Clone)]
pub struct StdioConnector {
    factory: Arc<dyn ProcessFactory>,
    command: Command,
    limits: StdioLimits,
}

impl StdioConnector {
    /// Makes a connector; nothing is started yet.
    #[must_use]
    pub fn new(factory: Arc<dyn ProcessFactory>, command: Command, limits: StdioLimits) -> Self {
        Self { factory, command, limits }
    }

    /// Puts a connection together; a child that cannot be used is killed as it is dropped.
    fn open(&self, child: Child) -> Result<Connection, SpawnError> {
        let refuse = |error: io::Error| os_error(&error, &self.command);
        let stdin = pipe::Sender::from_owned_fd(child.stdin).map_err(refuse)?;
        let stdout = pipe::Receiver::from_owned_fd(child.stdout).map_err(refuse)?;
        let server = self.command.display_name();
        let link = Arc::new(Link::new(stdin, stdout, child.process, self.limits.clone(), server));
        let receive = Box::new(StdioReceive::new(Arc::clone(&link)));
        Ok(Connection::new(Arc::new(StdioTransport::new(link)), receive))
    }
}

#[async_trait]
impl Connector for StdioConnector {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let spawned = timeout_at(by, self.factory.spawn(&self.command)).await;
        let child = spawned.map_err(|_| ConnectError::Timeout)??;
        Ok(self.open(child)?)
    }
}
