//! The conformance client keeps to its contract: what it uses, when it ends, and how.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]

use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use mcp_transport::testing::fixture::sibling_example;
use mcp_transport::testing::{HttpAnswers, HttpHost, NetRequest, NetServer, ServerScript, ToolBehaviour};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The client, for a scenario; what the suite says is nobody else's to say.
fn client(scenario: &str, variables: &[(&str, &str)]) -> Command {
    let mut client = Command::new(sibling_example("conformance_client"));
    for name in ["MCP_CONFORMANCE_CONTEXT", "MCP_CONFORMANCE_PROTOCOL_VERSION", "RUST_LOG"] {
        client.env_remove(name);
    }
    client.env("MCP_CONFORMANCE_SCENARIO", scenario).envs(variables.iter().copied()).stdin(Stdio::null());
    client
}

/// A server without any tool that does not answer.
fn obliging(script: ServerScript) -> ServerScript {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "number"}, "b": {"type": ["string", "null"]}, "c": {"enum": ["x", "y"]},
            "d": {"type": "object", "properties": {"e": {"type": "boolean"}}, "required": ["e"]},
            "f": {"type": "integer", "default": 7}, "g": {"type": "array"}, "free": {"type": "string"},
        },
        "required": ["a", "b", "c", "d", "f", "g"],
    });
    let script = script.with_tool("hang", ToolBehaviour::Echo).with_tool("crash", ToolBehaviour::Echo);
    script.with_tool("add", ToolBehaviour::Echo).with_input_schema("add", schema)
}

/// Runs the client against a server that is played meanwhile; answers how it ended and what it sent.
async fn against(script: ServerScript, variables: &[(&str, &str)]) -> (Output, Vec<NetRequest>) {
    let host = HttpHost::bind(script, HttpAnswers::Events).await;
    let mut client = client("some-scenario", variables);
    client.arg(host.url());
    let (ended, end) = oneshot::channel();
    let driving = thread::spawn(move || ended.send(client.output().unwrap()));
    let output = host.beside(end).await.unwrap();
    driving.join().unwrap().unwrap();
    (output, host.requests())
}

/// The parameters of each request with this method, in their order.
fn asked(requests: &[NetRequest], method: &str) -> Vec<Value> {
    let messages = requests.iter().filter(|request| request.method == "POST").map(NetRequest::json);
    messages.filter(|message| message["method"] == method).map(|message| message["params"].clone()).collect()
}

#[track_caller]
fn assert_silent_success(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

#[tokio::test]
async fn it_uses_all_that_a_server_offers_in_the_era_of_the_version() {
    for (script, version, first) in [
        (ServerScript::legacy(), Some("2025-11-25"), "initialize"),
        (ServerScript::modern(), Some("2026-07-28"), "server/discover"),
        (ServerScript::legacy(), None, "server/discover"),
        (ServerScript::modern(), None, "server/discover"),
    ] {
        let variables: Vec<_> =
            version.map(|version| ("MCP_CONFORMANCE_PROTOCOL_VERSION", version)).into_iter().collect();
        let (output, requests) = against(obliging(script), &variables).await;
        assert_silent_success(&output);
        assert_eq!(requests[0].json()["method"], first);
        let calls = asked(&requests, "tools/call");
        let names: Vec<&str> = calls.iter().map(|call| call["name"].as_str().unwrap()).collect();
        // An error is an answer too.
        assert_eq!(names, ["echo", "stats", "fail", "error", "hang", "crash", "add"]);
        let arguments = json!({"a": 1, "b": "text", "c": "x", "d": {"e": true}, "f": 7, "g": []});
        assert_eq!(calls.last().unwrap()["arguments"], arguments);
        assert_eq!(asked(&requests, "resources/read").len(), 3);
        assert_eq!(asked(&requests, "prompts/get").len(), 2);
    }
}

#[tokio::test]
async fn it_makes_the_calls_that_it_is_given_and_no_other() {
    let context = r#"{"name":"x","toolCalls":[{"name":"echo","arguments":{"message":"\u00e9","n":null}}]}"#;
    let (output, requests) =
        against(obliging(ServerScript::modern()), &[("MCP_CONFORMANCE_CONTEXT", context)]).await;
    assert_silent_success(&output);
    let calls = asked(&requests, "tools/call");
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&calls[0]["name"], &calls[0]["arguments"]),
        (&json!("echo"), &json!({"message": "é", "n": null}))
    );
    assert!(asked(&requests, "resources/read").is_empty());
}

#[tokio::test]
async fn a_call_that_is_not_answered_is_a_failure() {
    let (output, _) = against(ServerScript::modern().with_tool("hang", ToolBehaviour::Echo), &[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("conformance_client: some-scenario: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn what_is_not_there_yet_is_no_success() {
    let output = client("sep-2640-client-no-prefetch", &[]).arg("http://127.0.0.1:9/mcp").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("skills"));
}

#[tokio::test]
async fn a_server_that_it_cannot_be_authorized_for_is_told_from_other_failures() {
    let server = NetServer::bind().await;
    let mut client = client("some-scenario", &[]);
    client.arg(server.url());
    let driving = thread::spawn(move || client.output().unwrap());
    // It wants authorization, and does not say whose.
    let wants = async {
        while !driving.is_finished() {
            let Ok((mut connection, _)) = timeout(Duration::from_millis(100), server.exchange()).await else {
                continue;
            };
            connection.json("401 Unauthorized", "connection: close\r\n", &json!({})).await;
        }
    };
    wants.await;
    let output = driving.join().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
}

#[test]
fn what_is_not_understood_is_named() {
    let url = "http://127.0.0.1:9/mcp";
    for (mut client, part) in [
        (client("x", &[]), "URL"),
        (client("x", &[("MCP_CONFORMANCE_PROTOCOL_VERSION", "1999-01-01")]), "1999-01-01"),
        (client("x", &[("MCP_CONFORMANCE_CONTEXT", "{")]), "context"),
    ] {
        if part != "URL" {
            client.arg(url);
        }
        let output = client.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(part), "{part}");
    }
    let output = client("x", &[]).env_remove("MCP_CONFORMANCE_SCENARIO").arg(url).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_ends_with_the_shell_that_the_suite_has_started_it_in() {
    let server = NetServer::bind().await;
    let program = sibling_example("conformance_client");
    let line = format!("'{}' {}; true", program.display(), server.url());
    let mut shell = Command::new("sh")
        .args(["-c", &line])
        .env("MCP_CONFORMANCE_SCENARIO", "x")
        // Without a probe, which has a short limit of its own.
        .env("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut connection = server.accept().await;
    connection.request().await;
    shell.kill().unwrap();
    shell.wait().unwrap();
    // Well before the client's own time is up.
    timeout(Duration::from_secs(5), connection.closed()).await.expect("the client is gone");
}
