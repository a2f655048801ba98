use std::collections::BTreeSet;

use mcp_transport::auth::{ApplicationType, Dpop, Legacy, OAuthSettings, PkceMetadata, ResourceParameter};

use super::choice::{Choice, choice};
use super::credentials::Credentials;
use super::entry::EntryReader;
use super::error::{ConfigError, ConfigFault, Place};
use super::file::is_object;
use super::located::Member;
use super::value;

/// What the member `oauth` of an entry says.
#[derive(Debug)]
pub(super) enum OAuthEntry {
    /// No login, whatever the server asks for.
    Off,
    Settings(Box<OAuthSettings>),
}

impl<'a> EntryReader<'a> {
    /// Reads `false`, or an object. What is not known in it is an error: a slip in the settings of a login
    /// must not go unnoticed.
    pub(super) fn oauth(&mut self, member: &Member<'a>, place: &Place) -> Result<OAuthEntry, ConfigError> {
        if !is_object(member.value) {
            let expected = "an object, or false if there is no login";
            return match value::flag(member.value) {
                Ok(false) => Ok(OAuthEntry::Off),
                _ => Err(ConfigError::new(place.clone(), ConfigFault::WrongKind { expected })),
            };
        }
        let (mut settings, mut credentials) = (OAuthSettings::default(), Credentials::default());
        let mut is_on = true;
        for member in &self.members(member.value, place)? {
            let place = place.key(&member.key, Some(member.position));
            match member.key.as_ref() {
                "enabled" => is_on = value::flag(member.value).map_err(at(&place))?,
                _ if self.credential(&mut credentials, member, &place)? => {}
                _ => self.oauth_setting(&mut settings, member, &place)?,
            }
        }
        if !is_on {
            return Ok(OAuthEntry::Off);
        }
        credentials.complete(&mut settings, place)?;
        Ok(OAuthEntry::Settings(Box::new(settings)))
    }

    fn oauth_setting(
        &mut self,
        settings: &mut OAuthSettings,
        member: &Member<'a>,
        place: &Place,
    ) -> Result<(), ConfigError> {
        let raw = member.value;
        match member.key.as_ref() {
            "allowMissingIssuer" => settings.allows_missing_issuer = value::flag(raw).map_err(at(place))?,
            "allowUnencrypted" => settings.allows_unencrypted = value::flag(raw).map_err(at(place))?,
            "applicationType" => settings.application_type = Some(choice(raw, place, APPLICATION_TYPES)?),
            "callbackPort" | "redirectPort" => {
                let port = value::count(raw, 1, u64::from(u16::MAX)).map_err(at(place))?;
                settings.redirect.port = u16::try_from(port).ok();
            }
            "clientMetadataUrl" => settings.client_metadata_url = Some(self.text(member, place)?),
            "clientName" => settings.client_name = self.text(member, place)?,
            "dpop" => settings.dpop = choice(raw, place, DPOP)?,
            "extraAuthorizationParams" => {
                let parameters = self.variables(member, place)?;
                settings.extra_parameters =
                    parameters.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
            }
            "issuer" => settings.issuer = Some(self.text(member, place)?),
            "legacy" => settings.legacy = choice(raw, place, LEGACY)?,
            "offlineAccess" => settings.asks_offline_access = value::flag(raw).map_err(at(place))?,
            "pkceMetadata" => settings.pkce_metadata = choice(raw, place, PKCE_METADATA)?,
            "redirectUri" => settings.redirect.uri = Some(self.text(member, place)?),
            "resource" if value::flag(raw) == Ok(false) => settings.resource = ResourceParameter::Omitted,
            "resource" => settings.resource = ResourceParameter::Fixed(self.text(member, place)?),
            "scope" => settings.scope = Some(self.text(member, place)?),
            "scopes" => {
                let scopes: BTreeSet<String> = self.texts(member, place)?.into_iter().collect();
                settings.scope = Some(scopes.into_iter().collect::<Vec<_>>().join(" "));
            }
            "timeout" => settings.login_limit = self.duration(member, place)?,
            "trustedResource" => settings.trusted_resource = Some(self.text(member, place)?),
            _ => return Err(ConfigError::new(place.clone(), ConfigFault::UnknownKey)),
        }
        Ok(())
    }
}

const APPLICATION_TYPES: Choice<ApplicationType> = Choice {
    of: &[("native", ApplicationType::Native), ("web", ApplicationType::Web)],
    listed: "\"native\" and \"web\"",
};

const DPOP: Choice<Dpop> = Choice {
    of: &[("off", Dpop::Off), ("required", Dpop::Required), ("whenOffered", Dpop::WhenOffered)],
    listed: "\"off\", \"required\" and \"whenOffered\"",
};

const LEGACY: Choice<Legacy> =
    Choice { of: &[("auto", Legacy::Auto), ("off", Legacy::Off)], listed: "\"auto\" and \"off\"" };

const PKCE_METADATA: Choice<PkceMetadata> = Choice {
    of: &[("lenient", PkceMetadata::Lenient), ("strict", PkceMetadata::Strict)],
    listed: "\"lenient\" and \"strict\"",
};

fn at(place: &Place) -> impl Fn(ConfigFault) -> ConfigError {
    move |fault| ConfigError::new(place.clone(), fault)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_proto::Secret;
    use mcp_transport::auth::{AuthMethod, Grant};

    use super::*;
    use crate::config::{ConfigFile, HttpServer, Reach};

    fn parse(entry: &str) -> ConfigFile {
        let lookup = |name: &str| (name == "SECRET").then(|| "canary-7f3a".to_owned());
        let text = format!("{{\"mcpServers\": {{\n  \"s\": {entry}\n}}}}");
        ConfigFile::parse("mcp.json", None, &text, &lookup).unwrap()
    }

    fn address(entry: &str) -> HttpServer {
        let mut config = parse(entry);
        assert!(config.refused.is_empty() && config.warnings.is_empty(), "{config:?}");
        match config.servers.remove(0).reach {
            Reach::Http(address) => address,
            Reach::Stdio(program) => panic!("{program:?}"),
        }
    }

    #[test]
    fn everything_that_can_be_said_about_a_login_is_read() {
        let entry = r#"{"url": "https://h/mcp", "oauth": {
            "enabled": true, "clientId": "me", "clientSecret": "${SECRET}",
            "tokenEndpointAuthMethod": "client_secret_post", "clientMetadataUrl": "https://c/client.json",
            "clientName": "Me", "applicationType": "web", "issuer": "https://as", "scopes": ["b", "a", "b"],
            "resource": "https://r", "trustedResource": "https://t", "redirectUri": "http://localhost:7000/x",
            "callbackPort": 7000, "timeout": "90s", "pkceMetadata": "lenient", "allowMissingIssuer": true,
            "allowUnencrypted": true, "offlineAccess": false, "legacy": "off", "dpop": "required",
            "extraAuthorizationParams": {"access_type": "offline"}}}"#;
        let settings = address(entry).oauth_settings().unwrap();
        let client = settings.client.as_ref().unwrap();
        assert_eq!((client.id.as_str(), client.method), ("me", Some(AuthMethod::ClientSecretPost)));
        assert_eq!(client.secret.as_ref().map(Secret::expose), Some("canary-7f3a"));
        assert_eq!(settings.client_metadata_url.as_deref(), Some("https://c/client.json"));
        assert_eq!((settings.client_name.as_str(), settings.scope.as_deref()), ("Me", Some("a b")));
        assert_eq!(settings.application_type, Some(ApplicationType::Web));
        assert_eq!(settings.issuer.as_deref(), Some("https://as"));
        assert_eq!(settings.resource, ResourceParameter::Fixed("https://r".to_owned()));
        assert_eq!(settings.trusted_resource.as_deref(), Some("https://t"));
        assert_eq!(settings.redirect.uri.as_deref(), Some("http://localhost:7000/x"));
        assert_eq!((settings.redirect.port, settings.login_limit), (Some(7000), Duration::from_secs(90)));
        assert_eq!((settings.pkce_metadata, settings.legacy), (PkceMetadata::Lenient, Legacy::Off));
        assert_eq!(settings.dpop, Dpop::Required);
        assert!(settings.allows_missing_issuer && settings.allows_unencrypted);
        assert!(!settings.asks_offline_access);
        assert_eq!(settings.extra_parameters, [("access_type".to_owned(), "offline".to_owned())]);
    }

    #[test]
    fn a_login_can_be_left_as_it_is_or_switched_off() {
        for (more, is_on) in [
            ("", true),
            (r#", "oauth": {}"#, true),
            (r#", "oauth": false"#, false),
            (r#", "oauth": {"enabled": false}"#, false),
            (r#", "headers": {"authorization": "Bearer x"}"#, false),
        ] {
            let settings = address(&format!(r#"{{"url": "https://h/mcp"{more}}}"#)).oauth_settings();
            assert_eq!(settings.is_some(), is_on, "{more}");
            assert!(settings.is_none_or(|settings| settings == OAuthSettings::default()), "{more}");
        }
        let client = r#"{"url": "https://h/mcp", "oauth": {"grantType": "client_credentials", "scope": "a",
            "clientId": "me", "clientSecret": "${SECRET}", "issuer": "https://as", "resource": false}}"#;
        let settings = address(client).oauth_settings().unwrap();
        assert_eq!(
            (settings.grant, settings.resource),
            (Grant::ClientCredentials, ResourceParameter::Omitted)
        );
    }

    #[test]
    fn a_slip_in_a_login_is_an_error_with_its_place() {
        for (oauth, message) in [
            ("7", r#""oauth" must be an object, or false if there is no login"#),
            ("true", r#""oauth" must be an object, or false if there is no login"#),
            (
                r#"{"clientID": "me"}"#,
                r#""oauth.clientID" is not a key this version knows; correct or remove it"#,
            ),
            (r#"{"clientSecret": "x"}"#, r#""oauth.clientSecret" needs a "clientId"; add what is missing"#),
            (
                r#"{"tokenEndpointAuthMethod": "none"}"#,
                r#""oauth.tokenEndpointAuthMethod" needs a "clientId"; add what is missing"#,
            ),
            (r#"{"legacy": "on"}"#, r#""oauth.legacy" must be one of "auto" and "off""#),
            (r#"{"dpop": "on"}"#, r#""oauth.dpop" must be one of "off", "required" and "whenOffered""#),
            (r#"{"callbackPort": 70000}"#, r#""oauth.callbackPort" must be a whole number from 1 to 65535"#),
            (r#"{"timeout": "0s"}"#, r#""oauth.timeout" must be more than zero"#),
            (
                r#"{"grantType": "client_credentials", "clientId": "me", "clientSecret": "x"}"#,
                r#""oauth" needs "clientId", "clientSecret" and "issuer", or "clientId" and "privateKeyFile", for the grant of a client; add what is missing"#,
            ),
            (
                r#"{"clientId": "${GONE}"}"#,
                r#""oauth.clientId" environment variable GONE is not set; set it or write ${GONE:-default}"#,
            ),
        ] {
            let config = parse(&format!(r#"{{"url": "https://h/mcp", "oauth": {oauth}}}"#));
            let error = config.refused[0].to_string();
            assert!(error.starts_with("mcp.json:2:") && error.ends_with(message), "{oauth}: {error}");
        }
        let both = parse(r#"{"url": "https://h/mcp", "headers": {"Authorization": "x"}, "oauth": {}}"#);
        let error = both.refused[0].to_string();
        assert!(error.contains("\"oauth\" the header Authorization"), "{error}");
        let program = parse(r#"{"command": "x", "oauth": {}}"#);
        assert!(program.warnings[0].to_string().contains("no effect"), "{:?}", program.warnings);
    }

    #[test]
    fn f158_the_secret_of_a_client_is_known_and_never_shown() {
        let entry = r#"{"url": "https://h/mcp", "oauth": {"clientId": "me", "clientSecret": "${SECRET}"}}"#;
        let config = parse(entry);
        let secrets: Vec<&str> = config.servers[0].secrets().map(Secret::expose).collect();
        assert_eq!(secrets, ["canary-7f3a"]);
        assert!(!format!("{config:?}").contains("canary"), "{config:?}");
    }

    #[test]
    fn f149_a_server_with_another_login_is_another_server() {
        let plain = address(r#"{"url": "https://h/mcp"}"#);
        assert_eq!(plain, address(r#"{"url": "https://h/mcp"}"#));
        assert!(plain != address(r#"{"url": "https://h/mcp", "oauth": {"scope": "a"}}"#));
    }
}
