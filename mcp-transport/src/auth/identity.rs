use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::Secret;
use ring::digest;

use super::address::AddressClass;
use super::error::AuthError;
use super::settings::ConfiguredClient;
use super::store::Stamp;
use super::web_url::WebUrl;

/// Brings the token of an identity that somebody else has made sure of: a person who has signed on at
/// their organisation, or a workload that its platform vouches for.
#[async_trait]
pub trait IdentitySource: Send + Sync + fmt::Debug {
    /// A token that is valid now, to be shown to `audience`: the issuer of the authorization server for a
    /// workload, the token endpoint of the identity provider for a person.
    ///
    /// Has 30 s; asked for anew whenever an access token is made.
    ///
    /// # Errors
    ///
    /// There is none: [`AuthError::NeedsAuth`] if somebody has to sign on, [`AuthError::Unavailable`] if
    /// trying again may help.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future must lose nothing that others need.
    async fn identity(&self, audience: &str) -> Result<Secret, AuthError>;

    /// Tells one token from the next, cheaply and without waiting; `None` if that cannot be told.
    ///
    /// Looked at every second while a token is known to be of no use, so that somebody who signs on anew is
    /// noticed.
    fn stamp(&self) -> Option<Stamp> {
        None
    }

    /// What tells this source from others, without a word of the token: settings whose sources have the same
    /// fingerprint are the same settings. `None`: it is the same as itself alone.
    fn fingerprint(&self) -> Option<String> {
        None
    }
}

/// An identity whose token does not change, for tests and for programs that end before it does.
#[derive(Debug, Clone)]
pub struct FixedIdentity(pub Secret);

#[async_trait]
impl IdentitySource for FixedIdentity {
    async fn identity(&self, _audience: &str) -> Result<Secret, AuthError> {
        Ok(self.0.clone())
    }

    fn fingerprint(&self) -> Option<String> {
        let hash = digest::digest(&digest::SHA256, self.0.expose().as_bytes());
        Some(format!("the token {}", URL_SAFE_NO_PAD.encode(hash)))
    }
}

/// Where an organisation keeps its people, and decides which servers they may use with which programs.
///
/// # Source
///
/// MCP extension `io.modelcontextprotocol/enterprise-managed-authorization`.
#[derive(Debug, Clone)]
pub struct IdentityProvider {
    /// Where it exchanges tokens: a URL that the user has written, `https` or on this machine.
    pub token_endpoint: WebUrl,
    /// The client as the identity provider knows it, which need not be what the authorization server calls
    /// it.
    pub client: ConfiguredClient,
    /// What the token of the identity is.
    pub kind: IdentityKind,
    /// Brings the token.
    pub source: Arc<dyn IdentitySource>,
}

/// What the token of an identity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IdentityKind {
    /// What a sign-on with OpenID Connect has brought. The default.
    #[default]
    IdToken,
    /// What renews such a sign-on.
    RefreshToken,
}

impl IdentityKind {
    /// The name on the wire (RFC 8693, section 3).
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::IdToken => "urn:ietf:params:oauth:token-type:id_token",
            Self::RefreshToken => "urn:ietf:params:oauth:token-type:refresh_token",
        }
    }
}

impl IdentityProvider {
    /// An identity provider at which the client is called `client_id` and proves nothing, and to which ID
    /// tokens are shown.
    #[must_use]
    pub fn new(
        token_endpoint: WebUrl,
        client_id: impl Into<String>,
        source: Arc<dyn IdentitySource>,
    ) -> Self {
        let client = ConfiguredClient { id: client_id.into(), secret: None, method: None };
        Self { token_endpoint, client, kind: IdentityKind::default(), source }
    }

    /// Whether what is sent to it can be read by nobody on the way.
    pub(super) fn is_encrypted(&self) -> bool {
        let host = &self.token_endpoint.origin().host;
        self.token_endpoint.is_https() || AddressClass::of_host(host) == AddressClass::Loopback
    }
}
