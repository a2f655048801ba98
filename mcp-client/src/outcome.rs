//! The one place where failures get the form in which callers and models see them.

use mcp_lifecycle::CallError;
use mcp_proto::{Redactor, escape};
use mcp_session::{CallError as SessionError, CallOutcome, HeaderFault, UnsupportedWhy};
use serde::Serialize;

/// Longest text of a failure, in bytes.
const LONGEST_MESSAGE: usize = 8 * 1024;

/// An operation that ended without a value, ready to be shown.
///
/// As JSON it is `{"error": "…", "outcome": "not_sent" | "rejected" | "unknown", "server": "…",
/// "retryable": false}`, with `"needs_reauth": true` if somebody has to log in. The message is escaped, cut at 8 KiB and free of configured secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// What happened, in a sentence that names the server.
    #[serde(rename = "error")]
    pub message: String,
    /// Whether the server can have acted on the request.
    pub outcome: OutcomeClass,
    /// The server that was meant, as the caller named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Whether the same request may be made again without any risk of running twice.
    pub retryable: bool,
    /// Whether somebody has to log in first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_reauth: bool,
    /// What kind of failure it is.
    #[serde(skip)]
    pub kind: FailureKind,
}

/// What is known about a failed request on the side of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeClass {
    /// The server has not seen the request and never will.
    NotSent,
    /// The server saw the request and answered with an error.
    Rejected,
    /// The server may have acted on the request.
    Unknown,
}

/// What kind of failure it is, for programs that branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The arguments of the operation are wrong.
    Arguments,
    /// The server asked for input that nobody gave it.
    Input,
    /// The server was lost during the call.
    Lost,
    /// The server wants to know who is asking.
    NeedsAuthorization,
    /// Too much is under way for this server.
    Overloaded,
    /// The server answered something that is not an answer.
    Protocol,
    /// The server answered with an error.
    Rejected,
    /// The client is shutting down.
    ShuttingDown,
    /// The time was up.
    Timeout,
    /// The tool ran and says that it failed.
    Tool,
    /// There is no server or tool of that name.
    UnknownName,
    /// The server cannot be reached now.
    Unreachable,
    /// The server does not offer the operation.
    Unsupported,
}

impl Failure {
    /// The arguments cannot be used; nothing was sent.
    pub(crate) fn arguments(server: Option<&str>, what: impl std::fmt::Display) -> Self {
        Self::not_sent(FailureKind::Arguments, server, format!("the arguments cannot be used: {what}"))
    }

    /// No server has that name; nothing was sent.
    pub(crate) fn unknown_server(server: &str) -> Self {
        let message = format!("there is no server \"{}\"", escape(server, 128));
        Self::not_sent(FailureKind::UnknownName, Some(server), message)
    }

    /// No tool has that minted name; nothing was sent.
    pub(crate) fn unknown_tool(name: &str) -> Self {
        let message = format!("there is no tool \"{}\"", escape(name, 128));
        Self::not_sent(FailureKind::UnknownName, None, message)
    }

    /// The tool is there, but the configuration keeps it from being called; nothing was sent.
    pub(crate) fn filtered_tool(server: &str, tool: &str) -> Self {
        let message =
            format!("the configuration of server \"{server}\" excludes the tool \"{}\"", escape(tool, 128));
        Self::not_sent(FailureKind::UnknownName, Some(server), message)
    }

    /// The client has been shut down; nothing was sent.
    pub(crate) fn shutting_down() -> Self {
        Self::not_sent(FailureKind::ShuttingDown, None, "the client is shutting down".to_owned())
    }

    /// The tool ran and reports that it failed.
    pub(crate) fn tool(server: &str, tool: &str, text: &str) -> Self {
        let message = if text.trim().is_empty() {
            format!("the tool \"{}\" of server \"{server}\" failed without a reason", escape(tool, 128))
        } else {
            text.to_owned()
        };
        Self {
            message,
            outcome: OutcomeClass::Rejected,
            server: Some(server.to_owned()),
            retryable: false,
            needs_reauth: false,
            kind: FailureKind::Tool,
        }
    }

    /// A call on the guarded path ended without a value.
    pub(crate) fn call(server: &str, error: &CallError) -> Self {
        Self {
            message: error.to_string(),
            outcome: error.outcome().into(),
            server: Some(server.to_owned()),
            retryable: error.is_retryable(),
            needs_reauth: FailureKind::of(error) == FailureKind::NeedsAuthorization,
            kind: FailureKind::of(error),
        }
    }

    /// Takes secrets out and cuts the text; every failure passes here on its way out.
    #[must_use]
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        let clean = redactor.redact(&self.message);
        self.message = clean.get(..clean.floor_char_boundary(LONGEST_MESSAGE)).unwrap_or_default().to_owned();
        self
    }

    fn not_sent(kind: FailureKind, server: Option<&str>, message: String) -> Self {
        Self {
            message,
            outcome: OutcomeClass::NotSent,
            server: server.map(str::to_owned),
            retryable: false,
            needs_reauth: false,
            kind,
        }
    }
}

impl FailureKind {
    fn of(error: &CallError) -> Self {
        match error {
            CallError::Disabled { outcome: CallOutcome::Unknown, .. } => Self::Lost,
            CallError::InsufficientScope { .. } | CallError::NeedsAuth { .. } => Self::NeedsAuthorization,
            CallError::Overloaded { .. } => Self::Overloaded,
            CallError::Removed { .. } => Self::UnknownName,
            CallError::Replaced { .. } => Self::Lost,
            CallError::Session { error, .. } => Self::of_session(error),
            CallError::ShuttingDown { .. } => Self::ShuttingDown,
            CallError::Timeout { .. } => Self::Timeout,
            _ => Self::Unreachable,
        }
    }

    fn of_session(error: &SessionError) -> Self {
        match error {
            SessionError::Encode(_) | SessionError::Header(HeaderFault::Arguments(_)) => Self::Arguments,
            SessionError::Header(_) => Self::Unsupported,
            SessionError::Input { .. } | SessionError::InputRequired(_) | SessionError::UrlsRequired(_) => {
                Self::Input
            }
            SessionError::Overloaded => Self::Overloaded,
            SessionError::Http(_) if error.is_rate_limited() => Self::Overloaded,
            SessionError::Peer(_) => Self::Rejected,
            SessionError::QueueTimeout { .. } | SessionError::Timeout { .. } => Self::Timeout,
            SessionError::SessionGone { .. } => Self::Lost,
            SessionError::Unsupported { why: UnsupportedWhy::InputRequired, .. } => Self::Input,
            SessionError::Unsupported { .. } => Self::Unsupported,
            _ => Self::Protocol,
        }
    }

    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Input => "input",
            Self::Lost => "lost",
            Self::NeedsAuthorization => "needs_authorization",
            Self::Overloaded => "overloaded",
            Self::Protocol => "protocol",
            Self::Rejected => "rejected",
            Self::ShuttingDown => "shutting_down",
            Self::Timeout => "timeout",
            Self::Tool => "tool",
            Self::UnknownName => "unknown_name",
            Self::Unreachable => "unreachable",
            Self::Unsupported => "unsupported",
        }
    }
}

impl From<CallOutcome> for OutcomeClass {
    fn from(outcome: CallOutcome) -> Self {
        match outcome {
            CallOutcome::NotSent => Self::NotSent,
            CallOutcome::Rejected => Self::Rejected,
            CallOutcome::Unknown => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_call_that_was_cut_when_its_server_was_switched_off_was_lost() {
        let disabled = |outcome| CallError::Disabled { server: Arc::from("one"), outcome };
        assert_eq!(FailureKind::of(&disabled(CallOutcome::NotSent)), FailureKind::Unreachable);
        let cut = Failure::call("one", &disabled(CallOutcome::Unknown));
        assert_eq!((cut.kind, cut.outcome, cut.retryable), (FailureKind::Lost, OutcomeClass::Unknown, false));
    }
}
