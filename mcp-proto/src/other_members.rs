use std::fmt;

use serde::ser::SerializeMap;
use serde_json::value::RawValue;

use crate::entries::Entries;
use crate::last_wins::keep_last;
use crate::raw_json::RawJson;

/// The members of an object that this crate does not name, kept as they were received.
///
/// They are written back when the object is written, after those that have a name. They take as much
/// memory as their text, and none where there are none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OtherMembers(String);

impl OtherMembers {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The members by name; of one that is repeated, the last.
    #[must_use]
    pub fn entries(&self) -> Entries<RawJson> {
        let text = format!("{{{}}}", self.0);
        let text = keep_last(&text).unwrap_or(text);
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
        self.push(name, value);
    }

    pub(crate) fn push(&mut self, name: &str, value: &RawValue) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&serde_json::Value::from(name).to_string());
        self.0.push(':');
        self.0.push_str(value.get());
    }

    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if !self.is_empty() {
            for (name, value) in self.entries().iter() {
                map.serialize_entry(name, value)?;
            }
        }
        Ok(())
    }
}

/// Shows the length alone: the members are untrusted and may hold secrets.
impl fmt::Debug for OtherMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OtherMembers({} bytes)", self.0.len())
    }
}
