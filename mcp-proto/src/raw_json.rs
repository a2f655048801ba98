use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use memchr::{memchr_iter, memmem};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::payload::DecodeError;

/// Up to how many bytes a block counts as short.
const SHORT_BLOCK: usize = 512;

/// One JSON value inside a message that nobody has asked to see typed, kept as its text.
///
/// Schemas, tool arguments, structured content and `_meta` travel in this form: what a server wrote
/// is what a user gets, byte for byte. Two values are equal when their texts are.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Writes `value` as JSON.
    ///
    /// # Errors
    ///
    /// The value has no JSON form.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, DecodeError> {
        serde_json::value::to_raw_value(value).map(Self).map_err(|error| DecodeError::new(&error))
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
    /// The member `type` of an object that is one of several kinds.
    pub(crate) fn kind(&self) -> Option<Cow<'_, str>> {
        kind_of(self.get())
    }
}

/// The `type` member of an object, where there is one.
pub(crate) fn kind_of(object: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    let read = || crate::payload::decode::<Kind>(object).ok().map(|read| Cow::Owned(read.kind));
    leading_kind(object).map(Cow::Borrowed).or_else(read)
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

/// The kind of an object that begins with it and names none a second time: almost every server writes
/// that, and a large one is then not read through just for its kind.
fn leading_kind(object: &str) -> Option<&str> {
    let member = object.strip_prefix('{')?.trim_ascii_start().strip_prefix("\"type\"")?;
    let value = member.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
    let (kind, rest) = value.strip_prefix('"')?.split_once('"')?;
    let is_plain = !kind.contains('\\') && !names_type(rest.as_bytes());
    is_plain.then_some(kind)
}

/// Whether `text` may name a member `type`, in its letters or in escapes. A search is dear to prepare;
/// short texts are looked through for the rarest byte.
fn names_type(text: &[u8]) -> bool {
    const NAME: &[u8] = b"\"type\"";
    const ESCAPE: &[u8] = b"\\u00";
    if text.len() > SHORT_BLOCK {
        return memmem::find(text, NAME).is_some() || memmem::find(text, ESCAPE).is_some();
    }
    let begins = |at: usize, part| text.get(at..).is_some_and(|text| text.starts_with(part));
    memchr_iter(b'y', text).any(|at| begins(at.saturating_sub(2), NAME))
        || memchr_iter(b'\\', text).any(|at| begins(at, ESCAPE))
}
