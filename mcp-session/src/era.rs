use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mcp_proto::tasks::{CreateTaskResult, Task};
use mcp_proto::{
    Cancelled, ClientCapabilities, DecodeError, Entries, Era, ErrorMeaning, Frame, InputRequired, LogLevel,
    Message, MetaMembers, Method, Notification, Payload, PeerInfo, ProtocolVersion, RawJson, RequestId,
    ResultType, SubscriptionFilter, encode_header_value, encode_notification, extension, meta_key,
    parse_frame,
};
use mcp_transport::{MirroredHeader, Outbound, Streams};
use serde::Deserialize;

use crate::error::{CallError, ProtocolFault, UnsupportedWhy};
use crate::options::TaskMode;
use crate::tool_headers::ToolHeaders;
use crate::urls::UrlsRequired;

/// What an answer is.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The result of the call.
    Complete(Payload),
    /// The server wants input before it can go on.
    InputRequired(Box<InputRequired>),
    /// The server has made a task of the call.
    Task(Payload, Box<Task>),
}

/// What the handshake has settled: who the peer is, and which of the two vocabularies is spoken.
///
/// What differs in how messages look is known here alone. It is asked when a request is written (`check`,
/// `meta`, `mirrored`), when a result is read (`has_rounds`, `task_mode`, `task_in`, `has_task_progress`,
/// `reply`), when a call is given up (`cancel_notice`) and when a message arrives (`answers_requests`,
/// `has_batches`), and when a subscription is opened (`offered`). Where the eras differ in what is done, who does
/// it asks for the era: probing, log levels, URLs, roots, tasks, and whom a notice is for.
#[derive(Debug)]
pub(crate) struct Agreed {
    peer: Arc<PeerInfo>,
    /// Members that every request carries in `_meta`; none in the legacy era.
    base: MetaMembers,
    /// What every call carries there: the members above, and the progress token.
    plain: MetaMembers,
    /// The same with a log level, once one was asked for.
    leveled: Mutex<Option<MetaMembers>>,
    asks_for_logs: AtomicBool,
    /// What the tools want mirrored; known only where requests have headers.
    tools: ToolHeaders,
    /// Whether both sides have declared the extension tasks.
    has_tasks: bool,
    /// Whether it was said that this server leaves the type out of its results.
    has_told_of_type: AtomicBool,
}

impl Agreed {
    pub(crate) fn legacy(peer: PeerInfo) -> Self {
        Self::modern(peer, MetaMembers::new(), &ClientCapabilities::default())
    }

    pub(crate) fn modern(peer: PeerInfo, base: MetaMembers, declared: &ClientCapabilities) -> Self {
        let plain = base.clone().with_progress();
        let is_declared = |extensions: &Entries<_>| extensions.get(extension::TASKS).is_some();
        let has_tasks = declared.extensions.as_ref().is_some_and(is_declared)
            && peer.capabilities.has_extension(extension::TASKS);
        Self {
            peer: Arc::new(peer),
            base,
            plain,
            leveled: Mutex::default(),
            asks_for_logs: AtomicBool::new(false),
            tools: ToolHeaders::default(),
            has_tasks,
            has_told_of_type: AtomicBool::new(false),
        }
    }

    pub(crate) fn peer(&self) -> &Arc<PeerInfo> {
        &self.peer
    }

    pub(crate) fn tools(&self) -> &ToolHeaders {
        &self.tools
    }

    /// Refuses a request that this server cannot understand or has not offered to serve.
    pub(crate) fn check(&self, method: &Method) -> Result<(), CallError> {
        let refuse = |why| Err(CallError::Unsupported { method: method.clone(), why });
        if !method.is_sendable(self.peer.era) {
            return refuse(UnsupportedWhy::Era);
        }
        if !self.peer.capabilities.allow(method, self.peer.version) {
            return refuse(UnsupportedWhy::Capability);
        }
        Ok(())
    }

    /// The `_meta` of one call; made anew only if it differs from that of all others.
    pub(crate) fn meta(&self, own: &[(String, RawJson)]) -> Result<Cow<'_, MetaMembers>, DecodeError> {
        let mut meta = self.common();
        for (key, value) in own {
            meta.to_mut().push(key, value)?;
        }
        Ok(meta)
    }

    /// The members of `_meta` that every call carries, whatever its caller wants to put there.
    pub(crate) fn meta_names(&self) -> Vec<String> {
        self.common().names()
    }

    /// What every request carries in `_meta`, without what is a call's alone.
    pub(crate) fn base(&self) -> &MetaMembers {
        &self.base
    }

    /// The part of `wanted` that the server has declared; an error if that is nothing.
    pub(crate) fn offered(&self, mut wanted: SubscriptionFilter) -> Result<SubscriptionFilter, CallError> {
        let is_asked = !wanted.is_empty();
        let method = match self.peer.era {
            Era::Modern => Method::SUBSCRIPTIONS_LISTEN,
            Era::Legacy if !wanted.resource_subscriptions.is_empty() => Method::RESOURCES_SUBSCRIBE,
            Era::Legacy if wanted.tools_list_changed => Method::TOOLS_LIST_CHANGED,
            Era::Legacy if wanted.prompts_list_changed => Method::PROMPTS_LIST_CHANGED,
            Era::Legacy if wanted.resources_list_changed => Method::RESOURCES_LIST_CHANGED,
            Era::Legacy => Method::TASKS_CHANGED,
        };
        let declared = &self.peer.capabilities;
        let resources = declared.resources.as_ref();
        wanted.tools_list_changed &= declared.tools.as_ref().is_some_and(|tools| tools.list_changed);
        wanted.prompts_list_changed &= declared.prompts.as_ref().is_some_and(|prompts| prompts.list_changed);
        wanted.resources_list_changed &= resources.is_some_and(|resources| resources.list_changed);
        if !resources.is_some_and(|resources| resources.subscribe) {
            wanted.resource_subscriptions.clear();
        }
        if !self.has_tasks {
            wanted.task_ids.clear();
        }
        if is_asked && wanted.is_empty() {
            return Err(CallError::Unsupported { method, why: UnsupportedWhy::Capability });
        }
        Ok(wanted)
    }

    /// Has every call from now on ask for log lines of `level` and graver, where each request says so
    /// itself.
    pub(crate) fn ask_for_logs(&self, level: &LogLevel) -> Result<(), CallError> {
        let method = Method::LOGGING_SET_LEVEL;
        if !self.peer.capabilities.allow(&method, self.peer.version) {
            return Err(CallError::Unsupported { method, why: UnsupportedWhy::Capability });
        }
        let mut meta = self.base.clone();
        meta.push(meta_key::LOG_LEVEL, level).map_err(CallError::Encode)?;
        *self.leveled() = Some(meta.with_progress());
        self.asks_for_logs.store(true, Ordering::Release);
        Ok(())
    }

    /// What every call carries; most servers are never asked for logs, and cost no lock.
    fn common(&self) -> Cow<'_, MetaMembers> {
        let leveled = || self.leveled().clone();
        let leveled = if self.asks_for_logs.load(Ordering::Acquire) { leveled() } else { None };
        leveled.map_or(Cow::Borrowed(&self.plain), Cow::Owned)
    }

    fn leveled(&self) -> MutexGuard<'_, Option<MetaMembers>> {
        self.leveled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The headers that mirror a request, where the era and the transport have such: its method, what
    /// it names, and the arguments that the tool wants to have mirrored.
    pub(crate) fn mirrored(
        &self,
        streams: Streams,
        method: &Method,
        name: Option<&str>,
        frame: &Bytes,
    ) -> Result<Vec<MirroredHeader>, CallError> {
        if !self.mirrors(streams) {
            return Ok(Vec::new());
        }
        let mut headers = vec![mirror("Mcp-Method", method.as_str())];
        headers.extend(name.map(|name| mirror("Mcp-Name", &encode_header_value(name))));
        if let (Some(name), true) = (name, *method == Method::TOOLS_CALL) {
            headers.extend(self.tools.mirrored(name, frame)?);
        }
        Ok(headers)
    }

    /// The headers that mirror a request of which there is nothing but its frame.
    pub(crate) fn mirrored_again(
        &self,
        streams: Streams,
        method: &Method,
        frame: &Bytes,
    ) -> Result<Vec<MirroredHeader>, CallError> {
        if !self.mirrors(streams) {
            return Ok(Vec::new());
        }
        let name = match parse_frame(frame) {
            Ok(Frame::Single(Message::Request { params, .. })) => self.raw_name(streams, method, &params),
            _ => None,
        };
        self.mirrored(streams, method, name.as_deref(), frame)
    }

    /// What `Mcp-Name` mirrors of parameters that are not typed.
    pub(crate) fn raw_name(&self, streams: Streams, method: &Method, params: &Payload) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Named {
            name: Option<String>,
            task_id: Option<String>,
            uri: Option<String>,
        }
        let member = method.mirrored_member().filter(|_| self.mirrors(streams))?;
        let named: Named = params.decode().ok()?;
        match member {
            "name" => named.name,
            "taskId" => named.task_id,
            "uri" => named.uri,
            _ => None,
        }
    }

    /// Whether the era and the transport have headers that mirror a request.
    pub(crate) fn mirrors(&self, streams: Streams) -> bool {
        self.peer.era == Era::Modern && streams == Streams::PerRequest
    }

    /// Whether a call of `method` may be answered with a wish for input.
    pub(crate) fn has_rounds(&self, method: &Method) -> bool {
        self.peer.era == Era::Modern
            && [Method::TOOLS_CALL, Method::PROMPTS_GET, Method::RESOURCES_READ].contains(method)
    }

    /// What may become of a call of `method`; by hand, if its caller takes the task.
    pub(crate) fn task_mode(&self, method: &Method, is_by_hand: bool) -> TaskMode {
        let is_modern = self.has_tasks && *method == Method::TOOLS_CALL;
        match (is_modern, is_by_hand) {
            (true, false) => TaskMode::Followed,
            (true, true) => TaskMode::ByHand,
            (false, true) if self.has_legacy_tasks() && *method == Method::TOOLS_CALL => TaskMode::ByHand,
            (false, _) => TaskMode::Refused,
        }
    }

    /// Whether a legacy server makes tasks of the calls that ask for one.
    pub(crate) fn has_legacy_tasks(&self) -> bool {
        #[derive(Deserialize)]
        struct Requests {
            tools: Option<Tools>,
        }
        #[derive(Deserialize)]
        struct Tools {
            call: Option<RawJson>,
        }
        let requests = self.peer.capabilities.tasks.as_ref().and_then(|tasks| tasks.requests.as_ref());
        let requests: Option<Requests> = requests.and_then(|requests| requests.decode().ok());
        self.peer.version == ProtocolVersion::V2025_11_25
            && requests.and_then(|requests| requests.tools?.call).is_some()
    }

    /// Whether a task goes on making progress, under the token of the request that has become it.
    pub(crate) fn has_task_progress(&self) -> bool {
        self.peer.era == Era::Legacy
    }

    /// The task that a result is, if it is one.
    pub(crate) fn task_in(&self, result: &Payload) -> Option<Task> {
        match self.peer.era {
            Era::Legacy => result.decode::<CreateTaskResult>().ok().map(|created| created.task),
            Era::Modern if ResultType::of(result) == Ok(ResultType::Task) => Task::of_created(result).ok(),
            Era::Modern => None,
        }
    }

    /// Reads an error of the server that has a meaning for every call.
    pub(crate) fn read_error(&self, error: CallError) -> CallError {
        let CallError::Peer(error) = error else { return error };
        match error.meaning(self.peer.version) {
            ErrorMeaning::UrlElicitationRequired(required) => {
                CallError::UrlsRequired(Box::new(UrlsRequired::new(required)))
            }
            _ => CallError::Peer(error),
        }
    }

    /// Tells what kind of answer a result is; a list of tools comes without those that cannot be called
    /// over HTTP.
    pub(crate) fn reply(
        &self,
        streams: Streams,
        method: &Method,
        result: Payload,
    ) -> Result<Reply, CallError> {
        if self.peer.era == Era::Legacy {
            return Ok(Reply::Complete(result));
        }
        let stated = ResultType::stated(&result);
        if stated == Ok(None) && !self.has_told_of_type.swap(true, Ordering::Relaxed) {
            tracing::warn!(%method, "the server leaves out of its results what type they have; they count as complete");
        }
        match stated.map(|stated| stated.unwrap_or(ResultType::Complete)) {
            Ok(ResultType::Complete) if *method == Method::TOOLS_LIST && self.mirrors(streams) => {
                Ok(Reply::Complete(self.tools.learn(result, &self.peer.server.name)))
            }
            Ok(ResultType::Complete) => Ok(Reply::Complete(result)),
            Ok(ResultType::InputRequired) if self.has_rounds(method) => InputRequired::read(&result)
                .map(|required| Reply::InputRequired(Box::new(required)))
                .map_err(|error| CallError::Protocol(ProtocolFault::Result(error))),
            Ok(ResultType::Task) if self.task_mode(method, false) == TaskMode::Followed => {
                Task::of_created(&result)
                    .map(|task| Reply::Task(result, Box::new(task)))
                    .map_err(|error| CallError::Protocol(ProtocolFault::Result(error)))
            }
            Ok(other) => {
                let name = mcp_proto::escape(other.as_str(), 128).into_owned();
                Err(CallError::Protocol(ProtocolFault::ResultType(name)))
            }
            Err(error) => Err(CallError::Protocol(ProtocolFault::Result(error))),
        }
    }

    /// How the server is told that a request was given up; `None` where ending the request's own
    /// stream says it.
    pub(crate) fn cancel_notice(&self, streams: Streams, id: &RequestId, reason: &str) -> Option<Outbound> {
        if self.peer.era == Era::Modern && streams == Streams::PerRequest {
            return None;
        }
        notice(&Cancelled::new(id.clone()).with_reason(reason)).map(Outbound::notification).ok()
    }

    /// Whether requests of the server get an answer. A modern server may not send any.
    pub(crate) fn answers_requests(&self) -> bool {
        self.peer.era == Era::Legacy
    }

    /// Whether messages may come in arrays.
    pub(crate) fn has_batches(&self) -> bool {
        self.peer.version.has_batches()
    }
}

/// The headers of a discovery, which is sent before anything is agreed on.
pub(crate) fn mirrored_discovery(streams: Streams, version: ProtocolVersion) -> Vec<MirroredHeader> {
    match streams {
        Streams::Shared => Vec::new(),
        Streams::PerRequest => vec![
            mirror("MCP-Protocol-Version", version.as_str()),
            mirror("Mcp-Method", Method::DISCOVER.as_str()),
        ],
    }
}

fn mirror(name: &'static str, value: &str) -> MirroredHeader {
    MirroredHeader { name: Cow::Borrowed(name), value: value.to_owned() }
}

/// Writes a notification that carries no metadata.
pub(crate) fn notice<N: Notification>(notification: &N) -> Result<Bytes, DecodeError> {
    encode_notification(&N::METHOD, notification, &MetaMembers::new())
}
