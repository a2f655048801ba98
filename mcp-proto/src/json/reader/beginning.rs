use serde::de::Visitor;

use super::{ReadError, Reader};

/// What an object is asked for by, before a beginning that it almost always has: all of it up to its last
/// member, which is a text.
///
/// A visitor gets such an object as that text, and any other as the newtype that serde takes it for.
macro_rules! beginning {
    ($beginning:literal) => {
        concat!("$mcp_proto::beginning:", $beginning)
    };
}

pub(crate) use beginning;

/// The beginning in what an object is asked for by.
#[inline]
pub(super) fn beginning_in(name: &'static str) -> Option<&'static str> {
    name.strip_prefix(beginning!(""))
}

impl<'de> Reader<'de> {
    /// Reads an object that may have that beginning.
    #[inline]
    pub(super) fn read_with_beginning<V: Visitor<'de>>(
        &mut self,
        beginning: &str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.peek();
        let start = self.at;
        if self.rest().starts_with(beginning.as_bytes()) {
            self.at += beginning.len();
            let start_of_text = self.at;
            if self.rest().first() == Some(&b'"')
                && let Ok(is_plain) = self.pass_text()
                && self.rest().first() == Some(&b'}')
            {
                let value = self.text_since(start_of_text, is_plain, visitor)?;
                self.at += 1;
                return Ok(value);
            }
        }
        self.at = start;
        visitor.visit_newtype_struct(self)
    }
}
