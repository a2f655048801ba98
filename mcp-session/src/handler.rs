use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_proto::{
    ClientCapabilities, CreateMessage, CreateMessageResult, Elicit, ElicitResult, ErrorObject,
    ListRootsResult,
};

use crate::service::not_served;

/// Serves what a server asks of its client: folders, a model, a person.
///
/// One handler serves both eras and may serve many servers: `asker` tells which one asks. Servers are
/// told of what [`capabilities`](Self::capabilities) names, and nothing else reaches the handler.
///
/// Nothing is spawned. In the legacy era the futures run inside the [`Driver`](crate::Driver), beside
/// reading; in the modern era inside the call that needs the answer. They must not block their thread.
/// A future that takes longer than the [`HandlerLimits`], or whose request is withdrawn, is dropped at
/// an `await`. A panic in it is caught: the server gets an internal error, and the session lives.
///
/// An error goes to a legacy server as it is; of a modern server it ends the call with
/// [`CallError::Input`](crate::CallError::Input).
///
/// # Source
///
/// MCP 2025-11-25 and 2026-07-28, client features.
#[async_trait]
pub trait ClientHandler: Send + Sync {
    /// What this handler serves: its members `roots`, `sampling` and `elicitation` count.
    ///
    /// Asked once for each connection, before its handshake. Default nothing.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// Names the folders that the server may work in. Default an error: not served.
    async fn list_roots(&self, asker: &Asker) -> Result<ListRootsResult, ErrorObject> {
        let _ = asker;
        Err(not_served())
    }

    /// Runs a model for the server. Default an error: not served.
    ///
    /// Let a person see what is asked and what is answered, and refuse either. Tools for the model are
    /// in a request only if [`capabilities`](Self::capabilities) names them too.
    async fn create_message(
        &self,
        asker: &Asker,
        request: CreateMessage,
    ) -> Result<CreateMessageResult, ErrorObject> {
        let _ = (asker, request);
        Err(not_served())
    }

    /// Asks a person on the server's behalf. Default [decline](ElicitResult::decline).
    ///
    /// Say which server asks, and let the person decline. What the server has written is untrusted; a
    /// URL is opened only after the person has seen it whole and agreed. It is one of `http` or `https`:
    /// no other gets here.
    async fn elicit(&self, asker: &Asker, request: Elicit) -> Result<ElicitResult, ErrorObject> {
        let _ = (asker, request);
        Ok(ElicitResult::decline())
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asker {
    /// The name that the server goes by here, see
    /// [`SessionOptions::with_server_name`](crate::SessionOptions::with_server_name). Not what it calls
    /// itself, which is untrusted.
    pub server: Arc<str>,
}

impl Asker {
    /// Names who asks.
    #[must_use]
    pub fn new(server: impl Into<Arc<str>>) -> Self {
        Self { server: server.into() }
    }
}

/// How much of a [`ClientHandler`] one server may use.
///
/// What it has used is counted in its [`HandlerQuota`](crate::HandlerQuota).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerLimits {
    /// Requests that are served at once; default 4, at least 1. A legacy server gets an error for a
    /// further one; a call of the modern era waits. As many more are served that belong to calls which
    /// handlers have made, at each depth of the three that there can be: none waits for the handler around it.
    pub at_once: usize,
    /// How often a model or a person may be asked in any 60 s; default 10. A legacy server gets an
    /// error for a further request; a call of the modern era ends.
    pub per_minute: usize,
    /// How long naming folders or running a model may take; default 30 s, then an error.
    pub time: Duration,
    /// How long a person may take; default 300 s, then the answer is
    /// [cancel](ElicitResult::cancel).
    pub person: Duration,
}

impl Default for HandlerLimits {
    fn default() -> Self {
        Self { at_once: 4, per_minute: 10, time: Duration::from_secs(30), person: Duration::from_secs(300) }
    }
}

impl HandlerLimits {
    /// Sets how many requests are served at once.
    #[must_use]
    pub fn with_at_once(mut self, requests: usize) -> Self {
        self.at_once = requests;
        self
    }

    /// Sets how often a model or a person may be asked in a minute.
    #[must_use]
    pub fn with_per_minute(mut self, requests: usize) -> Self {
        self.per_minute = requests;
        self
    }

    /// Sets how long naming folders or running a model may take.
    #[must_use]
    pub fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Sets how long a person may take.
    #[must_use]
    pub fn with_person(mut self, time: Duration) -> Self {
        self.person = time;
        self
    }
}

/// A handler as an option of a session.
#[derive(Clone)]
pub(crate) struct HandlerRef(pub(crate) Arc<dyn ClientHandler>);

impl fmt::Debug for HandlerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientHandler")
    }
}
