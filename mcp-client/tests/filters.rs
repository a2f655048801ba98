//! Which tools may be called is settled before a server can be seen, and stays as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use mcp_client::{Client, ServerConfig, ServerSettings, StdioServer};
use mcp_lifecycle::AddError;
use serde_json::{Value, json};
use tokio::runtime::Handle;

/// How often a server is added while somebody waits for it.
const ROUNDS: usize = 300;

/// A server that is never started; it excludes the tool `rm`, or nothing.
fn server(name: &str, excludes: bool) -> ServerConfig {
    let mut settings = ServerSettings::default();
    settings.enabled = false;
    if excludes {
        settings.tools.exclude.insert("rm".to_owned());
    }
    ServerConfig::new(name, StdioServer::new("never-started"), settings).unwrap()
}

/// What a call of the tool `rm` says.
fn refusal(client: &Client, server: &str) -> String {
    let request = json!({"server": server, "tool": "rm"}).to_string();
    let answer = Handle::current().block_on(client.handlers().call_tool(&request));
    serde_json::from_str::<Value>(&answer).unwrap()["error"].as_str().unwrap().to_owned()
}

#[test]
fn an_excluded_tool_cannot_be_called_in_the_moment_its_server_is_added() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let client = Client::builder().start(runtime.handle()).unwrap();
    for round in 0..ROUNDS {
        let name = format!("s{round}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _runtime = runtime.enter();
                while client.server(&name).is_none() {
                    std::hint::spin_loop();
                }
                let refusal = refusal(&client, &name);
                assert!(refusal.contains("excludes the tool"), "round {round}: {refusal}");
            });
            client.add(server(&name, true)).unwrap();
        });
    }
    runtime.block_on(client.shutdown());
}

#[test]
fn a_refused_server_does_not_touch_the_filter_of_its_namesake() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let client = Client::builder().server(server("s", true)).start(runtime.handle()).unwrap();
    assert!(matches!(client.add(server("s", false)), Err(AddError::Duplicate { .. })));
    let _runtime = runtime.enter();
    assert!(refusal(&client, "s").contains("excludes the tool"));
    runtime.block_on(client.shutdown());
}
