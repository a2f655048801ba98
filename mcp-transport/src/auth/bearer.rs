use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_proto::{ProtocolVersion, Secret};

use super::challenge::Challenges;
use crate::auth_failure::{AuthFailure, AuthFailureKind};
use crate::http::{AfterChallenge, AuthProvider, AuthStamp};

/// A token that somebody else has obtained and that does not change.
///
/// It is sent with every request. Once the server refuses it, somebody has to bring another one; nothing is
/// renewed, and nobody is asked. `Debug` does not show it.
#[derive(Debug, Clone)]
pub struct BearerToken {
    header: HeaderValue,
}

/// A text is no token that can be sent. It is not quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a bearer token is a text of visible ASCII characters, and not empty")]
pub struct InvalidToken;

impl BearerToken {
    /// Sends `token`.
    ///
    /// # Errors
    ///
    /// It cannot be sent.
    pub fn new(token: &Secret) -> Result<Self, InvalidToken> {
        let text = token.expose();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidToken);
        }
        let value = Secret::new(format!("Bearer {text}"));
        let mut header = HeaderValue::from_str(value.expose()).map_err(|_| InvalidToken)?;
        header.set_sensitive(true);
        Ok(Self { header })
    }
}

#[async_trait]
impl AuthProvider for BearerToken {
    async fn decorate(
        &self,
        _method: &Method,
        _target: &str,
        headers: &mut HeaderMap,
    ) -> Result<AuthStamp, AuthFailure> {
        headers.insert(header::AUTHORIZATION, self.header.clone());
        Ok(AuthStamp(0))
    }

    async fn challenged(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        _stamp: AuthStamp,
    ) -> Result<AfterChallenge, AuthFailure> {
        let values = headers.get_all(header::WWW_AUTHENTICATE);
        let challenge = Challenges::parse(values.iter().map(HeaderValue::as_bytes)).bearer;
        let is_about_scope =
            challenge.is_some_and(|challenge| challenge.error.as_deref() == Some("insufficient_scope"));
        if status == StatusCode::UNAUTHORIZED {
            let what = "the server does not accept the token that is configured";
            return Err(AuthFailure::new(AuthFailureKind::NeedsAuth, what));
        }
        if is_about_scope {
            let what = "the token that is configured has too narrow a scope";
            return Err(AuthFailure::new(AuthFailureKind::Config, what));
        }
        Ok(AfterChallenge::Unrelated)
    }

    fn accepted(&self, _headers: &HeaderMap, _stamp: AuthStamp) {}

    fn agreed(&self, _version: ProtocolVersion) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenged(status: u16, challenge: &'static str) -> Result<AfterChallenge, AuthFailureKind> {
        let mut headers = HeaderMap::new();
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        let bearer = BearerToken::new(&"canary".into()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let end = runtime.block_on(bearer.challenged(status, &headers, AuthStamp(0)));
        end.map_err(|failure| failure.kind)
    }

    #[test]
    fn a_token_is_sent_as_it_is_and_shown_nowhere() {
        let bearer = BearerToken::new(&"canary".into()).unwrap();
        let mut headers = HeaderMap::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(bearer.decorate(&Method::GET, "/", &mut headers)).unwrap();
        assert_eq!(headers[header::AUTHORIZATION], "Bearer canary");
        assert!(!format!("{bearer:?} {headers:?}").contains("canary"));
        for text in ["", "a b", "a\nb", "ä"] {
            assert_eq!(BearerToken::new(&text.into()).map(drop), Err(InvalidToken), "{text}");
        }
    }

    #[test]
    fn a_refused_token_needs_somebody_and_nothing_is_sent_again() {
        assert_eq!(challenged(401, "Bearer"), Err(AuthFailureKind::NeedsAuth));
        assert_eq!(challenged(403, r#"Bearer error="insufficient_scope""#), Err(AuthFailureKind::Config));
        assert_eq!(challenged(403, "Bearer"), Ok(AfterChallenge::Unrelated));
    }
}
