use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue, Method};
use mcp_proto::Secret;
use ring::digest;
use serde_json::{Map, Value, json};

use super::key::DpopKey;
use super::nonce::DpopNonce;
use crate::auth::error::AuthError;
use crate::auth::random::{self, NoRandomness, Randomness};
use crate::auth::unix_time::UnixTime;
use crate::http::Origin;

/// The header that carries a proof.
pub(in crate::auth) const DPOP: HeaderName = HeaderName::from_static("dpop");

/// What proves, with one request, that the client has a key: of use for this request alone, as no two
/// proofs have the same identifier.
///
/// # Source
///
/// RFC 9449, section 4.2.
#[derive(Debug, Clone, Copy)]
pub(in crate::auth) struct DpopProof<'a> {
    pub(in crate::auth) key: &'a DpopKey,
    pub(in crate::auth) method: &'a Method,
    pub(in crate::auth) origin: &'a Origin,
    /// The path of the request; a query is left out.
    pub(in crate::auth) target: &'a str,
    /// The token that the request presents, if it presents one.
    pub(in crate::auth) token: Option<&'a Secret>,
    /// What the server wants to see, if it has said so.
    pub(in crate::auth) nonce: Option<&'a DpopNonce>,
    pub(in crate::auth) now: UnixTime,
    pub(in crate::auth) randomness: &'a dyn Randomness,
}

impl DpopProof<'_> {
    /// The value of the header.
    pub(in crate::auth) fn sign(&self) -> Result<HeaderValue, AuthError> {
        let [x, y] = self.key.coordinates();
        let public = json!({"kty": "EC", "crv": "P-256", "x": x, "y": y});
        let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": public});
        let part = |value: String| URL_SAFE_NO_PAD.encode(value);
        let signed =
            format!("{}.{}", part(header.to_string()), part(Value::Object(self.claims()?).to_string()));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes())?);
        // Base64url and dots fit into every header.
        let value = HeaderValue::from_str(&format!("{signed}.{signature}"));
        let mut value = value.map_err(|_| AuthError::unavailable("a proof of possession cannot be sent"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn claims(&self) -> Result<Map<String, Value>, NoRandomness> {
        let path = self.target.split(['?', '#']).next().unwrap_or_default();
        let hash = |token: &Secret| digest::digest(&digest::SHA256, token.expose().as_bytes());
        let claims: [(&str, Option<Value>); 6] = [
            ("jti", Some(random::token(self.randomness)?.expose().into())),
            ("htm", Some(self.method.as_str().into())),
            ("htu", Some(format!("{}{path}", self.origin).into())),
            ("iat", Some(self.now.to_whole_seconds().into())),
            ("ath", self.token.map(|token| URL_SAFE_NO_PAD.encode(hash(token)).into())),
            ("nonce", self.nonce.map(|nonce| nonce.as_str().into())),
        ];
        Ok(claims.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::dpop::verify;
    use crate::auth::{SystemRandomness, WebUrl};
    use crate::http::HeaderMap;

    fn sign(proof: DpopProof<'_>) -> String {
        let value = proof.sign().unwrap();
        assert!(value.is_sensitive());
        value.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_proof_names_method_and_place_and_is_signed_with_the_key_that_it_shows() {
        let key = DpopKey::generate().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("dpop-nonce", HeaderValue::from_static("n-1"));
        let nonce = DpopNonce::of(&headers).unwrap();
        for (method, url, token, nonce, htu) in [
            (Method::POST, "https://As.example:443/token?x=y", None, None, "https://as.example/token"),
            (Method::GET, "http://[::1]:8080/mcp#f", Some("t1"), None, "http://[::1]:8080/mcp"),
            (Method::DELETE, "https://rs.example", Some("t1"), Some(&nonce), "https://rs.example/"),
        ] {
            let url = WebUrl::parse(url).unwrap();
            let token = token.map(Secret::from);
            let proof = sign(DpopProof {
                key: &key,
                method: &method,
                origin: url.origin(),
                target: &url.target(),
                token: token.as_ref(),
                nonce,
                now: UnixTime::from_seconds(1_700_000_000.9),
                randomness: &SystemRandomness,
            });
            let [header, mut claims] = verify::checked(&proof);
            let [x, y] = key.coordinates();
            let public = json!({"kty": "EC", "crv": "P-256", "x": x, "y": y});
            assert_eq!(header, json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": public}), "no private part");
            assert_eq!(claims["jti"].take().as_str().unwrap().len(), 43);
            let mut expected = json!({"jti": null, "htm": method.as_str(), "htu": htu, "iat": 1_700_000_000});
            if token.is_some() {
                // The hash of `t1`, by another program.
                expected["ath"] = "YotJ2W3N6XpDDdT1l3BYmeCalo95NJHktwTK4zpA3AI".into();
            }
            if nonce.is_some() {
                expected["nonce"] = "n-1".into();
            }
            assert_eq!(claims, expected);
        }
    }

    #[test]
    fn no_two_proofs_have_the_same_identifier() {
        let key = DpopKey::generate().unwrap();
        let url = WebUrl::parse("https://rs.example/mcp").unwrap();
        let identifiers: std::collections::HashSet<String> = (0..20)
            .map(|_| {
                let [_, claims] = verify::checked(&sign(DpopProof {
                    key: &key,
                    method: &Method::POST,
                    origin: url.origin(),
                    target: "/mcp",
                    token: None,
                    nonce: None,
                    now: UnixTime::from_seconds(0.0),
                    randomness: &SystemRandomness,
                }));
                claims["jti"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(identifiers.len(), 20);
    }
}
