use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use mcp_proto::Secret;

use super::client_assertion::{CLIENT_ASSERTION_TYPE, ClientAssertion};
use super::client_record::{AuthMethod, ClientRecord, InvalidClient};
use super::dpop::Possession;
use super::error::AuthError;
use super::form::{self, Form};
use super::metadata::ServerMetadata;
use super::oauth_http::{OAuthRequest, TOKEN_LIMIT};
use super::random::Randomness;
use super::signer::Signer;
use super::unix_time::UnixTime;
use super::web_url::WebUrl;

/// To whom a client proves who it is, and what it has for that beside its record.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientProof<'a> {
    /// The issuer as it is known here; what its metadata says goes before it.
    pub(super) issuer: &'a str,
    pub(super) metadata: Option<&'a ServerMetadata>,
    pub(super) signer: Option<&'a dyn Signer>,
    /// Of the key that a token is to be bound to.
    pub(super) possession: Option<&'a Possession>,
    pub(super) now: UnixTime,
    pub(super) randomness: &'a dyn Randomness,
}

/// Makes a request to an endpoint where the client proves who it is, in exactly one way.
///
/// The record is normalised first, whatever has been done to it since it was read.
///
/// # Errors
///
/// The record cannot be used, or nothing can be signed.
///
/// # Source
///
/// RFC 6749, section 2.3.1; RFC 7523, section 2.2.
pub(super) fn token_request(
    endpoint: &WebUrl,
    form: Form,
    client: &ClientRecord,
    proof: &ClientProof<'_>,
) -> Result<OAuthRequest, AuthError> {
    let mut client = client.clone();
    client.normalise(proof.methods());
    let mut headers = HeaderMap::new();
    let id = client.client_id.as_str();
    let form = match (client.auth_method()?, &client.client_secret) {
        (AuthMethod::ClientSecretBasic, Some(secret)) => {
            headers.insert(header::AUTHORIZATION, basic(id, secret)?);
            form
        }
        (AuthMethod::ClientSecretPost, Some(secret)) => {
            form.with("client_id", id).with("client_secret", secret.clone())
        }
        // The assertion names the client.
        (AuthMethod::PrivateKeyJwt, _) => form
            .with("client_assertion_type", CLIENT_ASSERTION_TYPE)
            .with("client_assertion", proof.sign(id)?),
        (AuthMethod::None, None) => form.with("client_id", id),
        // Normalising has given every secret a method, and `auth_method` has refused the opposite.
        _ => return Err(InvalidClient::NoSecret.into()),
    };
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    let mut request = OAuthRequest::post(endpoint.clone(), headers, form.encode(), TOKEN_LIMIT);
    if let Some(possession) = proof.possession {
        possession.prove(&mut request, proof.now, proof.randomness)?;
    }
    Ok(request)
}

/// The way in which a configured client proves who it is, where nobody has said: every server has to know
/// the header, the body is an extra (RFC 6749, section 2.3.1).
pub(super) fn settle_method(client: &mut ClientRecord, listed: Option<&[String]>) {
    if client.token_endpoint_auth_method.is_none() && client.client_secret.is_some() {
        let lists =
            |method: AuthMethod| listed.is_some_and(|listed| listed.iter().any(|one| one == method.as_str()));
        let (basic, post) = (AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost);
        let method = if lists(post) && !lists(basic) { post } else { basic };
        client.token_endpoint_auth_method = Some(method.as_str().to_owned());
    }
}

impl<'a> ClientProof<'a> {
    fn methods(&self) -> Option<&'a [String]> {
        self.metadata?.token_endpoint_auth_methods_supported.as_deref()
    }

    fn sign(&self, client_id: &str) -> Result<Secret, AuthError> {
        let listed = |metadata: &'a ServerMetadata| {
            metadata.token_endpoint_auth_signing_alg_values_supported.as_deref()
        };
        let issuer = self.metadata.and_then(|metadata| metadata.issuer.as_deref());
        let assertion = ClientAssertion {
            signer: self.signer.ok_or(InvalidClient::NoKey)?,
            issuer: issuer.unwrap_or(self.issuer),
            algorithms: self.metadata.and_then(listed),
            now: self.now,
            randomness: self.randomness,
        };
        assertion.sign(client_id)
    }
}

/// Both parts are encoded as in a form before they are joined, so that a `:` in either is no end.
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, InvalidClient> {
    let pair =
        Secret::new(format!("{}:{}", form::encode(id).expose(), form::encode(secret.expose()).expose()));
    let value = Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())));
    // Base64 fits into every header.
    let mut value = HeaderValue::from_str(value.expose()).map_err(|_| InvalidClient::NoSecret)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::client_assertion::tests::read;
    use crate::auth::{ClientSource, SigningKey, SystemRandomness};

    const ODD: &str = "a:b%+ /é";
    const PEM: &str = include_str!("../../tests/data/keys/p256-pkcs8.pem");

    fn request(secret: Option<&str>, method: Option<&str>) -> Result<(Option<String>, Form), AuthError> {
        let key = SigningKey::from_pem(&PEM.into()).unwrap();
        signed_request(secret, method, Some(&key), None)
    }

    fn signed_request(
        secret: Option<&str>,
        method: Option<&str>,
        signer: Option<&dyn Signer>,
        metadata: Option<&ServerMetadata>,
    ) -> Result<(Option<String>, Form), AuthError> {
        let mut client = ClientRecord::new(ClientSource::Registered, "id:1");
        client.client_secret = secret.map(Secret::from);
        client.token_endpoint_auth_method = method.map(str::to_owned);
        let endpoint = WebUrl::parse("https://a.example/token").unwrap();
        let proof = ClientProof {
            issuer: "https://a.example",
            metadata,
            signer,
            possession: None,
            now: UnixTime::from_seconds(1e9),
            randomness: &SystemRandomness,
        };
        let request = token_request(&endpoint, Form::new().with("grant_type", "x"), &client, &proof)?;
        assert!(!format!("{request:?}").contains("a%3Ab"));
        let header = request.headers.get(header::AUTHORIZATION);
        assert!(header.is_none_or(HeaderValue::is_sensitive));
        let header = header.map(|value| value.to_str().unwrap().to_owned());
        Ok((header, Form::parse(request.body.unwrap().expose())))
    }

    #[test]
    fn n06_the_secret_travels_in_one_way_alone() {
        let value = |form: &Form, name| form.get(name).map(|value| value.expose().to_owned());
        let (header, form) = request(Some(ODD), Some("client_secret_basic")).unwrap();
        let header = header.unwrap();
        let pair = STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        let pair = String::from_utf8(pair).unwrap();
        assert_eq!(pair, "id%3A1:a%3Ab%25%2B+%2F%C3%A9");
        assert_eq!((value(&form, "client_secret"), value(&form, "client_id")), (None, None));

        let (header, form) = request(Some(ODD), Some("client_secret_post")).unwrap();
        assert_eq!(header, None);
        assert_eq!(value(&form, "client_secret").as_deref(), Some(ODD));
        assert_eq!(value(&form, "client_id").as_deref(), Some("id:1"));

        let (header, form) = request(None, Some("none")).unwrap();
        assert_eq!((header, value(&form, "client_secret")), (None, None));
        assert_eq!(value(&form, "client_id").as_deref(), Some("id:1"));
        assert_eq!(value(&form, "grant_type").as_deref(), Some("x"));
    }

    #[test]
    fn f166_n04_a_record_is_normalised_before_each_request() {
        for poked in [None, Some(""), Some("none")] {
            let (header, form) = request(Some("s"), poked).unwrap();
            assert_eq!((header, form.repeats("client_secret")), (None, false));
            assert_eq!(form.get("client_secret").unwrap().expose(), "s");
        }
        let refused = request(None, Some("client_secret_basic")).unwrap_err();
        assert_eq!(refused, InvalidClient::NoSecret.into());
    }

    #[test]
    fn m01_an_assertion_takes_the_place_of_id_and_secret_and_is_meant_for_the_issuer() {
        let value = |form: &Form, name| form.get(name).map(|value| value.expose().to_owned());
        let mut metadata = ServerMetadata::default();
        for issuer in [None, Some("https://a.example/")] {
            metadata.issuer = issuer.map(str::to_owned);
            let key = SigningKey::from_pem(&PEM.into()).unwrap();
            let sent = signed_request(Some("s"), Some("private_key_jwt"), Some(&key), Some(&metadata));
            let (header, form) = sent.unwrap();
            assert_eq!(
                (header, value(&form, "client_id"), value(&form, "client_secret")),
                (None, None, None)
            );
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            assert_eq!(value(&form, "client_assertion_type").as_deref(), Some(kind));
            let [_, claims] = read(&value(&form, "client_assertion").unwrap());
            assert_eq!(claims["sub"], "id:1");
            assert_eq!(claims["aud"], issuer.unwrap_or("https://a.example"));
        }
        metadata.token_endpoint_auth_signing_alg_values_supported = Some(vec!["RS256".to_owned()]);
        let key = SigningKey::from_pem(&PEM.into()).unwrap();
        let refused = signed_request(None, Some("private_key_jwt"), Some(&key), Some(&metadata)).unwrap_err();
        assert_eq!(refused, InvalidClient::Algorithm("ES256").into());
        let refused = signed_request(None, Some("private_key_jwt"), None, None).unwrap_err();
        assert_eq!(refused, InvalidClient::NoKey.into());
    }
}
