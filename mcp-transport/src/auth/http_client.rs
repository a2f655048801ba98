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
/// Where a server has named the URL, names are looked up, each address is judged, and the connection
/// goes to an address that was judged: a name that leads elsewhere a moment later gains nothing. An
/// address that is not public is reached only if the configured server is of the same class, as it is
/// written or as it is looked up.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    backend: HyperBackend,
    resolver: Arc<dyn Resolve>,
    server: WebUrl,
    user_agent: HeaderValue,
}

impl OAuthClient {
    /// For the authorization of the server at `server`; trusts `roots`.
    #[must_use]
    pub fn new(server: WebUrl, roots: TlsRoots) -> Self {
        let agent = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        Self {
            backend: HyperBackend::new(roots),
            resolver: Arc::new(SystemResolver::default()),
            server,
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

    async fn exchange(
        &self,
        request: OAuthRequest,
        judge: Arc<Judge>,
    ) -> Result<OAuthResponse, OAuthHttpError> {
        let resolver: Arc<dyn Resolve> =
            if request.is_named_by_server { judge.clone() } else { Arc::clone(&self.resolver) };
        if request.is_named_by_server {
            judge.check_written(&request.url).await?;
        }
        // Connections end with the pool: there are few requests, and they are far apart.
        let pool = self.backend.clone().with_resolver(resolver).open_pool(request.url.origin());
        let mut headers = request.headers;
        headers.entry(header::USER_AGENT).or_insert_with(|| self.user_agent.clone());
        let mut message = HttpRequest::new(request.method, request.url.target(), headers);
        message.body =
            request.body.map(|body| Bytes::copy_from_slice(body.expose().as_bytes())).unwrap_or_default();
        let response = pool.request(message).await.map_err(|error| judge.explain(error.to_string()))?;
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
        let judge = Arc::new(Judge {
            resolver: Arc::clone(&self.resolver),
            server: self.server.clone(),
            refused: Mutex::default(),
        });
        timeout(limit, self.exchange(request, judge)).await.unwrap_or(Err(OAuthHttpError::Timeout(limit)))
    }
}

/// Looks names up for one request, and lets no address through that the server may not name.
#[derive(Debug)]
struct Judge {
    resolver: Arc<dyn Resolve>,
    server: WebUrl,
    /// The last address that was not let through.
    refused: Mutex<Option<AddressRefused>>,
}

impl Judge {
    /// What the server may name: by its own class as it is written, or, for a name, as it is looked up.
    async fn policy(&self) -> AddressPolicy {
        let origin = self.server.origin();
        let written = AddressClass::of_host(&origin.host);
        if written != AddressClass::Public {
            return AddressPolicy::for_class(written);
        }
        let found = self.resolver.resolve(&origin.host, origin.port).await.unwrap_or_default();
        let mut classes = found.iter().map(|address| AddressClass::of(address.ip()));
        let first = classes.next().unwrap_or(AddressClass::Public);
        // A name that leads to several classes is public: it must not open a door to any of them.
        let is_one = classes.all(|class| class == first);
        AddressPolicy::for_class(if is_one { first } else { AddressClass::Public })
    }

    async fn check_written(&self, url: &WebUrl) -> Result<(), AddressRefused> {
        match AddressPolicy::of_server(&self.server).check(url) {
            Ok(()) => Ok(()),
            Err(_) => self.policy().await.check(url),
        }
    }

    fn explain(&self, error: String) -> OAuthHttpError {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.map_or(OAuthHttpError::Unreachable(error), OAuthHttpError::Address)
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
