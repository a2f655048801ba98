//! Calls that their server makes tasks of: the extension tasks (2026-07-28) and the tasks of 2025-11-25.
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
use std::time::Duration;

use mcp_proto::tasks::{ListTasks, TaskStatus};
use mcp_proto::{CallTool, CallToolResult, Entries, GetPrompt, Method, RawJson};
use mcp_session::{
    Call, CallError, CallOptions, CallOutcome, Gate, ListLimits, ProtocolFault, Session, SessionOptions,
    StartedTask, TaskFault, TaskHandle, UnsupportedWhy,
};
use mcp_transport::testing::{MemoryOptions, Received, ScriptedPeer};
use mcp_transport::{CloseReason, Dispatch};
use serde_json::{Value, json};
use support::desk::{Desk, accepted, form, sampling};
use support::*;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A modern session in which both sides have declared the extension.
async fn modern_with_tasks(options: SessionOptions) -> Fixture {
    modern_offering(options.with_tasks(), json!({EXTENSION: {}})).await
}

/// A session of 2025-11-25 whose server has tasks.
async fn legacy_with_tasks(options: SessionOptions) -> Fixture {
    let options = options.with_era(mcp_session::EraPolicy::Legacy);
    let (opening, driver, peer) = unopened(options, MemoryOptions::default());
    let driver = tokio::spawn(driver.run());
    let accept = async {
        let initialize = peer.expect("initialize").await;
        let mut result = initialize_result("2025-11-25");
        result["capabilities"]["tasks"] =
            json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        peer.respond(initialize.id(), result).await;
        peer.expect("notifications/initialized").await;
    };
    let (session, ()) = tokio::join!(opening.handshake(soon()), accept);
    Fixture { session: session.unwrap(), peer, driver }
}

fn call(session: &Session) -> Call<CallTool> {
    session.call(CallTool::new("t"), CallOptions::default())
}

fn spawn(session: &Session) -> JoinHandle<Result<CallToolResult, CallError>> {
    tokio::spawn(call(session))
}

/// What a modern server says of the task `x`.
fn task(status: &str, more: Value) -> Value {
    let mut task = json!({"taskId": "x", "status": status, "createdAt": "c", "lastUpdatedAt": "l"});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

/// The answer of a modern server that makes a task of a call.
fn created(more: Value) -> Value {
    let mut created = task("working", more);
    created["resultType"] = json!("task");
    created
}

/// Answers the next question about the task; tells when it came.
async fn answer_poll(peer: &ScriptedPeer, answer: Value) -> Instant {
    let poll = peer.expect("tasks/get").await;
    assert_eq!(poll.params()["taskId"], "x");
    peer.respond(poll.id(), answer).await;
    poll.at
}

/// Lets a call become a task that says `more`.
async fn become_task(it: &Fixture, more: Value) -> Received {
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), created(more)).await;
    request
}

/// How often the server was asked to cancel the task, each time in a request of its own.
fn task_cancels(peer: &ScriptedPeer) -> usize {
    let of_task = |frame: &&Received| frame.method() == Some("tasks/cancel");
    let transcript = peer.transcript();
    let cancels: Vec<_> = transcript.iter().filter(of_task).collect();
    assert!(cancels.iter().all(|frame| frame.params()["taskId"] == "x" && frame.request_id().is_some()));
    cancels.len()
}

fn said_once(result: &CallToolResult) {
    assert_eq!(result.content.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn k2_185_k2_186_a_task_is_asked_about_at_the_pace_of_its_server_until_it_is_done() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    let request = become_task(&it, json!({"pollIntervalMs": 2500, "ttlMs": 3_600_000})).await;
    let declared = &request.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["extensions"][EXTENSION], json!({}), "k2_185: declared with each request");
    let begun = Instant::now();
    // The pace may change, and is kept within limits.
    let first = answer_poll(&it.peer, task("working", json!({"pollIntervalMs": 1}))).await;
    let second = answer_poll(&it.peer, task("working", json!({"pollIntervalMs": 3_600_000}))).await;
    let third = answer_poll(&it.peer, task("paused", json!({}))).await;
    let fourth = answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    assert_eq!(first - begun, Duration::from_millis(2500));
    assert_eq!(second - first, Duration::from_millis(100));
    assert_eq!(third - second, seconds(60));
    assert_eq!(fourth - third, seconds(60), "no wish is the one before");
    said_once(&calling.await.unwrap().unwrap());
    assert_quiescent(&it.session);
    assert_eq!((task_cancels(&it.peer), cancelled_ids(&it.peer).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_wish_is_asked_about_every_second() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({})).await;
    let begun = Instant::now();
    let polled = answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    assert_eq!(polled - begun, seconds(1));
    calling.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn r109_k2_185_a_task_is_no_answer_where_it_was_not_agreed_on_or_to_another_method() {
    let undeclared = modern_offering(SessionOptions::default(), json!({EXTENSION: {}})).await;
    let unoffered = modern_offering(SessionOptions::default().with_tasks(), json!({})).await;
    for it in [undeclared, unoffered] {
        let calling = spawn(&it.session);
        become_task(&it, json!({})).await;
        let error = calling.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, CallError::Protocol(ProtocolFault::ResultType(name)) if name == "task"),
            "{error}"
        );
        assert_eq!(error.outcome(), CallOutcome::Unknown);
        assert_eq!(methods(&it.peer), ["server/discover", "tools/call"]);
    }
    let it = modern_with_tasks(SessionOptions::default()).await;
    let prompt = tokio::spawn(it.session.call(GetPrompt::new("p"), CallOptions::default()));
    let request = it.peer.expect("prompts/get").await;
    it.peer.respond(request.id(), created(json!({}))).await;
    let error = prompt.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Protocol(ProtocolFault::ResultType(_))), "{error}");
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn s100_a_call_that_times_out_cancels_its_task_once_whether_or_not_somebody_polls_it() {
    for is_polled in [true, false] {
        let it = modern_with_tasks(SessionOptions::default()).await;
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
        let began = Instant::now();
        let options = CallOptions::default().with_timeout(seconds(5)).with_deadline(began + seconds(7));
        let live = gate.enter(soon()).await.unwrap();
        let mut calling = ByHand::new(live.call(CallTool::new("t"), options));
        assert!(calling.poll().is_pending());
        become_task(&it, json!({"pollIntervalMs": 2000})).await;
        settle().await;
        if is_polled {
            // The soft limit is that of each question.
            for _ in 0..3 {
                assert!(calling.poll().is_pending());
                tokio::time::sleep(seconds(2)).await;
                assert!(calling.poll().is_pending());
                answer_poll(&it.peer, task("working", json!({}))).await;
                settle().await;
            }
            assert!(calling.poll().is_pending());
        }
        assert_eq!(gate.in_flight(), 1, "the permit is kept while the task is at work");
        tokio::time::sleep_until(began + seconds(7)).await;
        settle().await;
        assert!(gate.idle(), "permit and place are free");
        assert_quiescent(&it.session);
        assert_eq!(task_cancels(&it.peer), 1, "told before the caller looks");
        let std::task::Poll::Ready(Err(error)) = calling.poll() else { panic!("not over") };
        assert!(matches!(error, CallError::Timeout { dispatch: Dispatch::MayHaveLeft, .. }), "{error}");
        assert_eq!(error.outcome(), CallOutcome::Unknown);
        drop(calling);
        settle().await;
        assert_eq!((task_cancels(&it.peer), cancelled_ids(&it.peer).len()), (1, 0));
        assert_eq!(it.session.counters().cancels_sent, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_in_time_ends_the_call_and_its_task() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling =
        tokio::spawn(it.session.call(CallTool::new("t"), CallOptions::default().with_timeout(seconds(5))));
    become_task(&it, json!({})).await;
    let poll = it.peer.expect("tasks/get").await;
    let asked = Instant::now();
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
    assert_eq!((asked.elapsed(), error.outcome()), (seconds(5), CallOutcome::Unknown));
    settle().await;
    assert_eq!(cancelled_ids(&it.peer), [poll.value["id"].as_i64().unwrap()], "the question, not the call");
    assert_eq!(task_cancels(&it.peer), 1);
    assert_quiescent(&it.session);
}

/// As with any cancel: there is no room for it, or it is not read in time.
#[tokio::test(start_paused = true)]
async fn s100_a_server_that_does_not_take_the_cancel_of_a_task_loses_its_connection() {
    for (reserve, grace, told) in [(0, 0, 0), (1, 50, 1)] {
        let memory = MemoryOptions::default().with_queue(1).with_reserve(reserve);
        let options = SessionOptions::default().with_tasks();
        let it = modern_over(memory, options, json!({EXTENSION: {}})).await;
        let began = Instant::now();
        let options = CallOptions::default().with_deadline(began + seconds(1));
        let mut calling = ByHand::new(it.session.call(CallTool::new("t"), options));
        assert!(calling.poll().is_pending());
        become_task(&it, json!({})).await;
        settle().await;
        it.peer.pause_reading();
        let waiting = spawn(&it.session);
        let closed = it.session.closed().await;
        assert_eq!(*closed.reason(), CloseReason::Stuck);
        assert_eq!(began.elapsed(), seconds(1) + Duration::from_millis(grace));
        assert_eq!(it.session.counters().cancels_sent, told);
        assert!(waiting.await.unwrap().unwrap_err().is_session_gone());
        assert!(matches!(calling.poll(), std::task::Poll::Ready(Err(error)) if error.is_timeout()));
    }
}

/// The task was there before anybody looked, and is cancelled: that is no task to hand out.
#[tokio::test(start_paused = true)]
async fn s100_a_task_that_was_cancelled_before_it_was_seen_is_not_handed_out() {
    for by in ["deadline", "close", "loss"] {
        let it = modern_with_tasks(SessionOptions::default()).await;
        let options = CallOptions::default().with_timeout(seconds(5));
        let mut starting = ByHand::new(it.session.start_task(CallTool::new("t"), options));
        assert!(starting.poll().is_pending());
        become_task(&it, json!({})).await;
        settle().await;
        match by {
            "deadline" => tokio::time::sleep(seconds(301)).await,
            "close" => {
                it.session.close(soon()).await;
            }
            _ => it.peer.close(CloseReason::EndOfStream),
        }
        settle().await;
        let std::task::Poll::Ready(started) = starting.poll() else { panic!("not over") };
        match by {
            "deadline" => assert!(started.unwrap_err().is_timeout()),
            "close" => assert!(started.unwrap_err().is_session_gone()),
            _ => assert!(matches!(started, Ok(StartedTask::Running(_))), "it goes on"),
        }
        assert_eq!(task_cancels(&it.peer), usize::from(by != "loss"), "{by}");
    }
}

#[tokio::test(start_paused = true)]
async fn s100_a_dropped_call_cancels_its_task_once_at_every_moment() {
    // Dropped before its answer was looked at, while it waits, and while a question is under way.
    for moment in 0..3 {
        let it = modern_with_tasks(SessionOptions::default()).await;
        let mut calling = ByHand::new(call(&it.session));
        assert!(calling.poll().is_pending());
        become_task(&it, json!({})).await;
        settle().await;
        if moment > 0 {
            assert!(calling.poll().is_pending());
        }
        if moment > 1 {
            tokio::time::sleep(seconds(1)).await;
            assert!(calling.poll().is_pending());
            it.peer.expect("tasks/get").await;
        }
        drop(calling);
        assert_quiescent(&it.session);
        settle().await;
        assert_eq!(task_cancels(&it.peer), 1, "moment {moment}");
        // Whatever its answer is, it ends nothing.
        let cancel =
            it.peer.transcript().into_iter().find(|frame| frame.method() == Some("tasks/cancel")).unwrap();
        it.peer.respond(cancel.id(), json!({"resultType": "complete"})).await;
        settle().await;
        assert!(it.session.is_open());
    }
}

#[tokio::test(start_paused = true)]
async fn s100_a_task_that_comes_too_late_is_cancelled_once() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let mut calling = ByHand::new(call(&it.session));
    assert!(calling.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    drop(calling);
    settle().await;
    assert_eq!((cancelled_ids(&it.peer).len(), task_cancels(&it.peer)), (1, 0), "nobody knows of a task yet");
    for _ in 0..3 {
        it.peer.respond(request.id(), created(json!({}))).await;
    }
    settle().await;
    assert_eq!((cancelled_ids(&it.peer).len(), task_cancels(&it.peer)), (1, 1));
    assert_eq!(it.session.counters().late_replies, 3);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_answer_does_not_cancel_the_task_that_is_followed() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    let request = become_task(&it, json!({})).await;
    it.peer.respond(request.id(), created(json!({}))).await;
    answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    calling.await.unwrap().unwrap();
    assert_eq!(task_cancels(&it.peer), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_the_session_cancels_its_tasks_and_losing_it_does_not() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({})).await;
    settle().await;
    it.session.close(soon()).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(error.is_session_gone() && error.outcome() == CallOutcome::Unknown, "{error}");
    assert_eq!(task_cancels(&it.peer), 1);

    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({})).await;
    settle().await;
    it.peer.close(CloseReason::EndOfStream);
    let error = calling.await.unwrap().unwrap_err();
    assert!(error.is_session_gone() && error.outcome() == CallOutcome::Unknown, "{error}");
    assert_eq!(it.session.counters().cancels_sent, 0);
}

#[tokio::test(start_paused = true)]
async fn k2_188_what_becomes_of_a_task_becomes_of_its_call() {
    let error = |code: i64| json!({"error": {"code": code, "message": "it broke"}});
    let tool_error = json!({"result": {"content": [], "isError": true}});
    let ends = [
        (task("completed", tool_error), Ok(true)),
        (task("completed", json!({})), Err(CallOutcome::Unknown)),
        (task("failed", error(-32603)), Err(CallOutcome::Rejected)),
        // Not the refusal of a call that was never begun, after which it could be begun again.
        (task("failed", error(-32020)), Err(CallOutcome::Unknown)),
        (task("failed", json!({"statusMessage": "worn\u{1b}[2J out"})), Err(CallOutcome::Unknown)),
        (task("cancelled", json!({"statusMessage": "enough"})), Err(CallOutcome::Unknown)),
    ];
    for (end, expected) in ends {
        let it = modern_with_tasks(SessionOptions::default()).await;
        let calling = spawn(&it.session);
        become_task(&it, json!({})).await;
        answer_poll(&it.peer, end.clone()).await;
        let result = calling.await.unwrap();
        let shown = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert_eq!(
            result.map(|result| result.is_error).map_err(|error| error.outcome()),
            expected,
            "{end}: {shown}"
        );
        settle().await;
        assert_eq!(task_cancels(&it.peer), 0, "it is over: {end}");
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn f158_secrets_are_taken_out_of_what_is_said_of_a_task_before_it_is_cut() {
    let redactor = mcp_proto::Redactor::new(["hunter2".into()]).into();
    let it = modern_with_tasks(SessionOptions::default().with_redactor(redactor)).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({})).await;
    // Text is shown up to 512 bytes: half the secret would be left.
    let text = format!("{}hunter2", "x ".repeat(254));
    answer_poll(&it.peer, task("failed", json!({"statusMessage": text}))).await;
    let shown = calling.await.unwrap().unwrap_err().to_string();
    assert!(shown.contains("x x") && !shown.contains("hunt"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_its_server_does_not_know_any_more_has_an_unknown_outcome() {
    for (code, cancels) in [(-32602, 0), (-32603, 1)] {
        let it = modern_with_tasks(SessionOptions::default()).await;
        let calling = spawn(&it.session);
        become_task(&it, json!({})).await;
        let poll = it.peer.expect("tasks/get").await;
        it.peer.respond_error(poll.id(), code, "which task?").await;
        let error = calling.await.unwrap().unwrap_err();
        assert!(matches!(&error, CallError::Task(TaskFault::Untold(error)) if error.code == code), "{error}");
        assert_eq!(error.outcome(), CallOutcome::Unknown);
        settle().await;
        assert_eq!(task_cancels(&it.peer), cancels, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn k2_186_a_task_is_given_up_when_its_server_forgets_it_and_not_before_one_more_question() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({"ttlMs": 2500, "pollIntervalMs": 2000})).await;
    let begun = Instant::now();
    let first = answer_poll(&it.peer, task("working", json!({}))).await;
    let last = answer_poll(&it.peer, task("working", json!({}))).await;
    assert_eq!((first - begun, last - begun), (seconds(2), Duration::from_millis(2500)));
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Task(TaskFault::Expired { .. })), "{error}");
    assert_eq!(error.outcome(), CallOutcome::Unknown);
    settle().await;
    assert_eq!(task_cancels(&it.peer), 1);
}

#[tokio::test(start_paused = true)]
async fn k2_187_what_a_task_asks_for_is_answered_once_however_often_it_is_seen() {
    let desk = Desk::new();
    let it = modern_with_tasks(SessionOptions::default().with_handler(Arc::clone(&desk) as _)).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({})).await;
    let asks = |keys: &[&str]| {
        let requests: serde_json::Map<_, _> = keys
            .iter()
            .map(|key| ((*key).to_owned(), json!({"method": "elicitation/create", "params": form(key)})))
            .collect();
        task("input_required", json!({"inputRequests": requests}))
    };
    answer_poll(&it.peer, asks(&["a"])).await;
    let update = it.peer.expect("tasks/update").await;
    assert_eq!(update.params()["taskId"], "x");
    assert_eq!(update.params()["inputResponses"], json!({"a": accepted("a")}));
    it.peer.respond(update.id(), json!({"resultType": "complete"})).await;
    // The server is slow to take it: the same is seen again and not asked again.
    answer_poll(&it.peer, asks(&["a"])).await;
    answer_poll(&it.peer, asks(&["a", "b"])).await;
    let update = it.peer.expect("tasks/update").await;
    assert_eq!(update.params()["inputResponses"], json!({"b": accepted("b")}));
    it.peer.respond(update.id(), json!({"resultType": "complete"})).await;
    answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    said_once(&calling.await.unwrap().unwrap());
    assert_eq!(desk.asked(), [" a", " b"]);
    assert_eq!(task_cancels(&it.peer), 0);
}

#[tokio::test(start_paused = true)]
async fn a_person_who_takes_long_does_not_use_up_the_time_of_the_server() {
    let desk = Desk::new();
    let it = modern_with_tasks(SessionOptions::default().with_handler(Arc::clone(&desk) as _)).await;
    let calling = tokio::spawn(it.session.call(
        CallTool::new("t"),
        CallOptions::default().with_timeout(seconds(5)).with_deadline(Instant::now() + seconds(500)),
    ));
    become_task(&it, json!({})).await;
    let asks = json!({"inputRequests": {"q": {"method": "elicitation/create", "params": form("wait")}}});
    answer_poll(&it.peer, task("input_required", asks)).await;
    tokio::time::sleep(seconds(100)).await;
    desk.let_go(1);
    let update = it.peer.expect("tasks/update").await;
    it.peer.respond(update.id(), json!({"resultType": "complete"})).await;
    answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    calling.await.unwrap().unwrap();
}

/// A task that asks a person who never answers, and nobody polls any more whoever follows it.
#[tokio::test(start_paused = true)]
async fn s102_the_deadline_ends_what_a_task_asks_for_also_when_nobody_polls_its_call() {
    for is_taken in [false, true] {
        let desk = Desk::new();
        let it = modern_with_tasks(SessionOptions::default().with_handler(Arc::clone(&desk) as _)).await;
        let handle = it.session.task("x");
        let began = Instant::now();
        let options = CallOptions::default().with_timeout(seconds(5)).with_deadline(began + seconds(20));
        let mut following = ByHand::new(async {
            if is_taken {
                handle.result(options).await
            } else {
                it.session.call(CallTool::new("t"), options).await
            }
        });
        assert!(following.poll().is_pending());
        let asks = json!({"inputRequests": {"q": {"method": "elicitation/create", "params": form("hang")}}});
        if is_taken {
            answer_poll(&it.peer, task("working", json!({}))).await;
        } else {
            become_task(&it, json!({})).await;
        }
        settle().await;
        assert!(following.poll().is_pending());
        tokio::time::sleep(seconds(1)).await;
        assert!(following.poll().is_pending());
        answer_poll(&it.peer, task("input_required", asks)).await;
        settle().await;
        assert!(following.poll().is_pending());
        assert_eq!((desk.asked().len(), desk.running()), (1, 1));
        assert_eq!(it.session.in_flight(), usize::from(!is_taken), "nothing of the server waits for that");
        tokio::time::sleep_until(began + seconds(19)).await;
        assert_eq!(desk.running(), 1, "a person may take longer than a server");
        tokio::time::sleep_until(began + seconds(20)).await;
        settle().await;
        assert_eq!((desk.running(), it.session.in_flight()), (0, 0), "free although nobody polls");
        assert_eq!(task_cancels(&it.peer), usize::from(!is_taken), "one that was taken goes on");
        let std::task::Poll::Ready(Err(ended)) = following.poll() else { panic!("not over") };
        assert!(matches!(ended, CallError::Timeout { .. }), "{ended:?}");
        assert_eq!(ended.outcome(), CallOutcome::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn p01_the_result_of_a_task_is_waited_for_no_longer_than_its_deadline() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let handle = it.session.task("x");
    let began = Instant::now();
    let following = handle.result(CallOptions::default().with_deadline(began + seconds(20)));
    let slow = answer_poll(&it.peer, task("working", json!({"pollIntervalMs": 60_000})));
    let error = tokio::join!(following, slow).0.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(began.elapsed(), seconds(20), "and not when it would be asked about again");
}

#[tokio::test(start_paused = true)]
async fn what_a_task_has_come_to_counts_though_its_session_has_ended_before_anybody_looks() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let handle = it.session.task("x");
    let mut following = ByHand::new(handle.result(CallOptions::default()));
    assert!(following.poll().is_pending());
    answer_poll(&it.peer, task("working", json!({}))).await;
    settle().await;
    assert!(following.poll().is_pending());
    tokio::time::sleep(seconds(1)).await;
    assert!(following.poll().is_pending());
    answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    it.peer.close(CloseReason::EndOfStream);
    it.session.closed().await;
    let std::task::Poll::Ready(result) = following.poll() else { panic!("not over") };
    said_once(&result.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_asks_for_what_nobody_gives_or_without_end_is_cancelled() {
    let asks = |key: u32| {
        let request = json!({"method": "elicitation/create", "params": form("q")});
        task("input_required", json!({"inputRequests": {key.to_string(): request}}))
    };
    // No handler.
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({})).await;
    answer_poll(&it.peer, asks(0)).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Unsupported { why: UnsupportedWhy::InputRequired, .. }), "{error}");
    assert_eq!(error.outcome(), CallOutcome::Unknown);
    settle().await;
    assert_eq!(task_cancels(&it.peer), 1);

    // Never done.
    let options = SessionOptions::default().with_handler(Desk::new()).with_max_rounds(3);
    let it = modern_with_tasks(options).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({})).await;
    for key in 0..3 {
        answer_poll(&it.peer, asks(key)).await;
        let update = it.peer.expect("tasks/update").await;
        it.peer.respond(update.id(), json!({"resultType": "complete"})).await;
    }
    answer_poll(&it.peer, asks(3)).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Protocol(ProtocolFault::Rounds(3))), "{error}");
    settle().await;
    assert_eq!(task_cancels(&it.peer), 1);
}

#[tokio::test(start_paused = true)]
async fn a_notice_of_a_change_brings_the_next_question_forward_and_a_flood_of_them_no_more() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    become_task(&it, json!({"pollIntervalMs": 50_000})).await;
    settle().await;
    let begun = Instant::now();
    for status in ["working", "completed"] {
        for _ in 0..500 {
            // Nothing that it says is taken for the state of the task.
            let notice = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task(status, json!({"result": {}}))});
            it.peer.send(notice).await;
        }
    }
    settle().await;
    let first = answer_poll(&it.peer, task("working", json!({}))).await;
    // One more may be due for what was told meanwhile; then the pace of the server holds again.
    let second = answer_poll(&it.peer, task("working", json!({}))).await;
    let third = answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    assert!(first - begun <= Duration::from_millis(200), "{:?}", first - begun);
    assert!(second - first >= Duration::from_millis(100), "{:?}", second - first);
    assert!(third - second >= seconds(50), "{:?}", third - second);
    calling.await.unwrap().unwrap();
    let before = it.session.counters().ignored_notifications;
    it.peer
        .send(
            json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task("working", json!({}))}),
        )
        .await;
    settle().await;
    assert_eq!(it.session.counters().ignored_notifications, before + 1, "nobody follows it any more");
}

#[tokio::test(start_paused = true)]
async fn a_task_can_be_taken_and_outlives_its_call_and_its_session() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let live = gate.enter(soon()).await.unwrap();
    let starting = tokio::spawn(live.start_task(CallTool::new("t"), CallOptions::default()));
    become_task(&it, json!({"pollIntervalMs": 5000})).await;
    let StartedTask::Running(handle) = starting.await.unwrap().unwrap() else { panic!("no task") };
    assert_eq!((handle.id(), handle.created().unwrap().status.clone()), ("x", TaskStatus::Working));
    assert!(gate.idle(), "a task that was taken holds no permit");
    assert_quiescent(&it.session);

    let (asked, _) =
        tokio::join!(handle.get(CallOptions::default()), answer_poll(&it.peer, task("working", json!({}))));
    assert_eq!(asked.unwrap().status, TaskStatus::Working);
    // Dropped while it is followed: nothing is cancelled.
    let mut following = ByHand::new(async { handle.result(CallOptions::default()).await.map(drop) });
    assert!(following.poll().is_pending());
    drop(following);
    let answers = Entries::from_iter([("k".to_owned(), RawJson::empty_object())]);
    let updating = handle.update(answers, CallOptions::default());
    let accept = async {
        let update = it.peer.expect("tasks/update").await;
        assert_eq!(update.params()["inputResponses"], json!({"k": {}}));
        it.peer.respond(update.id(), json!({"resultType": "complete"})).await;
    };
    tokio::join!(updating, accept).0.unwrap();
    it.session.close(soon()).await;
    assert_eq!(task_cancels(&it.peer), 0);

    // Through another session, by its id.
    let it = modern_with_tasks(SessionOptions::default()).await;
    let handle = it.session.task("x");
    assert!(handle.created().is_none());
    let finish = async {
        answer_poll(&it.peer, task("working", json!({}))).await;
        answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    };
    said_once(&tokio::join!(handle.result(CallOptions::default()), finish).0.unwrap());
    let accept = async {
        let cancel = it.peer.expect("tasks/cancel").await;
        it.peer.respond(cancel.id(), json!({"resultType": "complete"})).await;
    };
    tokio::join!(handle.cancel(CallOptions::default()), accept).0.unwrap();
    assert_eq!(task_cancels(&it.peer), 1);
}

#[tokio::test(start_paused = true)]
async fn k2_185_a_server_may_answer_at_once_where_a_task_could_be_taken() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let session = it.session.clone();
    let starting =
        tokio::spawn(async move { session.start_task(CallTool::new("t"), CallOptions::default()).await });
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), said("done")).await;
    let StartedTask::Done(result) = starting.await.unwrap().unwrap() else { panic!("a task") };
    said_once(&result);
    assert_quiescent(&it.session);
}

/// Asks how the task is, and is told this.
async fn get(it: &Fixture, handle: &TaskHandle, answer: Value) {
    let asking = handle.get(CallOptions::default());
    tokio::join!(asking, answer_poll(&it.peer, answer)).0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_is_wanted_from_its_call_on_until_all_is_known_of_it_or_its_handles_are_gone() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let session = it.session.clone();
    let starting =
        tokio::spawn(async move { session.start_task(CallTool::new("t"), CallOptions::default()).await });
    let request = it.peer.expect("tools/call").await;
    assert_eq!(it.session.wanted_tasks(), 1, "it may be made at any moment");
    it.peer.respond(request.id(), created(json!({}))).await;
    let StartedTask::Running(handle) = starting.await.unwrap().unwrap() else { panic!("no task") };
    let other = handle.clone();
    drop(handle);
    get(&it, &other, task("working", json!({}))).await;
    assert_eq!(it.session.wanted_tasks(), 1, "there is a handle");
    let mut nobody = ByHand::new(async { it.session.no_task_wanted().await });
    assert!(nobody.poll().is_pending());
    get(&it, &other, task("completed", json!({"result": said("done")}))).await;
    assert!(nobody.poll().is_ready() && it.session.wanted_tasks() == 0, "the answer has the result");
    drop(other);
    assert_eq!(it.session.wanted_tasks(), 0, "once");

    // A legacy server still has the result when it says that the task is over.
    let it = legacy_with_tasks(SessionOptions::default()).await;
    let handle = start_legacy(&it, task("working", json!({}))).await;
    get(&it, &handle, task("completed", json!({}))).await;
    assert_eq!(it.session.wanted_tasks(), 1);
    let finish = async {
        answer_poll(&it.peer, task("completed", json!({}))).await;
        let fetch = it.peer.expect("tasks/result").await;
        it.peer.respond(fetch.id(), said("done")).await;
    };
    said_once(&tokio::join!(handle.result(CallOptions::default()), finish).0.unwrap());
    assert_eq!(it.session.wanted_tasks(), 0);
    let (named, dropped) = (it.session.task("x"), it.session.task("x"));
    assert_eq!(it.session.wanted_tasks(), 2);
    drop(dropped);
    let cancel = async {
        let cancel = it.peer.expect("tasks/cancel").await;
        it.peer.respond(cancel.id(), task("cancelled", json!({}))).await;
    };
    tokio::join!(named.cancel(CallOptions::default()), cancel).0.unwrap();
    assert_eq!(it.session.wanted_tasks(), 0);
}

async fn start_legacy(it: &Fixture, answer: Value) -> TaskHandle {
    let session = it.session.clone();
    let starting =
        tokio::spawn(async move { session.start_task(CallTool::new("t"), CallOptions::default()).await });
    let request = it.peer.expect("tools/call").await;
    assert_eq!(request.params()["task"], json!({}), "asked for");
    it.peer.respond(request.id(), json!({"task": answer})).await;
    let StartedTask::Running(handle) = starting.await.unwrap().unwrap() else { panic!("no task") };
    handle
}

#[tokio::test(start_paused = true)]
async fn k1_183_a_legacy_task_is_polled_and_its_result_is_fetched() {
    let it = legacy_with_tasks(SessionOptions::default()).await;
    let handle = start_legacy(&it, task("working", json!({"pollInterval": 3000, "ttl": 60_000}))).await;
    let begun = Instant::now();
    let finish = async {
        let first = answer_poll(&it.peer, task("working", json!({}))).await;
        assert_eq!(first - begun, seconds(3));
        // The server tells of a change: a hint, no more.
        it.peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task("completed", json!({}))})).await;
        let second = answer_poll(&it.peer, task("completed", json!({}))).await;
        assert_eq!(second - first, Duration::from_millis(100));
        let fetch = it.peer.expect("tasks/result").await;
        assert_eq!(fetch.params()["taskId"], "x");
        it.peer.respond(fetch.id(), said("done")).await;
    };
    said_once(&tokio::join!(handle.result(CallOptions::default()), finish).0.unwrap());

    let failed = async {
        let fetch = it.peer.expect("tasks/result").await;
        it.peer.respond_error(fetch.id(), -32603, "it broke").await;
    };
    let handle = start_legacy(&it, task("failed", json!({}))).await;
    let error = tokio::join!(handle.result(CallOptions::default()), failed).0.unwrap_err();
    assert!(matches!(&error, CallError::Peer(error) if error.code == -32603), "{error}");
    assert_eq!(task_cancels(&it.peer), 0);
}

#[tokio::test(start_paused = true)]
async fn k1_183_a_legacy_task_that_asks_is_answered_while_its_result_is_waited_for() {
    let desk = Desk::new();
    let it = legacy_with_tasks(SessionOptions::default().with_handler(Arc::clone(&desk) as _)).await;
    let handle = start_legacy(&it, task("working", json!({"pollInterval": 500}))).await;
    let serve = async {
        answer_poll(&it.peer, task("input_required", json!({}))).await;
        let fetch = it.peer.expect("tasks/result").await;
        it.peer
            .send(
                json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form("who?")}),
            )
            .await;
        let answer = it.peer.receive().await;
        assert_eq!(answer.value["result"], accepted("who?"));
        // The result takes longer than the soft limit of a call.
        tokio::time::sleep(seconds(100)).await;
        it.peer.respond(fetch.id(), said("done")).await;
    };
    said_once(&tokio::join!(handle.result(CallOptions::default()), serve).0.unwrap());
}

#[tokio::test(start_paused = true)]
async fn k1_184_what_is_answered_on_behalf_of_a_task_names_it_and_questions_about_it_do_not() {
    const RELATED: &str = "io.modelcontextprotocol/related-task";
    let desk = Desk::new();
    let it = legacy_with_tasks(SessionOptions::default().with_handler(Arc::clone(&desk) as _)).await;
    let handle = start_legacy(&it, task("working", json!({}))).await;
    let serve = async {
        answer_poll(&it.peer, task("input_required", json!({}))).await;
        let fetch = it.peer.expect("tasks/result").await;
        for (method, mut params) in [
            ("elicitation/create", form("who?")),
            ("roots/list", json!({})),
            ("sampling/createMessage", sampling(5)),
        ] {
            for related in [Some(json!({"taskId": "x", "n": 1})), None, Some(json!({"taskId": 7}))] {
                params["_meta"] = json!({"example.com/x": 1});
                if let Some(related) = &related {
                    params["_meta"][RELATED] = related.clone();
                }
                it.peer.send(json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})).await;
                let answer = it.peer.receive().await;
                let expected =
                    related.filter(|related| related["taskId"] == "x").map(|_| json!({"taskId": "x"}));
                let said = answer.value["result"].get("_meta").and_then(|meta| meta.get(RELATED));
                assert_eq!(said, expected.as_ref(), "{method}: {answer:?}");
            }
        }
        it.peer.respond(fetch.id(), said("done")).await;
    };
    said_once(&tokio::join!(handle.result(CallOptions::default()), serve).0.unwrap());
    for request in
        it.peer.transcript().iter().filter(|frame| frame.method().is_some_and(|it| it.starts_with("tasks/")))
    {
        assert_eq!(request.params()["_meta"].get(RELATED), None, "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn k1_184_no_task_of_another_version_is_named() {
    let desk = Desk::new();
    let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _);
    let it = legacy_in("2025-06-18", options, MemoryOptions::default()).await;
    let mut params = form("who?");
    params["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "x"}});
    it.peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params})).await;
    assert_eq!(it.peer.receive().await.value["result"], accepted("who?"));
}

#[tokio::test(start_paused = true)]
async fn k1_184_the_time_that_a_legacy_task_is_kept_may_change_and_an_unknown_one_is_told() {
    let it = legacy_with_tasks(SessionOptions::default()).await;
    // Without a notice of any change: none has to come.
    let handle = start_legacy(&it, task("working", json!({"ttl": 1500}))).await;
    let begun = Instant::now();
    let finish = async {
        answer_poll(&it.peer, task("working", json!({"ttl": 60_000}))).await;
        let second = answer_poll(&it.peer, task("completed", json!({"ttl": null}))).await;
        assert_eq!(second - begun, seconds(2), "the first one would have been over");
        let fetch = it.peer.expect("tasks/result").await;
        it.peer.respond(fetch.id(), said("done")).await;
    };
    said_once(&tokio::join!(handle.result(CallOptions::default()), finish).0.unwrap());
    // Cancelling what is over is refused, and so is whatever is asked about a task that is not there.
    let refuse = async |method: &str| {
        let request = it.peer.expect(method).await;
        it.peer.respond_error(request.id(), -32602, "over").await;
    };
    let cancelled = tokio::join!(handle.cancel(CallOptions::default()), refuse("tasks/cancel")).0;
    assert!(matches!(cancelled, Err(CallError::Peer(error)) if error.code == -32602));
    let asked = tokio::join!(handle.get(CallOptions::default()), refuse("tasks/get")).0;
    assert!(matches!(asked, Err(CallError::Peer(error)) if error.code == -32602));
    let unknown = it.session.task("y");
    let followed = tokio::join!(unknown.result(CallOptions::default()), refuse("tasks/get")).0;
    assert!(matches!(followed, Err(CallError::Peer(error)) if error.code == -32602));
    let handle = start_legacy(&it, task("working", json!({}))).await;
    let followed = tokio::join!(handle.result(CallOptions::default()), refuse("tasks/get")).0.unwrap_err();
    assert!(
        matches!(&followed, CallError::Task(TaskFault::Untold(error)) if error.code == -32602),
        "{followed}"
    );
    assert_eq!(task_cancels(&it.peer), 1, "the one by hand");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_call_dropped_before_its_task_was_seen_cancels_it_once() {
    for is_late in [true, false] {
        let it = legacy_with_tasks(SessionOptions::default()).await;
        let session = it.session.clone();
        let mut starting = ByHand::new(async move {
            session.start_task(CallTool::new("t"), CallOptions::default()).await.map(drop)
        });
        assert!(starting.poll().is_pending());
        let request = it.peer.expect("tools/call").await;
        let answer = json!({"task": task("working", json!({}))});
        if is_late {
            drop(starting);
            it.peer.respond(request.id(), answer).await;
        } else {
            it.peer.respond(request.id(), answer).await;
            settle().await;
            drop(starting);
        }
        settle().await;
        assert_eq!((task_cancels(&it.peer), cancelled_ids(&it.peer).len()), (1, usize::from(is_late)));
        assert_quiescent(&it.session);
    }
}

/// What was shown, in order.
type Seen = Arc<Mutex<Vec<f64>>>;

/// Notes what it is shown.
fn watching(options: CallOptions) -> (CallOptions, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    (options.with_progress(move |progress| noted.lock().unwrap().push(progress.progress)), seen)
}

async fn report(peer: &ScriptedPeer, token: &Value, progress: f64) {
    let params = json!({"progressToken": token, "progress": progress});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})).await;
}

/// Has a legacy server make a task of a call; with the token that the request has named.
async fn start_reporting(it: &Fixture, options: CallOptions) -> (TaskHandle, Value) {
    let session = it.session.clone();
    let starting = tokio::spawn(async move { session.start_task(CallTool::new("t"), options).await });
    let request = it.peer.expect("tools/call").await;
    let token = request.params()["_meta"]["progressToken"].clone();
    it.peer.respond(request.id(), json!({"task": task("working", json!({}))})).await;
    let StartedTask::Running(handle) = starting.await.unwrap().unwrap() else { panic!("no task") };
    (handle, token)
}

/// Whether progress under this token is taken for that of a task. It must not have been told before.
async fn is_told(it: &Fixture, token: &Value, progress: f64) -> bool {
    let before = it.session.counters().ignored_progress;
    report(&it.peer, token, progress).await;
    settle().await;
    it.session.counters().ignored_progress == before
}

#[tokio::test(start_paused = true)]
async fn s104_progress_of_a_legacy_task_goes_on_under_its_first_token_until_the_task_is_over() {
    let it = legacy_with_tasks(SessionOptions::default()).await;
    let (options, seen) = watching(CallOptions::default());
    let session = it.session.clone();
    let starting = tokio::spawn(async move { session.start_task(CallTool::new("t"), options).await });
    let request = it.peer.expect("tools/call").await;
    let token = request.params()["_meta"]["progressToken"].clone();
    report(&it.peer, &token, 1.0).await;
    // All of it is there before anybody looks at the answer.
    it.peer.respond(request.id(), json!({"task": task("working", json!({}))})).await;
    for value in [1.0, 2.0, 3.0] {
        report(&it.peer, &token, value).await;
    }
    let StartedTask::Running(handle) = starting.await.unwrap().unwrap() else { panic!("no task") };
    assert_eq!((seen.lock().unwrap().as_slice(), it.session.counters().ignored_progress), (&[1.0][..], 1));

    let asked = async {
        answer_poll(&it.peer, task("working", json!({}))).await;
    };
    tokio::join!(handle.get(CallOptions::default()), asked).0.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1.0, 3.0], "the newest");
    let finish = async {
        report(&it.peer, &token, 4.0).await;
        answer_poll(&it.peer, task("input_required", json!({}))).await;
        let fetch = it.peer.expect("tasks/result").await;
        report(&it.peer, &token, 5.0).await;
        it.peer.respond(fetch.id(), said("done")).await;
    };
    said_once(&tokio::join!(handle.result(CallOptions::default()), finish).0.unwrap());
    assert_eq!(*seen.lock().unwrap(), [1.0, 3.0, 4.0, 5.0], "also while its result is waited for");
    assert!(!is_told(&it, &token, 6.0).await, "it is over");
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn s104_progress_of_a_task_prolongs_what_is_asked_about_it_though_nobody_looks() {
    let it = legacy_with_tasks(SessionOptions::default()).await;
    for is_followed in [true, false] {
        let (handle, token) = start_reporting(&it, CallOptions::default()).await;
        let options =
            CallOptions::default().with_timeout(seconds(5)).with_deadline(Instant::now() + seconds(60));
        let asking = async || {
            if is_followed {
                handle.result(options.clone()).await.map(drop)
            } else {
                handle.get(options.clone()).await.map(drop)
            }
        };
        let mut asking = ByHand::new(asking());
        assert!(asking.poll().is_pending());
        if is_followed {
            tokio::time::sleep(seconds(1)).await;
            assert!(asking.poll().is_pending());
        }
        it.peer.expect("tasks/get").await;
        let asked = Instant::now();
        for value in [1.0, 2.0, 2.0] {
            tokio::time::sleep(seconds(4)).await;
            report(&it.peer, &token, value).await;
        }
        settle().await;
        assert_eq!(it.session.in_flight(), 1, "{:?}", asked.elapsed());
        tokio::time::sleep(seconds(1)).await;
        settle().await;
        assert_eq!(it.session.in_flight(), 0, "what does not grow prolongs nothing");
        let std::task::Poll::Ready(Err(error)) = asking.poll() else { panic!("not over") };
        assert!(error.is_timeout(), "{error}");
        it.peer.expect("notifications/cancelled").await;
    }
}

#[tokio::test(start_paused = true)]
async fn s104_the_handler_that_follows_a_task_is_shown_its_progress_also_by_way_of_its_name() {
    let it = legacy_with_tasks(SessionOptions::default()).await;
    let (begun, first) = watching(CallOptions::default());
    let (handle, token) = start_reporting(&it, begun).await;
    for named in [false, true] {
        let follower = if named { it.session.task("x") } else { handle.clone() };
        let (options, seen) = watching(CallOptions::default());
        let serve = async {
            for value in 1..=2 {
                let value = f64::from(value + 2 * i32::from(named));
                report(&it.peer, &token, value).await;
                let poll = it.peer.expect("tasks/get").await;
                // Whatever it says, a task of that name is not known to be over.
                it.peer.respond_error(poll.id(), -32603, "?").await;
                settle().await;
            }
        };
        let follow = async {
            follower.result(options.clone()).await.unwrap_err();
            follower.result(options).await.unwrap_err();
        };
        tokio::join!(follow, serve);
        assert_eq!(*seen.lock().unwrap(), if named { [3.0, 4.0] } else { [1.0, 2.0] });
    }
    assert!(first.lock().unwrap().is_empty(), "another one was named");
}

#[tokio::test(start_paused = true)]
async fn s104_nothing_is_told_of_a_task_that_is_over_or_that_nobody_has() {
    for how in ["cancelled", "seen to be over", "dropped", "dropped by all", "result", "unknown"] {
        let it = legacy_with_tasks(SessionOptions::default()).await;
        let (handle, token) = start_reporting(&it, CallOptions::default()).await;
        assert!(is_told(&it, &token, 1.0).await, "{how}");
        let other = it.session.task("x");
        match how {
            "cancelled" => {
                let accept = async {
                    let cancel = it.peer.expect("tasks/cancel").await;
                    it.peer.respond(cancel.id(), task("cancelled", json!({}))).await;
                };
                tokio::join!(handle.cancel(CallOptions::default()), accept).0.unwrap();
            }
            "seen to be over" => {
                let answer = answer_poll(&it.peer, task("failed", json!({})));
                tokio::join!(other.get(CallOptions::default()), answer).0.unwrap();
            }
            "dropped" => drop(handle.clone()),
            "dropped by all" => drop((handle, other)),
            "result" => {
                let finish = async {
                    answer_poll(&it.peer, task("completed", json!({}))).await;
                    let fetch = it.peer.expect("tasks/result").await;
                    it.peer.respond(fetch.id(), said("done")).await;
                };
                tokio::join!(handle.result(CallOptions::default()), finish).0.unwrap();
            }
            _ => {
                let refuse = async {
                    let poll = it.peer.expect("tasks/get").await;
                    it.peer.respond_error(poll.id(), -32602, "which task?").await;
                };
                tokio::join!(handle.result(CallOptions::default()), refuse).0.unwrap_err();
            }
        }
        assert_eq!(is_told(&it, &token, 2.0).await, how == "dropped", "{how}");
    }
    // Nor of one that was given up before anybody has seen it.
    let it = legacy_with_tasks(SessionOptions::default()).await;
    let session = it.session.clone();
    let mut starting =
        ByHand::new(
            async move { session.start_task(CallTool::new("t"), CallOptions::default()).await.map(drop) },
        );
    assert!(starting.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    it.peer.respond(request.id(), json!({"task": task("working", json!({}))})).await;
    let token = json!(request.id());
    assert!(is_told(&it, &token, 1.0).await);
    drop(starting);
    assert!(!is_told(&it, &token, 2.0).await);
    assert_eq!(task_cancels(&it.peer), 1);
}

#[tokio::test(start_paused = true)]
async fn s104_a_flood_of_progress_of_a_task_is_shown_at_most_twenty_times_a_second() {
    let it = legacy_with_tasks(SessionOptions::default()).await;
    let (options, seen) = watching(CallOptions::default());
    let (handle, token) = start_reporting(&it, options).await;
    let flood = async {
        for value in 0..10_000 {
            report(&it.peer, &token, f64::from(value)).await;
            if value % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        answer_poll(&it.peer, task("completed", json!({}))).await;
        let fetch = it.peer.expect("tasks/result").await;
        it.peer.respond(fetch.id(), said("done")).await;
    };
    tokio::join!(handle.result(CallOptions::default()), flood).0.unwrap();
    let seen = seen.lock().unwrap();
    assert!((15..=22).contains(&seen.len()), "{}", seen.len());
    assert_eq!(seen.last(), Some(&9999.0), "the newest, though it came too soon after the one before");
}

#[tokio::test(start_paused = true)]
async fn s104_a_task_of_the_extension_makes_no_progress() {
    let it = modern_with_tasks(SessionOptions::default()).await;
    let (options, seen) = watching(CallOptions::default());
    let calling = tokio::spawn(it.session.call(CallTool::new("t"), options.clone()));
    let request = become_task(&it, json!({})).await;
    assert!(!is_told(&it, &request.value["id"], 1.0).await);
    answer_poll(&it.peer, task("completed", json!({"result": said("done")}))).await;
    calling.await.unwrap().unwrap();

    let session = it.session.clone();
    let starting = tokio::spawn(async move { session.start_task(CallTool::new("t"), options).await });
    let request = become_task(&it, json!({})).await;
    let StartedTask::Running(handle) = starting.await.unwrap().unwrap() else { panic!("no task") };
    assert!(!is_told(&it, &request.value["id"], 1.0).await);
    let answer = answer_poll(&it.peer, task("working", json!({})));
    tokio::join!(handle.get(CallOptions::default()), answer).0.unwrap();
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn k1_182_no_server_is_asked_for_a_task_that_has_not_declared_them() {
    let old = legacy().await;
    let modern = modern_offering(SessionOptions::default(), json!({EXTENSION: {}})).await;
    for it in [old, modern] {
        let before = it.peer.transcript().len();
        let error = it.session.start_task(CallTool::new("t"), CallOptions::default()).await.unwrap_err();
        assert!(matches!(error, CallError::Unsupported { why: UnsupportedWhy::Capability, .. }), "{error}");
        assert_eq!(it.peer.transcript().len(), before, "nothing was sent");
    }
    let it = legacy_with_tasks(SessionOptions::default()).await;
    let calling = spawn(&it.session);
    let request = it.peer.expect("tools/call").await;
    assert_eq!(request.params().get("task"), None, "an ordinary call never asks for one");
    it.peer.respond(request.id(), said("done")).await;
    calling.await.unwrap().unwrap();
    let listing = it.session.list::<ListTasks>(CallOptions::default(), ListLimits::default());
    let accept = async {
        let list = it.peer.expect("tasks/list").await;
        it.peer.respond(list.id(), json!({"tasks": [task("working", json!({}))]})).await;
    };
    assert_eq!(tokio::join!(listing, accept).0.unwrap().items.len(), 1);
    assert!(Method::TASKS_LIST.is_known());
}
