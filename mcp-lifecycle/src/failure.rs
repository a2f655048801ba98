use std::fmt;
use std::time::Duration;

use mcp_proto::Method;
use mcp_proto::probe::ProbeFailure;
use mcp_session::{CallError, HandshakeError};
use mcp_transport::{AuthFailure, CloseReason, Closed, ConnectError, Rejection};

use crate::authorizer::loss_of_refusal;
use crate::machine::Loss;

/// Why a connection could not be made, or broke.
///
/// The text names the cause and, where the server wrote one, the tail of its standard error, escaped
/// and cut.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A call was refused, as there is no authorization that the server would accept.
    #[error("{0}")]
    Authorization(AuthFailure),
    /// The connection could not be opened.
    #[error("{0}")]
    Connect(ConnectError),
    /// Nothing was agreed on.
    #[error("{0}")]
    Handshake(HandshakeError),
    /// A list that the server declares could not be fetched.
    #[error("{method} failed while connecting: {error}")]
    List {
        /// Which list.
        method: Method,
        /// Why.
        error: CallError,
    },
    /// The connection ended by itself.
    #[error("{0}")]
    Lost(Closed),
    /// The task that owned the connection panicked: a defect of this library or of a transport.
    #[error("the task of the connection panicked")]
    Panicked,
    /// It was not ready in time.
    #[error("not ready within {} ms: the time was up {stage}", .limit.as_millis())]
    Timeout {
        /// What was going on when the time was up.
        stage: Stage,
        /// The limit of the whole.
        limit: Duration,
    },
    /// The server wants credentials.
    #[error("the server wants credentials; log in and try again")]
    Unauthorized,
    /// The connection stands, but the server no longer answers.
    #[error("no answer to {misses} probes in a row")]
    Unresponsive {
        /// How many probes were sent.
        misses: u32,
    },
}

/// What is going on while a server connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Starting the process or opening the connection.
    Opening,
    /// Agreeing on a version.
    Handshake,
    /// Fetching the lists.
    Lists,
}

impl Failure {
    /// Whether trying again without another configuration is pointless. A server that was ready before is tried
    /// again all the same if it fails by an output that holds no messages.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self.loss(), Loss::NotMcp | Loss::Permanent | Loss::Refused)
    }

    /// What a person can do about it, where the failure itself does not say so.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.remedy(),
            Self::Handshake(HandshakeError::Closed(closed) | HandshakeError::ProbeKilled(closed))
            | Self::Lost(closed) => closed.reason().remedy(),
            Self::Handshake(HandshakeError::Timeout) | Self::Timeout { .. } => {
                Some("check that its command starts an MCP server, or give it more time to connect")
            }
            Self::Authorization(_)
            | Self::Handshake(_)
            | Self::List { .. }
            | Self::Panicked
            | Self::Unauthorized
            | Self::Unresponsive { .. } => None,
        }
    }

    /// What is known about the authorization that was missing.
    pub(crate) fn authorization(&self) -> Option<&AuthFailure> {
        match self {
            Self::Authorization(failure) => Some(failure),
            Self::Handshake(HandshakeError::Http(rejection))
            | Self::List { error: CallError::Http(rejection), .. } => rejection.auth.as_ref(),
            _ => None,
        }
    }

    /// What the failure says about the next attempt.
    pub(crate) fn loss(&self) -> Loss {
        match self {
            Self::Connect(error) if error.is_permanent() => Loss::Permanent,
            Self::Connect(ConnectError::Closed(closed)) => loss_of(closed),
            Self::Handshake(error) if error.is_probe_killed() => Loss::ProbeKilled,
            Self::Handshake(HandshakeError::Closed(closed)) => loss_of(closed),
            Self::Handshake(error) if error.is_permanent() => Loss::Refused,
            Self::Handshake(HandshakeError::Timeout) => Loss::Transient,
            Self::Handshake(HandshakeError::Http(rejection)) => {
                loss_of_refusal(rejection).unwrap_or(Loss::Rejected)
            }
            Self::Handshake(HandshakeError::Probe(
                ProbeFailure::Authorization(status) | ProbeFailure::Status(status),
            )) => loss_of_refusal(&Rejection::new(*status)).unwrap_or(Loss::Rejected),
            Self::Handshake(_) => Loss::Rejected,
            // The handshake was done in MCP, whatever has come after it.
            Self::Lost(closed) if *closed.reason() == CloseReason::NotMcp => Loss::Transient,
            Self::Lost(closed) => loss_of(closed),
            Self::List { error: CallError::Http(rejection), .. } => {
                loss_of_refusal(rejection).unwrap_or(Loss::Transient)
            }
            Self::Authorization(_) | Self::Unauthorized => Loss::Auth,
            Self::Connect(_) | Self::Timeout { stage: Stage::Opening, .. } => Loss::Unreachable,
            Self::List { .. } | Self::Panicked | Self::Timeout { .. } | Self::Unresponsive { .. } => {
                Loss::Transient
            }
        }
    }
}

fn loss_of(closed: &Closed) -> Loss {
    match closed.reason() {
        CloseReason::Exited(_) => Loss::Exited,
        CloseReason::NotMcp => Loss::NotMcp,
        CloseReason::SessionExpired => Loss::Expired,
        _ => Loss::Transient,
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "before the connection was open",
            Self::Handshake => "during the handshake",
            Self::Lists => "while its lists were fetched",
        })
    }
}
