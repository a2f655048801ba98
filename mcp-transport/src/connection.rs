use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::Closed;
use crate::transport::{Receive, Transport};

/// One open connection: both halves.
///
/// Dropping it without [`Transport::close`] ends it as well, without waiting and without a runtime:
/// streams are closed and processes are killed by their owner.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connection {
    /// The sending half.
    pub transport: Arc<dyn Transport>,
    /// The receiving half; exactly one driver polls it.
    pub receive: Box<dyn Receive>,
}

impl Connection {
    /// Puts the halves of one connection together.
    #[must_use]
    pub fn new(transport: Arc<dyn Transport>, receive: Box<dyn Receive>) -> Self {
        Self { transport, receive }
    }
}

/// Opens connections to one server, again and again.
#[async_trait]
pub trait Connector: Send + Sync + fmt::Debug {
    /// Opens one connection, without any handshake.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`]. Whatever was made on the way is gone when this returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind: a half-made child is killed and reaped by the
    /// process factory.
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError>;
}

/// A connection could not be opened. Nothing was left behind.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The peer was there and went before the connection stood.
    #[error("{0}")]
    Closed(Closed),
    /// The server cannot be reached over HTTP.
    #[cfg(feature = "http")]
    #[error("{0}")]
    Http(#[from] crate::http::HttpConnectError),
    /// The process could not be started.
    #[cfg(feature = "stdio")]
    #[error("{0}")]
    Spawn(#[from] crate::process::SpawnError),
    /// The time was up.
    #[error("no connection within the time limit")]
    Timeout,
}

impl ConnectError {
    /// Whether trying again without a change of configuration is pointless.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            #[cfg(feature = "http")]
            Self::Http(error) => error.is_permanent(),
            #[cfg(feature = "stdio")]
            Self::Spawn(error) => error.is_permanent(),
            Self::Closed(_) | Self::Timeout => false,
        }
    }

    /// What a person can do about it, where the error itself does not say so.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Closed(closed) => closed.reason().remedy(),
            #[cfg(feature = "http")]
            Self::Http(error) => error.remedy(),
            #[cfg(feature = "stdio")]
            Self::Spawn(error) => error.remedy(),
            Self::Timeout => Some("try again, or give it more time to connect"),
        }
    }
}
