//! Writes values as JSON: the same bytes as serde_json, in a fraction of the time where texts are long.
//!
//! serde_json looks at a text byte by byte. Bytes it hands to its formatter as a whole, so a text is
//! given to it as bytes, and the formatter here writes it as a text.

use std::fmt::Display;
use std::io::{self, Write};

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::ser::{CharEscape, Formatter};

use crate::json::plain::plain_length;
use crate::payload::DecodeError;

/// Appends `value` to `out`.
///
/// # Errors
///
/// The value has no JSON form; something of it may have been appended.
pub(crate) fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), DecodeError> {
    let mut inner = serde_json::Serializer::with_formatter(out, Texts);
    value.serialize(Writer(&mut inner)).map_err(|error| DecodeError::new(&error))
}

/// Writes bytes as the text that they are.
struct Texts;

impl Formatter for Texts {
    fn write_byte_array<W: Write + ?Sized>(&mut self, out: &mut W, text: &[u8]) -> io::Result<()> {
        self.begin_string(out)?;
        let mut rest = text;
        loop {
            let (plain, special) = rest.split_at(plain_length(rest));
            out.write_all(plain)?;
            let Some((byte, behind)) = special.split_first() else { break };
            self.write_char_escape(out, escape_of(*byte))?;
            rest = behind;
        }
        self.end_string(out)
    }
}

fn escape_of(byte: u8) -> CharEscape {
    match byte {
        b'"' => CharEscape::Quote,
        b'\\' => CharEscape::ReverseSolidus,
        b'\x08' => CharEscape::Backspace,
        b'\x0c' => CharEscape::FormFeed,
        b'\n' => CharEscape::LineFeed,
        b'\r' => CharEscape::CarriageReturn,
        b'\t' => CharEscape::Tab,
        control => CharEscape::AsciiControl(control),
    }
}

/// Passes everything on to a serializer of serde_json, but texts as bytes, and bytes as numbers.
struct Writer<S>(S);

/// A value inside of another, to be written in the same way.
struct Inside<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Serialize for Inside<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(Writer(serializer))
    }
}

/// The members of a struct on their way.
struct Members<S> {
    inner: S,
    /// Whether they are a sign between serde_json and its own types, such as a raw value.
    is_sign: bool,
}

impl<S> Members<S> {
    fn new(inner: S, name: &str) -> Self {
        // No struct of Rust can have such a name.
        Self { inner, is_sign: name.starts_with('$') }
    }
}

macro_rules! as_it_is {
    ($($method:ident($($value:ident: $type:ty)?);)*) => {
        $(fn $method(self $(, $value: $type)?) -> Result<S::Ok, S::Error> {
            self.0.$method($($value)?)
        })*
    };
}

impl<S: Serializer> Serializer for Writer<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Writer<S::SerializeSeq>;
    type SerializeTuple = Writer<S::SerializeTuple>;
    type SerializeTupleStruct = Writer<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Writer<S::SerializeTupleVariant>;
    type SerializeMap = Writer<S::SerializeMap>;
    type SerializeStruct = Members<S::SerializeStruct>;
    type SerializeStructVariant = Writer<S::SerializeStructVariant>;

    as_it_is! {
        serialize_bool(value: bool);
        serialize_i8(value: i8);
        serialize_i16(value: i16);
        serialize_i32(value: i32);
        serialize_i64(value: i64);
        serialize_i128(value: i128);
        serialize_u8(value: u8);
        serialize_u16(value: u16);
        serialize_u32(value: u32);
        serialize_u64(value: u64);
        serialize_u128(value: u128);
        serialize_f32(value: f32);
        serialize_f64(value: f64);
        serialize_char(value: char);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(name: &'static str);
    }

    fn serialize_str(self, text: &str) -> Result<S::Ok, S::Error> {
        self.0.serialize_bytes(text.as_bytes())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<S::Ok, S::Error> {
        self.0.collect_seq(bytes)
    }

    fn collect_str<T: Display + ?Sized>(self, text: &T) -> Result<S::Ok, S::Error> {
        self.0.collect_str(text)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.0.serialize_some(&Inside(value))
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.0.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.0.serialize_newtype_struct(name, &Inside(value))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.0.serialize_newtype_variant(name, index, variant, &Inside(value))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.0.serialize_seq(length).map(Writer)
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.0.serialize_tuple(length).map(Writer)
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        self.0.serialize_tuple_struct(name, length).map(Writer)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.0.serialize_tuple_variant(name, index, variant, length).map(Writer)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        self.0.serialize_map(length).map(Writer)
    }

    fn serialize_struct(self, name: &'static str, length: usize) -> Result<Self::SerializeStruct, S::Error> {
        self.0.serialize_struct(name, length).map(|inner| Members::new(inner, name))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.0.serialize_struct_variant(name, index, variant, length).map(Writer)
    }
}

macro_rules! entries {
    ($($trait:ident $method:ident;)*) => {
        $(impl<S: $trait> $trait for Writer<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                self.0.$method(&Inside(value))
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.0.end()
            }
        })*
    };
}

entries! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

impl<S: SerializeMap> SerializeMap for Writer<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        // Which texts can be names is serde_json's to say, and they are short.
        self.0.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.0.serialize_value(&Inside(value))
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}

impl<S: SerializeStruct> SerializeStruct for Members<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), S::Error> {
        if self.is_sign {
            return self.inner.serialize_field(name, value);
        }
        self.inner.serialize_field(name, &Inside(value))
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}

impl<S: SerializeStructVariant> SerializeStructVariant for Writer<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), S::Error> {
        self.0.serialize_field(name, &Inside(value))
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    #[track_caller]
    fn assert_as_serde<T: Serialize + ?Sized>(value: &T) {
        let mut out = b"before".to_vec();
        let written = write_json(&mut out, value).map(|()| String::from_utf8(out).unwrap());
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
        assert_as_serde(&[
            Kinds::Unit,
            Kinds::New("\""),
            Kinds::Tuple("\\", 1),
            Kinds::Struct { text: "\n" },
        ]);
        let raw = RawValue::from_string("{ \"a\\n\" : [ 1e400, \"\\u0041\" ] }".into()).unwrap();
        let more = BTreeMap::from([("\"", New("\t"))]);
        assert_as_serde(&Full { raw: &raw, texts: vec!["", "\""], none: None, some: Some("\r"), more });
        assert_as_serde(&BTreeMap::from([(1, "\""), (2, "")]));
        assert_as_serde(&BTreeMap::from([('"', BTreeMap::from([(true, "\"")]))]));
        assert_as_serde(&json!({"a\"": ["b\n", {"c": null}], "": {}}));
        assert_as_serde(&BTreeMap::from([(vec![1], 2)]));
    }

    #[test]
    fn a_text_of_many_long_lines_is_written_whole() {
        let text = format!("{}\n", "x".repeat(200)).repeat(50_000);
        let mut out = Vec::new();
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
}
