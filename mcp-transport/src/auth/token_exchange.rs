use mcp_proto::{Redactor, Secret};

use super::client_auth::{ClientProof, settle_method, token_request};
use super::client_record::{ClientRecord, ClientSource};
use super::error::AuthError;
use super::error_reply::ErrorReply;
use super::form::Form;
use super::identity::IdentityProvider;
use super::members::{object, take_secret, text};
use super::oauth_http::{OAuthRequest, OAuthResponse};
use super::random::Randomness;
use super::scope::Scopes;
use super::unix_time::UnixTime;

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// An identity assertion for an authorization grant: what the authorization server is shown.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Asks the identity provider of an organisation to vouch for a person at one authorization server.
///
/// # Source
///
/// RFC 8693, section 2; draft *Identity Assertion JWT Authorization Grant*; MCP extension
/// `io.modelcontextprotocol/enterprise-managed-authorization`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenExchange<'a> {
    pub(super) provider: &'a IdentityProvider,
    /// The issuer that will be shown the answer.
    pub(super) audience: &'a str,
    pub(super) resource: Option<&'a str>,
    pub(super) scopes: &'a Scopes,
}

/// The identity provider does not vouch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotVouched {
    Failed(AuthError),
    /// It does not take the token of the identity, or not any more.
    Identity(ErrorReply),
}

impl TokenExchange<'_> {
    pub(super) fn request(
        &self,
        identity: &Secret,
        now: UnixTime,
        randomness: &dyn Randomness,
    ) -> Result<OAuthRequest, AuthError> {
        let Self { provider, audience, resource, scopes } = self;
        let form = Form::new()
            .with("grant_type", TOKEN_EXCHANGE)
            .with("requested_token_type", ID_JAG)
            .with("audience", *audience)
            .with_some("resource", *resource)
            .with_some("scope", scopes.to_parameter())
            .with("subject_token", identity.clone())
            .with("subject_token_type", provider.kind.as_str());
        let mut client = ClientRecord::new(ClientSource::Configured, provider.client.id.as_str());
        client.client_secret.clone_from(&provider.client.secret);
        client.token_endpoint_auth_method = provider.client.method.map(|method| method.as_str().to_owned());
        settle_method(&mut client, None);
        let (metadata, signer, possession) = (None, None, None);
        let proof = ClientProof { issuer: audience, metadata, signer, possession, now, randomness };
        Ok(token_request(&provider.token_endpoint, form, &client, &proof)?.named_by_user())
    }

    /// Reads what the identity provider says: an assertion that can be shown once.
    pub(super) fn read(&self, response: &OAuthResponse, identity: &Secret) -> Result<Secret, NotVouched> {
        let secrets = [identity].into_iter().chain(&self.provider.client.secret);
        let redactor = Redactor::new(secrets.cloned());
        let unavailable = |why: &str| {
            NotVouched::Failed(AuthError::Unavailable {
                what: format!("the identity provider: {why}"),
                retry_after: response.retry_after(),
            })
        };
        if response.is_transient() {
            return Err(unavailable("it is not available"));
        }
        let reply = ErrorReply::read(response.status, &response.body, &redactor);
        match &reply.error {
            Some(error) if error == "invalid_grant" => return Err(NotVouched::Identity(reply)),
            Some(_) => return Err(NotVouched::Failed(AuthError::Denied(reply))),
            None if !response.is_success() => return Err(unavailable(&reply.to_string())),
            None => {}
        }
        let mut members = object(&response.body).unwrap_or_default();
        let is_of_kind = |name: &str, kind: &str| {
            text(&members, name).is_some_and(|stated| stated.eq_ignore_ascii_case(kind))
        };
        // Whatever else it may be is not for the eyes of the authorization server.
        if !is_of_kind("issued_token_type", ID_JAG) || !is_of_kind("token_type", "N_A") {
            return Err(unavailable("the answer is no identity assertion"));
        }
        take_secret(&mut members, "access_token").ok_or_else(|| unavailable("the answer holds no assertion"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::auth::{FixedIdentity, IdentityKind, SystemRandomness, WebUrl};

    fn provider() -> IdentityProvider {
        let endpoint = WebUrl::parse("https://idp.example/token").unwrap();
        IdentityProvider::new(endpoint, "idp-client", Arc::new(FixedIdentity("canary".into())))
    }

    fn exchange<'a>(provider: &'a IdentityProvider, scopes: &'a Scopes) -> TokenExchange<'a> {
        let (audience, resource) = ("https://as.example/", Some("https://rs.example/mcp"));
        TokenExchange { provider, audience, resource, scopes }
    }

    #[test]
    fn an_identity_is_exchanged_for_one_audience_and_resource() {
        let (mut provider, scopes) = (provider(), Scopes::parse("x y"));
        for (kind, name) in [
            (IdentityKind::IdToken, "urn:ietf:params:oauth:token-type:id_token"),
            (IdentityKind::RefreshToken, "urn:ietf:params:oauth:token-type:refresh_token"),
        ] {
            provider.kind = kind;
            let now = UnixTime::from_seconds(0.0);
            let request =
                exchange(&provider, &scopes).request(&"id-1".into(), now, &SystemRandomness).unwrap();
            assert_eq!(request.url.as_str(), "https://idp.example/token");
            assert_eq!(request.policy, None, "the user has written it");
            let form = Form::parse(request.body.unwrap().expose());
            let value = |name: &str| form.get(name).map_or("", |value| value.expose());
            assert_eq!(value("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
            assert_eq!(value("requested_token_type"), "urn:ietf:params:oauth:token-type:id-jag");
            assert_eq!((value("subject_token"), value("subject_token_type")), ("id-1", name));
            assert_eq!(
                (value("audience"), value("resource")),
                ("https://as.example/", "https://rs.example/mcp")
            );
            assert_eq!((value("scope"), value("client_id")), ("x y", "idp-client"));
        }
    }

    #[test]
    fn only_an_identity_assertion_is_taken_for_one() {
        let (provider, scopes) = (provider(), Scopes::default());
        let read = |status, body: Value| {
            let response = OAuthResponse::new(status, HeaderMap::new(), body.to_string().into_bytes());
            exchange(&provider, &scopes).read(&response, &"id-1".into())
        };
        let good = json!({"access_token": "j", "token_type": "N_A",
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"});
        assert_eq!(read(200, good.clone()), Ok("j".into()));
        let spoilt = |name: &str, value: Value| {
            let mut spoilt = good.clone();
            spoilt[name] = value;
            read(200, spoilt)
        };
        for (name, value) in [
            ("issued_token_type", json!("urn:ietf:params:oauth:token-type:access_token")),
            ("issued_token_type", Value::Null),
            ("token_type", json!("Bearer")),
            ("access_token", json!("")),
        ] {
            let end = spoilt(name, value);
            assert!(matches!(end, Err(NotVouched::Failed(AuthError::Unavailable { .. }))), "{name}: {end:?}");
        }
        let refused = read(400, json!({"error": "invalid_grant", "error_description": "id-1 is over"}));
        let Err(NotVouched::Identity(reply)) = refused else { panic!("{refused:?}") };
        assert_eq!(reply.to_string(), "invalid_grant ([secret] is over)");
        let denied = read(400, json!({"error": "access_denied"}));
        assert!(matches!(denied, Err(NotVouched::Failed(AuthError::Denied(_)))), "{denied:?}");
        for status in [404, 429, 503] {
            let end = read(status, Value::Null);
            assert!(
                matches!(end, Err(NotVouched::Failed(AuthError::Unavailable { .. }))),
                "{status}: {end:?}"
            );
        }
    }
}
