//! Whatever we write for a version is valid by the schema of that version, and names nothing foreign to it.
//!
//! The table holds every message that a client can send. The official schemas are not part of the
//! crate: where they are missing the test says so, and holds the table against our own shapes alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "test code; what was skipped must be seen"
)]

mod schema;

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use mcp_proto::ProtocolVersion::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
use mcp_proto::skills::{GetSkill, ListSkills, ReadDirectory};
use mcp_proto::tasks::{CancelTask, GetTask, GetTaskPayload, ListTasks, TaskStatusChanged, UpdateTask};
use mcp_proto::{
    CallTool, Cancelled, ClientCapabilities, Complete, CreateMessage, CreateMessageResult, Discover, Elicit,
    ElicitResult, EmptyResult, Era, ErrorObject, GetPrompt, Implementation, Initialize, Initialized,
    InputAnswers, InputRequired, ListPrompts, ListResourceTemplates, ListResources, ListRoots,
    ListRootsResult, ListTools, Listen, MetaMembers, Method, Notification, Paginated, Payload, Ping,
    Progress, ProtocolVersion, RawJson, ReadResource, Request, Root, RootsListChanged, SamplingContent,
    SetLogLevel, SubscribeResource, UnsubscribeResource, Versioned, encode_error, encode_notification,
    encode_request, encode_result, encode_round, for_version,
};
use schema::Schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Methods of extensions, for which there is no official schema: our own shapes alone say how they look.
const EXTENSIONS: &[Method] = &[
    Method::RESOURCES_DIRECTORY_READ,
    Method::SKILLS_GET,
    Method::SKILLS_LIST,
    Method::TASKS_CANCEL,
    Method::TASKS_GET,
    Method::TASKS_UPDATE,
];

/// What a server could ask of a client that has tasks of its own: ours never declares that.
const NEVER_ANSWERED: &[Method] =
    &[Method::TASKS_CANCEL, Method::TASKS_GET, Method::TASKS_LIST, Method::TASKS_RESULT];

/// What a row writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    /// The answer to a request of the server: a message of its own in the legacy era.
    Answer,
    Notification,
    Request,
}

/// One message that a client can send.
struct Row {
    kind: Kind,
    method: Method,
    /// How the schemas call it.
    definition: &'static str,
    versions: Vec<ProtocolVersion>,
    /// Several of them: from the one that says the least to the one that says all.
    write: fn(ProtocolVersion) -> Vec<Value>,
}

fn row(
    kind: Kind,
    method: Method,
    definition: &'static str,
    (since, until): (ProtocolVersion, ProtocolVersion),
    write: fn(ProtocolVersion) -> Vec<Value>,
) -> Row {
    let spans = |version: &ProtocolVersion| (since..=until).contains(version);
    let versions = ProtocolVersion::ALL.iter().copied().filter(spans).collect();
    Row { kind, method, definition, versions, write }
}

const ALL: (ProtocolVersion, ProtocolVersion) = (V2024_11_05, V2026_07_28);
const LEGACY: (ProtocolVersion, ProtocolVersion) = (V2024_11_05, V2025_11_25);
const MODERN: (ProtocolVersion, ProtocolVersion) = (V2026_07_28, V2026_07_28);
/// With 2026-07-28 by the extension.
const TASKS: (ProtocolVersion, ProtocolVersion) = (V2025_11_25, V2026_07_28);
const TASKS_OF_CORE: (ProtocolVersion, ProtocolVersion) = (V2025_11_25, V2025_11_25);

/// Everything is written in full: what a version lacks must go by itself.
fn table() -> Vec<Row> {
    use Kind::{Answer, Notification, Request};
    vec![
        row(Request, Method::INITIALIZE, "InitializeRequest", LEGACY, |version| {
            let least =
                Initialize::offering(version, Implementation::new("a", "1"), &ClientCapabilities::default());
            requests(version, &[least, Initialize::offering(version, client_info(), &everything())])
        }),
        row(Request, Method::DISCOVER, "DiscoverRequest", MODERN, |version| {
            requests(version, &[Discover::default()])
        }),
        row(Request, Method::PING, "PingRequest", LEGACY, |version| requests(version, &[Ping::default()])),
        row(Request, Method::TOOLS_LIST, "ListToolsRequest", ALL, pages::<ListTools>),
        row(Request, Method::RESOURCES_LIST, "ListResourcesRequest", ALL, pages::<ListResources>),
        row(
            Request,
            Method::RESOURCE_TEMPLATES_LIST,
            "ListResourceTemplatesRequest",
            ALL,
            pages::<ListResourceTemplates>,
        ),
        row(Request, Method::PROMPTS_LIST, "ListPromptsRequest", ALL, pages::<ListPrompts>),
        row(Request, Method::TASKS_LIST, "ListTasksRequest", TASKS_OF_CORE, pages::<ListTasks>),
        row(Request, Method::SKILLS_LIST, "ListSkillsRequest", MODERN, pages::<ListSkills>),
        row(Request, Method::TOOLS_CALL, "CallToolRequest", ALL, |version| {
            let arguments = json!({"name": "t", "arguments": {"a": [1, {"b": null}]}});
            let as_task = json!({"name": "t", "task": {"ttl": 60_000}});
            repeatable::<CallTool>(version, &[json!({"name": "t"}), arguments, as_task])
        }),
        row(Request, Method::RESOURCES_READ, "ReadResourceRequest", ALL, |version| {
            repeatable::<ReadResource>(version, &[json!({"uri": "file:///a%20b"})])
        }),
        row(Request, Method::PROMPTS_GET, "GetPromptRequest", ALL, |version| {
            let full = json!({"name": "p", "arguments": {"a": "b"}});
            repeatable::<GetPrompt>(version, &[json!({"name": "p"}), full])
        }),
        row(Request, Method::COMPLETION_COMPLETE, "CompleteRequest", ALL, |version| {
            let prompt = json!({
                "ref": {"type": "ref/prompt", "name": "p", "title": "P"},
                "argument": {"name": "a", "value": ""},
                "context": {"arguments": {"b": "c"}},
            });
            let template = json!({
                "ref": {"type": "ref/resource", "uri": "file:///{path}"},
                "argument": {"name": "path", "value": "/"},
            });
            read_requests::<Complete>(version, &[prompt, template])
        }),
        row(Request, Method::LOGGING_SET_LEVEL, "SetLevelRequest", LEGACY, |version| {
            let levels = ["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"];
            read_requests::<SetLogLevel>(version, &levels.map(|level| json!({"level": level})))
        }),
        row(Request, Method::RESOURCES_SUBSCRIBE, "SubscribeRequest", LEGACY, |version| {
            requests(version, &[SubscribeResource::new("file:///a")])
        }),
        row(Request, Method::RESOURCES_UNSUBSCRIBE, "UnsubscribeRequest", LEGACY, |version| {
            requests(version, &[UnsubscribeResource::new("file:///a")])
        }),
        row(Request, Method::SUBSCRIPTIONS_LISTEN, "SubscriptionsListenRequest", MODERN, |version| {
            let all = json!({"notifications": {
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["file:///a"],
            }});
            read_requests::<Listen>(version, &[json!({"notifications": {}}), all])
        }),
        row(Request, Method::TASKS_GET, "GetTaskRequest", TASKS, |version| {
            requests(version, &[GetTask::new("t")])
        }),
        row(Request, Method::TASKS_CANCEL, "CancelTaskRequest", TASKS, |version| {
            requests(version, &[CancelTask::new("t")])
        }),
        row(Request, Method::TASKS_RESULT, "GetTaskPayloadRequest", TASKS_OF_CORE, |version| {
            requests(version, &[GetTaskPayload::new("t")])
        }),
        row(Request, Method::TASKS_UPDATE, "UpdateTaskRequest", MODERN, |version| {
            let answers = read(&json!({"k": {"action": "decline"}}));
            requests(version, &[UpdateTask::new("t", answers)])
        }),
        row(Request, Method::SKILLS_GET, "GetSkillRequest", MODERN, |version| {
            requests(version, &[GetSkill::new("skill:///a/SKILL.md")])
        }),
        row(Request, Method::RESOURCES_DIRECTORY_READ, "ReadDirectoryRequest", MODERN, |version| {
            let page = ReadDirectory::new("skill:///a", Some("next".to_owned()));
            requests(version, &[ReadDirectory::new("skill:///a", None), page])
        }),
        row(Notification, Method::INITIALIZED, "InitializedNotification", LEGACY, |version| {
            notifications::<Initialized>(version, &[json!({})])
        }),
        row(Notification, Method::CANCELLED, "CancelledNotification", ALL, |version| {
            let full = json!({"requestId": "7", "reason": "deadline passed"});
            notifications::<Cancelled>(version, &[json!({"requestId": 7}), full])
        }),
        row(Notification, Method::PROGRESS, "ProgressNotification", LEGACY, |version| {
            let full = json!({"progressToken": "t", "progress": 1.5, "total": 2, "message": "m"});
            notifications::<Progress>(version, &[json!({"progressToken": 7, "progress": 0}), full])
        }),
        row(Notification, Method::ROOTS_LIST_CHANGED, "RootsListChangedNotification", LEGACY, |version| {
            notifications::<RootsListChanged>(version, &[json!({})])
        }),
        row(Notification, Method::TASKS_STATUS, "TaskStatusNotification", TASKS_OF_CORE, |version| {
            let task = json!({
                "taskId": "t", "status": "working", "statusMessage": "m", "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 60_000, "pollInterval": 1000,
            });
            notifications::<TaskStatusChanged>(version, &[task])
        }),
        row(Answer, Method::PING, "Result", LEGACY, |version| answers::<EmptyResult>(version, &[json!({})])),
        row(Answer, Method::ROOTS_LIST, "ListRootsResult", ALL, |version| {
            let roots = json!([{"uri": "file:///a"}, {"uri": "file:///b%20c", "name": "b c"}]);
            answers::<ListRootsResult>(version, &[json!({"roots": []}), json!({"roots": roots})])
        }),
        row(Answer, Method::SAMPLING_CREATE_MESSAGE, "CreateMessageResult", ALL, |version| {
            let said = |content: Value| json!({"role": "assistant", "model": "m", "content": content, "stopReason": "toolUse"});
            let use_tool = json!({"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}});
            let text = json!({"type": "text", "text": "t"});
            let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
            let all =
                [said(text.clone()), said(audio), said(use_tool.clone()), said(json!([text, use_tool]))];
            answers::<CreateMessageResult>(version, &all)
        }),
        row(Answer, Method::ELICITATION_CREATE, "ElicitResult", (V2025_06_18, V2026_07_28), |version| {
            // No fraction: the published schemas, unlike their text, allow integers alone.
            let flat = json!({"action": "accept", "content": {"a": "b", "n": 1, "f": true}});
            let many = json!({"action": "accept", "content": {"many": ["a", "b"], "none": []}});
            let bare = ["accept", "cancel", "decline"].map(|action| json!({"action": action}));
            answers::<ElicitResult>(version, &[&bare[..], &[flat, many]].concat())
        }),
    ]
}

/// Requests in every form: without and with a progress token, and in the modern era anonymous too.
fn requests<R: Request + Versioned + Clone>(version: ProtocolVersion, requests: &[R]) -> Vec<Value> {
    let metas = match version.era() {
        Era::Legacy => vec![MetaMembers::new(), MetaMembers::new().with_progress_token(&"t".into()).unwrap()],
        Era::Modern => {
            let full = MetaMembers::modern(version, &everything(), Some(&client_info())).unwrap();
            let least = MetaMembers::modern(version, &ClientCapabilities::default(), None).unwrap();
            vec![least, full.with_progress_token(&7.into()).unwrap()]
        }
    };
    let encode = |request: &R, meta| value(&encode_request(&7.into(), &R::METHOD, request, meta).unwrap());
    let fitted = fitted(version, requests);
    fitted.iter().flat_map(|request| metas.iter().map(|meta| encode(request, meta))).collect()
}

fn read_requests<R: Request + Versioned + Clone + DeserializeOwned>(
    version: ProtocolVersion,
    all: &[Value],
) -> Vec<Value> {
    requests(version, &all.iter().map(read::<R>).collect::<Vec<_>>())
}

/// Requests that a modern server may answer with a demand for input, and their repeats.
fn repeatable<R: Request + Versioned + Clone + DeserializeOwned>(
    version: ProtocolVersion,
    all: &[Value],
) -> Vec<Value> {
    let mut written = read_requests::<R>(version, all);
    if version.era() == Era::Modern {
        let required = json!({"requestState": "s", "inputRequests": {
            "e": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}},
            "r": {"method": "roots/list"},
            "s": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        }});
        let mut input = InputAnswers::to(&read::<InputRequired>(&required));
        input.answer::<Elicit>("e", &ElicitResult::decline()).unwrap();
        input.answer::<ListRoots>("r", &ListRootsResult::new(vec![Root::new("file:///a")])).unwrap();
        let said = CreateMessageResult::new("m", SamplingContent::text("t"));
        input.answer::<CreateMessage>("s", &said).unwrap();
        let meta = MetaMembers::modern(version, &everything(), None).unwrap().with_progress();
        let all: Vec<R> = all.iter().map(read::<R>).collect();
        written.extend(fitted(version, &all).iter().map(|request| {
            let first = encode_request(&7.into(), &R::METHOD, request, &meta).unwrap();
            value(&encode_round(&first, &7.into(), &R::METHOD, &"8".into(), &input).unwrap())
        }));
    }
    written
}

fn pages<R: Paginated + Versioned + Clone>(version: ProtocolVersion) -> Vec<Value> {
    requests(version, &[R::page(None), R::page(Some(String::new())), R::page(Some("next".to_owned()))])
}

fn notifications<N: Notification + Versioned + Clone + DeserializeOwned>(
    version: ProtocolVersion,
    all: &[Value],
) -> Vec<Value> {
    let all: Vec<N> = all.iter().map(read).collect();
    let encode =
        |notification: &N| encode_notification(&N::METHOD, notification, &MetaMembers::new()).unwrap();
    fitted(version, &all).iter().map(|notification| value(&encode(notification))).collect()
}

fn answers<T: Serialize + Versioned + Clone + DeserializeOwned>(
    version: ProtocolVersion,
    all: &[Value],
) -> Vec<Value> {
    let all: Vec<T> = all.iter().map(read).collect();
    let encode = |answer: &T| encode_result(&7.into(), &Payload::encode(answer).unwrap());
    fitted(version, &all).iter().map(|answer| value(&encode(answer))).collect()
}

/// Each as `version` has it; those that it cannot say at all are refused before they are written.
fn fitted<T: Versioned + Clone>(version: ProtocolVersion, all: &[T]) -> Vec<T> {
    let fitted = all.iter().filter_map(|one| for_version(one, version).ok().map(Cow::into_owned));
    let fitted: Vec<T> = fitted.collect();
    assert!(!fitted.is_empty(), "{version} has it, and nothing of it could be written");
    fitted
}

fn value(frame: &Bytes) -> Value {
    serde_json::from_slice(frame).unwrap()
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    RawJson::encode(value).unwrap().decode().unwrap()
}

/// Every capability that a client can have, in whatever version.
fn everything() -> ClientCapabilities {
    read(&json!({
        "elicitation": {"form": {}, "url": {}},
        "experimental": {"x": {}},
        "extensions": {"com.example/x": {"setting": 1}},
        "roots": {"listChanged": true},
        "sampling": {"context": {}, "tools": {}},
        "tasks": {"cancel": {}, "list": {}, "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}},
    }))
}

/// As much as a program can say of itself, in whatever version.
fn client_info() -> Implementation {
    read(&json!({
        "name": "client", "version": "1.2.3", "title": "A client", "description": "Tests",
        "websiteUrl": "https://example.com/",
        "icons": [{"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    }))
}

/// The official schemas that are at hand; says aloud which are not.
fn official() -> Vec<(ProtocolVersion, Schema)> {
    let found: Vec<_> = ProtocolVersion::ALL
        .iter()
        .filter_map(|version| Schema::official(*version).map(|schema| (*version, schema)))
        .collect();
    if found.len() < ProtocolVersion::ALL.len() {
        let folder = schema::official_folder();
        eprintln!("SKIPPED: {} official schemas are at {}", found.len(), folder.display());
    }
    found
}

impl Schema {
    /// Whether the message of `row` is a matter of this schema.
    fn covers(&self, version: ProtocolVersion, row: &Row) -> bool {
        !self.is_official || version.era() == Era::Legacy || !EXTENSIONS.contains(&row.method)
    }
}

/// Fails unless each message of the table that `version` has is valid by `schema`.
fn assert_all_valid(version: ProtocolVersion, schema: &Schema) {
    let envelope = |kind: Kind| match kind {
        Kind::Answer => ["JSONRPCResultResponse", "JSONRPCResponse"],
        Kind::Notification => ["JSONRPCNotification"; 2],
        Kind::Request => ["JSONRPCRequest"; 2],
    };
    let mut seen = 0;
    let table = table();
    let is_due = |row: &&Row| row.versions.contains(&version) && schema.covers(version, row);
    for row in table.iter().filter(is_due) {
        for message in (row.write)(version) {
            // In the modern era an answer is no message but a part of a request.
            if row.kind != Kind::Answer || version.era() == Era::Legacy {
                let definition = envelope(row.kind).into_iter().find(|name| schema.defines(name));
                schema.assert_valid(definition.expect("an envelope"), &message);
            }
            // Envelopes are JSON-RPC's own matter, which not all definitions of messages repeat.
            let (part, known) = match row.kind {
                Kind::Answer => (&message["result"], message["result"].clone()),
                _ => (&message, json!({"method": message["method"], "params": message["params"]})),
            };
            schema.assert_valid(row.definition, part);
            schema.assert_no_foreign_member(row.definition, &known);
            seen += 1;
        }
    }
    assert!(seen >= 30, "{}: only {seen} messages", schema.name);
}

#[test]
fn what_is_written_is_valid_by_our_own_shapes() {
    for version in ProtocolVersion::ALL {
        assert_all_valid(*version, &Schema::own(*version));
    }
}

#[test]
fn what_is_written_is_valid_by_the_official_schema_of_its_version() {
    for (version, schema) in official() {
        assert_all_valid(version, &schema);
    }
}

#[test]
fn errors_are_valid_by_every_legacy_schema() {
    let mut full = ErrorObject::new(-32602, "no");
    full.data = Some(RawJson::from_text(r#"{"a":[1]}"#).unwrap());
    let errors = [ErrorObject::new(-1, "User rejected sampling request"), full];
    let own = (V2025_11_25, Schema::own(V2025_11_25));
    for (version, schema) in official().into_iter().chain([own]).filter(|(version, _)| *version < V2026_07_28)
    {
        let definition = if version < V2025_11_25 { "JSONRPCError" } else { "JSONRPCErrorResponse" };
        for error in &errors {
            for id in [7.into(), "7".into()] {
                schema.assert_valid(definition, &value(&encode_error(&id, error).unwrap()));
            }
        }
    }
}

/// Whether the table has `method` as a message of `kind` in a version of `era`.
fn has(table: &[Row], kind: Kind, method: &Method, era: Era) -> bool {
    let matches = |row: &Row| {
        row.kind == kind && row.method == *method && row.versions.iter().any(|version| version.era() == era)
    };
    table.iter().any(matches)
}

#[test]
fn every_method_that_a_client_may_send_is_in_the_table() {
    let table = table();
    for method in Method::KNOWN {
        let kind =
            if method.as_str().starts_with("notifications/") { Kind::Notification } else { Kind::Request };
        for era in [Era::Legacy, Era::Modern] {
            let is_written = has(&table, kind, method, era);
            assert_eq!(is_written, method.is_sendable(era), "{method} as {kind:?} in {era:?}");
        }
        if kind == Kind::Request && method.is_receivable(Era::Legacy) {
            let is_due = !NEVER_ANSWERED.contains(method);
            assert_eq!(has(&table, Kind::Answer, method, Era::Legacy), is_due, "the answer to {method}");
        }
    }
}

#[test]
fn the_table_has_each_message_in_exactly_the_versions_that_have_it() {
    for (version, schema) in official() {
        let written = |kind: Kind| -> BTreeSet<String> {
            let is_due = |row: &Row| {
                row.kind == kind && row.versions.contains(&version) && schema.covers(version, row)
            };
            table().into_iter().filter(is_due).map(|row| row.method.as_str().to_owned()).collect()
        };
        let due = |union: &str| -> BTreeSet<String> {
            let mut parts = schema.union(union);
            if parts.is_empty() {
                parts.push(union);
            }
            parts.into_iter().filter_map(|part| schema.method(part)).map(str::to_owned).collect()
        };
        assert_eq!(written(Kind::Request), due("ClientRequest"), "{version}");
        assert_eq!(written(Kind::Notification), due("ClientNotification"), "{version}");
    }
}
