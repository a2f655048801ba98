//! The one guarded path of every call: who is refused, what is repeated, what counts against a server.
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

use futures_util::FutureExt;
use futures_util::future::join_all;
use mcp_lifecycle::{BreakerState, CallError, ServerOptions, Startup, State, SupervisorOptions, WaitingFor};
use mcp_proto::{GetPrompt, ListTools, ReadResource};
use mcp_session::{CallOptions, CallOutcome, ListLimits};
use mcp_transport::testing::checks::LogCapture;
use mcp_transport::testing::{MemoryConnector, ServerScript, ToolBehaviour};
use mcp_transport::{CloseReason, Exit};
use serde_json::json;
use support::{Bench, accept, echo, in_seconds, plain, ready, seconds, soon, tool, until};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Level;

#[tokio::test(start_paused = true)]
async fn a_disabled_server_refuses_at_once_and_serves_when_switched_on() {
    let mut bench = Bench::new();
    let options = plain().with_startup(Startup::Disabled);
    let server = bench.add("one", &ServerScript::legacy(), options);
    let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(
        matches!(error, CallError::Disabled { .. }) && error.outcome() == CallOutcome::NotSent,
        "{error}"
    );
    server.enable();
    server.call(echo(), CallOptions::default()).await.unwrap();
    server.disable();
    assert_eq!(server.settled(in_seconds(1)).await.state, State::Disabled);
    assert!(server.lists().is_none());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_connection_are_limited() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("slow", &connector, plain().with_queued(2));
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(server.call(echo(), CallOptions::default()))).collect();
    for call in &mut waiting {
        assert!(call.as_mut().now_or_never().is_none());
    }
    assert_eq!(server.status().waiting, 2);
    let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::Overloaded { .. }), "{error}");
    drop(waiting);
    assert_eq!(server.status().waiting, 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_were_let_in_are_not_refused_when_all_of_them_have_to_wait() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let two = NonZeroUsize::new(2).unwrap();
    let server = bench.add_by_hand("one", &connector, plain().with_in_flight(two).with_queued(2));
    let first = connector.next_peer().await;
    accept_all(&first).await;
    ready(&server).await;
    let read = || Box::pin(server.call(ReadResource::new("fixture://text/1"), CallOptions::default()));
    let mut reads: Vec<_> = (0..4).map(|_| read()).collect();
    for read in &mut reads {
        assert!(read.as_mut().now_or_never().is_none());
    }
    let is_full = async |waiting| {
        assert_eq!(server.status().waiting, waiting);
        let error = read().await.unwrap_err();
        assert!(matches!(error, CallError::Overloaded { .. }), "{error}");
    };
    is_full(2).await;
    first.close(CloseReason::EndOfStream);
    until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    let (results, _second) = tokio::join!(join_all(reads), async {
        // Each is told of the loss, and waits.
        soon(|| server.status().waiting == 4).await;
        is_full(4).await;
        let second = connector.next_peer().await;
        accept_all(&second).await;
        for _ in 0..4 {
            let request = second.expect("resources/read").await;
            second.respond(request.id(), json!({"contents": []})).await;
        }
        second
    });
    results.into_iter().for_each(|result| drop(result.unwrap()));
    let status = server.status();
    assert_eq!((status.waiting, status.in_flight, status.calls.refused), (0, 0, 2));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_turn_does_not_come_was_never_sent() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let options = plain().with_in_flight(NonZeroUsize::MIN).with_queued(1);
    let server = bench.add("serial", &script, options);
    ready(&server).await;
    let mut running = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(running.as_mut().now_or_never().is_none());
    let began = Instant::now();
    let mut queued = Box::pin(server.call(echo(), CallOptions::default().with_timeout(seconds(3))));
    assert!(queued.as_mut().now_or_never().is_none());
    assert_eq!(server.status().waiting, 1);
    let refused = server.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(refused, CallError::Overloaded { .. }), "{refused}");
    let queued = queued.await.unwrap_err();
    assert!(matches!(queued, CallError::Timeout { waiting_for: WaitingFor::Turn, .. }), "{queued}");
    assert_eq!((queued.outcome(), began.elapsed()), (CallOutcome::NotSent, seconds(3)));
    assert_eq!(script.log().runs("echo"), 0);
    drop(running);
    server.call(echo(), CallOptions::default()).await.unwrap();
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_the_whole_runtime_are_limited() {
    let mut bench = Bench::with(SupervisorOptions::default().with_in_flight(2));
    let one = bench.add("one", &ServerScript::legacy(), plain());
    let two = bench.add("two", &ServerScript::legacy(), plain());
    ready(&one).await;
    ready(&two).await;
    let mut running: Vec<_> =
        [&one, &two].into_iter().map(|s| Box::pin(s.call(tool("hang"), CallOptions::default()))).collect();
    for call in &mut running {
        assert!(call.as_mut().now_or_never().is_none());
    }
    let error = one.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::Overloaded { .. }), "{error}");
    running.pop();
    one.call(echo(), CallOptions::default()).await.unwrap();
    drop(running);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i12_what_may_have_run_is_repeated_only_if_that_is_safe() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy().with_tool("safe", ToolBehaviour::Crash(Exit::Code(1)));
    let options = plain().with_park_after(100).with_idempotent_tools(["safe".to_owned()].into());
    let server = bench.add("one", &script, options);
    let error = server.call(tool("crash"), CallOptions::default()).await.unwrap_err();
    assert_eq!(error.outcome(), CallOutcome::Unknown);
    assert_eq!(script.log().runs("crash"), 1, "never twice");
    let error = server.call(tool("safe"), CallOptions::default()).await.unwrap_err();
    assert_eq!(error.outcome(), CallOutcome::Unknown);
    assert_eq!(script.log().runs("safe"), 3, "three attempts, no more");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn m86_on_a_pipe_the_code_of_wrong_headers_is_the_servers_own_and_the_call_is_not_repeated() {
    let mut bench = Bench::new();
    for (name, script) in [("legacy", ServerScript::legacy()), ("modern", ServerScript::modern())] {
        let script = script.with_tool("error", ToolBehaviour::Error(-32020));
        let server = bench.add(name, &script, ServerOptions::default());
        let error = server.call(tool("error"), CallOptions::default()).await.unwrap_err();
        assert_eq!(error.outcome(), CallOutcome::Rejected, "{error}");
        assert_eq!(script.log().runs("error"), 1, "{name}");
    }
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn p02_a_call_that_may_have_run_stays_unknown_although_its_repeat_was_never_sent() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let options = plain().with_idempotent_tools(["echo".to_owned()].into());
    let server = bench.add_by_hand("one", &connector, options);
    let first = connector.next_peer().await;
    accept(&first).await;
    ready(&server).await;
    let call = server.call(echo(), CallOptions::default().with_timeout(seconds(10)));
    let (result, _second) = tokio::join!(call, async {
        first.expect("tools/call").await;
        first.close(CloseReason::EndOfStream);
        connector.next_peer().await // and no handshake
    });
    let error = result.unwrap_err();
    assert_eq!(error.outcome(), CallOutcome::Unknown, "{error}");
    assert!(!error.is_retryable());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn reads_are_repeated_on_the_next_connection() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let first = connector.next_peer().await;
    accept_all(&first).await;
    ready(&server).await;
    let reads = async {
        tokio::join!(
            server.call(ReadResource::new("fixture://text/1"), CallOptions::default()),
            server.call(GetPrompt::new("prompt-1"), CallOptions::default()),
            server.list::<ListTools>(CallOptions::default(), ListLimits::default()),
        )
    };
    let ((read, prompt, list), _second) = tokio::join!(reads, async {
        for _ in 0..3 {
            first.receive().await;
        }
        first.close(CloseReason::EndOfStream);
        let second = connector.next_peer().await;
        accept_all(&second).await;
        for _ in 0..3 {
            let request = second.receive().await;
            let result = match request.method() {
                Some("resources/read") => json!({"contents": []}),
                Some("prompts/get") => json!({"messages": []}),
                _ => json!({"tools": []}),
            };
            second.respond(request.id(), result).await;
        }
        second
    });
    read.unwrap();
    prompt.unwrap();
    list.unwrap();
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f127_a_swap_of_the_connection_under_a_queued_call_costs_nothing() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("serial", &connector, plain().with_in_flight(NonZeroUsize::MIN));
    let first = connector.next_peer().await;
    accept(&first).await;
    let generation = ready(&server).await;
    let before = server.status();

    let holder = server.call(tool("long"), CallOptions::default());
    let queued = server.call(echo(), CallOptions::default());
    let (held, queued, _second) = tokio::join!(holder, queued, async {
        first.expect("tools/call").await;
        assert_eq!(server.status().waiting, 1, "the other call waits for its turn");
        server.reconnect(generation);
        let second = connector.next_peer().await;
        accept(&second).await;
        let request = second.expect("tools/call").await;
        assert_eq!(request.params()["name"], "echo");
        second.respond(request.id(), json!({"content": []})).await;
        second
    });
    let held = held.unwrap_err();
    assert_eq!(held.outcome(), CallOutcome::Unknown, "{held}");
    queued.unwrap();
    assert!(first.transcript().iter().all(|frame| frame.params()["name"] != "echo"), "i07");
    let after = server.status();
    assert_eq!((after.losses, after.breaker), (before.losses, before.breaker));
    assert_eq!(after.state, State::Ready { generation: 2 });
    assert!(after.last_error.is_none());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f127_connections_replaced_on_request_are_never_strikes() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    for _ in 0..10 {
        let peer = connector.next_peer().await;
        accept(&peer).await;
        let generation = ready(&server).await;
        let mut call = Box::pin(server.call(echo(), CallOptions::default()));
        assert!(call.as_mut().now_or_never().is_none(), "{:?}", server.status());
        peer.expect("tools/call").await;
        server.reconnect(generation);
        assert!(call.await.unwrap_err().is_session_gone());
    }
    let status = server.status();
    assert_eq!((status.breaker, status.losses), (BreakerState::Closed, 0));
    assert!(matches!(status.state, State::Connecting { attempt: 1, .. }), "{status:?}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f152_a_half_open_breaker_lets_exactly_one_call_through() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let server = bench.add("fragile", &script, unparked());
    open_the_breaker(&server).await;
    let began = Instant::now();
    let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::CircuitOpen { retry_in, .. } if retry_in > seconds(20)), "{error}");
    assert_eq!(began.elapsed(), seconds(0));

    tokio::time::sleep(seconds(31)).await; // longer than the 30 s for which it is open
    ready(&server).await;
    let began = Instant::now();
    let results = join_all((0..100).map(|_| server.call(echo(), CallOptions::default()))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(
        results.iter().flat_map(|r| r.as_ref().err()).all(|e| matches!(e, CallError::CircuitOpen { .. }))
    );
    assert_eq!((script.log().runs("echo"), began.elapsed()), (1, seconds(0)));
    assert_eq!(server.status().breaker, BreakerState::Closed);
    server.call(echo(), CallOptions::default()).await.unwrap();
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i26_a_probe_that_fails_opens_the_breaker_for_longer() {
    let mut bench = Bench::new();
    let server = bench.add("fragile", &ServerScript::legacy(), unparked());
    open_the_breaker(&server).await;
    tokio::time::sleep(seconds(31)).await; // longer than the 30 s for which it is open
    server.call(tool("crash"), CallOptions::default()).await.unwrap_err();
    let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::CircuitOpen { retry_in, .. } if retry_in > seconds(50)), "{error}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i27_failing_tools_and_protocol_errors_never_open_the_breaker() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    for _ in 0..20 {
        assert!(server.call(tool("fail"), CallOptions::default()).await.unwrap().is_error);
        let error = server.call(tool("error"), CallOptions::default()).await.unwrap_err();
        assert_eq!(error.outcome(), CallOutcome::Rejected);
    }
    assert_eq!(server.status().breaker, BreakerState::Closed);
    assert_eq!(server.status().losses, 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i28_a_server_that_is_removed_and_added_again_starts_with_a_closed_breaker() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let server = bench.add("fragile", &script, unparked());
    open_the_breaker(&server).await;
    bench.supervisor.remove("fragile").unwrap().await;
    let again = bench.add("fragile", &script, unparked());
    again.call(echo(), CallOptions::default()).await.unwrap();
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_frees_its_slot_and_tells_the_server() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let server = bench.add("one", &script, plain());
    ready(&server).await;
    let mut call = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(call.as_mut().now_or_never().is_none());
    server.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(server.status().in_flight, 1);
    drop(call);
    assert_eq!(server.status().in_flight, 0);
    server.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(script.log().cancelled().len(), 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn statuses_and_reports_have_a_form_for_machines() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    server.call(echo(), CallOptions::default()).await.unwrap();
    tokio::time::sleep(seconds(2)).await; // so that the age of the last success shows
    let status = serde_json::to_value(server.status()).unwrap();
    assert_eq!(
        status,
        json!({
            "name": "one", "state": "ready", "generation": 1, "last_generation": 1, "end": null, "degraded": false, "in_flight": 0, "waiting": 0,
            "breaker": "closed", "ever_ready": true, "losses": 0, "last_error": null, "last_ok_ms": 2000,
            "calls": {
                "cancelled": 0, "failed": 0, "lost": 0, "refused": 0, "repeated": 0, "succeeded": 1, "timed_out": 0,
            },
            "received": {
                "broken_frames": 0, "cancels_sent": 0, "dropped_events": 0, "frames": 6,
                "ignored_notifications": 0, "ignored_progress": 0, "late_replies": 0, "refused_requests": 0,
                "stray_notices": 0, "unknown_replies": 0, "unsent_replies": 0,
            },
        })
    );
    let report = serde_json::to_value(&*bench.end().await).unwrap();
    assert_eq!(
        report,
        json!({"elapsed_ms": 0, "unfinished": [], "servers": [{
            "name": "one", "ending": "clean", "calls_cancelled": 0, "tasks_aborted": 0, "exceeded": [],
        }]})
    );
}

#[tokio::test(start_paused = true)]
async fn the_opening_of_the_breaker_is_logged_once_whoever_sees_the_last_loss_first() {
    for call_sees_it_first in [true, false] {
        let (log, _guard) = LogCapture::on_this_thread();
        let mut bench = Bench::new();
        let script = ServerScript::legacy();
        let server = bench.add("one", &script, unparked());
        for _ in 0..5 {
            ready(&server).await;
            let (caller, losses) = (server.clone(), server.status().losses);
            let mut call = JoinSet::new();
            if call_sees_it_first {
                // A task of its own is woken by the session, before the owner hears of the loss.
                call.spawn(async move { caller.call(tool("crash"), CallOptions::default()).await });
                call.join_next().await.unwrap().unwrap().unwrap_err();
            } else {
                let mut call = Box::pin(caller.call(tool("crash"), CallOptions::default()));
                assert!(call.as_mut().now_or_never().is_none());
                until(&server, |status| (status.losses > losses).then_some(())).await;
                call.await.unwrap_err();
            }
        }
        assert_eq!(server.status().breaker, BreakerState::Open);
        let told = log.at(Level::WARN);
        let told = told.iter().filter(|event| event.message.starts_with("calls are refused")).count();
        assert_eq!(told, 1, "the call first: {call_sees_it_first}");
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn f109_progress_starts_the_whole_limit_anew_however_long_the_call_has_waited_before() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let began = Instant::now();
    let call = server.call(tool("slow"), CallOptions::default().with_progress(|_| {}));
    let play = async {
        let peer = connector.next_peer().await;
        tokio::time::sleep(seconds(55)).await; // nearly the whole limit of the call
        accept(&peer).await;
        let request = peer.expect("tools/call").await;
        let report = |progress: u32| {
            peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": request.value["id"], "progress": progress}}))
        };
        tokio::time::sleep(seconds(4)).await; // at work, until just before the first limit
        report(1).await;
        tokio::time::sleep(seconds(50)).await; // at work, within the limit that began anew
        report(2).await;
        peer
    };
    let ((result, elapsed), _peer) = tokio::join!(async { (call.await, began.elapsed()) }, play);
    let error = result.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(elapsed, seconds(55 + 4 + 50 + 60));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_call_has_waited_counts_against_its_limit_until_there_is_progress() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let began = Instant::now();
    let call = server.call(tool("hang"), CallOptions::default());
    let play = async {
        let peer = connector.next_peer().await;
        tokio::time::sleep(seconds(55)).await; // nearly the whole limit of the call
        accept(&peer).await;
        peer
    };
    let ((result, elapsed), _peer) = tokio::join!(async { (call.await, began.elapsed()) }, play);
    assert!(result.unwrap_err().is_timeout());
    assert_eq!(elapsed, seconds(60));
    bench.end().await;
}

/// A server that is never parked, so that only the breaker stands in the way.
fn unparked() -> ServerOptions {
    plain().with_park_after(1000)
}

/// Loses five connections in a row under calls.
async fn open_the_breaker(server: &mcp_lifecycle::ServerHandle) {
    for _ in 0..5 {
        let error = server.call(tool("crash"), CallOptions::default()).await.unwrap_err();
        assert!(error.is_session_gone(), "{error}");
    }
    until(server, |status| (status.breaker == BreakerState::Open).then_some(())).await;
}

/// Plays the handshake of a server that declares everything and has nothing.
async fn accept_all(peer: &mcp_transport::testing::ScriptedPeer) {
    let request = peer.expect("initialize").await;
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "serverInfo": {"name": "scripted", "version": "1"},
    });
    peer.respond(request.id(), result).await;
    peer.expect("notifications/initialized").await;
    for member in ["tools", "resources", "resourceTemplates", "prompts"] {
        let request = peer.receive().await;
        peer.respond(request.id(), json!({member: []})).await;
    }
}
