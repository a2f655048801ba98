//! What a legacy server asks of its client, and what a modern one gets for trying.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use mcp_proto::{
    CallTool, ClientCapabilities, ElicitationCapability, RawJson, RootsCapability, SamplingCapability,
};
use mcp_session::{
    Call, CallError, CallOptions, EraPolicy, HandlerLimits, HandlerQuota, Session, SessionOptions,
};
use mcp_transport::CloseReason;
use mcp_transport::testing::{MemoryOptions, ScriptedPeer};
use serde_json::{Value, json};
use support::desk::{Desk, accepted, form, sampling};
use support::*;
use tokio::time::Instant;

fn served_by(desk: &Arc<Desk>) -> SessionOptions {
    SessionOptions::default().with_handler(Arc::clone(desk) as _).with_server_name("files")
}

async fn legacy_served_by(desk: &Arc<Desk>) -> Fixture {
    legacy_with(served_by(desk), MemoryOptions::default()).await
}

fn call(session: &Session, options: CallOptions) -> Call<CallTool> {
    session.call(CallTool::new("any"), options)
}

async fn request(peer: &ScriptedPeer, id: Value, method: &str, params: Value) {
    peer.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
}

async fn elicit(peer: &ScriptedPeer, id: Value, message: &str) {
    request(peer, id, "elicitation/create", form(message)).await;
}

async fn withdraw(peer: &ScriptedPeer, id: Value) {
    let params = json!({"requestId": id, "reason": "no\u{1b}[2Jlonger"});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
}

/// The answers that have reached the server, by id.
fn answers(peer: &ScriptedPeer) -> Vec<(Value, Value)> {
    let transcript = peer.transcript();
    let answers = transcript.iter().filter(|frame| frame.method().is_none());
    answers.map(|frame| (frame.value["id"].clone(), frame.value.clone())).collect()
}

fn result(id: Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_request_is_served_by_the_handler_which_is_told_who_asks() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    request(&it.peer, json!(1), "roots/list", json!({})).await;
    assert_eq!(it.peer.receive().await.value, result(json!(1), json!({"roots": [{"uri": "file:///work"}]})));
    it.peer.send(json!({"jsonrpc": "2.0", "id": "1", "method": "roots/list"})).await;
    assert_eq!(it.peer.receive().await.value["id"], "1");
    request(&it.peer, json!(2), "sampling/createMessage", sampling(9)).await;
    let said = it.peer.receive().await.value;
    assert_eq!(said["result"]["content"]["text"], "said");
    elicit(&it.peer, json!(3), "name?").await;
    assert_eq!(it.peer.receive().await.value, result(json!(3), accepted("name?")));
    assert_eq!(desk.asked(), ["files roots", "files roots", "files sampling", "files name?"]);
    assert_eq!(it.session.counters().refused_requests, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_written_as_the_agreed_version_has_it() {
    for (version, answer) in [
        ("2025-11-25", Some(json!({"action": "accept", "content": {"said": ["a", "b"]}}))),
        ("2025-06-18", None),
    ] {
        let desk = Desk::new();
        let it = legacy_in(version, served_by(&desk), MemoryOptions::default()).await;
        elicit(&it.peer, json!(1), "several").await;
        let answered = it.peer.receive().await.value;
        match answer {
            Some(answer) => assert_eq!(answered["result"], answer),
            None => assert_eq!(code(&answered), -32603, "that version has no lists of texts"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn v26_only_what_a_handler_serves_is_declared() {
    // Whatever the options claim, nobody is there to serve it.
    let mut claimed = ClientCapabilities::default();
    claimed.roots = Some(RootsCapability::default());
    claimed.elicitation = Some(ElicitationCapability::form());
    let mut roots = ClientCapabilities::default();
    roots.roots = Some(RootsCapability::default());
    for (handler, declared) in [
        (None, json!({})),
        (Some(Desk::serving(roots)), json!({"roots": {}})),
        (Some(Desk::new()), json!({"elicitation": {"form": {}}, "roots": {}, "sampling": {}})),
    ] {
        let mut options = SessionOptions::default().with_capabilities(claimed.clone());
        if let Some(handler) = handler {
            options = options.with_handler(handler as _);
        }
        let it = legacy_with(options.clone(), MemoryOptions::default()).await;
        assert_eq!(it.peer.transcript()[0].params()["capabilities"], declared);
        let it = modern_with(options, MemoryOptions::default()).await;
        let mut call = ByHand::new(call(&it.session, CallOptions::default()));
        assert!(call.poll().is_pending());
        it.peer.expect("tools/call").await;
        for request in it.peer.transcript() {
            let meta = &request.params()["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], declared, "with each request");
        }
        assert_eq!(methods(&it.peer), ["server/discover", "tools/call"]);
    }
}

#[tokio::test(start_paused = true)]
async fn f186_what_was_not_declared_is_refused_and_nobody_is_asked() {
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(ElicitationCapability::form());
    let desk = Desk::serving(capabilities);
    let it = legacy_served_by(&desk).await;
    for (method, params, expected) in [
        ("roots/list", json!({}), -32601),
        ("sampling/createMessage", sampling(1), -32601),
        ("tasks/get", json!({}), -32601),
        ("no/such", json!([1]), -32601),
        ("elicitation/create", json!({"mode": "url", "message": "m", "url": "https://a"}), -32602),
        ("elicitation/create", json!({"mode": "voice"}), -32602),
        ("elicitation/create", json!({"message": 7}), -32602),
    ] {
        request(&it.peer, json!(7), method, params).await;
        let refusal = it.peer.receive().await.value;
        assert_eq!((&refusal["id"], code(&refusal)), (&json!(7), expected), "{method}");
    }
    assert_eq!(desk.asked().len(), 0);
    assert_eq!(it.session.counters().refused_requests, 7);
}

#[tokio::test(start_paused = true)]
async fn f186_tools_for_a_model_are_refused_unless_they_were_declared() {
    let with_tools = |member: &str, value: Value| {
        let mut params = sampling(1);
        params[member] = value;
        params
    };
    for has_tools in [false, true] {
        let mut capabilities = ClientCapabilities::default();
        let mut declared = SamplingCapability::default();
        declared.tools = has_tools.then(|| RawJson::from_text("{}").unwrap());
        capabilities.sampling = Some(declared);
        let desk = Desk::serving(capabilities);
        let it = legacy_served_by(&desk).await;
        for params in [
            with_tools("tools", json!([{"name": "t", "inputSchema": {"type": "object"}}])),
            with_tools("toolChoice", json!({"mode": "auto"})),
        ] {
            request(&it.peer, json!(1), "sampling/createMessage", params).await;
            let answer = it.peer.receive().await.value;
            match has_tools {
                true => assert!(answer["result"].is_object(), "{answer}"),
                false => assert_eq!(code(&answer), -32602, "{answer}"),
            }
        }
        request(&it.peer, json!(2), "sampling/createMessage", sampling(1)).await;
        assert!(it.peer.receive().await.value["result"].is_object(), "no tools, nothing to declare");
        assert_eq!(desk.asked().len(), if has_tools { 3 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn f186_a_person_is_sent_to_pages_of_the_web_and_nowhere_else() {
    let mut capabilities = ClientCapabilities::default();
    let mut declared = ElicitationCapability::default();
    declared.url = Some(RawJson::from_text("{}").unwrap());
    capabilities.elicitation = Some(declared);
    let desk = Desk::serving(capabilities);
    let it = legacy_served_by(&desk).await;
    for (url, is_served) in [
        ("https://pay.example/1", true),
        ("HTTP://127.0.0.1:80", true),
        ("javascript:alert(1)", false),
        ("java\nscript:https://a", false),
        ("file:///etc/passwd", false),
        ("data:text/html,https://a", false),
        ("httpsé//a", false),
        (" https://a", false),
        ("https:", false),
        ("", false),
    ] {
        let params = json!({"mode": "url", "message": "m", "url": url, "elicitationId": "e"});
        request(&it.peer, json!(url), "elicitation/create", params).await;
        let answer = it.peer.receive().await.value;
        match is_served {
            true => assert!(answer["result"].is_object(), "{answer}"),
            false => assert_eq!(code(&answer), -32602, "{answer}"),
        }
    }
    assert_eq!(desk.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn s105_f122_pings_and_answers_go_on_while_64_handlers_hang() {
    let desk = Desk::new();
    let limits = HandlerLimits::default().with_at_once(64).with_per_minute(64);
    let it = legacy_with(served_by(&desk).with_handler_limits(limits), MemoryOptions::default()).await;
    for id in 0..64 {
        elicit(&it.peer, json!(id), "hang").await;
    }
    settle().await;
    assert_eq!(desk.running(), 64);
    let began = Instant::now();
    request(&it.peer, json!("ping"), "ping", json!({})).await;
    assert_eq!(it.peer.receive().await.value, result(json!("ping"), json!({})));
    let calling = tokio::spawn(call(&it.session, CallOptions::default()));
    let asked = it.peer.expect("tools/call").await;
    it.peer.respond(asked.id(), said("x")).await;
    calling.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), seconds(0));
    assert_eq!(desk.running(), 64);
}

#[tokio::test(start_paused = true)]
async fn f145_a_panic_in_a_handler_is_an_error_for_the_server_and_nothing_else() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    elicit(&it.peer, json!(1), "panic").await;
    let answer = it.peer.receive().await.value;
    assert_eq!((&answer["id"], code(&answer)), (&json!(1), -32603));
    elicit(&it.peer, json!(2), "fail").await;
    let answer = it.peer.receive().await.value;
    assert_eq!((code(&answer), &answer["error"]["message"]), (-1, &json!("a person said no")));
    elicit(&it.peer, json!(3), "fine").await;
    assert_eq!(it.peer.receive().await.value, result(json!(3), accepted("fine")));
    assert!(it.session.is_open() && desk.running() == 0);
}

#[tokio::test(start_paused = true)]
async fn s96_a_withdrawn_request_is_dropped_and_not_answered() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    elicit(&it.peer, json!("a"), "wait").await;
    settle().await;
    assert_eq!(desk.running(), 1);
    withdraw(&it.peer, json!("b")).await;
    withdraw(&it.peer, json!("a")).await;
    settle().await;
    assert_eq!(desk.running(), 0, "the handler is dropped");
    withdraw(&it.peer, json!("a")).await;
    desk.let_go(1);
    settle().await;
    assert_eq!(answers(&it.peer), []);
    assert_eq!(it.session.counters().ignored_notifications, 2, "unknown, and withdrawn before");
}

#[tokio::test(start_paused = true)]
async fn s96_s98_of_an_answer_and_a_withdrawal_the_first_one_counts() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    // The answer first.
    elicit(&it.peer, json!(1), "wait").await;
    settle().await;
    desk.let_go(1);
    settle().await;
    withdraw(&it.peer, json!(1)).await;
    settle().await;
    assert_eq!(answers(&it.peer).len(), 1);
    // Both before the driver gets a turn.
    elicit(&it.peer, json!(2), "wait").await;
    settle().await;
    desk.let_go(1);
    withdraw(&it.peer, json!(2)).await;
    settle().await;
    assert_eq!(answers(&it.peer).len(), 1, "a request that was withdrawn is not answered");
    // In one batch of frames: it has not even begun.
    let (elicitation, notice) = (form("soon"), json!({"requestId": 3}));
    it.peer
        .send(json!({"jsonrpc": "2.0", "id": 3, "method": "elicitation/create", "params": elicitation}))
        .await;
    it.peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": notice})).await;
    settle().await;
    assert_eq!(answers(&it.peer).len(), 1);
    assert_eq!((desk.running(), desk.asked().len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_used_again_belongs_to_the_newer_request() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    elicit(&it.peer, json!(1), "wait").await;
    elicit(&it.peer, json!(1), "now").await;
    let refusal = it.peer.receive().await.value;
    assert_eq!((&refusal["id"], code(&refusal)), (&json!(1), -32600), "it is being used");
    withdraw(&it.peer, json!(1)).await;
    elicit(&it.peer, json!(1), "again").await;
    assert_eq!(it.peer.receive().await.value, result(json!(1), accepted("again")));
    settle().await;
    assert_eq!((answers(&it.peer).len(), desk.running()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn f121_a_flood_is_served_four_at_once_and_the_rest_is_refused() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    for id in 0..50 {
        elicit(&it.peer, json!(id), "wait").await;
    }
    settle().await;
    let refused = answers(&it.peer);
    assert_eq!((desk.running(), refused.len()), (4, 46));
    assert!(refused.iter().all(|(_, answer)| code(answer) == -32603));
    assert_eq!(refused[0].0, 4, "the first four are served");
    desk.let_go(4);
    settle().await;
    assert_eq!(answers(&it.peer).len(), 50);
    request(&it.peer, json!("next"), "roots/list", json!({})).await;
    settle().await;
    assert!(answers(&it.peer)[50].1["result"].is_object(), "places are free again");
}

#[tokio::test(start_paused = true)]
async fn f121_a_model_or_person_is_asked_ten_times_a_minute_and_folders_are_free() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    for id in 0..12 {
        match id % 2 {
            0 => elicit(&it.peer, json!(id), "now").await,
            _ => request(&it.peer, json!(id), "sampling/createMessage", sampling(1)).await,
        }
        let answer = it.peer.receive().await.value;
        assert_eq!(answer.get("error").is_some(), id >= 10, "{answer}");
    }
    for id in 100..150 {
        request(&it.peer, json!(id), "roots/list", json!({})).await;
        assert!(it.peer.receive().await.value["result"].is_object());
    }
    tokio::time::advance(seconds(60)).await;
    elicit(&it.peer, json!(200), "now").await;
    assert!(it.peer.receive().await.value["result"].is_object());
}

#[tokio::test(start_paused = true)]
async fn f121_a_request_beyond_the_limits_is_refused_unread_and_what_cannot_be_read_counts() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    for id in 0..4 {
        elicit(&it.peer, json!(id), "wait").await;
    }
    request(&it.peer, json!("bad"), "elicitation/create", json!({"message": 7})).await;
    let refused = it.peer.receive().await.value;
    assert_eq!((&refused["id"], code(&refused)), (&json!("bad"), -32603), "{refused}");
    desk.let_go(4);
    for _ in 0..4 {
        it.peer.receive().await;
    }
    for id in 0..6 {
        request(&it.peer, json!(id), "sampling/createMessage", json!({"messages": 7})).await;
        assert_eq!(code(&it.peer.receive().await.value), -32602);
    }
    elicit(&it.peer, json!(11), "now").await;
    assert_eq!(code(&it.peer.receive().await.value), -32603, "ten were asked within a minute");
}

#[tokio::test(start_paused = true)]
async fn f121_sessions_that_share_a_quota_count_together() {
    let desk = Desk::new();
    let limits = HandlerLimits::default().with_at_once(2).with_per_minute(3);
    let options = served_by(&desk).with_handler_quota(HandlerQuota::new(limits));
    let first = legacy_with(options.clone(), MemoryOptions::default()).await;
    let second = legacy_with(options, MemoryOptions::default()).await;
    for it in [&first, &second] {
        elicit(&it.peer, json!(1), "wait").await;
    }
    settle().await;
    request(&second.peer, json!(2), "roots/list", json!({})).await;
    let refusal = second.peer.receive().await.value;
    assert_eq!((&refusal["id"], code(&refusal), desk.running()), (&json!(2), -32603, 2), "no place is left");
    // A session that ends gives its places back; what was asked stays counted.
    first.peer.close(CloseReason::EndOfStream);
    settle().await;
    request(&second.peer, json!(3), "roots/list", json!({})).await;
    assert!(second.peer.receive().await.value["result"].is_object());
    elicit(&second.peer, json!(4), "now").await;
    assert!(second.peer.receive().await.value["result"].is_object());
    elicit(&second.peer, json!(5), "now").await;
    assert_eq!(code(&second.peer.receive().await.value), -32603, "three were asked within a minute");
}

#[tokio::test(start_paused = true)]
async fn f147_a_handler_that_never_ends_is_ended_by_its_limit() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    let began = Instant::now();
    elicit(&it.peer, json!(1), "hang").await;
    request(&it.peer, json!(2), "sampling/createMessage", sampling(0)).await;
    let answer = it.peer.receive().await.value;
    assert_eq!((&answer["id"], code(&answer), began.elapsed()), (&json!(2), -32603, seconds(30)));
    let answer = it.peer.receive().await.value;
    assert_eq!(answer, result(json!(1), json!({"action": "cancel"})), "a person who went away");
    assert_eq!(began.elapsed(), seconds(300));
    assert_eq!(desk.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_served_ends_with_the_session_however_that_ends() {
    let desk = Desk::new();
    for how in ["closed", "lost", "driver dropped", "handles dropped"] {
        let it = legacy_served_by(&desk).await;
        elicit(&it.peer, json!(1), "hang").await;
        settle().await;
        assert_eq!(desk.running(), 1, "{how}");
        let Fixture { session, peer, driver } = it;
        match how {
            "closed" => {
                session.close(soon()).await;
            }
            "lost" => peer.close(CloseReason::EndOfStream),
            "driver dropped" => driver.abort(),
            _ => drop(session),
        }
        settle().await;
        assert_eq!(desk.running(), 0, "{how}");
        assert_eq!(answers(&peer), [], "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_during_the_handshake_is_served() {
    let desk = Desk::new();
    let options = served_by(&desk).with_era(EraPolicy::Legacy);
    let (opening, driver, peer) = unopened(options, MemoryOptions::default());
    let _driver = tokio::spawn(driver.run());
    let server = async {
        let initialize = peer.expect("initialize").await;
        request(&peer, json!(1), "roots/list", json!({})).await;
        assert_eq!(peer.receive().await.value["id"], 1);
        peer.respond(initialize.id(), initialize_result("2025-11-25")).await;
        peer.expect("notifications/initialized").await;
    };
    let (session, ()) = tokio::join!(opening.handshake(soon()), server);
    session.unwrap();
}

#[tokio::test(start_paused = true)]
async fn f093_t49_a_modern_server_that_asks_directly_gets_not_one_byte_and_nobody_is_asked() {
    let desk = Desk::new();
    let it = modern_with(served_by(&desk), MemoryOptions::default()).await;
    elicit(&it.peer, json!(1), "now").await;
    request(&it.peer, json!(2), "roots/list", json!({})).await;
    settle().await;
    assert_eq!((answers(&it.peer).len(), desk.asked().len()), (0, 0));
    assert_eq!(it.session.counters().refused_requests, 2);
}

#[tokio::test(start_paused = true)]
async fn s92_the_time_a_person_takes_is_not_the_servers() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    let began = Instant::now();
    let options = CallOptions::default().with_timeout(seconds(10)).with_deadline(began + seconds(1000));
    let calling = tokio::spawn(call(&it.session, options));
    let asked = it.peer.expect("tools/call").await;
    tokio::time::sleep(seconds(9)).await;
    elicit(&it.peer, json!(1), "wait").await;
    tokio::time::sleep(seconds(200)).await;
    desk.let_go(1);
    assert_eq!(it.peer.receive().await.value["id"], 1);
    tokio::time::sleep(Duration::from_millis(900)).await;
    it.peer.respond(asked.id(), said("thanks")).await;
    calling.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(209_900));
}

#[tokio::test(start_paused = true)]
async fn s92_a_server_that_asks_again_and_again_has_no_more_time_than_any_other() {
    for (asks, expected) in [("folders", 60), ("people", 66)] {
        let desk = Desk::new();
        let it = legacy_served_by(&desk).await;
        let began = Instant::now();
        let mut calling = tokio::spawn(call(&it.session, CallOptions::default()));
        it.peer.expect("tools/call").await;
        let asking = async {
            for id in 0.. {
                tokio::time::sleep(seconds(9)).await;
                if asks == "folders" {
                    request(&it.peer, json!(id), "roots/list", json!({})).await;
                } else {
                    elicit(&it.peer, json!(id), "wait").await;
                    tokio::time::sleep(seconds(1)).await;
                    desk.let_go(1);
                }
                it.peer.receive().await;
            }
        };
        let ended = tokio::select! {
            ended = &mut calling => ended.unwrap().unwrap_err(),
            () = asking => unreachable!(),
        };
        assert!(ended.is_timeout(), "{ended:?}");
        assert_eq!(began.elapsed(), seconds(expected), "{asks}: of its 60 s, and those of people");
    }
}

#[tokio::test(start_paused = true)]
async fn s92_after_the_answer_the_server_has_its_time_and_no_more() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    let began = Instant::now();
    let options = CallOptions::default().with_timeout(seconds(10)).with_deadline(began + seconds(1000));
    let calling = tokio::spawn(call(&it.session, options));
    it.peer.expect("tools/call").await;
    elicit(&it.peer, json!(1), "wait").await;
    tokio::time::sleep(seconds(100)).await;
    // A call that began after the question has nothing to do with it.
    let late = call(&it.session, CallOptions::default().with_timeout(seconds(5))).await;
    assert!(late.unwrap_err().is_timeout());
    assert_eq!(began.elapsed(), seconds(105));
    desk.let_go(1);
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::Timeout { .. }));
    assert_eq!(began.elapsed(), seconds(115));
}

#[tokio::test(start_paused = true)]
async fn s102_the_deadline_of_a_call_holds_whoever_takes_the_time() {
    let desk = Desk::new();
    let it = legacy_served_by(&desk).await;
    let began = Instant::now();
    let calling = tokio::spawn(call(&it.session, CallOptions::default().with_deadline(began + seconds(20))));
    it.peer.expect("tools/call").await;
    elicit(&it.peer, json!(1), "wait").await;
    assert!(calling.await.unwrap().unwrap_err().is_timeout());
    assert_eq!((began.elapsed(), cancelled_ids(&it.peer).len()), (seconds(20), 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_a_full_queue_while_reading_goes_on() {
    let desk = Desk::new();
    let memory = MemoryOptions::default().with_queue(1).with_window(0);
    let it = legacy_with(served_by(&desk), memory).await;
    let mut filling = ByHand::new(call(&it.session, CallOptions::default()));
    assert!(filling.poll().is_pending());
    elicit(&it.peer, json!(1), "now").await;
    it.peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    settle().await;
    assert!(it.session.next_event().await.is_some(), "reading goes on");
    it.peer.expect("tools/call").await;
    assert_eq!(it.peer.receive().await.value, result(json!(1), accepted("now")));
    assert_eq!(it.session.counters().unsent_replies, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_large_becomes_an_error() {
    let desk = Desk::new();
    let memory = MemoryOptions::default().with_max_frame_bytes(10_000);
    let it = legacy_with(served_by(&desk), memory).await;
    elicit(&it.peer, json!(1), "large").await;
    let answer = it.peer.receive().await.value;
    assert_eq!((&answer["id"], code(&answer)), (&json!(1), -32603));
}
