use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Method, StatusCode};
use mcp_proto::ProtocolVersion;

/// Authorizes the requests of HTTP connections. The transport knows no more of it than headers and
/// statuses.
///
/// Every request asks it, also those for streams and those at the end; one that the server refuses with
/// 401 or 403 is shown to it, and sent once more at most: a server that refuses a request for want of
/// authorization has not acted on it.
#[async_trait]
pub trait AuthProvider: Send + Sync + fmt::Debug {
    /// Adds to `headers` what a request of this method to this target has to carry, and says by which
    /// stamp to name that later.
    ///
    /// # Errors
    ///
    /// There is nothing that the server would accept; then the request is not sent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future must lose nothing that others need.
    async fn decorate(
        &self,
        method: &Method,
        target: &str,
        headers: &mut HeaderMap,
    ) -> Result<AuthStamp, AuthFailure>;

    /// The server has refused a request with 401 or 403.
    ///
    /// # Errors
    ///
    /// It has to do with authorization, and repeating the request is no use.
    ///
    /// # Cancel safety
    ///
    /// As [`decorate`](Self::decorate).
    async fn challenged(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        stamp: AuthStamp,
    ) -> Result<AfterChallenge, AuthFailure>;

    /// The server has answered a request with something else.
    fn accepted(&self, stamp: AuthStamp);

    /// The version that is spoken with the server is known.
    fn agreed(&self, version: ProtocolVersion);
}

/// Names what a request has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthStamp(pub u64);

/// What to do with a request that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterChallenge {
    /// It has nothing to do with authorization.
    Unrelated,
    /// Send it again.
    Repeat,
}

/// A request has no authorization that the server would accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct AuthFailure {
    /// What can be done about it.
    pub kind: AuthFailureKind,
    /// The same for a person, safe to show.
    pub message: String,
}

/// What can be done about a request without authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthFailureKind {
    /// The configuration has to change.
    Config,
    /// Somebody has to log in again, for more than before; the scopes are separated by spaces.
    InsufficientScope(String),
    /// Somebody has to log in.
    NeedsAuth,
    /// It may work later, after this long if the server says so.
    Unavailable(Option<Duration>),
}

impl AuthFailure {
    /// Describes a failure; `message` must be safe to show.
    #[must_use]
    pub fn new(kind: AuthFailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Whether waiting for a login is all that can be done.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        matches!(self.kind, AuthFailureKind::InsufficientScope(_) | AuthFailureKind::NeedsAuth)
    }
}
