use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::json::raw_text::{RawText, raw_value};
use crate::json::reader::Reader;
use crate::json::scratch::Scratch;
use crate::json::writer::write_json;
use crate::message::NameReader;
use crate::payload::DecodeError;

/// One JSON value inside a message that nobody has asked to see typed, kept as its text.
///
/// Schemas, tool arguments, structured content and `_meta` travel in this form: what a server wrote
/// is what a user gets, byte for byte. Two values are equal when their texts are.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Writes `value` as JSON.
    ///
    /// # Errors
    ///
    /// The value has no JSON form.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, DecodeError> {
        let mut text = Scratch::take();
        write_json(&mut text, value)?;
        let raw = text.finish(|short| raw_value(short), raw_value);
        raw.or_else(|_| to_raw_value(value)).map(Self).map_err(|error| DecodeError::new(&error))
    }

    /// Takes a text that must be exactly one JSON value.
    ///
    /// # Errors
    ///
    /// The text is not one JSON value.
    pub fn from_text(text: impl Into<String>) -> Result<Self, DecodeError> {
        RawValue::from_string(text.into()).map(Self).map_err(|error| DecodeError::new(&error))
    }

    /// The empty object, which declares a capability without settings.
    #[must_use]
    pub fn empty_object() -> Self {
        // A text that is known to be JSON.
        Self::from_text("{}").unwrap_or_else(|_| Self::null())
    }

    /// The value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Reads the value as `T`. Of a member that is repeated, the last one counts.
    ///
    /// # Errors
    ///
    /// The value is not of that shape.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        crate::payload::decode(self.0.get())
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.get().starts_with('{')
    }
}

impl RawJson {
    /// Takes a text that is known to be one JSON value.
    pub(crate) fn of_checked(text: &str) -> serde_json::Result<Self> {
        raw_value(text).or_else(|_| RawValue::from_string(text.to_owned())).map(Self)
    }

    /// The member `type` of an object that is one of several kinds.
    pub(crate) fn kind(&self) -> Option<Cow<'_, str>> {
        kind_of(self.get())
    }
}

/// The `type` member of an object, where there is one and it is a text; of several, the last.
pub(crate) fn kind_of(object: &str) -> Option<Cow<'_, str>> {
    let raw = Reader::new(object).deserialize_map(KindVisitor).ok()??;
    match raw.strip_prefix('"')?.strip_suffix('"')? {
        plain if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        _ => crate::payload::decode(raw).ok().map(Cow::Owned),
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Option<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut kind = None;
        while let Some(is_kind) = map.next_key_seed(NameReader(|name: &str| name == "type"))? {
            let RawText(value) = map.next_value()?;
            if is_kind {
                kind = Some(value);
            }
        }
        Ok(kind)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RawText::SIGN, RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<RawJson, E> {
        RawJson::of_checked(text).map_err(E::custom)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawJson, D::Error> {
        Box::deserialize(deserializer).map(RawJson)
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(value: Box<RawValue>) -> Self {
        Self(value)
    }
}

impl From<RawJson> for Box<RawValue> {
    fn from(value: RawJson) -> Self {
        value.0
    }
}

impl Deref for RawJson {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        &self.0
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for RawJson {}

/// Shows the length alone: the text is untrusted and may hold secrets.
impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.get().len())
    }
}
