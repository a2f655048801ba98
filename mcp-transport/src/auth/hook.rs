use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_proto::{ProtocolVersion, Secret};

use super::access::TokenStamp;
use super::access_token::AccessToken;
use super::challenge::Challenges;
use super::dpop::DPOP;
use super::error::AuthError;
use super::provider::{AfterRefusal, OAuth};
use crate::auth_failure::{AuthFailure, AuthFailureKind};
use crate::http::{AfterChallenge, AuthProvider, AuthStamp};

/// What makes an [`OAuth`] authorize the requests of HTTP connections: never with the help of a person.
#[async_trait]
impl AuthProvider for OAuth {
    async fn decorate(
        &self,
        method: &Method,
        target: &str,
        headers: &mut HeaderMap,
    ) -> Result<AuthStamp, AuthFailure> {
        let (token, stamp) = self.authorize().await.map_err(AuthFailure::from)?;
        if let Some(AccessToken { token, key }) = token {
            let scheme = if key.is_some() { "DPoP" } else { "Bearer" };
            if let Some(key) = key {
                headers.insert(DPOP, self.prove(&key, &token, method, target)?);
            }
            let value = Secret::new(format!("{scheme} {}", token.expose()));
            // Tokens with characters that no header has are not taken from a server.
            let value = HeaderValue::from_str(value.expose());
            let mut value = value
                .map_err(|_| AuthFailure::new(AuthFailureKind::NeedsAuth, "the token cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(stamp.into())
    }

    async fn challenged(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        stamp: AuthStamp,
    ) -> Result<AfterChallenge, AuthFailure> {
        self.on_answer(headers);
        let values = headers.get_all(header::WWW_AUTHENTICATE);
        let challenges = Challenges::parse(values.iter().map(HeaderValue::as_bytes));
        match self.on_refused(status.as_u16(), challenges, stamp.into()).await? {
            AfterRefusal::ProveAgain => Ok(AfterChallenge::ProveAgain),
            AfterRefusal::Repeat => Ok(AfterChallenge::Repeat),
            AfterRefusal::Unrelated => Ok(AfterChallenge::Unrelated),
        }
    }

    fn accepted(&self, headers: &HeaderMap, stamp: AuthStamp) {
        self.on_answer(headers);
        self.on_accepted(stamp.into());
    }

    fn agreed(&self, version: ProtocolVersion) {
        self.set_version(version);
    }
}

impl From<TokenStamp> for AuthStamp {
    fn from(stamp: TokenStamp) -> Self {
        Self(stamp.0)
    }
}

impl From<AuthStamp> for TokenStamp {
    fn from(stamp: AuthStamp) -> Self {
        Self(stamp.0)
    }
}

impl From<AuthError> for AuthFailure {
    fn from(error: AuthError) -> Self {
        let kind = match &error {
            AuthError::InsufficientScope { required, is_final: false } => {
                AuthFailureKind::InsufficientScope(required.clone())
            }
            AuthError::Closed | AuthError::NeedsAuth(_) | AuthError::Login(_) => AuthFailureKind::NeedsAuth,
            AuthError::Unavailable { retry_after, .. } => AuthFailureKind::Unavailable(*retry_after),
            error if error.is_transient() => AuthFailureKind::Unavailable(None),
            _ => AuthFailureKind::Config,
        };
        Self::new(kind, error.to_string())
    }
}
