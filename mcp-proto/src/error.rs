use std::fmt;

use crate::message::message;
use crate::other_members::OtherMembers;
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

message! {
    /// The `error` member of a JSON-RPC response; in all versions.
    ///
    /// `Display` and `Debug` show code and message, the message escaped and cut at 8 KiB; `data` is never
    /// shown.
    ///
    /// # Source
    ///
    /// JSON-RPC 2.0, section 5.1.
    #[derive(Clone, PartialEq, Eq)]
    ErrorObject {
        /// What kind of error, see [`code`].
        code: i64 = "code", OrDefault;
        /// One sentence, as received: escape it before showing it.
        message: String = "message", OrDefault;
        /// Details in a form that depends on the code, as received.
        data: Option<RawJson> = "data", Optional;
    }
}

impl ErrorObject {
    /// Makes an error without details.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, other: OtherMembers::default() }
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
