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

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mcp_proto::ProtocolVersion::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
use mcp_proto::{
    CallTool, Cancelled, ClientCapabilities, Content, CreateMessageResult, Discover, ElicitResult,
    ElicitationCapability, EmptyResult, Entries, Era, ErrorObject, FieldValue, GetPrompt, Implementation,
    Initialize, Initialized, InputAnswers, InputRequired, ListPrompts, ListResourceTemplates, ListResources,
    ListRootsResult, ListTools, MetaMembers, Method, Notification, Paginated, Payload, Ping, Progress,
    ProtocolVersion, RawJson, ReadResource, Request, Root, RootsCapability, RootsListChanged,
    SamplingCapability, SamplingContent, StopReason, TasksCapability, encode_error, encode_notification,
    encode_request, encode_result,
};
use schema::Schema;
use serde::Serialize;
use serde_json::{Value, json};

/// Methods that a client may send and for which there is no type yet.
const UNTYPED: &[Method] = &[
    Method::COMPLETION_COMPLETE,
    Method::LOGGING_SET_LEVEL,
    Method::RESOURCES_SUBSCRIBE,
    Method::RESOURCES_UNSUBSCRIBE,
    Method::SUBSCRIPTIONS_LISTEN,
    Method::TASKS_CANCEL,
    Method::TASKS_GET,
    Method::TASKS_LIST,
    Method::TASKS_RESULT,
    Method::TASKS_STATUS,
    Method::TASKS_UPDATE,
    Method::SKILLS_LIST,
    Method::SKILLS_GET,
    Method::RESOURCES_DIRECTORY_READ,
];

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

fn table() -> Vec<Row> {
    use Kind::{Answer, Notification, Request};
    vec![
        row(Request, Method::INITIALIZE, "InitializeRequest", LEGACY, |version| {
            let all = everything();
            let least =
                Initialize::offering(version, Implementation::new("a", "1"), &ClientCapabilities::default());
            requests(version, &[least, Initialize::offering(version, client_info(version), &all)])
        }),
        row(Request, Method::DISCOVER, "DiscoverRequest", MODERN, |version| {
            requests(version, &[Discover {}])
        }),
        row(Request, Method::PING, "PingRequest", LEGACY, |version| requests(version, &[Ping {}])),
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
        row(Request, Method::TOOLS_CALL, "CallToolRequest", ALL, |version| {
            let full =
                CallTool::new("t").with_arguments(RawJson::from_text(r#"{"a":[1,{"b":null}]}"#).unwrap());
            repeatable(version, &[CallTool::new("t"), full])
        }),
        row(Request, Method::RESOURCES_READ, "ReadResourceRequest", ALL, |version| {
            repeatable(version, &[ReadResource::new("file:///a%20b")])
        }),
        row(Request, Method::PROMPTS_GET, "GetPromptRequest", ALL, |version| {
            let gaps = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
            repeatable(version, &[GetPrompt::new("p"), GetPrompt::new("p").with_arguments(gaps)])
        }),
        row(Notification, Method::INITIALIZED, "InitializedNotification", LEGACY, |_| {
            vec![notification(&Initialized {})]
        }),
        row(Notification, Method::CANCELLED, "CancelledNotification", ALL, |_| {
            vec![
                notification(&Cancelled::new(7.into())),
                notification(&Cancelled::new("7".into()).with_reason("deadline passed")),
            ]
        }),
        row(Notification, Method::PROGRESS, "ProgressNotification", LEGACY, |version| {
            let mut full = json!({"progressToken": "t", "progress": 1.5, "total": 2});
            if version > V2024_11_05 {
                full["message"] = "m".into();
            }
            let least = json!({"progressToken": 7, "progress": 0});
            [least, full].iter().map(|text| notification(&read::<Progress>(text))).collect()
        }),
        row(Notification, Method::ROOTS_LIST_CHANGED, "RootsListChangedNotification", LEGACY, |_| {
            vec![notification(&RootsListChanged::default())]
        }),
        row(Answer, Method::PING, "Result", LEGACY, |_| answers(&[EmptyResult {}])),
        row(Answer, Method::ROOTS_LIST, "ListRootsResult", ALL, |_| {
            let full = vec![Root::new("file:///a"), Root::new("file:///b%20c").with_name("b c")];
            answers(&[ListRootsResult::new(vec![]), ListRootsResult::new(full)])
        }),
        row(Answer, Method::SAMPLING_CREATE_MESSAGE, "CreateMessageResult", ALL, |version| {
            let one = CreateMessageResult::new("m", SamplingContent::text("t"));
            let mut all = vec![one.clone(), one.with_stop_reason(StopReason::EndTurn)];
            if version >= V2025_11_25 {
                let use_tool = json!({"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}});
                let blocks = SamplingContent::Many(vec![Content::text("t"), read(&use_tool)]);
                all.push(CreateMessageResult::new("m", blocks).with_stop_reason(StopReason::ToolUse));
            }
            answers(&all)
        }),
        row(Answer, Method::ELICITATION_CREATE, "ElicitResult", (V2025_06_18, V2026_07_28), |version| {
            // No fraction: the published schemas, unlike their text, allow integers alone.
            let fields = |text: Value| read::<Entries<FieldValue>>(&text);
            let mut all = vec![
                ElicitResult::cancel(),
                ElicitResult::decline(),
                ElicitResult::accept(fields(json!({"a": "b", "n": 1, "f": true}))),
            ];
            if version >= V2025_11_25 {
                all.push(ElicitResult::accept_url());
                all.push(ElicitResult::accept(fields(json!({"many": ["a", "b"], "none": []}))));
            }
            answers(&all)
        }),
    ]
}

/// Requests in every form: without and with a progress token, and in the modern era anonymous too.
fn requests<R: Request>(version: ProtocolVersion, requests: &[R]) -> Vec<Value> {
    let metas = match version.era() {
        Era::Legacy => vec![MetaMembers::new(), MetaMembers::new().with_progress_token(&"t".into()).unwrap()],
        Era::Modern => {
            let full = MetaMembers::modern(version, &everything(), Some(&client_info(version))).unwrap();
            let least = MetaMembers::modern(version, &ClientCapabilities::default(), None).unwrap();
            vec![least, full.with_progress_token(&7.into()).unwrap()]
        }
    };
    let encode = |request, meta| encode_request(&7.into(), &R::METHOD, request, meta).unwrap();
    requests.iter().flat_map(|request| metas.iter().map(move |meta| value(&encode(request, meta)))).collect()
}

/// Requests that a modern server may answer with a demand for input, and their repeats.
fn repeatable<R: Request>(version: ProtocolVersion, all: &[R]) -> Vec<Value> {
    let mut written = requests(version, all);
    if version.era() == Era::Modern {
        let required = json!({"requestState": "s", "inputRequests": {
            "e": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}},
            "r": {"method": "roots/list"},
            "s": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        }});
        let mut input = InputAnswers::to(&read::<InputRequired>(&required));
        input.answer::<mcp_proto::Elicit>("e", &ElicitResult::decline()).unwrap();
        input
            .answer::<mcp_proto::ListRoots>("r", &ListRootsResult::new(vec![Root::new("file:///a")]))
            .unwrap();
        let said = CreateMessageResult::new("m", SamplingContent::text("t"));
        input.answer::<mcp_proto::CreateMessage>("s", &said).unwrap();
        let meta = MetaMembers::modern(version, &everything(), None).unwrap();
        written.extend(all.iter().map(|request| {
            let params = input.add_to(request).unwrap();
            value(&encode_request(&"8".into(), &R::METHOD, &params, &meta).unwrap())
        }));
    }
    written
}

fn pages<R: Paginated>(version: ProtocolVersion) -> Vec<Value> {
    requests(version, &[R::page(None), R::page(Some(String::new())), R::page(Some("next".to_owned()))])
}

fn notification<N: Notification>(notification: &N) -> Value {
    value(&encode_notification(&N::METHOD, notification, &MetaMembers::new()).unwrap())
}

fn answers<T: Serialize>(answers: &[T]) -> Vec<Value> {
    let encode = |answer| encode_result(&7.into(), &Payload::encode(answer).unwrap());
    answers.iter().map(|answer| value(&encode(answer))).collect()
}

fn value(frame: &Bytes) -> Value {
    serde_json::from_slice(frame).unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    RawJson::encode(value).unwrap().decode().unwrap()
}

/// Every capability that a client can have, in whatever version.
fn everything() -> ClientCapabilities {
    let empty = || Some(RawJson::from_text("{}").unwrap());
    let mut all = ClientCapabilities::default();
    all.elicitation = Some(ElicitationCapability::form_and_url());
    all.roots = Some(read::<RootsCapability>(&json!({"listChanged": true})));
    let mut sampling = SamplingCapability::default();
    (sampling.context, sampling.tools) = (empty(), empty());
    all.sampling = Some(sampling);
    all.tasks = Some(read::<TasksCapability>(&json!({
        "cancel": {}, "list": {}, "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}
    })));
    all.extensions = Some(read(&json!({"com.example/x": {"setting": 1}})));
    all.experimental = Some(read(&json!({"x": {}})));
    all
}

/// As much as `version` lets a program say of itself.
fn client_info(version: ProtocolVersion) -> Implementation {
    let mut info = json!({"name": "client", "version": "1.2.3"});
    if version >= V2025_06_18 {
        info["title"] = "A client".into();
    }
    if version >= V2025_11_25 {
        info["description"] = "Tests".into();
        info["websiteUrl"] = "https://example.com/".into();
        info["icons"] =
            json!([{"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]}]);
    }
    read(&info)
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

/// Fails unless each message of the table that `version` has is valid by `schema`.
fn assert_all_valid(version: ProtocolVersion, schema: &Schema) {
    let envelope = |kind: Kind| match kind {
        Kind::Answer => ["JSONRPCResultResponse", "JSONRPCResponse"],
        Kind::Notification => ["JSONRPCNotification"; 2],
        Kind::Request => ["JSONRPCRequest"; 2],
    };
    let mut seen = 0;
    for row in table().iter().filter(|row| row.versions.contains(&version)) {
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
    assert!(seen >= 20, "{}: only {seen} messages", schema.name);
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
            let is_due = method.is_sendable(era) && !UNTYPED.contains(method);
            assert_eq!(
                is_written, is_due,
                "{method} as {kind:?} in {era:?}: missing, foreign, or typed by now"
            );
        }
        if kind == Kind::Request && method.is_receivable(Era::Legacy) {
            let is_due = !UNTYPED.contains(method);
            assert_eq!(has(&table, Kind::Answer, method, Era::Legacy), is_due, "the answer to {method}");
        }
    }
}

#[test]
fn the_table_has_each_message_in_exactly_the_versions_that_have_it() {
    for (version, schema) in official() {
        let written = |kind: Kind| -> BTreeSet<String> {
            let rows = table().into_iter().filter(|row| row.kind == kind && row.versions.contains(&version));
            rows.map(|row| row.method.as_str().to_owned()).collect()
        };
        let due = |union: &str| -> BTreeSet<String> {
            let mut parts = schema.union(union);
            if parts.is_empty() {
                parts.push(union);
            }
            let methods = parts.into_iter().filter_map(|part| schema.method(part));
            methods.filter(|name| !UNTYPED.contains(&Method::from_wire(name))).map(str::to_owned).collect()
        };
        assert_eq!(written(Kind::Request), due("ClientRequest"), "{version}");
        assert_eq!(written(Kind::Notification), due("ClientNotification"), "{version}");
    }
}
