use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_proto::{
    DecodeError, Discover, Era, ListTools, LogLevel, MetaMembers, Method, Paginated, Payload, PeerInfo, Ping,
    ProtocolVersion, RejectedTool, Request, RequestId, SetLogLevel, code, encode_request, for_version,
};
use mcp_transport::{CloseReason, CloseReport, Closed};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::call::{Call, Keeper, RawCall};
use crate::counters::Counters;
use crate::depth;
use crate::era::Agreed;
use crate::error::{CallError, ProtocolFault, UnsupportedWhy};
use crate::gate::Permit;
use crate::inbox::SessionEvent;
use crate::list::{ListLimits, Listed};
use crate::options::{CallOptions, SessionOptions, TaskMode, TraceSource, is_of_trace};
use crate::pending::{Patience, later};
use crate::progress::ProgressLane;
use crate::raw_params::RawParams;
use crate::rounds::{Rounds, Urls};
use crate::service::Service;
use crate::shared::{Entry, Farewell, Shared};
use crate::start::{Pass, Start};
use crate::tool_headers::ToolHeaders;

/// One connection to one server, open and agreed on: a cheap handle, shared by cloning.
///
/// Made by [`Opening::handshake`](crate::Opening::handshake). Ends with its connection, by
/// [`close`](Self::close), or when the last handle is dropped; it never reconnects.
#[derive(Debug, Clone)]
pub struct Session(Arc<Live>);

/// What all handles of a session share: one count of them, as every call takes one.
#[derive(Debug)]
struct Live {
    handle: Arc<Handle>,
    agreed: Arc<Agreed>,
}

/// Keeps a session open. Calls in progress hold it too, so that a call outlives a dropped session.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    call_limit: Duration,
    hard_limit: Duration,
    pub(crate) max_rounds: u32,
    traces: Option<TraceSource>,
    /// The server has said that it does not know `ping`.
    lacks_ping: AtomicBool,
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>, options: &SessionOptions) -> Self {
        Self {
            shared,
            call_limit: options.call_limit,
            hard_limit: options.hard_limit,
            max_rounds: options.max_rounds,
            traces: options.traces.clone(),
            lacks_ping: AtomicBool::new(false),
        }
    }

    /// Makes the limits of one list explicit: the whole must end by the deadline, each page by its
    /// own time-out.
    pub(crate) fn for_whole_list(&self, mut options: CallOptions) -> CallOptions {
        if options.deadline.is_none() {
            options.timeout.get_or_insert(self.call_limit);
            let began = options.began.unwrap_or_else(Instant::now);
            options.deadline = Some(later(began, self.hard_limit));
        }
        options
    }

    pub(crate) fn patience(&self, started: Instant, options: &CallOptions) -> Patience {
        let hard_end = options.deadline.unwrap_or_else(|| later(started, self.hard_limit));
        let soft = options.timeout.unwrap_or_else(|| match options.deadline {
            Some(deadline) => deadline.saturating_duration_since(started),
            None => self.call_limit,
        });
        Patience::new(started, soft, hard_end)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Session {
    pub(crate) fn new(handle: Arc<Handle>, agreed: Arc<Agreed>) -> Self {
        Self(Arc::new(Live { handle, agreed }))
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.0.handle
    }

    /// The server at the other end, as it introduced itself.
    #[must_use]
    pub fn peer(&self) -> &PeerInfo {
        self.0.agreed.peer()
    }

    /// The same, to be kept longer than the session.
    #[must_use]
    pub fn shared_peer(&self) -> Arc<PeerInfo> {
        Arc::clone(self.0.agreed.peer())
    }

    /// Makes a call and decodes its result.
    ///
    /// One request is written, without what the agreed version lacks of it
    /// ([`for_version`]); answers may arrive in any order. The time of the call begins now:
    /// `timeout` is how long it may go without progress, `deadline` ends it in any case; see
    /// [`CallOptions`]. Calls made here pass by every [`Gate`](crate::Gate).
    ///
    /// # Errors
    ///
    /// - [`CallError::Unsupported`]: the server has not declared that capability, or its version does
    ///   not have that method or a part of the request that cannot be left out; nothing was sent.
    /// - [`CallError::Timeout`]: no answer in time; the request has been cancelled.
    /// - [`CallError::SessionGone`]: the session ended before or during the call.
    /// - [`CallError::Peer`]: the server answered with an error; the session stays usable.
    /// - others: see [`CallError`]. [`CallError::outcome`] tells what is known of the server's side.
    ///
    /// # Cancel safety
    ///
    /// See [`Call`].
    ///
    /// # Source
    ///
    /// JSON-RPC 2.0, sections 4 and 5; MCP 2026-07-28, basic/patterns/cancellation.
    pub fn call<R: Request>(&self, request: R, options: CallOptions) -> Call<R> {
        self.clone().start_typed(&request, options, Pass::Session)
    }

    /// Makes a call whose parameters and result stay undecoded; `params` must be an object.
    ///
    /// They may have a `_meta`: its members are sent beside those that the session writes, or that `options`
    /// bring, which count where both have the same name; so the progress token is always our own. Where the
    /// call may have rounds, `inputResponses` and `requestState` are those of
    /// [`CallOptions::with_answers`], if there are none in `options`.
    ///
    /// Otherwise the same as [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call), and [`CallError::Encode`] if one of these members is no object.
    pub fn call_raw(&self, method: Method, params: Payload, options: CallOptions) -> RawCall {
        self.clone().start_raw(method, &params, options, Pass::Session)
    }

    /// Fetches all pages of a list.
    ///
    /// A cursor is opaque: neither an empty nor a repeated one ends the list. It ends with a page
    /// without a cursor, or with a page after a repeated cursor that brings nothing new. At a limit,
    /// or when the time is up after at least one page, the entries so far are returned and
    /// [`Listed::truncated`] says why. `options.deadline` holds for the list as a whole,
    /// `options.timeout` for each page.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call); any error but a time-out loses the pages fetched before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the page that is being fetched.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/utilities/pagination.
    pub async fn list<R: Paginated>(
        &self,
        options: CallOptions,
        limits: ListLimits,
    ) -> Result<Listed<R::Item>, CallError> {
        crate::list::fetch::<R>(self, None, options, limits).await
    }

    /// Asks whether the server still answers: `ping`, or `server/discover` in the modern era.
    ///
    /// A server that does not know `ping` has answered as well. It is asked for the first page of its tools
    /// from then on, if it has declared any: that it knows.
    ///
    /// An error from the server is an answer too, so a server without `ping` counts as alive, and so does
    /// one that refuses it with an HTTP status below 500 or wants a wider scope for it, or that answers with
    /// something that is no result.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call), but never [`CallError::Peer`]. [`CallError::Http`] means that the
    /// server fails (500 and above), or that it wants other credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the probe.
    pub async fn probe(&self, by: Instant) -> Result<(), CallError> {
        let options = CallOptions::default().with_deadline(by);
        let answer = match self.peer().era {
            Era::Legacy if self.0.handle.lacks_ping.load(Ordering::Relaxed) => {
                self.call(ListTools::default(), options).await.map(drop)
            }
            Era::Legacy => self.call(Ping::default(), options).await.map(drop),
            Era::Modern => self.call(Discover::default(), options).await.map(drop),
        };
        match answer {
            Ok(()) => Ok(()),
            Err(CallError::Peer(error)) => {
                let has_tools = self.peer().capabilities.tools.is_some();
                if error.code == code::METHOD_NOT_FOUND && has_tools {
                    self.0.handle.lacks_ping.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(CallError::Protocol(ProtocolFault::Result(_) | ProtocolFault::ResultType(_))) => Ok(()),
            Err(CallError::Http(rejection))
                if rejection.status < 500
                    && (rejection.wants_wider_scope() || !rejection.wants_authorization()) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the server for log lines of `level` and graver, which then come as
    /// [`SessionEvent::Log`].
    ///
    /// A legacy server is told at once and may log at any time. A modern one is told with every call
    /// made from now on, and logs about that call alone; nothing is sent by this itself.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call). After an error nothing has changed in the modern era; in the legacy
    /// era see [`CallError::outcome`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request of the legacy era.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25 and 2026-07-28, server/utilities/logging.
    pub async fn set_log_level(&self, level: LogLevel, options: CallOptions) -> Result<(), CallError> {
        match self.peer().era {
            Era::Legacy => self.call(SetLogLevel::new(level), options).await.map(drop),
            Era::Modern => self.0.agreed.ask_for_logs(&level),
        }
    }

    /// The next thing the server told unasked, in order; `None` once the session has ended and
    /// everything was taken.
    ///
    /// Events wait in one bounded queue; each is taken by one caller.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next_event(&self) -> Option<SessionEvent> {
        self.0.handle.shared.inbox.next().await
    }

    /// Waits for the end of the session and tells how it ended.
    ///
    /// May be awaited by many, also after the end. When it completes, every call has ended.
    pub fn closed(&self) -> impl Future<Output = Closed> + Send + 'static {
        // The driver tells its end also if it is dropped, so that nobody waits for ever.
        let ending = Arc::clone(&self.0.handle.shared.ending);
        async move { ending.wait().await }
    }

    /// Has the driver give back the memory that is kept for the next calls, unless one waits for an answer.
    ///
    /// A session does that by itself when the time that its last call could have taken is over. Ask for it
    /// where it is known before that nothing follows for now, as when a server has told what it offers.
    pub fn trim(&self) {
        self.0.handle.shared.rest();
    }

    /// Whether calls are taken. A `true` may be stale at once: a call tells for certain.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.handle.shared.table().closed().is_none()
    }

    /// Closes the session: refuses new calls, cancels and ends the waiting ones with
    /// [`CallError::SessionGone`], then closes the transport.
    ///
    /// Returns no later than `by`. The driver must go on running meanwhile. May be called again and by
    /// many; the transport gives all the same report.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not reopen anything; the transport goes on closing.
    pub async fn close(&self, by: Instant) -> CloseReport {
        self.0.handle.shared.shut(Closed::new(CloseReason::Local, ""), Farewell::Told);
        self.0.handle.shared.transport.close(by).await
    }

    /// Calls that wait for an answer.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.handle.shared.table().count(Entry::is_call)
    }

    /// Subscriptions that are open or being opened.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        let asked = self.0.handle.shared.table().count(Entry::is_subscription);
        asked + self.0.handle.shared.unsolicited.members()
    }

    /// What was not as it should be since the session was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.handle.shared.counters()
    }

    /// Whether requests are mirrored into headers: in the modern era, over HTTP.
    #[must_use]
    pub fn has_headers(&self) -> bool {
        self.0.agreed.mirrors(self.0.handle.shared.transport.streams())
    }

    /// The tools that are left out of `tools/list` and cannot be called, because their definitions ask
    /// for headers in a way that breaks the rules; as far as the lists read so far tell, at most 1000.
    ///
    /// Always empty in the legacy era and where requests have no headers.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/transports/streamable-http: custom headers from tool parameters.
    #[must_use]
    pub fn rejected_tools(&self) -> Vec<RejectedTool> {
        self.0.agreed.tools().rejected()
    }

    pub(crate) fn agreed(&self) -> &Agreed {
        &self.0.agreed
    }

    /// The headers of the tools, for whoever reads their list.
    pub(crate) fn tool_headers(&self) -> &ToolHeaders {
        self.0.agreed.tools()
    }

    /// Refuses calls that come through a gate from now on.
    pub(crate) fn retract(&self) {
        self.0.handle.shared.table().retract();
    }

    /// Makes a call that holds a permit.
    pub(crate) fn call_through<R: Request>(
        self,
        request: &R,
        options: CallOptions,
        permit: Permit,
    ) -> Call<R> {
        self.start_typed(request, options, Pass::Gate(permit))
    }

    /// Whether a person can be asked to open URLs for a call.
    fn urls(&self) -> Urls {
        let service = self.0.handle.shared.service.as_ref();
        let is_served =
            service.is_some_and(Service::serves_urls) && self.peer().version == ProtocolVersion::V2025_11_25;
        if is_served { Urls::Served } else { Urls::Unserved }
    }

    /// Makes a call without what the agreed version lacks of the request.
    fn start_typed<R: Request>(self, request: &R, options: CallOptions, pass: Pass) -> Call<R> {
        Call::new(match for_version(request, self.peer().version) {
            Ok(request) => self.start(R::METHOD, &*request, request.mirrored_name(), options, pass),
            Err(lack) => {
                let why = UnsupportedWhy::Version(lack);
                self.refuse(R::METHOD, CallError::Unsupported { method: R::METHOD, why })
            }
        })
    }

    pub(crate) fn start_raw(
        self,
        method: Method,
        params: &Payload,
        mut options: CallOptions,
        pass: Pass,
    ) -> RawCall {
        let name = self.0.agreed.raw_name(self.0.handle.shared.transport.streams(), &method, params);
        let RawParams { rest, meta, answers } =
            match RawParams::read(params, self.0.agreed.has_rounds(&method)) {
                Ok(read) => read,
                Err(error) => return self.refuse(method, CallError::Encode(error)),
            };
        options.answers = options.answers.or(answers.map(Box::new));
        if !meta.is_empty() {
            let mut written = self.0.agreed.meta_names();
            written.extend(options.meta.iter().map(|(key, _)| key.clone()));
            let is_written =
                |key: &String| written.contains(key) || (options.trace.is_some() && is_of_trace(key));
            options.meta.extend(meta.into_iter().filter(|(key, _)| !is_written(key)));
        }
        // A payload is one JSON value already; as a raw value it is copied into the frame as it is.
        match (rest, serde_json::from_str::<&RawValue>(params.as_str())) {
            (Some(rest), _) => self.start(method, &rest, name.as_deref(), options, pass),
            (None, Ok(params)) => self.start(method, params, name.as_deref(), options, pass),
            (None, Err(_)) => self.start(method, &(), None, options, pass),
        }
    }

    /// A call that ends at once.
    fn refuse(self, method: Method, error: CallError) -> RawCall {
        let id = self.0.handle.shared.ids.next();
        RawCall::new(Keeper::Session(self), id, method, Err(error))
    }

    /// Writes a request; `name` is what the header `Mcp-Name` mirrors, where there is one.
    pub(crate) fn start<P: Serialize + ?Sized>(
        self,
        method: Method,
        params: &P,
        name: Option<&str>,
        options: CallOptions,
        pass: Pass,
    ) -> RawCall {
        let id = self.0.handle.shared.ids.next();
        let start = self.write(id, &method, params, name, options, pass);
        RawCall::new(Keeper::Session(self), id, method, start)
    }

    /// The `_meta` of one call.
    fn meta(&self, options: &CallOptions) -> Result<Cow<'_, MetaMembers>, DecodeError> {
        let meta = self.0.agreed.meta(&options.meta)?;
        let trace = match (&options.trace, &self.0.handle.traces) {
            (Some(trace), _) => meta.with_trace(trace),
            // The parameters of a raw call may name a trace of their own.
            (None, Some(source)) if !options.meta.iter().any(|(key, _)| is_of_trace(key)) => {
                match source.current() {
                    Some(trace) => meta.with_trace(&trace),
                    None => return Ok(meta),
                }
            }
            (None, _) => return Ok(meta),
        };
        trace.map(Cow::Owned)
    }

    fn write<P: Serialize + ?Sized>(
        &self,
        id: i64,
        method: &Method,
        params: &P,
        name: Option<&str>,
        options: CallOptions,
        pass: Pass,
    ) -> Result<Start, CallError> {
        self.0.agreed.check(method)?;
        let has_rounds = self.0.agreed.has_rounds(method);
        if options.answers.is_some() && !has_rounds {
            return Err(CallError::Unsupported { method: method.clone(), why: UnsupportedWhy::Era });
        }
        let started = options.began.unwrap_or_else(Instant::now);
        let patience = self.0.handle.patience(started, &options);
        let request_id = RequestId::from(id);
        let mut frame = self
            .meta(&options)
            .and_then(|meta| encode_request(&request_id, method, params, &meta))
            .map_err(CallError::Encode)?;
        let tasks = self.0.agreed.task_mode(method, options.takes_task);
        let urls = self.urls();
        let rounds = (has_rounds || tasks != TaskMode::Refused || urls == Urls::Served).then(|| {
            let (frame, id) = (frame.clone(), request_id.clone());
            Box::new(Rounds::new(frame, id, options.rounds, tasks, urls, patience))
        });
        if let (Some(rounds), Some(answers)) = (&rounds, &options.answers) {
            frame = rounds.write(method, id, answers)?;
        }
        let progress = options.progress.map(ProgressLane::new);
        let streams = self.0.handle.shared.transport.streams();
        let mirrored = self.0.agreed.mirrored(streams, method, name, &frame)?;
        // Who serves nothing is inside of no handler of its own, as far as it matters here.
        let depth = if self.0.handle.shared.service.is_some() { depth::of_this_call() } else { 0 };
        Ok(Start { frame, mirrored, started, depth, patience, pass, progress, rounds, lane: None })
    }
}
