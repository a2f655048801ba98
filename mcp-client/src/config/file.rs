use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use mcp_proto::{Redactor, Secret};
use mcp_session::EraPolicy;
use serde_json::value::RawValue;

use super::error::{ConfigError, ConfigFault, ConfigWarning, Place, Position};
use super::expand::expand;
use super::located::{Member, Text};
use super::secrets::exposed;
use super::server::{ServerConfig, ServerSettings, StdioServer, check};
use super::value;

/// Finds the value of an environment variable. The library itself never looks at the environment.
pub type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Keys that other programs write into a server's entry and that mean nothing here.
const FOREIGN_KEYS: &[&str] = &["alwaysAllow", "autoApprove", "description", "name", "trust"];

/// Below this number of milliseconds, a number was probably meant to be seconds.
const SUSPICIOUS_MILLISECONDS: u128 = 1000;

/// Most calls that may be configured to be under way at once on one server.
const MOST_IN_FLIGHT: u64 = 10_000;

/// What a configuration file says.
///
/// One bad entry does not hurt its neighbours: it is among [`refused`](Self::refused), and the
/// others are ready to start.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConfigFile {
    /// Servers that can be started, in the order of the file.
    pub servers: Vec<ServerConfig>,
    /// One error for every entry that cannot.
    pub refused: Vec<ConfigError>,
    /// What is probably not meant.
    pub warnings: Vec<ConfigWarning>,
}

impl ConfigFile {
    /// Reads a file in the `mcpServers` form of Claude Desktop, Claude Code and Cursor.
    ///
    /// `file` is how messages name it. `folder` is where a relative `cwd` starts. `lookup` gives the
    /// values of `${NAME}` placeholders, which may stand in every text of an entry.
    ///
    /// A duration is a text with a unit (`"2s"`) or a number of milliseconds.
    ///
    /// # Errors
    ///
    /// The file as a whole cannot be used: no JSON, no `mcpServers` object, a name that appears
    /// twice. Errors of single entries are in [`refused`](Self::refused).
    pub fn parse(
        file: &str,
        folder: Option<&Path>,
        text: &str,
        lookup: &Lookup<'_>,
    ) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root = Place { file: Some(file.to_owned()), ..Place::default() };
        let fail = |place: &Place, fault| Err(ConfigError::new(place.clone(), fault));
        let syntax = |error: &serde_json::Error| syntax_error(&root, error);

        let whole: &RawValue = serde_json::from_str(text).map_err(|e| syntax(&e))?;
        if !is_object(whole) {
            return fail(&root, ConfigFault::MissingServers);
        }
        let members = Text(text).members(whole.get()).map_err(|e| syntax(&e))?;
        let Some(servers) = members.iter().find(|member| member.key == "mcpServers") else {
            return fail(&root, ConfigFault::MissingServers);
        };
        let place = root.key(&servers.key, Some(servers.position));
        if !is_object(servers.value) {
            return fail(&place, ConfigFault::WrongKind { expected: "an object" });
        }

        let mut config = Self::default();
        let mut names = BTreeSet::new();
        for entry in Text(text).members(servers.value.get()).map_err(|e| syntax(&e))? {
            let place = Place {
                position: Some(entry.position),
                server: Some(entry.key.clone().into_owned()),
                ..root.clone()
            };
            if !names.insert(entry.key.clone()) {
                return fail(&place, ConfigFault::Duplicate);
            }
            let reader = EntryReader { text: Text(text), place, folder, lookup, warnings: Vec::new() };
            let (outcome, warnings) = reader.read(&entry);
            config.warnings.extend(warnings);
            match outcome {
                Ok(server) => config.servers.push(server),
                Err(error) => config.refused.push(error),
            }
        }
        Ok(config)
    }

    /// The server called `name`, if it can be started.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// Why the entry called `name` cannot be started.
    #[must_use]
    pub fn refusal(&self, name: &str) -> Option<&ConfigError> {
        self.refused.iter().find(|error| error.server() == Some(name))
    }
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

fn syntax_error(root: &Place, error: &serde_json::Error) -> ConfigError {
    let position = Position { line: error.line(), column: error.column() };
    // The reader's text ends with the place, which stands at the front of ours already.
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default().to_owned();
    ConfigError::new(Place { position: Some(position), ..root.clone() }, ConfigFault::Syntax(what))
}

/// Reads one server's entry.
struct EntryReader<'a> {
    text: Text<'a>,
    place: Place,
    folder: Option<&'a Path>,
    lookup: &'a Lookup<'a>,
    warnings: Vec<ConfigWarning>,
}

impl<'a> EntryReader<'a> {
    fn read(mut self, entry: &Member<'a>) -> (Result<ServerConfig, ConfigError>, Vec<ConfigWarning>) {
        let outcome = self.entry(entry);
        (outcome, self.warnings)
    }

    fn entry(&mut self, entry: &Member<'a>) -> Result<ServerConfig, ConfigError> {
        if !is_object(entry.value) {
            let fault = ConfigFault::WrongKind { expected: "an object with a \"command\"" };
            return Err(ConfigError::new(self.place.clone(), fault));
        }
        let members = self.members(entry.value, &self.place.clone())?;
        let mut program = None;
        let mut details = StdioServer::new("");
        let mut settings = ServerSettings::default();
        for member in &members {
            let place = self.place.key(&member.key, Some(member.position));
            match member.key.as_ref() {
                "command" => program = Some(self.text(member, &place)?),
                "args" => details.args = self.texts(member, &place)?,
                "env" => details.env = self.variables(member, &place)?,
                "cwd" => details.cwd = Some(self.directory(member, &place)?),
                "url" | "serverUrl" => return Err(ConfigError::new(place, ConfigFault::HttpUnsupported)),
                "type" | "transport" => check_type(member).map_err(|fault| ConfigError::new(place, fault))?,
                _ => self.setting(&mut settings, member, &place)?,
            }
        }
        let Some(command) = program else {
            return Err(ConfigError::new(self.place.clone(), ConfigFault::MissingCommand));
        };
        self.finish(entry, &members, StdioServer { command, ..details }, settings)
    }

    /// Checks the program as a whole, and looks for secrets in its arguments.
    fn finish(
        &mut self,
        entry: &Member<'a>,
        members: &[Member<'a>],
        program: StdioServer,
        settings: ServerSettings,
    ) -> Result<ServerConfig, ConfigError> {
        check(&entry.key, &program).map_err(|(key, fault)| {
            let position = members.iter().find(|member| member.key == key).map(|member| member.position);
            let place = if key.is_empty() { self.place.clone() } else { self.place.key(key, position) };
            ConfigError::new(place, fault)
        })?;
        let mut secrets: Vec<Secret> = program.env.iter().map(|(_, value)| value.clone()).collect();
        for found in exposed(&program.args, &Redactor::default()) {
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
            secrets.extend(found.value);
        }
        Ok(ServerConfig { name: entry.key.clone().into_owned(), program, settings, secrets })
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
            "idempotentTools" => settings.idempotent_tools = names(raw).map_err(at)?,
            "includeTools" => settings.tools.include = Some(names(raw).map_err(at)?),
            "excludeTools" | "disabledTools" => settings.tools.exclude.extend(names(raw).map_err(at)?),
            key if FOREIGN_KEYS.contains(&key) => {}
            _ => self.warn(place.clone(), "is not a key this version knows; it is ignored".to_owned()),
        }
        Ok(())
    }

    fn members(&self, object: &'a RawValue, place: &Place) -> Result<Vec<Member<'a>>, ConfigError> {
        let members = self.text.members(object.get()).map_err(|error| syntax_error(place, &error))?;
        let mut seen = BTreeSet::new();
        match members.iter().find(|member| !seen.insert(&member.key)) {
            Some(twice) => {
                Err(ConfigError::new(place.key(&twice.key, Some(twice.position)), ConfigFault::Duplicate))
            }
            None => Ok(members),
        }
    }

    fn text(&mut self, member: &Member<'a>, place: &Place) -> Result<String, ConfigError> {
        let text = value::text(member.value).map_err(|fault| ConfigError::new(place.clone(), fault))?;
        self.expanded(&text, place)
    }

    fn texts(&mut self, member: &Member<'a>, place: &Place) -> Result<Vec<String>, ConfigError> {
        let texts = value::texts(member.value).map_err(|fault| ConfigError::new(place.clone(), fault))?;
        texts.iter().map(|text| self.expanded(text, place)).collect()
    }

    fn variables(
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

    fn directory(&mut self, member: &Member<'a>, place: &Place) -> Result<PathBuf, ConfigError> {
        let path = PathBuf::from(self.text(member, place)?);
        match self.folder {
            _ if path.is_absolute() || path.as_os_str().is_empty() => Ok(path),
            Some(folder) => Ok(folder.join(path)),
            None => Err(ConfigError::new(place.clone(), ConfigFault::RelativeDirectory)),
        }
    }

    fn duration(&mut self, member: &Member<'a>, place: &Place) -> Result<std::time::Duration, ConfigError> {
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

fn check_type(member: &Member<'_>) -> Result<(), ConfigFault> {
    match value::text(member.value)?.as_str() {
        "stdio" => Ok(()),
        "http" | "sse" | "streamable-http" | "streamableHttp" => Err(ConfigFault::HttpUnsupported),
        _ => Err(ConfigFault::UnknownChoice { expected: "\"stdio\"" }),
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

/// The lookup is a function and has no form to show.
impl fmt::Debug for EntryReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryReader").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "canary-7f3a".to_owned())
    }

    fn parse(text: &str) -> Result<ConfigFile, ConfigError> {
        ConfigFile::parse("mcp.json", Some(Path::new("/project")), text, &lookup)
    }

    /// The one refusal of a file with one entry.
    #[track_caller]
    fn refusal(entry: &str) -> String {
        let config = parse(&format!("{{\"mcpServers\": {{\n  \"s\": {entry}\n}}}}")).unwrap();
        assert_eq!((config.servers.len(), config.refused.len()), (0, 1));
        config.refused[0].to_string()
    }

    #[test]
    fn a_full_entry_is_read() {
        let config = parse(
            r#"{"globalShortcut": "", "mcpServers": {"s": {
                "type": "stdio", "command": "npx", "args": ["-y", "srv", "${NONE:-x}"],
                "env": {"KEY": "${TOKEN}", "PORT": 80, "ON": true}, "cwd": "sub",
                "timeout": 30000, "connectTimeout": "5s", "era": "legacy", "inFlight": 1,
                "idempotentTools": ["get"], "includeTools": ["get", "put"], "disabledTools": ["put"],
                "disabled": true, "autoApprove": ["x"], "description": "d"}}}"#,
        )
        .unwrap();
        assert!(config.warnings.is_empty() && config.refused.is_empty(), "{config:?}");
        let server = config.server("s").unwrap();
        assert_eq!(server.program.args, ["-y", "srv", "x"]);
        assert_eq!(server.program.cwd.as_deref(), Some(Path::new("/project/sub")));
        let env: Vec<(&str, &str)> =
            server.program.env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(env, [("KEY", "canary-7f3a"), ("ON", "true"), ("PORT", "80")]);
        let settings = &server.settings;
        assert_eq!(settings.timeout, Some(std::time::Duration::from_secs(30)));
        assert_eq!(settings.connect_timeout, Some(std::time::Duration::from_secs(5)));
        assert_eq!(settings.in_flight.map(NonZeroUsize::get), Some(1));
        assert!(!settings.enabled && settings.idempotent_tools.contains("get"));
        assert!(settings.tools.allows("get") && !settings.tools.allows("put"));
    }

    #[test]
    fn errors_name_file_place_server_and_key() {
        for (entry, message) in [
            (
                r#"{"url": "https://x"}"#,
                r#"mcp.json:2:9: server "s": "url" HTTP servers are not supported by this version; give a "command" that speaks over stdio"#,
            ),
            (
                r#"{"type": "sse"}"#,
                r#"mcp.json:2:9: server "s": "type" HTTP servers are not supported by this version; give a "command" that speaks over stdio"#,
            ),
            ("{}", r#"mcp.json:2:3: server "s": has no "command"; add the program that starts the server"#),
            ("7", r#"mcp.json:2:3: server "s": must be an object with a "command""#),
            (r#"{"command": 7}"#, r#"mcp.json:2:9: server "s": "command" must be a text"#),
            (r#"{"command": " "}"#, r#"mcp.json:2:9: server "s": "command" must not be empty"#),
            (
                "{\"command\": \"x\",\n\"timeout\": 0}",
                r#"mcp.json:3:1: server "s": "timeout" must be more than zero"#,
            ),
            (
                r#"{"command": "x", "timeout": "1e9h"}"#,
                r#"mcp.json:2:25: server "s": "timeout" must be a duration such as 500ms, 2s or 5m"#,
            ),
            (
                r#"{"command": "x", "timeout": 1e99}"#,
                r#"mcp.json:2:25: server "s": "timeout" must be at most 7 days"#,
            ),
            (
                r#"{"command": "x", "inFlight": -1}"#,
                r#"mcp.json:2:25: server "s": "inFlight" must be a whole number from 1 to 10000"#,
            ),
            (
                r#"{"command": "x", "era": "new"}"#,
                r#"mcp.json:2:25: server "s": "era" must be one of "auto", "legacy" and "modern""#,
            ),
            (
                r#"{"command": "x", "env": {"A": "${GONE}"}}"#,
                r#"mcp.json:2:33: server "s": "env.A" environment variable GONE is not set; set it or write ${GONE:-default}"#,
            ),
            (
                r#"{"command": "x", "env": {"A": {}}}"#,
                r#"mcp.json:2:25: server "s": "env" must be an object whose values are texts"#,
            ),
            (
                r#"{"command": "x", "env": {"A=": "1"}}"#,
                r#"mcp.json:2:25: server "s": "env" is not a name for an environment variable: it must not be empty or contain "=""#,
            ),
            (
                r#"{"command": "x\u0000"}"#,
                r#"mcp.json:2:9: server "s": "command" holds a NUL byte, which cannot be passed to a process"#,
            ),
            (
                r#"{"command": "x", "command": "y"}"#,
                r#"mcp.json:2:25: server "s": "command" appears twice; remove one of them"#,
            ),
        ] {
            assert_eq!(refusal(entry), message);
        }
    }

    #[test]
    fn a_broken_file_is_one_error_with_its_line() {
        for (text, message) in [
            ("{\n  \"mcpServers\": {\n    \"a\" 1\n}}", "mcp.json:3:9: is not valid JSON: expected `:`"),
            ("", "mcp.json:1:0: is not valid JSON: EOF while parsing a value"),
            ("[]", "mcp.json: has no \"mcpServers\" object; put the servers under that key"),
            ("{\"servers\": {}}", "mcp.json: has no \"mcpServers\" object; put the servers under that key"),
            ("{\"mcpServers\": []}", "mcp.json:1:2: \"mcpServers\" must be an object"),
            (
                "{\"mcpServers\": {\"a\": {}, \"a\": {}}}",
                "mcp.json:1:26: server \"a\": appears twice; remove one of them",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_bad_entry_does_not_hurt_its_neighbours() {
        let config =
            parse(r#"{"mcpServers": {"a": {"command": "x"}, "b": {"url": "u"}, "c": {"command": "y"}}}"#);
        let config = config.unwrap();
        let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(config.refusal("b").unwrap().fault, ConfigFault::HttpUnsupported);
    }

    #[test]
    fn what_is_probably_not_meant_is_warned_about() {
        let config = parse(
            "{\"mcpServers\": {\"s\": {\"command\": \"x\", \"timeout\": 60, \"comand\": 1,\n\
             \"args\": [\"${input:key}\", \"--api-key\", \"${TOKEN}\"]}}}",
        )
        .unwrap();
        let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                r#"mcp.json:1:39: server "s": "timeout" is 60 milliseconds; write "60s" if seconds are meant"#,
                r#"mcp.json:1:54: server "s": "comand" is not a key this version knows; it is ignored"#,
                r#"mcp.json:2:1: server "s": "args" has ${input:key}, which is passed on as it stands"#,
                r#"mcp.json:2:1: server "s": "args" has a secret in argument 3, where every user of this machine can read it; pass it through "env" if the server allows"#,
            ]
        );
    }

    #[test]
    fn f158_no_message_and_no_debug_form_shows_a_secret() {
        let config = parse(
            r#"{"mcpServers": {"s": {"command": "x", "env": {"A": "canary-7f3a"}, "timeout": 5},
                "bad": {"command": "x", "env": {"A": "canary-7f3a\u0000"}},
                "worse": {"command": "x", "env": {"A": ["canary-7f3a"]}}}}"#,
        )
        .unwrap();
        let shown = format!("{config:?} {:?} {:?}", config.refused, config.warnings);
        assert!(!shown.contains("canary"), "{shown}");
    }
}
