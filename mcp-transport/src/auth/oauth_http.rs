use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use mcp_proto::Secret;

use super::address::{AddressClass, AddressPolicy, AddressRefused};
use super::web_url::WebUrl;
use crate::http::{HeaderMap, Method, retry_after_without_clock};

/// Largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// How long a request for a token or a registration may take.
pub(super) const TOKEN_LIMIT: Duration = Duration::from_secs(30);

/// Makes the requests of a flow: one request, one answer, read whole.
///
/// An implementation neither follows redirects nor repeats anything, reads at most
/// [`MAX_ANSWER_BYTES`], keeps to the time of the request, sends no cookies and no headers of its own
/// but `host`, `user-agent` and those of the connection. It connects to no address that the
/// [`policy`](OAuthRequest::policy) of the request refuses, and looks up the name of the server that the
/// policy is about where it has one. So servers may share it: each request brings the policy of its own.
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
    /// Which addresses the URL may lead to; `None` for any, as with a URL that the user has written.
    pub policy: Option<AddressPolicy>,
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
    /// Asks for a document. The URL may lead to public addresses alone until it is said who has named it.
    #[must_use]
    pub fn get(url: WebUrl, headers: HeaderMap, limit: Duration) -> Self {
        let policy = Some(AddressPolicy::for_class(AddressClass::Public));
        Self { method: Method::GET, url, headers, body: None, policy, limit }
    }

    /// Sends a body. The URL may lead to public addresses alone until it is said who has named it.
    #[must_use]
    pub fn post(url: WebUrl, headers: HeaderMap, body: Secret, limit: Duration) -> Self {
        Self { method: Method::POST, body: Some(body), ..Self::get(url, headers, limit) }
    }

    /// The server at `server` has named the URL, which may lead where that server may send its clients.
    #[must_use]
    pub fn named_by_server(mut self, server: &WebUrl) -> Self {
        self.policy = AddressPolicy::of_url(&self.url, server);
        self
    }

    /// The user has written the URL, which may lead anywhere.
    #[must_use]
    pub fn named_by_user(mut self) -> Self {
        self.policy = None;
        self
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

    /// How long the server asks to wait, in seconds or until a date that counts from its own; at most five
    /// minutes.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after_without_clock(&self.headers)
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

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, header};

    use super::*;

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date_that_counts_from_that_of_the_answer() {
        let (wait, date) = (header::RETRY_AFTER, header::DATE);
        let until = "Sun, 06 Nov 1994 08:50:00 GMT";
        let asked = |headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().cloned();
            let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
            OAuthResponse::new(503, headers, Vec::new()).retry_after().map(|wait| wait.as_secs())
        };
        assert_eq!(asked(&[(wait.clone(), "7")]), Some(7));
        assert_eq!(asked(&[(wait.clone(), "100000")]), Some(300));
        assert_eq!(asked(&[(wait.clone(), until), (date, "Sun, 06 Nov 1994 08:49:55 GMT")]), Some(5));
        assert_eq!(asked(&[(wait.clone(), until)]), None, "nobody knows how long that is");
        assert_eq!(asked(&[(wait, "soon")]), None);
    }
}
