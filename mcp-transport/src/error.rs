use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A frame was not accepted; unless a variant says otherwise, nothing of it has left.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    Closed(Closed),
    /// The peer no longer knows the session that the frame belongs to, and has not acted on it.
    #[error("the server refused the message: {0}")]
    Refused(Closed),
    /// The frame is over the limit of the transport, in bytes.
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// The queue is full or the connection has ended; nothing has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection takes no more messages")]
pub struct Full;

/// How and why a connection has ended. Cheap to clone: every pending call gets one.
#[derive(Clone)]
pub struct Closed(Arc<ClosedInner>);

struct ClosedInner {
    reason: CloseReason,
    stderr_tail: String,
}

/// Why a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// Our side closed it.
    #[error("closed by this side")]
    Local,
    /// The peer closed its stream.
    #[error("the server closed its output")]
    EndOfStream,
    /// The server process ended.
    #[error("the server process ended with {0}")]
    Exited(Exit),
    /// Reading or writing failed.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server has ended the session, by itself or because it was started anew.
    #[error("the server no longer knows the session")]
    SessionExpired,
    /// The peer writes something, but no messages.
    #[error("the server does not speak MCP: its output holds no messages")]
    NotMcp,
    /// A cancel notice could not be written in time.
    #[error("the server does not read its input")]
    Stuck,
}

impl CloseReason {
    /// What a person can do about it, where there is something.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::EndOfStream | Self::Exited(_) => Some("run its command in a terminal to see what it needs"),
            Self::NotMcp => Some("check that its command starts an MCP server that prints nothing else"),
            Self::Broken(_) | Self::Local | Self::SessionExpired | Self::Stuck => None,
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// By itself, with a status.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Closed {
    /// Describes an end; `stderr_tail` is what the process wrote last, already escaped and cut.
    #[must_use]
    pub fn new(reason: CloseReason, stderr_tail: impl Into<String>) -> Self {
        Self(Arc::new(ClosedInner { reason, stderr_tail: stderr_tail.into() }))
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &CloseReason {
        &self.0.reason
    }

    /// The last lines the process wrote to standard error: escaped, at most 4 KiB, or empty.
    #[must_use]
    pub fn stderr_tail(&self) -> &str {
        &self.0.stderr_tail
    }
}

impl fmt::Debug for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").field("reason", &self.0.reason).finish_non_exhaustive()
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.reason, f)?;
        if !self.0.stderr_tail.is_empty() {
            write!(f, "; it wrote last: {}", self.0.stderr_tail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Closed {}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// How a connection was brought to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// The strongest means that was needed.
    pub ending: Ending,
    /// How the process ended; `None` without a process, or if it was abandoned.
    pub exit: Option<Exit>,
    /// From the first step to the last.
    pub elapsed: Duration,
}

impl CloseReport {
    /// Describes an end.
    #[must_use]
    pub fn new(ending: Ending, exit: Option<Exit>, elapsed: Duration) -> Self {
        Self { ending, exit, elapsed }
    }
}

/// The strongest means that was needed to end a connection, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Ending {
    /// The peer went when its stream was closed, or had gone before.
    Clean,
    /// SIGTERM.
    Terminated,
    /// SIGKILL.
    Killed,
    /// It could not be seen to end within the time that was given.
    Abandoned,
}
