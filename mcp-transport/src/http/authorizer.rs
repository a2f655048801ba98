use std::fmt;

use async_trait::async_trait;
use http::{HeaderMap, Method, StatusCode};
use mcp_proto::ProtocolVersion;

use crate::auth_failure::AuthFailure;

/// Authorizes the requests of HTTP connections. The transport knows no more of it than headers and
/// statuses.
///
/// Every request asks it, also those for streams, those at the end and those that follow a redirect; one
/// that the server refuses with 401 or 403 is shown to it, and sent once more at most, or twice if one of
/// the refusals is about its proof alone: a server that refuses a request for want of authorization has not
/// acted on it.
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

    /// The server has answered a request with something else, and with these headers.
    fn accepted(&self, headers: &HeaderMap, stamp: AuthStamp);

    /// The version that is spoken with the server is known.
    fn agreed(&self, version: ProtocolVersion);
}

/// Names what a request has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthStamp(pub u64);

/// What to do with a request that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterChallenge {
    /// Send it again: its proof of possession has lacked what the answer says, and its token is not refused.
    ProveAgain,
    /// It has nothing to do with authorization.
    Unrelated,
    /// Send it again.
    Repeat,
}
