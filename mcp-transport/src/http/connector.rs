use std::sync::Arc;

use async_trait::async_trait;
use http::header;
use tokio::time::{Instant, timeout_at};

use super::authorizer::AuthProvider;
use super::backend::HttpBackend;
use super::endpoint::{Endpoint, EndpointError};
use super::exchange::base_headers;
use super::limits::HttpLimits;
use super::link::Link;
use super::receive::HttpReceive;
use super::transport::HttpTransport;
use crate::clock::{SystemClock, WallClock};
use crate::connection::{ConnectError, Connection, Connector};

/// Opens connections to one server over Streamable HTTP.
///
/// Each has a pool of its own, so that nothing of an ended session can reach the next one.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend};
///
/// # fn main() -> Result<(), mcp_transport::http::EndpointError> {
/// let endpoint = Endpoint::parse("http://127.0.0.1:3000/mcp")?
///     .with_header("authorization", &"Bearer token".into())?;
/// let backend = Arc::new(HyperBackend::default());
/// let connector = HttpConnector::new(backend, endpoint, HttpLimits::default());
/// # let _ = connector; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct HttpConnector {
    backend: Arc<dyn HttpBackend>,
    endpoint: Endpoint,
    limits: HttpLimits,
    clock: Arc<dyn WallClock>,
    auth: Option<Arc<dyn AuthProvider>>,
}

impl HttpConnector {
    /// A connector for one server.
    #[must_use]
    pub fn new(backend: Arc<dyn HttpBackend>, endpoint: Endpoint, limits: HttpLimits) -> Self {
        Self { backend, endpoint, limits, clock: Arc::new(SystemClock), auth: None }
    }

    /// Asks `clock` instead of the operating system for the date.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn WallClock>) -> Self {
        self.clock = clock;
        self
    }

    /// Has `auth` authorize every request of every connection.
    ///
    /// # Errors
    ///
    /// The endpoint has a header `authorization` already: only one of the two can be right.
    pub fn with_auth(mut self, auth: Arc<dyn AuthProvider>) -> Result<Self, EndpointError> {
        if self.endpoint.headers().contains_key(header::AUTHORIZATION) {
            return Err(EndpointError::Reserved("authorization".to_owned()));
        }
        self.auth = Some(auth);
        Ok(self)
    }
}

#[async_trait]
impl Connector for HttpConnector {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let pool = self.backend.open_pool(self.endpoint.origin());
        // The first request would find out as well, but only here does it count as not connected.
        timeout_at(by, pool.connect()).await.map_err(|_| ConnectError::Timeout)??;
        let headers = base_headers(&self.endpoint);
        let (endpoint, limits) = (self.endpoint.clone(), self.limits.clone());
        let link =
            Arc::new(Link::new(pool, endpoint, headers, limits, Arc::clone(&self.clock), self.auth.clone()));
        let receive = HttpReceive::new(Arc::clone(&link));
        Ok(Connection::new(Arc::new(HttpTransport::new(link)), Box::new(receive)))
    }
}
