use std::fmt;

use mcp_proto::escape;
use mcp_transport::auth::InvalidKey;
use mcp_transport::http::EndpointError;

use super::value::DurationFault;

/// Longest part of a name from a configuration file that a message repeats, in bytes.
const SHOWN_NAME_BYTES: usize = 128;

/// A place in a text, both numbers starting at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// Where in the configuration something is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file as the caller named it; `None` for a server that was added by code.
    pub file: Option<String>,
    /// Line and column of the key, where there is one.
    pub position: Option<Position>,
    /// The server.
    pub server: Option<String>,
    /// The key inside the server's entry; inner keys are joined with dots.
    pub key: Option<String>,
}

/// The configuration cannot be used as it is.
///
/// The person who wrote the configuration has to change it; nothing was started. The text names file,
/// line, server and key, and never repeats a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}{fault}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Where.
    pub place: Box<Place>,
    /// What.
    pub fault: ConfigFault,
}

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFault {
    /// A relative path, and no folder that it could start from.
    #[error("a relative path has no meaning here; write an absolute one")]
    RelativeDirectory,
    /// A duration cannot be used.
    #[error(transparent)]
    Duration(#[from] DurationFault),
    /// Two servers have one name, or a key stands twice in one object.
    #[error("appears twice; remove one of them")]
    Duplicate,
    /// Both a command and a URL.
    #[error("stands beside a \"command\"; keep one of them")]
    TwoWays,
    /// Two keys that say the same.
    #[error("stands beside {other:?}; keep one of them")]
    Beside {
        /// The other one.
        other: &'static str,
    },
    /// A URL or a header cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A name or value holds a NUL byte, which no process can take.
    #[error("holds a NUL byte, which cannot be passed to a process")]
    HoldsNul,
    /// The name of an environment variable is empty or has a `=` in it.
    #[error("is not a name for an environment variable: it must not be empty or contain \"=\"")]
    InvalidVariableName,
    /// A private key cannot be used.
    #[error("cannot be used: {0}")]
    Key(#[from] InvalidKey),
    /// Neither a command nor a URL.
    #[error("has no \"command\" and no \"url\"; add the program that starts the server, or its address")]
    MissingCommand,
    /// The server is said to be reached over HTTP, but not where.
    #[error("needs a \"url\"; add the address of the server")]
    MissingUrl,
    /// The file has no list of servers.
    #[error("has no \"mcpServers\" object; put the servers under that key")]
    MissingServers,
    /// A key that means nothing without others.
    #[error("needs {what}; add what is missing")]
    Lacks {
        /// What is missing, by its keys.
        what: &'static str,
    },
    /// A name or command is empty.
    #[error("must not be empty")]
    Empty,
    /// A number is outside its range.
    #[error("must be a whole number from {min} to {max}")]
    OutOfRange {
        /// Smallest number accepted.
        min: u64,
        /// Largest number accepted.
        max: u64,
    },
    /// The text is not JSON.
    #[error("is not valid JSON: {0}")]
    Syntax(String),
    /// The server speaks the older of the two transports over HTTP.
    #[error(
        "the older HTTP+SSE transport is not supported by this version; many servers speak Streamable HTTP at another address"
    )]
    SseUnsupported,
    /// A text that is none of those accepted.
    #[error("must be one of {expected}")]
    UnknownChoice {
        /// The accepted texts.
        expected: &'static str,
    },
    /// A key that is not known, where a slip must not go unnoticed.
    #[error("is not a key this version knows; correct or remove it")]
    UnknownKey,
    /// A file that a key names cannot be read.
    #[error("names a file that cannot be read: {why}")]
    Unreadable {
        /// Why not.
        why: String,
    },
    /// A `${NAME}` without a value and without a default.
    #[error("environment variable {name} is not set; set it or write ${{{name}:-default}}")]
    UnsetVariable {
        /// The variable.
        name: String,
    },
    /// A value of another kind than the key takes.
    #[error("must be {expected}")]
    WrongKind {
        /// What the key takes.
        expected: &'static str,
    },
}

/// Something in a configuration that works but is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigWarning {
    /// Where.
    pub place: Place,
    /// What, and what to do about it.
    pub message: String,
}

impl ConfigError {
    pub(crate) fn new(place: Place, fault: ConfigFault) -> Self {
        Self { place: Box::new(place), fault }
    }

    /// The server whose entry is wrong; `None` if the file as a whole is.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.place.server.as_deref()
    }
}

impl Place {
    /// Somewhere in the entry of a server that was added by code.
    pub(crate) fn server(name: &str) -> Self {
        Self { server: Some(name.to_owned()), ..Self::default() }
    }

    /// The same place, one key further in.
    pub(crate) fn key(&self, key: &str, position: Option<Position>) -> Self {
        let key = match &self.key {
            Some(outer) => format!("{outer}.{key}"),
            None => key.to_owned(),
        };
        Self { key: Some(key), position: position.or(self.position), ..self.clone() }
    }
}

/// Writes `file:line:column: server "name": "key": `, leaving out what is not known.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| escape(text, SHOWN_NAME_BYTES).into_owned();
        match (&self.file, self.position) {
            (Some(file), Some(at)) => write!(f, "{}:{}:{}: ", shown(file), at.line, at.column)?,
            (Some(file), None) => write!(f, "{}: ", shown(file))?,
            (None, _) => {}
        }
        if let Some(server) = &self.server {
            write!(f, "server \"{}\": ", shown(server))?;
        }
        match &self.key {
            Some(key) => write!(f, "\"{}\" ", shown(key)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.message)
    }
}
