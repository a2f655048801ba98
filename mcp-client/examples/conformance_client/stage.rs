use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Authorization, Client, HttpServer, Insist, LoginError, ServerConfig, ServerSettings};
use mcp_lifecycle::{CallError, ServerHandle, State};
use mcp_proto::Request;
use mcp_session::CallOptions;
use mcp_transport::Ending;
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
}

impl Stage {
    /// Connects.
    pub(crate) async fn open(order: &Order) -> Outcome<Self> {
        let address = HttpServer::new(&order.url)?.oauth(order.authorization.clone())?;
        let mut settings = ServerSettings::default();
        settings.era = order.era;
        let builder = questions::answer(Client::builder());
        let builder = builder.authorization(Authorization::in_memory().with_ui(Arc::new(Person)));
        let client = builder.server(ServerConfig::new(NAME, address, settings)?);
        let client = client.start(&Handle::current())?;
        let server = client.server(NAME).ok_or("the server was not added")?;
        let stage = Self { client, server };
        match stage.ready().await {
            Ok(()) => Ok(stage),
            Err(error) => {
                stage.end().await?;
                Err(error)
            }
        }
    }

    /// Makes a request; where the server wants that, the client has the person log in meanwhile. An error
    /// that the server answers with is an answer; whatever else goes wrong is a failure of this client.
    pub(crate) async fn ask<R: Request + Clone>(&self, request: R) -> Outcome<()> {
        match self.server.call(request, CallOptions::default()).await {
            Ok(_) => Ok(()),
            Err(CallError::Session { error: mcp_session::CallError::Peer(error), method, .. }) => {
                tracing::info!(%method, %error, "the server answered with an error");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the server is ready. Before the first call nobody is asked by itself, so that is done here.
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

    /// Has the person log in, and waits until the server connects again.
    async fn log_in(&self) -> Outcome<()> {
        let mut states = self.server.watch();
        let login = self.client.login(NAME, Arc::new(Person), Insist::IfNeeded).await;
        login.map_err(|error| match error {
            LoginError::Failed { error, .. } => error.into(),
            other => Box::<dyn Error + Send + Sync>::from(other),
        })?;
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
