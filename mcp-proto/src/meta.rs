use std::collections::BTreeMap;

use serde::Serialize;

use crate::capabilities::ClientCapabilities;
use crate::id::RequestId;
use crate::implementation::Implementation;
use crate::meta_key;
use crate::payload::DecodeError;
use crate::raw_json::RawJson;
use crate::top_level::TopLevel;
use crate::version::ProtocolVersion;

/// Members to put into `params._meta`, kept as the text they are written in.
///
/// The members of a session are written once and appended to every request as they are; what
/// differs from call to call is added to a clone.
#[derive(Debug, Clone, Default)]
pub struct MetaMembers(Vec<u8>);

impl MetaMembers {
    /// No members: requests carry no `_meta` at all.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// What every modern request of a connection carries, to be made once and then reused.
    ///
    /// `client_info` is left out when configured off.
    ///
    /// # Errors
    ///
    /// Never for values that were read from JSON or made by this crate.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic: `RequestMetaObject` (version and capabilities must, client info should).
    pub fn modern(
        version: ProtocolVersion,
        capabilities: &ClientCapabilities,
        client_info: Option<&Implementation>,
    ) -> Result<Self, DecodeError> {
        let mut members = Self::new();
        members.push(meta_key::PROTOCOL_VERSION, &version)?;
        members.push(meta_key::CLIENT_CAPABILITIES, &capabilities.for_version(version))?;
        if let Some(client_info) = client_info {
            members.push(meta_key::CLIENT_INFO, client_info)?;
        }
        Ok(members)
    }

    /// Adds the member `key`.
    ///
    /// # Errors
    ///
    /// `value` has no JSON form, or there is a member `key` already.
    pub fn push<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), DecodeError> {
        if self.contains(key) {
            return Err(DecodeError::about("a member of _meta is given twice"));
        }
        self.append(key, value)
    }

    fn append<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), DecodeError> {
        let length = self.0.len();
        let mut write = || -> serde_json::Result<()> {
            if length > 0 {
                self.0.push(b',');
            }
            serde_json::to_writer(&mut self.0, key)?;
            self.0.push(b':');
            serde_json::to_writer(&mut self.0, value)
        };
        write().map_err(|error| {
            self.0.truncate(length);
            DecodeError::new(&error)
        })
    }

    /// These members and a progress token: the id of the request that carries them.
    ///
    /// # Errors
    ///
    /// Never: an id always has a JSON form.
    pub fn with_progress_token(&self, token: &RequestId) -> Result<Self, DecodeError> {
        let mut members = self.clone();
        members.push(meta_key::PROGRESS_TOKEN, token)?;
        Ok(members)
    }

    /// These members and those of `others` that are not among them.
    pub(crate) fn with_others(&self, others: Option<BTreeMap<String, RawJson>>) -> Result<Self, DecodeError> {
        let mut others = others.unwrap_or_default();
        for (name, _) in TopLevel::inside(&self.0) {
            others.retain(|other, _| *other.as_bytes() != *name);
        }
        let mut members = self.clone();
        for (key, value) in others {
            members.append(&key, &value)?;
        }
        Ok(members)
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a member `key`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        TopLevel::inside(&self.0).any(|(name, _)| *name == *key.as_bytes())
    }

    /// The members without the braces around them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_of_meta_is_never_written_twice() {
        let mut meta = MetaMembers::new();
        meta.push("a", &json!({"b": 1})).unwrap();
        meta.push("b", &json!("a")).unwrap();
        for key in ["a", "b"] {
            assert!(meta.push(key, &2).is_err(), "{key}");
        }
        meta.push("c\"", &3).unwrap();
        assert!(meta.push("c\"", &3).is_err());
    }
}
