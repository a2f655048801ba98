use mcp_proto::Secret;

use super::dpop::DpopKey;

/// An access token, as a request presents it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessToken {
    /// The token.
    pub token: Secret,
    /// The key that it is bound to, if it is. Then it is presented with the scheme `DPoP` and with a proof
    /// for each request, as an [`OAuth`](super::OAuth) does as an
    /// [`AuthProvider`](crate::http::AuthProvider); with the scheme `Bearer` it is of no use.
    pub key: Option<DpopKey>,
}
