use std::time::Duration;

use mcp_proto::Era;
use tokio::time::Instant;

/// What a machine is told. The numbers are generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A call needs the server.
    Demand,
    /// Switch it off.
    Disable,
    /// No call of the draining connection is left, or the time for that is over.
    Drained(u64),
    /// Switch it on.
    Enable(Begin),
    /// Nothing of the connection is left.
    Gone(u64),
    /// The connection could not be made, or broke.
    Lost(u64, Loss),
    /// The server has refused a call on the connection, and will refuse any under this configuration.
    Misconfigured(u64),
    /// A call has succeeded on the connection.
    Proven(u64),
    /// Somebody wants another connection than this one.
    Reconnect(u64),
    /// The machine has slept: what was true before need not be so any more.
    Resumed,
    /// Stop for good.
    Stop,
    /// Time has passed.
    Tick,
    /// The connection is made, the handshake is done, the lists are loaded.
    Up(u64, Era),
    /// The server has refused a call on the connection for want of credentials.
    Unauthorized(u64),
    /// The answer to [`Action::Look`](super::Action::Look).
    Used(u64, Usage),
    /// Somebody wants the server now: new credentials, new configuration, a person.
    Wake,
}

/// When a server that is switched on begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    Now,
    OnDemand,
}

/// What a failed connection says about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Credentials are needed.
    Auth,
    /// The server has forgotten the session; it is there, and begins another one.
    Expired,
    /// The process ended by itself: nobody else is hit, and its successor is known to start.
    Exited,
    /// May pass by itself, but not before this time is over.
    Later(Duration),
    /// What was started has written something, but never a message: pointless to try again, unless the server
    /// was ready before.
    NotMcp,
    /// Pointless to try again without another configuration.
    Permanent,
    /// A legacy server did not survive the question which era it speaks.
    ProbeKilled,
    /// The handshake was answered, but not with anything that can be taken; the next one may be.
    Rejected,
    /// The handshake was answered, with an offer that can never be taken.
    Refused,
    /// May pass by itself.
    Transient,
    /// Nobody answers there; may pass by itself.
    Unreachable,
}

/// Whether anybody uses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// No call, but somebody waits to be told of changes, or for a task.
    Awaited,
    /// A call runs or waits.
    Busy,
    /// Nobody; the last call ended then, or none has come since the connection is up.
    Free { since: Option<Instant> },
}
