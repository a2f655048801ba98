/// An origin cannot be reached. Nothing of a request has left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpConnectError {
    /// The host name cannot be resolved; the text is the resolver's reason.
    #[error("the name {host} cannot be resolved: {reason}")]
    Dns {
        /// The host name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// The operating system or the network failed.
    #[error("no connection to {origin}: {reason}")]
    Failed {
        /// Where to.
        origin: String,
        /// What failed.
        reason: String,
    },
    /// Nobody listens there.
    #[error("{origin} refuses connections")]
    Refused {
        /// Where to.
        origin: String,
    },
    /// No connection, or no TLS handshake, within the limit.
    #[error("no connection to {origin} within {} s", .limit.as_secs_f32())]
    Timeout {
        /// Where to.
        origin: String,
        /// The limit.
        limit: std::time::Duration,
    },
    /// The certificate, or TLS itself, was not accepted by one of the sides.
    #[error("no secure connection to {origin}: {reason}")]
    Tls {
        /// Where to.
        origin: String,
        /// What was wrong.
        reason: String,
    },
}

impl HttpConnectError {
    /// Whether trying again without a change of configuration is pointless.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Tls { .. })
    }

    /// What a person can do about it; `None` where the message says as much.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Dns { .. } => Some("check the host name in its URL, and the network"),
            Self::Failed { .. } => None,
            Self::Refused { .. } => Some("start the server, or correct its URL"),
            Self::Timeout { .. } => Some("check that the server runs and can be reached from here"),
            Self::Tls { .. } => Some("correct the URL, or have the server's certificate replaced"),
        }
    }
}

/// A request got no answer, or only a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No connection; nothing has left.
    #[error(transparent)]
    Connect(#[from] HttpConnectError),
    /// What came is not HTTP.
    #[error("the server does not keep to HTTP: {0}")]
    Framing(String),
    /// The headers of the answer are too many, too large, or come too slowly.
    #[error("the headers of the answer are over the limit: {0}")]
    Headers(String),
    /// The connection broke; how much of the request was processed is unknown.
    #[error("the connection broke: {0}")]
    Lost(String),
}
