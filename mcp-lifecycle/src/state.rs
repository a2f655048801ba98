use std::fmt;

use serde::{Serialize, Serializer};
use tokio::time::Instant;

/// Where a server stands. [`Machine`](crate::machine) draws how it moves.
///
/// In serialised form an instant is the number of milliseconds from now until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// The last attempt failed; the next one begins by itself.
    Backoff {
        /// The number of the next attempt since the server last proved healthy, from 1.
        attempt: u32,
        /// When it begins.
        #[serde(rename = "until_ms", serialize_with = "from_now")]
        until: Instant,
    },
    /// A connection is being made; an earlier one is wound down first.
    Connecting {
        /// The number of the connection; it grows with each one.
        generation: u64,
        /// The number of the attempt since the server last proved healthy, from 1.
        attempt: u32,
    },
    /// Switched off by its configuration.
    Disabled,
    /// Not running because nobody needs it; a call wakes it.
    Dormant {
        /// Why.
        why: DormantReason,
    },
    /// Stopping: no new calls, the running ones may finish.
    Draining,
    /// Waits for credentials.
    NeedsAuth,
    /// Given up for now; revived by its timer, an explicit request or new configuration.
    Parked {
        /// Why.
        why: ParkReason,
        /// When it is tried again by itself.
        #[serde(rename = "next_probe_ms", serialize_with = "from_now")]
        next_probe: Instant,
    },
    /// Connected, the handshake is done and the lists are loaded.
    Ready {
        /// The number of the connection.
        generation: u64,
    },
    /// Over, for good.
    Stopped,
}

/// Why a server sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DormantReason {
    /// Its connection was as old as it may become, and nobody used it.
    Age,
    /// Nobody has used it for so long.
    Idle,
    /// It starts with the first call and none has come.
    NotNeededYet,
}

/// Why a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// It was removed, and nobody has its name any more.
    Removed,
    /// Another one has its name now, with another configuration.
    Replaced,
    /// Its supervisor is shutting down, or is gone.
    ShuttingDown,
}

/// Why a server is parked; the failure itself stands in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParkReason {
    /// Trying again without another configuration is pointless.
    Permanent,
    /// Too many attempts in a row never proved healthy.
    Unproven {
        /// How many.
        attempts: u32,
    },
}

impl State {
    /// Whether waiting alone will not change the state soon: it is neither connecting nor backing off.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Backoff { .. } | Self::Connecting { .. } | Self::Draining)
    }

    /// Whether calls go through.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }

    /// The number of the attempt that is under way or comes next, since the server last proved healthy.
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::Backoff { attempt, .. } | Self::Connecting { attempt, .. } => Some(*attempt),
            _ => None,
        }
    }

    /// When the server is tried again by itself, if it waits for that.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::Backoff { until, .. } => Some(*until),
            Self::Parked { next_probe, .. } => Some(*next_probe),
            _ => None,
        }
    }

    /// The name of the state, as it is serialised.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Backoff { .. } => "backoff",
            Self::Connecting { .. } => "connecting",
            Self::Disabled => "disabled",
            Self::Dormant { .. } => "dormant",
            Self::Draining => "draining",
            Self::NeedsAuth => "needs_auth",
            Self::Parked { .. } => "parked",
            Self::Ready { .. } => "ready",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for ParkReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permanent => f.write_str("it cannot start as configured"),
            Self::Unproven { attempts } => write!(f, "{attempts} attempts in a row did not prove healthy"),
        }
    }
}

/// Writes an instant as milliseconds from now; the past is zero.
fn from_now<S: Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    let left = at.saturating_duration_since(Instant::now());
    serializer.serialize_u64(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}
