use std::time::Duration;

use mcp_client::{Client, ServerConfig};
use mcp_lifecycle::{Failure, ServerHandle, ServerStatus, ShutdownReport, State};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::credentials;
use crate::exit::Exit;
use crate::host::Host;
use crate::interrupts::Interrupts;
use crate::output::{Output, human, safe};
use crate::problem::Problem;

/// How long to wait for servers to settle if the command line sets no limit. Each attempt has a limit of
/// its own, so this one is only there to have an end in any case.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// The time that a command was given, from its start; without one, servers and calls have their own limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    began: Instant,
    total: Option<Duration>,
}

impl Limit {
    /// Begins to measure.
    pub(crate) fn begin(total: Option<Duration>) -> Self {
        Self { began: Instant::now(), total }
    }

    /// The end of the time that was given.
    pub(crate) fn deadline(self) -> Option<Instant> {
        self.total.map(|total| self.began + total)
    }

    /// How long to wait for servers at most.
    pub(crate) fn patience(self) -> Instant {
        self.began + self.total.unwrap_or(LONGEST_WAIT)
    }

    /// How long it has been.
    pub(crate) fn elapsed(self) -> Duration {
        self.began.elapsed()
    }
}

/// How often servers are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Once: somebody waits for the answer.
    Once,
    /// For as long as the program runs.
    Supervised,
}

/// Starts a client, works with it, and stops it in order, whatever happens.
///
/// The first interrupt ends the work and drains; the second one kills.
pub(crate) async fn with_client<T>(
    host: &Host,
    output: &Output,
    persistence: Persistence,
    servers: Vec<ServerConfig>,
    work: impl AsyncFnOnce(&Client) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::new(Exit::Failed, error.to_string());
    let mut interrupts = Interrupts::listen().map_err(|error| failed(&error))?;
    let mut builder =
        Client::builder().environment(host.variables()).client_info("mcpctl", env!("CARGO_PKG_VERSION"));
    builder = builder.authorization(credentials::authorization(host));
    for server in servers {
        builder = builder.server(server);
    }
    if persistence == Persistence::Once {
        builder = builder.tune(|_, options| options.with_park_after(1));
    }
    let client = builder.start(&Handle::current()).map_err(|error| failed(&error))?;
    let outcome = tokio::select! {
        biased;
        () = interrupts.next() => Err(Problem::interrupted()),
        outcome = work(&client) => outcome,
    };
    let report = tokio::select! {
        biased;
        () = interrupts.next() => {
            client.kill();
            return Err(Problem::interrupted());
        }
        report = client.shutdown() => report,
    };
    complain(output, &report);
    outcome
}

/// Waits until a server takes calls; otherwise says why it does not.
pub(crate) async fn ready(server: &ServerHandle, limit: Limit) -> Result<ServerStatus, Problem> {
    let status = server.settled(limit.patience()).await;
    match unreachable(&status) {
        None => Ok(status),
        Some(_) if !status.state.is_settled() => {
            let (name, waited) = (safe(&status.name), human(limit.elapsed()));
            let why = match &status.last_error {
                Some(failure) => explained(failure),
                None => "give it more time, or see with -vvvv what it does".to_owned(),
            };
            let message = format!("server \"{name}\" did not get ready within {waited}: {why}");
            Err(Problem::new(Exit::TimedOut, message).retryable(true))
        }
        Some(reason) if matches!(status.state, State::NeedsAuth) => Err(Problem::new(
            Exit::NeedsAuthorization,
            format!("server \"{}\": {reason}", safe(&status.name)),
        )),
        Some(reason) => {
            let message = format!("server \"{}\": {reason}", safe(&status.name));
            Err(Problem::new(Exit::Unreachable, message).retryable(may_pass(&status)))
        }
    }
}

/// Why a server takes no calls and what can be done about it; `None` if it does.
fn unreachable(status: &ServerStatus) -> Option<String> {
    match status.state {
        State::Ready { .. } => None,
        State::Disabled => Some("it is disabled by the configuration; set \"enabled\" to true".to_owned()),
        State::NeedsAuth => {
            let failure =
                status.last_error.as_ref().map(|failure| format!(" ({failure})")).unwrap_or_default();
            Some(format!("it wants to know who is asking{failure} — {}", login_advice(&status.name)))
        }
        _ => Some(match &status.last_error {
            Some(failure) => explained(failure),
            None => format!("it is {}", status.state.name()),
        }),
    }
}

/// What to do about a server that wants credentials.
pub(crate) fn login_advice(server: &str) -> String {
    format!("log in with: mcpctl login {}", safe(server))
}

/// Whether the server may be reached later without another configuration.
fn may_pass(status: &ServerStatus) -> bool {
    let is_permanent = status.last_error.as_ref().is_some_and(|failure| failure.is_permanent());
    !is_permanent && !matches!(status.state, State::Disabled)
}

/// What went wrong, and what can be done about it.
fn explained(failure: &Failure) -> String {
    match failure.remedy() {
        Some(remedy) => format!("{failure} — {remedy}"),
        None => failure.to_string(),
    }
}

/// Tells what did not stop as it should.
fn complain(output: &Output, report: &ShutdownReport) {
    for server in &report.servers {
        for exceeded in &server.exceeded {
            let (name, what) = (safe(&server.name), safe(&exceeded.what));
            output.message(format!("warning: server \"{name}\" while stopping: {what}"));
        }
    }
}
