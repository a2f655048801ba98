//! The registry is what the servers offer now, through changes, losses and returns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::sync::Arc;
use std::time::Duration;

use mcp_client::Client;
use mcp_lifecycle::{ServerEvent, ServerOptions};
use mcp_session::{EraPolicy, SessionOptions};
use mcp_transport::testing::{MemoryConnector, ScriptedPeer};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;

async fn answer_tools(peer: &ScriptedPeer, names: &[&str]) {
    let tools: Vec<_> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    let request = peer.expect("tools/list").await;
    peer.respond(request.id(), json!({"tools": tools})).await;
}

async fn accept(peer: &ScriptedPeer, names: &[&str]) {
    let request = peer.expect("initialize").await;
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "scripted", "version": "1"},
    });
    peer.respond(request.id(), result).await;
    peer.expect("notifications/initialized").await;
    answer_tools(peer, names).await;
}

/// Own and minted names of what is offered.
fn offered(client: &Client) -> Vec<(String, String)> {
    let registry = client.registry();
    registry.tools().iter().map(|tool| (tool.tool.name.clone(), tool.name.clone())).collect()
}

async fn until(events: &mut Receiver<ServerEvent>, wanted: impl Fn(&ServerEvent) -> bool) {
    while !wanted(&events.recv().await.unwrap()) {}
}

fn is_ready(event: &ServerEvent) -> bool {
    matches!(event, ServerEvent::StateChanged { status } if status.state.is_ready())
}

#[tokio::test(start_paused = true)]
async fn f156_i18_the_registry_follows_changed_lists_and_names_stay() {
    let connector = MemoryConnector::new();
    let options =
        ServerOptions::default().with_session(SessionOptions::default().with_era(EraPolicy::Legacy));
    let client = Client::builder()
        .connector("one", Arc::new(connector.clone()), options, [])
        .start(&Handle::current())
        .unwrap();
    let mut events = client.events();
    let peer = connector.next_peer().await;
    // Two names that differ in what no model may see, so that both are minted with a digest.
    accept(&peer, &["read.file", "read file", "plain"]).await;
    until(&mut events, is_ready).await;
    let first = offered(&client);
    assert_eq!(first.len(), 3);

    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    answer_tools(&peer, &["added", "read file", "plain"]).await;
    until(&mut events, |event| matches!(event, ServerEvent::ListUpdated { .. })).await;
    let second = offered(&client);
    assert_eq!(
        second.iter().map(|(own, _)| own.as_str()).collect::<Vec<_>>(),
        ["added", "read file", "plain"]
    );
    for (own, minted) in &second {
        let before = first.iter().find(|(name, _)| name == own);
        assert!(before.is_none_or(|(_, before)| before == minted), "{own}: {before:?}, now {minted}");
    }

    // Withdrawn while it is gone, and what it has then when it is back.
    let server = client.server("one").unwrap();
    server.disable();
    until(&mut events, |event| !is_ready(event)).await;
    assert_eq!(offered(&client), []);
    server.enable();
    let peer = connector.next_peer().await;
    accept(&peer, &["plain"]).await;
    until(&mut events, is_ready).await;
    assert_eq!(offered(&client), [second[2].clone()]);
    client.shutdown().within(Duration::from_secs(60)).await.unwrap();
}
