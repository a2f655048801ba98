//! What is written for each message, byte for byte, against files that a person can read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use bytes::Bytes;
use mcp_proto::{
    CallTool, Cancelled, ClientCapabilities, Discover, ElicitationCapability, GetPrompt, Implementation,
    Initialize, Initialized, ListPrompts, ListResourceTemplates, ListResources, ListTools, MetaMembers,
    Notification, Paginated, Ping, ProtocolVersion, RawJson, ReadResource, Request, encode_notification,
    encode_request,
};

fn request<R: Request>(id: i64, request: &R, meta: &MetaMembers) -> Bytes {
    encode_request(&id.into(), &R::METHOD, request, meta).unwrap()
}

fn notification<N: Notification>(notification: &N) -> Bytes {
    encode_notification(&N::METHOD, notification, &MetaMembers::new()).unwrap()
}

fn client_info() -> Implementation {
    Implementation::new("example-client", "1.2.3")
}

fn capabilities() -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(ElicitationCapability::form());
    capabilities
}

/// The messages that both eras have.
fn common(meta: &MetaMembers) -> Vec<(&'static str, Bytes)> {
    let arguments = RawJson::from_text(r#"{"city":"Zürich","days":3}"#).unwrap();
    let gaps = BTreeMap::from([("code".to_owned(), "fn main() {}\n".to_owned())]);
    let with_progress = meta.with_progress_token(&4.into()).unwrap();
    vec![
        ("tools_list", request(2, &ListTools::new(), meta)),
        ("tools_list_page", request(3, &ListTools::page(Some(String::new())), meta)),
        ("tools_call", request(4, &CallTool::new("weather").with_arguments(arguments), &with_progress)),
        ("resources_list", request(5, &ListResources::new(), meta)),
        ("resources_templates_list", request(6, &ListResourceTemplates::new(), meta)),
        ("resources_read", request(7, &ReadResource::new("file:///a%20b.txt"), meta)),
        ("prompts_list", request(8, &ListPrompts::new(), meta)),
        ("prompts_get", request(9, &GetPrompt::new("review").with_arguments(gaps), meta)),
        ("cancelled", notification(&Cancelled::new(4.into()).with_reason("deadline passed"))),
    ]
}

#[track_caller]
fn assert_golden(version: ProtocolVersion, frames: Vec<(&str, Bytes)>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(version.as_str());
    let names: BTreeSet<String> = frames.iter().map(|(name, _)| format!("{name}.json")).collect();
    let present: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(present, names, "the files of {version}");
    for (name, frame) in frames {
        let file = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let expected = file.strip_suffix('\n').expect("a file ends with a line break");
        assert_eq!(std::str::from_utf8(&frame).unwrap(), expected, "{version}: {name}");
    }
}

#[test]
fn legacy_frames_are_written_as_in_the_files() {
    let meta = MetaMembers::new();
    let mut frames = common(&meta);
    frames.push(("initialize", request(1, &Initialize::new(client_info(), &capabilities()), &meta)));
    frames.push(("initialized", notification(&Initialized {})));
    frames.push(("ping", request(10, &Ping {}, &meta)));
    assert_golden(ProtocolVersion::V2025_11_25, frames);
}

#[test]
fn modern_frames_are_written_as_in_the_files() {
    let version = ProtocolVersion::V2026_07_28;
    let meta = MetaMembers::modern(version, &capabilities(), Some(&client_info())).unwrap();
    let mut frames = common(&meta);
    frames.push(("discover", request(1, &Discover {}, &meta)));
    let anonymous = MetaMembers::modern(version, &ClientCapabilities::default(), None).unwrap();
    frames.push(("discover_anonymous", request(1, &Discover {}, &anonymous)));
    assert_golden(version, frames);
}
