use std::sync::Arc;

use mcp_session::Counters;
use serde::{Serialize, Serializer};
use tokio::time::Instant;

use crate::breaker::BreakerState;
use crate::call_counters::CallCounters;
use crate::failure::Failure;
use crate::state::{EndReason, State};

/// What is known of a server at one instant.
///
/// In serialised form instants are milliseconds: from now until then for what is to come, from then
/// until now for `last_ok`.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Where it stands.
    #[serde(flatten)]
    pub state: State,
    /// The newest connection that was begun; 0 before the first.
    #[serde(rename = "last_generation")]
    pub generation: u64,
    /// Why it ends: set while it is [`Draining`](State::Draining) and when it has
    /// [`Stopped`](State::Stopped).
    pub end: Option<EndReason>,
    /// Ready, but what the server would tell unasked does not arrive: the stream for that has ended, was
    /// given up or refused. Calls work as ever; lists may be out of date. Ends when the stream is back.
    pub degraded: bool,
    /// Calls that hold a slot.
    pub in_flight: usize,
    /// Calls that wait: for a connection or for a slot.
    pub waiting: usize,
    /// Whether calls are let through.
    pub breaker: BreakerState,
    /// Whether it was ever ready.
    pub ever_ready: bool,
    /// Connections that were ready and broke.
    pub losses: u64,
    /// What failed last; stays when the server recovers.
    #[serde(serialize_with = "as_text")]
    pub last_error: Option<Arc<Failure>>,
    /// When a call last succeeded.
    #[serde(rename = "last_ok_ms", serialize_with = "since")]
    pub last_ok: Option<Instant>,
    /// What became of its calls.
    pub calls: CallCounters,
    /// What arrived, and what of it was not as it should be, over all connections that were ready.
    pub received: Counters,
}

fn as_text<S: Serializer>(failure: &Option<Arc<Failure>>, serializer: S) -> Result<S::Ok, S::Error> {
    match failure {
        Some(failure) => serializer.collect_str(failure),
        None => serializer.serialize_none(),
    }
}

fn since<S: Serializer>(at: &Option<Instant>, serializer: S) -> Result<S::Ok, S::Error> {
    let elapsed = at.map(|at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX));
    elapsed.serialize(serializer)
}
