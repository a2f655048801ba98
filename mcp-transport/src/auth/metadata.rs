use serde_json::{Map, Value};

use super::members::{flag, object, text, texts};

/// What a protected resource publishes about itself. Every text is untrusted.
///
/// # Source
///
/// RFC 9728, section 2.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The resource that the document speaks of, as it was written.
    pub resource: String,
    /// Issuers of the authorization servers, best first; never empty.
    pub authorization_servers: Vec<String>,
    /// The scopes there are. Absent and empty both mean that no scope is asked for.
    pub scopes_supported: Option<Vec<String>>,
    /// Algorithms of proofs of possession.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Whether tokens have to be bound to a key.
    pub dpop_bound_access_tokens_required: bool,
}

/// What an authorization server publishes about itself. Every text is untrusted.
///
/// Members that are null, empty or of a wrong kind count as absent.
///
/// # Source
///
/// RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3; RFC 9207, section 3; RFC 9449, section 5.1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerMetadata {
    /// Who the server is, as it was written.
    pub issuer: Option<String>,
    /// Where a person grants access.
    pub authorization_endpoint: Option<String>,
    /// Where tokens are issued.
    pub token_endpoint: Option<String>,
    /// Where clients register themselves.
    pub registration_endpoint: Option<String>,
    /// Where tokens are revoked.
    pub revocation_endpoint: Option<String>,
    /// Scopes that can be asked for; looked at for `offline_access` alone.
    pub scopes_supported: Option<Vec<String>>,
    /// `code` must be among them, if they are listed.
    pub response_types_supported: Option<Vec<String>>,
    /// `S256` must be among them.
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// How clients may prove who they are.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Algorithms of signed assertions.
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// Algorithms of proofs of possession.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Profiles of grants, such as that of identity assertions.
    pub authorization_grant_profiles_supported: Option<Vec<String>>,
    /// Whether a client may be named by the URL of its metadata.
    pub client_id_metadata_document_supported: bool,
    /// Whether answers of the authorization endpoint name the issuer.
    pub authorization_response_iss_parameter_supported: bool,
}

impl ResourceMetadata {
    /// Reads a document; `None` if it names no resource or no authorization server.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        let object = object(body)?;
        let authorization_servers = texts(&object, "authorization_servers")?;
        if authorization_servers.is_empty() {
            return None;
        }
        Some(Self {
            resource: text(&object, "resource")?,
            authorization_servers,
            scopes_supported: texts(&object, "scopes_supported"),
            dpop_signing_alg_values_supported: texts(&object, "dpop_signing_alg_values_supported"),
            dpop_bound_access_tokens_required: flag(&object, "dpop_bound_access_tokens_required"),
        })
    }
}

impl ServerMetadata {
    /// Reads a document; `None` if it is no JSON object.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        object(body).map(|object| Self::read(&object))
    }

    pub(super) fn read(object: &Map<String, Value>) -> Self {
        Self {
            issuer: text(object, "issuer"),
            authorization_endpoint: text(object, "authorization_endpoint"),
            token_endpoint: text(object, "token_endpoint"),
            registration_endpoint: text(object, "registration_endpoint"),
            revocation_endpoint: text(object, "revocation_endpoint"),
            scopes_supported: texts(object, "scopes_supported"),
            response_types_supported: texts(object, "response_types_supported"),
            code_challenge_methods_supported: texts(object, "code_challenge_methods_supported"),
            token_endpoint_auth_methods_supported: texts(object, "token_endpoint_auth_methods_supported"),
            token_endpoint_auth_signing_alg_values_supported: texts(
                object,
                "token_endpoint_auth_signing_alg_values_supported",
            ),
            dpop_signing_alg_values_supported: texts(object, "dpop_signing_alg_values_supported"),
            authorization_grant_profiles_supported: texts(object, "authorization_grant_profiles_supported"),
            client_id_metadata_document_supported: flag(object, "client_id_metadata_document_supported"),
            authorization_response_iss_parameter_supported: flag(
                object,
                "authorization_response_iss_parameter_supported",
            ),
        }
    }

    /// The document again, of the members that are known here.
    pub(super) fn write(&self) -> Map<String, Value> {
        let texts = [
            ("issuer", &self.issuer),
            ("authorization_endpoint", &self.authorization_endpoint),
            ("token_endpoint", &self.token_endpoint),
            ("registration_endpoint", &self.registration_endpoint),
            ("revocation_endpoint", &self.revocation_endpoint),
        ];
        let lists = [
            ("scopes_supported", &self.scopes_supported),
            ("response_types_supported", &self.response_types_supported),
            ("code_challenge_methods_supported", &self.code_challenge_methods_supported),
            ("token_endpoint_auth_methods_supported", &self.token_endpoint_auth_methods_supported),
            (
                "token_endpoint_auth_signing_alg_values_supported",
                &self.token_endpoint_auth_signing_alg_values_supported,
            ),
            ("dpop_signing_alg_values_supported", &self.dpop_signing_alg_values_supported),
            ("authorization_grant_profiles_supported", &self.authorization_grant_profiles_supported),
        ];
        let flags = [
            ("client_id_metadata_document_supported", self.client_id_metadata_document_supported),
            (
                "authorization_response_iss_parameter_supported",
                self.authorization_response_iss_parameter_supported,
            ),
        ];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?.into())));
        let lists = lists.into_iter().filter_map(|(name, list)| Some((name, list.clone()?.into())));
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name, true.into()));
        texts.chain(lists).chain(flags).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d01_a_document_that_names_neither_resource_nor_servers_is_none() {
        for body in [
            "",
            "<html>",
            "[]",
            "null",
            "{}",
            r#"{"resource": "https://a.example"}"#,
            r#"{"resource": "https://a.example", "authorization_servers": []}"#,
            r#"{"resource": "https://a.example", "authorization_servers": [null, ""]}"#,
            r#"{"resource": null, "authorization_servers": ["https://b.example"]}"#,
        ] {
            assert_eq!(ResourceMetadata::parse(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn r01_identifiers_are_kept_as_they_were_written() {
        let body = br#"{"resource": "HTTPS://A.example:443", "authorization_servers": ["https://b.example", "https://B.example/"],
            "scopes_supported": null}"#;
        let found = ResourceMetadata::parse(body).unwrap();
        assert_eq!(found.resource, "HTTPS://A.example:443");
        assert_eq!(found.authorization_servers, ["https://b.example", "https://B.example/"]);
        assert_eq!(found.scopes_supported, None);
        assert_eq!(
            (found.dpop_signing_alg_values_supported, found.dpop_bound_access_tokens_required),
            (None, false)
        );
        let body = br#"{"resource": "r", "authorization_servers": ["a"], "dpop_signing_alg_values_supported": ["ES256"],
            "dpop_bound_access_tokens_required": true}"#;
        let found = ResourceMetadata::parse(body).unwrap();
        assert_eq!(found.dpop_signing_alg_values_supported.unwrap(), ["ES256"]);
        assert!(found.dpop_bound_access_tokens_required);
    }

    #[test]
    fn one_bad_member_does_not_spoil_the_document() {
        let body = br#"{"issuer": "https://b.example", "token_endpoint": "https://b.example/t",
            "registration_endpoint": 7, "scopes_supported": "openid", "code_challenge_methods_supported": ["S256", 1],
            "client_id_metadata_document_supported": "yes", "vendor": {"deep": [1]}}"#;
        let found = ServerMetadata::parse(body).unwrap();
        assert_eq!(found.token_endpoint.as_deref(), Some("https://b.example/t"));
        assert_eq!(found.code_challenge_methods_supported.unwrap(), ["S256"]);
        assert_eq!((found.registration_endpoint, found.scopes_supported), (None, None));
        assert!(!found.client_id_metadata_document_supported);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let list = |text: &str| Some(vec![text.to_owned()]);
        let metadata = ServerMetadata {
            issuer: Some("a".into()),
            authorization_endpoint: Some("b".into()),
            token_endpoint: Some("c".into()),
            registration_endpoint: Some("d".into()),
            revocation_endpoint: Some("e".into()),
            scopes_supported: list("f"),
            response_types_supported: list("g"),
            code_challenge_methods_supported: list("h"),
            token_endpoint_auth_methods_supported: list("i"),
            token_endpoint_auth_signing_alg_values_supported: list("j"),
            dpop_signing_alg_values_supported: list("l"),
            authorization_grant_profiles_supported: list("k"),
            client_id_metadata_document_supported: true,
            authorization_response_iss_parameter_supported: true,
        };
        assert_eq!(metadata.write().len(), 14, "each member");
        assert_eq!(ServerMetadata::read(&metadata.write()), metadata);
        assert!(ServerMetadata::default().write().is_empty());
    }
}
