use std::borrow::Cow;
use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mcp_proto::{ErrorObject, RequestId};
use tokio::time::Instant;

use crate::auth_failure::{AuthFailure, AuthFailureKind};
use crate::error::{CloseReport, Closed, Full, SendError};
use crate::profile::HttpProfile;

/// The sending half of a connection, shared by every caller of a session.
///
/// A transport moves frames and knows no method names. It never correlates, never opens a second
/// connection and never repeats a frame that may have left.
///
/// Every frame is written whole or the connection is closed. The point where a frame turns from
/// *not sent* into *may have left* lies in one place of each implementation, and
/// [`abandon`](Self::abandon) tells on which side of it a request is.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    /// Whether all frames share one stream, or each request has a stream of its own.
    fn streams(&self) -> Streams;

    /// Hands a frame over.
    ///
    /// Waits while the queue of the transport is full. When it returns `Ok`, the frame belongs to the
    /// transport: it may still be unwritten, but it needs nobody's help to leave.
    ///
    /// # Errors
    ///
    /// - [`SendError::Closed`]: the connection has ended; nothing of the frame has left.
    /// - [`SendError::Refused`]: the peer no longer knows the session that the frame belongs to, and
    ///   has not acted on it; the connection has ended.
    /// - [`SendError::TooLarge`]: the frame is over the limit of the transport; nothing has left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it returns leaves the frame either handed over or not;
    /// [`abandon`](Self::abandon) with its id afterwards tells which, and takes it back if it can.
    async fn send(&self, message: Outbound) -> Result<Sent, SendError>;

    /// Hands a frame over as [`send`](Self::send) does, if that takes no waiting; else gives it back.
    ///
    /// Spares the future for what is almost always done at once. `None` is the same as [`Sent::Queued`].
    /// Unless a transport says otherwise, it gives every frame back.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    fn try_send(&self, message: Outbound) -> Result<Option<Outbound>, SendError> {
        Ok(Some(message))
    }

    /// Hands a frame over without ever waiting: answers to `ping`, notices.
    ///
    /// Uses a reserve of the queue that [`send`](Self::send) leaves free.
    ///
    /// # Errors
    ///
    /// The reserve is used up or the connection has ended; nothing of the frame has left.
    fn post(&self, message: Outbound) -> Result<(), Full>;

    /// Gives a request up. Never waits; may be called from `Drop`, outside any runtime.
    ///
    /// A frame that has not begun to leave is taken back and `notice` is not sent. Otherwise the peer
    /// is told: with `notice` if there is one, handed over as by [`insist`](Self::insist), and by ending the
    /// request's own stream where it has one.
    ///
    /// A request with a stream of its own is given up, without a notice, also when it has ended otherwise than
    /// by its answer on that stream.
    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned;

    /// Hands over what the peer must not miss, without ever waiting: that something was given up.
    ///
    /// If it cannot be handed over at once, the connection is closed, and so it is where streams are shared
    /// if it is not written within 50 ms. Unless a transport says otherwise, it is [posted](Self::post)
    /// and the connection stays.
    ///
    /// # Errors
    ///
    /// The connection has ended, if only because of this; nothing of the frame has left.
    fn insist(&self, message: Outbound) -> Result<(), Full> {
        self.post(message)
    }

    /// Tells what the handshake has agreed on, once. Only transports over HTTP want to know.
    fn set_profile(&self, profile: HttpProfile) {
        let _ = profile;
    }

    /// Ends the connection and everything it owns: streams, tasks, child processes.
    ///
    /// Frames already handed over are written first if that takes no longer than the transport's own
    /// grace. Returns no later than `by`; whatever still lives then is left to its owner, killed, and
    /// reported as [`Ending::Abandoned`](crate::Ending::Abandoned). May be called again and by many
    /// callers; all get the same report.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the closing.
    async fn close(&self, by: Instant) -> CloseReport;
}

/// The receiving half of a connection, polled by one driver.
///
/// Polling also moves whatever of the sending half needs a task: queued frames are flushed here.
pub trait Receive: Send + fmt::Debug {
    /// Appends what has arrived to `into`; `Ready(Ok)` means at least one entry was added.
    ///
    /// One broken or oversize frame is an [`Inbound::Broken`] entry, never the end of the connection.
    ///
    /// # Errors
    ///
    /// The connection has ended. Everything that arrived before was returned by earlier calls; later
    /// calls return the same error.
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>>;
}

/// How requests and answers share a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Every request has a stream of its own (HTTP): ending the stream is the cancel signal.
    PerRequest,
    /// All frames share one stream (stdio): a cancel is a message.
    Shared,
}

/// A frame to send.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outbound {
    /// One JSON-RPC message, without a line end.
    pub frame: Bytes,
    /// What the frame is, as far as a transport must know.
    pub kind: OutboundKind,
    /// Values that a transport with headers mirrors; empty elsewhere.
    pub mirrored: Vec<MirroredHeader>,
}

/// What a transport must know about a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboundKind {
    /// Expects no answer.
    Notification,
    /// Expects an answer with this id.
    Request(RequestId),
    /// Answers a request of the server.
    Response,
}

/// A header that mirrors a part of the body (2026-07-28, HTTP), its value already encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredHeader {
    /// Header name.
    pub name: std::borrow::Cow<'static, str>,
    /// Header value.
    pub value: String,
}

impl Outbound {
    /// A notification.
    #[must_use]
    pub fn notification(frame: Bytes) -> Self {
        Self { frame, kind: OutboundKind::Notification, mirrored: Vec::new() }
    }

    /// A request that expects an answer with `id`.
    #[must_use]
    pub fn request(id: RequestId, frame: Bytes) -> Self {
        Self { frame, kind: OutboundKind::Request(id), mirrored: Vec::new() }
    }

    /// An answer to a request of the server.
    #[must_use]
    pub fn response(frame: Bytes) -> Self {
        Self { frame, kind: OutboundKind::Response, mirrored: Vec::new() }
    }

    /// The id, if the frame is a request.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        match &self.kind {
            OutboundKind::Request(id) => Some(id),
            OutboundKind::Notification | OutboundKind::Response => None,
        }
    }
}

/// What became of a frame that was handed over.
#[derive(Debug)]
#[non_exhaustive]
pub enum Sent {
    /// The complete answer came back inline (an HTTP answer with a JSON body).
    Answered(Bytes),
    /// No answer to this request can come any more; the connection stays.
    Failed(BrokenWhy),
    /// The frame is written or queued; an answer arrives at the receiving half.
    Queued,
    /// The peer refused the frame on the level of the transport; the connection stays.
    Rejected(Box<Rejection>),
    /// The answer has begun as a stream that the receiving half polls.
    Streaming,
}

/// The answer of an HTTP server that refuses a request.
///
/// `Display` and `Debug` show its text escaped and cut at 512 bytes.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Rejection {
    /// HTTP status, never one of success.
    pub status: u16,
    /// The JSON-RPC error in the body, if there is one; whatever its id, it answers this request.
    pub error: Option<ErrorObject>,
    /// Any other body, as received, as far as it is read: take secrets out of it, then escape it, before it
    /// is shown.
    pub text: String,
    /// How long the server asks to wait, at most 300 s.
    pub retry_after: Option<Duration>,
    /// How the server wants to be authorized, if it says so (`WWW-Authenticate`), in at most 4 KiB: escaped.
    pub challenge: Option<String>,
    /// What is to be done about it, if the request had no authorization that the server would accept;
    /// `status` is then 401 or 403, also if the request was not sent because of it.
    pub auth: Option<AuthFailure>,
}

impl Rejection {
    /// A refusal with nothing but a status.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, error: None, text: String::new(), retry_after: None, challenge: None, auth: None }
    }

    /// Whether the server would serve the request with other credentials: it answers 401, or 403 with the
    /// challenge `insufficient_scope`, or only a login can bring an authorization to send. Any other 403 is a
    /// refusal for good.
    ///
    /// # Source
    ///
    /// RFC 6750, section 3.1; MCP 2025-11-25 and 2026-07-28, basic/authorization.
    #[must_use]
    pub fn wants_authorization(&self) -> bool {
        match &self.auth {
            Some(failure) => failure.needs_login(),
            None => self.status == 401 || self.wants_wider_scope(),
        }
    }

    /// Whether the server accepts the credentials, but not for this request: it wants a wider scope. Other
    /// requests need not be hit.
    #[must_use]
    pub fn wants_wider_scope(&self) -> bool {
        let lacks_scope = |challenge: &String| {
            challenge.contains("error=\"insufficient_scope\"")
                || challenge.contains("error=insufficient_scope")
        };
        match &self.auth {
            Some(failure) => matches!(failure.kind, AuthFailureKind::InsufficientScope(_)),
            None => self.status == 403 && self.challenge.as_ref().is_some_and(lacks_scope),
        }
    }

    /// Its text as it may be shown: escaped, at most [`SHOWN_BYTES`](Self::SHOWN_BYTES) of it.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        mcp_proto::escape(self.text.trim(), Self::SHOWN_BYTES)
    }

    /// Most bytes of a text that are shown.
    pub const SHOWN_BYTES: usize = 512;
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejection")
            .field("status", &self.status)
            .field("error", &self.error)
            // Escaped already: quoting it would escape it twice.
            .field("text", &format_args!("\"{}\"", self.shown()))
            .field("retry_after", &self.retry_after)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.status)?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None if self.text.trim().is_empty() => Ok(()),
            None => write!(f, ": {}", self.shown()),
        }?;
        match self.retry_after {
            Some(wait) => write!(f, " (it asks to wait {} s)", wait.as_secs()),
            None => Ok(()),
        }
    }
}

/// Whether a request can have reached the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// At least one byte may have left.
    MayHaveLeft,
    /// No byte has left and none will.
    NotSent,
    /// The peer has seen the request and answered that it does not act on it.
    Refused,
}

/// What giving a request up has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned {
    /// Whether the request can have reached the peer.
    pub dispatch: Dispatch,
    /// Whether the peer is told: the notice was taken, or the request's own stream ends for it.
    pub is_told: bool,
}

/// What the receiving half hands up.
#[derive(Debug)]
#[non_exhaustive]
pub enum Inbound {
    /// A frame that cannot be read, or an answer that cannot come any more.
    Broken(Broken),
    /// One frame, not yet parsed.
    Message {
        /// The bytes of the frame, without a line end.
        frame: Bytes,
        /// The request on whose own stream it came; `None` on a shared stream.
        stream: Option<RequestId>,
    },
    /// The stream on which the server tells things unasked has been given up for now, or is open again.
    /// Requests go on as before. Only a legacy server over HTTP has one.
    OwnStream {
        /// Whether it is open again.
        is_open: bool,
    },
    /// The stream of a request is over: if its answer has not come, none will.
    StreamEnded {
        /// The request.
        id: RequestId,
        /// How the stream ended.
        why: BrokenWhy,
    },
}

/// A frame that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// The id of the frame where it can be read: that call fails, all others go on.
    pub id: Option<RequestId>,
    /// What is wrong.
    pub why: BrokenWhy,
}

impl Broken {
    /// Describes a frame that cannot be read.
    #[must_use]
    pub fn new(id: Option<RequestId>, why: BrokenWhy) -> Self {
        Self { id, why }
    }
}

/// Why a frame cannot be read, or an answer cannot come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenWhy {
    /// The connection broke before the answer was complete.
    #[error("the connection broke before the answer was complete")]
    Cut,
    /// What came is not HTTP.
    #[error("the server does not keep to HTTP: {0}")]
    Framing(String),
    /// The headers of an HTTP answer are too many, too large, or come too slowly.
    #[error("the headers of the answer are over the limit: {0}")]
    Headers(String),
    /// A line that is no message: a log line on standard output, say.
    #[error("the server wrote something that is not a message")]
    Noise,
    /// The server ended the exchange properly, but without an answer.
    #[error("the server gave no answer")]
    NoReply,
    /// An HTTP answer of a kind that holds no messages, such as a login page.
    #[error("the server does not speak MCP: it answered with {content_type:?}; check the URL")]
    NotMcp {
        /// Its content type, escaped and cut; empty if it has none.
        content_type: String,
    },
    /// The session id that the server chose may not be sent back: it is empty, longer than 1 KiB, or has
    /// characters that are not allowed.
    #[error("the server chose a session id that is too long or not allowed")]
    SessionId,
    /// The frame is over the limit; `limit` in bytes.
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// The limit that applied, in bytes.
        limit: usize,
    },
}
