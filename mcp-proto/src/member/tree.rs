//! JSON as a tree: `{"":0},` is seven bytes in a frame and hundreds in a tree, which is therefore kept
//! within the [`allowance`].

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::allowance::{self, TOO_MANY};
use crate::member::{Inside, Member, read_list};

/// The first entry of an object takes a node with room for eleven.
const FIRST: usize = 4;

impl Member for Value {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        read_list(entries).map(Value::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key()? {
            let entries = if members.is_empty() { FIRST } else { 1 };
            if !allowance::take(entries * size_of::<(String, Value)>()) {
                return Err(A::Error::custom(TOO_MANY));
            }
            members.insert(name, map.next_value_seed(Inside::default())?);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::decode_with;

    fn read(text: &str) -> Option<Value> {
        decode_with(text, |reader| Value::read(reader)).ok()
    }

    #[test]
    fn a_tree_is_what_serde_makes_of_it() {
        for text in [
            "null",
            "true",
            "-1",
            "18446744073709551615",
            "1.5",
            r#""a\n""#,
            r#"[[],{},[1,"b",{"c":[null,false]}]]"#,
            r#"{"b":{"a":1},"a":[],"":{"":""},"b":2}"#,
        ] {
            assert_eq!(read(text), serde_json::from_str(text).ok(), "{text}");
        }
        assert_eq!(read(r#""\ud800""#), None);
        assert_eq!(read("1e400"), None);
    }

    #[test]
    fn a_tree_of_many_empty_entries_is_refused() {
        let objects = |count: usize| format!("[{}0]", r#"{"":0},"#.repeat(count));
        assert!(read(&objects(1000)).is_some());
        assert_eq!(read(&objects(100_000)), None);
        assert_eq!(read(&format!("[{}0]", "[0],".repeat(1_000_000))), None);
    }
}
