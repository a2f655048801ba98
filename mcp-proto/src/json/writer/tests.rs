//! Whatever is written here is written by serde_json as well, and must come to the same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;

#[track_caller]
fn assert_as_serde<T: Serialize + ?Sized>(value: &T) {
    let mut out = "before".to_owned();
    let written = write_json(&mut out, value).map(|()| out);
    let expected = serde_json::to_string(value).map(|text| format!("before{text}"));
    assert_eq!(written, expected.map_err(|error| DecodeError::new(&error)));
}

struct Bytes;

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(b"a\"\n")
    }
}

struct Shown;

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}\"{}", 1, '\n'))
    }
}

#[derive(Serialize)]
enum Kinds {
    Unit,
    New(&'static str),
    Tuple(&'static str, u8),
    Struct { text: &'static str },
}

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct New(&'static str);

#[derive(Serialize)]
struct Tuple(&'static str, char);

#[derive(Serialize)]
struct Full<'a> {
    raw: &'a RawValue,
    texts: Vec<&'static str>,
    none: Option<u8>,
    some: Option<&'static str>,
    #[serde(flatten)]
    more: BTreeMap<&'static str, New>,
}

#[test]
fn every_kind_of_value_is_written_as_serde_writes_it() {
    let text = "a\"b\\c\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}é🦀";
    assert_as_serde(text);
    assert_as_serde(&(true, -1_i8, -2_i64, 3_u8, u64::MAX, i128::MIN, u128::MAX, '"'));
    assert_as_serde(&(1.5_f32, 0.1_f64, f64::NAN, (), None::<u8>, Some(text)));
    assert_as_serde(&(Bytes, Shown, Unit, New("\u{0}"), Tuple("\n", '\n')));
    assert_as_serde(&[Kinds::Unit, Kinds::New("\""), Kinds::Tuple("\\", 1), Kinds::Struct { text: "\n" }]);
    let raw = RawValue::from_string("{ \"a\\n\" : [ 1e400, \"\\u0041\" ] }".into()).unwrap();
    let more = BTreeMap::from([("\"", New("\t"))]);
    assert_as_serde(&Full { raw: &raw, texts: vec!["", "\""], none: None, some: Some("\r"), more });
    assert_as_serde(&BTreeMap::from([(1, "\""), (2, "")]));
    assert_as_serde(&BTreeMap::from([('"', BTreeMap::from([(true, "\"")]))]));
    assert_as_serde(&json!({"a\"": ["b\n", {"c": null}], "": {}}));
    assert_as_serde(&BTreeMap::from([(vec![1], 2)]));
}

#[test]
fn numbers_are_written_as_serde_writes_them() {
    assert_as_serde(&(i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN));
    assert_as_serde(&(u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX));
    assert_as_serde(&(0_u8, -0.0_f64, 1.0_f64, 1e21_f64, f64::MIN_POSITIVE, f32::MAX, f64::INFINITY));
}

#[test]
fn what_has_nothing_in_it_is_written_as_serde_writes_it() {
    #[derive(Serialize)]
    struct Empty {}

    #[derive(Serialize)]
    enum Nothing {
        Struct {},
        Tuple(),
    }

    assert_as_serde(&(Empty {}, Nothing::Struct {}, Nothing::Tuple(), "", [0_u8; 0]));
    assert_as_serde(&BTreeMap::<String, u8>::new());
    assert_as_serde(&(vec![Vec::<u8>::new(); 2], vec![BTreeMap::<String, u8>::new(); 2]));
}

#[test]
fn names_of_every_kind_are_written_as_serde_writes_them() {
    #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
    struct Wrapped<T>(T);

    fn assert_name<T: Serialize + Ord>(name: T) {
        assert_as_serde(&BTreeMap::from([(name, 1)]));
    }

    assert_name("a\"\n");
    assert_name(Wrapped("b"));
    assert_name(Some("c"));
    assert_name('"');
    assert_name(false);
    assert_name((u64::MAX, ()).0);
    assert_name(Wrapped(i128::MIN));
    assert_name(None::<u8>);
    assert_name(());
    assert_name([1]);
    assert_name(BTreeMap::from([(1, 2)]));
}

#[test]
fn what_only_looks_like_a_sign_is_written_as_serde_writes_it() {
    #[derive(Serialize)]
    #[serde(rename = "$date")]
    struct Date {
        #[serde(rename = "$date")]
        day: &'static str,
        hour: u8,
    }

    assert_as_serde(&Date { day: "today", hour: 7 });
    let raw = RawValue::from_string("\"a\"".into()).unwrap();
    assert_as_serde(&Some(&raw));
    struct AsName(Box<RawValue>);
    impl Serialize for AsName {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([(&self.0, 1)])
        }
    }
    assert_as_serde(&AsName(raw));
}

#[test]
fn what_fails_inside_says_what_it_says_to_serde() {
    struct Fails;
    impl Serialize for Fails {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("it has no form"))
        }
    }
    assert_as_serde(&Fails);
    assert_as_serde(&BTreeMap::from([("a", [Some(Fails)])]));
}

#[test]
fn a_text_of_many_long_lines_is_written_whole() {
    let text = format!("{}\n", "x".repeat(200)).repeat(50_000);
    let mut out = String::new();
    write_json(&mut out, &text).unwrap();
    assert_eq!(out.len(), text.len() + 50_000 + 2);
}

proptest! {
    #[test]
    fn any_text_is_written_as_serde_writes_it(
        parts in prop::collection::vec(prop_oneof![".{0,90}", "[\"\\\\\n\u{0}-\u{1f}]{1,4}"], 0..6),
    ) {
        assert_as_serde(&parts.concat());
    }
}
