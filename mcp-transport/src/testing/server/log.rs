use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::RequestId;
use serde_json::Value;

/// What the servers of one script have seen, over all their connections. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ServerLog {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    messages: BTreeMap<String, usize>,
    executions: Vec<Execution>,
    cancelled: Vec<(usize, RequestId)>,
    violations: Vec<String>,
}

/// One run of a tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Execution {
    /// The connection it came over, from 0.
    pub connection: usize,
    /// The id of the call.
    pub id: RequestId,
    /// The tool.
    pub tool: String,
    /// What it was called with.
    pub arguments: Value,
}

impl ServerLog {
    /// How many connections were opened.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.lock().connections
    }

    /// How many requests or notifications with this method have arrived.
    #[must_use]
    pub fn count(&self, method: &str) -> usize {
        self.lock().messages.get(method).copied().unwrap_or(0)
    }

    /// Every run of every tool, in order; a run counts when it begins.
    #[must_use]
    pub fn executions(&self) -> Vec<Execution> {
        self.lock().executions.clone()
    }

    /// How often a tool was run.
    #[must_use]
    pub fn runs(&self, tool: &str) -> usize {
        self.lock().executions.iter().filter(|execution| execution.tool == tool).count()
    }

    /// Every request that was cancelled by a notice, with its connection; also finished and unknown ones.
    #[must_use]
    pub fn cancelled(&self) -> Vec<(usize, RequestId)> {
        self.lock().cancelled.clone()
    }

    /// What the client has done against the protocol; a test of a client expects none.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    pub(super) fn open(&self) -> usize {
        let mut seen = self.lock();
        seen.connections += 1;
        seen.connections - 1
    }

    pub(super) fn message(&self, method: &str) {
        *self.lock().messages.entry(method.to_owned()).or_default() += 1;
    }

    pub(super) fn execution(&self, execution: Execution) {
        self.lock().executions.push(execution);
    }

    pub(super) fn cancel(&self, connection: usize, id: RequestId) {
        self.lock().cancelled.push((connection, id));
    }

    pub(super) fn violation(&self, connection: usize, what: &str) {
        self.lock().violations.push(format!("connection {connection}: {what}"));
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
