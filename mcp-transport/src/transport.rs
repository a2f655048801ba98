use std::fmt;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use mcp_proto::RequestId;
use tokio::time::Instant;

use crate::error::{CloseReport, Closed, Full, SendError};

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
    /// - [`SendError::TooLarge`]: the frame is over the limit of the transport; nothing has left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it returns leaves the frame either handed over or not;
    /// [`abandon`](Self::abandon) with its id afterwards tells which, and takes it back if it can.
    async fn send(&self, message: Outbound) -> Result<Sent, SendError>;

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
    /// is told: with `notice` where streams are shared, by ending the request's own stream where they
    /// are not. If the notice cannot be handed over at once, or is not written within 50 ms, the
    /// connection is closed.
    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Dispatch;

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
    /// The frame is written or queued; an answer arrives at the receiving half.
    Queued,
    /// The answer has begun as a stream that the receiving half polls.
    Streaming,
}

/// Whether a request can have reached the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// At least one byte may have left.
    MayHaveLeft,
    /// No byte has left and none will.
    NotSent,
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

/// Why a frame cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenWhy {
    /// A line that is no message: a log line on standard output, say.
    #[error("the server wrote something that is not a message")]
    Noise,
    /// The frame is over the limit; `limit` in bytes.
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// The limit that applied, in bytes.
        limit: usize,
    },
}
