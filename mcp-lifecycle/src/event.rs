use std::sync::Arc;

use mcp_proto::LogMessage;
use mcp_session::{CallError, ListKind, SessionEvent};

use crate::status::ServerStatus;

/// Something that happened to a server; see [`Supervisor::events`](crate::Supervisor::events).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerEvent {
    /// Its breaker has opened, lets one call try, or has closed.
    BreakerChanged {
        /// The server, as it is since then.
        status: Arc<ServerStatus>,
    },
    /// It announces that a list has changed. It is fetched anew by itself: [`ListUpdated`](Self::ListUpdated)
    /// follows, if the list is another one then.
    ListChanged {
        /// The server.
        server: Arc<str>,
        /// Which list.
        kind: ListKind,
    },
    /// A list was fetched anew and is another one now: see
    /// [`ServerHandle::lists`](crate::ServerHandle::lists).
    ///
    /// Told of changes while a connection lasts; what a new connection offers is known when it is
    /// [`Ready`](crate::State::Ready).
    ListUpdated {
        /// The server.
        server: Arc<str>,
        /// The connection that told it.
        generation: u64,
        /// Which list.
        kind: ListKind,
    },
    /// A list that has changed could not be fetched. The old one stays, and it is tried again; see
    /// [`ServerOptions::refresh`](crate::ServerOptions::refresh).
    ListUpdateFailed {
        /// The server.
        server: Arc<str>,
        /// The connection that it was asked on.
        generation: u64,
        /// Which list.
        kind: ListKind,
        /// Why.
        error: Arc<CallError>,
    },
    /// It has written a log line, untrusted.
    Log {
        /// The server.
        server: Arc<str>,
        /// What it wrote.
        message: LogMessage,
    },
    /// It has moved to another state, or from or to [`degraded`](ServerStatus::degraded); one event for
    /// each. One that drains or has stopped says [why](ServerStatus::end).
    StateChanged {
        /// The server, as it is since then.
        status: Arc<ServerStatus>,
    },
}

impl ServerEvent {
    /// Names the server of a session's event; `None` for one that this version does not know.
    pub(crate) fn from_session(server: &Arc<str>, event: SessionEvent) -> Option<Self> {
        let server = Arc::clone(server);
        match event {
            SessionEvent::ListChanged(kind) => Some(Self::ListChanged { server, kind }),
            SessionEvent::Log(message) => Some(Self::Log { server, message }),
            _ => None,
        }
    }

    /// The server that it is about.
    #[must_use]
    pub fn server(&self) -> &str {
        match self {
            Self::ListChanged { server, .. }
            | Self::ListUpdated { server, .. }
            | Self::ListUpdateFailed { server, .. }
            | Self::Log { server, .. } => server,
            Self::BreakerChanged { status } | Self::StateChanged { status } => &status.name,
        }
    }
}
