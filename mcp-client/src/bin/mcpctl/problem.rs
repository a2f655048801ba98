use std::fmt;
use std::io;

use mcp_client::{ConfigError, Failure, FailureKind, OutcomeClass};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::running::login_advice;

/// Why a command did not do what was asked: one clear sentence, and the number it ends with.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    /// What it is called in JSON.
    kind: &'static str,
    /// Nothing is told if it is empty.
    pub(crate) message: String,
    /// What a server can have done.
    outcome: OutcomeClass,
    /// Whether the same command may be given again without any risk, and may succeed.
    is_retryable: bool,
}

impl Problem {
    /// Something that was found before any server was asked, and that does not pass by itself.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let (kind, message) = (exit.kind(), message.into());
        Self { exit, kind, message, outcome: OutcomeClass::NotSent, is_retryable: false }
    }

    /// Somebody wants this program to end. A server may have been asked before.
    pub(crate) fn interrupted() -> Self {
        Self { outcome: OutcomeClass::Unknown, ..Self::new(Exit::Interrupted, "interrupted") }
    }

    /// The command line cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// It may pass by itself.
    pub(crate) fn retryable(self, is_retryable: bool) -> Self {
        Self { is_retryable, ..self }
    }

    /// The member `error` of a document.
    pub(crate) fn document(&self) -> Value {
        json!({
            "kind": self.kind, "message": self.message,
            "outcome": self.outcome, "retryable": self.is_retryable,
        })
    }
}

/// What a command ends with that knows its result and has printed it. A reader of standard output who
/// has seen enough, and left, changes nothing about that.
pub(crate) fn concluded<E: Into<Problem>>(printed: Result<(), E>, exit: Exit) -> Result<Exit, Problem> {
    match printed.map_err(Into::into) {
        Err(problem) if !problem.message.is_empty() => Err(problem),
        _ => Ok(exit),
    }
}

/// As `--json` prints it.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"ok": false, "error": self.document()}).serialize(serializer)
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
        let message = match (failure.kind, &failure.server) {
            (FailureKind::NeedsAuthorization, Some(server)) => {
                format!("{} — {}", failure.message, login_advice(server))
            }
            _ => failure.message,
        };
        Self {
            exit: exit_of(failure.kind),
            kind: failure.kind.as_str(),
            message,
            outcome: failure.outcome,
            is_retryable: failure.retryable,
        }
    }
}

/// Writing to standard output failed, so the command was not finished. When its reader has left, there
/// is nothing to tell; see [`concluded`].
impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Failed, ""),
            _ => Self::new(Exit::Failed, format!("cannot write to standard output: {error}")),
        }
    }
}

/// The number that a failed operation ends with.
fn exit_of(kind: FailureKind) -> Exit {
    match kind {
        FailureKind::Arguments | FailureKind::UnknownName => Exit::Usage,
        FailureKind::NeedsAuthorization => Exit::NeedsAuthorization,
        FailureKind::Timeout => Exit::TimedOut,
        FailureKind::Unreachable => Exit::Unreachable,
        FailureKind::ShuttingDown => Exit::Interrupted,
        _ => Exit::Failed,
    }
}
