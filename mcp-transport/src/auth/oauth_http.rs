use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use http::header;
use mcp_proto::Secret;

use super::address::AddressRefused;
use super::web_url::WebUrl;
use crate::http::{HeaderMap, Method};

/// Largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// How long a request for a token or a registration may take.
pub(super) const TOKEN_LIMIT: Duration = Duration::from_secs(30);

/// Longest wait that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Makes the requests of a flow: one request, one answer, read whole.
///
/// An implementation neither follows redirects nor repeats anything, reads at most
/// [`MAX_ANSWER_BYTES`], keeps to the time of the request, sends no cookies and no headers of its own
/// but `host`, `user-agent` and those of the connection. Where [`OAuthRequest::is_named_by_server`]
/// says so, it connects to no address that the [`AddressPolicy`](super::AddressPolicy) of the server
/// refuses.
#[async_trait]
pub trait OAuthHttp: Send + Sync + fmt::Debug {
    /// Sends `request`.
    ///
    /// # Errors
    ///
    /// There is no complete answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the request up; whether it has left is then unknown.
    async fn send(&self, request: OAuthRequest) -> Result<OAuthResponse, OAuthHttpError>;
}

/// One request of a flow. `Debug` shows neither body nor headers.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthRequest {
    /// GET or POST.
    pub method: Method,
    /// Where to.
    pub url: WebUrl,
    /// Headers.
    pub headers: HeaderMap,
    /// The body of a POST.
    pub body: Option<Secret>,
    /// Whether the URL comes from a server rather than from the user.
    pub is_named_by_server: bool,
    /// How long the whole exchange may take.
    pub limit: Duration,
}

/// The answer to a request of a flow. `Debug` does not show the body, which may hold tokens.
#[derive(Clone)]
#[non_exhaustive]
pub struct OAuthResponse {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

/// A request of a flow has no complete answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthHttpError {
    /// The URL leads to an address that the server may not name.
    #[error(transparent)]
    Address(#[from] AddressRefused),
    /// No complete answer in time.
    #[error("no complete answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The answer is too large.
    #[error("an answer of more than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
    /// The network failed; the text says how.
    #[error("{0}")]
    Unreachable(String),
}

impl OAuthRequest {
    /// Asks for a document at a URL that a server has named.
    #[must_use]
    pub fn get(url: WebUrl, headers: HeaderMap, limit: Duration) -> Self {
        Self { method: Method::GET, url, headers, body: None, is_named_by_server: true, limit }
    }

    /// Sends a body to a URL that a server has named.
    #[must_use]
    pub fn post(url: WebUrl, headers: HeaderMap, body: Secret, limit: Duration) -> Self {
        Self { method: Method::POST, url, headers, body: Some(body), is_named_by_server: true, limit }
    }
}

impl OAuthResponse {
    /// Puts an answer together.
    #[must_use]
    pub fn new(status: u16, headers: HeaderMap, body: Vec<u8>) -> Self {
        Self { status, headers, body }
    }

    /// Whether the status is one of success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// How long the server asks to wait, if it says so in seconds; at most five minutes.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500..=599)
    }
}

impl fmt::Debug for OAuthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OAuthResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthResponse")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
