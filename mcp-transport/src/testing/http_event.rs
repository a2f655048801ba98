use serde_json::Value;

/// What happens at an [`HttpHost`](super::HttpHost), told to whoever watches it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum HttpEvent<'a> {
    /// A client has connected.
    Connected,
    /// A connection is over.
    Disconnected,
    /// The client has closed the connection before its request had its answer.
    HungUp {
        /// The request.
        message: &'a Value,
    },
    /// A message has come.
    Received {
        /// The message.
        message: &'a Value,
    },
    /// A message was answered with an error of HTTP, and no server has seen it.
    Refused {
        /// The message.
        message: &'a Value,
        /// Code and reason.
        status: &'static str,
    },
    /// A session was begun.
    SessionBegun {
        /// Its id.
        session: &'a str,
    },
    /// A session is over: deleted by the client, forgotten, or ended by its server.
    SessionEnded {
        /// Its id.
        session: &'a str,
    },
    /// A message was given to the server of its session.
    Taken {
        /// The message.
        message: &'a Value,
    },
}
