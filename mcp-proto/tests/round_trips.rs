//! What was read of any message is written with the same meaning, members that nobody knows included.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use mcp_proto::RawJson;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One message in full, and what becomes of it when it is read and written again.
struct Sample {
    name: &'static str,
    value: Value,
    again: fn(&Value) -> Value,
}

fn again<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let read: T = RawJson::encode(value).unwrap().decode().unwrap_or_else(|error| panic!("{error}: {value}"));
    serde_json::to_value(&read).unwrap()
}

macro_rules! samples {
    ($($type:ident $(:: $part:ident)* => $value:tt,)*) => {
        vec![$(Sample {
            name: stringify!($type $(:: $part)*),
            value: json!($value),
            again: again::<mcp_proto::$type $(:: $part)*>,
        },)*]
    };
}

fn samples() -> Vec<Sample> {
    samples! {
        CallToolResult => {
            "content": [
                {"type": "text", "text": "t", "annotations": {"audience": ["user"], "priority": 0.5}},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
                {"type": "resource_link", "uri": "a:b", "name": "n"},
                {"type": "hologram", "depth": 3},
            ],
            "structuredContent": {"a": [1, null]}, "isError": true, "_meta": {"x": 1},
        },
        CompleteResult => {"completion": {"values": ["a"], "total": 2, "hasMore": true}},
        CreateMessage => {
            "messages": [{"role": "user", "content": {"type": "text", "text": "t"}}], "maxTokens": 1,
            "modelPreferences": {"hints": [{"name": "m"}]}, "toolChoice": {"mode": "auto"},
            "tools": [{"name": "t", "inputSchema": {}}],
        },
        CreateMessageResult => {"role": "assistant", "content": {"type": "text", "text": "t"}, "model": "m"},
        DiscoverResult => {
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 1,
        },
        ElicitResult => {"action": "cancel"},
        GetPromptResult => {"messages": [{"role": "user", "content": {"type": "text", "text": "t"}}]},
        InitializeResult => {
            "protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
            "serverInfo": {"name": "s", "version": "1", "icons": [{"src": "a"}]},
        },
        InputRequired => {"inputRequests": {"k": {"method": "roots/list"}}, "requestState": "s"},
        ListPromptsResult => {"prompts": [{"name": "p", "arguments": [{"name": "a", "required": true}]}]},
        ListResourcesResult => {"resources": [{"uri": "a:b", "name": "n", "annotations": {"priority": 1.5}}]},
        ListResourceTemplatesResult => {"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "n"}]},
        ListRootsResult => {"roots": [{"uri": "file:///a", "name": "a"}]},
        ListToolsResult => {
            "tools": [{
                "name": "t", "inputSchema": {"type": "object", "properties": {}}, "outputSchema": true,
                "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "optional"},
            }],
            "nextCursor": "", "ttlMs": 5, "cacheScope": "private",
        },
        LogMessage => {"level": "info", "data": {"a": 1}},
        Progress => {"progressToken": 1, "progress": 0.5},
        ReadResourceResult => {"contents": [{"uri": "a:b", "blob": "AA=="}]},
        ResourceUpdated => {"uri": "a:b"},
        SubscriptionAcknowledged => {"notifications": {"toolsListChanged": true}},
        tasks::ListTasksResult => {"tasks": [{"taskId": "t", "status": "working"}]},
        tasks::Task => {"taskId": "t", "status": "completed", "result": {"content": []}},
        skills::GetSkillResult => {
            "skill": {"uri": "u", "frontmatter": {"name": "n", "description": "d"}, "resources": "dynamic"},
        },
    }
}

/// Objects whose members are the peer's own names, so that a foreign one would be an entry.
const MAPS: &[&str] = &["inputRequests"];

/// Puts `member` into the object of `value` whose turn it is, counted from the outside.
fn put(value: &mut Value, turn: &mut usize, member: &(String, Value)) -> bool {
    match value {
        Value::Array(entries) => entries.iter_mut().any(|entry| put(entry, turn, member)),
        Value::Object(members) => {
            if *turn == 0 {
                members.insert(member.0.clone(), member.1.clone());
                return true;
            }
            *turn -= 1;
            members.iter_mut().any(|(name, inner)| {
                if MAPS.contains(&name.as_str()) {
                    inner.as_object_mut().unwrap().values_mut().any(|entry| put(entry, turn, member))
                } else {
                    put(inner, turn, member)
                }
            })
        }
        _ => false,
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

#[test]
fn each_sample_is_written_as_it_was_read() {
    for sample in samples() {
        assert_eq!((sample.again)(&sample.value), sample.value, "{}", sample.name);
    }
}

proptest! {
    #[test]
    fn members_that_nobody_knows_survive_wherever_they_are(
        members in prop::collection::vec(("x[ -~é]{0,6}", any_value(), 0..12_usize), 1..5),
    ) {
        for sample in samples() {
            let mut value = sample.value.clone();
            for (name, member, turn) in &members {
                put(&mut value, &mut turn.clone(), &(name.clone(), member.clone()));
            }
            prop_assert_eq!((sample.again)(&value), value, "{}", sample.name);
        }
    }
}
