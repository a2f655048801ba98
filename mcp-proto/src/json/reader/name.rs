use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{ReadError, Reader, by_serde_json};

/// The name of a member, which comes next: a text, but some types find a number or a word in it.
pub(super) struct Name<'a, 'de>(pub(super) &'a mut Reader<'de>);

impl<'de> Name<'_, 'de> {
    /// What stands between the quotes, where that is a number or a word.
    fn scalar(self) -> Result<&'de str, ReadError> {
        let inner = self.0.raw()?.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        inner.filter(|inner| inner.bytes().all(is_part)).ok_or(ReadError::SYNTAX)
    }
}

macro_rules! scalars {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            by_serde_json(self.scalar()?, |reader| reader.$method(visitor))
        })*
    };
}

macro_rules! as_texts {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, ReadError> {
            self.0.$method($($name,)* visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Name<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.0.read_text(visitor)
    }

    forward_to_deserialize_any! {
        char str string unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }

    scalars! {
        deserialize_bool
        deserialize_f32
        deserialize_f64
        deserialize_i8
        deserialize_i16
        deserialize_i32
        deserialize_i64
        deserialize_i128
        deserialize_u8
        deserialize_u16
        deserialize_u32
        deserialize_u64
        deserialize_u128
    }

    as_texts! {
        deserialize_byte_buf();
        deserialize_bytes();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name.starts_with('$') {
            return self.0.deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }
}
