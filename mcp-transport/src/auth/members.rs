//! Reads members of JSON objects that others wrote: null, an empty text and a value of a wrong kind
//! count as absent, so that one bad member costs nothing but itself.

use mcp_proto::Secret;
use serde_json::{Map, Value};

/// Most texts of a list.
const MAX_TEXTS: usize = 256;

/// The object that a body holds.
pub(super) fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

pub(super) fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The texts of a list, without those that are no texts; `None` if it is no list.
pub(super) fn texts(object: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
    let list = object.get(name)?.as_array()?;
    let texts = list.iter().filter_map(Value::as_str).filter(|text| !text.is_empty());
    Some(texts.take(MAX_TEXTS).map(str::to_owned).collect())
}

pub(super) fn flag(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// A number of seconds, written as a number or as a text of one.
pub(super) fn seconds(object: &Map<String, Value>, name: &str) -> Option<f64> {
    let number = match object.get(name)? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// Takes a text out of an object, so that no copy stays behind.
pub(super) fn take_secret(object: &mut Map<String, Value>, name: &str) -> Option<Secret> {
    match object.remove(name)? {
        Value::String(text) if !text.is_empty() => Some(Secret::new(text)),
        _ => None,
    }
}

pub(super) fn take_text(object: &mut Map<String, Value>, name: &str) -> Option<String> {
    let text = text(object, name);
    object.remove(name);
    text
}

pub(super) fn take_texts(object: &mut Map<String, Value>, name: &str) -> Option<Vec<String>> {
    let texts = texts(object, name);
    object.remove(name);
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_counts_as_absent() {
        let body = br#"{"null": null, "empty": "", "number": 7, "text": "x", "list": ["a", 1, "", "b", null],
            "seconds": "3600 ", "float": 1.5, "odd": "soon", "huge": 1e999, "yes": true, "word": "true"}"#;
        // A number that no float can hold makes the whole text unreadable.
        assert_eq!(object(body), None);
        let body = String::from_utf8(body.to_vec()).unwrap().replace("1e999", "\"1e999\"");
        let object = object(body.as_bytes()).unwrap();
        for name in ["null", "empty", "number", "missing", "list"] {
            assert_eq!(text(&object, name), None, "{name}");
        }
        assert_eq!(text(&object, "text").as_deref(), Some("x"));
        assert_eq!(texts(&object, "list").unwrap(), ["a", "b"]);
        for name in ["null", "text", "missing"] {
            assert_eq!(texts(&object, name), None, "{name}");
        }
        let found = ["seconds", "float", "number", "odd", "huge", "null"].map(|name| seconds(&object, name));
        assert_eq!(found, [Some(3600.0), Some(1.5), Some(7.0), None, None, None]);
        assert_eq!(["yes", "word", "null"].map(|name| flag(&object, name)), [true, false, false]);
    }

    #[test]
    fn what_is_taken_is_gone() {
        let mut object = object(br#"{"a": "canary", "b": "", "c": ["x"]}"#).unwrap();
        assert_eq!(take_secret(&mut object, "a").unwrap().expose(), "canary");
        assert_eq!(take_secret(&mut object, "b"), None);
        assert_eq!(take_texts(&mut object, "c").unwrap(), ["x"]);
        assert!(object.is_empty());
    }
}
