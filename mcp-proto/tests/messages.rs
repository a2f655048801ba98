//! What is tolerated when a message is read, and what is left out when one is written.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use mcp_proto::{
    CallTool, CallToolResult, ClientCapabilities, Content, CreateMessage, DiscoverResult, ErrorObject,
    GetPromptResult, Implementation, Initialize, InitializeResult, ListPromptsResult, ListResourcesResult,
    ListTools, ListToolsResult, LogLevel, LogMessage, MetaMembers, Method, Paginated, PeerInfo,
    ProtocolVersion, RawJson, ReadResourceResult, Request, Role, ServerCapabilities, TextSchema,
    encode_request, for_version,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[track_caller]
fn read<T: DeserializeOwned>(text: &str) -> T {
    RawJson::from_text(text).unwrap().decode().unwrap()
}

#[test]
fn a_server_that_says_the_least_is_understood() {
    let result: InitializeResult = read(r#"{"protocolVersion":"2024-11-05"}"#);
    assert_eq!(result.server_info, Implementation::default());
    assert_eq!(result.capabilities, ServerCapabilities::default());
    let result: DiscoverResult = read(r#"{"supportedVersions":[]}"#);
    assert_eq!((result.server_info(), result.ttl_ms), (Implementation::default(), None));
}

#[test]
fn null_stands_for_an_absent_member() {
    let result: InitializeResult = read(
        r#"{"protocolVersion":"2025-11-25","capabilities":null,"serverInfo":null,"instructions":null,"_meta":null}"#,
    );
    assert_eq!((result.instructions, result.meta), (None, None));
    let page: ListToolsResult = read(r#"{"tools":null,"nextCursor":null,"ttlMs":null}"#);
    assert_eq!(ListTools::split(page), (vec![], None));
    let result: CallToolResult = read(r#"{"content":null,"isError":null}"#);
    assert_eq!(result, CallToolResult::default());
    let page: ListPromptsResult = read(r#"{"prompts":[{"name":"a","arguments":null,"icons":null}]}"#);
    assert!(page.prompts[0].arguments.is_empty());
}

#[test]
fn hints_of_a_wrong_kind_cost_nothing() {
    let page: ListToolsResult = read(
        r#"{"tools":[{"name":"a","title":7,"description":[],"annotations":{"readOnlyHint":"yes","destructiveHint":true},
            "icons":"none","inputSchema":{"type":"object"}}],"ttlMs":-1,"cacheScope":{}}"#,
    );
    let tool = &page.tools[0];
    assert_eq!((&tool.title, &tool.description, &tool.icons), (&None, &None, &None));
    let annotations = tool.annotations.as_ref().unwrap();
    assert_eq!((annotations.read_only_hint, annotations.destructive_hint), (None, Some(true)));
    assert_eq!((page.ttl_ms, page.cache_scope), (None, None));
    let page: ListResourcesResult =
        read(r#"{"resources":[{"uri":"a","size":1.5,"annotations":{"priority":"high"}}]}"#);
    assert_eq!((page.resources[0].size, page.resources[0].name.as_str()), (None, ""));
}

#[test]
fn what_a_call_depends_on_must_be_right() {
    let refused = |text: &str| RawJson::from_text(text).unwrap().decode::<ListToolsResult>().is_err();
    assert!(refused("{}"));
    assert!(refused(r#"{"tools":[{"inputSchema":{}}]}"#));
    assert!(refused(r#"{"tools":[{"name":7}]}"#));
    assert!(refused(r#"{"tools":{}}"#));
    assert!(refused(r#"{"tools":[],"nextCursor":7}"#));
    let is_error_in_words = RawJson::from_text(r#"{"content":[],"isError":"yes"}"#).unwrap();
    assert!(is_error_in_words.decode::<CallToolResult>().is_err());
}

#[test]
fn capabilities_count_by_being_there() {
    let version = ProtocolVersion::V2025_11_25;
    for declared in ["{}", "[]", "true", r#"{"listChanged":"yes","more":1}"#] {
        let capabilities: ServerCapabilities =
            read(&format!(r#"{{"tools":{declared},"logging":{declared},"completions":{declared}}}"#));
        for method in [Method::TOOLS_CALL, Method::LOGGING_SET_LEVEL, Method::COMPLETION_COMPLETE] {
            assert!(capabilities.allow(&method, version), "{declared}: {method}");
        }
        assert!(!capabilities.tools.as_ref().unwrap().list_changed, "{declared}");
        assert!(!capabilities.allow(&Method::PROMPTS_LIST, version), "{declared}");
    }
    for absent in ["null", "false"] {
        let capabilities: ServerCapabilities = read(&format!(r#"{{"tools":{absent},"logging":{absent}}}"#));
        for method in [Method::TOOLS_LIST, Method::LOGGING_SET_LEVEL] {
            assert!(!capabilities.allow(&method, version), "{absent}: {method}");
        }
    }
}

#[test]
fn f116_each_method_needs_the_capability_it_belongs_to() {
    let none = ServerCapabilities::default();
    let all: ServerCapabilities = read(
        r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{},
            "tasks":{},"extensions":{"io.modelcontextprotocol/skills":{}}}"#,
    );
    let version = ProtocolVersion::V2025_11_25;
    let free = [
        Method::PING,
        Method::INITIALIZE,
        Method::DISCOVER,
        Method::CANCELLED,
        Method::SUBSCRIPTIONS_LISTEN,
        Method::from_wire("x/y"),
    ];
    let bound = Method::KNOWN.iter().filter(|method| {
        let group = method.as_str().split('/').next().unwrap_or_default();
        ["tools", "resources", "prompts", "logging", "completion", "tasks", "skills"].contains(&group)
    });
    for method in &free {
        assert!(none.allow(method, version) && all.allow(method, version), "{method}");
    }
    let mut count = 0;
    for method in bound {
        assert!(!none.allow(method, version) && all.allow(method, version), "{method}");
        count += 1;
    }
    assert_eq!(count, 19);
    let unsubscribable: ServerCapabilities = read(r#"{"resources":{}}"#);
    assert!(!unsubscribable.allow(&Method::RESOURCES_SUBSCRIBE, version));
    assert!(!unsubscribable.allow(&Method::RESOURCES_DIRECTORY_READ, version));
    let extended: ServerCapabilities = read(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    assert!(extended.allow(&Method::TASKS_GET, ProtocolVersion::V2026_07_28));
}

#[test]
fn the_first_version_had_no_capability_for_completions() {
    let none = ServerCapabilities::default();
    for version in ProtocolVersion::ALL.iter().copied() {
        let is_allowed = none.allow(&Method::COMPLETION_COMPLETE, version);
        assert_eq!(is_allowed, version == ProtocolVersion::V2024_11_05, "{version}");
    }
}

#[test]
fn structured_null_is_a_value_and_absence_is_not() {
    let result: CallToolResult = read(r#"{"content":[],"structuredContent":null}"#);
    assert_eq!(result.structured_content, Some(RawJson::null()));
    assert_eq!(serde_json::to_value(&result).unwrap()["structuredContent"], Value::Null);
    assert_eq!(read::<CallToolResult>("{}").structured_content, None);
}

#[test]
fn schemas_and_structured_content_stay_as_written() {
    let schema = r#"{ "type":"object", "x-keep": [1.0, 1e2], "$ref":"a#b" }"#;
    let page: ListToolsResult =
        read(&format!(r#"{{"tools":[{{"name":"a","inputSchema":{schema},"outputSchema":true}}]}}"#));
    assert_eq!(page.tools[0].input_schema.get(), schema);
    assert_eq!(page.tools[0].output_schema.as_ref().unwrap().get(), "true");
    let bare: ListToolsResult = read(r#"{"tools":[{"name":"a"}]}"#);
    assert_eq!(bare.tools[0].input_schema, RawJson::null());
}

#[test]
fn the_kind_of_a_block_is_found_wherever_it_stands_and_the_last_one_counts() {
    for (block, kind, text) in [
        (r#"{"type":"text","text":"a"}"#, "text", Some("a")),
        (r#"{ "type" : "text" , "text":"a"}"#, "text", Some("a")),
        (r#"{"text":"a","type":"text"}"#, "text", Some("a")),
        (r#"{"type":"text","text":"\"type\":\"image\""}"#, "text", Some(r#""type":"image""#)),
        (r#"{"type":"text","text":"a","_meta":{"type":"image"}}"#, "text", Some("a")),
        (r#"{"type":"image","text":"a","type":"text"}"#, "text", Some("a")),
        (r#"{"type":"text","text":"a","type":"hologram"}"#, "hologram", None),
        (r#"{"type":"te\u0078t","text":"a"}"#, "text", Some("a")),
        (r#"{"type":"text","text":"a","\u0074ype":"hologram"}"#, "hologram", None),
    ] {
        let result: CallToolResult = read(&format!(r#"{{"content":[{block}]}}"#));
        assert_eq!(result.content[0].kind().as_deref(), Some(kind), "{block}");
        assert_eq!(result.content[0].as_text(), text, "{block}");
    }
}

#[test]
fn unknown_and_broken_blocks_survive_beside_good_ones() {
    let blocks = r#"[{"type":"text","text":"a"},{"type":"hologram","data":{"x":1.50}},{"type":"image"},{"text":"b"},
        {"type":"text","text":7},{"type":"resource_link","uri":"a:b"},{"type":"audio","data":"","mimeType":"audio/x"}]"#;
    let result: CallToolResult = read(&format!(r#"{{"content":{blocks}}}"#));
    let kinds: Vec<Option<String>> = result.content.iter().map(Content::kind).collect();
    let expected = [
        Some("text"),
        Some("hologram"),
        Some("image"),
        None,
        Some("text"),
        Some("resource_link"),
        Some("audio"),
    ];
    assert_eq!(kinds, expected.map(|kind| kind.map(str::to_owned)));
    assert_eq!(result.content[0].as_text(), Some("a"));
    for index in [1, 2, 3, 4] {
        assert!(matches!(result.content[index], Content::Other(_)), "{index}");
    }
    let original: Value = serde_json::from_str(blocks).unwrap();
    let mut written = serde_json::to_value(&result.content).unwrap();
    // A link without a name is written with an empty one.
    written[5].as_object_mut().unwrap().remove("name");
    assert_eq!(written, original);
    assert!(RawJson::from_text(r#"{"content":["text"]}"#).unwrap().decode::<CallToolResult>().is_err());
}

#[test]
fn unknown_names_survive_a_round_trip() {
    let message: LogMessage = read(r#"{"level":"shout","data":[1]}"#);
    assert_eq!(message.level, LogLevel::Other("shout".to_owned()));
    assert_eq!(serde_json::to_value(&message).unwrap(), json!({"level":"shout","data":[1]}));
    let result: GetPromptResult = read(
        r#"{"messages":[{"role":"narrator","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"x"}}]}"#,
    );
    assert_eq!(result.messages[0].role, Role::Other("narrator".to_owned()));
    assert_eq!(result.messages[1].role, Role::User);
}

#[test]
fn one_read_may_bring_several_parts() {
    let result: ReadResourceResult = read(
        r#"{"contents":[{"uri":"a","text":""},{"uri":"b","blob":"AA==","mimeType":"x/y"},{"uri":"c"}]}"#,
    );
    let parts: Vec<_> =
        result.contents.iter().map(|part| (part.text.as_deref(), part.blob.as_deref())).collect();
    assert_eq!(parts, [(Some(""), None), (None, Some("AA==")), (None, None)]);
}

#[test]
fn an_empty_cursor_is_a_cursor() {
    let page: ListToolsResult = read(r#"{"tools":[],"nextCursor":""}"#);
    assert_eq!(ListTools::split(page).1, Some(String::new()));
}

#[test]
fn capabilities_are_written_as_the_version_knows_them() {
    let all: ClientCapabilities = read(
        r#"{"elicitation":{"form":{},"url":{}},
            "extensions":{"a.b/c":{"d":1},"io.modelcontextprotocol/tasks":{}},"sampling":{"tools":{},"context":{}},
            "roots":{"listChanged":true},"tasks":{"list":{}},"experimental":{"e":{}}}"#,
    );
    let written = |version| {
        let initialize = Initialize::offering(version, Implementation::new("a", "1"), &all);
        serde_json::to_value(initialize.capabilities).unwrap()
    };
    let roots = json!({"listChanged":true});
    let oldest = json!({"roots":roots,"sampling":{},"experimental":{"e":{}}});
    assert_eq!(written(ProtocolVersion::V2024_11_05), oldest);
    assert_eq!(written(ProtocolVersion::V2025_03_26), oldest);
    assert_eq!(
        written(ProtocolVersion::V2025_06_18),
        json!({"elicitation":{},"roots":roots,"sampling":{},"experimental":{"e":{}}})
    );
    let (elicitation, sampling) = (json!({"form":{},"url":{}}), json!({"tools":{},"context":{}}));
    assert_eq!(
        written(ProtocolVersion::V2025_11_25),
        json!({"elicitation":elicitation,"extensions":{"a.b/c":{"d":1}},"roots":roots,"sampling":sampling,
            "tasks":{"list":{}},"experimental":{"e":{}}}),
        "an extension without messages is tolerated"
    );
    assert_eq!(
        serde_json::to_value(all.for_version(ProtocolVersion::V2026_07_28)).unwrap(),
        json!({"elicitation":elicitation,"extensions":{"a.b/c":{"d":1},"io.modelcontextprotocol/tasks":{}},
            "roots":{},"sampling":sampling,"experimental":{"e":{}}})
    );
    let tasks: ClientCapabilities = read(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    assert_eq!(tasks.for_version(ProtocolVersion::V2025_11_25), ClientCapabilities::default());
}

#[test]
fn before_urls_could_be_opened_a_client_without_forms_cannot_ask_anybody() {
    let url_only: ClientCapabilities = read(r#"{"elicitation":{"url":{}}}"#);
    assert_eq!(url_only.for_version(ProtocolVersion::V2025_06_18).elicitation, None);
    assert!(url_only.for_version(ProtocolVersion::V2025_11_25).elicitation.is_some());
    for (declared, expected) in [
        ("{}", (true, false)),
        (r#"{"form":{}}"#, (true, false)),
        (r#"{"url":{}}"#, (false, true)),
        (r#"{"form":{},"url":{}}"#, (true, true)),
        ("true", (true, false)),
    ] {
        let capabilities: ClientCapabilities = read(&format!(r#"{{"elicitation":{declared}}}"#));
        let elicitation = capabilities.elicitation.unwrap();
        assert_eq!((elicitation.has_form(), elicitation.has_url()), expected, "{declared}");
    }
}

#[test]
fn who_we_are_is_told_as_the_version_knows_it() {
    let client: Implementation = read(
        r#"{"name":"n","title":"t","version":"1","description":"d","websiteUrl":"https://a","icons":[{"src":"data:,"}]}"#,
    );
    let written = |version| {
        let initialize = Initialize::offering(version, client.clone(), &ClientCapabilities::default());
        let members = serde_json::to_value(initialize.client_info).unwrap();
        members.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(written(ProtocolVersion::V2024_11_05), "name version");
    assert_eq!(written(ProtocolVersion::V2025_06_18), "name title version");
    assert_eq!(written(ProtocolVersion::V2025_11_25), "description icons name title version websiteUrl");
}

#[test]
fn a_call_asks_for_a_task_only_where_the_version_has_tasks() {
    let call: CallTool = read(r#"{"name":"a","task":{"ttl":5},"more":1}"#);
    for version in ProtocolVersion::ALL.iter().copied() {
        let fitted = for_version(&call, version).unwrap();
        assert_eq!(fitted.task.is_some(), version == ProtocolVersion::V2025_11_25, "{version}");
        assert!(fitted.other.get("more").is_some());
    }
    let plain = CallTool::new("a");
    assert!(matches!(for_version(&plain, ProtocolVersion::V2024_11_05), Ok(std::borrow::Cow::Borrowed(_))));
}

#[test]
fn members_without_a_name_survive_a_round_trip() {
    let text = r#"{"tools":[{"name":"a","inputSchema":{},"x":[1e400],"execution":{"taskSupport":"optional","y":1}}],"z":null}"#;
    let page: ListToolsResult = read(text);
    let written = serde_json::to_string(&page).unwrap();
    let ordered = r#"{"tools":[{"name":"a","inputSchema":{},"execution":{"taskSupport":"optional","y":1},"x":[1e400]}],"z":null}"#;
    assert_eq!(written, ordered);
    let blocks = r#"[{"type":"text","text":"a","x":1},{"type":"resource","resource":{"uri":"a","text":"b","y":2.50},"z":{}}]"#;
    assert_eq!(serde_json::to_string(&read::<Vec<Content>>(blocks)).unwrap(), blocks);
}

#[test]
fn peer_info_has_one_form_for_both_eras() {
    let legacy: InitializeResult = read(
        r#"{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}},"instructions":"i"}"#,
    );
    let modern: DiscoverResult = read(
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"i",
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#,
    );
    let legacy = PeerInfo::from_initialize(ProtocolVersion::V2025_06_18, legacy);
    let modern = PeerInfo::from_discover(ProtocolVersion::V2026_07_28, modern);
    assert_eq!(legacy.server, Implementation::new("s", "1"));
    assert_eq!(
        (&legacy.server, &legacy.capabilities, &legacy.instructions),
        (&modern.server, &modern.capabilities, &modern.instructions)
    );
    assert_ne!(legacy.era, modern.era);
}

#[test]
fn secrets_in_arguments_do_not_show_in_debug_output() {
    let call =
        CallTool::new("login").with_arguments(RawJson::encode(&json!({"password":"hunter2"})).unwrap());
    assert!(!format!("{call:?}").contains("hunter2"));
    assert_eq!(call.mirrored_name(), Some("login"));
    let frame = encode_request(&1.into(), &CallTool::METHOD, &call, &MetaMembers::new()).unwrap();
    assert!(frame.ends_with(br#""arguments":{"password":"hunter2"}}}"#));
}

#[test]
fn every_public_type_can_be_shown_and_sent_to_another_thread() {
    fn shown_and_sent<T: std::fmt::Debug + Send + Sync + 'static>() {}
    shown_and_sent::<mcp_proto::Frame>();
    shown_and_sent::<mcp_proto::EnvelopeError>();
    shown_and_sent::<mcp_proto::DecodeError>();
    shown_and_sent::<MetaMembers>();
    shown_and_sent::<mcp_proto::Redactor>();
    shown_and_sent::<mcp_proto::Secret>();
    shown_and_sent::<mcp_proto::probe::ProbeVerdict>();
    shown_and_sent::<mcp_proto::negotiation::VersionError>();
    shown_and_sent::<(PeerInfo, Content, ListToolsResult, ReadResourceResult, GetPromptResult)>();
}

#[test]
fn integers_may_be_written_with_a_fraction_of_zero() {
    let asked: CreateMessage = read(r#"{"messages":[],"maxTokens":100.0}"#);
    assert_eq!(asked.max_tokens, 100);
    let error: ErrorObject = read(r#"{"code":-32601.0,"message":"m"}"#);
    assert_eq!(error.code, mcp_proto::code::METHOD_NOT_FOUND);
    let result: ListToolsResult = read(r#"{"tools":[],"ttlMs":5e3}"#);
    assert_eq!(result.ttl_ms, Some(5000));
    let text: TextSchema = read(r#"{"minLength":1.0,"maxLength":1.5}"#);
    assert_eq!((text.min_length, text.max_length), (Some(1), None));
}
