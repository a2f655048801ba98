use std::time::Duration;

use mcp_proto::negotiation::VersionError;
use mcp_proto::probe::ProbeFailure;
use mcp_proto::{
    DecodeError, EnvelopeFault, ErrorObject, InputRequired, InvalidAnnotation, Method, MirrorError,
    NotInVersion, code,
};
use mcp_transport::{AuthFailureKind, BrokenWhy, Closed, Dispatch, Rejection};

use crate::urls::UrlsRequired;

/// A call ended without a value.
///
/// [`outcome`](Self::outcome) tells whether the server can have acted on it. No variant holds bytes
/// that were not escaped and cut.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The request has no JSON form, or is not an object. The caller is at fault.
    #[error("the request cannot be written: {0}")]
    Encode(DecodeError),
    /// The request or its answer is over the limit of the transport.
    ///
    /// Ask for less, or raise the limit.
    #[error("the message is larger than {limit} bytes")]
    FrameTooLarge {
        /// The limit, in bytes.
        limit: usize,
        /// `NotSent` if the request was too large, `MayHaveLeft` if the answer was.
        dispatch: Dispatch,
    },
    /// The tool asks for headers that cannot be written; nothing was sent. Only in the modern era over
    /// HTTP.
    #[error("{0}")]
    Header(HeaderFault),
    /// The server refused the request on the level of HTTP. The session stays usable.
    ///
    /// A JSON-RPC error with such a status is [`Peer`](Self::Peer), unless the status (429, 502, 503, 504)
    /// says that nothing can be served right now, or wants other credentials
    /// ([`Rejection::wants_authorization`]).
    #[error("the server refused the request: {0}")]
    Http(Box<Rejection>),
    /// The server asked for something that could not be given to it. It may have begun with the call.
    #[error("the server asked for {method}, which failed: {error}")]
    Input {
        /// What the server asked for.
        method: Method,
        /// Why it got nothing.
        error: Box<ErrorObject>,
    },
    /// The server asks for input before it goes on, and the call was made with
    /// [`CallOptions::with_rounds_by_hand`](crate::CallOptions::with_rounds_by_hand). Answer with
    /// [`CallOptions::with_answers`](crate::CallOptions::with_answers), or let it be.
    #[error("the server asks for input before it goes on")]
    InputRequired(Box<InputRequired>),
    /// The connection of this one request broke before its answer was complete. The session stays
    /// usable; the server may have acted on the request.
    #[error("the connection broke before the answer was complete")]
    Lost,
    /// As many calls as the session may hold are waiting for an answer. Try again later.
    #[error("too many calls are waiting for this server")]
    Overloaded,
    /// The server answered with an error. The session stays usable.
    #[error("{0}")]
    Peer(ErrorObject),
    /// The server answered with something that is not an answer to this request.
    #[error("the server broke the protocol: {0}")]
    Protocol(ProtocolFault),
    /// No permit came free in time; the request was never sent.
    #[error("no free slot for this server within {} ms", .waited.as_millis())]
    QueueTimeout {
        /// How long the call waited for its permit.
        waited: Duration,
    },
    /// The session ended before or during the call.
    #[error("the session has ended: {closed}")]
    SessionGone {
        /// Whether the request can have reached the server.
        dispatch: Dispatch,
        /// How the session ended.
        closed: Closed,
    },
    /// The server has made a task of the call, and it came to no result. It may have acted on the request.
    #[error("the task that the server has made of the call {0}")]
    Task(TaskFault),
    /// No answer in time. The request has been cancelled.
    #[error("no answer within {} ms", .waited.as_millis())]
    Timeout {
        /// Whether the request can have reached the server.
        dispatch: Dispatch,
        /// From the start of the call to its deadline.
        waited: Duration,
    },
    /// The request needs something that the server does not offer, or that nothing here can do for it.
    #[error("the server does not support {method}: {why}")]
    Unsupported {
        /// The method that was asked for.
        method: Method,
        /// What is missing.
        why: UnsupportedWhy,
    },
    /// A person must open URLs before the server serves the request (2025-11-25), and has not; the server
    /// has not acted on it. Have them opened, then make the call again.
    #[error("the server wants a person to open URLs before it serves the request: {}", .0.why)]
    UrlsRequired(Box<UrlsRequired>),
}

/// A session could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The connection ended before anything was agreed on.
    #[error("the connection ended during the handshake: {0}")]
    Closed(Closed),
    /// The server refused a request of the handshake on the level of HTTP.
    #[error("the server refused the handshake: {0}")]
    Http(Box<Rejection>),
    /// A request of the handshake cannot be written: the configured capabilities have no JSON form.
    #[error("the handshake cannot be written: {0}")]
    Encode(#[from] DecodeError),
    /// The probe led nowhere.
    #[error(transparent)]
    Probe(ProbeFailure),
    /// The server ended when it was probed, as some legacy servers do. Connect again, with
    /// [`EraPolicy::Legacy`](crate::EraPolicy::Legacy); the server has not failed.
    #[error("the server ended when it was asked for its versions: {0}")]
    ProbeKilled(Closed),
    /// The server answered with something that is no answer to the handshake.
    #[error("the server broke the protocol during the handshake: {0}")]
    Protocol(#[from] ProtocolFault),
    /// The server answered `initialize` with an error.
    #[error("the server refused the handshake: {0}")]
    Rpc(ErrorObject),
    /// The time was up.
    #[error("the server did not finish the handshake in time")]
    Timeout,
    /// No version in common: update the server or this client.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// How a call can have ended on the side of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// The server has not seen the request and never will.
    NotSent,
    /// The server saw the request and answered with an error.
    Rejected,
    /// The server may have acted on the request.
    Unknown,
}

/// Why the headers that a tool asks for cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The arguments do not fit the headers. The caller is at fault.
    #[error("the arguments cannot be mirrored into headers: {0}")]
    Arguments(#[from] MirrorError),
    /// The definition of the tool breaks the rules; see
    /// [`Session::rejected_tools`](crate::Session::rejected_tools). The server is at fault.
    #[error("the tool cannot be called over HTTP: {0}")]
    Tool(#[from] InvalidAnnotation),
}

/// What makes an answer invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// The answer came in an array, which the agreed version does not have.
    #[error("it sent a batch, which the agreed version does not have")]
    Batch,
    /// The frame cannot be read.
    #[error("{0}")]
    Broken(BrokenWhy),
    /// The frame is not a JSON-RPC message.
    #[error("{0}")]
    Envelope(EnvelopeFault),
    /// The answer names another request. That one is not touched.
    #[error("it answered with the id of another request")]
    IdMismatch,
    /// What came as the answer to the request does not answer it.
    #[error("what it answered is no answer to the request")]
    NoAnswer,
    /// It ended a subscription that it had not begun.
    #[error("it ended the subscription without acknowledging it")]
    NotAcknowledged,
    /// The result is not of the shape this request expects.
    #[error("unexpected result: {0}")]
    Result(DecodeError),
    /// The result is of a kind that is not known, or that this request cannot have; the text is escaped
    /// and cut.
    #[error("unexpected result type {0}")]
    ResultType(String),
    /// It was to be given what it asked for, but the next round failed: the request cannot be written
    /// again, since its list of tools asks for other headers by now, say, or was refused with a status.
    #[error("the next round of the call failed: {0}")]
    NextRound(String),
    /// It asked for input again and again; the number is that of the rounds that were gone through.
    #[error("it asked for input {0} times and gave no result")]
    Rounds(u32),
    /// It had more state kept for the next round of the call than a client keeps.
    #[error("the state it had kept is larger than {limit} bytes")]
    StateTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It asked for more things at once than a client answers.
    #[error("it asked for more than {0} things at once")]
    TooManyInputs(usize),
}

/// Why a task came to no result. Texts of the server are escaped and cut.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskFault {
    /// It was cancelled on the side of the server, which may say why.
    #[error("was cancelled{}", because(.0))]
    Cancelled(String),
    /// It was not done in the time that the server keeps it.
    #[error("was not done within the {} ms that it is kept", .time_to_live.as_millis())]
    Expired {
        /// How long the server keeps it.
        time_to_live: Duration,
    },
    /// It has failed, and the server gave no error; it may say why.
    #[error("has failed{}", because(.0))]
    Failed(String),
    /// The server does not tell how it is: it does not know it any more, say.
    #[error("cannot be asked about: {0}")]
    Untold(Box<ErrorObject>),
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// Why a request cannot be served; all but [`InputRequired`](Self::InputRequired) are known before
/// anything is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsupportedWhy {
    /// The server did not declare the capability that the method belongs to.
    #[error("it has not declared that capability")]
    Capability,
    /// The method does not exist in the era of the connection.
    #[error("the agreed protocol version does not have it")]
    Era,
    /// The server wants input before it answers, and nothing here can give it: no
    /// [`ClientHandler`](crate::ClientHandler) serves what it asks for.
    #[error("it wants further input before it answers")]
    InputRequired,
    /// It is only sent by a client that has declared it, and the [`ClientHandler`](crate::ClientHandler) of
    /// this one has not.
    #[error("this client has not declared it")]
    Undeclared,
    /// The agreed version lacks a part of the request that cannot be left out.
    #[error("{0}")]
    Version(NotInVersion),
}

/// Why URLs that a server wants to be opened were not, or to no avail.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlsUnopened {
    /// The person has declined, or gone away without a decision.
    #[error("the person has not agreed")]
    Declined,
    /// The handler failed, or may not be asked: the error says why.
    #[error("nobody could be asked: {0}")]
    Refused(Box<ErrorObject>),
    /// They were opened, the request was repeated, and the server asks for the same, or for more.
    #[error("they were opened, and it still does")]
    Repeated,
    /// They are more than a client opens at once.
    #[error("they are more than {0}")]
    TooMany(usize),
    /// No [`ClientHandler`](crate::ClientHandler) opens URLs, the call was made with
    /// [`CallOptions::with_rounds_by_hand`](crate::CallOptions::with_rounds_by_hand), or it fetches a list
    /// under a permit.
    #[error("nothing here asks a person")]
    Unserved,
}

/// A member cannot be added to the `_meta` of a request. The caller is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// The value has no JSON form.
    #[error("the value cannot be written: {0}")]
    Encode(#[from] DecodeError),
    /// The key was added before.
    #[error("the key {0:?} is there already")]
    Repeated(String),
    /// The key belongs to the protocol.
    #[error("the key {0:?} is reserved for the protocol")]
    Reserved(String),
}

impl CallError {
    /// What is known about the request on the side of the server.
    #[must_use]
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::Encode(_) | Self::Header(_) | Self::Overloaded | Self::QueueTimeout { .. } => {
                CallOutcome::NotSent
            }
            Self::Peer(_) | Self::UrlsRequired(_) => CallOutcome::Rejected,
            // A server that fails may have begun.
            Self::Http(rejection) if rejection.status >= 500 => CallOutcome::Unknown,
            Self::Http(_) => CallOutcome::Rejected,
            Self::Lost | Self::Protocol(_) | Self::Task(_) => CallOutcome::Unknown,
            // The server has begun with the request, however little it may have done.
            Self::Input { .. } | Self::InputRequired(_) => CallOutcome::Unknown,
            Self::Unsupported { why: UnsupportedWhy::InputRequired, .. } => CallOutcome::Unknown,
            Self::Unsupported { .. } => CallOutcome::NotSent,
            Self::FrameTooLarge { dispatch, .. }
            | Self::SessionGone { dispatch, .. }
            | Self::Timeout { dispatch, .. } => match dispatch {
                Dispatch::MayHaveLeft => CallOutcome::Unknown,
                Dispatch::NotSent => CallOutcome::NotSent,
                Dispatch::Refused => CallOutcome::Rejected,
            },
        }
    }

    /// The same error of a call that the server had begun with before: it may have acted on it.
    pub(crate) fn of_later_round(mut self) -> Self {
        match &mut self {
            // Not the refusal of the call as a whole, after which it could be begun again.
            Self::Encode(_) | Self::Header(_) | Self::Http(_) => self.in_next_round(),
            Self::Peer(error) if error.code == code::HEADER_MISMATCH => self.in_next_round(),
            Self::FrameTooLarge { dispatch, .. }
            | Self::SessionGone { dispatch, .. }
            | Self::Timeout { dispatch, .. } => {
                *dispatch = Dispatch::MayHaveLeft;
                self
            }
            _ => self,
        }
    }

    /// The same error of a call that the server had refused before, and that was not sent again.
    pub(crate) fn of_refused(mut self) -> Self {
        if let Self::FrameTooLarge { dispatch, .. }
        | Self::SessionGone { dispatch, .. }
        | Self::Timeout { dispatch, .. } = &mut self
            && *dispatch == Dispatch::NotSent
        {
            *dispatch = Dispatch::Refused;
        }
        self
    }

    fn in_next_round(&self) -> Self {
        Self::Protocol(ProtocolFault::NextRound(self.to_string()))
    }

    /// Whether a deadline ended the call, in the queue or after it.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::QueueTimeout { .. } | Self::Timeout { .. })
    }

    /// Whether the session is of no further use.
    #[must_use]
    pub fn is_session_gone(&self) -> bool {
        matches!(self, Self::SessionGone { .. })
    }

    /// How long the server asks to wait before another request, at most 300 s.
    ///
    /// # Source
    ///
    /// RFC 9110, section 10.2.3, on the statuses 429 and 503 above all.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http(rejection) => rejection.retry_after,
            _ => None,
        }
    }

    /// Whether the server would serve the request with other credentials, and did not look at it.
    #[must_use]
    pub fn wants_authorization(&self) -> bool {
        matches!(self, Self::Http(rejection) if rejection.wants_authorization())
    }

    /// Whether nothing but the authorization was not available, and may be later.
    fn lacks_authorization_for_now(&self) -> bool {
        let Self::Http(rejection) = self else { return false };
        let kind = rejection.auth.as_ref().map(|failure| &failure.kind);
        matches!(kind, Some(AuthFailureKind::Unavailable(_)))
    }

    /// Whether the server has had too many requests, and so did not look at this one.
    #[must_use]
    pub fn is_rate_limited(&self) -> bool {
        matches!(self, Self::Http(rejection) if rejection.status == 429)
    }

    /// Whether the same call may be made again without any risk of running twice: nothing was sent, or
    /// the server refused it together with its session or for want of time, or its authorization could not
    /// be renewed just now; and another moment or another session can change the answer.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.outcome() != CallOutcome::Unknown
            && (self.is_rate_limited()
                || self.lacks_authorization_for_now()
                || matches!(
                    self,
                    Self::Overloaded
                        | Self::QueueTimeout { .. }
                        | Self::SessionGone { .. }
                        | Self::Timeout { .. }
                ))
    }
}

impl HandshakeError {
    /// Whether trying again without an update or another configuration is pointless.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Encode(_) | Self::Version(_) => true,
            Self::Probe(failure) => matches!(failure, ProbeFailure::LegacyOnly | ProbeFailure::Refused(_)),
            // A page instead of an answer: the URL leads somewhere else.
            Self::Protocol(ProtocolFault::Broken(BrokenWhy::NotMcp { .. })) => true,
            Self::Closed(_)
            | Self::Http(_)
            | Self::ProbeKilled(_)
            | Self::Protocol(_)
            | Self::Rpc(_)
            | Self::Timeout => false,
        }
    }

    /// Whether the server ended because it was probed: connect again without a probe.
    #[must_use]
    pub fn is_probe_killed(&self) -> bool {
        matches!(self, Self::ProbeKilled(_))
    }
}

impl From<ProbeFailure> for HandshakeError {
    fn from(failure: ProbeFailure) -> Self {
        match failure {
            ProbeFailure::Timeout => Self::Timeout,
            ProbeFailure::Version(versions) => Self::Version(versions),
            other => Self::Probe(other),
        }
    }
}

/// What it means for a call that its answer cannot be read, or cannot come.
impl From<BrokenWhy> for CallError {
    fn from(why: BrokenWhy) -> Self {
        match why {
            BrokenWhy::Cut => Self::Lost,
            BrokenWhy::TooLarge { limit } => Self::FrameTooLarge { limit, dispatch: Dispatch::MayHaveLeft },
            why => Self::Protocol(ProtocolFault::Broken(why)),
        }
    }
}

/// What a request of the handshake can end with.
impl From<CallError> for HandshakeError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Encode(error) => Self::Encode(error),
            CallError::FrameTooLarge { limit, .. } => {
                Self::Protocol(ProtocolFault::Broken(BrokenWhy::TooLarge { limit }))
            }
            // Behind these statuses stands somebody else than the server, or a server that cannot now.
            CallError::Http(rejection) if matches!(rejection.status, 401 | 403 | 429 | 500..) => {
                Self::Http(rejection)
            }
            CallError::Http(mut rejection) => match rejection.error.take() {
                Some(error) => Self::Rpc(error),
                None => Self::Http(rejection),
            },
            CallError::Peer(error) => Self::Rpc(error),
            CallError::Lost => Self::Protocol(ProtocolFault::Broken(BrokenWhy::Cut)),
            CallError::Protocol(fault) => Self::Protocol(fault),
            CallError::SessionGone { closed, .. } => Self::Closed(closed),
            CallError::Header(_)
            | CallError::Input { .. }
            | CallError::InputRequired(_)
            | CallError::Overloaded
            | CallError::QueueTimeout { .. }
            | CallError::Timeout { .. }
            | CallError::Task(_)
            | CallError::Unsupported { .. }
            | CallError::UrlsRequired(_) => Self::Timeout,
        }
    }
}
