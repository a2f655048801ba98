pub(crate) mod look;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::allowance;
use crate::json::reader::{ReadError, Reader, meaning_of};
use crate::json::scratch::Scratch;
use crate::json::writer::write_json;
use crate::last_wins::keep_last;

/// Deepest nesting of arrays and objects in a message that is read.
pub(crate) const MAX_DEPTH: usize = 127;

/// What a [`DecodeError`] says of a text or number that breaks the rules of JSON itself.
pub(crate) const SYNTAX: &str = "not valid JSON";

/// One JSON value, kept as the text it arrived in.
///
/// A payload is a slice of the frame it came with: making one copies nothing, and it is decoded
/// once, by the type that asked for it. The text is known to be one well-formed JSON value nested
/// at most 127 levels deep; numbers beyond every type, lone surrogates and repeated members are left
/// for the decoder to judge. Two payloads are equal when their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Bytes);

/// A JSON value is not of the shape that was asked for, or a value has no JSON form.
///
/// When decoding, the server is at fault. The text names what was expected and where, never what was
/// received.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("{message}{}", Place(*line, *column))]
pub struct DecodeError {
    message: Cow<'static, str>,
    line: usize,
    column: usize,
}

impl Payload {
    /// The empty object `{}`.
    pub const EMPTY: Self = Self(Bytes::from_static(b"{}"));

    /// Writes `value` as JSON.
    ///
    /// # Errors
    ///
    /// The value has no JSON form (a map with keys that are no texts, a failing `Serialize`).
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, DecodeError> {
        let mut text = Scratch::take();
        write_json(&mut text, value)?;
        Ok(Self(text.into_bytes()))
    }

    /// Takes a text that is already known to be one JSON value within the depth limit.
    pub(crate) fn from_checked(text: Bytes) -> Self {
        Self(text)
    }

    /// Reads the value as `T`. Of a member that is repeated, the last one counts.
    ///
    /// A message of this crate takes at most eight times the length of the text, and 4 MiB. Where members
    /// are repeated, sorting them out takes at most six times the length before it is read again.
    ///
    /// # Errors
    ///
    /// The value is not of that shape, or has lists of more entries than its length accounts for: some
    /// tens of thousands that say almost nothing.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        decode(self.as_str())
    }

    /// The JSON text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The JSON text, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The JSON text as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Checked when the frame was parsed; a payload that is not UTF-8 cannot be made.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }
}

/// Reads one JSON text; where a member is repeated, its last value counts.
pub(crate) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    decode_with(text, |deserializer| T::deserialize(deserializer))
}

/// Reads one JSON text by `read`, within the [`allowance`] of its length. It must be known to be well
/// formed, see [`Reader`].
pub(crate) fn decode_with<T>(
    text: &str,
    read: impl Fn(&mut Reader<'_>) -> Result<T, ReadError>,
) -> Result<T, DecodeError> {
    let read = |text: &str| {
        let mut reader = Reader::new(text);
        let whole = read(&mut reader).and_then(|value| reader.end().map(|()| value));
        whole.map_err(|error| {
            let (line, column) = reader.place();
            DecodeError { message: error.0, line, column }
        })
    };
    allowance::within(text.len(), || {
        let left = allowance::left();
        let again = || {
            // What the quick look has made is gone.
            allowance::set(left);
            look::last(|| read(text))
        };
        look::first(|| read(text)).unwrap_or_else(again).or_else(|error| {
            // What has no meaning gets none by looking again.
            if error.is_syntax() {
                return Err(error);
            }
            // serde refuses repeated members, and tells so only in words. This is the rare path: it may
            // look for them whatever else the error is.
            let retried = keep_last(text).and_then(|rewritten| look::last(|| read(&rewritten)).ok());
            retried.ok_or(error)
        })
    })
}

impl DecodeError {
    pub(crate) fn new(error: &serde_json::Error) -> Self {
        Self { message: meaning_of(error), line: error.line(), column: error.column() }
    }

    /// Whether the text breaks the rules of JSON, rather than those of a type.
    pub(crate) fn is_syntax(&self) -> bool {
        self.message == SYNTAX
    }

    /// An error of this crate's own, about a value that is being written.
    pub(crate) const fn about(message: &'static str) -> Self {
        Self { message: Cow::Borrowed(message), line: 0, column: 0 }
    }
}

struct Place(usize, usize);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(0, _) => Ok(()),
            Self(line, column) => write!(f, " at line {line}, column {column}"),
        }
    }
}

/// Shows the length alone: payloads are untrusted and may hold secrets.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::{CallToolResult, Progress, RawJson};

    fn payload(text: &'static str) -> Payload {
        Payload::from_checked(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn f104_in_a_payload_the_last_of_repeated_members_wins() {
        let result: CallToolResult =
            payload(r#"{"isError":true,"content":[],"isError":false,"structuredContent":{"a":1,"a":2}}"#)
                .decode()
                .unwrap();
        assert!(!result.is_error);
        let structured: BTreeMap<String, u8> = result.structured_content.unwrap().decode().unwrap();
        assert_eq!(structured, BTreeMap::from([("a".to_owned(), 2)]));
    }

    #[test]
    fn f105_numbers_pass_unchanged_or_as_an_error() {
        for number in [
            "1e400",
            "-1e400",
            "18446744073709551616",
            "-0",
            "0.1000",
            "1E2",
            "123456789012345678901234567890",
        ] {
            let text: &'static str = format!(r#"{{"structuredContent":{{"n":{number}}}}}"#).leak();
            let result: CallToolResult = payload(text).decode().unwrap();
            assert_eq!(result.structured_content.unwrap().get(), format!(r#"{{"n":{number}}}"#));
        }
        assert!(payload(r#"{"progressToken":1,"progress":1e400}"#).decode::<Progress>().is_err());
        assert!(
            payload(r#"{"progressToken":18446744073709551616,"progress":1}"#).decode::<Progress>().is_err()
        );
        assert!(payload("18446744073709551616").decode::<u64>().is_err());
        assert!(payload("256").decode::<u8>().is_err());
    }

    #[test]
    fn f106_a_lone_surrogate_is_an_error_where_it_is_read() {
        let text = r#"{"content":[],"structuredContent":"\ud800"}"#;
        let result: CallToolResult = payload(text).decode().unwrap();
        assert!(result.structured_content.unwrap().decode::<String>().is_err());
        assert!(payload(r#"{"progressToken":"\udc00","progress":1}"#).decode::<Progress>().is_err());
        for text in [
            r#"{"content":[{"type":"text","text":"\ud800"}]}"#,
            r#"{"content":[{"type":"text","text":"\ud800\u0041"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"a","name":"\udfff"}]}"#,
        ] {
            assert!(payload(text).decode::<CallToolResult>().is_err(), "{text}");
        }
        let pair = payload(r#"{"content":[{"type":"text","text":"\ud83e\udd80"}]}"#);
        assert_eq!(pair.decode::<CallToolResult>().unwrap().content, [crate::Content::text("🦀")]);
    }

    #[test]
    fn a_text_without_a_meaning_is_read_once() {
        for (text, expected) in [(r#"{"a":"\ud800","a":1}"#, 1), (r#"{"a":true,"a":1}"#, 2)] {
            let reads = std::cell::Cell::new(0);
            let read = decode_with(text, |reader| {
                reads.set(reads.get() + 1);
                BTreeMap::<String, u8>::deserialize(reader)
            });
            assert_eq!((reads.get(), read.is_ok()), (expected, expected == 2), "{text}");
        }
    }

    #[test]
    fn an_error_says_what_was_expected_and_never_what_came() {
        let error =
            |text: &'static str| payload(text).decode::<BTreeMap<String, u8>>().unwrap_err().to_string();
        for (text, expected) in [
            (r#"{"a":"hunter2"}"#, "expected u8 at line 1, column 14"),
            (r#"{"a":"x, expected hunter2"}"#, "expected u8 at line 1, column 26"),
            (r#"{"a":123456}"#, "expected u8 at line 1, column 11"),
            (r#"["hunter2"]"#, "expected a map at line 1, column 0"),
            (r#"{"a":"\ud800"}"#, "not valid JSON at line 1, column 12"),
        ] {
            let shown = error(text);
            assert!(!shown.contains("hunter2") && !shown.contains("123456"), "{shown}");
            assert_eq!(shown.split(" at ").next(), expected.split(" at ").next(), "{text}");
        }
        assert!(payload("{}").decode::<Progress>().unwrap_err().to_string().starts_with("missing field `"));
        let custom = serde_json::from_str::<RejectsAll>("\"hunter2\"").map_err(|e| DecodeError::new(&e));
        assert!(custom.unwrap_err().to_string().starts_with("the value does not fit"));
    }

    #[derive(Debug)]
    struct RejectsAll;

    impl<'de> Deserialize<'de> for RejectsAll {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            Err(serde::de::Error::custom(format!("{text} is refused")))
        }
    }

    #[test]
    fn debug_output_shows_no_content() {
        assert_eq!(format!("{:?}", payload("\"hunter2\"")), "Payload(9 bytes)");
        assert_eq!(format!("{:?}", RawJson::from_text("\"hunter2\"").unwrap()), "RawJson(9 bytes)");
    }
}
