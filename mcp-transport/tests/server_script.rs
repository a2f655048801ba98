//! The scripted server answers as real ones do, in both eras, and counts what it sees.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::time::Duration;

use mcp_transport::testing::{
    Action, Behaviour, MemoryConnector, Server, ServerEra, ServerScript, ToolBehaviour, memory, serve,
    serve_all,
};
use mcp_transport::{CloseReason, Connector, Exit, Inbound, Outbound};
use serde_json::{Value, json};
use tokio::time::Instant;

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn modern(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, params)
}

fn cancel(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// The one message that the server sends in answer.
#[track_caller]
fn ask(server: &mut Server, message: &Value) -> Value {
    let mut actions = server.on_message(message, Instant::now());
    match actions.pop() {
        Some(Action::Send(answer)) if actions.is_empty() => answer,
        last => panic!("{actions:?} {last:?}"),
    }
}

fn opened(script: &ServerScript) -> Server {
    let mut server = script.start();
    ask(&mut server, &request(0, "initialize", json!({"protocolVersion": "2025-11-25"})));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.on_message(&initialized, Instant::now()), []);
    server
}

#[test]
fn a_legacy_server_wants_its_handshake_and_knows_no_discover() {
    let script = ServerScript::legacy();
    let mut server = script.start();
    let probe = ask(&mut server, &modern(1, "server/discover", json!({})));
    assert_eq!(probe["error"]["code"], -32601);
    assert_eq!(script.log().violations(), [""; 0]);
    let early = ask(&mut server, &request(2, "tools/list", json!({})));
    assert_eq!(early["error"]["code"], -32600);
    assert_eq!(script.log().violations().len(), 1);
    let answer = ask(&mut server, &request(3, "initialize", json!({"protocolVersion": "2025-06-18"})));
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    let mut server = opened(&script);
    let tools = ask(&mut server, &request(4, "tools/list", json!({})));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 6);
    assert!(tools["result"].get("resultType").is_none());
}

#[test]
fn a_modern_server_wants_its_meta_and_knows_no_initialize() {
    let script = ServerScript::modern();
    let mut server = script.start();
    let discover = ask(&mut server, &modern(1, "server/discover", json!({})));
    assert_eq!(discover["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(discover["result"]["resultType"], "complete");
    let called = ask(&mut server, &modern(2, "tools/call", json!({"name": "fail"})));
    assert_eq!(called["result"]["isError"], true);
    assert_eq!(script.log().violations(), [""; 0]);
    let refused = ask(&mut server, &request(3, "initialize", json!({"protocolVersion": "2025-11-25"})));
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(script.log().violations().len(), 1);
}

#[test]
fn lists_have_pages_and_cursors_that_were_not_given_out_are_refused() {
    let script = ServerScript::legacy().with_extra_tools(1).with_page_size(3);
    let mut server = opened(&script);
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = ask(&mut server, &request(1, "tools/list", params));
        names.extend(page["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()));
        let Some(cursor) = page["result"].get("nextCursor") else { break };
        params = json!({"cursor": cursor});
    }
    assert_eq!((names.len(), script.log().count("tools/list")), (7, 3));
    for cursor in ["page-3", "page-18446744073709551615", "x"] {
        let refused = ask(&mut server, &request(2, "tools/list", json!({"cursor": cursor})));
        assert_eq!(refused["error"]["code"], -32602, "{cursor}");
    }
}

#[test]
fn resources_and_prompts_are_served() {
    let mut server = opened(&ServerScript::legacy());
    let list = ask(&mut server, &request(1, "resources/list", json!({})));
    let uri = list["result"]["resources"][2]["uri"].clone();
    let read = ask(&mut server, &request(2, "resources/read", json!({"uri": uri})));
    assert_eq!(read["result"]["contents"][0]["text"], "This is text 2.");
    let templates = ask(&mut server, &request(3, "resources/templates/list", json!({})));
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 1);
    let prompt = request(4, "prompts/get", json!({"name": "prompt-1", "arguments": {"topic": "rain"}}));
    let filled = ask(&mut server, &prompt);
    assert_eq!(filled["result"]["messages"][0]["content"]["text"], "Say something about rain.");
}

#[test]
fn stats_count_calls_answers_and_cancelled_open_calls() {
    let script = ServerScript::legacy();
    let mut server = opened(&script);
    let now = Instant::now();
    let echo =
        |id, delay| request(id, "tools/call", json!({"name": "echo", "arguments": {"delay_ms": delay}}));
    ask(&mut server, &echo(1, 0));
    assert_eq!(server.on_message(&echo(2, 100), now), []);
    assert_eq!(server.on_message(&request(3, "tools/call", json!({"name": "hang"})), now), []);
    for id in [1, 2, 3] {
        assert_eq!(server.on_message(&cancel(id), now), []);
    }
    assert_eq!(server.next_deadline(), None);
    let stats = ask(&mut server, &request(4, "tools/call", json!({"name": "stats"})));
    let counters: Value =
        serde_json::from_str(stats["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(counters, json!({"calls": 4, "cancelled": 2, "answered": 1}));
    assert_eq!(script.log().cancelled().len(), 3);
    assert_eq!((script.log().runs("echo"), script.log().runs("hang")), (2, 1));
    assert_eq!(script.log().executions()[0].arguments, json!({"delay_ms": 0}));
}

#[test]
fn a_flood_comes_before_each_answer() {
    let mut server = opened(&ServerScript::legacy().with_flood(3));
    let actions = server.on_message(&request(1, "tools/call", json!({"name": "echo"})), Instant::now());
    let raw = actions.iter().filter(|action| matches!(action, Action::SendRaw(_))).count();
    assert_eq!((raw, actions.len()), (3, 4));
}

#[test]
fn a_crash_ends_the_connection_without_an_answer() {
    let script = ServerScript::new(ServerEra::Both).with_crash_before_initialize(Exit::Code(3));
    let mut server = script.start();
    let probe = server.on_message(&modern(1, "server/discover", json!({})), Instant::now());
    assert_eq!(probe, [Action::Close(CloseReason::Exited(Exit::Code(3)))]);
    let mut server = opened(&script);
    let crash = server.on_message(&request(1, "tools/call", json!({"name": "crash"})), Instant::now());
    assert_eq!(crash, [Action::Close(CloseReason::Exited(Exit::Signal(11)))]);
}

#[tokio::test(start_paused = true)]
async fn delayed_answers_come_at_their_time_and_in_their_order() {
    let script = ServerScript::modern().with_tool("slow", ToolBehaviour::Slow(Duration::from_secs(3)));
    let (mut connection, peer) = memory();
    let began = Instant::now();
    let client = async {
        for (id, tool, delay) in [(1, "slow", 0), (2, "echo", 2000), (3, "echo", 0)] {
            let call = modern(id, "tools/call", json!({"name": tool, "arguments": {"delay_ms": delay}}));
            let call = Outbound::request(id.into(), call.to_string().into());
            connection.transport.send(call).await.unwrap();
        }
        let mut answers = Vec::new();
        while answers.len() < 3 {
            let mut inbound = Vec::new();
            std::future::poll_fn(|cx| connection.receive.poll_receive(cx, &mut inbound)).await.unwrap();
            for message in inbound {
                let Inbound::Message { frame, .. } = message else { panic!("{message:?}") };
                let answer: Value = serde_json::from_slice(&frame).unwrap();
                answers.push((answer["id"].as_i64().unwrap(), began.elapsed().as_secs()));
            }
        }
        drop(connection);
        answers
    };
    let (answers, _server) = tokio::join!(client, serve(peer, script.start()));
    assert_eq!(answers, [(3, 0), (2, 2), (1, 3)]);
}

#[tokio::test(start_paused = true)]
async fn one_future_serves_every_connection_of_a_connector() {
    let (connector, script) = (MemoryConnector::new(), ServerScript::modern());
    let clients = async {
        for number in 0..3_i64 {
            let by = Instant::now() + Duration::from_secs(1);
            let mut connection = connector.connect(by).await.unwrap();
            let call = modern(number, "tools/call", json!({"name": "echo"}));
            let call = Outbound::request(number.into(), call.to_string().into());
            connection.transport.send(call).await.unwrap();
            let mut inbound = Vec::new();
            std::future::poll_fn(|cx| connection.receive.poll_receive(cx, &mut inbound)).await.unwrap();
            assert_eq!(inbound.len(), 1);
        }
    };
    tokio::select! {
        () = clients => {}
        () = serve_all(&connector, |_| script.start()) => unreachable!("it serves for ever"),
    }
    assert_eq!((script.log().connections(), script.log().runs("echo")), (3, 3));
}
