use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ServerConfig, ServerSettings, StdioServer};
use mcp_lifecycle::{ServerHandle, ServerOptions, ShutdownReport};
use mcp_proto::{CallTool, RawJson};
use mcp_transport::Ending;
use mcp_transport::testing::checks::{Baseline, new_mark};
use mcp_transport::testing::fixture::MARK;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::table::Table;
use crate::{Outcome, SERVER};

/// How long a server may take to become ready before the run is given up.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long the counts of the system may lag behind.
const LAG: Duration = Duration::from_secs(1);

/// The client, and what there was before it.
pub(crate) struct Stage {
    before: Baseline,
    client: Client,
    program: String,
    mark: String,
}

impl Stage {
    /// Starts a client whose servers get the options that `tune` makes of theirs.
    pub(crate) fn start(
        tune: impl Fn(&str, ServerOptions) -> ServerOptions + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let before = Baseline::take();
        let client = Client::builder().tune(tune).start(&Handle::current())?;
        let program =
            std::env::current_exe()?.to_str().ok_or("this program has a path that is no text")?.to_owned();
        Ok(Self { before, client, program, mark: new_mark() })
    }

    /// Adds a server with the flags of the fixture server; does not wait for it.
    pub(crate) fn add(&self, name: &str, flags: &[&str]) -> Outcome<ServerHandle> {
        let program = StdioServer::new(&self.program).args([SERVER]).args(flags.iter().copied());
        let program = program.env(MARK, self.mark.as_str());
        Ok(self.client.add(ServerConfig::new(name, program, ServerSettings::default())?)?)
    }

    /// Ends everything. What is not as it was before goes into the table, and its names to stderr.
    pub(crate) async fn end(self, table: &mut Table) -> Outcome<Arc<ShutdownReport>> {
        let report = self.client.shutdown().await;
        drop(self.client);
        let abandoned = report.servers.iter().filter(|server| server.ending == Ending::Abandoned).count();
        table.count("servers that were not seen to end", abandoned, 0);
        let by = Instant::now() + LAG;
        let mut left = self.before.left();
        while !left.is_empty() && Instant::now() < by {
            sleep(Duration::from_millis(5)).await;
            left = self.before.left();
        }
        left.iter().for_each(|left| eprintln!("left behind: {left}"));
        table.count("tasks, descriptors and children left behind", left.len(), 0);
        Ok(report)
    }
}

/// Waits until calls can be made.
pub(crate) async fn ready(server: &ServerHandle) -> Outcome<()> {
    let status = server.settled(Instant::now() + READY_WITHIN).await;
    if status.state.is_ready() { Ok(()) } else { Err(format!("no connection: {status:?}").into()) }
}

/// A call of `tool` that sends `message` and asks for an answer after `delay`.
pub(crate) fn call_of(tool: &str, message: &str, delay: Duration) -> Outcome<CallTool> {
    #[derive(Serialize)]
    struct Arguments<'a> {
        message: &'a str,
        delay_ms: u64,
    }
    let delay_ms = u64::try_from(delay.as_millis())?;
    Ok(CallTool::new(tool).with_arguments(RawJson::encode(&Arguments { message, delay_ms })?))
}
