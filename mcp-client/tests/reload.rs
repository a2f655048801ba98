//! A configuration file that changes while the client runs, with real children.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_client::{Client, ConfigFile};
use mcp_transport::testing::checks::{isolated, marked, until};
use mcp_transport::testing::fixture::Fixture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::time::Instant;

const LONG: Duration = Duration::from_secs(20);

fn fixture() -> (Fixture, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::from_program(env!("CARGO_BIN_EXE_mcpctl"), folder.path()).with_prefix(["fixture"]);
    (fixture, folder)
}

/// An entry that starts the fixture, with more members.
fn entry(fixture: &Fixture, more: Value) -> Value {
    let arguments: Vec<_> = fixture.arguments().iter().map(|argument| argument.to_str().unwrap()).collect();
    let (variable, mark) = fixture.mark();
    let slow = ["--tool", "slow=slow:1000"];
    let arguments: Vec<_> = arguments.into_iter().chain(slow).collect();
    let mut entry = json!({
        "command": fixture.program().to_str().unwrap(), "args": arguments, "env": {variable: mark},
    });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

fn file(servers: Value) -> ConfigFile {
    let text = json!({"mcpServers": servers}).to_string();
    ConfigFile::parse("mcp.json", None, &text, &|_| None).unwrap()
}

fn processes(fixture: &Fixture) -> usize {
    fixture.transcript().servers().len()
}

async fn call(client: &Client, server: &str, tool: &str) -> Value {
    let arguments = json!({"server": server, "tool": tool, "arguments": {"message": "x"}}).to_string();
    serde_json::from_str(&client.handlers().call_tool(&arguments).await).unwrap()
}

#[test]
fn f149_a_reload_touches_only_what_has_changed() {
    isolated(async |_| {
        let kept = fixture();
        let changed = fixture();
        let removed = fixture();
        let none = json!({});
        let builder = Client::builder().config(file(json!({
            "kept": entry(&kept.0, none.clone()),
            "changed": entry(&changed.0, none.clone()),
            "removed": entry(&removed.0, none.clone()),
        })));
        let client = builder.start(&Handle::current()).unwrap();
        for server in client.servers() {
            assert!(server.settled(Instant::now() + LONG).await.state.is_ready());
        }
        let client = Arc::new(client);
        let caller = Arc::clone(&client);
        let running = tokio::spawn(async move { call(&caller, "changed", "slow").await });
        until(LONG, "the call runs", || changed.0.transcript().runs("slow") == 1).await;

        let added = fixture();
        let next = || {
            file(json!({
                "kept": entry(&kept.0, json!({"excludeTools": ["echo"]})),
                "changed": entry(&changed.0, json!({"timeout": "7s"})),
                "added": entry(&added.0, none.clone()),
            }))
        };
        let reload = client.reload(next());
        assert_eq!(reload.removed, ["removed"]);
        let mut names = reload.changed.clone();
        names.sort_unstable();
        assert_eq!(
            (names, reload.failed, reload.unchanged),
            (vec!["added".to_owned(), "changed".to_owned(), "kept".to_owned()], vec![], vec![])
        );
        assert_eq!(running.await.unwrap()["error"], Value::Null, "it was given its time");
        for server in ["changed", "added"] {
            assert_eq!(call(&client, server, "echo").await, json!({"result": "x"}));
        }
        assert_eq!((processes(&kept.0), processes(&changed.0), processes(&added.0)), (1, 2, 1));
        assert!(call(&client, "kept", "echo").await["error"].as_str().unwrap().contains("excludes"));
        until(LONG, "the removed one is gone", || marked(removed.0.mark().1).is_empty()).await;
        assert!(call(&client, "removed", "echo").await["error"].as_str().unwrap().contains("no server"));
        assert!(client.registry().tools().iter().all(|tool| tool.server != "removed"));

        let again = client.reload(next());
        assert_eq!((again.changed.len(), again.unchanged.len()), (0, 3), "nothing has changed since");
        assert_eq!((processes(&kept.0), processes(&changed.0), processes(&added.0)), (1, 2, 1));
        assert!(client.shutdown().await.is_clean());
    });
}

#[test]
fn f149_a_server_that_cannot_be_put_in_place_leaves_the_old_one_and_what_is_known_of_it() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let is_broken = Arc::new(AtomicBool::new(false));
        let breaks = Arc::clone(&is_broken);
        let builder = Client::builder().config(file(json!({"s": entry(&fixture, json!({}))}))).tune(
            move |_, options| {
                let limit = if breaks.load(Ordering::Relaxed) { Duration::ZERO } else { LONG };
                options.with_connect_limit(limit)
            },
        );
        let client = builder.start(&Handle::current()).unwrap();
        let server = client.server("s").unwrap();
        assert!(server.settled(Instant::now() + LONG).await.state.is_ready());

        is_broken.store(true, Ordering::Relaxed);
        let other =
            || file(json!({"s": entry(&fixture, json!({"timeout": "7s", "excludeTools": ["echo"]}))}));
        let reload = client.reload(other());
        assert_eq!((reload.failed.len(), reload.changed.len()), (1, 0));
        client.replace(other().servers.remove(0)).unwrap_err();
        assert_eq!(call(&client, "s", "echo").await, json!({"result": "x"}), "it is as it was");

        is_broken.store(false, Ordering::Relaxed);
        let reload = client.reload(file(json!({"s": entry(&fixture, json!({}))})));
        assert_eq!(reload.unchanged, ["s"]);
        assert_eq!(client.reload(file(json!({}))).removed, ["s"], "it is still one that a file has named");
        until(LONG, "it is gone", || marked(fixture.mark().1).is_empty()).await;
        assert_eq!(processes(&fixture), 1);
        assert!(client.shutdown().await.is_clean());
    });
}
