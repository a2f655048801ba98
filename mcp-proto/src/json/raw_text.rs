use std::fmt;

use serde::de::value::{self, MapDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

/// The text of one value, as it stands in the text that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawText<'de>(pub(crate) &'de str);

impl RawText<'_> {
    /// What it asks a [`Reader`](crate::json::reader::Reader) for the text by; serde_json is asked in its own way.
    pub(crate) const SIGN: &'static str = "$mcp_proto::RawText";
}

impl<'de> Deserialize<'de> for RawText<'de> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(Self::SIGN, TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = RawText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    #[inline]
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<RawText<'de>, E> {
        Ok(RawText(text))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawText<'de>, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| RawText(raw.get()))
    }
}

/// Makes a raw value of a text that is known to be JSON, without looking at it again: by saying to it
/// what serde_json says when it has found one.
///
/// # Errors
///
/// serde_json says something else by now: let it look at the text.
pub(crate) fn raw_value<'de, T>(text: T) -> Result<Box<RawValue>, value::Error>
where
    T: IntoDeserializer<'de, value::Error>,
{
    Box::deserialize(Found(text))
}

struct Found<T>(T);

impl<'de, T: IntoDeserializer<'de, value::Error>> Deserializer<'de> for Found<T> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom("no raw value"))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        visitor.visit_map(MapDeserializer::new(std::iter::once((name, self.0))))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::decode_with;

    #[test]
    fn the_text_of_a_value_is_the_same_from_either_reader() {
        for text in ["1.50", "\"a\\n\"", "{ \"a\" : [ 1e400 ] }", "null"] {
            let padded = format!(" {text} ");
            let from_serde: RawText<'_> = serde_json::from_str(&padded).unwrap();
            assert_eq!(from_serde.0, text);
            let read = decode_with(&padded, |reader| Ok(RawText::deserialize(reader)?.0.to_owned()));
            assert_eq!(read.unwrap(), text);
        }
    }

    #[test]
    fn a_raw_value_is_made_without_a_look() {
        assert_eq!(raw_value("no JSON").unwrap().get(), "no JSON", "serde_json takes our word for it");
        assert_eq!(raw_value("{}".to_owned()).unwrap().get(), "{}");
    }
}
