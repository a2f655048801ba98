use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lenient;
use crate::raw_json::RawJson;

/// Error codes of JSON-RPC and MCP.
pub mod code {
    /// The message was not valid JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message was not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method is not known.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The peer failed inside.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The resource does not exist (legacy versions).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// A person must open a URL before the request can succeed (2025-11-25); see
    /// [`UrlElicitationRequired`](crate::UrlElicitationRequired).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Mirrored headers do not match the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a client capability that it did not declare (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The protocol version is not supported (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// The `error` member of a JSON-RPC response.
///
/// `Display` shows code and message, the message escaped and cut at 8 KiB; `data` is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorObject {
    /// What kind of error, see [`code`].
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub code: i64,
    /// One sentence, as received: escape it before showing it.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub message: String,
    /// Details in a form that depends on the code, as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<RawJson>,
}

impl ErrorObject {
    /// Makes an error without details.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl fmt::Debug for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.code, crate::escape::escape(&self.message, 8 * 1024))
    }
}
