use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::{ProtocolVersion, Secret, extension};
use ring::digest;

use super::client_record::{AuthMethod, ClientRecord, ClientSource, InvalidClient};
use super::dpop::Dpop;
use super::identity::{IdentityProvider, IdentitySource};
use super::issuer::same_issuer;
use super::metadata::ResourceMetadata;
use super::pkce::PkceMetadata;
use super::record::CredentialRecord;
use super::resource::canonical_resource;
use super::signer::Signer;
use super::web_url::WebUrl;

/// How long a person may take to answer, unless a user says otherwise.
const LOGIN_LIMIT: Duration = Duration::from_secs(300);

/// How a server is authorized for: what a user can say about it. Everything is optional.
///
/// Settings are equal by value; a signer or a source of identities is equal to itself, and to one with the
/// same fingerprint.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OAuthSettings {
    /// Who grants access. Default: a person.
    pub grant: Grant,
    /// A client that the authorization server knows already.
    pub client: Option<ConfiguredClient>,
    /// What the client signs with to prove who it is, in place of a secret.
    pub signer: Option<Arc<dyn Signer>>,
    /// URL of a document that describes this client, for servers that read such documents.
    pub client_metadata_url: Option<String>,
    /// The name under which the client registers. Default: `MCP client`.
    pub client_name: String,
    /// The kind of client to register as; by default it follows from the redirect URI.
    pub application_type: Option<ApplicationType>,
    /// The only issuer whose tokens are wanted.
    pub issuer: Option<String>,
    /// Whether a client that acts for itself shows its secret, or an identity, to whichever issuer the server
    /// names, where `issuer` names none. Default: no.
    pub allows_any_issuer: bool,
    /// The scopes to ask for, separated by spaces, in place of what the server wants.
    pub scope: Option<String>,
    /// What the parameter `resource` says. Default: what the server publishes, or its URL.
    pub resource: ResourceParameter,
    /// When tokens are bound to a key. Default: where both sides offer it.
    pub dpop: Dpop,
    /// Whether `offline_access` is asked for where it is offered. Default: yes.
    pub asks_offline_access: bool,
    /// What to do with a server that does not say whether it supports PKCE. Default: refuse.
    pub pkce_metadata: PkceMetadata,
    /// Whether metadata without an issuer is believed. Default: no.
    pub allows_missing_issuer: bool,
    /// Whether tokens may go unencrypted to a server that is itself reached by `http` and is not on this
    /// machine. Default: no.
    pub allows_unencrypted: bool,
    /// Whether metadata is believed that speaks of this resource in place of the server's own.
    pub trusted_resource: Option<String>,
    /// Whether endpoints are guessed for servers that publish nothing. Default: by version.
    pub legacy: Legacy,
    /// The version that is spoken with the server, as soon as it is known.
    pub version: Option<ProtocolVersion>,
    /// Where the answer of the authorization is received. Default: a free port of 127.0.0.1.
    pub redirect: Redirect,
    /// How long a person may take. Default: five minutes.
    pub login_limit: Duration,
    /// Parameters that some providers want in the URL of the authorization.
    pub extra_parameters: Vec<(String, String)>,
}

/// Who grants access.
///
/// All but the first have the client act for itself, without anybody being asked: they need `client`, and
/// `issuer`, so that the server cannot choose who is shown a secret or an identity.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Grant {
    /// A person, in a browser. The default.
    #[default]
    AuthorizationCode,
    /// The authorization server, to the client itself, which has a secret or a key. With a key, `issuer` may
    /// be left out: what is signed is of use nowhere else.
    ClientCredentials,
    /// The organisation of a person who has signed on there.
    EnterpriseManaged(IdentityProvider),
    /// The authorization server, to a workload that its platform vouches for.
    WorkloadIdentity(Arc<dyn IdentitySource>),
}

/// A client that the authorization server knows already. `Debug` does not show its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredClient {
    /// Its identifier.
    pub id: String,
    /// Its secret, if it is confidential.
    pub secret: Option<Secret>,
    /// How it proves who it is; by default as the server lists it.
    pub method: Option<AuthMethod>,
}

/// A kind of client, as OpenID Connect registers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplicationType {
    /// On the machine of a person.
    Native,
    /// On a server.
    Web,
}

/// Whether endpoints at the server's own origin are guessed, as MCP 2025-03-26 has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Legacy {
    /// If the version that is spoken is 2025-03-26 or older, or not known. The default.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What the parameter `resource` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ResourceParameter {
    /// What the server publishes; its URL if it publishes nothing. The default.
    #[default]
    Automatic,
    /// This text.
    Fixed(String),
    /// It is left out, for servers that refuse it.
    Omitted,
}

/// Where the answer of the authorization is received.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redirect {
    /// The whole URI, if it must be a certain one.
    pub uri: Option<String>,
    /// The port, if it must be a certain one.
    pub port: Option<u16>,
}

impl Default for OAuthSettings {
    fn default() -> Self {
        Self {
            grant: Grant::default(),
            client: None,
            signer: None,
            client_metadata_url: None,
            client_name: "MCP client".to_owned(),
            application_type: None,
            issuer: None,
            allows_any_issuer: false,
            scope: None,
            resource: ResourceParameter::default(),
            dpop: Dpop::default(),
            asks_offline_access: true,
            pkce_metadata: PkceMetadata::default(),
            allows_missing_issuer: false,
            allows_unencrypted: false,
            trusted_resource: None,
            legacy: Legacy::default(),
            version: None,
            redirect: Redirect::default(),
            login_limit: LOGIN_LIMIT,
            extra_parameters: Vec::new(),
        }
    }
}

impl OAuthSettings {
    /// Whether endpoints may be guessed.
    pub(super) fn allows_legacy(&self) -> bool {
        let is_old = self.version.is_none_or(|version| version < ProtocolVersion::V2025_06_18);
        self.legacy == Legacy::Auto && is_old
    }

    /// Whether tokens are made without a person and without a refresh token.
    #[must_use]
    pub fn is_for_itself(&self) -> bool {
        !matches!(self.grant, Grant::AuthorizationCode)
    }

    /// What the parameter `resource` says in every request of a grant.
    pub(super) fn resource_parameter(
        &self,
        server: &WebUrl,
        published: Option<&ResourceMetadata>,
    ) -> Option<String> {
        match &self.resource {
            ResourceParameter::Fixed(resource) => Some(resource.clone()),
            ResourceParameter::Omitted => None,
            ResourceParameter::Automatic => match published {
                Some(published) => Some(published.resource.clone()),
                // Servers of that age know no such parameter.
                None if self.speaks_old_version() => None,
                None => Some(canonical_resource(server)),
            },
        }
    }

    /// Whether the version that is spoken knows no resource indicators.
    fn speaks_old_version(&self) -> bool {
        self.version.is_some_and(|version| version < ProtocolVersion::V2025_06_18)
    }

    /// Whether credentials may be used: they are of this configuration, and bound to a key if they have to be.
    pub(super) fn accept(&self, record: &CredentialRecord) -> bool {
        let is_bound = record.tokens.as_ref().is_none_or(|tokens| tokens.is_bound);
        self.are_of(record) && (is_bound || self.dpop != Dpop::Required)
    }

    /// Whether credentials are of the issuer and of the client that are configured.
    pub(super) fn are_of(&self, record: &CredentialRecord) -> bool {
        let is_of_issuer = self.issuer.as_ref().is_none_or(|issuer| same_issuer(issuer, &record.issuer));
        let is_configured = record.client.source == ClientSource::Configured;
        is_of_issuer && is_configured == self.client.is_some() && record.fingerprint == self.fingerprint()
    }

    /// What tells one configured client from another, without telling its secret.
    pub(super) fn fingerprint(&self) -> Option<String> {
        let configured = self.client.as_ref()?;
        let mut context = digest::Context::new(&digest::SHA256);
        let secret = configured.secret.as_ref().map(Secret::expose);
        for part in [Some(configured.id.as_str()), secret, configured.method.map(AuthMethod::as_str)] {
            context.update(part.unwrap_or_default().as_bytes());
            context.update(&[u8::from(part.is_some())]);
        }
        Some(URL_SAFE_NO_PAD.encode(context.finish()))
    }

    /// The configured client, as a record.
    pub(super) fn configured_client(&self) -> Option<ClientRecord> {
        let configured = self.client.as_ref()?;
        let mut record = ClientRecord::new(ClientSource::Configured, configured.id.as_str());
        record.client_secret = configured.secret.clone();
        // Whoever has a key and no secret has it for this.
        let has_key_alone = self.signer.is_some() && configured.secret.is_none();
        let method = configured.method.or_else(|| has_key_alone.then_some(AuthMethod::PrivateKeyJwt));
        record.token_endpoint_auth_method = method.map(|method| method.as_str().to_owned());
        Some(record)
    }

    /// The client that is known by its document, as a record.
    pub(super) fn document_client(&self, url: &str) -> ClientRecord {
        let mut record = ClientRecord::new(ClientSource::Document, url);
        if self.signer.is_some() {
            record.token_endpoint_auth_method = Some(AuthMethod::PrivateKeyJwt.as_str().to_owned());
        }
        record
    }

    /// Whether a client can prove who it is, with what its record holds and what is configured.
    pub(super) fn check_proof(&self, client: &ClientRecord) -> Result<(), InvalidClient> {
        match client.auth_method()? {
            AuthMethod::PrivateKeyJwt if self.signer.is_none() => Err(InvalidClient::NoKey),
            _ => Ok(()),
        }
    }
}

impl PartialEq for OAuthSettings {
    fn eq(&self, other: &Self) -> bool {
        // Each by its name, so that none is forgotten.
        let Self {
            grant,
            client,
            signer,
            client_metadata_url,
            client_name,
            application_type,
            issuer,
            allows_any_issuer,
            scope,
            resource,
            dpop,
            asks_offline_access,
            pkce_metadata,
            allows_missing_issuer,
            allows_unencrypted,
            trusted_resource,
            legacy,
            version,
            redirect,
            login_limit,
            extra_parameters,
        } = self;
        let is_same_signer = match (signer, &other.signer) {
            (Some(one), Some(other)) => is_same(one, other, |signer| signer.fingerprint()),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same_signer
            && *grant == other.grant
            && *client == other.client
            && *client_metadata_url == other.client_metadata_url
            && *client_name == other.client_name
            && *application_type == other.application_type
            && *issuer == other.issuer
            && *allows_any_issuer == other.allows_any_issuer
            && *scope == other.scope
            && *resource == other.resource
            && *dpop == other.dpop
            && *asks_offline_access == other.asks_offline_access
            && *pkce_metadata == other.pkce_metadata
            && *allows_missing_issuer == other.allows_missing_issuer
            && *allows_unencrypted == other.allows_unencrypted
            && *trusted_resource == other.trusted_resource
            && *legacy == other.legacy
            && *version == other.version
            && *redirect == other.redirect
            && *login_limit == other.login_limit
            && *extra_parameters == other.extra_parameters
    }
}

impl Grant {
    /// Who brings the token of an identity, if one is shown.
    pub(super) fn identity(&self) -> Option<&dyn IdentitySource> {
        match self {
            Self::EnterpriseManaged(provider) => Some(&*provider.source),
            Self::WorkloadIdentity(source) => Some(&**source),
            Self::AuthorizationCode | Self::ClientCredentials => None,
        }
    }

    /// The extension of MCP that the client has to declare for it, by identifier; `None` where there is none.
    ///
    /// # Source
    ///
    /// MCP extensions *OAuth Client Credentials* and *Enterprise-Managed Authorization*.
    #[must_use]
    pub fn extension(&self) -> Option<&'static str> {
        match self {
            Self::ClientCredentials => Some(extension::CLIENT_CREDENTIALS),
            Self::EnterpriseManaged(_) => Some(extension::ENTERPRISE_MANAGED),
            Self::AuthorizationCode | Self::WorkloadIdentity(_) => None,
        }
    }
}

impl PartialEq for Grant {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AuthorizationCode, Self::AuthorizationCode)
            | (Self::ClientCredentials, Self::ClientCredentials) => true,
            (Self::EnterpriseManaged(one), Self::EnterpriseManaged(other)) => {
                (&one.token_endpoint, &one.client, one.kind)
                    == (&other.token_endpoint, &other.client, other.kind)
                    && is_same(&one.source, &other.source, |source| source.fingerprint())
            }
            (Self::WorkloadIdentity(one), Self::WorkloadIdentity(other)) => {
                is_same(one, other, |source| source.fingerprint())
            }
            _ => false,
        }
    }
}

/// Whether two are one, or have one fingerprint.
fn is_same<T: ?Sized>(one: &Arc<T>, other: &Arc<T>, fingerprint: impl Fn(&T) -> Option<String>) -> bool {
    Arc::ptr_eq(one, other) || fingerprint(one).is_some_and(|known| Some(known) == fingerprint(other))
}

impl ApplicationType {
    /// What a client with this redirect URI is: `web` if its answers come to a server of its own.
    #[must_use]
    pub fn of_redirect(uri: &str) -> Self {
        let is_loopback =
            |url: &WebUrl| matches!(url.origin().host.as_str(), "127.0.0.1" | "::1" | "localhost");
        match WebUrl::parse(uri) {
            Ok(url) if url.is_https() && !is_loopback(&url) => Self::Web,
            _ => Self::Native,
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Web => "web",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Native => Self::Web,
            Self::Web => Self::Native,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthError, FileIdentity, FixedIdentity};

    #[test]
    fn b04_another_client_has_another_fingerprint() {
        let with = |id: &str, secret: Option<&str>, method| {
            let client = ConfiguredClient { id: id.into(), secret: secret.map(Secret::from), method };
            OAuthSettings { client: Some(client), ..OAuthSettings::default() }.fingerprint().unwrap()
        };
        let all = [
            with("a", None, None),
            with("b", None, None),
            with("a", Some("s"), None),
            with("a", Some("t"), None),
            with("as", Some(""), None),
            with("a", Some("s"), Some(AuthMethod::ClientSecretPost)),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{index}");
        }
        assert_eq!(with("a", Some("s"), None), all[2]);
        assert_eq!(OAuthSettings::default().fingerprint(), None);
    }

    #[test]
    fn f149_settings_that_are_read_twice_are_the_same_and_others_are_not() {
        let with = |source: Arc<dyn IdentitySource>| OAuthSettings {
            grant: Grant::WorkloadIdentity(source),
            ..OAuthSettings::default()
        };
        let fixed = |token: &str| with(Arc::new(FixedIdentity(token.into())));
        let file = |path: &str| with(Arc::new(FileIdentity::new(path)));
        assert_eq!((fixed("a"), file("a")), (fixed("a"), file("a")));
        assert!(fixed("a") != fixed("b") && file("a") != file("b") && fixed("a") != file("a"));
        // One that nothing is known of is equal to itself alone.
        #[derive(Debug)]
        struct Stranger;
        #[async_trait::async_trait]
        impl IdentitySource for Stranger {
            async fn identity(&self, _audience: &str) -> Result<Secret, AuthError> {
                Ok("x".into())
            }
        }
        let stranger = with(Arc::new(Stranger));
        assert!(stranger == stranger.clone() && stranger != with(Arc::new(Stranger)));
    }

    #[test]
    fn c03_the_kind_of_client_follows_from_where_answers_go() {
        for (uri, expected) in [
            ("http://127.0.0.1:7000/callback", "native"),
            ("http://localhost:7000/callback", "native"),
            ("http://[::1]:7000/callback", "native"),
            ("https://localhost/callback", "native"),
            ("com.example.app:/callback", "native"),
            ("https://app.example/callback", "web"),
        ] {
            assert_eq!(ApplicationType::of_redirect(uri).as_str(), expected, "{uri}");
        }
    }
}
