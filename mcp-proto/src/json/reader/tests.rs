//! Whatever is read here is read by serde_json as well, and must come to the same.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::*;
use crate::RequestId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    A,
    B,
}

#[derive(Debug, PartialEq, Deserialize)]
enum Kinds {
    A,
    New(u8),
    Tuple(u8, String),
    Struct { a: u8 },
}

#[derive(Debug, PartialEq, Deserialize)]
struct Struct {
    a: Option<String>,
    #[serde(default)]
    b: Vec<u8>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct New(u64);

#[derive(Debug, PartialEq, Deserialize)]
struct Unit;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Text(String),
    Number(f64),
    Struct { a: Box<Untagged> },
}

#[derive(Debug, PartialEq)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl<'de> Visitor<'de> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

/// A raw value, to be compared by its text.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Raw(Box<RawValue>);

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    let mut reader = Reader::new(text);
    let value = T::deserialize(&mut reader)?;
    reader.end().map(|()| value)
}

#[track_caller]
fn assert_alike<T: DeserializeOwned + Debug + PartialEq>(text: &str) {
    let expected = serde_json::from_str::<T>(text).map_err(ReadError::from);
    assert_eq!(read::<T>(text), expected, "{} from {text}", std::any::type_name::<T>());
}

/// What is wrong with a name that is no number is said in other words.
#[track_caller]
fn assert_alike_by_name<K: DeserializeOwned + Debug + Ord>(text: &str) {
    let expected = serde_json::from_str::<BTreeMap<K, Value>>(text).ok();
    assert_eq!(read(text).ok(), expected, "names of {} from {text}", std::any::type_name::<K>());
}

#[track_caller]
fn assert_all_alike(text: &str) {
    assert_alike::<Value>(text);
    assert_alike::<IgnoredAny>(text);
    assert_alike::<Raw>(text);
    assert_alike::<BTreeMap<String, Raw>>(text);
    assert_alike::<Vec<Value>>(text);
    assert_alike::<(Value, Option<u8>)>(text);
    assert_alike::<[u64; 2]>(text);
    assert_alike::<Option<Option<String>>>(text);
    assert_alike::<(bool, char, ())>(text);
    assert_alike::<bool>(text);
    assert_alike::<char>(text);
    assert_alike::<String>(text);
    assert_alike::<()>(text);
    assert_alike::<Unit>(text);
    assert_alike::<New>(text);
    assert_alike::<Struct>(text);
    assert_alike::<Bytes>(text);
    assert_alike::<i8>(text);
    assert_alike::<i16>(text);
    assert_alike::<i32>(text);
    assert_alike::<i64>(text);
    assert_alike::<i128>(text);
    assert_alike::<u8>(text);
    assert_alike::<u16>(text);
    assert_alike::<u32>(text);
    assert_alike::<u64>(text);
    assert_alike::<u128>(text);
    assert_alike::<f32>(text);
    assert_alike::<f64>(text);
    assert_alike::<Number>(text);
    assert_alike::<RequestId>(text);
    assert_alike::<Word>(text);
    assert_alike::<Vec<Kinds>>(text);
    assert_alike::<Untagged>(text);
    assert_alike_by_name::<u8>(text);
    assert_alike_by_name::<i128>(text);
    if text.is_ascii() {
        // Otherwise serde_json (1.0.154) cuts a character into pieces for its error.
        assert_alike_by_name::<bool>(text);
    }
    assert_alike_by_name::<char>(text);
    assert_alike_by_name::<Option<String>>(text);
    assert_alike_by_name::<Word>(text);
    assert_alike_by_name::<()>(text);
    assert_alike_by_name::<Vec<u8>>(text);
}

#[test]
fn every_type_is_read_as_serde_json_reads_it() {
    for text in [
        "null",
        " true\n",
        "false",
        "0",
        "-0",
        "-0.0",
        "7",
        "-7",
        "300",
        "123456789012345678",
        "1234567890123456789",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "170141183460469231731687303715884105727",
        "1.0",
        "0.1e-3",
        "100E2",
        "1e400",
        "\"\"",
        "\"a\"",
        "\"b\\n\\u00e9\\ud83e\\udd80\"",
        "\"\\ud800\"",
        "\"é\"",
        "\"some text that is longer than a word or two, and longer than one block of them\"",
        "[]",
        "[ ]",
        "[1,2]",
        "[1,2,3]",
        "[ {} , null ]",
        "[true,\"a\",null]",
        "[\"A\",{\"New\":1},{\"Tuple\":[1,\"b\"]},{\"Struct\":{\"a\":2}}]",
        "[{\"New\":1,\"A\":2}]",
        "[{\"None\":1}]",
        "{}",
        "{ }",
        "{\"a\":\"b\"}",
        "{\"a\":null,\"b\":[1,2],\"c\":{\"d\":[\"]}\"]}}",
        "{\"a\":1}",
        "{\"b\":[256]}",
        "{\"a\":\"b\",\"a\":\"c\"}",
        "{\"a\":{\"a\":1.5}}",
        "{\"1\":1,\"2\":\"2\"}",
        "{\"-1\":1}",
        "{\"1.0\":1}",
        "{\"01\":1}",
        "{\"256\":1}",
        "{\" 1\":1}",
        "{\"1 \":1}",
        "{\"true\":1,\"false\":2}",
        "{\"truer\":1}",
        "{\"\\u0061\":1}",
        "{\"\\ud800\":1}",
        "{\"a\\\"\" : [ -1 , 2e1 ] }",
    ] {
        assert_all_alike(text);
    }
}

#[test]
fn nesting_is_limited_as_deep_as_in_frames() {
    let arrays = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}0{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    for levels in [126, 127, 128] {
        assert_alike::<Value>(&arrays(levels));
        assert_alike::<Value>(&objects(levels));
    }
    let sibling = format!("[{},{}]", arrays(126), objects(126));
    assert_alike::<Value>(&sibling);
    assert!(read::<IgnoredAny>(&arrays(100_000)).is_ok(), "what is passed over takes no stack");
}

#[test]
fn a_text_that_is_not_well_formed_does_no_harm() {
    for text in [
        "",
        " ",
        "\"",
        "\"a",
        "\"\\",
        "\"\\é",
        "[",
        "[1",
        "[1,",
        "[,1]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,",
        "{1:2}",
        "]",
        "}",
        ":",
        ",",
        "nul",
        "truth",
        "-",
        "1.",
        "01",
        "1 2",
        "é",
        "\"a\tb\"",
    ] {
        let _ = read::<Value>(text);
        assert!(read::<Vec<Struct>>(text).is_err() && read::<BTreeMap<String, Raw>>(text).is_err(), "{text}");
    }
}

fn json() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just("\"a\"".to_owned()),
        Just("\"b\"".to_owned()),
        Just("\"A\"".to_owned()),
        Just("\"1\"".to_owned()),
        Just("\"Struct\"".to_owned()),
        Just("\"\\\\\\\"\"".to_owned()),
        Just("\"\\ud83e\\udd80\\ud800\"".to_owned()),
        ".{0,80}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        text.clone(),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
        (0..400_u32).prop_map(|number| number.to_string()),
    ];
    let blank = prop_oneof![Just(""), Just(" "), Just("\n\t")];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let entry = (blank.clone(), inner.clone(), blank.clone());
        let entry = entry.prop_map(|(before, value, behind)| format!("{before}{value}{behind}"));
        let member = (text.clone(), entry.clone()).prop_map(|(name, value)| format!("{name}:{value}"));
        prop_oneof![
            prop::collection::vec(entry, 0..5).prop_map(|entries| format!("[{}]", entries.join(","))),
            prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(" , "))),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_read_as_serde_json_reads_it(text in json()) {
        assert_all_alike(&text);
    }

    #[test]
    fn any_text_at_all_is_taken(text in r#"[{}\[\]",:\\ a1e.-]{0,40}"#) {
        let _ = read::<Value>(&text);
        let _ = read::<Vec<Struct>>(&text);
        let _ = read::<Raw>(&text);
        let _ = read::<BTreeMap<u8, Kinds>>(&text);
    }
}
