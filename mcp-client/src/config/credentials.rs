use std::sync::Arc;

use mcp_proto::Secret;
use mcp_transport::auth::{
    AddressClass, AuthMethod, ConfiguredClient, FileIdentity, FixedIdentity, Grant, IdentityKind,
    IdentityProvider, IdentitySource, OAuthSettings, SigningAlgorithm, SigningKey, WebUrl, read_secret_file,
};

use super::choice::{Choice, choice};
use super::entry::EntryReader;
use super::error::{ConfigError, ConfigFault, Place};
use super::located::Member;

/// What a client shows, of itself or of an identity, and who grants it access for that: the parts that an
/// entry has, which make a whole only together.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    client: Client,
    key: Option<(SigningKey, Place)>,
    algorithm: Option<(SigningAlgorithm, Place)>,
    key_id: Option<(String, Place)>,
    grant: GrantType,
    identity: Option<(Arc<dyn IdentitySource>, Place)>,
    identity_kind: Option<(IdentityKind, Place)>,
    provider: Option<(Provider, Place)>,
}

/// A client as one authorization server knows it.
#[derive(Debug, Default)]
struct Client {
    id: Option<String>,
    secret: Option<(Secret, Place)>,
    method: Option<(AuthMethod, Place)>,
}

/// Where an organisation vouches for its people.
#[derive(Debug)]
struct Provider {
    token_endpoint: WebUrl,
    client: ConfiguredClient,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum GrantType {
    #[default]
    AuthorizationCode,
    ClientCredentials,
    EnterpriseManaged,
    WorkloadIdentity,
}

const AUTH_METHODS: Choice<AuthMethod> = Choice {
    of: &[
        ("client_secret_basic", AuthMethod::ClientSecretBasic),
        ("client_secret_post", AuthMethod::ClientSecretPost),
        ("none", AuthMethod::None),
        ("private_key_jwt", AuthMethod::PrivateKeyJwt),
    ],
    listed: "\"client_secret_basic\", \"client_secret_post\", \"none\" and \"private_key_jwt\"",
};

/// Those of a client at an identity provider.
const PROVIDER_AUTH_METHODS: Choice<AuthMethod> = Choice {
    of: &[
        ("client_secret_basic", AuthMethod::ClientSecretBasic),
        ("client_secret_post", AuthMethod::ClientSecretPost),
        ("none", AuthMethod::None),
    ],
    listed: "\"client_secret_basic\", \"client_secret_post\" and \"none\"",
};

const GRANT_TYPES: Choice<GrantType> = Choice {
    of: &[
        ("authorization_code", GrantType::AuthorizationCode),
        ("client_credentials", GrantType::ClientCredentials),
        ("enterprise_managed", GrantType::EnterpriseManaged),
        ("workload_identity", GrantType::WorkloadIdentity),
    ],
    listed: "\"authorization_code\", \"client_credentials\", \"enterprise_managed\" and \"workload_identity\"",
};

const IDENTITY_KINDS: Choice<IdentityKind> = Choice {
    of: &[("id_token", IdentityKind::IdToken), ("refresh_token", IdentityKind::RefreshToken)],
    listed: "\"id_token\" and \"refresh_token\"",
};

const ALGORITHMS: Choice<SigningAlgorithm> = Choice {
    of: &[
        ("EdDSA", SigningAlgorithm::EdDsa),
        ("ES256", SigningAlgorithm::Es256),
        ("ES384", SigningAlgorithm::Es384),
        ("PS256", SigningAlgorithm::Ps256),
        ("RS256", SigningAlgorithm::Rs256),
        ("RS384", SigningAlgorithm::Rs384),
        ("RS512", SigningAlgorithm::Rs512),
    ],
    listed: "\"EdDSA\", \"ES256\", \"ES384\", \"PS256\", \"RS256\", \"RS384\" and \"RS512\"",
};

impl<'a> EntryReader<'a> {
    /// Takes a member that is a part of credentials; answers with `false` if it is none.
    pub(super) fn credential(
        &mut self,
        credentials: &mut Credentials,
        member: &Member<'a>,
        place: &Place,
    ) -> Result<bool, ConfigError> {
        match member.key.as_ref() {
            "grantType" => credentials.grant = choice(member.value, place, GRANT_TYPES)?,
            "identityProvider" => {
                credentials.provider = Some((self.provider(member, place)?, place.clone()));
            }
            "identityToken" => {
                let token = Secret::new(self.text(member, place)?);
                self.secrets.push(token.clone());
                let source: Arc<dyn IdentitySource> = Arc::new(FixedIdentity(token));
                put(&mut credentials.identity, source, place, "identityTokenFile")?;
            }
            "identityTokenFile" => {
                let source: Arc<dyn IdentitySource> = Arc::new(FileIdentity::new(self.path(member, place)?));
                put(&mut credentials.identity, source, place, "identityToken")?;
            }
            "identityTokenType" => {
                credentials.identity_kind =
                    Some((choice(member.value, place, IDENTITY_KINDS)?, place.clone()));
            }
            "keyId" => credentials.key_id = Some((self.text(member, place)?, place.clone())),
            "privateKey" => {
                let pem = Secret::new(self.text(member, place)?);
                put(&mut credentials.key, key(&pem, place)?, place, "privateKeyFile")?;
            }
            "privateKeyFile" => {
                let pem = self.secret_file(member, place)?;
                put(&mut credentials.key, key(&pem, place)?, place, "privateKey")?;
            }
            "signingAlgorithm" => {
                credentials.algorithm = Some((choice(member.value, place, ALGORITHMS)?, place.clone()));
            }
            _ => return self.client(&mut credentials.client, member, place, AUTH_METHODS),
        }
        Ok(true)
    }

    /// Takes a member that is a part of a client; answers with `false` if it is none.
    fn client(
        &mut self,
        client: &mut Client,
        member: &Member<'a>,
        place: &Place,
        methods: Choice<AuthMethod>,
    ) -> Result<bool, ConfigError> {
        match member.key.as_ref() {
            "clientId" => client.id = Some(self.text(member, place)?),
            "clientSecret" => {
                let secret = Secret::new(self.text(member, place)?);
                put(&mut client.secret, secret, place, "clientSecretFile")?;
            }
            "clientSecretFile" => {
                put(&mut client.secret, self.secret_file(member, place)?, place, "clientSecret")?;
            }
            "tokenEndpointAuthMethod" => {
                client.method = Some((choice(member.value, place, methods)?, place.clone()));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The content of the file that a member names.
    fn secret_file(&mut self, member: &Member<'a>, place: &Place) -> Result<Secret, ConfigError> {
        let path = self.path(member, place)?;
        read_secret_file(&path).map_err(|error| {
            ConfigError::new(place.clone(), ConfigFault::Unreadable { why: error.to_string() })
        })
    }

    fn provider(&mut self, member: &Member<'a>, place: &Place) -> Result<Provider, ConfigError> {
        let (mut token_endpoint, mut client) = (None, Client::default());
        for member in &self.object(member, place)? {
            let place = place.key(&member.key, Some(member.position));
            match member.key.as_ref() {
                "tokenEndpoint" => token_endpoint = Some(self.secure_url(member, &place)?),
                _ if self.client(&mut client, member, &place, PROVIDER_AUTH_METHODS)? => {}
                _ => return Err(ConfigError::new(place, ConfigFault::UnknownKey)),
            }
        }
        match (token_endpoint, client.whole(false)?) {
            (Some(token_endpoint), Some(client)) => Ok(Provider { token_endpoint, client }),
            _ => Err(lacks(place, "a \"tokenEndpoint\" and a \"clientId\"")),
        }
    }

    /// A URL that tokens may be sent to.
    fn secure_url(&mut self, member: &Member<'a>, place: &Place) -> Result<WebUrl, ConfigError> {
        let expected = "a complete https URL, or one of this machine";
        let is_here = |url: &WebUrl| AddressClass::of_host(&url.origin().host) == AddressClass::Loopback;
        let url = WebUrl::parse(&self.text(member, place)?).ok();
        let url = url.filter(|url| url.is_https() || is_here(url));
        url.ok_or_else(|| ConfigError::new(place.clone(), ConfigFault::WrongKind { expected }))
    }
}

impl Credentials {
    /// Puts the parts into the settings, whose other members are all read; `place` is that of the whole.
    pub(super) fn complete(self, settings: &mut OAuthSettings, place: &Place) -> Result<(), ConfigError> {
        let secret_place = self.client.secret.as_ref().map(|(_, place)| place.clone());
        let has_method = self.client.method.is_some();
        let has_key = self.key.is_some();
        settings.client = self.client.whole(has_key)?;
        if let Some((key, place)) = self.key {
            if secret_place.is_some() && !has_method {
                return Err(beside(&place, "clientSecret"));
            }
            if settings.client.is_none() && settings.client_metadata_url.is_none() {
                return Err(lacks(&place, "a \"clientId\" or a \"clientMetadataUrl\""));
            }
            let key = match self.algorithm {
                Some((algorithm, place)) => {
                    key.with_algorithm(algorithm).map_err(|error| ConfigError::new(place, error.into()))?
                }
                None => key,
            };
            settings.signer = Some(Arc::new(match self.key_id {
                Some((id, _)) => key.with_id(id),
                None => key,
            }));
        } else if let Some(place) =
            self.algorithm.map(|(_, place)| place).or(self.key_id.map(|(_, place)| place))
        {
            return Err(lacks(&place, "a \"privateKeyFile\" or a \"privateKey\""));
        }
        settings.grant = match (self.grant, self.identity, self.provider, self.identity_kind) {
            (GrantType::EnterpriseManaged, Some((source, _)), Some((provider, _)), kind) => {
                let Provider { token_endpoint, client } = provider;
                let kind = kind.map(|(kind, _)| kind).unwrap_or_default();
                Grant::EnterpriseManaged(IdentityProvider { token_endpoint, client, kind, source })
            }
            (GrantType::EnterpriseManaged, ..) => {
                let what =
                    "an \"identityProvider\" and an \"identityTokenFile\" for the grant of an organisation";
                return Err(lacks(place, what));
            }
            (_, _, Some((_, place)), _) | (_, _, _, Some((_, place))) => {
                return Err(lacks(&place, "the \"grantType\" \"enterprise_managed\""));
            }
            (GrantType::WorkloadIdentity, Some((source, _)), ..) => Grant::WorkloadIdentity(source),
            (GrantType::WorkloadIdentity, None, ..) => {
                return Err(lacks(place, "an \"identityTokenFile\" for the grant of a workload"));
            }
            (_, Some((_, place)), ..) => {
                let what = "the \"grantType\" \"workload_identity\" or \"enterprise_managed\"";
                return Err(lacks(&place, what));
            }
            (GrantType::ClientCredentials, ..) => Grant::ClientCredentials,
            (GrantType::AuthorizationCode, ..) => Grant::AuthorizationCode,
        };
        check_for_itself(settings, place)
    }
}

/// Checks that a client which acts for itself has what it shows, and knows to whom.
fn check_for_itself(settings: &OAuthSettings, place: &Place) -> Result<(), ConfigError> {
    let (has_id, has_issuer) = (settings.client.is_some(), settings.issuer.is_some());
    let has_secret = settings.client.as_ref().is_some_and(|client| client.secret.is_some());
    match settings.grant {
        // What is signed is of use at its issuer alone, whoever names that.
        Grant::ClientCredentials if has_id && !has_secret && settings.signer.is_some() => Ok(()),
        Grant::ClientCredentials if !(has_secret && has_issuer) => Err(lacks(
            place,
            "\"clientId\", \"clientSecret\" and \"issuer\", or \"clientId\" and \"privateKeyFile\", for the grant of a client",
        )),
        Grant::EnterpriseManaged(_) | Grant::WorkloadIdentity(_) if !(has_id && has_issuer) => {
            Err(lacks(place, "\"clientId\" and \"issuer\" for this \"grantType\""))
        }
        _ => Ok(()),
    }
}

impl Client {
    /// `has_key`: whether it can sign.
    fn whole(self, has_key: bool) -> Result<Option<ConfiguredClient>, ConfigError> {
        let Some(id) = self.id else {
            let place = self.secret.map(|(_, place)| place).or(self.method.map(|(_, place)| place));
            return match place {
                Some(place) => Err(lacks(&place, "a \"clientId\"")),
                None => Ok(None),
            };
        };
        let secret = self.secret.map(|(secret, _)| secret);
        if let Some((method, place)) = &self.method {
            match method {
                AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost if secret.is_none() => {
                    return Err(lacks(place, "a \"clientSecret\""));
                }
                AuthMethod::PrivateKeyJwt if !has_key => {
                    return Err(lacks(place, "a \"privateKeyFile\" or a \"privateKey\""));
                }
                _ => {}
            }
        }
        Ok(Some(ConfiguredClient { id, secret, method: self.method.map(|(method, _)| method) }))
    }
}

/// Reads a key, of which an error says no more than what is wrong.
fn key(pem: &Secret, place: &Place) -> Result<SigningKey, ConfigError> {
    SigningKey::from_pem(pem).map_err(|error| ConfigError::new(place.clone(), error.into()))
}

/// Fills a place that two keys can fill, one of which has to do; `other` is the other one.
fn put<T>(
    slot: &mut Option<(T, Place)>,
    value: T,
    place: &Place,
    other: &'static str,
) -> Result<(), ConfigError> {
    match slot.replace((value, place.clone())) {
        None => Ok(()),
        Some(_) => Err(beside(place, other)),
    }
}

fn lacks(place: &Place, what: &'static str) -> ConfigError {
    ConfigError::new(place.clone(), ConfigFault::Lacks { what })
}

fn beside(place: &Place, other: &'static str) -> ConfigError {
    ConfigError::new(place.clone(), ConfigFault::Beside { other })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::config::{ConfigFile, HttpServer, Reach};

    /// Keys that openssl has made for these tests and that open nothing.
    const P256: &str = include_str!("../../tests/data/keys/p256-pkcs8.pem");
    const RSA: &str = include_str!("../../tests/data/keys/rsa-pkcs8.pem");

    fn parse(folder: &Path, oauth: &str) -> ConfigFile {
        let lookup = |name: &str| match name {
            "PEM" => Some(P256.to_owned()),
            "TOKEN" => Some("canary-token".to_owned()),
            _ => None,
        };
        let text = format!(
            "{{\"mcpServers\": {{\n  \"s\": {{\"url\": \"https://h/mcp\", \"oauth\": {oauth}}}\n}}}}"
        );
        ConfigFile::parse("mcp.json", Some(folder), &text, &lookup).unwrap()
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in
            [("p256.pem", P256), ("rsa.pem", RSA), ("secret", "canary-secret\n"), ("empty", "\n")]
        {
            fs::write(folder.path().join(name), content).unwrap();
        }
        folder
    }

    #[track_caller]
    fn address(config: &mut ConfigFile) -> HttpServer {
        assert!(config.refused.is_empty() && config.warnings.is_empty(), "{config:?}");
        match config.servers.remove(0).reach {
            Reach::Http(address) => address,
            Reach::Stdio(program) => panic!("{program:?}"),
        }
    }

    #[test]
    fn a_key_comes_from_a_file_or_a_variable_and_stands_for_a_secret() {
        let folder = folder();
        let settings = |oauth: &str| address(&mut parse(folder.path(), oauth)).oauth_settings().unwrap();
        for (key, more, algorithm, id) in [
            (r#""privateKeyFile": "p256.pem""#, "", "ES256", None),
            (r#""privateKey": "${PEM}""#, r#", "keyId": "k1""#, "ES256", Some("k1")),
            (r#""privateKeyFile": "rsa.pem""#, "", "RS256", None),
            (r#""privateKeyFile": "rsa.pem""#, r#", "signingAlgorithm": "PS256""#, "PS256", None),
        ] {
            for grant in ["authorization_code", "client_credentials"] {
                let entry = format!(r#"{{"clientId": "me", "grantType": "{grant}", {key}{more}}}"#);
                let settings = settings(&entry);
                let signer = settings.signer.unwrap();
                assert_eq!((signer.algorithm().as_str(), signer.key_id()), (algorithm, id), "{entry}");
                assert_eq!(settings.client.unwrap().secret, None);
            }
        }
        // A document can describe a client with a key, too, and a method settles what else is there.
        for entry in [
            r#"{"clientMetadataUrl": "https://c/client.json", "privateKeyFile": "p256.pem"}"#,
            r#"{"clientId": "me", "clientSecret": "x", "privateKeyFile": "p256.pem",
                "tokenEndpointAuthMethod": "private_key_jwt"}"#,
        ] {
            assert!(settings(entry).signer.is_some(), "{entry}");
        }
    }

    #[test]
    fn an_organisation_and_a_platform_vouch_with_tokens_from_files_or_variables() {
        let folder = folder();
        let enterprise = r#"{"grantType": "enterprise_managed", "clientId": "me", "issuer": "https://as",
            "clientSecretFile": "secret", "identityTokenFile": "id", "identityTokenType": "refresh_token",
            "identityProvider": {"tokenEndpoint": "https://idp/token", "clientId": "there",
                "clientSecretFile": "secret", "tokenEndpointAuthMethod": "client_secret_post"}}"#;
        let settings = address(&mut parse(folder.path(), enterprise)).oauth_settings().unwrap();
        let secret = Some(Secret::new("canary-secret"));
        assert_eq!(settings.client.unwrap().secret, secret);
        let Grant::EnterpriseManaged(provider) = &settings.grant else { panic!("{:?}", settings.grant) };
        assert_eq!(provider.token_endpoint.as_str(), "https://idp/token");
        assert_eq!(provider.kind, IdentityKind::RefreshToken);
        let method = Some(AuthMethod::ClientSecretPost);
        assert_eq!(provider.client, ConfiguredClient { id: "there".to_owned(), secret, method });
        assert_eq!(provider.source.fingerprint(), FileIdentity::new(folder.path().join("id")).fingerprint());
        let workload = r#"{"grantType": "workload_identity", "clientId": "me", "issuer": "https://as",
            "identityToken": "${TOKEN}"}"#;
        let settings = address(&mut parse(folder.path(), workload)).oauth_settings().unwrap();
        let expected = Grant::WorkloadIdentity(Arc::new(FixedIdentity("canary-token".into())));
        assert_eq!(settings.grant, expected);
    }

    #[test]
    fn f149_an_entry_that_is_read_again_is_the_same_until_its_key_is_another() {
        let folder = folder();
        let entry = r#"{"clientId": "me", "grantType": "client_credentials", "privateKeyFile": "p256.pem"}"#;
        let read = || address(&mut parse(folder.path(), entry));
        let first = read();
        assert!(first == read());
        fs::write(folder.path().join("p256.pem"), RSA).unwrap();
        assert!(first != read());
    }

    #[test]
    fn credentials_that_do_not_make_a_whole_are_an_error_with_their_key() {
        let folder = folder();
        let missing = "No such file or directory (os error 2)";
        for (oauth, message) in [
            (r#"{"privateKeyFile": "p256.pem"}"#, r#""oauth.privateKeyFile" needs a "clientId" or a "clientMetadataUrl"; add what is missing"#.to_owned()),
            (r#"{"clientId": "me", "keyId": "k"}"#, r#""oauth.keyId" needs a "privateKeyFile" or a "privateKey"; add what is missing"#.to_owned()),
            (r#"{"clientId": "me", "signingAlgorithm": "RS256"}"#, r#""oauth.signingAlgorithm" needs a "privateKeyFile" or a "privateKey"; add what is missing"#.to_owned()),
            (r#"{"clientId": "me", "tokenEndpointAuthMethod": "private_key_jwt"}"#, r#""oauth.tokenEndpointAuthMethod" needs a "privateKeyFile" or a "privateKey"; add what is missing"#.to_owned()),
            (r#"{"clientId": "me", "tokenEndpointAuthMethod": "client_secret_post"}"#, r#""oauth.tokenEndpointAuthMethod" needs a "clientSecret"; add what is missing"#.to_owned()),
            (r#"{"clientId": "me", "privateKey": "${PEM}", "privateKeyFile": "p256.pem"}"#, r#""oauth.privateKeyFile" stands beside "privateKey"; keep one of them"#.to_owned()),
            (r#"{"clientId": "me", "privateKey": "${PEM}", "clientSecret": "x"}"#, r#""oauth.privateKey" stands beside "clientSecret"; keep one of them"#.to_owned()),
            (r#"{"clientId": "me", "clientSecretFile": "secret", "clientSecret": "x"}"#, r#""oauth.clientSecret" stands beside "clientSecretFile"; keep one of them"#.to_owned()),
            (r#"{"clientId": "me", "clientSecretFile": "gone"}"#, format!(r#""oauth.clientSecretFile" names a file that cannot be read: {missing}"#)),
            (r#"{"clientId": "me", "clientSecretFile": ""}"#, r#""oauth.clientSecretFile" must not be empty"#.to_owned()),
            (r#"{"clientId": "me", "clientSecretFile": "empty"}"#, r#""oauth.clientSecretFile" names a file that cannot be read: it is empty"#.to_owned()),
            (r#"{"clientId": "me", "privateKeyFile": "secret"}"#, r#""oauth.privateKeyFile" cannot be used: not a private key in PEM form"#.to_owned()),
            (r#"{"clientId": "me", "privateKeyFile": "p256.pem", "signingAlgorithm": "RS256"}"#, r#""oauth.signingAlgorithm" cannot be used: the key cannot sign with RS256"#.to_owned()),
            (r#"{"clientId": "me", "privateKeyFile": "p256.pem", "signingAlgorithm": "HS256"}"#, r#""oauth.signingAlgorithm" must be one of "EdDSA", "ES256", "ES384", "PS256", "RS256", "RS384" and "RS512""#.to_owned()),
            (r#"{"grantType": "implicit"}"#, r#""oauth.grantType" must be one of "authorization_code", "client_credentials", "enterprise_managed" and "workload_identity""#.to_owned()),
            (r#"{"grantType": "client_credentials", "privateKeyFile": "p256.pem", "clientMetadataUrl": "https://c/x"}"#, r#""oauth" needs "clientId", "clientSecret" and "issuer", or "clientId" and "privateKeyFile", for the grant of a client; add what is missing"#.to_owned()),
            (r#"{"grantType": "workload_identity", "clientId": "me", "issuer": "https://as"}"#, r#""oauth" needs an "identityTokenFile" for the grant of a workload; add what is missing"#.to_owned()),
            (r#"{"grantType": "workload_identity", "clientId": "me", "identityTokenFile": "id"}"#, r#""oauth" needs "clientId" and "issuer" for this "grantType"; add what is missing"#.to_owned()),
            (r#"{"grantType": "workload_identity", "clientId": "me", "issuer": "https://as", "identityTokenFile": "id", "identityToken": "x"}"#, r#""oauth.identityToken" stands beside "identityTokenFile"; keep one of them"#.to_owned()),
            (r#"{"clientId": "me", "identityTokenFile": "id"}"#, r#""oauth.identityTokenFile" needs the "grantType" "workload_identity" or "enterprise_managed"; add what is missing"#.to_owned()),
            (r#"{"grantType": "workload_identity", "clientId": "me", "issuer": "https://as", "identityTokenFile": "id", "identityTokenType": "id_token"}"#, r#""oauth.identityTokenType" needs the "grantType" "enterprise_managed"; add what is missing"#.to_owned()),
            (r#"{"grantType": "enterprise_managed", "clientId": "me", "issuer": "https://as", "identityTokenFile": "id"}"#, r#""oauth" needs an "identityProvider" and an "identityTokenFile" for the grant of an organisation; add what is missing"#.to_owned()),
            (r#"{"identityProvider": {"tokenEndpoint": "https://idp/token", "clientId": "there"}}"#, r#""oauth.identityProvider" needs the "grantType" "enterprise_managed"; add what is missing"#.to_owned()),
            (r#"{"identityProvider": 7}"#, r#""oauth.identityProvider" must be an object"#.to_owned()),
            (r#"{"identityProvider": {"clientId": "there"}}"#, r#""oauth.identityProvider" needs a "tokenEndpoint" and a "clientId"; add what is missing"#.to_owned()),
            (r#"{"identityProvider": {"tokenEndpoint": "https://idp/token", "issuer": "https://idp"}}"#, r#""oauth.identityProvider.issuer" is not a key this version knows; correct or remove it"#.to_owned()),
            (r#"{"identityProvider": {"tokenEndpoint": "http://idp/token", "clientId": "there"}}"#, r#""oauth.identityProvider.tokenEndpoint" must be a complete https URL, or one of this machine"#.to_owned()),
            (r#"{"identityProvider": {"tokenEndpoint": "https://idp/token", "clientSecret": "x"}}"#, r#""oauth.identityProvider.clientSecret" needs a "clientId"; add what is missing"#.to_owned()),
            (r#"{"identityProvider": {"tokenEndpoint": "https://idp/token", "clientId": "there", "tokenEndpointAuthMethod": "private_key_jwt"}}"#, r#""oauth.identityProvider.tokenEndpointAuthMethod" must be one of "client_secret_basic", "client_secret_post" and "none""#.to_owned()),
        ] {
            let config = parse(folder.path(), oauth);
            let error = config.refused.first().unwrap_or_else(|| panic!("{oauth} is accepted")).to_string();
            assert!(error.starts_with("mcp.json:2:") && error.ends_with(&message), "{oauth}: {error}");
            assert!(!error.contains("canary"), "{error}");
        }
        let entry = r#"{"mcpServers": {"s": {"url": "https://h/mcp",
            "oauth": {"clientId": "me", "privateKeyFile": "p256.pem"}}}}"#;
        let homeless = ConfigFile::parse("mcp.json", None, entry, &|_| None).unwrap();
        let error = homeless.refused[0].to_string();
        assert!(error.contains("oauth.privateKeyFile") && error.contains("absolute"), "{error}");
    }

    #[test]
    fn f158_secrets_from_files_and_tokens_are_known_and_never_shown() {
        let folder = folder();
        let entry = r#"{"grantType": "enterprise_managed", "clientId": "me", "issuer": "https://as",
            "clientSecretFile": "secret", "identityToken": "${TOKEN}",
            "identityProvider": {"tokenEndpoint": "https://idp/token", "clientId": "there",
                "clientSecret": "canary-there"}}"#;
        let config = parse(folder.path(), entry);
        let secrets: Vec<&str> = config.servers[0].secrets().map(Secret::expose).collect();
        assert_eq!(secrets, ["canary-secret", "canary-there", "canary-token"]);
        assert!(!format!("{config:?}").contains("canary"), "{config:?}");
    }
}
