use std::collections::{BTreeMap, BTreeSet};

use mcp_lifecycle::AddError;

use crate::config::{ConfigFile, ServerConfig};

/// What [`Client::reload`](crate::Client::reload) has done, by the names of the servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reload {
    /// New ones, and those whose entry differs. One that differs merely in which tools are offered keeps its
    /// process; one that differs in `enabled` is switched on or off. Any other change replaces it. Whoever is
    /// switched off or replaced is stopped when its running calls have ended or the time for them, 5 s, is
    /// over.
    pub changed: Vec<String>,
    /// Those that could not be put in place.
    pub failed: Vec<AddError>,
    /// Those that the file does not name any more: their running calls may end, then they are stopped.
    pub removed: Vec<String>,
    /// Those whose entry is as it was: nothing has happened to them.
    pub unchanged: Vec<String>,
}

/// The servers that files have named, as the files have them.
#[derive(Debug, Default)]
pub(crate) struct Files {
    servers: BTreeMap<String, ServerConfig>,
}

/// What has to be done for a server to be as its entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Its connection can stay; whether it is to be switched on or off.
    InPlace {
        enabled: Option<bool>,
    },
    Nothing,
    Replace,
}

impl Files {
    /// The server is as this entry says, from now on.
    pub(crate) fn note(&mut self, server: ServerConfig) {
        self.servers.insert(server.name.clone(), server);
    }

    /// The server is no longer one that a file has named.
    pub(crate) fn forget(&mut self, name: &str) {
        self.servers.remove(name);
    }

    /// The servers that the file no longer names, not even in an entry that cannot be used.
    pub(crate) fn missing_in(&self, config: &ConfigFile) -> Vec<String> {
        let refused = config.refused.iter().filter_map(|error| error.server());
        let named: BTreeSet<&str> =
            config.servers.iter().map(|server| server.name.as_str()).chain(refused).collect();
        self.servers.keys().filter(|name| !named.contains(name.as_str())).cloned().collect()
    }

    pub(crate) fn change_to(&self, new: &ServerConfig) -> Change {
        let Some(old) = self.servers.get(&new.name) else { return Change::Replace };
        if old == new {
            return Change::Nothing;
        }
        let mut kept = old.clone();
        kept.settings.enabled = new.settings.enabled;
        kept.settings.tools = new.settings.tools.clone();
        let enabled = (old.settings.enabled != new.settings.enabled).then_some(new.settings.enabled);
        if kept == *new { Change::InPlace { enabled } } else { Change::Replace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> ConfigFile {
        ConfigFile::parse("mcp.json", None, text, &|_| None).unwrap()
    }

    fn files(text: &str) -> Files {
        let mut files = Files::default();
        for server in file(text).servers {
            files.note(server);
        }
        files
    }

    #[test]
    fn f149_only_what_cannot_be_changed_in_place_replaces_a_server() {
        let files = files(r#"{"mcpServers": {"s": {"command": "a", "env": {"KEY": "1"}}}}"#);
        for (entry, change) in [
            (r#"{"command": "a", "env": {"KEY": "1"}}"#, Change::Nothing),
            (r#"{"env": {"KEY": "1"}, "command": "a", "description": "x"}"#, Change::Nothing),
            (r#"{"command": "b", "env": {"KEY": "1"}}"#, Change::Replace),
            (r#"{"command": "a", "env": {"KEY": "2"}}"#, Change::Replace),
            (r#"{"command": "a", "env": {"KEY": "1"}, "timeout": "7s"}"#, Change::Replace),
            (r#"{"url": "http://localhost/mcp"}"#, Change::Replace),
            (
                r#"{"command": "a", "env": {"KEY": "1"}, "excludeTools": ["x"]}"#,
                Change::InPlace { enabled: None },
            ),
            (
                r#"{"command": "a", "env": {"KEY": "1"}, "disabled": true}"#,
                Change::InPlace { enabled: Some(false) },
            ),
        ] {
            let new = file(&format!("{{\"mcpServers\": {{\"s\": {entry}}}}}"));
            assert_eq!(files.change_to(&new.servers[0]), change, "{entry}");
        }
        let other = file(r#"{"mcpServers": {"t": {"command": "a"}}}"#);
        assert_eq!(files.change_to(&other.servers[0]), Change::Replace);
    }

    #[test]
    fn a_server_whose_entry_cannot_be_used_is_not_missing() {
        let files = files(r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}"#);
        let config = file(r#"{"mcpServers": {"a": {"command": 7}}}"#);
        assert_eq!(files.missing_in(&config), ["b"]);
    }
}
