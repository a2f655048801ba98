use std::fmt;

use mcp_proto::Secret;
use serde_json::{Map, Value};
use zeroize::{Zeroize as _, Zeroizing};

use super::client_record::{ClientRecord, ClientSource};
use super::dpop::DpopKey;
use super::issuer::same_issuer;
use super::members::{flag, object, seconds, take_secret, take_text, text};
use super::metadata::ServerMetadata;
use super::scope::Scopes;
use super::tokens::Tokens;
use super::unix_time::UnixTime;

/// The form of the document that is written.
const SCHEMA: u64 = 1;

/// The type of a token that is bound to its key; one without a type is not.
const BOUND: &str = "DPoP";

/// Room that is taken for a document at once, so that growing leaves no copies of secrets behind.
const USUAL_BYTES: usize = 32 * 1024;

/// Everything that is known about the access to one server: one document, replaced as a whole.
///
/// What belongs together is bound together: the tokens are of `client` at `issuer` for `resource` of
/// `server`, and are used for nothing else.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CredentialRecord {
    /// Counts the versions of this record; 0 if it was never saved.
    pub revision: u64,
    /// The canonical URL of the server, without its query.
    pub server: String,
    /// The issuer, as its metadata was asked for.
    pub issuer: String,
    /// The resource that tokens are asked for; the same text in every request of the grant.
    pub resource: Option<String>,
    /// The client.
    pub client: ClientRecord,
    /// What the configured client looked like; its secret itself is not kept.
    pub fingerprint: Option<String>,
    /// The tokens, as long as there are any.
    pub tokens: Option<Tokens>,
    /// What the issuer publishes.
    pub metadata: Option<CachedMetadata>,
    /// The issuer that has refused to know the client by the URL of its document; it need not be the one
    /// above.
    pub document_refused_by: Option<String>,
    /// When the issuer first said that it does not know the client.
    pub unknown_client_since: Option<UnixTime>,
    /// Whether the issuer does not know the client any more, so that the next login has to register another
    /// one.
    pub is_client_void: bool,
}

/// Metadata of an authorization server, with its age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedMetadata {
    /// The document.
    pub document: ServerMetadata,
    /// When it was fetched.
    pub fetched_at: UnixTime,
}

/// A document cannot be read as a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It is no record.
    Corrupt,
    /// A later version of this program has written it.
    Newer(u64),
}

impl CredentialRecord {
    /// A record that was never saved, without tokens.
    #[must_use]
    pub fn new(server: impl Into<String>, issuer: impl Into<String>, client: ClientRecord) -> Self {
        Self {
            revision: 0,
            server: server.into(),
            issuer: issuer.into(),
            resource: None,
            client,
            fingerprint: None,
            tokens: None,
            metadata: None,
            document_refused_by: None,
            unknown_client_since: None,
            is_client_void: false,
        }
    }

    /// Whether this issuer has refused to know the client by the URL of its document.
    pub(super) fn has_refused_document(&self, issuer: &str) -> bool {
        self.document_refused_by.as_ref().is_some_and(|refuser| same_issuer(refuser, issuer))
    }

    /// Whether the access token is bound to a key.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.is_bound)
    }

    /// What the issuer has said about ways to authenticate.
    #[must_use]
    pub fn server_methods(&self) -> Option<&[String]> {
        self.metadata.as_ref()?.document.token_endpoint_auth_methods_supported.as_deref()
    }

    /// Settles the contradictions of the client's record; answers whether anything has changed.
    pub fn normalise(&mut self) -> bool {
        let methods = self.server_methods().map(<[String]>::to_vec);
        self.client.normalise(methods.as_deref())
    }

    /// Everything here that must never be shown, for a [`Redactor`](mcp_proto::Redactor) to know.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.client.secrets().chain(self.tokens.iter().flat_map(Tokens::secrets))
    }

    /// The document to keep, normalised. The memory is wiped when it is dropped.
    pub(super) fn write(&self) -> Zeroizing<Vec<u8>> {
        let mut document = Value::Object(self.to_members());
        let mut bytes = Zeroizing::new(Vec::with_capacity(USUAL_BYTES));
        // Writing a value whose keys are texts into memory cannot fail.
        if let Err(error) = serde_json::to_writer_pretty(&mut *bytes, &document) {
            tracing::error!(%error, "a credential record cannot be written");
        }
        wipe(&mut document);
        bytes
    }

    /// Reads a document; also answers whether writing it again would change it.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, bool), Unreadable> {
        let members = object(bytes).ok_or(Unreadable::Corrupt)?;
        if let Some(newer) = members.get("schema").and_then(Value::as_u64).filter(|schema| *schema > SCHEMA) {
            wipe(&mut Value::Object(members));
            return Err(Unreadable::Newer(newer));
        }
        let record = Self::from_members(members).ok_or(Unreadable::Corrupt)?;
        let has_changed = *record.write() != bytes;
        Ok((record, has_changed))
    }

    fn to_members(&self) -> Map<String, Value> {
        let mut registration = self.client.write(self.server_methods());
        if self.client.source == ClientSource::Configured {
            registration.remove("client_secret");
        }
        let client = [("source", self.client.source.as_str().into()), ("registration", registration.into())];
        let metadata = self.metadata.as_ref().map(|cached| {
            let document = cached.document.write().into();
            members([("fetched_at", Some(cached.fetched_at.to_value())), ("document", Some(document))])
        });
        members([
            ("schema", Some(SCHEMA.into())),
            ("revision", Some(self.revision.into())),
            ("server", Some(self.server.as_str().into())),
            ("issuer", Some(self.issuer.as_str().into())),
            ("resource", self.resource.as_deref().map(Value::from)),
            ("client", Some(members(client.map(|(name, value)| (name, Some(value)))).into())),
            ("fingerprint", self.fingerprint.as_deref().map(Value::from)),
            ("tokens", self.tokens.as_ref().map(|tokens| write_tokens(tokens).into())),
            ("metadata", metadata.map(Value::from)),
            ("document_refused_by", self.document_refused_by.as_deref().map(Value::from)),
            ("unknown_client_since", self.unknown_client_since.map(UnixTime::to_value)),
            ("client_void", self.is_client_void.then(|| true.into())),
        ])
    }

    fn from_members(mut members: Map<String, Value>) -> Option<Self> {
        let metadata = take_object(&mut members, "metadata").and_then(|mut metadata| {
            let document = ServerMetadata::read(&take_object(&mut metadata, "document")?);
            Some(CachedMetadata { document, fetched_at: moment(&metadata, "fetched_at")? })
        });
        let methods = metadata
            .as_ref()
            .and_then(|cached| cached.document.token_endpoint_auth_methods_supported.as_deref());
        let mut client = take_object(&mut members, "client")?;
        let source = text(&client, "source")?;
        let source = ClientSource::ALL.into_iter().find(|known| known.as_str() == source)?;
        let registration = take_object(&mut client, "registration")?;
        Some(Self {
            revision: members.get("revision").and_then(Value::as_u64).unwrap_or_default(),
            server: text(&members, "server")?,
            issuer: text(&members, "issuer")?,
            resource: text(&members, "resource"),
            client: ClientRecord::read(source, registration, methods).ok()?,
            fingerprint: text(&members, "fingerprint"),
            tokens: take_object(&mut members, "tokens").and_then(read_tokens),
            document_refused_by: text(&members, "document_refused_by"),
            unknown_client_since: moment(&members, "unknown_client_since"),
            is_client_void: flag(&members, "client_void"),
            metadata,
        })
    }
}

fn write_tokens(tokens: &Tokens) -> Map<String, Value> {
    let scope = |scopes: &Scopes| scopes.to_parameter().map(Value::from);
    members([
        ("access_token", Some(tokens.access_token.expose().into())),
        ("refresh_token", tokens.refresh_token.as_ref().map(|token| token.expose().into())),
        ("expires_at", tokens.expires_at.map(UnixTime::to_value)),
        ("obtained_at", Some(tokens.obtained_at.to_value())),
        ("dpop_key", tokens.dpop_key.as_ref().map(|key| key.secret().expose().into())),
        ("token_type", tokens.is_bound.then(|| BOUND.into())),
        ("scope_requested", scope(&tokens.requested)),
        ("scope_granted", scope(&tokens.granted)),
    ])
}

/// Reads tokens; those whose key cannot be read are none.
fn read_tokens(mut members: Map<String, Value>) -> Option<Tokens> {
    let dpop_key = match take_secret(&mut members, "dpop_key") {
        Some(kept) => Some(DpopKey::read(kept)?),
        None => None,
    };
    let is_bound = text(&members, "token_type").is_some_and(|kind| kind == BOUND);
    if is_bound && dpop_key.is_none() {
        return None;
    }
    let mut scope = |name| take_text(&mut members, name).map(|text| Scopes::parse(&text)).unwrap_or_default();
    let (requested, granted) = (scope("scope_requested"), scope("scope_granted"));
    Some(Tokens {
        access_token: take_secret(&mut members, "access_token")?,
        refresh_token: take_secret(&mut members, "refresh_token"),
        expires_at: moment(&members, "expires_at"),
        obtained_at: moment(&members, "obtained_at").unwrap_or(UnixTime::from_seconds(0.0)),
        requested,
        granted,
        dpop_key,
        is_bound,
    })
}

fn members<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn take_object(members: &mut Map<String, Value>, name: &str) -> Option<Map<String, Value>> {
    match members.remove(name)? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn moment(members: &Map<String, Value>, name: &str) -> Option<UnixTime> {
    seconds(members, name).map(UnixTime::from_seconds)
}

/// Overwrites every text of a value.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(wipe),
        Value::Object(members) => members.values_mut().for_each(wipe),
        _ => {}
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt => f.write_str("it is no credential record"),
            Self::Newer(schema) => {
                write!(f, "a later version of this program has written it (form {schema})")
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::auth::TokenReply;

    /// A record with something in each of its members.
    pub(in crate::auth) fn full() -> CredentialRecord {
        let registration = json!({"client_id": "c", "client_secret": "canary-secret", "redirect_uris": ["r"],
            "client_secret_expires_at": 2_000_000_000, "registration_access_token": "canary-registration",
            "vendor": {"deep": [1, null]}});
        let Value::Object(registration) = registration else { unreachable!() };
        let client = ClientRecord::read(ClientSource::Registered, registration, None).unwrap();
        let reply = TokenReply {
            access_token: "canary-access".into(),
            refresh_token: Some("canary-refresh".into()),
            lifetime: Some(Duration::from_millis(1500)),
            scope: Some(Scopes::parse("x")),
            is_bound: true,
        };
        let now = UnixTime::from_seconds(1000.0);
        let mut record = CredentialRecord::new("https://a.example/mcp", "https://b.example", client);
        record.resource = Some("https://a.example".to_owned());
        record.fingerprint = Some("f".to_owned());
        let dpop_key = Some(DpopKey::generate().unwrap());
        record.tokens = Some(Tokens { dpop_key, ..Tokens::granted(reply, Scopes::parse("x y"), now) });
        record.metadata = Some(CachedMetadata {
            document: ServerMetadata {
                issuer: Some("https://b.example".into()),
                ..ServerMetadata::default()
            },
            fetched_at: now,
        });
        record.document_refused_by = Some("https://b.example".to_owned());
        record.unknown_client_since = Some(now);
        record.is_client_void = true;
        record
    }

    #[test]
    fn n03_what_is_written_is_read_unchanged() {
        let mut bare = full();
        bare.tokens = None;
        bare.metadata = None;
        for record in [full(), bare] {
            assert_eq!(CredentialRecord::read(&record.write()), Ok((record, false)));
        }
    }

    #[test]
    fn tokens_without_the_key_that_they_are_bound_to_are_none() {
        let written: Value = serde_json::from_slice(&full().write()).unwrap();
        let tokens = |spoil: fn(&mut Value)| {
            let mut document = written.clone();
            spoil(&mut document["tokens"]);
            CredentialRecord::read(document.to_string().as_bytes()).unwrap().0.tokens
        };
        for spoil in [
            (|tokens| tokens["dpop_key"] = Value::Null) as fn(&mut Value),
            |tokens| tokens["dpop_key"] = "AAAA".into(),
            |tokens| (tokens["dpop_key"], tokens["token_type"]) = ("AAAA".into(), Value::Null),
        ] {
            assert_eq!(tokens(spoil), None);
        }
        // As earlier versions have written them.
        let found = tokens(|tokens| (tokens["dpop_key"], tokens["token_type"]) = Default::default()).unwrap();
        assert_eq!((found.dpop_key, found.is_bound), (None, false));
        // A server that has issued a token without a key may have bound the refresh token to it.
        let found = tokens(|tokens| tokens["token_type"] = Value::Null).unwrap();
        assert_eq!((found.dpop_key.is_some(), found.access().key), (true, None));
    }

    #[test]
    fn f166_n02_a_record_of_another_hand_is_normalised_when_it_is_read() {
        let document = |methods: Value| {
            json!({"server": "s", "issuer": "i",
                "client": {"source": "registered", "registration": {"client_id": "c", "client_secret": "s",
                    "token_endpoint_auth_method": "none"}},
                "metadata": {"fetched_at": 1, "document": {"token_endpoint_auth_methods_supported": methods}}})
        };
        for (methods, expected) in
            [(json!(null), "client_secret_post"), (json!(["client_secret_basic"]), "client_secret_basic")]
        {
            let (record, has_changed) =
                CredentialRecord::read(document(methods).to_string().as_bytes()).unwrap();
            assert_eq!(record.client.token_endpoint_auth_method.as_deref(), Some(expected));
            assert!(has_changed);
            assert_eq!(CredentialRecord::read(&record.write()), Ok((record, false)));
        }
    }

    #[test]
    fn f166_n01_a_record_is_normalised_when_it_is_written() {
        for poked in [None, Some("none"), Some("")] {
            let mut record = full();
            record.client.token_endpoint_auth_method = poked.map(str::to_owned);
            let written = String::from_utf8(record.write().to_vec()).unwrap();
            assert!(written.contains(r#""token_endpoint_auth_method": "client_secret_post""#), "{poked:?}");
        }
    }

    #[test]
    fn the_secret_of_a_configured_client_is_not_written() {
        let mut record = full();
        record.client.source = ClientSource::Configured;
        let written = String::from_utf8(record.write().to_vec()).unwrap();
        assert!(!written.contains("canary-secret") && written.contains("canary-refresh"));
    }

    #[test]
    fn f05_what_is_no_record_is_told_from_what_is_newer() {
        let read = |text: &str| CredentialRecord::read(text.as_bytes()).unwrap_err();
        let mut whole = full().write().to_vec();
        whole.truncate(whole.len() / 2);
        for text in ["", "{}", "[]", "\u{0}", r#"{"schema": 1}"#, &String::from_utf8(whole).unwrap()] {
            assert_eq!(read(text), Unreadable::Corrupt, "{text}");
        }
        assert_eq!(read(r#"{"schema": 2, "anything": "else"}"#), Unreadable::Newer(2));
    }

    #[test]
    fn z01_a_record_does_not_show_its_secrets() {
        let shown = format!("{:?}", full());
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(full().secrets().count(), 5);
        let record = full();
        let key = record.tokens.as_ref().unwrap().dpop_key.as_ref().unwrap().secret().expose();
        assert!(!format!("{record:?}").contains(key));
    }
}
