use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use mcp_proto::Secret;
use mcp_session::EraPolicy;

use super::error::{ConfigError, ConfigFault, Place};
use super::http_server::HttpServer;
use super::secrets;

/// A server to use: its name, how it is reached and how to treat it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The name that calls use.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// How to treat it.
    pub settings: ServerSettings,
    /// What must never be shown of it.
    pub(crate) secrets: Vec<Secret>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reach {
    /// Over Streamable HTTP.
    Http(HttpServer),
    /// As a program that is started on this machine.
    Stdio(StdioServer),
}

/// A program that speaks MCP over standard input and output.
///
/// ```
/// use mcp_client::StdioServer;
///
/// let server = StdioServer::new("npx").args(["-y", "some-server"]).env("API_KEY", "…");
/// assert!(!format!("{server:?}").contains("…"));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use = "a server does nothing until it is added to a client"]
pub struct StdioServer {
    /// The command: a path, or a name that is looked up in `PATH`. No shell reads it.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables it gets beside the inherited ones.
    pub env: Vec<(String, Secret)>,
    /// Its working directory; `None` is that of this process.
    pub cwd: Option<PathBuf>,
}

/// How to treat a server. What is `None` has the default of the layer that uses it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerSettings {
    /// Whether the server is started at all; true by default.
    pub enabled: bool,
    /// How long a call may take; progress of the server extends it up to the hard limit.
    pub timeout: Option<Duration>,
    /// How long a connection, its handshake and its first lists may take together.
    pub connect_timeout: Option<Duration>,
    /// Which vocabularies to try.
    pub era: EraPolicy,
    /// How many calls may be under way at once; 1 makes the server strictly serial.
    pub in_flight: Option<NonZeroUsize>,
    /// How long nobody may have used a program before it is stopped; the next call starts it again.
    /// `None`: it stays. Without effect on a server over HTTP.
    pub idle_timeout: Option<Duration>,
    /// How old a program may become before it is replaced, or stopped if nobody uses it. `None`: as old as
    /// it can. Without effect on a server over HTTP.
    pub max_lifetime: Option<Duration>,
    /// Tools that may be called again after a lost connection, by their own names.
    pub idempotent_tools: BTreeSet<String>,
    /// Which tools are offered.
    pub tools: ToolFilter,
}

/// Which tools of a server are offered, by the names the server gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolFilter {
    /// Only these; `None` is all.
    pub include: Option<BTreeSet<String>>,
    /// Not these, even if they are included.
    pub exclude: BTreeSet<String>,
}

impl ServerConfig {
    /// Puts a server together and checks it.
    ///
    /// The values of its variables never show up in an error or a log record, unless they are plainly no
    /// secrets (`DEBUG=1`, a path), and what looks like a secret in its arguments does not either.
    ///
    /// # Errors
    ///
    /// An empty name or command, a NUL byte, a bad variable name: nothing that could be reached.
    pub fn new(
        name: impl Into<String>,
        reach: impl Into<Reach>,
        settings: ServerSettings,
    ) -> Result<Self, ConfigError> {
        let (name, reach) = (name.into(), reach.into());
        check(&name, &reach).map_err(|(key, fault)| {
            let place = Place::server(&name);
            ConfigError::new(if key.is_empty() { place } else { place.key(key, None) }, fault)
        })?;
        let secrets = reach.secrets();
        Ok(Self { name, reach, settings, secrets })
    }

    /// What must never be shown of this server.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.secrets.iter()
    }
}

impl Reach {
    pub(super) fn secrets(&self) -> Vec<Secret> {
        match self {
            Self::Http(server) => server.secrets(),
            Self::Stdio(program) => secrets::of(program),
        }
    }
}

impl From<HttpServer> for Reach {
    fn from(server: HttpServer) -> Self {
        Self::Http(server)
    }
}

impl From<StdioServer> for Reach {
    fn from(program: StdioServer) -> Self {
        Self::Stdio(program)
    }
}

impl StdioServer {
    /// A server started by `command`, a path or a name that is looked up in `PATH`.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), args: Vec::new(), env: Vec::new(), cwd: None }
    }

    /// Adds arguments.
    pub fn args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds one environment variable; its value is treated as a secret.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), Secret::new(value)));
        self
    }

    /// Sets the working directory.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            timeout: None,
            connect_timeout: None,
            era: EraPolicy::Auto,
            in_flight: None,
            idle_timeout: None,
            max_lifetime: None,
            idempotent_tools: BTreeSet::new(),
            tools: ToolFilter::default(),
        }
    }
}

impl ToolFilter {
    /// Whether the server's tool `name` is offered.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.contains(name)) && !self.exclude.contains(name)
    }
}

/// Refuses what cannot be reached in any case, before anything is started.
///
/// An error comes with the key that it is about; an empty key means the server's name.
pub(super) fn check(name: &str, reach: &Reach) -> Result<(), (&'static str, ConfigFault)> {
    if name.trim().is_empty() {
        return Err(("", ConfigFault::Empty));
    }
    no_nul("", name)?;
    match reach {
        // Its parts were checked when they were given.
        Reach::Http(_) => Ok(()),
        Reach::Stdio(program) => check_program(program),
    }
}

fn no_nul(key: &'static str, text: &str) -> Result<(), (&'static str, ConfigFault)> {
    if text.contains('\0') { Err((key, ConfigFault::HoldsNul)) } else { Ok(()) }
}

fn check_program(program: &StdioServer) -> Result<(), (&'static str, ConfigFault)> {
    if program.command.trim().is_empty() {
        return Err(("command", ConfigFault::Empty));
    }
    no_nul("command", &program.command)?;
    program.args.iter().try_for_each(|arg| no_nul("args", arg))?;
    for (variable, value) in &program.env {
        if variable.is_empty() || variable.contains('=') {
            return Err(("env", ConfigFault::InvalidVariableName));
        }
        no_nul("env", variable)?;
        no_nul("env", value.expose())?;
    }
    match &program.cwd {
        Some(cwd) if cwd.as_os_str().is_empty() => Err(("cwd", ConfigFault::Empty)),
        Some(cwd) => no_nul("cwd", &cwd.to_string_lossy()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f006_what_no_process_can_take_is_refused_before_any_fork() {
        let ok = || StdioServer::new("server");
        for (server, key, fault) in [
            (StdioServer::new(""), "command", ConfigFault::Empty),
            (StdioServer::new("a\0b"), "command", ConfigFault::HoldsNul),
            (ok().args(["a\0b"]), "args", ConfigFault::HoldsNul),
            (ok().env("", "x"), "env", ConfigFault::InvalidVariableName),
            (ok().env("A=B", "x"), "env", ConfigFault::InvalidVariableName),
            (ok().env("A\0", "x"), "env", ConfigFault::HoldsNul),
            (ok().env("A", "x\0"), "env", ConfigFault::HoldsNul),
            (ok().cwd(""), "cwd", ConfigFault::Empty),
        ] {
            let error = ServerConfig::new("s", server, ServerSettings::default()).unwrap_err();
            assert_eq!((error.place.key.as_deref(), &error.fault), (Some(key), &fault));
            assert_eq!(error.server(), Some("s"));
        }
        assert!(ServerConfig::new(" ", ok(), ServerSettings::default()).is_err());
    }

    #[test]
    fn exclusion_wins_over_inclusion() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let filter = ToolFilter { include: Some(set(&["a", "b"])), exclude: set(&["b"]) };
        assert_eq!(["a", "b", "c"].map(|name| filter.allows(name)), [true, false, false]);
        assert!(ToolFilter::default().allows("anything"));
    }
}
