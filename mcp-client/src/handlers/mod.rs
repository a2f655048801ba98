//! The five operations for an agent: JSON text in, JSON text out, never a crash.
//!
//! ```text
//! call_tool ─┐
//! list_… ────┤ parse ──▶ guarded path ──▶ ServerHandle::call ──▶ render ──▶ JSON
//! read_… ────┤             (here, once)    (checks and sends)
//! get_… ─────┘
//! ```
//!
//! No handler asks whether a server is alive: that is answered inside the call, after the server's
//! gate has been won, by the layer that owns the connection.

mod call_tool;
mod get_prompt;
mod list_prompts;
mod list_resources;
mod read_resource;

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle::ServerHandle;
use mcp_proto::{Paginated, Request};
use mcp_session::{CallOptions, ListLimits, Listed};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::client::Shared;
use crate::outcome::Failure;

/// Longest time limit that a call may ask for.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The five operations, on every server of a client. Clones are cheap.
///
/// Each takes the text of a JSON object and returns the text of a JSON object that can be handed to
/// a model as it is. A failure of any kind is the object that [`Failure`] describes.
///
/// Handlers do not keep the client alive: once it is gone or shuts down, they say so.
#[derive(Debug, Clone)]
pub struct Handlers {
    shared: Arc<Shared>,
}

impl Handlers {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Asks `server` once. The only way from a handler to a server.
    async fn ask<R: Request>(
        &self,
        server: &str,
        request: R,
        limit: TimeLimit,
    ) -> Result<R::Result, Failure> {
        let handle = self.server(server)?;
        handle.call(request, limit.options()).await.map_err(|error| Failure::call(server, &error))
    }

    /// Asks `server` for a whole list; pages belong to one guarded call.
    async fn ask_for_list<R: Paginated>(
        &self,
        server: &str,
        limit: TimeLimit,
    ) -> Result<Listed<R::Item>, Failure> {
        let handle = self.server(server)?;
        handle
            .list::<R>(limit.options(), ListLimits::default())
            .await
            .map_err(|error| Failure::call(server, &error))
    }

    fn server(&self, name: &str) -> Result<ServerHandle, Failure> {
        self.shared.server(name)
    }

    /// Writes what an operation has come to.
    fn finish(&self, outcome: Result<Value, Failure>) -> String {
        let value = outcome.unwrap_or_else(|failure| {
            let failure = failure.redacted(&self.shared.redactor());
            json!(failure)
        });
        value.to_string()
    }
}

/// How long a call may take, from its arguments.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
#[serde(transparent)]
struct TimeLimit {
    milliseconds: Option<u64>,
}

impl TimeLimit {
    fn check(self, server: &str) -> Result<Self, Failure> {
        match self.milliseconds.map(Duration::from_millis) {
            Some(limit) if limit.is_zero() || limit > LONGEST_TIMEOUT => {
                Err(Failure::arguments(Some(server), "\"timeout_ms\" must be from 1 to 604800000"))
            }
            _ => Ok(self),
        }
    }

    fn options(self) -> CallOptions {
        match self.milliseconds {
            Some(limit) => {
                CallOptions::default().with_deadline(Instant::now() + Duration::from_millis(limit))
            }
            None => CallOptions::default(),
        }
    }
}

/// Reads the arguments of a handler.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    // What serde quotes from the text may be a secret of the caller's: only the place is repeated.
    serde_json::from_str(text).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "a member is missing, unknown or of the wrong kind",
            _ => "not valid JSON",
        };
        Failure::arguments(None, format!("{what} (line {}, column {})", error.line(), error.column()))
    })
}

/// Says that a list is not complete.
fn mark_truncated(out: &mut Value, truncated: bool) {
    if let (true, Value::Object(out)) = (truncated, out) {
        out.insert("truncated".to_owned(), Value::Bool(true));
    }
}

/// Adds a text, if it says anything.
fn insert_text(out: &mut Map<String, Value>, key: &str, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        out.insert(key.to_owned(), Value::String(text.to_owned()));
    }
}
