use std::fmt;
use std::io;

use mcp_client::{ConfigError, Failure, FailureKind};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::exit::Exit;

/// Why a command did not do what was asked: one clear sentence, and the number it ends with.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Somebody wants this program to end.
    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted")
    }

    /// The command line cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }
}

/// As `--json` prints it.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"ok": false, "error": {"kind": self.exit.kind(), "message": self.message}})
            .serialize(serializer)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::new(exit_of(failure.kind), failure.message)
    }
}

/// Writing to standard output failed. When its reader has left, there is nothing to complain about.
impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Success, ""),
            _ => Self::new(Exit::Failed, format!("cannot write to standard output: {error}")),
        }
    }
}

/// The number that a failed operation ends with.
pub(crate) fn exit_of(kind: FailureKind) -> Exit {
    match kind {
        FailureKind::Arguments | FailureKind::UnknownName => Exit::Usage,
        FailureKind::NeedsAuthorization => Exit::NeedsAuthorization,
        FailureKind::Timeout => Exit::TimedOut,
        FailureKind::Unreachable => Exit::Unreachable,
        FailureKind::ShuttingDown => Exit::Interrupted,
        _ => Exit::Failed,
    }
}
