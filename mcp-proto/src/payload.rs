use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Deepest nesting of arrays and objects in a message that is read.
pub(crate) const MAX_DEPTH: usize = 127;

/// One JSON value, kept as the text it arrived in.
///
/// A payload is a slice of the frame it came with: making one copies nothing, and it is decoded
/// once, by the type that asked for it. The text is known to be one well-formed JSON value nested
/// at most 127 levels deep.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Bytes);

/// The payload is not of the shape that was asked for.
///
/// The server is at fault. The text names the place, never the received bytes.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("{message} (line {line}, column {column})")]
pub struct DecodeError {
    message: String,
    line: usize,
    column: usize,
}

impl Payload {
    /// The empty object `{}`.
    pub const EMPTY: Self = Self(Bytes::from_static(b"{}"));

    /// Writes `value` as JSON.
    ///
    /// # Errors
    ///
    /// The value has no JSON form (a map with keys that are no texts, a failing `Serialize`).
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, DecodeError> {
        serde_json::to_vec(value).map(|text| Self(text.into())).map_err(|e| DecodeError::new(&e))
    }

    /// Takes a text that is already known to be one JSON value within the depth limit.
    pub(crate) fn from_checked(text: Bytes) -> Self {
        Self(text)
    }

    /// Reads the value as `T`.
    ///
    /// # Errors
    ///
    /// The value is not of that shape.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        serde_json::from_slice(&self.0).map_err(|e| DecodeError::new(&e))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The JSON text, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The JSON text as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Checked when the frame was parsed; a payload that is not UTF-8 cannot be made.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }
}

impl DecodeError {
    pub(crate) fn new(error: &serde_json::Error) -> Self {
        // serde_json quotes received texts in some messages; what a server wrote stays out of errors
        // until the escaping of this crate has seen it.
        let message = crate::escape::escape(&error.to_string(), 200).into_owned();
        Self { message, line: error.line(), column: error.column() }
    }
}

/// Shows the length alone: payloads are untrusted and may hold secrets.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}
