use std::fmt;

use mcp_proto::Redactor;

use super::members::{object, text};

/// Longest description that is kept, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 200;

/// Longest error code, in bytes.
const MAX_CODE_BYTES: usize = 64;

/// What an authorization server says about a request that it refuses, safe to show.
///
/// # Source
///
/// RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorReply {
    /// The HTTP status; `None` where the answer came through a browser.
    pub status: Option<u16>,
    /// The code, such as `invalid_grant`.
    pub error: Option<String>,
    /// The same for a person: at most 200 bytes, escaped, without what the request held.
    pub description: Option<String>,
}

impl ErrorReply {
    /// Reads the body of an answer; `redactor` knows what must not come back.
    #[must_use]
    pub fn read(status: u16, body: &[u8], redactor: &Redactor) -> Self {
        let object = object(body).unwrap_or_default();
        let (error, description) = (text(&object, "error"), text(&object, "error_description"));
        Self::new(Some(status), error.as_deref(), description.as_deref(), redactor)
    }

    /// Makes two texts from outside safe to show.
    #[must_use]
    pub fn new(
        status: Option<u16>,
        error: Option<&str>,
        description: Option<&str>,
        redactor: &Redactor,
    ) -> Self {
        let is_code = |code: &&str| {
            code.len() <= MAX_CODE_BYTES
                && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let error = error.filter(is_code).map(|code| redactor.redact(code).into_owned());
        let description = description
            .map(|text| mcp_proto::escape(&redactor.redact(text), MAX_DESCRIPTION_BYTES).into_owned());
        Self { status, error, description }
    }

    /// Whether the code is this one.
    #[must_use]
    pub fn is(&self, code: &str) -> bool {
        self.error.as_deref() == Some(code)
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, self.status) {
            (Some(error), _) => f.write_str(error)?,
            (None, Some(status)) => write!(f, "HTTP status {status}")?,
            (None, None) => f.write_str("an error without a code")?,
        }
        match &self.description {
            Some(description) => write!(f, " ({description})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z01_what_a_server_says_is_made_safe_to_show() {
        let redactor = Redactor::new(["canary-code".into()]);
        let read = |body: &str| ErrorReply::read(400, body.as_bytes(), &redactor);
        let reply =
            read(r#"{"error": "invalid_grant", "error_description": "code canary-code\u001b[2J is used"}"#);
        assert_eq!(reply.to_string(), r"invalid_grant (code [secret]\u{1b}[2J is used)");
        assert!(reply.is("invalid_grant"));
        let long = format!(r#"{{"error": "{0}", "error_description": "{0}"}}"#, "x".repeat(300));
        let reply = read(&long);
        assert_eq!((reply.error, reply.description.unwrap().len()), (None, 203));
        for body in ["", "<html>", "[]", r#"{"error": 7}"#, r#"{"error": "a b\n"}"#, r#"{"error": ""}"#] {
            assert_eq!(read(body).to_string(), "HTTP status 400", "{body}");
        }
    }
}
