//! Who a server is told that connects.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ClientBuilder};
use mcp_lifecycle::ServerOptions;
use mcp_proto::Implementation;
use mcp_session::{EraPolicy, SessionOptions};
use mcp_transport::testing::MemoryConnector;
use serde_json::{Value, json};
use tokio::runtime::Handle;

const OWN: &str = env!("CARGO_PKG_VERSION");

/// What a server of this era is told by a client that is built like this.
async fn told(builder: ClientBuilder, session: SessionOptions) -> Value {
    let connector = MemoryConnector::new();
    let is_modern = session.era == EraPolicy::Modern;
    let options = ServerOptions::default().with_session(session);
    let client =
        builder.connector("one", Arc::new(connector.clone()), options, []).start(&Handle::current()).unwrap();
    let peer = connector.next_peer().await;
    let request = peer.receive().await;
    let info = if is_modern {
        request.params()["_meta"]["io.modelcontextprotocol/clientInfo"].clone()
    } else {
        request.params()["clientInfo"].clone()
    };
    client.shutdown().within(Duration::from_secs(60)).await.unwrap();
    info
}

#[tokio::test(start_paused = true)]
async fn a_server_is_told_who_connects_in_both_eras() {
    for era in [EraPolicy::Legacy, EraPolicy::Modern] {
        let session = || SessionOptions::default().with_era(era);
        assert_eq!(
            told(Client::builder(), session()).await,
            json!({"name": "mcp-client", "version": OWN}),
            "by default this crate"
        );
        let named = Client::builder().client_title("An Agent").client_info("agent", "7");
        assert_eq!(
            told(named, session()).await,
            json!({"name": "agent", "version": "7", "title": "An Agent"})
        );
        let own = session().with_client_info(Implementation::new("proxy", "1"));
        assert_eq!(
            told(Client::builder().client_info("agent", "7"), own).await,
            json!({"name": "proxy", "version": "1"}),
            "a server's own options count more"
        );
    }
}
