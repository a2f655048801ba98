use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::name::Name;
use super::{ReadError, Reader};

/// The entries of an array, or the members of an object, one after the other.
pub(super) struct Inside<'a, 'de> {
    reader: &'a mut Reader<'de>,
    is_first: bool,
}

impl<'a, 'de> Inside<'a, 'de> {
    pub(super) fn new(reader: &'a mut Reader<'de>) -> Self {
        Self { reader, is_first: true }
    }

    /// Goes to the next one; `false` before the closing `bracket`.
    #[inline]
    fn has_next(&mut self, bracket: u8) -> Result<bool, ReadError> {
        match self.reader.peek() {
            Some(next) if next == bracket => return Ok(false),
            _ if std::mem::replace(&mut self.is_first, false) => {}
            _ => self.reader.take(b',')?,
        }
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for Inside<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        if !self.has_next(b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

impl<'de> MapAccess<'de> for Inside<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        if !self.has_next(b'}')? {
            return Ok(None);
        }
        match self.reader.peek() {
            Some(b'"') => seed.deserialize(Name(&mut *self.reader)).map(Some),
            _ => Err(ReadError::SYNTAX),
        }
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        self.reader.take(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}
