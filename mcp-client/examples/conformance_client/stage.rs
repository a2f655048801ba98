use std::sync::Arc;
use std::time::Duration;

use mcp_client::Client;
use mcp_lifecycle::{CallError, ServerHandle, ServerOptions, State};
use mcp_proto::Request;
use mcp_session::CallOptions;
use mcp_transport::auth::{
    InteractiveGate, MemoryStore, OAuth, OAuthClient, OAuthSeams, SystemRandomness, WebUrl,
};
use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend, TlsRoots};
use mcp_transport::{Ending, SystemClock};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::Outcome;
use crate::order::Order;
use crate::person::Person;
use crate::questions;

/// How long the server may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// How often the person logs in until the server is ready.
const MAX_LOGINS: usize = 3;

/// What its one server is called.
const NAME: &str = "suite";

/// The client under test, with the suite's server.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) server: ServerHandle,
    oauth: OAuth,
}

impl Stage {
    /// Connects.
    pub(crate) async fn open(order: &Order) -> Outcome<Self> {
        let oauth = oauth(order)?;
        let backend = Arc::new(HyperBackend::default());
        let connector = HttpConnector::new(backend, Endpoint::parse(&order.url)?, HttpLimits::default());
        let connector = connector.with_auth(Arc::new(oauth.clone()))?;
        let options = ServerOptions::default();
        let session = options.session.clone().with_era(order.era);
        let session = match order.authorization.grant.extension() {
            Some(extension) => session.with_extension(extension),
            None => session,
        };
        let client = questions::answer(Client::builder());
        let client = client.connector(NAME, Arc::new(connector), options.with_session(session), []);
        let client = client.start(&Handle::current())?;
        let server = client.server(NAME).ok_or("the server was not added")?;
        let stage = Self { client, server, oauth };
        match stage.ready().await {
            Ok(()) => Ok(stage),
            Err(error) => {
                stage.end().await?;
                Err(error)
            }
        }
    }

    /// Makes a request. An error that the server answers with is an answer; whatever else goes wrong is
    /// a failure of this client.
    pub(crate) async fn ask<R: Request + Clone>(&self, request: R) -> Outcome<()> {
        let mut end = self.server.call(request.clone(), CallOptions::default()).await;
        if let Err(CallError::NeedsAuth { .. } | CallError::InsufficientScope { .. }) = end {
            self.log_in().await?;
            self.ready().await?;
            end = self.server.call(request, CallOptions::default()).await;
        }
        match end {
            Ok(_) => Ok(()),
            Err(CallError::Session { error: mcp_session::CallError::Peer(error), method, .. }) => {
                tracing::info!(%method, %error, "the server answered with an error");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the server is ready, and has the person log in where it wants that.
    async fn ready(&self) -> Outcome<()> {
        let by = Instant::now() + READY_WITHIN;
        for _ in 0..=MAX_LOGINS {
            let status = self.server.settled(by).await;
            match status.state {
                State::Ready { .. } => return Ok(()),
                State::NeedsAuth => self.log_in().await?,
                _ => return Err(format!("no connection: {status:?}").into()),
            }
        }
        Err(format!("{MAX_LOGINS} logins are not enough").into())
    }

    /// Has the person log in, and the server connect again.
    async fn log_in(&self) -> Outcome<()> {
        self.oauth.login(Arc::new(Person), false).await?;
        let mut states = self.server.watch();
        self.server.wake();
        states.wait_for(|status| status.state != State::NeedsAuth).await?;
        Ok(())
    }

    /// Ends the connection in order.
    pub(crate) async fn end(self) -> Outcome<()> {
        let report = self.client.shutdown().await;
        match report.servers.iter().find(|server| server.ending == Ending::Abandoned) {
            None => Ok(()),
            Some(server) => Err(format!("the connection did not end: {server:?}").into()),
        }
    }
}

/// Authorizes as the order says; what it obtains is forgotten with it.
fn oauth(order: &Order) -> Outcome<OAuth> {
    let url = WebUrl::parse(&order.url)?;
    let seams = OAuthSeams {
        http: Arc::new(OAuthClient::new(TlsRoots::Platform)),
        store: Arc::new(MemoryStore::new()),
        clock: Arc::new(SystemClock),
        randomness: Arc::new(SystemRandomness),
        gate: InteractiveGate::default(),
    };
    Ok(OAuth::new(NAME, url, order.authorization.clone(), seams))
}
