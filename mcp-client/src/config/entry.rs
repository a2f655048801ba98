use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_proto::Secret;
use mcp_session::EraPolicy;
use serde_json::value::RawValue;

use super::error::{ConfigError, ConfigFault, ConfigWarning, Place};
use super::expand::expand;
use super::file::{Lookup, is_object, syntax_error};
use super::http_server::HttpServer;
use super::located::{Member, Text};
use super::oauth::OAuthEntry;
use super::secrets;
use super::server::{Reach, ServerConfig, ServerSettings, StdioServer, check};
use super::value;

/// Keys that other programs write into a server's entry and that mean nothing here.
const FOREIGN_KEYS: &[&str] = &["alwaysAllow", "autoApprove", "description", "name", "trust"];

/// Keys of programs alone.
const PROGRAM_KEYS: &[&str] = &["idleTimeout", "maxLifetime"];

/// Keys of servers over HTTP alone.
const HTTP_KEYS: &[&str] = &["oauth"];

/// Below this number of milliseconds, a number was probably meant to be seconds.
const SUSPICIOUS_MILLISECONDS: u128 = 1000;

/// The types of a server with a URL.
const HTTP_TYPES: &str = "\"http\" and \"streamable-http\" beside a \"url\"";

/// Most calls that may be configured to be under way at once on one server.
const MOST_IN_FLIGHT: u64 = 10_000;

/// Reads one server's entry.
pub(super) struct EntryReader<'a> {
    pub(super) text: Text<'a>,
    pub(super) place: Place,
    /// Where a relative path starts.
    pub(super) folder: Option<&'a Path>,
    pub(super) lookup: &'a Lookup<'a>,
    pub(super) warnings: Vec<ConfigWarning>,
    /// What must never be shown, beside what the server itself tells of.
    pub(super) secrets: Vec<Secret>,
}

impl<'a> EntryReader<'a> {
    /// Reads the entry; the warnings count whether or not it can be used.
    pub(super) fn read(
        mut self,
        entry: &Member<'a>,
    ) -> (Result<ServerConfig, ConfigError>, Vec<ConfigWarning>) {
        let outcome = self.entry(entry);
        (outcome, self.warnings)
    }

    fn entry(&mut self, entry: &Member<'a>) -> Result<ServerConfig, ConfigError> {
        if !is_object(entry.value) {
            let fault = ConfigFault::WrongKind { expected: "an object with a \"command\" or a \"url\"" };
            return Err(ConfigError::new(self.place.clone(), fault));
        }
        let members = self.members(entry.value, &self.place.clone())?;
        let mut program = None;
        let mut address = None;
        let mut is_http = None;
        let mut details = StdioServer::new("");
        let mut headers = Vec::new();
        let mut oauth = None;
        let mut settings = ServerSettings::default();
        for member in &members {
            let place = self.place.key(&member.key, Some(member.position));
            match member.key.as_ref() {
                "command" => program = Some(self.text(member, &place)?),
                "args" => details.args = self.texts(member, &place)?,
                "env" => details.env = self.variables(member, &place)?,
                "cwd" => details.cwd = Some(self.path(member, &place)?),
                "url" | "serverUrl" => address = Some((self.text(member, &place)?, place)),
                "headers" => {
                    headers = self
                        .variables(member, &place)?
                        .into_iter()
                        .map(|header| (header, place.clone()))
                        .collect()
                }
                "oauth" => oauth = Some((self.oauth(member, &place)?, place)),
                "type" | "transport" => match is_http_type(member) {
                    Ok(over_http) => is_http = Some((over_http, place)),
                    Err(fault) => return Err(ConfigError::new(place, fault)),
                },
                _ => self.setting(&mut settings, member, &place)?,
            }
        }
        let reach = match (program, address, is_http) {
            (Some(_), Some((_, place)), _) => return Err(ConfigError::new(place, ConfigFault::TwoWays)),
            (None, Some((url, place)), is_http) => {
                if let Some((false, place)) = is_http {
                    return Err(ConfigError::new(place, ConfigFault::UnknownChoice { expected: HTTP_TYPES }));
                }
                let server = http_server(url, headers, &place)?;
                let server = match oauth {
                    Some((OAuthEntry::Off, _)) => server.without_oauth(),
                    Some((OAuthEntry::Settings(settings), place)) => {
                        server.oauth(*settings).map_err(|error| ConfigError::new(place, error.into()))?
                    }
                    None => server,
                };
                if let Some(warning) = server.warning() {
                    self.warn(place, warning.to_owned());
                }
                Reach::Http(server)
            }
            (_, None, Some((true, place))) => return Err(ConfigError::new(place, ConfigFault::MissingUrl)),
            (Some(command), None, _) => Reach::Stdio(StdioServer { command, ..details }),
            (None, None, _) => return Err(ConfigError::new(self.place.clone(), ConfigFault::MissingCommand)),
        };
        self.finish(entry, &members, reach, settings)
    }

    /// Checks the server as a whole, and looks for secrets in the arguments of a program.
    fn finish(
        &mut self,
        entry: &Member<'a>,
        members: &[Member<'a>],
        reach: Reach,
        settings: ServerSettings,
    ) -> Result<ServerConfig, ConfigError> {
        check(&entry.key, &reach).map_err(|(key, fault)| {
            let position = members.iter().find(|member| member.key == key).map(|member| member.position);
            let place = if key.is_empty() { self.place.clone() } else { self.place.key(key, position) };
            ConfigError::new(place, fault)
        })?;
        let args = match &reach {
            Reach::Stdio(program) => {
                self.warn_of(HTTP_KEYS, members, "has no effect on a server with a \"command\"");
                program.args.as_slice()
            }
            Reach::Http(_) => {
                self.warn_of(PROGRAM_KEYS, members, "has no effect on a server with a \"url\"");
                &[]
            }
        };
        for found in secrets::exposed(args) {
            let position = members.iter().find(|member| member.key == "args").map(|member| member.position);
            let place = self.place.key("args", position);
            self.warn(
                place,
                format!(
                    "has a secret in argument {}, where every user of this machine can read it; \
                     pass it through \"env\" if the server allows",
                    found.argument
                ),
            );
        }
        let mut secrets = reach.secrets();
        secrets.append(&mut self.secrets);
        Ok(ServerConfig { name: entry.key.clone().into_owned(), reach, settings, secrets })
    }

    /// Warns of settings that mean nothing to this kind of server.
    fn warn_of(&mut self, keys: &[&str], members: &[Member<'a>], what: &str) {
        for member in members.iter().filter(|member| keys.contains(&member.key.as_ref())) {
            let place = self.place.key(&member.key, Some(member.position));
            self.warn(place, what.to_owned());
        }
    }

    fn setting(
        &mut self,
        settings: &mut ServerSettings,
        member: &Member<'a>,
        place: &Place,
    ) -> Result<(), ConfigError> {
        let at = |fault| ConfigError::new(place.clone(), fault);
        let raw = member.value;
        match member.key.as_ref() {
            "enabled" => settings.enabled = value::flag(raw).map_err(at)?,
            "disabled" => settings.enabled = !value::flag(raw).map_err(at)?,
            "timeout" => settings.timeout = Some(self.duration(member, place)?),
            "connectTimeout" => settings.connect_timeout = Some(self.duration(member, place)?),
            "era" => settings.era = era(raw).map_err(at)?,
            "inFlight" => {
                let number = value::count(raw, 1, MOST_IN_FLIGHT).map_err(at)?;
                settings.in_flight = usize::try_from(number).ok().and_then(NonZeroUsize::new);
            }
            "idleTimeout" => settings.idle_timeout = Some(self.duration(member, place)?),
            "maxLifetime" => settings.max_lifetime = Some(self.duration(member, place)?),
            "idempotentTools" => settings.idempotent_tools = names(raw).map_err(at)?,
            "includeTools" => settings.tools.include = Some(names(raw).map_err(at)?),
            "excludeTools" | "disabledTools" => settings.tools.exclude.extend(names(raw).map_err(at)?),
            key if FOREIGN_KEYS.contains(&key) => {}
            _ => self.warn(place.clone(), "is not a key this version knows; it is ignored".to_owned()),
        }
        Ok(())
    }

    /// The members of an object that is the value of a member.
    pub(super) fn object(&self, member: &Member<'a>, place: &Place) -> Result<Vec<Member<'a>>, ConfigError> {
        if !is_object(member.value) {
            let fault = ConfigFault::WrongKind { expected: "an object" };
            return Err(ConfigError::new(place.clone(), fault));
        }
        self.members(member.value, place)
    }

    pub(super) fn members(
        &self,
        object: &'a RawValue,
        place: &Place,
    ) -> Result<Vec<Member<'a>>, ConfigError> {
        let members = self.text.members(object.get()).map_err(|error| syntax_error(place, &error))?;
        let mut seen = BTreeSet::new();
        match members.iter().find(|member| !seen.insert(&member.key)) {
            Some(twice) => {
                Err(ConfigError::new(place.key(&twice.key, Some(twice.position)), ConfigFault::Duplicate))
            }
            None => Ok(members),
        }
    }

    pub(super) fn text(&mut self, member: &Member<'a>, place: &Place) -> Result<String, ConfigError> {
        let text = value::text(member.value).map_err(|fault| ConfigError::new(place.clone(), fault))?;
        self.expanded(&text, place)
    }

    pub(super) fn texts(&mut self, member: &Member<'a>, place: &Place) -> Result<Vec<String>, ConfigError> {
        let texts = value::texts(member.value).map_err(|fault| ConfigError::new(place.clone(), fault))?;
        texts.iter().map(|text| self.expanded(text, place)).collect()
    }

    pub(super) fn variables(
        &mut self,
        member: &Member<'a>,
        place: &Place,
    ) -> Result<Vec<(String, Secret)>, ConfigError> {
        let variables =
            value::variables(member.value).map_err(|fault| ConfigError::new(place.clone(), fault))?;
        let keys = self.members(member.value, place)?;
        variables
            .into_iter()
            .map(|(name, value)| {
                let position = keys.iter().find(|key| key.key == name).map(|key| key.position);
                let value = self.expanded(&value, &place.key(&name, position))?;
                Ok((name, Secret::new(value)))
            })
            .collect()
    }

    pub(super) fn path(&mut self, member: &Member<'a>, place: &Place) -> Result<PathBuf, ConfigError> {
        let path = PathBuf::from(self.text(member, place)?);
        match self.folder {
            _ if path.as_os_str().is_empty() => Err(ConfigError::new(place.clone(), ConfigFault::Empty)),
            _ if path.is_absolute() => Ok(path),
            Some(folder) => Ok(folder.join(path)),
            None => Err(ConfigError::new(place.clone(), ConfigFault::RelativeDirectory)),
        }
    }

    pub(super) fn duration(&mut self, member: &Member<'a>, place: &Place) -> Result<Duration, ConfigError> {
        let duration =
            value::duration(member.value).map_err(|fault| ConfigError::new(place.clone(), fault))?;
        let is_bare = !member.value.get().starts_with('"');
        if is_bare && duration.as_millis() < SUSPICIOUS_MILLISECONDS {
            let number = member.value.get();
            self.warn(
                place.clone(),
                format!("is {number} milliseconds; write \"{number}s\" if seconds are meant"),
            );
        }
        Ok(duration)
    }

    fn expanded(&mut self, text: &str, place: &Place) -> Result<String, ConfigError> {
        let expanded = expand(text, self.lookup)
            .map_err(|unset| ConfigError::new(place.clone(), ConfigFault::UnsetVariable { name: unset.0 }))?;
        for placeholder in expanded.unknown {
            let shown = mcp_proto::escape(&placeholder, 64);
            self.warn(place.clone(), format!("has {shown}, which is passed on as it stands"));
        }
        Ok(expanded.text)
    }

    fn warn(&mut self, place: Place, message: String) {
        self.warnings.push(ConfigWarning { place, message });
    }
}

/// Puts a server over HTTP together; each header comes with its place.
fn http_server(
    url: String,
    headers: Vec<((String, Secret), Place)>,
    place: &Place,
) -> Result<HttpServer, ConfigError> {
    let at = |place: Place| move |error| ConfigError::new(place, ConfigFault::Endpoint(error));
    let server = HttpServer::new(url).map_err(at(place.clone()))?;
    headers.into_iter().try_fold(server, |server, ((name, value), place)| {
        server.header(name, value.expose()).map_err(at(place))
    })
}

/// Whether the type is one of those over HTTP.
fn is_http_type(member: &Member<'_>) -> Result<bool, ConfigFault> {
    match value::text(member.value)?.as_str() {
        "stdio" => Ok(false),
        "http" | "streamable-http" | "streamableHttp" | "streamable_http" => Ok(true),
        "sse" => Err(ConfigFault::SseUnsupported),
        _ => Err(ConfigFault::UnknownChoice { expected: "\"stdio\" and \"http\"" }),
    }
}

fn era(raw: &RawValue) -> Result<EraPolicy, ConfigFault> {
    match value::text(raw)?.as_str() {
        "auto" => Ok(EraPolicy::Auto),
        "legacy" => Ok(EraPolicy::Legacy),
        "modern" => Ok(EraPolicy::Modern),
        _ => Err(ConfigFault::UnknownChoice { expected: "\"auto\", \"legacy\" and \"modern\"" }),
    }
}

fn names(raw: &RawValue) -> Result<BTreeSet<String>, ConfigFault> {
    Ok(value::texts(raw)?.into_iter().collect())
}
