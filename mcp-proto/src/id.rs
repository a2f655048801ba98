use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::member::integer::whole;

/// Names one request inside one connection: an integer or a string, never `null`.
///
/// `1` and `"1"` are different ids. A float without a fraction (`1.0`) is read as the integer it
/// names, as long as its magnitude is below 2⁴⁸; anything a 64-bit signed integer cannot hold is refused
/// rather than rounded to a neighbour.
///
/// # Source
///
/// JSON-RPC 2.0, section 4; MCP, basic/messages.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestId {
    /// An integer.
    Number(i64),
    /// A text, compared byte by byte.
    String(Arc<str>),
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes numbers plainly and texts quoted, escaped and cut, so that an id is safe in a log line.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "\"{}\"", crate::escape::escape(text, 64)),
        }
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RequestId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a string or an integer")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<RequestId, E> {
        Ok(RequestId::Number(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<RequestId, E> {
        i64::try_from(number)
            .map(RequestId::Number)
            .map_err(|_| E::custom("id is beyond 64-bit signed integers"))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<RequestId, E> {
        let number = whole(number).ok_or_else(|| E::custom("id is a number but not an exact integer"))?;
        Ok(RequestId::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RequestId, E> {
        Ok(RequestId::String(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<RequestId> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn f098_only_exact_ids_are_read() {
        let table: &[(&str, Option<RequestId>)] = &[
            ("1", Some(1.into())),
            ("-7", Some((-7).into())),
            ("\"1\"", Some("1".into())),
            ("1.0", Some(1.into())),
            ("-0", Some(0.into())),
            ("-0.0", Some(0.into())),
            ("9223372036854775807", Some(i64::MAX.into())),
            ("9223372036854775808", None),
            ("18446744073709551616", None),
            ("4711.000", Some(4711.into())),
            ("281474976710655.0", Some(281_474_976_710_655.into())),
            ("281474976710656.0", None),
            ("9007199254740991.0", None),
            ("9007199254740993.0", None),
            ("9007199254740993", Some(9_007_199_254_740_993.into())),
            ("1.5", None),
            ("1e300", None),
            ("null", None),
            ("true", None),
            ("[]", None),
            ("{}", None),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), *expected, "{text}");
        }
    }

    #[test]
    fn a_number_and_its_text_are_different_ids() {
        assert_ne!(read("1"), read("\"1\""));
    }

    proptest! {
        #[test]
        fn b2_an_id_is_an_integer_or_a_text_and_is_read_as_it_was_written(number in any::<i64>(), text in any::<String>()) {
            for id in [RequestId::from(number), RequestId::from(text.as_str())] {
                let written = serde_json::to_string(&id).unwrap();
                prop_assert!(written != "null");
                prop_assert_eq!(read(&written), Some(id));
            }
            prop_assert_eq!(read(&format!("[{number}]")), None);
        }
    }

    #[test]
    fn display_is_escaped_and_short() {
        assert_eq!(RequestId::from("a\u{1b}[2J").to_string(), "\"a\\u{1b}[2J\"");
        assert!(RequestId::from("x".repeat(1000).as_str()).to_string().len() < 100);
    }
}
