use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::ErrorObject;
use crate::id::RequestId;
use crate::method::Method;
use crate::payload::{MAX_DEPTH, Payload};
use crate::sniff::sniff_id;

/// A text shorter than this cannot nest deeper than [`MAX_DEPTH`]: each level takes two bytes.
const SHALLOW_LENGTH: usize = 2 * (MAX_DEPTH + 1);

/// One JSON-RPC message, its payloads still undecoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Expects no answer.
    Notification {
        /// What it is about.
        method: Method,
        /// Its `params`, `{}` when absent.
        params: Payload,
    },
    /// Expects an answer with the same id.
    Request {
        /// Chosen by the sender.
        id: RequestId,
        /// What to do.
        method: Method,
        /// Its `params`, `{}` when absent.
        params: Payload,
    },
    /// Answers the request with the same id.
    Response {
        /// `None` only for an error about a request whose id could not be read.
        id: Option<RequestId>,
        /// How the request ended.
        outcome: Outcome,
    },
}

/// What an answer holds: the undecoded result, or the peer's error.
pub type Outcome = Result<Payload, ErrorObject>;

/// What one frame holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// An array of messages; only version 2025-03-26 has them. Each entry stands for itself.
    Batch(Vec<Result<Message, EnvelopeError>>),
    /// One message.
    Single(Message),
}

/// A frame is not a JSON-RPC message.
///
/// The sender is at fault. `id` is set where it can be read, so that the call it belongs to can be
/// failed instead of left to its deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
#[non_exhaustive]
pub struct EnvelopeError {
    /// The id in the broken frame, where it can be read.
    pub id: Option<RequestId>,
    /// What is wrong.
    pub fault: EnvelopeFault,
}

/// What makes a frame invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeFault {
    /// A response with both `result` and `error`, or a message with neither these nor a method.
    #[error("the message is neither a request, a notification nor a response")]
    Ambiguous,
    /// A batch with no entry, or with more than 100.
    #[error("a batch must have 1 to 100 entries, this one has {0}")]
    BatchSize(usize),
    /// Not JSON, not UTF-8, a repeated member, or a member of the wrong type.
    #[error("not a JSON-RPC message at line {line}, column {column}")]
    Malformed {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
    },
    /// Arrays and objects nested deeper than 127 levels.
    #[error("the message is nested deeper than 127 levels")]
    TooDeep,
    /// The `jsonrpc` member is missing or is not `"2.0"`.
    #[error("the member jsonrpc is missing or is not \"2.0\"")]
    Version,
}

/// Largest number of entries in a batch that is read.
const MAX_BATCH: usize = 100;

/// Reads one frame: one pass over the bytes, payloads stay slices of `frame`.
///
/// # Errors
///
/// The frame is not a JSON-RPC message; the error names the id where it can be read.
///
/// # Source
///
/// JSON-RPC 2.0, sections 4 to 6; MCP 2026-07-28, basic.
pub fn parse_frame(frame: &Bytes) -> Result<Frame, EnvelopeError> {
    let fail = |fault| EnvelopeError { id: sniff_id(frame), fault };
    if frame.len() >= SHALLOW_LENGTH && nests_too_deep(frame) {
        return Err(fail(EnvelopeFault::TooDeep));
    }
    if frame.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let entries: Vec<&RawValue> =
            serde_json::from_slice(frame).map_err(|error| fail(EnvelopeFault::malformed(&error)))?;
        if entries.is_empty() || entries.len() > MAX_BATCH {
            return Err(EnvelopeError { id: None, fault: EnvelopeFault::BatchSize(entries.len()) });
        }
        let read = |entry: &&RawValue| parse_message(&frame.slice_ref(entry.get().as_bytes()));
        return Ok(Frame::Batch(entries.iter().map(read).collect()));
    }
    parse_message(frame).map(Frame::Single)
}

fn parse_message(frame: &Bytes) -> Result<Message, EnvelopeError> {
    let fail = |fault| EnvelopeError { id: sniff_id(frame), fault };
    let members: Members<'_> =
        serde_json::from_slice(frame).map_err(|error| fail(EnvelopeFault::malformed(&error)))?;
    if !members.is_version_2 {
        return Err(fail(EnvelopeFault::Version));
    }
    let payload = |raw: &RawValue| Payload::from_checked(frame.slice_ref(raw.get().as_bytes()));
    let params = |raw: Option<&RawValue>| match raw {
        None => Payload::EMPTY,
        Some(raw) if raw.get() == "null" => Payload::EMPTY,
        Some(raw) => payload(raw),
    };
    match members {
        Members { method: Some(method), id: Id::Read(id), params: raw, .. } => {
            Ok(Message::Request { id, method, params: params(raw) })
        }
        Members { method: Some(method), id: Id::Absent, params: raw, .. } => {
            Ok(Message::Notification { method, params: params(raw) })
        }
        Members { method: None, id: Id::Read(id), result: Some(result), error: None, .. } => {
            Ok(Message::Response { id: Some(id), outcome: Ok(payload(result)) })
        }
        Members { method: None, id, result: None, error: Some(error), .. } => {
            Ok(Message::Response { id: id.read(), outcome: Err(read_error(error)) })
        }
        _ => Err(fail(EnvelopeFault::Ambiguous)),
    }
}

/// Reads an error object, however odd: a call must end with an error even if that error is malformed.
fn read_error(raw: &RawValue) -> ErrorObject {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        ErrorObject::new(crate::code::INTERNAL_ERROR, "the server sent a malformed error")
    })
}

/// Counts brackets outside texts. Malformed JSON may be miscounted; the parser then rejects it.
fn nests_too_deep(text: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => loop {
                match bytes.next() {
                    Some(b'\\') => drop(bytes.next()),
                    Some(b'"') | None => break,
                    Some(_) => {}
                }
            },
            _ => {}
        }
    }
    false
}

impl EnvelopeFault {
    fn malformed(error: &serde_json::Error) -> Self {
        Self::Malformed { line: error.line(), column: error.column() }
    }
}

#[derive(Default)]
enum Id {
    #[default]
    Absent,
    Null,
    Read(RequestId),
}

impl Id {
    fn read(self) -> Option<RequestId> {
        match self {
            Self::Absent | Self::Null => None,
            Self::Read(id) => Some(id),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<RequestId>::deserialize(deserializer).map(|id| id.map_or(Self::Null, Self::Read))
    }
}

/// The members of an envelope, each at most once.
#[derive(Default)]
struct Members<'a> {
    is_version_2: bool,
    id: Id,
    method: Option<Method>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::default();
        let mut seen = [false; 6];
        while let Some(key) = map.next_key::<Key>()? {
            if seen.get_mut(key as usize).is_some_and(|seen| std::mem::replace(seen, true)) {
                return Err(de::Error::custom("a member is repeated"));
            }
            match key {
                Key::JsonRpc => members.is_version_2 = map.next_value::<&RawValue>()?.get() == "\"2.0\"",
                Key::Id => members.id = map.next_value()?,
                Key::Method => members.method = Some(map.next_value::<MethodName>()?.0),
                Key::Params => members.params = Some(map.next_value()?),
                Key::Result => members.result = Some(map.next_value()?),
                // `"error": null` beside a result is common among sloppy servers and says nothing.
                Key::Error => {
                    let raw: &RawValue = map.next_value()?;
                    members.error = (raw.get() != "null").then_some(raw);
                }
                Key::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(members)
    }
}

#[derive(Clone, Copy)]
enum Key {
    JsonRpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "jsonrpc" => Key::JsonRpc,
                    "id" => Key::Id,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    "result" => Key::Result,
                    "error" => Key::Error,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct MethodName(Method);

impl<'de> Deserialize<'de> for MethodName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = MethodName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a method name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<MethodName, E> {
                Ok(MethodName(Method::from_wire(name)))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, EnvelopeError> {
        match parse_frame(&Bytes::copy_from_slice(text.as_bytes()))? {
            Frame::Single(message) => Ok(message),
            Frame::Batch(_) => panic!("a batch"),
        }
    }

    #[test]
    fn classifies_each_kind_by_its_members() {
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            Ok(Message::Request { id: 1.into(), method: Method::PING, params: Payload::EMPTY })
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#),
            Ok(Message::Notification { method: Method::INITIALIZED, params: Payload::EMPTY })
        );
        assert!(matches!(
            parse(r#"{"result":{},"id":"a","jsonrpc":"2.0"}"#),
            Ok(Message::Response { outcome: Ok(_), .. })
        ));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#),
            Ok(Message::Response { id: None, outcome: Err(_) })
        ));
    }

    #[test]
    fn payloads_share_the_frame() {
        let frame = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,2]}}"#);
        let Ok(Frame::Single(Message::Response { outcome: Ok(result), .. })) = parse_frame(&frame) else {
            panic!("not a response");
        };
        assert_eq!(result.as_str(), r#"{"a":[1,2]}"#);
        assert!(frame.as_ptr_range().contains(&result.as_bytes().as_ptr()));
    }

    #[test]
    fn f104_repeated_members_are_refused_and_name_their_call() {
        let error = parse(r#"{"jsonrpc":"2.0","id":5,"result":1,"result":2}"#).unwrap_err();
        assert_eq!(error.id, Some(5.into()));
        assert!(matches!(error.fault, EnvelopeFault::Malformed { .. }));
    }

    #[test]
    fn f102_a_wrong_version_is_refused() {
        let error = parse(r#"{"jsonrpc":"1.0","id":5,"result":1}"#).unwrap_err();
        assert_eq!((error.id, error.fault), (Some(5.into()), EnvelopeFault::Version));
    }

    #[test]
    fn f103_depth_is_limited_also_where_payloads_stay_raw() {
        let nested = |levels: usize| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            parse(&format!(r#"{{"jsonrpc":"2.0","id":9,"result":{open}{close}}}"#))
        };
        assert!(nested(MAX_DEPTH - 1).is_ok());
        for levels in [MAX_DEPTH, 10_000, 1_000_000] {
            let error = nested(levels).unwrap_err();
            assert_eq!((error.id, error.fault), (Some(9.into()), EnvelopeFault::TooDeep));
        }
    }

    #[test]
    fn neither_or_both_of_result_and_error_is_refused() {
        for text in [
            r#"{"jsonrpc":"2.0","id":5}"#,
            r#"{"jsonrpc":"2.0","id":5,"result":1,"error":{"code":1,"message":""}}"#,
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.id, error.fault), (Some(5.into()), EnvelopeFault::Ambiguous));
        }
    }
}
