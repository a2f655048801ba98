//! Counters for whoever collects them through the facade `metrics`. Without the feature of that name
//! these functions are empty, and nothing is left of them.
//!
//! Each counter has the label `server`; what it counts besides stands in one further label.

use std::sync::Arc;

#[cfg(feature = "metrics")]
use metrics::{SharedString, counter};

/// A call has ended, like this: `mcp_calls_total{server, outcome}`.
#[cfg(feature = "metrics")]
pub(crate) fn call_ended(server: &Arc<str>, outcome: &'static str) {
    counter!("mcp_calls_total", "server" => name(server), "outcome" => outcome).increment(1);
}

/// A request is sent once more: `mcp_call_repeats_total{server}`.
#[cfg(feature = "metrics")]
pub(crate) fn call_repeated(server: &Arc<str>) {
    counter!("mcp_call_repeats_total", "server" => name(server)).increment(1);
}

/// A server has moved to this state: `mcp_server_moves_total{server, state}`.
#[cfg(feature = "metrics")]
pub(crate) fn moved(server: &Arc<str>, state: &'static str) {
    counter!("mcp_server_moves_total", "server" => name(server), "state" => state).increment(1);
}

#[cfg(feature = "metrics")]
fn name(server: &Arc<str>) -> SharedString {
    SharedString::from(Arc::clone(server))
}

#[cfg(not(feature = "metrics"))]
pub(crate) fn call_ended(_server: &Arc<str>, _outcome: &'static str) {}

#[cfg(not(feature = "metrics"))]
pub(crate) fn call_repeated(_server: &Arc<str>) {}

#[cfg(not(feature = "metrics"))]
pub(crate) fn moved(_server: &Arc<str>, _state: &'static str) {}
