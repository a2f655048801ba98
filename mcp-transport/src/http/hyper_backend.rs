use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backend::{HttpBackend, HttpBody, HttpPool, HttpRequest, HttpResponse, Origin};
use super::dial::Dialer;
use super::error::{HttpConnectError, HttpError};
use super::resolve::{Resolve, SystemResolver};
use super::tls::{Tls, TlsRoots};
use super::watched::FirstByte;

/// Most headers of one answer: what hyper takes unasked. Where it is told a number, it makes room for as
/// many with each answer.
const MAX_HEADERS: usize = 100;

/// Largest head of an answer, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How long the head of an answer may take from its first byte to its last, unless a user says otherwise.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// Connections kept in a pool while no request needs them.
const MAX_IDLE: usize = 16;

/// How long a connection is kept.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The [`HttpBackend`] for use: HTTP/1.1 by hyper, TLS by rustls, over TCP.
///
/// Each connection is a task on a tracker of its pool; a request needs none. Clones share the TLS
/// configuration, which is made when the first `https` URL is used.
#[derive(Debug, Clone)]
pub struct HyperBackend {
    head_limit: Duration,
    resolver: Arc<dyn Resolve>,
    tls: Arc<Tls>,
}

impl Default for HyperBackend {
    fn default() -> Self {
        Self::new(TlsRoots::Platform)
    }
}

impl HyperBackend {
    /// A backend that trusts `roots`.
    #[must_use]
    pub fn new(roots: TlsRoots) -> Self {
        Self {
            head_limit: HEAD_LIMIT,
            resolver: Arc::new(SystemResolver::default()),
            tls: Arc::new(Tls::new(roots)),
        }
    }

    /// Sets how long the head of an answer may take from its first byte to its last. Default 30 s.
    ///
    /// How long a server may think before that first byte is up to the caller.
    #[must_use]
    pub fn with_head_limit(mut self, limit: Duration) -> Self {
        self.head_limit = limit;
        self
    }

    /// Looks names up with `resolver` instead of the operating system.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }
}

impl HttpBackend for HyperBackend {
    fn open_pool(&self, origin: &Origin) -> Arc<dyn HttpPool> {
        let (resolver, tls) = (Arc::clone(&self.resolver), Arc::clone(&self.tls));
        Arc::new(HyperPool(Arc::new(Shared {
            host: origin.authority().parse().ok(),
            head_limit: self.head_limit,
            dialer: Dialer { origin: origin.clone(), resolver, tls },
            idle: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })))
    }
}

/// Owns the connections; dropping it ends them.
struct HyperPool(Arc<Shared>);

struct Shared {
    dialer: Dialer,
    host: Option<HeaderValue>,
    head_limit: Duration,
    /// Kept connections, the one used last at the end.
    idle: Mutex<Vec<Kept>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

struct Kept {
    link: Link,
    since: Instant,
}

/// One connection, as far as requests use it.
struct Link {
    sender: http1::SendRequest<OneBody>,
    first_byte: FirstByte,
}

#[async_trait]
impl HttpPool for HyperPool {
    async fn connect(&self) -> Result<(), HttpConnectError> {
        if self.0.idle().is_empty() {
            let link = self.0.open().await?;
            self.0.keep(link);
        }
        Ok(())
    }

    async fn request(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let HttpRequest { method, target, headers, body, mark } = request;
        let mut message = Request::new(OneBody(Some(body).filter(|body| !body.is_empty())));
        *message.method_mut() = method;
        *message.version_mut() = Version::HTTP_11;
        *message.uri_mut() = target.parse().map_err(|_| HttpError::Framing("no such path".to_owned()))?;
        *message.headers_mut() = headers;
        if let Some(host) = &self.0.host {
            message.headers_mut().insert(header::HOST, host.clone());
        }
        loop {
            let (mut link, is_new) = self.0.take().await?;
            // From here on the connection's task may write.
            mark.set();
            match exchange(&mut link, message, self.0.head_limit).await {
                Ok(response) => return Ok(self.0.answer(link, response)),
                Err(Failed::Unsent(back, _)) if !is_new => {
                    // A kept connection had ended before a byte was written: the next one.
                    mark.clear();
                    message = *back;
                }
                Err(Failed::Unsent(_, error)) => {
                    mark.clear();
                    let origin = self.0.dialer.origin.to_string();
                    return Err(HttpConnectError::Failed { origin, reason: error }.into());
                }
                Err(Failed::Other(error)) => return Err(error),
            }
        }
    }

    async fn close(&self, by: Instant) -> usize {
        self.0.stop.cancel();
        self.0.idle().clear();
        self.0.tasks.close();
        // Running out of time leaves aborted tasks to the runtime; their number is the answer.
        let _ = timeout_at(by, self.0.tasks.wait()).await;
        self.0.tasks.len()
    }
}

impl Drop for HyperPool {
    fn drop(&mut self) {
        self.0.stop.cancel();
    }
}

/// Why an exchange has brought no answer.
enum Failed {
    /// Nothing was written; here is the request.
    Unsent(Box<Request<OneBody>>, String),
    Other(HttpError),
}

/// Sends a request and waits for the head of its answer, whose time is limited once it has begun.
async fn exchange(
    link: &mut Link,
    message: Request<OneBody>,
    head_limit: Duration,
) -> Result<Response<Incoming>, Failed> {
    link.first_byte.expect();
    let mut answer = pin!(link.sender.try_send_request(message));
    let mut limit: Option<Pin<Box<tokio::time::Sleep>>> = None;
    let first_byte = &link.first_byte;
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(answer.map_err(failed));
        }
        if limit.is_none() && first_byte.poll_come(cx).is_ready() {
            limit = Some(Box::pin(sleep_until(Instant::now() + head_limit)));
        }
        match &mut limit {
            Some(limit) => limit.as_mut().poll(cx).map(|()| {
                let reason = format!("not complete {head_limit:?} after they began");
                Err(Failed::Other(HttpError::Headers(reason)))
            }),
            None => Poll::Pending,
        }
    })
    .await
}

fn failed(mut error: TrySendError<Request<OneBody>>) -> Failed {
    match error.take_message() {
        Some(back) => Failed::Unsent(Box::new(back), described(error.error())),
        None => Failed::Other(explained(error.error())),
    }
}

fn explained(error: &hyper::Error) -> HttpError {
    if error.is_parse_too_large() {
        HttpError::Headers(format!("more than {MAX_HEADERS}, or than {} KiB", MAX_HEAD_BYTES / 1024))
    } else if error.is_parse() {
        HttpError::Framing(described(error))
    } else {
        HttpError::Lost(described(error))
    }
}

/// The error and what caused it: the outer one often says no more than "error reading".
fn described(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl Shared {
    /// A connection that is ready for a request: a kept one, or a new one.
    async fn take(self: &Arc<Self>) -> Result<(Link, bool), HttpConnectError> {
        loop {
            let kept = self.idle().pop();
            let Some(Kept { mut link, since }) = kept else { return Ok((self.open().await?, true)) };
            // Its last answer has been read, so this waits for its task to notice at most.
            if since.elapsed() < IDLE_LIMIT && link.sender.ready().await.is_ok() {
                return Ok((link, false));
            }
        }
    }

    async fn open(self: &Arc<Self>) -> Result<Link, HttpConnectError> {
        let failed =
            |reason: String| HttpConnectError::Failed { origin: self.dialer.origin.to_string(), reason };
        if self.stop.is_cancelled() {
            return Err(failed("the pool is closed".to_owned()));
        }
        let stream = self.dialer.dial().await?;
        let first_byte = stream.first_byte();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(described(&error)))?;
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if let Some(Err(error)) = stop.run_until_cancelled(connection).await {
                tracing::debug!(error = described(&error), "an HTTP connection broke");
            }
        });
        Ok(Link { sender, first_byte })
    }

    fn answer(self: &Arc<Self>, link: Link, response: Response<Incoming>) -> HttpResponse {
        let (head, body) = response.into_parts();
        let mut body = HyperBody { body, link: Some(link), pool: Arc::downgrade(self) };
        if body.body.is_end_stream() {
            body.give_back();
        }
        HttpResponse::new(head.status, head.headers, Box::new(body))
    }

    fn keep(&self, link: Link) {
        let mut idle = self.idle();
        if link.sender.is_closed() || self.stop.is_cancelled() {
            return;
        }
        idle.push(Kept { link, since: Instant::now() });
        if idle.len() > MAX_IDLE {
            // The one that was used longest ago.
            idle.remove(0);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of an answer, which holds its connection until it has been read.
struct HyperBody {
    body: Incoming,
    link: Option<Link>,
    pool: Weak<Shared>,
}

impl HyperBody {
    fn give_back(&mut self) {
        if let (Some(link), Some(pool)) = (self.link.take(), self.pool.upgrade()) {
            pool.keep(link);
        }
    }
}

impl HttpBody for HyperBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        loop {
            return match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => {
                        // With a known length the end is known with the last byte.
                        if self.body.is_end_stream() {
                            self.give_back();
                        }
                        Poll::Ready(Some(Ok(chunk)))
                    }
                    // Trailers say nothing to us.
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.link = None;
                    Poll::Ready(Some(Err(explained(&error))))
                }
                None => {
                    self.give_back();
                    Poll::Ready(None)
                }
            };
        }
    }
}

/// A body in one piece, or none.
struct OneBody(Option<Bytes>);

impl http_body::Body for OneBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

impl fmt::Debug for HyperPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperPool")
            .field("origin", &self.0.dialer.origin)
            .field("connections", &self.0.tasks.len())
            .field("kept", &self.0.idle().len())
            .finish()
    }
}

impl fmt::Debug for HyperBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperBody").finish_non_exhaustive()
    }
}
