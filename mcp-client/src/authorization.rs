use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle::{Authorizer, LoginFailed};
use mcp_transport::auth::{
    AuthError, AuthUi, CredentialStore, FileStore, InteractiveGate, MemoryStore, OAuth, OAuthClient,
    OAuthHttp, OAuthSeams, OAuthSettings, Randomness, SystemRandomness,
};
use mcp_transport::http::TlsRoots;
use mcp_transport::{SystemClock, WallClock};
use tokio::time::Instant;

use crate::config::HttpServer;

/// How a client is authorized by its servers over HTTP that ask for it: where credentials are kept, and who
/// is asked.
///
/// Every such server is authorized with OAuth, unless it is sent a header `Authorization`, or its
/// configuration says otherwise. Tokens are renewed by themselves. Nobody is asked unless
/// [`with_ui`](Self::with_ui) names who, or [`Client::login`](crate::Client::login) does.
#[derive(Clone)]
pub struct Authorization {
    store: Arc<dyn CredentialStore>,
    ui: Option<Arc<dyn AuthUi>>,
    client_name: Option<String>,
    http: Arc<dyn OAuthHttp>,
    clock: Arc<dyn WallClock>,
    randomness: Arc<dyn Randomness>,
    gate: InteractiveGate,
}

/// When a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insist {
    /// Also if nothing is known to be wrong with the credentials.
    Always,
    /// Unless there are credentials that may be good.
    IfNeeded,
}

/// Nobody has logged in or out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// There are no new credentials.
    #[error("server {server:?}: {error}")]
    Failed {
        /// The server.
        server: String,
        /// Why.
        error: AuthError,
    },
    /// It is no server over HTTP, its configuration says that there is no login, or it is sent a header
    /// `Authorization`.
    #[error("server {server:?} has no login: it is not reached over HTTP, or its configuration excludes it")]
    NoLogin {
        /// The server.
        server: String,
    },
    /// There is no server of this name.
    #[error("there is no server {server:?}")]
    UnknownServer {
        /// The name.
        server: String,
    },
}

impl Authorization {
    /// Credentials are kept in files in `folder`, which is made if it is not there. Several processes may
    /// share it.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::in_store(Arc::new(FileStore::new(folder)))
    }

    /// Credentials end with the client.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::in_store(Arc::new(MemoryStore::new()))
    }

    /// Credentials are kept in `store`.
    #[must_use]
    pub fn in_store(store: Arc<dyn CredentialStore>) -> Self {
        Self {
            store,
            ui: None,
            client_name: None,
            http: Arc::new(OAuthClient::new(TlsRoots::Platform)),
            clock: Arc::new(SystemClock),
            randomness: Arc::new(SystemRandomness),
            gate: InteractiveGate::default(),
        }
    }

    /// Has calls that need it wait for a person who is asked through `ui`; see
    /// [`ServerHandle::call`](mcp_lifecycle::ServerHandle::call). Without this such calls are refused at once.
    #[must_use]
    pub fn with_ui(mut self, ui: Arc<dyn AuthUi>) -> Self {
        self.ui = Some(ui);
        self
    }

    /// The name under which the client registers, where nothing else is configured; by default as it
    /// introduces itself.
    #[must_use]
    pub fn with_client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = Some(name.into());
        self
    }

    /// Makes the requests of logins and renewals, of all servers, in the place of [`OAuthClient`].
    #[must_use]
    pub fn with_http(mut self, http: Arc<dyn OAuthHttp>) -> Self {
        self.http = http;
        self
    }

    /// Asks `clock` for the date instead of the operating system.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn WallClock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes what nobody may guess from `randomness` instead of the operating system.
    #[must_use]
    pub fn with_randomness(mut self, randomness: Arc<dyn Randomness>) -> Self {
        self.randomness = randomness;
        self
    }

    /// Has this one call itself `name`, unless it has a name.
    pub(crate) fn called(&self, name: &str) -> Self {
        let client_name = self.client_name.clone().or_else(|| Some(name.to_owned()));
        Self { client_name, ..self.clone() }
    }

    /// What authorizes the requests to a server; `None` if nothing is to.
    pub(crate) fn of(&self, name: &str, server: &HttpServer) -> Option<OAuth> {
        let mut settings = server.oauth_settings()?;
        let url = server.web_url()?;
        if let (true, Some(name)) =
            (settings.client_name == OAuthSettings::default().client_name, &self.client_name)
        {
            settings.client_name.clone_from(name);
        }
        let seams = OAuthSeams {
            http: Arc::clone(&self.http),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            randomness: Arc::clone(&self.randomness),
            gate: self.gate.clone(),
        };
        Some(OAuth::new(name, url, settings, seams))
    }

    /// What has a person log in to a server.
    pub(crate) fn authorizer(&self, server: &HttpServer, oauth: OAuth) -> Arc<dyn Authorizer> {
        let is_for_people = server.oauth_settings().is_some_and(|settings| !settings.is_for_itself());
        Arc::new(Desk { oauth, ui: self.ui.clone().filter(|_| is_for_people) })
    }
}

/// Where the calls of one server have a person log in.
#[derive(Debug)]
struct Desk {
    oauth: OAuth,
    ui: Option<Arc<dyn AuthUi>>,
}

#[async_trait]
impl Authorizer for Desk {
    fn may_ask(&self) -> bool {
        self.ui.is_some()
    }

    async fn login(&self) -> Result<(), LoginFailed> {
        let Some(ui) = &self.ui else { return Err(LoginFailed("nobody can be asked to log in".to_owned())) };
        let login = self.oauth.login(Arc::clone(ui), false).await;
        login.map_err(|error| LoginFailed(error.to_string()))
    }

    async fn renewed(&self) {
        self.oauth.renewed().await;
    }

    async fn close(&self, by: Instant) -> usize {
        self.oauth.close(by).await
    }
}

impl Default for Authorization {
    /// Credentials end with the client.
    fn default() -> Self {
        Self::in_memory()
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization")
            .field("store", &self.store)
            .field("ui", &self.ui)
            .field("client_name", &self.client_name)
            .finish_non_exhaustive()
    }
}
