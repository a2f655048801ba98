use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, header};
use tokio::time::timeout;

use super::address::{AddressClass, AddressPolicy, AddressRefused};
use super::oauth_http::{MAX_ANSWER_BYTES, OAuthHttp, OAuthHttpError, OAuthRequest, OAuthResponse};
use super::web_url::WebUrl;
use crate::http::{
    HttpBackend as _, HttpRequest, HyperBackend, Resolve, SystemResolver, TlsRoots, Whole, read_whole,
};

/// Makes the requests of flows with the HTTP of this crate, each over a connection of its own.
///
/// Servers may share one. Where a server has named the URL, names are looked up, each address is judged
/// by the policy of that request, and the connection goes to an address that was judged: a name that
/// leads elsewhere a moment later gains nothing. An address that is not public is reached only if the
/// configured server is of the same class, as it is written or as it is looked up.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    backend: HyperBackend,
    resolver: Arc<dyn Resolve>,
    user_agent: HeaderValue,
}

impl OAuthClient {
    /// Trusts `roots`.
    #[must_use]
    pub fn new(roots: TlsRoots) -> Self {
        let agent = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        Self {
            backend: HyperBackend::new(roots),
            resolver: Arc::new(SystemResolver::default()),
            user_agent: HeaderValue::from_static(agent),
        }
    }

    /// Looks names up with `resolver` instead of the operating system.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Calls itself `agent`: some servers refuse names that they do not know.
    #[must_use]
    pub fn with_user_agent(mut self, agent: HeaderValue) -> Self {
        self.user_agent = agent;
        self
    }

    async fn exchange(&self, request: OAuthRequest) -> Result<OAuthResponse, OAuthHttpError> {
        let judge = request.policy.map(|policy| {
            let refused = Mutex::default();
            Arc::new(Judge { resolver: Arc::clone(&self.resolver), policy, refused })
        });
        let resolver: Arc<dyn Resolve> = match &judge {
            Some(judge) => {
                judge.check_written(&request.url).await?;
                Arc::<Judge>::clone(judge)
            }
            None => Arc::clone(&self.resolver),
        };
        // Connections end with the pool: there are few requests, and they are far apart.
        let pool = self.backend.clone().with_resolver(resolver).open_pool(request.url.origin());
        let mut headers = request.headers;
        headers.entry(header::USER_AGENT).or_insert_with(|| self.user_agent.clone());
        let mut message = HttpRequest::new(request.method, request.url.target(), headers);
        message.body =
            request.body.map(|body| Bytes::copy_from_slice(body.expose().as_bytes())).unwrap_or_default();
        let response = pool.request(message).await.map_err(|error| {
            let refused = judge.and_then(|judge| judge.refused());
            refused.map_or_else(|| OAuthHttpError::Unreachable(error.to_string()), OAuthHttpError::Address)
        })?;
        match read_whole(response.body, MAX_ANSWER_BYTES).await {
            Ok(Whole::Complete(body)) => {
                Ok(OAuthResponse::new(response.status.as_u16(), response.headers, body.to_vec()))
            }
            Ok(Whole::TooLarge(_)) => Err(OAuthHttpError::TooLarge),
            Err(error) => Err(OAuthHttpError::Unreachable(error.to_string())),
        }
    }
}

#[async_trait]
impl OAuthHttp for OAuthClient {
    async fn send(&self, request: OAuthRequest) -> Result<OAuthResponse, OAuthHttpError> {
        let limit = request.limit;
        timeout(limit, self.exchange(request)).await.unwrap_or(Err(OAuthHttpError::Timeout(limit)))
    }
}

/// Looks names up for one request, and lets no address through that the server may not name.
#[derive(Debug)]
struct Judge {
    resolver: Arc<dyn Resolve>,
    policy: AddressPolicy,
    /// The last address that was not let through.
    refused: Mutex<Option<AddressRefused>>,
}

impl Judge {
    /// What the server may name: by its own class as it is written, or, for a name, as it is looked up.
    async fn policy(&self) -> AddressPolicy {
        let Some(server) = self.policy.unknown_server() else { return self.policy.clone() };
        let found = self.resolver.resolve(&server.host, server.port).await.unwrap_or_default();
        self.policy.looked_up(found.iter().map(SocketAddr::ip))
    }

    async fn check_written(&self, url: &WebUrl) -> Result<(), AddressRefused> {
        match self.policy.check(url) {
            Ok(()) => Ok(()),
            Err(_) => self.policy().await.check(url),
        }
    }

    fn refused(&self) -> Option<AddressRefused> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Resolve for Judge {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = self.resolver.resolve(host, port).await?;
        if addresses.iter().all(|address| AddressClass::of(address.ip()) == AddressClass::Public) {
            return Ok(addresses);
        }
        let policy = self.policy().await;
        addresses.retain(|address| match policy.check_address(address.ip()) {
            Ok(()) => true,
            Err(refused) => {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
                false
            }
        });
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "no address that may be used"));
        }
        Ok(addresses)
    }
}
