use http::{HeaderMap, HeaderValue, header};
use mcp_proto::{Redactor, Secret};
use serde_json::{Map, Value, json};

use super::client_record::{AuthMethod, ClientRecord, ClientSource};
use super::error::AuthError;
use super::error_reply::ErrorReply;
use super::members::object;
use super::metadata::ServerMetadata;
use super::oauth_http::{OAuthRequest, OAuthResponse, TOKEN_LIMIT};
use super::scope::Scopes;
use super::settings::ApplicationType;
use super::web_url::WebUrl;

/// What a client tells about itself when it registers.
///
/// # Source
///
/// RFC 7591, sections 2 and 3.1; MCP 2026-07-28, basic/authorization (`application_type`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Registration<'a> {
    pub(super) name: &'a str,
    pub(super) redirect_uri: &'a str,
    pub(super) application_type: ApplicationType,
    pub(super) scopes: &'a Scopes,
}

/// Why there is no client.
#[derive(Debug)]
pub(super) enum NotRegistered {
    /// Another kind of client might be accepted.
    OtherType(ErrorReply),
    Failed(AuthError),
}

impl Registration<'_> {
    pub(super) fn request(&self, endpoint: &WebUrl, metadata: &ServerMetadata) -> OAuthRequest {
        let mut body = json!({
            "client_name": self.name,
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": preferred_method(metadata).as_str(),
            "application_type": self.application_type.as_str(),
        });
        if let (Value::Object(members), Some(scope)) = (&mut body, self.scopes.to_parameter()) {
            members.insert("scope".to_owned(), scope.into());
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        OAuthRequest::post(endpoint.clone(), headers, Secret::new(body.to_string()), TOKEN_LIMIT)
    }
}

/// The method to ask for: none if the server allows it, as a client on a person's machine keeps no secret.
fn preferred_method(metadata: &ServerMetadata) -> AuthMethod {
    let Some(listed) = &metadata.token_endpoint_auth_methods_supported else { return AuthMethod::None };
    [AuthMethod::None, AuthMethod::ClientSecretPost, AuthMethod::ClientSecretBasic]
        .into_iter()
        .find(|method| listed.iter().any(|one| one == method.as_str()))
        .unwrap_or(AuthMethod::None)
}

/// Reads the answer to a registration.
pub(super) fn read(
    response: &OAuthResponse,
    metadata: &ServerMetadata,
) -> Result<ClientRecord, NotRegistered> {
    if response.is_transient() {
        return Err(NotRegistered::Failed(AuthError::Unavailable {
            what: format!("the registration endpoint answers with the status {}", response.status),
            retry_after: response.retry_after(),
        }));
    }
    let reply = ErrorReply::read(response.status, &response.body, &Redactor::default());
    if !response.is_success() || reply.error.is_some() {
        return Err(match reply.is("invalid_redirect_uri") || reply.is("invalid_client_metadata") {
            true => NotRegistered::OtherType(reply),
            false => NotRegistered::Failed(AuthError::RegistrationRejected(reply)),
        });
    }
    let members: Map<String, Value> = object(&response.body).unwrap_or_default();
    let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
    ClientRecord::read(ClientSource::Registered, members, methods)
        .map_err(|invalid| NotRegistered::Failed(invalid.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(methods: Option<&[&str]>) -> ServerMetadata {
        ServerMetadata {
            token_endpoint_auth_methods_supported: methods
                .map(|methods| methods.iter().map(|method| (*method).to_owned()).collect()),
            ..ServerMetadata::default()
        }
    }

    #[test]
    fn a_registration_names_the_redirect_the_type_and_a_method_that_is_offered() {
        let scopes = Scopes::parse("a b");
        let registration = Registration {
            name: "x",
            redirect_uri: "http://127.0.0.1:1/callback",
            application_type: ApplicationType::Native,
            scopes: &scopes,
        };
        let endpoint = WebUrl::parse("https://as.example/register").unwrap();
        for (methods, expected) in [
            (None, "none"),
            (Some(&["client_secret_basic", "none"][..]), "none"),
            (Some(&["client_secret_basic", "client_secret_post"]), "client_secret_post"),
            (Some(&["client_secret_basic", "private_key_jwt"]), "client_secret_basic"),
            (Some(&["private_key_jwt"]), "none"),
        ] {
            let request = registration.request(&endpoint, &metadata(methods));
            let body: Value = serde_json::from_str(request.body.unwrap().expose()).unwrap();
            assert_eq!(body["token_endpoint_auth_method"], expected);
            assert_eq!((&body["application_type"], &body["scope"]), (&"native".into(), &"a b".into()));
            assert_eq!(body["redirect_uris"], json!(["http://127.0.0.1:1/callback"]));
            assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
        }
        let bare = Registration { scopes: &Scopes::default(), ..registration };
        let body = bare.request(&endpoint, &metadata(None)).body.unwrap();
        assert!(!body.expose().contains("scope"));
    }

    #[test]
    fn answers_are_classed() {
        let read = |status: u16, body: &str| {
            let response = OAuthResponse::new(status, HeaderMap::new(), body.as_bytes().to_vec());
            read(&response, &ServerMetadata::default())
        };
        for status in [200, 201] {
            assert_eq!(read(status, r#"{"client_id": "c"}"#).unwrap().client_id, "c");
        }
        for (status, body) in [(500, ""), (429, r#"{"error": "x"}"#)] {
            let Err(NotRegistered::Failed(error)) = read(status, body) else { panic!("{status}") };
            assert!(error.is_transient());
        }
        for code in ["invalid_redirect_uri", "invalid_client_metadata"] {
            let body = format!(r#"{{"error": "{code}"}}"#);
            assert!(matches!(read(400, &body), Err(NotRegistered::OtherType(_))));
        }
        for (status, body) in [(403, "<html>"), (400, r#"{"error": "access_denied"}"#), (302, "")] {
            let Err(NotRegistered::Failed(error)) = read(status, body) else { panic!("{status}") };
            assert!(matches!(error, AuthError::RegistrationRejected(_)), "{status}");
        }
        assert!(matches!(read(201, "{}"), Err(NotRegistered::Failed(AuthError::Client(_)))));
    }
}
