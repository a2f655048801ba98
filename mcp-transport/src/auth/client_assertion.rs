use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::Secret;
use serde_json::{Map, Value, json};

use super::client_record::InvalidClient;
use super::error::AuthError;
use super::random::{self, Randomness};
use super::signer::Signer;
use super::unix_time::UnixTime;

/// The kind of assertion that a client is known by.
pub(super) const CLIENT_ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How long an assertion is valid: it is used at once, and clocks differ.
const LIFETIME: Duration = Duration::from_secs(5 * 60);

/// What a client signs to prove who it is: a new one for each request, of use at one issuer alone.
///
/// # Source
///
/// RFC 7523, sections 2.2 and 3; OpenID Connect Core 1.0, section 9; MCP extension
/// `io.modelcontextprotocol/oauth-client-credentials`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientAssertion<'a> {
    pub(super) signer: &'a dyn Signer,
    /// Who is to believe it.
    pub(super) issuer: &'a str,
    /// The algorithms that the issuer lists, if it lists any.
    pub(super) algorithms: Option<&'a [String]>,
    pub(super) now: UnixTime,
    pub(super) randomness: &'a dyn Randomness,
}

impl ClientAssertion<'_> {
    pub(super) fn sign(&self, client_id: &str) -> Result<Secret, AuthError> {
        let algorithm = self.signer.algorithm().as_str();
        if self.algorithms.is_some_and(|listed| !listed.iter().any(|one| one == algorithm)) {
            return Err(InvalidClient::Algorithm(algorithm).into());
        }
        let mut header = json!({"alg": algorithm, "typ": "client-authentication+jwt"});
        if let (Value::Object(members), Some(id)) = (&mut header, self.signer.key_id()) {
            members.insert("kid".to_owned(), id.into());
        }
        let mut claims = Map::new();
        claims.insert("iss".to_owned(), client_id.into());
        claims.insert("sub".to_owned(), client_id.into());
        claims.insert("aud".to_owned(), self.issuer.into());
        claims.insert("iat".to_owned(), self.now.to_whole_seconds().into());
        claims.insert("exp".to_owned(), self.now.after(LIFETIME).to_whole_seconds().into());
        claims.insert("jti".to_owned(), random::token(self.randomness)?.expose().into());
        let part = |value: String| URL_SAFE_NO_PAD.encode(value);
        let signed = format!("{}.{}", part(header.to_string()), part(Value::Object(claims).to_string()));
        let signature = self.signer.sign(signed.as_bytes()).map_err(InvalidClient::Signature)?;
        Ok(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    use super::*;
    use crate::auth::{SigningAlgorithm, SigningKey, SystemRandomness};

    const PEM: &str = include_str!("../../tests/data/keys/p256-pkcs8.pem");

    fn assertion(signer: &dyn Signer, algorithms: Option<&[String]>) -> Result<Secret, AuthError> {
        let now = UnixTime::from_seconds(1_700_000_000.7);
        let issuer = "https://as.example/";
        ClientAssertion { signer, issuer, algorithms, now, randomness: &SystemRandomness }.sign("client:1")
    }

    /// The header and the claims of a token.
    pub(in crate::auth) fn read(token: &str) -> [Value; 2] {
        let mut parts = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
        [(); 2].map(|()| serde_json::from_slice(&parts.next().unwrap()).unwrap())
    }

    #[test]
    fn m01_an_assertion_says_who_the_client_is_to_one_issuer_for_a_few_minutes() {
        let key = SigningKey::from_pem(&PEM.into()).unwrap();
        let token = assertion(&key, None).unwrap();
        let [header, mut claims] = read(token.expose());
        assert_eq!(header, json!({"alg": "ES256", "typ": "client-authentication+jwt"}));
        let jti = claims["jti"].take();
        assert_eq!(
            claims,
            json!({"iss": "client:1", "sub": "client:1", "aud": "https://as.example/", "iat": 1_700_000_000,
                "exp": 1_700_000_300, "jti": null})
        );
        let (signed, signature) = token.expose().rsplit_once('.').unwrap();
        let der = rustls::pki_types::pem::PemObject::from_pem_slice(PEM.as_bytes()).unwrap();
        let rustls::pki_types::PrivateKeyDer::Pkcs8(der) = der else { unreachable!() };
        let pair = ring::signature::EcdsaKeyPair::from_pkcs8(
            &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            der.secret_pkcs8_der(),
            &ring::rand::SystemRandom::new(),
        );
        let public =
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.unwrap().public_key().as_ref().to_vec());
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        // Each is new, and names the key if there are several.
        let [header, claims] = read(assertion(&key.with_id("k1"), None).unwrap().expose());
        assert_eq!(header["kid"], "k1");
        assert_ne!(claims["jti"], jti);
    }

    #[test]
    fn m01_an_algorithm_that_the_server_does_not_list_is_refused_here() {
        let key = SigningKey::from_pem(&PEM.into()).unwrap();
        let listed = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(assertion(&key, Some(&listed(&["RS256", "ES256"]))).is_ok());
        let refused = assertion(&key, Some(&listed(&["RS256"])));
        assert_eq!(refused, Err(InvalidClient::Algorithm("ES256").into()));
    }

    /// A key that is somewhere else, and cannot be reached.
    #[derive(Debug)]
    struct Gone;

    impl Signer for Gone {
        fn algorithm(&self) -> SigningAlgorithm {
            SigningAlgorithm::Rs256
        }

        fn key_id(&self) -> Option<&str> {
            None
        }

        fn sign(&self, _message: &[u8]) -> Result<Vec<u8>, crate::auth::CannotSign> {
            Err(crate::auth::CannotSign("the agent is gone".to_owned()))
        }
    }

    #[test]
    fn a_key_that_cannot_be_reached_is_told() {
        let message = assertion(&Gone, None).unwrap_err().to_string();
        assert_eq!(message, "the client cannot be used: cannot sign: the agent is gone");
    }
}
