//! Which answer ends which call.
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
use std::sync::Arc;
use std::task::Poll;

use mcp_proto::{CallTool, CallToolResult, ListTools, Redactor, RequestId};
use mcp_session::{Call, CallError, CallOptions, CallOutcome, Gate, ListLimits, ProtocolFault, Session};
use mcp_session::{SessionOptions, UnsupportedWhy};
use mcp_transport::testing::{MemoryOptions, Received};
use mcp_transport::{Broken, BrokenWhy};
use serde_json::{Value, json};
use support::desk::{Desk, form};
use support::*;
use tokio::task::JoinHandle;

type Answer = Result<CallToolResult, CallError>;

fn call(session: &Session) -> Call<CallTool> {
    session.call(CallTool::new("any"), CallOptions::default())
}

/// Starts a call in a task of its own and waits until the server has it.
async fn started(it: &Fixture) -> (JoinHandle<Answer>, Received) {
    let call = tokio::spawn(call(&it.session));
    let request = it.peer.expect("tools/call").await;
    (call, request)
}

/// Every test here ends with this: whatever came before, the next call works.
async fn assert_next_call_works(it: &Fixture) {
    let (call, request) = started(it).await;
    it.peer.respond(request.id(), said("next")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "next");
    assert_quiescent(&it.session);
}

fn text(result: &CallToolResult) -> String {
    serde_json::to_value(&result.content[0]).unwrap()["text"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn f094_b4_of_two_replies_to_one_id_the_first_counts() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    it.peer.respond(request.id(), said("first")).await;
    it.peer.respond(request.id(), said("second")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "first");
    assert_next_call_works(&it).await;
    assert_eq!(it.session.counters().late_replies, 1);
}

#[tokio::test(start_paused = true)]
async fn f095_b4_a_reply_to_an_unknown_id_is_dropped_and_counted() {
    let it = legacy().await;
    it.peer.respond(4711, said("x")).await;
    it.peer.respond("text", said("x")).await;
    assert_next_call_works(&it).await;
    assert_eq!(it.session.counters().unknown_replies, 2);
}

#[tokio::test(start_paused = true)]
async fn f096_replies_sent_ahead_are_never_kept_for_later() {
    let it = legacy().await;
    for id in 0..1000 {
        it.peer.respond(id, said("ahead")).await;
    }
    assert_next_call_works(&it).await;
    let counters = it.session.counters();
    // The ids of the handshake were issued, all others were not.
    assert_eq!((counters.late_replies, counters.unknown_replies), (1, 999));
}

/// The id of the next round is issued with the answer to the first, and can be guessed.
#[tokio::test(start_paused = true)]
async fn f096_an_answer_to_a_round_that_was_not_sent_yet_is_dropped() {
    let desk = Desk::new();
    let it =
        modern_with(SessionOptions::default().with_handler(Arc::clone(&desk) as _), Default::default()).await;
    let (call, first) = started(&it).await;
    let RequestId::Number(id) = first.id() else { panic!("our ids are numbers") };
    let asked = json!({"q": {"method": "elicitation/create", "params": form("wait")}});
    it.peer.respond(id, json!({"resultType": "input_required", "inputRequests": asked})).await;
    it.peer.respond(id + 1, said("ahead")).await;
    // F99: the server owes no answer now.
    it.peer.send(json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "whose?"}})).await;
    it.peer.send(json!({"jsonrpc": "2.0", "id": id + 1, "result": {}, "error": {}})).await;
    settle().await;
    assert_eq!(it.session.counters().unknown_replies, 2);
    desk.let_go(1);
    let second = it.peer.expect("tools/call").await;
    assert_eq!(second.id(), RequestId::Number(id + 1));
    it.peer.respond(second.id(), said("asked")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "asked");
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn f096_an_answer_to_a_page_that_was_not_asked_for_yet_is_dropped() {
    let it = legacy().await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
    let live = gate.enter(soon()).await.unwrap();
    let mut listing = ByHand::new(live.list::<ListTools>(CallOptions::default(), ListLimits::default()));
    assert!(listing.poll().is_pending());
    let first = it.peer.expect("tools/list").await;
    let RequestId::Number(id) = first.id() else { panic!("our ids are numbers") };
    let page = |name: &str| json!({"tools": [{"name": name, "inputSchema": {}}]});
    let mut more = page("a");
    more["nextCursor"] = json!("2");
    it.peer.respond(id, more).await;
    it.peer.respond(id + 1, page("ahead")).await;
    settle().await;
    assert!(listing.poll().is_pending(), "the next page is asked for");
    let second = it.peer.expect("tools/list").await;
    it.peer.respond(second.id(), page("b")).await;
    settle().await;
    let Poll::Ready(listed) = listing.poll() else { panic!("not over") };
    let names: Vec<_> = listed.unwrap().items.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_gate_quiescent(&gate);
}

#[tokio::test(start_paused = true)]
async fn f097_s95_a_reply_after_the_time_out_is_dropped_and_counted_as_late() {
    let it = legacy().await;
    for _ in 0..2000 {
        let call = it.session.call(CallTool::new("any"), CallOptions::default().with_timeout(seconds(1)));
        let (outcome, request) = tokio::join!(call, it.peer.expect("tools/call"));
        assert!(outcome.unwrap_err().is_timeout());
        it.peer.expect("notifications/cancelled").await;
        it.peer.respond(request.id(), said("late")).await;
    }
    assert_next_call_works(&it).await;
    assert_eq!(it.session.counters().late_replies, 2000);
}

#[tokio::test(start_paused = true)]
async fn f098_b4_a_reply_whose_id_has_another_type_matches_nothing() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    let RequestId::Number(id) = request.id() else { panic!("our ids are numbers") };
    for odd in [json!(id.to_string()), json!(null), json!([]), json!([id]), json!(true), json!({"id": id})] {
        it.peer.send(json!({"jsonrpc": "2.0", "id": odd, "result": said("odd")})).await;
    }
    for large in ["18446744073709551616", "1e400", "2.5"] {
        it.peer.send_raw(format!(r#"{{"jsonrpc":"2.0","id":{large},"result":{{}}}}"#)).await;
    }
    assert!(!call.is_finished());
    // An integral float names the same integer.
    it.peer.send_raw(format!(r#"{{"jsonrpc":"2.0","id":{id}.0,"result":{}}}"#, said("exact"))).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "exact");
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn f099_b5_an_error_without_an_id_goes_to_the_only_call_there_is() {
    let it = legacy().await;
    for id in [json!({"id": null}), json!({})] {
        let (call, _) = started(&it).await;
        let mut error = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}});
        error.as_object_mut().unwrap().extend(id.as_object().unwrap().clone());
        it.peer.send(error).await;
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, CallError::Peer(error) if error.code == -32700), "{error:?}");
        assert_eq!(error.outcome(), CallOutcome::Rejected);
    }
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn f099_b5_among_several_calls_an_error_without_an_id_ends_none() {
    let it = legacy().await;
    let (first, one) = started(&it).await;
    let (second, two) = started(&it).await;
    it.peer.send(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}})).await;
    it.peer.respond(two.id(), said("two")).await;
    it.peer.respond(one.id(), said("one")).await;
    assert_eq!(text(&first.await.unwrap().unwrap()), "one");
    assert_eq!(text(&second.await.unwrap().unwrap()), "two");
    assert_eq!(it.session.counters().unknown_replies, 1);
}

#[tokio::test(start_paused = true)]
async fn replies_in_any_order_reach_their_own_calls() {
    let it = legacy().await;
    let mut calls = Vec::new();
    for _ in 0..32 {
        calls.push(started(&it).await);
    }
    for (_, request) in calls.iter().rev() {
        it.peer.respond(request.id(), said(&request.id().to_string())).await;
    }
    for (call, request) in calls {
        assert_eq!(text(&call.await.unwrap().unwrap()), request.id().to_string());
    }
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn f022_a_broken_frame_fails_the_call_it_names_and_no_other() {
    let it = legacy().await;
    let (bystander, other) = started(&it).await;
    let broken: [fn(i64) -> Vec<u8>; 3] = [
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":}}"#).into_bytes(),
        |id| format!(r#"{{"jsonrpc":"1.0","id":{id},"result":{{}}}}"#).into_bytes(),
        |id| [format!(r#"{{"jsonrpc":"2.0","id":{id},"result":""#).as_bytes(), b"\xff\0\"}"].concat(),
    ];
    for frame in broken {
        let (call, request) = started(&it).await;
        let RequestId::Number(id) = request.id() else { panic!("our ids are numbers") };
        it.peer.send_raw(frame(id)).await;
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Protocol(ProtocolFault::Envelope(_))), "{error:?}");
        assert_eq!(error.outcome(), CallOutcome::Unknown);
    }
    assert!(!bystander.is_finished());
    it.peer.respond(other.id(), said("fine")).await;
    assert_eq!(text(&bystander.await.unwrap().unwrap()), "fine");
    assert_next_call_works(&it).await;
    assert_eq!(it.session.counters().broken_frames, 3);
}

#[tokio::test(start_paused = true)]
async fn f022_a_broken_frame_without_an_id_fails_nothing() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    it.peer.send_raw(&b"\xff\xfe garbage \x1b[2J"[..]).await;
    it.peer.send_broken(Broken::new(None, BrokenWhy::Noise)).await;
    it.peer.respond(request.id(), said("fine")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "fine");
    assert_eq!(it.session.counters().broken_frames, 2);
}

#[tokio::test(start_paused = true)]
async fn f023_an_oversize_answer_fails_its_own_call_at_once() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    let began = tokio::time::Instant::now();
    it.peer.send_broken(Broken::new(Some(request.id()), BrokenWhy::TooLarge { limit: 1 << 24 })).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::FrameTooLarge { limit: 0x0100_0000, .. }), "{error:?}");
    assert_eq!(error.outcome(), CallOutcome::Unknown);
    assert_eq!(began.elapsed(), seconds(0));
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_limit_is_not_sent() {
    let memory = MemoryOptions::default().with_max_frame_bytes(512);
    let it = legacy_with(SessionOptions::default(), memory).await;
    let request = CallTool::new("x".repeat(600));
    let error = it.session.call(request, CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::FrameTooLarge { limit: 512, .. }), "{error:?}");
    assert_eq!(error.outcome(), CallOutcome::NotSent);
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn f100_a_batch_is_taken_apart_where_the_version_has_them() {
    let it = legacy_in("2025-03-26", SessionOptions::default(), MemoryOptions::default()).await;
    let (first, one) = started(&it).await;
    let (second, two) = started(&it).await;
    it.peer
        .send(json!([
            {"jsonrpc": "2.0", "id": two.id(), "result": said("two")},
            {"jsonrpc": "2.0", "method": "notifications/unknown"},
            {"jsonrpc": "2.0", "id": one.id(), "result": said("one")},
            {"jsonrpc": "2.0", "id": 9, "method": "ping"},
        ]))
        .await;
    assert_eq!(text(&first.await.unwrap().unwrap()), "one");
    assert_eq!(text(&second.await.unwrap().unwrap()), "two");
    assert_eq!(it.peer.receive().await.value, json!({"jsonrpc": "2.0", "id": 9, "result": {}}));
}

#[tokio::test(start_paused = true)]
async fn f100_elsewhere_a_batch_fails_the_calls_it_names() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    it.peer.send(json!([{"jsonrpc": "2.0", "id": request.id(), "result": said("x")}])).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Protocol(ProtocolFault::Batch)), "{error:?}");
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn f101_a_server_may_use_the_ids_we_use() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    it.peer.send(json!({"jsonrpc": "2.0", "id": request.id(), "method": "ping"})).await;
    assert_eq!(it.peer.receive().await.value, json!({"jsonrpc": "2.0", "id": request.id(), "result": {}}));
    assert!(!call.is_finished());
    it.peer.respond(request.id(), said("ours")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "ours");
}

#[tokio::test(start_paused = true)]
async fn f118_r108_a_modern_result_of_another_type_is_a_typed_error() {
    let it = modern().await;
    let answered = async |result: Value| {
        let (call, request) = started(&it).await;
        it.peer.respond(request.id(), result).await;
        call.await.unwrap()
    };
    assert!(answered(json!({"content": [], "resultType": "complete"})).await.is_ok());
    assert!(answered(json!({"content": []})).await.is_ok(), "absent means complete");
    let wanted = json!({"who": {"method": "roots/list"}});
    let input = answered(json!({"resultType": "input_required", "inputRequests": wanted})).await.unwrap_err();
    assert!(matches!(input, CallError::Unsupported { why: UnsupportedWhy::InputRequired, .. }), "{input:?}");
    let unknown = answered(json!({"content": [], "resultType": "\u{1b}[2J"})).await.unwrap_err();
    assert!(matches!(unknown, CallError::Protocol(ProtocolFault::ResultType(_))), "{unknown:?}");
    assert!(!unknown.to_string().contains('\u{1b}'));
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn r108_a_legacy_result_may_have_a_member_called_result_type() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    it.peer.respond(request.id(), json!({"content": [], "resultType": "anything"})).await;
    assert!(call.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_result_of_the_wrong_shape_fails_its_call_without_quoting_it() {
    let it = legacy().await;
    let (call, request) = started(&it).await;
    it.peer.respond(request.id(), json!({"content": "\u{1b}secret"})).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Protocol(ProtocolFault::Result(_))), "{error:?}");
    assert!(!error.to_string().contains('\u{1b}'));
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn an_answered_call_wakes_its_caller_once() {
    let it = legacy().await;
    let mut call = ByHand::new(call(&it.session));
    assert!(call.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), said("x")).await;
    settle().await;
    assert_eq!(call.wakes(), 1);
    assert!(matches!(call.poll(), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn f158_secrets_are_taken_out_of_errors_and_left_in_results() {
    let redactor = Redactor::new(["hunter2".into()]);
    let options = SessionOptions::default().with_redactor(redactor.into());
    let it = legacy_with(options, MemoryOptions::default()).await;
    let (failing, request) = started(&it).await;
    it.peer.respond_error(request.id(), -32000, "the key hunter2 is wrong").await;
    let error = failing.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "error -32000: the key [secret] is wrong");
    let (answered, request) = started(&it).await;
    it.peer.respond(request.id(), said("hunter2")).await;
    assert_eq!(text(&answered.await.unwrap().unwrap()), "hunter2");
    assert_next_call_works(&it).await;
}

#[tokio::test(start_paused = true)]
async fn f158_secrets_are_taken_out_of_the_details_of_an_error_and_a_page_to_open_stays() {
    let options = SessionOptions::default().with_redactor(Redactor::new(["hunter2".into()]).into());
    let it = modern_with(options, MemoryOptions::default()).await;
    let url = "https://example.org/?login=hunter2";
    for (code, data, expected) in [
        (-32000, json!({"key": "hunter2", "n": 1}), json!({"key": "[secret]", "n": 1})),
        (-32000, json!({"key": "plain"}), json!({"key": "plain"})),
        // What is left is no JSON any more.
        (-32000, json!({"a": "Bearer abcdef", "hunter2": [1]}), json!(null)),
        (-32042, json!({"elicitations": [{"url": url}]}), json!({"elicitations": [{"url": url}]})),
    ] {
        let (call, request) = started(&it).await;
        let error = json!({"code": code, "message": "no", "data": data});
        it.peer.send(json!({"jsonrpc": "2.0", "id": request.value["id"], "error": error})).await;
        let error = call.await.unwrap().unwrap_err();
        let CallError::Peer(error) = error else { panic!("{error:?}") };
        let details: Value = error.data.unwrap().decode().unwrap();
        if expected.is_null() {
            assert!(!details.to_string().contains("hunter2"), "{details}");
        } else {
            assert_eq!(details, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f120_an_error_of_ten_mebibytes_ends_its_call_and_is_shown_short() {
    const TEN_MIB: usize = 10 * 1024 * 1024;
    let it = legacy().await;
    let calling = tokio::spawn(it.session.call(CallTool::new("t"), CallOptions::default()));
    let request = it.peer.expect("tools/call").await;
    let text = "\u{1b}[2J".repeat(TEN_MIB / 4);
    let error = json!({"code": -1, "message": text, "data": text});
    it.peer.send(json!({"jsonrpc": "2.0", "id": request.id(), "error": error})).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Peer(error) if error.code == -1));
    let shown = error.to_string();
    assert!(shown.len() < 8 * 6 * 1024 + 200 && !shown.contains('\u{1b}'), "{} bytes", shown.len());
    // The session goes on.
    let calling = tokio::spawn(it.session.call(CallTool::new("t"), CallOptions::default()));
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), said("done")).await;
    calling.await.unwrap().unwrap();
}
