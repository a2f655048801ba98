use std::collections::BTreeSet;
use std::path::Path;

use serde_json::value::RawValue;

use super::entry::EntryReader;
use super::error::{ConfigError, ConfigFault, ConfigWarning, Place, Position};
use super::located::Text;
use super::server::ServerConfig;

/// Finds the value of an environment variable. The library itself never looks at the environment.
pub type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

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
    /// `file` is how messages name it. `folder` is where relative paths start. `lookup` gives the
    /// values of `${NAME}` placeholders, which may stand in every text of an entry. Files that hold the
    /// key or the secret of a client are read here, and are as much a part of the configuration.
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
            let (warnings, secrets) = Default::default();
            let reader = EntryReader { text: Text(text), place, folder, lookup, warnings, secrets };
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

/// Whether a raw value is an object; whitespace before it is never part of it.
pub(super) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// The error of the reader, with its place at the front.
pub(super) fn syntax_error(root: &Place, error: &serde_json::Error) -> ConfigError {
    let position = Position { line: error.line(), column: error.column() };
    // The reader's text ends with the place, which stands at the front of ours already.
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default().to_owned();
    ConfigError::new(Place { position: Some(position), ..root.clone() }, ConfigFault::Syntax(what))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use mcp_transport::http::EndpointError;

    use super::*;
    use crate::config::Reach;

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
                "idleTimeout": "10m", "maxLifetime": "8h",
                "idempotentTools": ["get"], "includeTools": ["get", "put"], "disabledTools": ["put"],
                "disabled": true, "autoApprove": ["x"], "description": "d"}}}"#,
        )
        .unwrap();
        assert!(config.warnings.is_empty() && config.refused.is_empty(), "{config:?}");
        let server = config.server("s").unwrap();
        let Reach::Stdio(program) = &server.reach else { panic!("a program") };
        assert_eq!(program.args, ["-y", "srv", "x"]);
        assert_eq!(program.cwd.as_deref(), Some(Path::new("/project/sub")));
        let env: Vec<(&str, &str)> =
            program.env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(env, [("KEY", "canary-7f3a"), ("ON", "true"), ("PORT", "80")]);
        let settings = &server.settings;
        assert_eq!(settings.timeout, Some(std::time::Duration::from_secs(30)));
        assert_eq!(settings.connect_timeout, Some(std::time::Duration::from_secs(5)));
        assert_eq!(settings.in_flight.map(NonZeroUsize::get), Some(1));
        assert_eq!(settings.idle_timeout, Some(std::time::Duration::from_secs(600)));
        assert_eq!(settings.max_lifetime, Some(std::time::Duration::from_secs(8 * 3600)));
        assert!(!settings.enabled && settings.idempotent_tools.contains("get"));
        assert!(settings.tools.allows("get") && !settings.tools.allows("put"));
    }

    #[test]
    fn limits_of_a_program_mean_nothing_over_http() {
        let entry = r#"{"mcpServers": {"s": {"url": "http://localhost/mcp", "idleTimeout": "10m"}}}"#;
        let config = parse(entry).unwrap();
        let [warning] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
        assert!(warning.to_string().contains("idleTimeout"), "{warning}");
        assert!(warning.to_string().contains("no effect"), "{warning}");
    }

    #[test]
    fn a_server_with_a_url_is_read_and_its_secrets_are_known() {
        let config = parse(
            r#"{"mcpServers": {
                "a": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                "b": {"url": "http://h/mcp?token=canary-9", "headers": {"X": "y"}, "timeout": "3s"}}}"#,
        )
        .unwrap();
        assert!(config.refused.is_empty(), "{config:?}");
        let server = config.server("a").unwrap();
        let Reach::Http(reach) = &server.reach else { panic!("over HTTP") };
        assert_eq!(reach.endpoint().to_string(), "https://h/mcp");
        let secrets: Vec<&str> = server.secrets().map(|secret| secret.expose()).collect();
        assert_eq!(secrets, ["Bearer canary-7f3a"]);
        let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.len() == 1 && warnings[0].contains("query"), "{warnings:?}");
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn errors_name_file_place_server_and_key() {
        for (entry, message) in [
            (r#"{"url": "x"}"#, r#"mcp.json:2:9: server "s": "url" not a complete http or https URL"#),
            (
                r#"{"serverUrl": "https://me:pw@x"}"#,
                r#"mcp.json:2:9: server "s": "serverUrl" the URL holds credentials; put them into a header instead"#,
            ),
            (
                r#"{"url": "https://x", "headers": {"Host": "y"}}"#,
                r#"mcp.json:2:29: server "s": "headers" the header Host is set by the client itself"#,
            ),
            (
                r#"{"url": "https://x", "command": "y"}"#,
                r#"mcp.json:2:9: server "s": "url" stands beside a "command"; keep one of them"#,
            ),
            (
                r#"{"type": "http"}"#,
                r#"mcp.json:2:9: server "s": "type" needs a "url"; add the address of the server"#,
            ),
            (
                r#"{"url": "https://x", "type": "stdio"}"#,
                r#"mcp.json:2:29: server "s": "type" must be one of "http" and "streamable-http" beside a "url""#,
            ),
            (
                r#"{"type": "sse", "url": "https://x"}"#,
                r#"mcp.json:2:9: server "s": "type" the older HTTP+SSE transport is not supported by this version; many servers speak Streamable HTTP at another address"#,
            ),
            (
                "{}",
                r#"mcp.json:2:3: server "s": has no "command" and no "url"; add the program that starts the server, or its address"#,
            ),
            ("7", r#"mcp.json:2:3: server "s": must be an object with a "command" or a "url""#),
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
        assert_eq!(config.refusal("b").unwrap().fault, ConfigFault::Endpoint(EndpointError::Url));
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
