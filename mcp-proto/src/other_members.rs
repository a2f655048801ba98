use std::fmt;

use serde::ser::SerializeMap;

use crate::entries::Entries;
use crate::raw_json::RawJson;

/// The members of an object that this crate does not name, kept as they were received.
///
/// They are written back when the object is written, after those that have a name. They take as much
/// memory as their text, and none where there are none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OtherMembers(
    // As they stand between the braces of an object. One pointer wide, since almost always there are none.
    #[expect(clippy::box_collection, reason = "a text alone is three pointers wide")] Option<Box<String>>,
);

impl OtherMembers {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The members by name; of one that is repeated, the last.
    #[must_use]
    pub fn entries(&self) -> Entries<RawJson> {
        let text = format!("{{{}}}", self.text());
        // It was put together of names and values that had been read before.
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<RawJson> {
        if self.is_empty() { None } else { self.entries().get(name).cloned() }
    }

    /// Adds a member. One of the same name that is there already counts no longer.
    pub fn insert(&mut self, name: &str, value: &RawJson) {
        self.push(name, value.get());
    }

    pub(crate) fn push(&mut self, name: &str, value: &str) {
        let text = self.0.get_or_insert_default();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&serde_json::Value::from(name).to_string());
        text.push(':');
        text.push_str(value);
    }

    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if !self.is_empty() {
            for (name, value) in self.entries().iter() {
                map.serialize_entry(name, value)?;
            }
        }
        Ok(())
    }

    fn text(&self) -> &str {
        self.0.as_deref().map_or("", String::as_str)
    }
}

/// Shows the length alone: the members are untrusted and may hold secrets.
impl fmt::Debug for OtherMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OtherMembers({} bytes)", self.text().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListRoots;

    #[test]
    fn members_keep_their_text_and_the_last_of_a_name_counts() {
        let mut read: ListRoots =
            serde_json::from_str(r#"{"a":1e400,"\u0062":{"c":[ ]},"_meta":{},"a":-0}"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"_meta":{},"b":{"c":[ ]},"a":-0}"#);
        read.other.insert("b", &RawJson::null());
        read.other.insert("\"\n", &RawJson::null());
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"_meta":{},"a":-0,"b":null,"\"\n":null}"#);
        assert_eq!(read.other.get("\"\n"), Some(RawJson::null()));
        assert_eq!((read.other.get("_meta"), read.other.entries().len()), (None, 3));
    }

    #[test]
    fn none_take_no_memory_and_show_nothing() {
        assert_eq!(size_of::<OtherMembers>(), size_of::<usize>());
        assert!(OtherMembers::default().is_empty() && OtherMembers::default().entries().is_empty());
        let mut other = OtherMembers::default();
        other.insert("k", &RawJson::from_text("\"hunter2\"").unwrap());
        assert_eq!(format!("{other:?}"), "OtherMembers(13 bytes)");
    }
}
