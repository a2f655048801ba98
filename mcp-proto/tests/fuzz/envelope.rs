//! Any bytes as a frame.

use bytes::Bytes;
use mcp_proto::{
    EnvelopeError, ErrorObject, Frame, Message, MetaMembers, Payload, encode_error, encode_notification,
    encode_request, encode_result, parse_frame, sniff_id,
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// What a frame may nest at most, counted here in another way than in the crate.
const MAX_DEPTH: usize = 127;

/// Fails if reading `data` as a frame breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    match parse_frame(&frame) {
        Ok(Frame::Single(message)) => {
            assert_is_json(data);
            assert_kind(&message, data);
            assert_message(&message);
            assert_sniffed(&message, data);
        }
        Ok(Frame::Batch(entries)) => {
            assert_is_json(data);
            assert!((1..=100).contains(&entries.len()));
            for entry in entries {
                match entry {
                    Ok(message) => assert_message(&message),
                    Err(error) => assert_shown(&error),
                }
            }
        }
        Err(error) => assert_shown(&error),
    }
}

fn assert_is_json(data: &[u8]) {
    serde_json::from_slice::<IgnoredAny>(data).expect("what is read as a frame is JSON");
    assert!(std::str::from_utf8(data).is_ok());
}

/// A plain reading of the members comes to the same kind of message.
fn assert_kind(message: &Message, data: &[u8]) {
    // A number beyond every type, or a lone surrogate in a payload, can stay raw but has no tree.
    let Ok(tree) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let is_there = |name: &str| tree.get(name).is_some_and(|member| !member.is_null());
    assert_eq!(tree.get("jsonrpc").and_then(|version| version.as_str()), Some("2.0"));
    match message {
        Message::Notification { method, .. } => {
            assert!(is_there("method") && tree.get("id").is_none());
            assert_eq!(tree.get("method").and_then(|name| name.as_str()), Some(method.as_str()));
        }
        Message::Request { .. } => assert!(is_there("method") && is_there("id")),
        Message::Response { id, outcome } => {
            assert!(!is_there("method"));
            assert_eq!(id.is_some(), is_there("id"));
            assert_eq!(outcome.is_err(), is_there("error"));
            assert!(outcome.is_err() || tree.get("result").is_some());
        }
    }
}

/// A message is written as a frame that reads as the same message.
fn assert_message(message: &Message) {
    let none = MetaMembers::new();
    let written = match message {
        Message::Notification { method, params } => {
            assert_payload(params);
            encode_notification(method, &raw(params), &none)
        }
        Message::Request { id, method, params } => {
            assert_payload(params);
            // With members of our own it is still one message, whatever blanks the parameters have.
            if let Ok(frame) = encode_request(id, method, &raw(params), &MetaMembers::new().with_progress()) {
                assert_is_json(&frame);
            }
            encode_request(id, method, &raw(params), &none)
        }
        Message::Response { id: Some(id), outcome: Ok(result) } => {
            assert_payload(result);
            Ok(encode_result(id, result))
        }
        Message::Response { id, outcome: Ok(_) } => panic!("a result without an id: {id:?}"),
        Message::Response { id, outcome: Err(error) } => {
            assert_error(error);
            match id {
                Some(id) => encode_error(id, error),
                None => return,
            }
        }
    };
    let Ok(frame) = written else {
        let (Message::Notification { params, .. } | Message::Request { params, .. }) = message else {
            panic!("an answer could not be written");
        };
        assert!(!params.as_str().starts_with('{'), "only parameters that are no object are refused");
        return;
    };
    assert!(!frame.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "a frame is one line");
    match parse_frame(&frame) {
        Ok(Frame::Single(read)) => assert_eq!(plain(&read), plain(message)),
        other => panic!("{message:?} reads as {other:?}"),
    }
}

/// A message without the line breaks that a frame cannot have.
fn plain(message: &Message) -> String {
    let text = match message {
        Message::Notification { method, params } => format!("{} {}", method.as_str(), params.as_str()),
        Message::Request { id, method, params } => {
            format!(
                "{} {} {}",
                serde_json::to_string(id).unwrap_or_default(),
                method.as_str(),
                params.as_str()
            )
        }
        Message::Response { id, outcome } => {
            let outcome = match outcome {
                Ok(result) => result.as_str().to_owned(),
                Err(error) => serde_json::to_string(error).unwrap_or_default(),
            };
            format!("{} {outcome}", serde_json::to_string(id).unwrap_or_default())
        }
    };
    text.replace(['\n', '\r'], " ")
}

fn raw(payload: &Payload) -> &RawValue {
    serde_json::from_str(payload.as_str()).expect("a payload is one JSON value")
}

fn assert_payload(payload: &Payload) {
    let text = raw(payload).get();
    assert_eq!(text, payload.as_str(), "a payload begins and ends with its value");
    assert!(depth(text) <= MAX_DEPTH);
    // Whatever it holds, reading it ends, and never in a panic.
    let _ = payload.decode::<serde_json::Value>();
}

fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for letter in text.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            '[' | '{' if !in_text => depth += 1,
            ']' | '}' if !in_text => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The id that is looked for in broken frames is never one that the whole frame does not have.
fn assert_sniffed(message: &Message, data: &[u8]) {
    let expected = match message {
        Message::Response { id, .. } => id.as_ref(),
        _ => None,
    };
    assert_eq!(sniff_id(data).as_ref(), expected);
    if let Message::Response { .. } = message {
        let half = data.get(..data.len() / 2).unwrap_or_default();
        assert!(sniff_id(half).is_none_or(|found| Some(&found) == expected));
    }
}

fn assert_error(error: &ErrorObject) {
    let shown = error.to_string();
    assert!(shown.len() < 64 * 1024 && !shown.chars().any(char::is_control), "{shown:?}");
}

fn assert_shown(error: &EnvelopeError) {
    let shown = format!("{error} {:?}", error.id);
    assert!(shown.len() < 1024 && !shown.chars().any(char::is_control), "{shown:?}");
}
