//! Writes values as JSON: the same text as serde_json, in a fraction of the time.
//!
//! serde_json looks at a text byte by byte, and at the names of members too. Here both are copied by the
//! run. What is rare (fractions, very large integers, names that are no texts) is left to serde_json.

mod inside;
mod only_text;
mod text;

use serde::ser::{Serialize, Serializer};

use self::inside::{Inside, Members};
use self::text::write_text;
use crate::payload::DecodeError;

/// Appends `value` to `out`.
///
/// # Errors
///
/// The value has no JSON form; something of it may have been appended.
pub(crate) fn write_json<T: Serialize + ?Sized>(out: &mut String, value: &T) -> Result<(), DecodeError> {
    value.serialize(Writer(out)).map_err(|error| DecodeError::new(&error))
}

/// Appends `value` as serde_json writes it.
fn by_serde_json<T: Serialize + ?Sized>(out: &mut String, value: &T) -> serde_json::Result<()> {
    out.push_str(&serde_json::to_string(value)?);
    Ok(())
}

/// Appends one value to a text.
struct Writer<'a>(&'a mut String);

impl<'a> Writer<'a> {
    /// Begins an object whose only member has that name.
    fn begin_variant(self, variant: &str) -> &'a mut String {
        self.0.push('{');
        write_text(self.0, variant);
        self.0.push(':');
        self.0
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty;)*) => {
        $(fn $method(self, value: $type) -> Result<(), Self::Error> {
            self.0.push_str(itoa::Buffer::new().format(value));
            Ok(())
        })*
    };
}

macro_rules! rare_numbers {
    ($($method:ident: $type:ty;)*) => {
        $(fn $method(self, value: $type) -> Result<(), Self::Error> {
            by_serde_json(self.0, &value)
        })*
    };
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = serde_json::Error;
    type SerializeSeq = Inside<'a>;
    type SerializeTuple = Inside<'a>;
    type SerializeTupleStruct = Inside<'a>;
    type SerializeTupleVariant = Inside<'a>;
    type SerializeMap = Inside<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Inside<'a>;

    integers! {
        serialize_i8: i8;
        serialize_i16: i16;
        serialize_i32: i32;
        serialize_i64: i64;
        serialize_u8: u8;
        serialize_u16: u16;
        serialize_u32: u32;
        serialize_u64: u64;
    }

    rare_numbers! {
        serialize_i128: i128;
        serialize_u128: u128;
        serialize_f32: f32;
        serialize_f64: f64;
    }

    fn serialize_bool(self, value: bool) -> Result<(), Self::Error> {
        self.0.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Self::Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Self::Error> {
        write_text(self.0, text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Self::Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Self::Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Self::Error> {
        self.0.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Self::Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Self::Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Self::Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Self::Error> {
        let out = self.begin_variant(variant);
        value.serialize(Writer(out))?;
        out.push('}');
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Inside<'a>, Self::Error> {
        Ok(Inside::array(self.0))
    }

    fn serialize_tuple(self, _length: usize) -> Result<Inside<'a>, Self::Error> {
        Ok(Inside::array(self.0))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Inside<'a>, Self::Error> {
        Ok(Inside::array(self.0))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Inside<'a>, Self::Error> {
        Ok(Inside::array(self.begin_variant(variant)).of_variant())
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Inside<'a>, Self::Error> {
        Ok(Inside::object(self.0))
    }

    fn serialize_struct(self, name: &'static str, _length: usize) -> Result<Members<'a>, Self::Error> {
        Ok(Members::of(self.0, name))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Inside<'a>, Self::Error> {
        Ok(Inside::object(self.begin_variant(variant)).of_variant())
    }
}

#[cfg(test)]
mod tests;
