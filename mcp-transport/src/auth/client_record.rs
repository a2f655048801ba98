use std::collections::BTreeSet;
use std::fmt;

use mcp_proto::Secret;
use serde_json::{Map, Value};

use super::members::{seconds, take_secret, take_text, take_texts};
use super::signer::CannotSign;
use super::unix_time::UnixTime;

/// How deep lists and objects may lie in what a server adds: documents that are deeper cannot be read again.
const MAX_DEPTH: usize = 64;

/// A client as an authorization server knows it. `Debug` shows no value of a member it does not know.
///
/// Servers issue records that contradict themselves: a secret together with the method `none`, or
/// without any method. [`normalise`](Self::normalise) settles that in one way, and is applied wherever a
/// record comes from, is kept, or is used.
///
/// # Source
///
/// RFC 7591, sections 2 and 3.2.1.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientRecord {
    /// How the client came by its identifier.
    pub source: ClientSource,
    /// The identifier; never empty.
    pub client_id: String,
    /// What a confidential client proves itself with.
    pub client_secret: Option<Secret>,
    /// When the secret ends, if it does.
    pub secret_expires_at: Option<UnixTime>,
    /// The method as it was recorded; see [`auth_method`](Self::auth_method).
    pub token_endpoint_auth_method: Option<String>,
    /// The redirect URIs, as they were registered.
    pub redirect_uris: Vec<String>,
    /// The grants that were registered.
    pub grant_types: Vec<String>,
    /// The response types that were registered.
    pub response_types: Vec<String>,
    /// Gives access to the registration itself.
    pub registration_access_token: Option<Secret>,
    /// All other members, as they were, but for those that lie deeper than 64 lists and objects.
    pub other: Map<String, Value>,
}

/// How a client came by its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSource {
    /// The user has configured it.
    Configured,
    /// It is the URL of a document that describes the client.
    Document,
    /// The authorization server has issued it on request.
    Registered,
}

/// How a client proves who it is at the token endpoint: in exactly one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthMethod {
    /// The secret in the header `Authorization`.
    ClientSecretBasic,
    /// The secret in the body.
    ClientSecretPost,
    /// It names itself and proves nothing.
    None,
    /// It signs a text that says who it is; the key is not part of the record.
    PrivateKeyJwt,
}

/// A record cannot be used. The authorization server is at fault, or the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidClient {
    /// The key signs in a way that the authorization server does not list.
    #[error("the key of the client signs with {0}, which the authorization server does not take")]
    Algorithm(&'static str),
    /// There is no identifier.
    #[error("the client has no identifier")]
    NoClientId,
    /// The grant or the response type of the code flow is not among those registered.
    #[error("the client was registered without the authorization code grant")]
    NoCodeGrant,
    /// The method needs a key, and none is configured.
    #[error("the client is to prove itself with a key, and none is configured")]
    NoKey,
    /// The method needs a secret, and none was issued.
    #[error("the client is to prove itself with a secret, and none was issued")]
    NoSecret,
    /// The redirect URI is not among those registered.
    #[error("the client was registered with other redirect URIs")]
    RedirectUri,
    /// The secret has expired.
    #[error("the secret of the client has expired")]
    SecretExpired,
    /// The key does not sign.
    #[error(transparent)]
    Signature(CannotSign),
    /// The method is none that is supported here.
    #[error("the client is to prove itself by {0}, which is not supported")]
    UnknownMethod(String),
}

impl ClientSource {
    pub(super) const ALL: [Self; 3] = [Self::Configured, Self::Document, Self::Registered];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Document => "document",
            Self::Registered => "registered",
        }
    }
}

impl AuthMethod {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::None => "none",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// Reads a name of the wire.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::ClientSecretBasic, Self::ClientSecretPost, Self::None, Self::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.as_str() == name)
    }
}

impl ClientRecord {
    /// A client without a secret.
    #[must_use]
    pub fn new(source: ClientSource, client_id: impl Into<String>) -> Self {
        Self {
            source,
            client_id: client_id.into(),
            client_secret: None,
            secret_expires_at: None,
            token_endpoint_auth_method: None,
            redirect_uris: Vec::new(),
            grant_types: Vec::new(),
            response_types: Vec::new(),
            registration_access_token: None,
            other: Map::new(),
        }
    }

    /// Reads a record as a server or a file holds it, and normalises it.
    ///
    /// Members that are null or empty count as absent; an `issuer` that a server writes is dropped.
    ///
    /// # Errors
    ///
    /// There is no identifier.
    pub fn read(
        source: ClientSource,
        mut members: Map<String, Value>,
        server_methods: Option<&[String]>,
    ) -> Result<Self, InvalidClient> {
        members.remove("issuer");
        // 0 stands for never.
        let expires = seconds(&members, "client_secret_expires_at").filter(|seconds| *seconds > 0.0);
        members.remove("client_secret_expires_at");
        members.retain(|_, value| is_flat(value, MAX_DEPTH));
        let mut record = Self {
            source,
            client_id: take_text(&mut members, "client_id").ok_or(InvalidClient::NoClientId)?,
            client_secret: take_secret(&mut members, "client_secret"),
            secret_expires_at: expires.map(UnixTime::from_seconds),
            token_endpoint_auth_method: take_text(&mut members, "token_endpoint_auth_method"),
            redirect_uris: take_texts(&mut members, "redirect_uris").unwrap_or_default(),
            grant_types: take_texts(&mut members, "grant_types").unwrap_or_default(),
            response_types: take_texts(&mut members, "response_types").unwrap_or_default(),
            registration_access_token: take_secret(&mut members, "registration_access_token"),
            other: members,
        };
        record.normalise(server_methods);
        Ok(record)
    }

    /// The members to keep, normalised; they hold the secrets in the clear.
    pub(super) fn write(&self, server_methods: Option<&[String]>) -> Map<String, Value> {
        let mut record = self.clone();
        record.normalise(server_methods);
        let mut members = record.other;
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().into());
        let list = |list: Vec<String>| (!list.is_empty()).then(|| list.into());
        let known: [(&str, Option<Value>); 8] = [
            ("client_id", Some(record.client_id.into())),
            ("client_secret", secret(&record.client_secret)),
            ("client_secret_expires_at", record.secret_expires_at.map(UnixTime::to_value)),
            ("token_endpoint_auth_method", record.token_endpoint_auth_method.map(Value::from)),
            ("redirect_uris", list(record.redirect_uris)),
            ("grant_types", list(record.grant_types)),
            ("response_types", list(record.response_types)),
            ("registration_access_token", secret(&record.registration_access_token)),
        ];
        members.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        members
    }

    /// Makes secret and method fit together; answers whether anything has changed.
    ///
    /// A client that was issued a secret uses it: in the body, unless the server lists the header and
    /// not the body. Every other contradiction stays, for [`auth_method`](Self::auth_method) to refuse.
    pub fn normalise(&mut self, server_methods: Option<&[String]>) -> bool {
        let before = (self.client_secret.is_some(), self.token_endpoint_auth_method.clone());
        self.client_secret = self.client_secret.take().filter(|secret| !secret.expose().is_empty());
        let lists = |method: AuthMethod| {
            server_methods.is_some_and(|listed| listed.iter().any(|one| one == method.as_str()))
        };
        let settled = match (&self.client_secret, self.token_endpoint_auth_method.as_deref()) {
            (Some(_), None | Some("" | "none")) => {
                let (post, basic) = (AuthMethod::ClientSecretPost, AuthMethod::ClientSecretBasic);
                Some(if lists(basic) && !lists(post) { basic } else { post })
            }
            (None, None | Some("")) => Some(AuthMethod::None),
            _ => None,
        };
        if let Some(method) = settled {
            self.token_endpoint_auth_method = Some(method.as_str().to_owned());
        }
        before != (self.client_secret.is_some(), self.token_endpoint_auth_method.clone())
    }

    /// How the client proves who it is. To be asked of a normalised record.
    ///
    /// # Errors
    ///
    /// The method is unknown, or the record lacks what it needs.
    pub fn auth_method(&self) -> Result<AuthMethod, InvalidClient> {
        let name = self.token_endpoint_auth_method.as_deref().unwrap_or("none");
        match AuthMethod::parse(name) {
            Some(AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost)
                if self.client_secret.is_none() =>
            {
                Err(InvalidClient::NoSecret)
            }
            Some(method) => Ok(method),
            None => Err(InvalidClient::UnknownMethod(mcp_proto::escape(name, 64).into_owned())),
        }
    }

    /// Fills in what a server has not repeated of a registration: it is as it was asked for.
    pub fn complete(&mut self, redirect_uri: &str) {
        let fill = |list: &mut Vec<String>, wanted: &[&str]| {
            if list.is_empty() {
                list.extend(wanted.iter().map(|one| (*one).to_owned()));
            }
        };
        fill(&mut self.redirect_uris, &[redirect_uri]);
        fill(&mut self.grant_types, &["authorization_code", "refresh_token"]);
        fill(&mut self.response_types, &["code"]);
    }

    /// Checks what a server has made of a registration, before anything is kept or shown.
    ///
    /// # Errors
    ///
    /// The code flow would fail with this record.
    pub fn check_for_code_flow(&self, redirect_uri: &str, now: UnixTime) -> Result<(), InvalidClient> {
        if !self.redirect_uris.iter().any(|uri| uri == redirect_uri) {
            return Err(InvalidClient::RedirectUri);
        }
        let has_grant = self.grant_types.iter().any(|grant| grant == "authorization_code");
        if !has_grant || !self.response_types.iter().any(|kind| kind == "code") {
            return Err(InvalidClient::NoCodeGrant);
        }
        if self.is_secret_expired(now) {
            return Err(InvalidClient::SecretExpired);
        }
        self.auth_method().map(drop)
    }

    /// Whether the secret is of no use any more.
    #[must_use]
    pub fn is_secret_expired(&self, now: UnixTime) -> bool {
        self.secret_expires_at.is_some_and(|end| end <= now)
    }

    /// Everything here that must never be shown, for a [`Redactor`](mcp_proto::Redactor) to know.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.client_secret.iter().chain(&self.registration_access_token)
    }
}

impl fmt::Debug for ClientRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRecord")
            .field("source", &self.source)
            .field("client_id", &mcp_proto::escape(&self.client_id, 200))
            .field("client_secret", &self.client_secret)
            .field("token_endpoint_auth_method", &self.token_endpoint_auth_method)
            .field("redirect_uris", &self.redirect_uris)
            .field("other", &self.other.keys().collect::<BTreeSet<_>>())
            .finish_non_exhaustive()
    }
}

/// Whether nothing in a value lies deeper than so many lists and objects.
fn is_flat(value: &Value, depth: usize) -> bool {
    let is_flat_inside = |value: &Value| depth > 0 && is_flat(value, depth - 1);
    match value {
        Value::Array(values) => values.iter().all(is_flat_inside),
        Value::Object(members) => members.values().all(is_flat_inside),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(value: Value, methods: Option<&[&str]>) -> Result<ClientRecord, InvalidClient> {
        let Value::Object(members) = value else { panic!("an object") };
        let methods: Option<Vec<String>> =
            methods.map(|methods| methods.iter().map(|method| (*method).to_owned()).collect());
        ClientRecord::read(ClientSource::Registered, members, methods.as_deref())
    }

    fn method(value: Value, methods: Option<&[&str]>) -> Option<String> {
        read(value, methods).unwrap().token_endpoint_auth_method
    }

    #[test]
    fn f166_n01_n02_a_secret_is_never_without_its_method() {
        const POST: &str = "client_secret_post";
        const BASIC: &str = "client_secret_basic";
        let (both, basic, none) = ([BASIC, POST], [BASIC, "none"], ["none"]);
        for stated in [json!({}), json!({"m": null}), json!({"m": ""}), json!({"m": "none"}), json!({"m": 7})]
        {
            let record = |secret: Value| {
                let mut record = json!({"client_id": "c", "client_secret": secret});
                if let Some(method) = stated.get("m") {
                    record["token_endpoint_auth_method"] = method.clone();
                }
                record
            };
            for (methods, expected) in
                [(None, POST), (Some(&both[..]), POST), (Some(&basic[..]), BASIC), (Some(&none[..]), POST)]
            {
                assert_eq!(method(record("s".into()), methods).unwrap(), expected, "{stated} {methods:?}");
            }
            for absent in ["".into(), Value::Null, 7.into()] {
                assert_eq!(method(record(absent), Some(&both)).unwrap(), "none", "{stated}");
            }
        }
    }

    #[test]
    fn f166_n01_a_method_that_fits_is_left_alone() {
        for stated in ["client_secret_post", "client_secret_basic", "private_key_jwt", "client_secret_jwt"] {
            let record =
                json!({"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": stated});
            assert_eq!(method(record, Some(&["none"])).unwrap(), stated);
        }
    }

    #[test]
    fn n05_what_cannot_work_is_refused_by_name() {
        let with = |name: &str, secret: Option<&str>| {
            let record =
                json!({"client_id": "c", "client_secret": secret, "token_endpoint_auth_method": name});
            read(record, None).unwrap().auth_method()
        };
        assert_eq!(with("none", None), Ok(AuthMethod::None));
        assert_eq!(with("client_secret_basic", Some("s")), Ok(AuthMethod::ClientSecretBasic));
        for name in ["client_secret_basic", "client_secret_post"] {
            assert_eq!(with(name, None), Err(InvalidClient::NoSecret));
        }
        assert_eq!(with("private_key_jwt", None), Ok(AuthMethod::PrivateKeyJwt));
        for name in ["client_secret_jwt", "tls_client_auth", "x\u{1b}"] {
            assert!(matches!(with(name, Some("s")), Err(InvalidClient::UnknownMethod(_))), "{name}");
        }
        for client_id in [json!({}), json!({"client_id": null}), json!({"client_id": ""})] {
            assert_eq!(read(client_id, None), Err(InvalidClient::NoClientId));
        }
    }

    #[test]
    fn n05_a_registration_must_allow_the_code_flow() {
        let now = UnixTime::from_seconds(1000.0);
        let check = |mut record: Value| {
            record["client_id"] = "c".into();
            let mut record = read(record, None).unwrap();
            record.complete("http://127.0.0.1:1/callback");
            record.check_for_code_flow("http://127.0.0.1:1/callback", now).map(|()| record)
        };
        let filled = check(json!({"redirect_uris": null, "grant_types": [], "response_types": ""})).unwrap();
        assert_eq!(filled.redirect_uris, ["http://127.0.0.1:1/callback"]);
        assert_eq!(filled.grant_types, ["authorization_code", "refresh_token"]);
        for (record, expected) in [
            (json!({"redirect_uris": ["http://127.0.0.1:2/callback"]}), InvalidClient::RedirectUri),
            (json!({"redirect_uris": ["http://127.0.0.1:1/callback/"]}), InvalidClient::RedirectUri),
            (json!({"grant_types": ["client_credentials"]}), InvalidClient::NoCodeGrant),
            (json!({"response_types": ["token"]}), InvalidClient::NoCodeGrant),
            (json!({"client_secret": "s", "client_secret_expires_at": 999}), InvalidClient::SecretExpired),
            (json!({"client_secret": "s", "client_secret_expires_at": "1000"}), InvalidClient::SecretExpired),
            (json!({"token_endpoint_auth_method": "client_secret_post"}), InvalidClient::NoSecret),
        ] {
            assert_eq!(check(record.clone()).unwrap_err(), expected, "{record}");
        }
        for never in [json!(0), json!(null), json!("0"), json!(1001), json!(-1)] {
            assert!(
                check(json!({"client_secret": "s", "client_secret_expires_at": never})).is_ok(),
                "{never}"
            );
        }
    }

    #[test]
    fn n07_an_issuer_that_a_server_writes_is_dropped() {
        let record = read(json!({"client_id": "c", "issuer": "https://evil.example", "x": 1}), None).unwrap();
        assert_eq!(record.other, *json!({"x": 1}).as_object().unwrap());
    }

    #[test]
    fn z01_a_record_does_not_show_its_secrets() {
        let record = json!({"client_id": "c", "client_secret": "canary", "registration_access_token": "canary",
            "vendor": "canary"});
        let shown = format!("{:?}", read(record, None).unwrap());
        assert!(!shown.contains("canary") && shown.contains("vendor"), "{shown}");
    }

    fn any_member() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            Just("".into()),
            Just("none".into()),
            Just("client_secret_basic".into()),
            Just("client_secret_post".into()),
            Just("tls_client_auth".into()),
            Just(0.into()),
            Just(2_000_000_000.into()),
            Just("17".into()),
            Just(json!(["a", "", 1])),
            Just(json!([])),
            Just(json!({"deep": null})),
        ]
    }

    proptest! {
        #[test]
        fn f166_n03_what_is_written_is_read_unchanged(
            members in prop::collection::hash_map(
                prop::sample::select(vec![
                    "client_secret", "token_endpoint_auth_method", "client_secret_expires_at", "redirect_uris",
                    "grant_types", "response_types", "registration_access_token", "issuer", "client_name", "x",
                ]),
                any_member(),
                0..8,
            ),
            methods in prop::option::of(prop::sample::subsequence(
                vec!["none".to_owned(), "client_secret_basic".to_owned(), "client_secret_post".to_owned()], 0..3)),
        ) {
            let mut object: Map<String, Value> =
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            object.insert("client_id".to_owned(), "c".into());
            let methods = methods.as_deref();
            let once = ClientRecord::read(ClientSource::Registered, object, methods).unwrap();
            let mut twice = once.clone();
            prop_assert!(!twice.normalise(methods));
            prop_assert_eq!(&twice, &once);
            let written = once.write(methods);
            let again = ClientRecord::read(ClientSource::Registered, written.clone(), methods).unwrap();
            prop_assert_eq!(&again, &once);
            prop_assert_eq!(again.write(methods), written);
        }
    }
}
