//! Calls whose server asks for input before it goes on (2026-07-28).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mcp_proto::{
    CallTool, CallToolResult, ClientCapabilities, Elicit, ElicitResult, ElicitationCapability, GetPrompt,
    InputAnswers, ListPrompts, ListTools, Method, Payload, RawJson, ReadResource,
};
use mcp_session::{
    Call, CallError, CallOptions, CallOutcome, Gate, HandlerLimits, ListLimits, ProtocolFault, Session,
    SessionOptions, UnsupportedWhy,
};
use mcp_transport::testing::{MemoryOptions, Received, ScriptedPeer};
use mcp_transport::{CloseReason, Dispatch};
use serde_json::{Value, json};
use support::desk::{Desk, accepted, form, sampling};
use support::*;
use tokio::task::JoinHandle;
use tokio::time::Instant;

async fn modern_served_by(desk: &Arc<Desk>) -> Fixture {
    let options = SessionOptions::default().with_handler(Arc::clone(desk) as _);
    modern_with(options, MemoryOptions::default()).await
}

fn tool() -> CallTool {
    CallTool::new("t").with_arguments(RawJson::from_text(r#"{ "a": 1.50 }"#).unwrap())
}

fn call(session: &Session) -> Call<CallTool> {
    session.call(tool(), CallOptions::default())
}

fn spawn(session: &Session) -> JoinHandle<Result<CallToolResult, CallError>> {
    tokio::spawn(call(session))
}

fn elicitation(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": form(message)})
}

fn asking_for(requests: Value) -> Value {
    json!({"resultType": "input_required", "inputRequests": requests})
}

fn asking(message: &str) -> Value {
    asking_for(json!({"q": elicitation(message)}))
}

/// Answers a request with exactly this text.
async fn respond_text(peer: &ScriptedPeer, request: &Received, result: &str) {
    let id = request.value["id"].as_i64().unwrap();
    peer.send_raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await;
}

fn text(frame: &Received) -> &str {
    std::str::from_utf8(&frame.frame).unwrap()
}

/// How often the server was asked to call the tool.
fn sent(peer: &ScriptedPeer) -> usize {
    methods(peer).iter().filter(|method| *method == "tools/call").count()
}

#[tokio::test(start_paused = true)]
async fn r111_r113_what_is_asked_is_answered_and_the_same_request_sent_again() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let calling = spawn(&it.session);
    let first = it.peer.expect("tools/call").await;
    let requests = json!({
        "who": elicitation("who?"),
        "where": {"method": "roots/list"},
        "what": {"method": "sampling/createMessage", "params": sampling(5)},
    });
    it.peer.respond(first.id(), asking_for(requests)).await;
    let second = it.peer.expect("tools/call").await;
    assert_ne!(first.value["id"], second.value["id"], "r113: a new id");
    let mut expected = first.params().clone();
    expected["inputResponses"] = json!({
        "who": accepted("who?"),
        "where": {"roots": [{"uri": "file:///work"}]},
        "what": {"role": "assistant", "content": {"type": "text", "text": "said"}, "model": "model"},
    });
    expected["_meta"]["progressToken"] = second.value["id"].clone();
    assert_eq!(second.params(), &expected);
    assert!(text(&second).contains(r#""arguments":{ "a": 1.50 }"#), "parameters are sent as they were");
    it.peer.respond(second.id(), said("done")).await;
    assert_eq!(calling.await.unwrap().unwrap().content.len(), 1);
    assert_quiescent(&it.session);
    assert!(cancelled_ids(&it.peer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn f117_r112_the_state_comes_back_byte_for_byte_and_only_where_it_came_from() {
    let it = modern_served_by(&Desk::new()).await;
    let calling = spawn(&it.session);
    let first = it.peer.expect("tools/call").await;
    // Other texts would mean the same, and are not the same bytes.
    let state = r#""\u0041\/\ud83e\udd80 é\n""#;
    respond_text(&it.peer, &first, &format!(r#"{{"requestState": {state} ,"resultType":"input_required"}}"#))
        .await;
    let second = it.peer.expect("tools/call").await;
    assert!(text(&second).contains(&format!(r#""requestState":{state}"#)), "{}", text(&second));
    assert_eq!(second.params().get("inputResponses"), None);
    // This round brings none, so none goes back: an older one is not carried on.
    it.peer.respond(second.id(), asking("who?")).await;
    let third = it.peer.expect("tools/call").await;
    assert_eq!(third.params().get("requestState"), None);
    assert_eq!(third.params()["inputResponses"]["q"], accepted("who?"));
    it.peer.respond(third.id(), json!({"resultType": "input_required", "requestState": "c"})).await;
    let fourth = it.peer.expect("tools/call").await;
    assert_eq!(fourth.params().get("inputResponses"), None, "nor are older answers");
    assert_eq!(fourth.params()["requestState"], "c");
    it.peer.respond(fourth.id(), said("done")).await;
    calling.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn r114_state_and_answers_never_reach_another_call() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let calls: Vec<_> = (0..3).map(|_| spawn(&it.session)).collect();
    let mut firsts = Vec::new();
    for state in ["x", "y", "z"] {
        let first = it.peer.expect("tools/call").await;
        let mut result = asking(state);
        result["requestState"] = json!(state);
        firsts.push((first, result));
    }
    for (first, result) in firsts {
        it.peer.respond(first.id(), result).await;
    }
    // A call that has nothing to do with them is made in between.
    let plain = spawn(&it.session);
    for _ in 0..4 {
        let request = it.peer.expect("tools/call").await;
        if let Some(state) = request.params().get("requestState") {
            assert_eq!(request.params()["inputResponses"], json!({"q": accepted(state.as_str().unwrap())}));
        } else {
            assert_eq!(request.params().get("inputResponses"), None);
        }
        it.peer.respond(request.id(), said("done")).await;
    }
    for call in calls.into_iter().chain([plain]) {
        call.await.unwrap().unwrap();
    }
    assert_eq!(sent(&it.peer), 7);
}

#[tokio::test(start_paused = true)]
async fn r110_prompts_and_resources_have_rounds_too_and_raw_calls_as_well() {
    let it = modern_served_by(&Desk::new()).await;
    let answer = async |method: &str, result: Value| {
        let first = it.peer.expect(method).await;
        it.peer.respond(first.id(), asking("?")).await;
        let second = it.peer.expect(method).await;
        assert_eq!(second.params()["inputResponses"]["q"], accepted("?"));
        it.peer.respond(second.id(), result).await;
    };
    let get = it.session.call(GetPrompt::new("p"), CallOptions::default());
    let (got, ()) = tokio::join!(get, answer("prompts/get", json!({"messages": []})));
    got.unwrap();
    let read = it.session.call(ReadResource::new("a:b"), CallOptions::default());
    let (read, ()) = tokio::join!(read, answer("resources/read", json!({"contents": []})));
    read.unwrap();
    let params = Payload::encode(&tool()).unwrap();
    let raw = it.session.call_raw(Method::TOOLS_CALL, params, CallOptions::default());
    let (result, ()) = tokio::join!(raw, answer("tools/call", json!({"content": [], "k": 1.0})));
    assert!(result.unwrap().as_str().contains(r#""k":1.0"#));
}

#[tokio::test(start_paused = true)]
async fn r110_other_requests_have_no_rounds() {
    let it = modern_served_by(&Desk::new()).await;
    let listed = it.session.list::<ListTools>(CallOptions::default(), ListLimits::default());
    let answer = async {
        let request = it.peer.expect("tools/list").await;
        it.peer.respond(request.id(), asking("?")).await;
    };
    let (listed, ()) = tokio::join!(listed, answer);
    assert!(matches!(listed, Err(CallError::Protocol(ProtocolFault::ResultType(_)))), "{listed:?}");
    let listing = tokio::spawn(it.session.call(ListPrompts::default(), CallOptions::default()));
    let request = it.peer.expect("prompts/list").await;
    it.peer.respond(request.id(), asking("?")).await;
    assert!(matches!(listing.await.unwrap(), Err(CallError::Protocol(_))));
    // Neither a question nor a state: no result at all.
    let calling = spawn(&it.session);
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), json!({"resultType": "input_required"})).await;
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::Protocol(ProtocolFault::Result(_))), "{ended:?}");
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn r115_a_server_that_only_asks_to_come_back_is_asked_again_with_growing_pauses() {
    // Nobody has to be there for that.
    let it = modern().await;
    let calling = spawn(&it.session);
    let mut pauses = Vec::new();
    let mut request = it.peer.expect("tools/call").await;
    for _ in 0..5 {
        let began = Instant::now();
        it.peer.respond(request.id(), json!({"resultType": "input_required", "requestState": "s"})).await;
        request = it.peer.expect("tools/call").await;
        pauses.push(began.elapsed().as_millis());
    }
    it.peer.respond(request.id(), said("done")).await;
    calling.await.unwrap().unwrap();
    assert_eq!(pauses, [50, 100, 200, 250, 250]);
}

#[tokio::test(start_paused = true)]
async fn f117_r115_a_server_that_never_ends_is_asked_ten_times_more() {
    let it = modern().await;
    let calling = spawn(&it.session);
    for _ in 0..11 {
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), json!({"resultType": "input_required", "requestState": "s"})).await;
    }
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::Protocol(ProtocolFault::Rounds(10))), "{ended:?}");
    assert_eq!((ended.outcome(), sent(&it.peer)), (CallOutcome::Unknown, 11));
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn f117_a_state_is_kept_up_to_a_mebibyte() {
    const MIB: usize = 1024 * 1024;
    for (letters, is_kept) in [(MIB - 2, true), (MIB - 1, false)] {
        let it = modern().await;
        let calling = spawn(&it.session);
        let first = it.peer.expect("tools/call").await;
        let state = "x".repeat(letters);
        let required = json!({"resultType": "input_required", "requestState": state});
        it.peer.respond(first.id(), required).await;
        if is_kept {
            let second = it.peer.expect("tools/call").await;
            assert_eq!(second.params()["requestState"], state);
            continue;
        }
        let ended = calling.await.unwrap().unwrap_err();
        let CallError::Protocol(ProtocolFault::StateTooLarge { limit: MIB }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!((ended.outcome(), sent(&it.peer)), (CallOutcome::Unknown, 1));
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn f117_r116_what_nobody_serves_ends_the_call_and_nobody_is_asked() {
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(ElicitationCapability::form());
    let desk = Desk::serving(capabilities);
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a"}});
    for (asked, is_unsupported) in [
        (json!({"method": "roots/list"}), true),
        (json!({"method": "ping"}), true),
        (json!({"method": "no/such", "params": [7]}), true),
        (url, false),
        (json!({"method": "elicitation/create", "params": {}}), false),
    ] {
        let it = modern_served_by(&desk).await;
        let calling = spawn(&it.session);
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), asking_for(json!({"a": elicitation("a"), "b": asked}))).await;
        let ended = calling.await.unwrap().unwrap_err();
        let why = UnsupportedWhy::InputRequired;
        match &ended {
            CallError::Unsupported { why: given, .. } if *given == why => assert!(is_unsupported),
            CallError::Input { error, .. } => assert!(!is_unsupported && error.code == -32602),
            other => panic!("{other:?}"),
        }
        assert_eq!((ended.outcome(), sent(&it.peer)), (CallOutcome::Unknown, 1));
        assert_quiescent(&it.session);
    }
    assert_eq!(desk.asked().len(), 0);
    // Without any handler as well.
    let it = modern().await;
    let calling = spawn(&it.session);
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), asking("?")).await;
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::Unsupported { why: UnsupportedWhy::InputRequired, .. }));
}

#[tokio::test(start_paused = true)]
async fn f121_more_questions_than_anybody_can_answer_are_a_fault() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let calling = spawn(&it.session);
    let request = it.peer.expect("tools/call").await;
    let many: serde_json::Map<String, Value> =
        (0..65).map(|key| (key.to_string(), json!({"method": "roots/list"}))).collect();
    it.peer.respond(request.id(), asking_for(many.into())).await;
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::Protocol(ProtocolFault::TooManyInputs(64))), "{ended:?}");
    assert_eq!(desk.asked().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn r117_questions_are_asked_at_once_and_the_first_failure_ends_the_others() {
    for (message, expected) in [("fail", -1), ("panic", -32603)] {
        let desk = Desk::new();
        let it = modern_served_by(&desk).await;
        let calling = spawn(&it.session);
        let request = it.peer.expect("tools/call").await;
        let requests = json!({"a": elicitation("hang"), "b": elicitation("hang"), "c": elicitation(message)});
        it.peer.respond(request.id(), asking_for(requests)).await;
        let ended = calling.await.unwrap().unwrap_err();
        let CallError::Input { method, error } = &ended else { panic!("{ended:?}") };
        assert_eq!((method, error.code), (&Method::ELICITATION_CREATE, expected));
        assert_eq!((desk.most_running(), desk.running()), (3, 0));
        assert_eq!((ended.outcome(), sent(&it.peer)), (CallOutcome::Unknown, 1));
        assert!(cancelled_ids(&it.peer).is_empty(), "the server waits for nothing");
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn f121_of_all_calls_together_four_questions_are_asked_at_once_and_the_others_wait() {
    let desk = Desk::new();
    let limits = HandlerLimits::default().with_per_minute(100);
    let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _).with_handler_limits(limits);
    let it = modern_with(options, MemoryOptions::default()).await;
    let calls: Vec<_> = (0..3).map(|_| spawn(&it.session)).collect();
    for _ in 0..3 {
        let request = it.peer.expect("tools/call").await;
        let requests = json!({"a": elicitation("wait"), "b": elicitation("wait"), "c": elicitation("wait")});
        it.peer.respond(request.id(), asking_for(requests)).await;
    }
    settle().await;
    assert_eq!(desk.running(), 4);
    desk.let_go(9);
    for _ in 0..3 {
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), said("done")).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!((desk.most_running(), desk.asked().len()), (4, 9));
}

#[tokio::test(start_paused = true)]
async fn f121_a_server_that_asks_a_person_too_often_ends_its_call() {
    let desk = Desk::new();
    let limits = HandlerLimits::default().with_per_minute(2);
    let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _).with_handler_limits(limits);
    let it = modern_with(options, MemoryOptions::default()).await;
    let calling = spawn(&it.session);
    for _ in 0..3 {
        let request = it.peer.expect("tools/call").await;
        it.peer.respond(request.id(), asking("now")).await;
    }
    assert!(matches!(calling.await.unwrap(), Err(CallError::Input { .. })));
    assert_eq!(desk.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn f121_if_all_that_is_asked_is_too_much_nobody_is_asked_and_nothing_counts() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let many = |questions: usize| {
        let mut many: serde_json::Map<String, Value> =
            (0..questions).map(|key| (format!("{key:02}"), elicitation("now"))).collect();
        many.insert("roots".to_owned(), json!({"method": "roots/list"}));
        asking_for(many.into())
    };
    let calling = spawn(&it.session);
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), many(11)).await;
    let ended = calling.await.unwrap().unwrap_err();
    let CallError::Input { method, error } = &ended else { panic!("{ended:?}") };
    assert_eq!((method, error.code, desk.asked().len()), (&Method::ELICITATION_CREATE, -32603, 0));
    // Ten may be asked in the same minute: folders are free.
    let calling = spawn(&it.session);
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), many(10)).await;
    let again = it.peer.expect("tools/call").await;
    assert_eq!(again.params()["inputResponses"].as_object().unwrap().len(), 11);
    it.peer.respond(again.id(), said("done")).await;
    calling.await.unwrap().unwrap();
    assert_eq!(desk.asked().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn r117_of_many_questions_the_first_failure_ends_the_others_too() {
    let desk = Desk::new();
    let limits = HandlerLimits::default().with_at_once(64).with_per_minute(64);
    let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _).with_handler_limits(limits);
    let it = modern_with(options, MemoryOptions::default()).await;
    let calling = spawn(&it.session);
    let request = it.peer.expect("tools/call").await;
    let mut requests: serde_json::Map<String, Value> =
        (0..63).map(|key| (format!("{key:02}"), elicitation("hang"))).collect();
    requests.insert("last".to_owned(), elicitation("fail"));
    let began = Instant::now();
    it.peer.respond(request.id(), asking_for(requests.into())).await;
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(&ended, CallError::Input { error, .. } if error.code == -1), "{ended:?}");
    assert_eq!((began.elapsed(), desk.most_running(), desk.running()), (seconds(0), 64, 0));
}

#[tokio::test(start_paused = true)]
async fn f129_dropping_a_call_at_any_point_drops_what_it_runs_and_leaves_nothing() {
    // Each round of polls goes one step further; at the last one the call is done.
    for steps in 0.. {
        let desk = Desk::new();
        let it = modern_served_by(&desk).await;
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
        let live = gate.enter(soon()).await.unwrap();
        let mut call = ByHand::new(live.call(tool(), CallOptions::default()));
        let mut waiting = ByHand::new(it.peer.expect("tools/call"));
        let mut is_done = false;
        let mut answered = 0;
        for step in 0..steps {
            match step % 3 {
                0 => is_done |= call.poll_if(!is_done).is_ready(),
                1 => {
                    if let Poll::Ready(request) = waiting.poll() {
                        let result = if answered == 0 { asking("wait") } else { said("done") };
                        answered += 1;
                        it.peer.respond(request.id(), result).await;
                        waiting = ByHand::new(it.peer.expect("tools/call"));
                    }
                }
                _ => desk.let_go(usize::from(desk.running() == 1)),
            }
            settle().await;
        }
        let unanswered = sent(&it.peer) - answered;
        drop((call, waiting));
        settle().await;
        assert_eq!((desk.running(), cancelled_ids(&it.peer).len()), (0, unanswered), "after {steps} steps");
        assert_quiescent(&it.session);
        assert_gate_quiescent(&gate);
        if is_done {
            assert!(steps > 6 && answered == 2);
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s92_the_time_a_person_takes_is_not_the_servers_and_each_round_has_its_own() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let began = Instant::now();
    let options = CallOptions::default().with_timeout(seconds(10)).with_deadline(began + seconds(1000));
    let calling = tokio::spawn(it.session.call(tool(), options));
    let first = it.peer.expect("tools/call").await;
    tokio::time::sleep(seconds(9)).await;
    it.peer.respond(first.id(), asking("wait")).await;
    tokio::time::sleep(seconds(200)).await;
    desk.let_go(1);
    let second = it.peer.expect("tools/call").await;
    tokio::time::sleep(seconds(9)).await;
    it.peer.respond(second.id(), asking("wait")).await;
    tokio::time::sleep(seconds(200)).await;
    desk.let_go(1);
    it.peer.expect("tools/call").await;
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::Timeout { waited, .. } if waited == seconds(428)), "{ended:?}");
    assert_eq!((began.elapsed(), cancelled_ids(&it.peer).len()), (seconds(428), 1));
}

#[tokio::test(start_paused = true)]
async fn s102_the_deadline_ends_a_call_whose_person_is_asked_also_when_nobody_polls_it() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
    let live = gate.enter(soon()).await.unwrap();
    let deadline = Instant::now() + seconds(20);
    let mut call = ByHand::new(live.call(tool(), CallOptions::default().with_deadline(deadline)));
    assert!(call.poll().is_pending());
    let first = it.peer.expect("tools/call").await;
    it.peer.respond(first.id(), asking("hang")).await;
    settle().await;
    assert!(call.poll().is_pending());
    assert_eq!((desk.running(), gate.in_flight(), it.session.in_flight()), (1, 1, 1));
    tokio::time::sleep(seconds(20)).await;
    assert_eq!((gate.in_flight(), it.session.in_flight()), (0, 0), "free although nobody polls");
    assert_eq!(desk.running(), 0, "and so is the place of its handler");
    let Poll::Ready(Err(ended)) = call.poll() else { panic!("no end") };
    assert!(matches!(ended, CallError::Timeout { dispatch: Dispatch::MayHaveLeft, .. }), "{ended:?}");
    assert!(cancelled_ids(&it.peer).is_empty(), "the server waits for nothing");
}

#[tokio::test(start_paused = true)]
async fn s102_a_call_that_is_asked_for_input_ends_in_time_although_nobody_has_looked_yet() {
    for how in ["closed", "dropped", "late", "lost"] {
        let desk = Desk::new();
        let it = modern_served_by(&desk).await;
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
        let live = gate.enter(soon()).await.unwrap();
        let options = CallOptions::default().with_deadline(Instant::now() + seconds(20));
        let mut call = ByHand::new(live.call(tool(), options));
        assert!(call.poll().is_pending());
        let first = it.peer.expect("tools/call").await;
        it.peer.respond(first.id(), asking("now")).await;
        settle().await;
        assert_eq!((gate.in_flight(), it.session.in_flight()), (1, 1), "a further round needs both");
        let mut call = Some(call);
        match how {
            "closed" => {
                it.session.close(soon()).await;
            }
            "dropped" => drop(call.take()),
            "late" => tokio::time::sleep(seconds(20)).await,
            _ => it.peer.close(CloseReason::EndOfStream),
        }
        settle().await;
        assert_eq!((gate.in_flight(), it.session.in_flight()), (0, 0), "{how}");
        if let Some(mut call) = call {
            let Poll::Ready(Err(ended)) = call.poll() else { panic!("{how}: no end") };
            assert_eq!((ended.is_timeout(), ended.outcome()), (how == "late", CallOutcome::Unknown), "{how}");
        }
        assert_eq!((desk.asked().len(), sent(&it.peer), cancelled_ids(&it.peer).len()), (0, 1, 0), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn i9_a_result_that_only_looks_like_a_question_stays_a_result_and_holds_nothing_for_ever() {
    let it = modern_served_by(&Desk::new()).await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
    let live = gate.enter(soon()).await.unwrap();
    let options = CallOptions::default().with_deadline(Instant::now() + seconds(20));
    let mut call = ByHand::new(live.call(tool(), options));
    assert!(call.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), said("input_required")).await;
    tokio::time::sleep(seconds(20)).await;
    settle().await;
    assert_gate_quiescent(&gate);
    assert_quiescent(&it.session);
    assert!(matches!(call.poll(), Poll::Ready(Ok(_))), "it came in time");
    assert!(cancelled_ids(&it.peer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_a_person_is_asked_ends_the_call_as_begun() {
    for is_lost in [true, false] {
        let desk = Desk::new();
        let it = modern_served_by(&desk).await;
        let calling = spawn(&it.session);
        let first = it.peer.expect("tools/call").await;
        it.peer.respond(first.id(), asking("hang")).await;
        settle().await;
        if is_lost {
            it.peer.close(CloseReason::EndOfStream);
        } else {
            it.session.close(soon()).await;
        }
        let ended = calling.await.unwrap().unwrap_err();
        assert!(ended.is_session_gone());
        assert_eq!((ended.outcome(), desk.running()), (CallOutcome::Unknown, 0));
    }
}

/// Polls a call when it is woken itself, as another thread could at that moment.
struct PollsAtOnce(Mutex<ByHand<Call<CallTool>>>);

impl Wake for PollsAtOnce {
    fn wake(self: Arc<Self>) {
        assert!(self.0.lock().unwrap().poll().is_pending(), "nobody has told it of its end");
    }
}

/// Of a call that is given up, the permit comes free before its end is told. Whoever has waited for
/// that permit lets the call go on at this very moment, with the input that it was waiting for.
#[tokio::test(start_paused = true)]
async fn f129_input_that_comes_while_its_call_is_given_up_is_not_sent() {
    for how in ["closed", "late", "lost"] {
        let desk = Desk::new();
        let it = modern_served_by(&desk).await;
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
        let live = gate.enter(soon()).await.unwrap();
        let options = CallOptions::default().with_deadline(Instant::now() + seconds(20));
        let mut call = ByHand::new(live.call(tool(), options));
        assert!(call.poll().is_pending());
        let first = it.peer.expect("tools/call").await;
        it.peer.respond(first.id(), asking("wait")).await;
        settle().await;
        assert!(call.poll().is_pending());
        desk.let_go(1);
        let call = Arc::new(PollsAtOnce(Mutex::new(call)));
        let waker = Waker::from(Arc::clone(&call));
        let mut next = Box::pin(gate.enter(Instant::now() + seconds(1000)));
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        match how {
            "closed" => {
                it.session.close(soon()).await;
            }
            "late" => tokio::time::sleep(seconds(20)).await,
            _ => it.peer.close(CloseReason::EndOfStream),
        }
        settle().await;
        assert_eq!(desk.running(), 0, "{how}: the call went on");
        assert_eq!((sent(&it.peer), cancelled_ids(&it.peer).len()), (1, 0), "{how}");
        let Poll::Ready(Err(ended)) = call.0.lock().unwrap().poll() else { panic!("{how}: no end") };
        assert_eq!(ended.outcome(), CallOutcome::Unknown, "{how}");
        assert_quiescent(&it.session);
        drop(next);
        assert_gate_quiescent(&gate);
    }
}

#[tokio::test(start_paused = true)]
async fn p2_a_later_round_that_was_not_sent_does_not_make_the_call_not_sent() {
    let desk = Desk::new();
    let memory = MemoryOptions::default().with_queue(1).with_window(0).with_max_frame_bytes(2000);
    let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _);
    let it = modern_with(options, memory).await;
    // Too large to be sent.
    let calling = spawn(&it.session);
    let first = it.peer.expect("tools/call").await;
    it.peer.respond(first.id(), asking("large")).await;
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::FrameTooLarge { dispatch: Dispatch::MayHaveLeft, .. }), "{ended:?}");
    // Still queued when its time is up.
    let options = CallOptions::default().with_timeout(seconds(5));
    let calling = tokio::spawn(it.session.call(tool(), options));
    let first = it.peer.expect("tools/call").await;
    it.peer.pause_reading();
    it.peer.respond(first.id(), asking("now")).await;
    let ended = calling.await.unwrap().unwrap_err();
    assert!(matches!(ended, CallError::Timeout { dispatch: Dispatch::MayHaveLeft, .. }), "{ended:?}");
    it.peer.resume();
    settle().await;
    assert_eq!((sent(&it.peer), cancelled_ids(&it.peer).len()), (2, 0), "it was never sent");
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn p3_headers_that_are_refused_in_a_later_round_do_not_begin_the_call_again() {
    let it = modern_served_by(&Desk::new()).await;
    for is_later in [false, true] {
        let calling = spawn(&it.session);
        let mut request = it.peer.expect("tools/call").await;
        if is_later {
            it.peer.respond(request.id(), asking("now")).await;
            request = it.peer.expect("tools/call").await;
        }
        it.peer.respond_error(request.id(), -32020, "other headers").await;
        let ended = calling.await.unwrap().unwrap_err();
        if is_later {
            assert!(matches!(ended, CallError::Protocol(ProtocolFault::NextRound(_))), "{ended:?}");
            assert_eq!(ended.outcome(), CallOutcome::Unknown);
        } else {
            assert!(matches!(ended, CallError::Peer(_)), "{ended:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_kept_through_all_rounds_and_a_retracted_session_finishes_them() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let live = gate.enter(soon()).await.unwrap();
    let calling = tokio::spawn(live.call(tool(), CallOptions::default()));
    let first = it.peer.expect("tools/call").await;
    it.peer.respond(first.id(), asking("wait")).await;
    settle().await;
    let mut next = ByHand::new(gate.enter(soon()));
    assert!(next.poll().is_pending(), "a strictly serial server has one call");
    gate.retract(0);
    desk.let_go(1);
    let second = it.peer.expect("tools/call").await;
    assert!(next.poll().is_pending());
    it.peer.respond(second.id(), said("done")).await;
    calling.await.unwrap().unwrap();
    drop(next);
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn i9_the_permit_of_a_call_that_is_over_is_free_before_anybody_looks() {
    let it = modern_served_by(&Desk::new()).await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let live = gate.enter(soon()).await.unwrap();
    let mut call = ByHand::new(live.call(tool(), CallOptions::default()));
    assert!(call.poll().is_pending());
    let first = it.peer.expect("tools/call").await;
    it.peer.respond(first.id(), asking("now")).await;
    settle().await;
    assert_eq!(gate.in_flight(), 1, "a further round needs it");
    assert!(call.poll().is_pending());
    let second = it.peer.expect("tools/call").await;
    it.peer.respond(second.id(), said("done")).await;
    settle().await;
    assert_eq!(gate.in_flight(), 0);
    assert!(matches!(call.poll(), Poll::Ready(Ok(_))));
    // A text that only looks like it keeps the permit until the result is read, and no longer.
    let live = gate.enter(soon()).await.unwrap();
    let mut call = ByHand::new(live.call(tool(), CallOptions::default()));
    assert!(call.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), said("input_required")).await;
    settle().await;
    assert!(matches!(call.poll(), Poll::Ready(Ok(_))));
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn a_full_table_does_not_break_a_call_between_two_rounds() {
    let desk = Desk::new();
    let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _).with_max_pending(1);
    let it = modern_with(options, MemoryOptions::default()).await;
    let calling = spawn(&it.session);
    let first = it.peer.expect("tools/call").await;
    it.peer.respond(first.id(), asking("wait")).await;
    settle().await;
    assert!(matches!(call(&it.session).await, Err(CallError::Overloaded)), "it has its place");
    desk.let_go(1);
    let second = it.peer.expect("tools/call").await;
    it.peer.respond(second.id(), said("done")).await;
    calling.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn by_hand_the_question_is_handed_out_and_the_answer_taken_in() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let by_hand = || CallOptions::default().with_rounds_by_hand();
    let calling = tokio::spawn(it.session.call(tool(), by_hand()));
    let first = it.peer.expect("tools/call").await;
    let mut result = asking("who?");
    result["requestState"] = json!("s");
    it.peer.respond(first.id(), result).await;
    let ended = calling.await.unwrap().unwrap_err();
    let CallError::InputRequired(required) = ended else { panic!("{ended:?}") };
    assert_quiescent(&it.session);

    let mut answers = InputAnswers::to(&required);
    answers.answer::<Elicit>("q", &ElicitResult::decline()).unwrap();
    let calling = tokio::spawn(it.session.call(tool(), by_hand().with_answers(answers.clone())));
    let second = it.peer.expect("tools/call").await;
    assert_eq!(second.params()["inputResponses"], json!({"q": {"action": "decline"}}));
    assert_eq!(second.params()["requestState"], "s");
    it.peer.respond(second.id(), said("done")).await;
    calling.await.unwrap().unwrap();
    assert_eq!(desk.asked().len(), 0);

    // Begun by hand, ended by the handler: each round answers what the one before it asked.
    let calling = tokio::spawn(it.session.call(tool(), CallOptions::default().with_answers(answers)));
    let third = it.peer.expect("tools/call").await;
    it.peer.respond(third.id(), asking("now")).await;
    let fourth = it.peer.expect("tools/call").await;
    assert_eq!(fourth.params()["inputResponses"], json!({"q": accepted("now")}));
    assert_eq!(fourth.params().get("requestState"), None);
    it.peer.respond(fourth.id(), said("done")).await;
    calling.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn answers_for_a_request_that_has_no_rounds_are_refused() {
    let options = || CallOptions::default().with_answers(InputAnswers::default());
    let it = modern().await;
    let refused = it.session.call(ListTools::default(), options()).await;
    assert!(matches!(refused, Err(CallError::Unsupported { why: UnsupportedWhy::Era, .. })));
    let it = legacy().await;
    let refused = it.session.call(tool(), options()).await;
    assert!(matches!(refused, Err(CallError::Unsupported { why: UnsupportedWhy::Era, .. })));
    assert_eq!(sent(&it.peer), 0);
}

#[tokio::test(start_paused = true)]
async fn progress_of_each_round_reaches_the_caller() {
    let desk = Desk::new();
    let it = modern_served_by(&desk).await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let options = CallOptions::default().with_progress({
        let seen = Arc::clone(&seen);
        move |progress| seen.lock().unwrap().push(progress.progress)
    });
    let calling = tokio::spawn(it.session.call(tool(), options));
    for (value, result) in [(7.0, asking("now")), (1.0, said("done"))] {
        let request = it.peer.expect("tools/call").await;
        let token = &request.params()["_meta"]["progressToken"];
        let params = json!({"progressToken": token, "progress": value});
        it.peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        it.peer.respond(request.id(), result).await;
    }
    calling.await.unwrap().unwrap();
    assert_eq!(*seen.lock().unwrap(), [7.0, 1.0]);
}
