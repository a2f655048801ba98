use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;

use super::error::{HttpConnectError, HttpError};
use crate::transport::Dispatch;

/// Makes HTTP requests: the seam between the transport and an HTTP implementation.
///
/// [`HyperBackend`](super::HyperBackend) is the one for use; tests and special networks bring their
/// own.
pub trait HttpBackend: Send + Sync + fmt::Debug {
    /// Opens a pool of connections for one server and one set of credentials.
    ///
    /// Nothing is connected yet. Connections are never shared between pools.
    fn open_pool(&self, origin: &Origin) -> Arc<dyn HttpPool>;
}

/// Connections to one origin. Dropping it ends them all, without waiting.
#[async_trait]
pub trait HttpPool: Send + Sync + fmt::Debug {
    /// Opens one connection and keeps it for the next request, unless one is kept already.
    ///
    /// # Errors
    ///
    /// The origin cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    async fn connect(&self) -> Result<(), HttpConnectError>;

    /// Sends one request and waits for the head of its answer.
    ///
    /// Neither follows redirects nor repeats anything that may have left. How long the server may
    /// think is up to the caller.
    ///
    /// # Errors
    ///
    /// See [`HttpError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the request up: its connection is closed unless nothing was written.
    async fn request(&self, request: HttpRequest) -> Result<HttpResponse, HttpError>;

    /// Ends every connection; returns at the latest at `by`, with the number of those still alive.
    async fn close(&self, by: Instant) -> usize;
}

/// Where connections of a pool lead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Origin {
    /// With or without TLS.
    pub scheme: Scheme,
    /// Host name or address, in lower case; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// The scheme of an [`Origin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain.
    Http,
    /// Over TLS.
    Https,
}

/// One request. Its headers are not shown by `Debug`.
#[non_exhaustive]
pub struct HttpRequest {
    /// GET, POST or DELETE.
    pub method: Method,
    /// Path and query, beginning with `/`.
    pub target: String,
    /// All headers but `host` and `content-length`.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// Is told when the first byte may leave.
    pub mark: DispatchMark,
}

/// The head of an answer, and its body.
#[derive(Debug)]
#[non_exhaustive]
pub struct HttpResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The body, to be read to its end so that the connection can be kept.
    pub body: Box<dyn HttpBody>,
}

/// The body of an answer. Dropping it before its end closes the connection.
pub trait HttpBody: Send + fmt::Debug {
    /// The next piece, or `None` at the proper end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>>;
}

/// Tells whether a request can have reached the server. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct DispatchMark(Arc<AtomicU8>);

impl DispatchMark {
    const NOT_SENT: u8 = 0;
    const MAY_HAVE_LEFT: u8 = 1;
    const REFUSED: u8 = 2;

    /// From here on bytes may leave.
    pub fn set(&self) {
        self.0.store(Self::MAY_HAVE_LEFT, Ordering::Release);
    }

    /// The request was given back unwritten.
    pub fn clear(&self) {
        self.0.store(Self::NOT_SENT, Ordering::Release);
    }

    /// The server has answered that it does not act on the request.
    pub(super) fn refuse(&self) {
        self.0.store(Self::REFUSED, Ordering::Release);
    }

    /// Which it is.
    #[must_use]
    pub fn dispatch(&self) -> Dispatch {
        match self.0.load(Ordering::Acquire) {
            Self::NOT_SENT => Dispatch::NotSent,
            Self::REFUSED => Dispatch::Refused,
            _ => Dispatch::MayHaveLeft,
        }
    }
}

impl HttpRequest {
    /// A request without a body.
    #[must_use]
    pub fn new(method: Method, target: impl Into<String>, headers: HeaderMap) -> Self {
        Self { method, target: target.into(), headers, body: Bytes::new(), mark: DispatchMark::default() }
    }

    /// A POST.
    #[must_use]
    pub fn post(target: impl Into<String>, headers: HeaderMap, body: Bytes) -> Self {
        Self { body, ..Self::new(Method::POST, target, headers) }
    }
}

impl HttpResponse {
    /// Puts an answer together.
    #[must_use]
    pub fn new(status: StatusCode, headers: HeaderMap, body: Box<dyn HttpBody>) -> Self {
        Self { status, headers, body }
    }
}

impl Origin {
    /// Describes an origin; `host` in lower case.
    #[must_use]
    pub fn new(scheme: Scheme, host: impl Into<String>, port: u16) -> Self {
        Self { scheme, host: host.into(), port }
    }

    /// The value of the header `host`.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl Scheme {
    /// The port where none is named.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
