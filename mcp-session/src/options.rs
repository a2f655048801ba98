use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mcp_proto::{
    ClientCapabilities, Implementation, InputAnswers, Progress, RawJson, Redactor, TraceContext, extension,
    meta_key,
};
use serde::Serialize;
use tokio::time::Instant;

use crate::error::MetaError;
use crate::handler::{ClientHandler, HandlerLimits, HandlerRef};
use crate::quota::HandlerQuota;

/// How a session opens and what its limits are.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Who we are; default name and version of this crate.
    pub client_info: Implementation,
    /// What we can do for the server beside what the handler serves; default nothing. The members
    /// `roots`, `sampling` and `elicitation` do not count here: without a
    /// [handler](Self::with_handler) nobody would serve them.
    pub capabilities: ClientCapabilities,
    /// Which vocabulary to speak; default [`EraPolicy::Auto`].
    pub era: EraPolicy,
    /// How long a server may stay silent on the probe before it counts as legacy; default 5 s.
    pub probe_limit: Duration,
    /// How long a call may go without progress; default 60 s.
    pub call_limit: Duration,
    /// How long a call may take whatever it reports; default 300 s.
    pub hard_limit: Duration,
    /// How many calls may wait for an answer at once, at least 1; default 1024, further ones end with
    /// [`CallError::Overloaded`](crate::CallError::Overloaded).
    pub max_pending: usize,
    /// How many log lines may wait to be taken; default 256, 1 MiB in all. The oldest are dropped.
    pub max_events: usize,
    /// Where request ids come from; share one source among the sessions of one server.
    pub ids: IdSource,
    /// Takes secrets out of the errors that the server answers with; default none.
    pub redactor: Option<Arc<Redactor>>,
    /// What the server is called here; default empty. Handlers are told.
    pub server_name: Arc<str>,
    /// How much of the handler the server may use.
    pub handler_limits: HandlerLimits,
    /// Counts what the server has used of the handler; share one among its sessions. Default one of
    /// this session alone, with the `handler_limits`.
    pub handler_quota: Option<HandlerQuota>,
    /// How often a call is sent again with the input that its server asks for; default 10.
    pub max_rounds: u32,
    pub(crate) handler: Option<HandlerRef>,
    /// Whether requests of the modern era say who we are.
    pub(crate) names_client: bool,
    pub(crate) traces: Option<TraceSource>,
}

/// Which vocabulary a session speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EraPolicy {
    /// Whatever the server speaks: it is asked first.
    #[default]
    Auto,
    /// `initialize` at once, without a probe.
    Legacy,
    /// Modern only: a server that does not speak it is an error.
    Modern,
}

/// Counts request ids upwards from 1. Clones share the counter.
#[derive(Debug, Clone)]
pub struct IdSource(Arc<AtomicI64>);

/// Knows where a call belongs in a distributed trace.
#[derive(Clone)]
pub(crate) struct TraceSource(Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>);

/// What one call may do.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// When the call ends whatever happens; default [`SessionOptions::hard_limit`] from its start.
    pub deadline: Option<Instant>,
    /// How long the call may go without progress. Default [`SessionOptions::call_limit`], or no limit
    /// of its own where a `deadline` is given.
    pub timeout: Option<Duration>,
    /// When the call began, if that was before it reached the session: both limits count from there.
    pub began: Option<Instant>,
    /// Is shown the progress of the call, see [`with_progress`](Self::with_progress).
    pub progress: Option<ProgressHandler>,
    /// Further members of the request's `_meta`.
    pub(crate) meta: Vec<(String, RawJson)>,
    /// Where the call belongs in a distributed trace.
    pub(crate) trace: Option<Box<TraceContext>>,
    pub(crate) rounds: RoundMode,
    /// Whether the caller takes the task that the server may make of the call.
    pub(crate) takes_task: bool,
    /// What the server has asked for in an earlier round.
    pub(crate) answers: Option<Box<InputAnswers>>,
}

/// Who answers when the server asks for input before it goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RoundMode {
    /// The caller.
    ByHand,
    /// The handler of the session.
    #[default]
    ByHandler,
}

/// What becomes of a call that the server makes a task of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TaskMode {
    /// Its caller takes the task.
    ByHand,
    /// The call goes on until the task is over.
    Followed,
    /// It cannot be made one.
    #[default]
    Refused,
}

/// Is shown the progress of a call.
pub type ProgressHandler = Arc<dyn Fn(Progress) + Send + Sync>;

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            client_info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            capabilities: ClientCapabilities::default(),
            era: EraPolicy::Auto,
            probe_limit: Duration::from_secs(5),
            call_limit: Duration::from_secs(60),
            hard_limit: Duration::from_secs(300),
            max_pending: 1024,
            max_events: 256,
            ids: IdSource::default(),
            redactor: None,
            server_name: Arc::from(""),
            handler_limits: HandlerLimits::default(),
            handler_quota: None,
            max_rounds: 10,
            handler: None,
            names_client: true,
            traces: None,
        }
    }
}

impl SessionOptions {
    /// Says who we are.
    #[must_use]
    pub fn with_client_info(mut self, client_info: Implementation) -> Self {
        self.client_info = client_info;
        self
    }

    /// Leaves out who we are wherever a server can do without: in the requests of the modern era.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic: `RequestMetaObject`.
    #[must_use]
    pub fn without_client_info(mut self) -> Self {
        self.names_client = false;
        self
    }

    /// Asks `source` where each call belongs in a distributed trace that does not say so itself, see
    /// [`CallOptions::with_trace`]. It is asked where the call is made: there the current span is known.
    #[must_use]
    pub fn with_traces(mut self, source: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        self.traces = Some(TraceSource(Arc::new(source)));
        self
    }

    /// Says what we can do for the server beside what the handler serves.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Declares the extension tasks: a modern server may answer a call of a tool with a task, which is
    /// followed until it is over, see [`Call`](crate::Call). Default not declared.
    #[must_use]
    pub fn with_tasks(self) -> Self {
        self.with_extension(extension::TASKS)
    }

    /// Declares an extension, without settings, beside those that are declared already. Servers before
    /// 2025-11-25 are not told, and those of that version not of extensions with messages.
    #[must_use]
    pub fn with_extension(mut self, identifier: impl Into<String>) -> Self {
        self.capabilities.extensions.get_or_insert_default().insert(identifier, RawJson::empty_object());
        self
    }

    /// Chooses the vocabulary.
    #[must_use]
    pub fn with_era(mut self, era: EraPolicy) -> Self {
        self.era = era;
        self
    }

    /// Sets how long a server may stay silent on the probe.
    #[must_use]
    pub fn with_probe_limit(mut self, limit: Duration) -> Self {
        self.probe_limit = limit;
        self
    }

    /// Sets how long a call may go without progress.
    #[must_use]
    pub fn with_call_limit(mut self, limit: Duration) -> Self {
        self.call_limit = limit;
        self
    }

    /// Sets how long a call may take whatever it reports.
    #[must_use]
    pub fn with_hard_limit(mut self, limit: Duration) -> Self {
        self.hard_limit = limit;
        self
    }

    /// Sets how many calls may wait for an answer at once.
    #[must_use]
    pub fn with_max_pending(mut self, calls: usize) -> Self {
        self.max_pending = calls;
        self
    }

    /// Sets how many log lines may wait to be taken.
    #[must_use]
    pub fn with_max_events(mut self, events: usize) -> Self {
        self.max_events = events;
        self
    }

    /// Takes secrets out of the errors that the server answers with, before they are shown or logged.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.redactor = Some(redactor);
        self
    }

    /// Serves what the server asks of its client; what the handler serves is declared to the server.
    #[must_use]
    pub fn with_handler(mut self, handler: Arc<dyn ClientHandler>) -> Self {
        self.handler = Some(HandlerRef(handler));
        self
    }

    /// Whether the options name a handler.
    #[must_use]
    pub fn has_handler(&self) -> bool {
        self.handler.is_some()
    }

    /// Sets how much of the handler the server may use.
    #[must_use]
    pub fn with_handler_limits(mut self, limits: HandlerLimits) -> Self {
        self.handler_limits = limits;
        self
    }

    /// Shares what the server has used of the handler with its other sessions.
    #[must_use]
    pub fn with_handler_quota(mut self, quota: HandlerQuota) -> Self {
        self.handler_quota = Some(quota);
        self
    }

    /// Sets how often a call is sent again with the input that its server asks for.
    #[must_use]
    pub fn with_max_rounds(mut self, rounds: u32) -> Self {
        self.max_rounds = rounds;
        self
    }

    /// Sets what the server is called here.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.server_name = name.into();
        self
    }

    /// Declares what the handler serves, and nothing that nobody would.
    pub(crate) fn declare_what_is_served(&mut self) {
        let served = self.handler.as_ref().map(|handler| handler.0.capabilities()).unwrap_or_default();
        self.capabilities.elicitation = served.elicitation;
        self.capabilities.roots = served.roots;
        self.capabilities.sampling = served.sampling;
    }

    /// Shares a source of request ids.
    #[must_use]
    pub fn with_ids(mut self, ids: IdSource) -> Self {
        self.ids = ids;
        self
    }
}

impl TraceSource {
    /// Where a call belongs that is made now, if anywhere.
    pub(crate) fn current(&self) -> Option<TraceContext> {
        (self.0)()
    }
}

impl fmt::Debug for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSource").finish_non_exhaustive()
    }
}

impl IdSource {
    /// Takes the next id.
    pub(crate) fn next(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The id that comes next.
    pub(crate) fn upcoming(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for IdSource {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(1)))
    }
}

impl CallOptions {
    /// Ends the call at `deadline` whatever happens.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Ends the call after `timeout` without progress.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Counts the limits of the call from `began`, for a call that has waited for its session.
    ///
    /// Progress starts the whole `timeout` anew, from the moment it comes.
    #[must_use]
    pub fn with_began(mut self, began: Instant) -> Self {
        self.began = Some(began);
        self
    }

    /// Asks for progress and shows it to `handler`, at most 20 times a second, the newest each time.
    ///
    /// The handler runs inside the caller's own poll of the call: a slow one delays only this call,
    /// and a panic in it is the caller's. Progress also starts the call's `timeout` anew. That of a task
    /// which the call has begun goes on after the call, see [`TaskHandle`](crate::TaskHandle).
    #[must_use]
    pub fn with_progress(mut self, handler: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(handler));
        self
    }

    /// Ends the call with [`CallError::InputRequired`](crate::CallError::InputRequired) when the server
    /// asks for input, instead of asking the handler of the session.
    #[must_use]
    pub fn with_rounds_by_hand(mut self) -> Self {
        self.rounds = RoundMode::ByHand;
        self
    }

    /// Answers what the server has asked for when the same request was made before: make the call with
    /// the very same parameters, on the same server. Modern era only.
    #[must_use]
    pub fn with_answers(mut self, answers: InputAnswers) -> Self {
        self.answers = Some(Box::new(answers));
        self
    }

    /// Says where the call belongs in a distributed trace, whatever
    /// [`SessionOptions::with_traces`] would say.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic: `_meta` (SEP-414); harmless in every version.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(Box::new(trace));
        self
    }

    /// Adds a member to the request's `_meta`.
    ///
    /// # Errors
    ///
    /// The key belongs to the protocol (that of a trace too, see [`with_trace`](Self::with_trace)) or was
    /// added before, or `value` has no JSON form.
    ///
    /// # Source
    ///
    /// MCP 2025-06-18 and later, basic: prefixes whose second label is `modelcontextprotocol` or
    /// `mcp` are reserved.
    pub fn with_meta<T: Serialize + ?Sized>(
        mut self,
        key: impl Into<String>,
        value: &T,
    ) -> Result<Self, MetaError> {
        let key = key.into();
        if is_reserved(&key) {
            return Err(MetaError::Reserved(key));
        }
        if self.meta.iter().any(|(present, _)| *present == key) {
            return Err(MetaError::Repeated(key));
        }
        self.meta.push((key, RawJson::encode(value)?));
        Ok(self)
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("deadline", &self.deadline)
            .field("timeout", &self.timeout)
            .field("began", &self.began)
            .field("progress", &self.progress.is_some())
            .field("trace", &self.trace)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}

fn is_reserved(key: &str) -> bool {
    meta_key::is_reserved(key) || key == meta_key::PROGRESS_TOKEN || is_of_trace(key)
}

/// Whether a member of `_meta` says where a call belongs in a trace.
pub(crate) fn is_of_trace(key: &str) -> bool {
    [meta_key::BAGGAGE, meta_key::TRACEPARENT, meta_key::TRACESTATE].contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_protocol_are_refused() {
        for key in ["progressToken", "io.modelcontextprotocol/x", "com.mcp.tools/y", "traceparent", "baggage"]
        {
            let refused = CallOptions::default().with_meta(key, &1).unwrap_err();
            assert_eq!(refused, MetaError::Reserved(key.to_owned()));
        }
        let options = CallOptions::default().with_meta("example.com/mcp", &1).unwrap();
        assert_eq!(
            options.with_meta("example.com/mcp", &2).unwrap_err(),
            MetaError::Repeated("example.com/mcp".to_owned())
        );
    }
}
