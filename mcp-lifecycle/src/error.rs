use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::Method;
use mcp_session::CallOutcome;

use crate::failure::Failure;
use crate::state::ParkReason;

/// How much of the scopes that a server asks for a message shows, in bytes.
const SHOWN_SCOPE_BYTES: usize = 200;

/// A call through a supervisor ended without a value. Names the server and what can be done.
///
/// [`outcome`](Self::outcome) tells whether the server can have acted on the request.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The connection keeps breaking under calls; nothing was sent. Try again later.
    #[error("server {server:?} refuses calls: its connection keeps breaking{}", after(*.retry_in))]
    CircuitOpen {
        /// The server.
        server: Arc<str>,
        /// When calls are let through again; zero while one call is trying whether it works.
        retry_in: Duration,
    },
    /// The server is switched off, before the call or during it. Switch it on.
    #[error("server {server:?} is disabled{}; enable it first", aftermath(*.outcome))]
    Disabled {
        /// The server.
        server: Arc<str>,
        /// What is known of the request: not sent, or what became of it when the time for running calls was
        /// over.
        outcome: CallOutcome,
    },
    /// The server accepts the credentials, but not for this request, on which it has not acted. Log in for
    /// more; other calls may be made meanwhile.
    #[error("server {server:?}, {method}: a wider scope is needed{}; log in for that", named(.required))]
    InsufficientScope {
        /// The server.
        server: Arc<str>,
        /// The operation.
        method: Method,
        /// All scopes that are needed, separated by spaces, as far as that is known. Untrusted; the message
        /// shows the first 200 bytes, escaped.
        required: Option<String>,
    },
    /// The server wants credentials, or others than it got; it has not acted on the request. Log in, then
    /// [wake](crate::ServerHandle::wake) it.
    #[error("server {server:?} wants credentials{}; log in first", because(.reason.as_deref()))]
    NeedsAuth {
        /// The server.
        server: Arc<str>,
        /// Not sent, or rejected if this very call was refused.
        outcome: CallOutcome,
        /// Why there are none, as far as that is known.
        reason: Option<String>,
    },
    /// Too many calls are waiting; nothing was sent. Try again later.
    #[error("server {server:?} is overloaded: too many calls are waiting")]
    Overloaded {
        /// The server.
        server: Arc<str>,
    },
    /// The server is given up for now; nothing was sent. It is tried again by itself, or when woken.
    #[error("server {server:?} is parked because {why}{}; it is tried again in {} s",
        cause(.failure.as_ref()), .next_probe.as_secs())]
    Parked {
        /// The server.
        server: Arc<str>,
        /// Why it is parked.
        why: ParkReason,
        /// What failed last.
        failure: Option<Arc<Failure>>,
        /// When it is tried again by itself.
        next_probe: Duration,
    },
    /// The server was removed before or during the call.
    #[error("server {server:?} has been removed{}", aftermath(*.outcome))]
    Removed {
        /// The server.
        server: Arc<str>,
        /// What is known of the request.
        outcome: CallOutcome,
    },
    /// The server was replaced by one with another configuration, and the time for running calls was over.
    /// A call that was not sent is made on the new one, and never ends like this.
    #[error("server {server:?} has been replaced{}", aftermath(*.outcome))]
    Replaced {
        /// The server.
        server: Arc<str>,
        /// What is known of the request.
        outcome: CallOutcome,
    },
    /// The call itself failed.
    #[error("server {server:?}, {method}: {error}")]
    Session {
        /// The server.
        server: Arc<str>,
        /// The operation.
        method: Method,
        /// Why.
        error: mcp_session::CallError,
    },
    /// The supervisor is shutting down, or is gone.
    #[error("server {server:?}: the runtime is shutting down{}", aftermath(*.outcome))]
    ShuttingDown {
        /// The server.
        server: Arc<str>,
        /// What is known of the request.
        outcome: CallOutcome,
    },
    /// The time was up before the request could be sent; it never will be.
    #[error("server {server:?}: {waiting_for} did not come within {} ms{}; nothing was sent",
        .waited.as_millis(), cause(.failure.as_ref()))]
    Timeout {
        /// The server.
        server: Arc<str>,
        /// What the call was waiting for.
        waiting_for: WaitingFor,
        /// From the start of the call to its deadline.
        waited: Duration,
        /// What failed last while the call waited for a connection.
        failure: Option<Arc<Failure>>,
    },
}

/// What a call that was never sent was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitingFor {
    /// The server to be ready.
    Connection,
    /// Its turn.
    Turn,
}

impl CallError {
    /// What is known about the request on the side of the server.
    #[must_use]
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::Session { error, .. } => error.outcome(),
            Self::Disabled { outcome, .. }
            | Self::NeedsAuth { outcome, .. }
            | Self::Removed { outcome, .. }
            | Self::Replaced { outcome, .. }
            | Self::ShuttingDown { outcome, .. } => *outcome,
            Self::InsufficientScope { .. } => CallOutcome::Rejected,
            Self::CircuitOpen { .. }
            | Self::Overloaded { .. }
            | Self::Parked { .. }
            | Self::Timeout { .. } => CallOutcome::NotSent,
        }
    }

    /// The server that was called.
    #[must_use]
    pub fn server(&self) -> &str {
        match self {
            Self::CircuitOpen { server, .. }
            | Self::Disabled { server, .. }
            | Self::InsufficientScope { server, .. }
            | Self::NeedsAuth { server, .. }
            | Self::Overloaded { server }
            | Self::Parked { server, .. }
            | Self::Removed { server, .. }
            | Self::Replaced { server, .. }
            | Self::Session { server, .. }
            | Self::ShuttingDown { server, .. }
            | Self::Timeout { server, .. } => server,
        }
    }

    /// Whether a deadline ended the call, wherever it was.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Session { error, .. } => error.is_timeout(),
            Self::Timeout { .. } => true,
            _ => false,
        }
    }

    /// Whether the session was lost during the call.
    #[must_use]
    pub fn is_session_gone(&self) -> bool {
        matches!(self, Self::Session { error, .. } if error.is_session_gone())
    }

    /// Whether the same call may be made again without any risk of running twice, and may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Session { error, .. } => error.is_retryable(),
            Self::Replaced { outcome, .. } => *outcome == CallOutcome::NotSent,
            Self::CircuitOpen { .. }
            | Self::Overloaded { .. }
            | Self::Parked { .. }
            | Self::Timeout { .. } => true,
            Self::Disabled { .. }
            | Self::InsufficientScope { .. }
            | Self::NeedsAuth { .. }
            | Self::Removed { .. }
            | Self::ShuttingDown { .. } => false,
        }
    }
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "its connection",
            Self::Turn => "a free slot",
        })
    }
}

/// A server was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// A server of this name is there, or is still being removed.
    #[error("there is a server {name:?} already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A limit makes no sense. The caller is at fault.
    #[error("server {name:?}: {what} must not be zero")]
    Limit {
        /// The name of the server.
        name: String,
        /// Which limit.
        what: &'static str,
    },
    /// The supervisor is shutting down, or is gone.
    #[error("server {name:?} is not added: the runtime is shutting down")]
    ShuttingDown {
        /// The name.
        name: String,
    },
}

/// Shutting down is not over yet; it goes on under its owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("still draining after {} ms; shutting down goes on", .waited.as_millis())]
#[non_exhaustive]
pub struct StillDraining {
    /// How long the caller has waited.
    pub waited: Duration,
}

fn after(retry_in: Duration) -> String {
    match retry_in.as_secs() {
        0 => "; another call is trying whether it works again".to_owned(),
        seconds => format!("; try again in {seconds} s"),
    }
}

fn named(required: &Option<String>) -> String {
    let shown = required.as_ref().map(|scopes| mcp_proto::escape(scopes, SHOWN_SCOPE_BYTES));
    shown.map(|scopes| format!(" ({scopes})")).unwrap_or_default()
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}

fn cause(failure: Option<&Arc<Failure>>) -> String {
    failure.map(|failure| format!(" (last failure: {failure})")).unwrap_or_default()
}

fn aftermath(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::NotSent => "; nothing was sent",
        CallOutcome::Rejected => "",
        CallOutcome::Unknown => "; the call was cancelled and may have run",
    }
}
