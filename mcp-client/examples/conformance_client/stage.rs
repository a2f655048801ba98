use std::time::Duration;

use mcp_client::{Client, HttpServer, ServerConfig, ServerSettings};
use mcp_lifecycle::{CallError, ServerHandle};
use mcp_proto::Request;
use mcp_session::CallOptions;
use mcp_transport::Ending;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::Outcome;
use crate::order::Order;
use crate::questions;

/// How long the server may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

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
        let mut settings = ServerSettings::default();
        settings.era = order.era;
        let config = ServerConfig::new(NAME, HttpServer::new(&order.url)?, settings)?;
        let client = questions::answer(Client::builder()).server(config).start(&Handle::current())?;
        let server = client.server(NAME).ok_or("the server was not added")?;
        let status = server.settled(Instant::now() + READY_WITHIN).await;
        if !status.state.is_ready() {
            return Err(format!("no connection: {status:?}").into());
        }
        Ok(Self { client, server })
    }

    /// Makes a request. An error that the server answers with is an answer; whatever else goes wrong is
    /// a failure of this client.
    pub(crate) async fn ask<R: Request>(&self, request: R) -> Outcome<()> {
        match self.server.call(request, CallOptions::default()).await {
            Ok(_) => Ok(()),
            Err(CallError::Session { error: mcp_session::CallError::Peer(error), method, .. }) => {
                tracing::info!(%method, %error, "the server answered with an error");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
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
