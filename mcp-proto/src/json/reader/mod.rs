//! Reads JSON texts that are known to be well formed.
//!
//! A payload was checked byte by byte when its frame was parsed. Reading it does not do that again: a
//! value that nobody wants typed is passed over, and a text is looked through for its end alone. What is
//! rare (fractions, escapes, names that are numbers, enums of serde) is cut out and left to serde_json.

pub(crate) mod beginning;
mod error;
mod inside;
mod name;

use serde::de::{Deserializer, Error as _, IgnoredAny, Unexpected, Visitor};
use serde_json::de::StrRead;

use self::beginning::beginning_in;
pub(crate) use self::error::{ReadError, meaning_of};
use self::inside::Inside;
use crate::json::plain::{length_without_controls, plain_integer};
use crate::json::raw_text::RawText;
use crate::payload::MAX_DEPTH;

/// Reads forward through one JSON text, as the types ask for it.
///
/// A text that is not well formed after all is an error, or is taken for another one; nothing else.
#[derive(Debug)]
pub(crate) struct Reader<'de> {
    text: &'de str,
    at: usize,
    /// How many arrays and objects are open.
    depth: usize,
}

impl<'de> Reader<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Makes sure that nothing but blanks is left.
    pub(crate) fn end(&mut self) -> Result<(), ReadError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(ReadError::SYNTAX),
        }
    }

    /// Line and column, from 1, up to which the text has been read.
    pub(crate) fn place(&self) -> (usize, usize) {
        let before = self.text.as_bytes().get(..self.at).unwrap_or(self.text.as_bytes());
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
        (line, column.max(1))
    }

    /// The next byte that is no blank, without taking it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                next => return next.copied(),
            }
        }
    }

    #[inline]
    fn take(&mut self, expected: u8) -> Result<(), ReadError> {
        if self.peek() != Some(expected) {
            return Err(ReadError::SYNTAX);
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), ReadError> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(ReadError::SYNTAX);
        }
        self.at += word.len();
        Ok(())
    }

    /// The value that comes next, passed over.
    #[inline]
    fn raw(&mut self) -> Result<&'de str, ReadError> {
        match self.peek() {
            Some(b'"') => {
                let start = self.at;
                self.pass_text()?;
                self.since(start)
            }
            Some(b'{' | b'[') => self.nested(),
            _ => self.scalar(),
        }
    }

    /// The array or object that comes next, passed over.
    fn nested(&mut self) -> Result<&'de str, ReadError> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    self.pass_text()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth -= 1,
                Some(_) => {}
                None => return Err(ReadError::SYNTAX),
            }
            self.at += 1;
            if depth == 0 {
                return self.since(start);
            }
        }
    }

    /// The number or word that comes next.
    fn scalar(&mut self) -> Result<&'de str, ReadError> {
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
        let rest = self.rest();
        let start = self.at;
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
        if self.at == start { Err(ReadError::SYNTAX) } else { self.since(start) }
    }

    /// Passes over a text; answers whether it has no escapes.
    #[inline(always)]
    fn pass_text(&mut self) -> Result<bool, ReadError> {
        // Its first quote.
        self.at += 1;
        let rest = self.rest();
        let length = length_without_controls(rest);
        self.at += length + 1;
        let is_plain = rest.get(length) == Some(&b'"');
        if !is_plain {
            self.pass_escaped(rest.get(length..).unwrap_or_default())?;
        }
        Ok(is_plain)
    }

    /// Passes over what is left of a text that goes on with an escape: `rest`, whose first byte is taken.
    fn pass_escaped(&mut self, mut rest: &[u8]) -> Result<(), ReadError> {
        while rest.first() == Some(&b'\\') {
            self.at += 1;
            rest = rest.get(2..).unwrap_or_default();
            let length = length_without_controls(rest);
            self.at += length + 1;
            rest = rest.get(length..).unwrap_or_default();
        }
        if rest.first() == Some(&b'"') { Ok(()) } else { Err(ReadError::SYNTAX) }
    }

    /// Hands a text to `visitor`.
    #[inline]
    fn read_text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        let start = self.at;
        let is_plain = self.pass_text()?;
        self.text_since(start, is_plain, visitor)
    }

    /// Hands the text that was passed over since `start` to `visitor`.
    #[inline]
    fn text_since<V: Visitor<'de>>(
        &self,
        start: usize,
        is_plain: bool,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if is_plain {
            let inner = self.text.get(start + 1..self.at - 1).ok_or(ReadError::SYNTAX)?;
            return visitor.visit_borrowed_str(inner);
        }
        by_serde_json(self.since(start)?, |reader| reader.deserialize_str(visitor))
    }

    fn read_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        if let Some(number) = self.plain_integer() {
            return visitor.visit_u64(number);
        }
        by_serde_json(self.scalar()?, |reader| reader.deserialize_any(visitor))
    }

    /// Takes an integer that is nothing but a few digits.
    fn plain_integer(&mut self) -> Option<u64> {
        let (number, length) = plain_integer(self.rest())?;
        self.at += length;
        Some(number.unsigned_abs())
    }

    #[inline]
    fn read_list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        self.enter()?;
        let value = visitor.visit_seq(Inside::new(self))?;
        self.leave(b']')?;
        Ok(value)
    }

    #[inline]
    fn read_object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        self.enter()?;
        let value = visitor.visit_map(Inside::new(self))?;
        self.leave(b'}')?;
        Ok(value)
    }

    fn enter(&mut self) -> Result<(), ReadError> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(ReadError::SYNTAX) } else { Ok(()) }
    }

    fn leave(&mut self, bracket: u8) -> Result<(), ReadError> {
        self.depth -= 1;
        self.take(bracket)
    }

    /// The value that comes next is not of the kind that `visitor` wants; or it is none at all, as a lone
    /// surrogate is none.
    #[cold]
    fn unfit<V: Visitor<'de>>(&mut self, visitor: &V) -> ReadError {
        let read = match self.peek() {
            Some(b'[' | b'{') => Ok(IgnoredAny),
            _ => self.deserialize_any(IgnoredAny),
        };
        let received = Unexpected::Other("another kind");
        read.map_or_else(|error| error, |_| ReadError::invalid_type(received, visitor))
    }

    fn since(&self, start: usize) -> Result<&'de str, ReadError> {
        self.text.get(start..self.at).ok_or(ReadError::SYNTAX)
    }

    fn rest(&self) -> &'de [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

/// Leaves the whole of `text` to serde_json.
fn by_serde_json<'de, T>(
    text: &'de str,
    read: impl FnOnce(&mut serde_json::Deserializer<StrRead<'de>>) -> serde_json::Result<T>,
) -> Result<T, ReadError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = read(&mut reader)?;
    Ok(reader.end().map(|()| value)?)
}

macro_rules! only {
    ($($method:ident: $first:pat => $read:ident;)*) => {
        $(#[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self.peek() {
                Some($first) => self.$read(visitor),
                _ => Err(self.unfit(&visitor)),
            }
        })*
    };
}

macro_rules! as_serde_json_does {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, ReadError> {
            by_serde_json(self.raw()?, |reader| reader.$method($($name,)* visitor))
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.peek() {
            Some(b'"') => self.read_text(visitor),
            Some(b'-' | b'0'..=b'9') => self.read_number(visitor),
            Some(b'[') => self.read_list(visitor),
            Some(b'{') => self.read_object(visitor),
            Some(b'f') => self.word("false").and_then(|()| visitor.visit_bool(false)),
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_unit()),
            Some(b't') => self.word("true").and_then(|()| visitor.visit_bool(true)),
            _ => Err(ReadError::SYNTAX),
        }
    }

    only! {
        deserialize_bool: b'f' | b't' => deserialize_any;
        deserialize_char: b'"' => read_text;
        deserialize_f32: b'-' | b'0'..=b'9' => read_number;
        deserialize_f64: b'-' | b'0'..=b'9' => read_number;
        deserialize_i8: b'-' | b'0'..=b'9' => read_number;
        deserialize_i16: b'-' | b'0'..=b'9' => read_number;
        deserialize_i32: b'-' | b'0'..=b'9' => read_number;
        deserialize_i64: b'-' | b'0'..=b'9' => read_number;
        deserialize_identifier: b'"' => read_text;
        deserialize_map: b'{' => read_object;
        deserialize_seq: b'[' => read_list;
        deserialize_str: b'"' => read_text;
        deserialize_string: b'"' => read_text;
        deserialize_u8: b'-' | b'0'..=b'9' => read_number;
        deserialize_u16: b'-' | b'0'..=b'9' => read_number;
        deserialize_u32: b'-' | b'0'..=b'9' => read_number;
        deserialize_u64: b'-' | b'0'..=b'9' => read_number;
        deserialize_unit: b'n' => deserialize_any;
    }

    as_serde_json_does! {
        deserialize_byte_buf();
        deserialize_bytes();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_i128();
        deserialize_u128();
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.raw()?;
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == RawText::SIGN {
            return visitor.visit_borrowed_str(self.raw()?);
        }
        if let Some(beginning) = beginning_in(name) {
            return self.read_with_beginning(beginning, visitor);
        }
        if name.starts_with('$') {
            // A sign between serde_json and its own raw values: no struct of Rust has such a name.
            return by_serde_json(self.raw()?, |reader| reader.deserialize_newtype_struct(name, visitor));
        }
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.peek() == Some(b'n') {
            self.word("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.peek() {
            Some(b'[') => self.read_list(visitor),
            Some(b'{') => self.read_object(visitor),
            _ => Err(self.unfit(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_unit(visitor)
    }
}

#[cfg(test)]
mod tests;
