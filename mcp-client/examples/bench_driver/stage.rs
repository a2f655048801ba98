use std::num::NonZeroUsize;
use std::time::Duration;

use mcp_client::{Client, HttpServer, Reach, ServerConfig, ServerSettings, StdioServer};
use mcp_lifecycle::{ServerHandle, ShutdownReport};
use mcp_proto::{CallTool, CallToolResult, RawJson};
use mcp_session::{CallOptions, EraPolicy};
use mcp_transport::Ending;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::Outcome;
use crate::flags::{self, Flags, Protocol};

/// How long a server may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Calls in flight that a server gets without being asked.
const USUAL_IN_FLIGHT: u32 = 64;

/// The client that is measured, with its default settings.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    flags: &'a Flags,
    pub(crate) client: Client,
}

impl<'a> Stage<'a> {
    pub(crate) fn start(flags: &'a Flags) -> Outcome<Self> {
        let client = Client::builder().environment(std::env::vars_os()).start(&Handle::current())?;
        Ok(Self { flags, client })
    }

    /// Adds a server, with `more` arguments for its program; does not wait for it.
    pub(crate) fn add(&self, name: &str, more: &[&str]) -> Outcome<ServerHandle> {
        let reach = match &self.flags.reach {
            flags::Reach::Http { url } => Reach::Http(HttpServer::new(url)?),
            flags::Reach::Stdio { program, args } => {
                let program = StdioServer::new(program).args(args).args(more.iter().copied());
                Reach::Stdio(program.args(["--tag", &self.flags.tag]))
            }
        };
        Ok(self.client.add(ServerConfig::new(name, reach, settings(self.flags))?)?)
    }

    /// Adds a server and waits until calls can be made.
    pub(crate) async fn open(&self, name: &str, more: &[&str]) -> Outcome<ServerHandle> {
        let server = self.add(name, more)?;
        ready(&server).await?;
        Ok(server)
    }

    /// Ends everything.
    pub(crate) async fn end(self) -> Outcome<()> {
        match unended(&*self.client.shutdown().await) {
            0 => Ok(()),
            servers => Err(format!("{servers} servers were not seen to end").into()),
        }
    }
}

/// Waits until calls can be made.
pub(crate) async fn ready(server: &ServerHandle) -> Outcome<()> {
    let status = server.settled(Instant::now() + READY_WITHIN).await;
    if status.state.is_ready() { Ok(()) } else { Err(format!("no connection: {status:?}").into()) }
}

/// How many servers, or tasks of theirs, did not end when everything was closed.
pub(crate) fn unended(report: &ShutdownReport) -> usize {
    let failed = |ending| ending == Ending::Abandoned;
    report.servers.iter().filter(|server| failed(server.ending) || server.tasks_aborted > 0).count()
}

/// Makes one measured call, and checks its answer.
pub(crate) async fn echo(server: &ServerHandle, message: &str, flags: &Flags) -> Outcome<()> {
    check(&server.call(echo_of(message)?, options(flags)).await?, message)
}

/// Asks for `message` to be sent back.
pub(crate) fn echo_of(message: &str) -> Outcome<CallTool> {
    #[derive(Serialize)]
    struct Arguments<'a> {
        message: &'a str,
    }
    Ok(CallTool::new("echo").with_arguments(RawJson::encode(&Arguments { message })?))
}

/// What a measured call may do.
pub(crate) fn options(flags: &Flags) -> CallOptions {
    match flags.params.deadline_ms {
        0 => CallOptions::default(),
        limit => CallOptions::default().with_deadline(Instant::now() + Duration::from_millis(limit.into())),
    }
}

/// Whether as much came back as was sent.
pub(crate) fn check(answer: &CallToolResult, message: &str) -> Outcome<()> {
    match text(answer)?.len() {
        length if length == message.len() => Ok(()),
        length => Err(format!("{} bytes were sent, {length} came back", message.len()).into()),
    }
}

/// The text of an answer that has one block.
pub(crate) fn text(answer: &CallToolResult) -> Outcome<&str> {
    let text = answer.content.first().and_then(|block| block.as_text()).ok_or("an answer has no text")?;
    if answer.is_error { Err(format!("the tool failed: {text}").into()) } else { Ok(text) }
}

fn settings(flags: &Flags) -> ServerSettings {
    let mut settings = ServerSettings::default();
    settings.era = match flags.protocol {
        Protocol::Legacy => EraPolicy::Legacy,
        Protocol::Modern => EraPolicy::Modern,
    };
    // Whoever wants more calls in flight than usual has to say so.
    let wanted = flags.params.concurrency.max(USUAL_IN_FLIGHT);
    settings.in_flight = usize::try_from(wanted).ok().and_then(NonZeroUsize::new);
    settings
}
