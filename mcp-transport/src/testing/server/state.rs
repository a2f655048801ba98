use std::collections::BTreeMap;

use bytes::Bytes;
use mcp_proto::{ProtocolVersion, RequestId, code};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{ServerEra, ServerLog, ServerScript};
use crate::error::CloseReason;
use crate::testing::behaviour::{Action, Behaviour};
use crate::testing::peer::Received;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The server of one connection: a state machine without I/O, made by [`ServerScript::start`].
///
/// It also judges the client: what is against the protocol goes into [`ServerLog::violations`].
#[derive(Debug)]
pub struct Server {
    pub(super) script: ServerScript,
    pub(super) log: ServerLog,
    pub(super) connection: usize,
    opened: Opened,
    /// Calls without an answer so far: those that wait, and those that hang.
    pub(super) open_calls: BTreeMap<RequestId, Option<(Instant, Value)>>,
    pub(super) counters: Counters,
    pub(super) flood_line: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    No,
    /// `initialize` was answered.
    Answered,
    /// `notifications/initialized` has come.
    Yes,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) calls: u64,
    pub(super) cancelled: u64,
    pub(super) answered: u64,
}

/// A request as far as all methods share it.
pub(super) struct Request<'a> {
    pub(super) id: RequestId,
    method: &'a str,
    pub(super) params: &'a Value,
    is_modern: bool,
}

impl Server {
    pub(super) fn new(script: ServerScript, connection: usize) -> Self {
        let flood = json!({"jsonrpc": "2.0", "method": "notifications/message",
                           "params": {"level": "info", "data": "one of many"}});
        Self {
            log: script.log(),
            script,
            connection,
            opened: Opened::No,
            open_calls: BTreeMap::new(),
            counters: Counters::default(),
            flood_line: flood.to_string().into(),
        }
    }

    /// Takes one message; what is no object is a violation and gets the parse error.
    pub fn on_message(&mut self, message: &Value, now: Instant) -> Vec<Action> {
        let id = message.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => {
                self.log.message(method);
                let params = &message["params"];
                let is_modern = params["_meta"].get(META_VERSION).is_some();
                self.on_request(&Request { id, method, params, is_modern }, now)
            }
            (Some(method), None) => {
                self.log.message(method);
                self.on_notification(method, &message["params"]);
                Vec::new()
            }
            // An answer to a request that nobody here has made.
            (None, Some(_)) if message.get("result").or(message.get("error")).is_some() => Vec::new(),
            (None, _) => {
                self.violation("a frame that is no message");
                vec![Action::Send(json!({"jsonrpc": "2.0", "id": null,
                    "error": {"code": code::PARSE_ERROR, "message": "not a message"}}))]
            }
        }
    }

    fn on_notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" if self.opened == Opened::Answered => self.opened = Opened::Yes,
            "notifications/initialized" => self.violation("initialized without an answered initialize"),
            "notifications/cancelled" => {
                match serde_json::from_value::<RequestId>(params["requestId"].clone()) {
                    Ok(id) => {
                        if self.open_calls.remove(&id).is_some() {
                            self.counters.cancelled += 1;
                        }
                        self.log.cancel(self.connection, id);
                    }
                    Err(_) => self.violation("cancelled without an id"),
                }
            }
            _ => {}
        }
    }

    fn on_request(&mut self, request: &Request<'_>, now: Instant) -> Vec<Action> {
        if let Some(refusal) = self.refuse_era(request) {
            return refusal;
        }
        match request.method {
            "initialize" => vec![self.initialize(request)],
            "server/discover" => vec![self.discover(request)],
            "ping" => vec![self.result(request, json!({}))],
            "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => {
                let page = self.script.page(request.method, request.params["cursor"].as_str());
                vec![self.found(request, page.map(Value::Object), "unknown cursor")]
            }
            "tools/call" => self.call_tool(request, now),
            "resources/read" => {
                let uri = request.params["uri"].as_str().unwrap_or_default();
                vec![self.found(request, self.script.read_resource(uri), "unknown resource")]
            }
            "prompts/get" => {
                let name = request.params["name"].as_str().unwrap_or_default();
                let prompt = self.script.fill_prompt(name, &request.params["arguments"]);
                vec![self.found(request, prompt, "unknown prompt")]
            }
            _ => vec![error(&request.id, code::METHOD_NOT_FOUND, "unknown method")],
        }
    }

    /// What this server answers to a request of the wrong era, or too early.
    fn refuse_era(&mut self, request: &Request<'_>) -> Option<Vec<Action>> {
        let is_opening = request.method == "initialize";
        if self.opened == Opened::No
            && !is_opening
            && let Some(exit) = self.script.crash_before_initialize
        {
            return Some(vec![Action::Close(CloseReason::Exited(exit))]);
        }
        if request.is_modern {
            if self.script.era == ServerEra::Legacy {
                // A legacy server does not look at `_meta`; it only lacks the method, or its handshake.
                return match request.method {
                    "server/discover" => Some(vec![unknown_method(&request.id)]),
                    _ => self.refuse_early(request),
                };
            }
            return self.refuse_modern(request);
        }
        match self.script.era {
            ServerEra::Modern => {
                self.violation(&format!("{} without _meta to a modern server", request.method));
                Some(vec![unsupported_version(&request.id, request.params["protocolVersion"].as_str())])
            }
            ServerEra::Both | ServerEra::Legacy if request.method == "server/discover" => {
                self.violation("server/discover without _meta");
                Some(vec![unknown_method(&request.id)])
            }
            ServerEra::Both | ServerEra::Legacy => self.refuse_early(request),
        }
    }

    fn refuse_modern(&mut self, request: &Request<'_>) -> Option<Vec<Action>> {
        let meta = &request.params["_meta"];
        let version = meta[META_VERSION].as_str();
        if version != Some(ProtocolVersion::NEWEST_MODERN.as_str()) {
            return Some(vec![unsupported_version(&request.id, version)]);
        }
        if matches!(request.method, "initialize" | "ping") {
            self.violation(&format!("{} with _meta of the modern era", request.method));
            return Some(vec![unknown_method(&request.id)]);
        }
        if !meta[META_CAPABILITIES].is_object() {
            self.violation("a modern request without client capabilities");
            return Some(vec![error(&request.id, code::INVALID_PARAMS, "client capabilities are missing")]);
        }
        None
    }

    fn refuse_early(&mut self, request: &Request<'_>) -> Option<Vec<Action>> {
        match (self.opened, request.method) {
            (Opened::No, "initialize") | (_, "ping") | (Opened::Yes, _) => None,
            (_, method) => {
                self.violation(&format!("{method} before the handshake has ended"));
                Some(vec![error(&request.id, code::INVALID_REQUEST, "not initialized")])
            }
        }
    }

    fn initialize(&mut self, request: &Request<'_>) -> Action {
        if self.opened != Opened::No {
            self.violation("initialize twice");
        }
        self.opened = Opened::Answered;
        let asked = request.params["protocolVersion"].as_str().and_then(ProtocolVersion::parse);
        let legacy = asked.filter(|version| version.era() == mcp_proto::Era::Legacy);
        self.result(
            request,
            json!({
                "protocolVersion": legacy.unwrap_or(ProtocolVersion::NEWEST_LEGACY),
                "capabilities": self.script.capabilities(),
                "serverInfo": self.info(),
            }),
        )
    }

    fn discover(&self, request: &Request<'_>) -> Action {
        let mut versions = vec![ProtocolVersion::NEWEST_MODERN];
        if self.script.era == ServerEra::Both {
            versions.push(ProtocolVersion::NEWEST_LEGACY);
        }
        self.result(
            request,
            json!({
                "supportedVersions": versions,
                "capabilities": self.script.capabilities(),
                "_meta": {"io.modelcontextprotocol/serverInfo": self.info()},
            }),
        )
    }

    fn found(&self, request: &Request<'_>, result: Option<Value>, otherwise: &str) -> Action {
        match result {
            Some(result) => self.result(request, result),
            None => error(&request.id, code::INVALID_PARAMS, otherwise),
        }
    }

    pub(super) fn result(&self, request: &Request<'_>, mut result: Value) -> Action {
        if request.is_modern && self.script.era != ServerEra::Legacy {
            let members = result.as_object_mut().expect("every result is an object");
            add_modern_members(members, request.method);
        }
        Action::Send(json!({"jsonrpc": "2.0", "id": request.id, "result": result}))
    }

    fn info(&self) -> Value {
        json!({"name": self.script.name, "version": env!("CARGO_PKG_VERSION")})
    }

    fn violation(&self, what: &str) {
        self.log.violation(self.connection, what);
    }

    fn next_due(&self) -> Option<(Instant, RequestId)> {
        let due = |(id, waits): (&RequestId, &Option<(Instant, Value)>)| {
            waits.as_ref().map(|(at, _)| (*at, id.clone()))
        };
        self.open_calls.iter().filter_map(due).min()
    }
}

impl Behaviour for Server {
    fn on_frame(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        self.on_message(&frame.value, now)
    }

    fn on_deadline(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some((at, id)) = self.next_due()
            && at <= now
        {
            if let Some(Some((_, answer))) = self.open_calls.remove(&id) {
                actions.append(&mut self.answer(vec![Action::Send(answer)]));
            }
        }
        actions
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next_due().map(|(at, _)| at)
    }
}

fn add_modern_members(result: &mut Map<String, Value>, method: &str) {
    result.insert("resultType".to_owned(), "complete".into());
    if !matches!(method, "tools/call" | "prompts/get") {
        result.insert("ttlMs".to_owned(), 0.into());
        result.insert("cacheScope".to_owned(), "private".into());
    }
}

pub(super) fn error(id: &RequestId, code: i64, message: &str) -> Action {
    Action::Send(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn unknown_method(id: &RequestId) -> Action {
    error(id, code::METHOD_NOT_FOUND, "unknown method")
}

fn unsupported_version(id: &RequestId, requested: Option<&str>) -> Action {
    let data = json!({"supported": [ProtocolVersion::NEWEST_MODERN], "requested": requested});
    Action::Send(json!({"jsonrpc": "2.0", "id": id, "error": {
        "code": code::UNSUPPORTED_PROTOCOL_VERSION, "message": "unsupported protocol version", "data": data}}))
}
