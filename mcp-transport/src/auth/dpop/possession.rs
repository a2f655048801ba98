use std::time::Duration;

use super::key::DpopKey;
use super::nonce::{DpopNonce, DpopNonces};
use super::proof::{DPOP, DpopProof};
use crate::auth::error::AuthError;
use crate::auth::error_reply::ErrorReply;
use crate::auth::oauth_http::{OAuthRequest, OAuthResponse, TOKEN_LIMIT};
use crate::auth::random::Randomness;
use crate::auth::unix_time::UnixTime;
use crate::auth::web_url::WebUrl;

/// How long a request for a token with a proof may take: it may have to be made twice, and others wait at
/// the fence no longer than for one without.
const PROVED_LIMIT: Duration = Duration::from_secs(TOKEN_LIMIT.as_secs() / 2);

/// The error of a server that refuses a request for want of a nonce, and for nothing else.
pub(in crate::auth) const WANTS_NONCE: &str = "use_dpop_nonce";

/// Proves to one token endpoint that the client has the key that a token is to be bound to.
///
/// # Source
///
/// RFC 9449, sections 5 and 8.
#[derive(Debug)]
pub(in crate::auth) struct Possession {
    pub(in crate::auth) key: DpopKey,
    nonce: Option<DpopNonce>,
    has_repeated: bool,
}

impl Possession {
    /// Of `key`, to the token endpoint at `endpoint`.
    pub(in crate::auth) fn new(key: DpopKey, endpoint: &WebUrl, nonces: &DpopNonces) -> Self {
        Self { key, nonce: nonces.newest(endpoint.origin()).cloned(), has_repeated: false }
    }

    /// Adds a proof to a request. Each request needs one of its own.
    pub(in crate::auth) fn prove(
        &self,
        request: &mut OAuthRequest,
        now: UnixTime,
        randomness: &dyn Randomness,
    ) -> Result<(), AuthError> {
        let proof = DpopProof {
            key: &self.key,
            method: &request.method,
            origin: request.url.origin(),
            target: &request.url.target(),
            token: None,
            nonce: self.nonce.as_ref(),
            now,
            randomness,
        };
        let proof = proof.sign()?;
        request.headers.insert(DPOP, proof);
        request.limit = request.limit.min(PROVED_LIMIT);
        Ok(())
    }

    /// Whether the request is to be made anew, as its proof has lacked the nonce that the answer brings.
    ///
    /// A server that wants a nonce has looked at nothing else, so what was shown to it is still good.
    ///
    /// # Errors
    ///
    /// The server wants a nonce and brings none, or wants another one than it has just brought.
    pub(in crate::auth) fn repeats(
        &mut self,
        response: &OAuthResponse,
        reply: &ErrorReply,
    ) -> Result<bool, AuthError> {
        if !reply.is(WANTS_NONCE) {
            return Ok(false);
        }
        match DpopNonce::of(&response.headers) {
            Some(nonce) if !self.has_repeated => {
                self.nonce = Some(nonce);
                self.has_repeated = true;
                Ok(true)
            }
            _ => {
                Err(AuthError::unavailable("the authorization server does not take the nonce that it names"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use mcp_proto::Redactor;

    use super::*;
    use crate::auth::SystemRandomness;
    use crate::auth::dpop::verify;

    fn refusal(error: &str, nonce: Option<&'static str>) -> (OAuthResponse, ErrorReply) {
        let mut headers = HeaderMap::new();
        if let Some(nonce) = nonce {
            headers.insert("dpop-nonce", HeaderValue::from_static(nonce));
        }
        let body = format!(r#"{{"error": "{error}"}}"#).into_bytes();
        let reply = ErrorReply::read(400, &body, &Redactor::default());
        (OAuthResponse::new(400, headers, body), reply)
    }

    fn repeats(
        possession: &mut Possession,
        error: &str,
        nonce: Option<&'static str>,
    ) -> Result<bool, AuthError> {
        let (response, reply) = refusal(error, nonce);
        possession.repeats(&response, &reply)
    }

    fn possession(nonces: &DpopNonces) -> Possession {
        let endpoint = WebUrl::parse("https://as.example/token").unwrap();
        Possession::new(DpopKey::generate().unwrap(), &endpoint, nonces)
    }

    /// The nonce in the proof of a request.
    fn shown(possession: &Possession) -> Option<String> {
        let url = WebUrl::parse("https://as.example/token").unwrap();
        let mut request = OAuthRequest::post(url, HeaderMap::new(), "x".into(), TOKEN_LIMIT);
        possession.prove(&mut request, UnixTime::from_seconds(0.0), &SystemRandomness).unwrap();
        assert_eq!(request.limit, Duration::from_secs(15), "twice is no longer than once without a proof");
        let [_, claims] = verify::checked(request.headers[DPOP].to_str().unwrap());
        claims["nonce"].as_str().map(str::to_owned)
    }

    #[test]
    fn a_request_is_made_again_once_with_the_nonce_of_the_refusal() {
        let mut possession = possession(&DpopNonces::default());
        assert_eq!(shown(&possession), None);
        assert_eq!(repeats(&mut possession, "use_dpop_nonce", Some("n-1")), Ok(true));
        assert_eq!(shown(&possession).as_deref(), Some("n-1"));
        let again = repeats(&mut possession, "use_dpop_nonce", Some("n-2")).unwrap_err();
        assert!(again.is_transient(), "{again:?}");
    }

    #[test]
    fn no_other_refusal_has_a_request_made_again() {
        let mut possession = possession(&DpopNonces::default());
        for error in ["invalid_grant", "invalid_dpop_proof", "use_dpop_nonce_"] {
            assert_eq!(repeats(&mut possession, error, Some("n")), Ok(false), "{error}");
        }
        assert!(repeats(&mut possession, "use_dpop_nonce", None).is_err());
        assert_eq!(shown(&possession), None);
    }

    #[test]
    fn a_nonce_that_is_known_is_shown_at_once() {
        let mut nonces = DpopNonces::default();
        let (response, _) = refusal("x", Some("known"));
        nonces.note(WebUrl::parse("https://as.example/elsewhere").unwrap().origin(), &response.headers);
        assert_eq!(shown(&possession(&nonces)).as_deref(), Some("known"));
    }
}
