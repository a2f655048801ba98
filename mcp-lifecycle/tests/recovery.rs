//! What happens when a connection breaks: who learns what, and how the server comes back.
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

use async_trait::async_trait;
use futures_util::future::join_all;
use mcp_lifecycle::{
    BackoffOptions, CallError, Failure, KeepaliveOptions, ParkReason, ServerEvent, Startup, State,
};
use mcp_proto::{ClientCapabilities, Elicit, ElicitResult, ElicitationCapability, Entries, ErrorObject};
use mcp_session::{Asker, CallOptions, CallOutcome, ClientHandler, ListKind};
use mcp_transport::testing::checks::LogCapture;
use mcp_transport::testing::{MemoryConnector, ScriptedPeer, ServerScript};
use mcp_transport::{CloseReason, ConnectError, Exit};
use serde_json::json;
use support::{Bench, accept, accept_initialize, echo, in_seconds, plain, ready, seconds, told, tool, until};
use tokio::time::Instant;
use tracing::Level;

#[tokio::test(start_paused = true)]
async fn f017_a_server_that_dies_in_a_call_ends_it_unknown_at_once_and_comes_back() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let server = bench.add("one", &script, plain());
    server.call(echo(), CallOptions::default()).await.unwrap();
    let began = Instant::now();
    let error = server.call(tool("crash"), CallOptions::default()).await.unwrap_err();
    assert_eq!((error.outcome(), began.elapsed()), (CallOutcome::Unknown, seconds(0)), "{error}");
    assert!(error.is_session_gone() && !error.is_retryable(), "{error}");
    // A proven process that exits comes back at once, and the next call needs no help.
    server.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(began.elapsed(), seconds(0));
    assert_eq!(script.log().runs("crash"), 1);
    assert_eq!(bench.moves("one"), ["connecting", "ready", "connecting", "ready"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f018_i20_a_server_that_dies_between_calls_is_seen_at_once_and_the_next_call_waits_for_it() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let first = connector.next_peer().await;
    accept(&first).await;
    ready(&server).await;
    let began = Instant::now();
    first.close(CloseReason::Exited(Exit::Code(0)));
    let frames = first.transcript().len();
    until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    assert_eq!(began.elapsed(), seconds(0), "i20: without any traffic");

    let (result, _second) = tokio::join!(server.call(echo(), CallOptions::default()), async {
        let second = connector.next_peer().await;
        accept(&second).await;
        answer(&second).await;
        second
    });
    result.unwrap();
    assert_eq!(first.transcript().len(), frames, "nothing is written to the dead one");
    assert_eq!(bench.moves("one"), ["connecting", "ready", "backoff", "connecting", "ready"]);
    bench.end().await;
}

/// Accepts whatever a person is asked.
struct Agreeable;

#[async_trait]
impl ClientHandler for Agreeable {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::form());
        capabilities
    }

    async fn elicit(&self, _: &Asker, _: Elicit) -> Result<ElicitResult, ErrorObject> {
        Ok(ElicitResult::accept(Entries::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn f121_a_server_that_comes_back_has_not_asked_any_less() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain().with_handler(Arc::new(Agreeable)));
    let elicitation = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    let mut answers = Vec::new();
    for _ in 0..2 {
        let peer = connector.next_peer().await;
        accept(&peer).await;
        ready(&server).await;
        for id in 0..6 {
            let asked =
                json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": elicitation});
            peer.send(asked).await;
            answers.push(peer.receive().await.value.get("result").is_some());
        }
        peer.close(CloseReason::Exited(Exit::Code(0)));
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    }
    assert_eq!(answers, [[true; 10].as_slice(), &[false; 2]].concat());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f032_clean_exits_count_towards_the_budget() {
    let (log, _guard) = LogCapture::on_this_thread();
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("leaver", &connector, plain());
    for _ in 0..5 {
        let peer = connector.next_peer().await;
        accept(&peer).await;
        ready(&server).await;
        peer.close(CloseReason::Exited(Exit::Code(0)));
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    }
    assert!(matches!(server.status().state, State::Parked { why: ParkReason::Unproven { attempts: 5 }, .. }));
    let warnings = log.at(Level::WARN);
    // Five losses, and one line for the breaker, which five losses open as well.
    assert_eq!(warnings.len(), 6, "{warnings:?}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f033_a_crash_loop_is_parked_once_withdraws_its_tools_and_is_probed_in_long_intervals() {
    let (log, _guard) = LogCapture::on_this_thread();
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let closed = mcp_transport::Closed::new(CloseReason::Exited(Exit::Code(1)), "boom");
    (0..100).for_each(|_| connector.fail_next(ConnectError::Closed(closed.clone())));
    let server = bench.add_by_hand("loop", &connector, plain());
    until(&server, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
    let moves = bench.moves("loop");
    assert_eq!(moves.iter().filter(|name| **name == "parked").count(), 1);
    assert_eq!(log.at(Level::WARN).len(), 5, "one line for each attempt");
    assert!(server.lists().is_none());

    let began = Instant::now();
    let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
    let CallError::Parked { next_probe, .. } = &error else { panic!("{error}") };
    assert!((seconds(240)..=seconds(360)).contains(next_probe));
    assert!(error.to_string().contains("boom"), "{error}");
    assert_eq!(began.elapsed(), seconds(0), "a parked server refuses at once");

    tokio::time::sleep(seconds(3600)).await; // an hour of probes
    let probes = connector.attempts() - 5;
    assert!((10..=15).contains(&probes), "i22: {probes} probes in an hour");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f052_a_server_that_restarts_for_twenty_seconds_is_back_within_two_minutes() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let served = script.clone();
    let (server, connector) = bench.add_with("one", plain(), move |_| served.start());
    server.call(echo(), CallOptions::default()).await.unwrap();
    // Five attempts in a row, and two early ones of the parked server.
    (0..7).for_each(|_| connector.fail_next(ConnectError::Timeout));
    let lost = Instant::now();
    server.reconnect(1);
    until(&server, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
    assert!(lost.elapsed() < seconds(15), "{:?}", lost.elapsed());
    let refused = server.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(refused.to_string().contains("tried again in"), "{refused}");
    ready(&server).await;
    assert!(lost.elapsed() > seconds(50) && lost.elapsed() < seconds(120), "{:?}", lost.elapsed());
    server.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(connector.attempts(), 9);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f034_a_flapping_server_waits_longer_and_longer_until_it_is_stable() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("flapping", &connector, plain());
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        let lost = Instant::now();
        let peer = connector.next_peer().await;
        longest = longest.max(lost.elapsed());
        accept(&peer).await;
        ready(&server).await;
        let (result, ()) = tokio::join!(server.call(echo(), CallOptions::default()), answer(&peer));
        result.unwrap();
        tokio::time::sleep(seconds(5)).await; // up for five seconds: too short to be stable
        peer.close(CloseReason::EndOfStream);
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    }
    assert!(longest > seconds(30) && longest <= seconds(60), "{longest:?}");

    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    tokio::time::sleep(seconds(31)).await; // up for long enough
    let lost = Instant::now();
    peer.close(CloseReason::EndOfStream);
    connector.next_peer().await;
    assert!(lost.elapsed() <= seconds(1), "{:?}", lost.elapsed());
    bench.end().await;
}

/// More than 1000 lines or 1 MiB on its standard output that are no messages, as of one long line of a log.
#[tokio::test(start_paused = true)]
async fn f021_a_server_that_was_ready_is_not_given_up_for_what_it_writes_between_messages() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let first = connector.next_peer().await;
    accept(&first).await;
    ready(&server).await;
    first.close(CloseReason::NotMcp);
    // Before the handshake as well, once it is known to speak MCP.
    let second = connector.next_peer().await;
    second.expect("initialize").await;
    second.close(CloseReason::NotMcp);
    let third = connector.next_peer().await;
    accept(&third).await;
    ready(&server).await;
    assert_eq!(
        bench.moves("one"),
        ["connecting", "ready", "backoff", "connecting", "backoff", "connecting", "ready"]
    );
    // What has never been ready is no server.
    let connector = MemoryConnector::new();
    let foreign = bench.add_by_hand("foreign", &connector, plain());
    connector.next_peer().await.close(CloseReason::NotMcp);
    let status = foreign.settled(in_seconds(10)).await;
    assert!(matches!(status.state, State::Parked { why: ParkReason::Permanent, .. }), "{status:?}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i08_all_calls_of_a_generation_end_before_the_next_one_is_ready() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let first = connector.next_peer().await;
    accept(&first).await;
    ready(&server).await;
    let calls = join_all((0..3).map(|_| async {
        let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
        assert_eq!(error.outcome(), CallOutcome::Unknown);
        server.status().state
    }));
    let (states, second) = tokio::join!(calls, async {
        for _ in 0..3 {
            first.expect("tools/call").await;
        }
        first.close(CloseReason::EndOfStream);
        let second = connector.next_peer().await;
        accept(&second).await;
        second
    });
    assert!(states.iter().all(|state| *state != State::Ready { generation: 2 }), "{states:?}");
    drop(second);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i14_a_reconnect_asked_for_during_backoff_does_not_hit_the_next_connection() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let first = connector.next_peer().await;
    accept(&first).await;
    let generation = ready(&server).await;
    first.close(CloseReason::EndOfStream);
    until(&server, |status| matches!(status.state, State::Backoff { .. }).then_some(())).await;
    server.reconnect(generation);
    let second = connector.next_peer().await;
    server.reconnect(generation);
    accept(&second).await;
    server.reconnect(generation);
    assert_eq!(ready(&server).await, 2);
    server.reconnect(generation);
    assert_eq!(server.settled(in_seconds(60)).await.state, State::Ready { generation: 2 });
    assert_eq!(connector.attempts(), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i15_many_calls_wake_a_sleeping_server_once() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let served = script.clone();
    let options = plain().with_startup(Startup::OnDemand);
    let (server, connector) = bench.add_with("sleeper", options, move |_| served.start());
    assert!(matches!(server.settled(in_seconds(10)).await.state, State::Dormant { .. }));
    assert_eq!(connector.attempts(), 0);
    for result in join_all((0..20).map(|_| server.call(echo(), CallOptions::default()))).await {
        result.unwrap();
    }
    assert_eq!((connector.attempts(), script.log().runs("echo")), (1, 20));
    assert_eq!(bench.moves("sleeper"), ["dormant", "connecting", "ready"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i18_being_ready_again_brings_exactly_the_lists_just_fetched() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    connector.fail_next(ConnectError::Timeout);
    let server = bench.add_by_hand("one", &connector, plain().with_park_after(1));
    let tools =
        || server.lists().map(|lists| lists.tools.items.iter().map(|t| t.name.clone()).collect::<Vec<_>>());
    assert!(matches!(server.settled(in_seconds(1)).await.state, State::Parked { .. }));
    assert_eq!(tools(), None);
    server.wake();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    let generation = ready(&server).await;
    assert_eq!(tools().unwrap(), ["echo"]);

    server.reconnect(generation);
    let peer = connector.next_peer().await;
    accept_initialize(&peer).await;
    let request = peer.expect("tools/list").await;
    assert_eq!(tools().unwrap(), ["echo"], "until there is a newer one");
    let changed = json!({"tools": [{"name": "other", "inputSchema": {"type": "object"}}]});
    peer.respond(request.id(), changed).await;
    ready(&server).await;
    assert_eq!(tools().unwrap(), ["other"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i24_a_parked_server_has_lost_its_tools_before_anybody_can_see_that_it_is_parked() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain().with_park_after(1));
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    assert!(server.lists().is_some());
    peer.close(CloseReason::EndOfStream);
    let at_once = until(&server, |status| {
        matches!(status.state, State::Parked { .. }).then(|| server.lists().is_none())
    });
    assert!(at_once.await);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f031_a_server_that_stops_answering_is_replaced_and_its_call_ends_at_its_deadline() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("stopped", &connector, probed());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let began = Instant::now();
    let options = CallOptions::default().with_timeout(seconds(7));
    let error = server.call(echo(), options).await.unwrap_err();
    assert!(error.is_timeout() && began.elapsed() == seconds(7), "{error}");
    until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    // The time-out asks for a probe; two without an answer end it.
    assert_eq!(began.elapsed(), seconds(7 + 10 + 10));
    assert!(matches!(server.status().last_error.as_deref(), Some(Failure::Unresponsive { misses: 2 })));
    assert_eq!(server.status().losses, 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f035_late_answers_to_pings_are_signs_of_life() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("late", &connector, probed());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    for _ in 0..10 {
        let ping = peer.expect("ping").await;
        tokio::time::sleep(seconds(12)).await; // two seconds too late
        peer.respond(ping.id(), json!({})).await;
        assert_eq!(peer.expect("notifications/cancelled").await.params()["requestId"], json!(ping.id()));
    }
    assert_eq!(server.status().state, State::Ready { generation: 1 });
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f036_a_server_without_ping_counts_as_alive() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("pingless", &connector, probed());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let began = Instant::now();
    let ping = peer.expect("ping").await;
    peer.respond_error(ping.id(), -32601, "method not found").await;
    // That was a sign of life; from here on it is asked for something that it knows.
    for _ in 1..10 {
        support::answer_tools(&peer).await;
    }
    assert_eq!(began.elapsed(), seconds(600));
    assert!(peer.transcript().iter().filter(|frame| frame.method() == Some("ping")).count() == 1);
    assert_eq!(server.status().state, State::Ready { generation: 1 });
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i21_a_busy_server_is_not_pinged() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("busy", &connector, probed());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let options = CallOptions::default().with_timeout(seconds(600)).with_deadline(in_seconds(600));
    let (result, ()) = tokio::join!(server.call(echo(), options), async {
        let request = peer.expect("tools/call").await;
        tokio::time::sleep(seconds(200)).await; // more than three intervals
        peer.respond(request.id(), json!({"content": []})).await;
    });
    result.unwrap();
    assert!(peer.transcript().iter().all(|frame| frame.method() != Some("ping")));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_time_outs_do_not_bring_a_thousand_pings() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let server = bench.add("hanging", &script, probed());
    for _ in 0..1000 {
        let options = CallOptions::default().with_timeout(Duration::from_millis(10));
        server.call(tool("hang"), options).await.unwrap_err();
    }
    server.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(script.log().cancelled().len(), 1000);
    assert!(script.log().count("ping") <= 2, "{}", script.log().count("ping"));
    assert_eq!(server.status().in_flight, 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn announcements_of_changed_lists_are_handed_on() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    let (of, kind) = told(&mut bench.events, |event| match event {
        ServerEvent::ListChanged { server, kind } => Some((server, kind)),
        ServerEvent::StateChanged { .. } => None,
        other => panic!("{other:?}"),
    })
    .await;
    assert_eq!((&*of, kind), ("one", ListKind::Tools));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f153_five_hundred_servers_that_lose_the_network_come_back_spread() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let backoff = BackoffOptions::default();
    let mut servers = Vec::new();
    for number in 0..500 {
        let options = plain().with_backoff(backoff.clone());
        servers.push(bench.add_by_hand(&format!("server {number}"), &connector, options));
    }
    let mut peers = Vec::new();
    for _ in &servers {
        let peer = connector.next_peer().await;
        accept(&peer).await;
        peers.push(peer);
    }
    for server in &servers {
        ready(server).await;
    }
    peers.iter().for_each(|peer| peer.close(CloseReason::Broken("no network".into())));
    let lost = Instant::now();
    let mut returns = Vec::new();
    for _ in &servers {
        let peer = connector.next_peer().await;
        returns.push(lost.elapsed());
        accept(&peer).await;
        peers.push(peer);
    }
    let busiest = returns
        .iter()
        .map(|from| returns.iter().filter(|at| **at >= *from && **at < *from + seconds(1)).count());
    assert!(busiest.max().unwrap() <= 50);
    assert!(*returns.last().unwrap() <= seconds(21), "{:?}", returns.last());
    for server in &servers {
        ready(server).await;
    }
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f146_a_panic_in_the_task_of_a_connection_ends_its_calls_and_is_a_loss() {
    let (log, _guard) = LogCapture::on_this_thread();
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let spec = mcp_lifecycle::ServerSpec::new("one", Arc::new(support::Panicking(connector.clone())));
    let server = bench.supervisor.add(spec.with_options(plain())).unwrap();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let (result, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
        peer.expect("tools/call").await;
        peer.send_raw("panic").await;
    });
    let error = result.unwrap_err();
    assert!(error.is_session_gone() && error.outcome() == CallOutcome::Unknown, "{error}");
    until(&server, |status| matches!(status.state, State::Backoff { .. }).then_some(())).await;
    assert!(matches!(server.status().last_error.as_deref(), Some(Failure::Panicked)));
    assert_eq!(log.at(Level::ERROR).len(), 1);
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    bench.end().await;
}

fn probed() -> mcp_lifecycle::ServerOptions {
    plain().with_keepalive(KeepaliveOptions::default())
}

/// Answers one call.
async fn answer(peer: &ScriptedPeer) {
    let request = peer.expect("tools/call").await;
    peer.respond(request.id(), json!({"content": []})).await;
}
