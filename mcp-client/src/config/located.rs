use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{Deserialize, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::Position;

/// One member of a JSON object that knows where it stands.
///
/// Values stay raw slices of the file, so the distance between a slice and the start of the file is
/// its position: no second parser, and nothing is copied.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) position: Position,
    pub(super) value: &'a RawValue,
}

/// A configuration text, to find positions in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl<'a> Text<'a> {
    /// Reads the members of an object in the order in which they stand.
    ///
    /// `object` must be this text or a slice of it.
    pub(super) fn members(self, object: &'a str) -> Result<Vec<Member<'a>>, serde_json::Error> {
        let entries: Entries<'a> = serde_json::from_str(object)?;
        Ok(entries.0.into_iter().map(|(key, value)| self.member(key, value)).collect())
    }

    fn member(self, key: Cow<'a, str>, value: &'a RawValue) -> Member<'a> {
        // A key with escapes was copied and has no place of its own any more: its value stands beside it.
        let position = match key {
            Cow::Borrowed(key) => self.position_of(key, 1),
            Cow::Owned(_) => self.position_of(value.get(), 0),
        };
        Member { key, position, value }
    }

    /// Where `slice`, a part of this text, begins, after going `back` by some bytes.
    fn position_of(self, slice: &str, back: usize) -> Position {
        let offset = slice.as_ptr().addr().saturating_sub(self.0.as_ptr().addr()).saturating_sub(back);
        let before = self.0.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Position {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
        }
    }
}

struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Entries(entries))
    }
}

/// A key that is borrowed where it can be; `Cow<str>` alone would always copy.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Borrowed(key)))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_know_their_line_and_column() {
        let text = "{\n  \"a\": 1,\n  \"ä\": {\"b\": 2, \"\\u0063\": 3}\n}";
        let outer = Text(text).members(text).unwrap();
        let places = |members: &[Member<'_>]| -> Vec<(String, usize, usize)> {
            members.iter().map(|m| (m.key.to_string(), m.position.line, m.position.column)).collect()
        };
        assert_eq!(places(&outer), [("a".into(), 2, 3), ("ä".into(), 3, 3)]);
        let inner = Text(text).members(outer[1].value.get()).unwrap();
        // The escaped key is shown at its value.
        assert_eq!(places(&inner), [("b".into(), 3, 9), ("c".into(), 3, 27)]);
    }
}
