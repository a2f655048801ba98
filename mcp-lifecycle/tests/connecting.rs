//! How a server becomes ready, and what a failed start leaves behind: nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::any::Any;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle::{
    AddError, CallError, Failure, ParkReason, RecessOptions, ServerHandle, ServerOptions, ServerSpec, Stage,
    State,
};
use mcp_proto::{Era, ListTools};
use mcp_session::{CallOptions, CallOutcome, ListLimits, SessionOptions};
use mcp_transport::process::SpawnError;
use mcp_transport::testing::{MemoryConnector, MemoryOptions, ServerScript};
use mcp_transport::{CloseReason, Closed, ConnectError, Exit};
use serde_json::json;
use support::{
    Bench, Unreachable, accept, accept_initialize, accept_initialize_with, echo, in_seconds, plain, ready,
    seconds, tool, until,
};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

#[tokio::test(start_paused = true)]
async fn a_server_of_each_era_becomes_ready_with_its_lists_and_answers() {
    for (script, era) in [(ServerScript::legacy(), Era::Legacy), (ServerScript::modern(), Era::Modern)] {
        let mut bench = Bench::new();
        let script = script.with_page_size(2);
        let server = bench.add("one", &script, ServerOptions::default());
        assert!(matches!(server.settled(in_seconds(10)).await.state, State::Ready { generation: 1 }));
        let lists = server.lists().unwrap();
        assert_eq!(lists.tools.items.len(), 6);
        assert_eq!(lists.resources.items.len(), 3);
        assert_eq!(lists.templates.items.len(), 1);
        assert_eq!(lists.prompts.items.len(), 2);
        assert_eq!(server.peer().unwrap().era, era);
        server.call(echo(), CallOptions::default()).await.unwrap();
        let listed = server.list::<ListTools>(CallOptions::default(), ListLimits::default()).await.unwrap();
        assert_eq!(listed.items.len(), 6);
        assert_eq!(bench.moves("one"), ["connecting", "ready"]);
        assert_eq!(script.log().violations(), [""; 0]);
        assert!(bench.end().await.is_clean());
    }
}

// V-20: calls wait until the handshake is over.
#[tokio::test(start_paused = true)]
async fn f009_a_slow_start_is_not_killed_and_waiting_calls_keep_their_deadlines() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("slow", &connector, plain());
    let began = Instant::now();
    let impatient = CallOptions::default().with_timeout(seconds(3));
    let (early, late, _peer) = tokio::join!(
        async { (server.call(echo(), impatient).await, began.elapsed()) },
        server.call(echo(), CallOptions::default().with_timeout(seconds(60))),
        async {
            let peer = connector.next_peer().await;
            tokio::time::sleep(seconds(59)).await; // nothing happens for 59 s: that is the fault
            accept(&peer).await;
            let request = peer.expect("tools/call").await;
            peer.respond(request.id(), serde_json::json!({"content": []})).await;
            peer
        }
    );
    let (early, waited) = early;
    let early = early.unwrap_err();
    assert!(early.is_timeout() && early.outcome() == CallOutcome::NotSent, "{early}");
    assert_eq!(waited, seconds(3));
    late.unwrap();
    assert_eq!(connector.attempts(), 1);
    assert_eq!(bench.moves("slow"), ["connecting", "ready"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f012_a_server_that_never_answers_the_handshake_is_given_up_at_the_limit() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("mute", &connector, plain());
    let began = Instant::now();
    let peer = connector.next_peer().await;
    until(&server, |status| matches!(status.state, State::Backoff { .. }).then_some(())).await;
    assert_eq!(began.elapsed(), seconds(60));
    assert!(matches!(
        server.status().last_error.as_deref(),
        Some(Failure::Timeout { stage: Stage::Handshake, .. })
    ));
    peer.closed().await;
    assert_eq!(bench.moves("mute"), ["connecting", "backoff"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i19_a_list_that_never_comes_fails_a_reconnect_at_the_same_deadline() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("half", &connector, plain());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    server.reconnect(ready(&server).await);
    let peer = connector.next_peer().await;
    let began = Instant::now();
    accept_initialize(&peer).await;
    until(&server, |status| matches!(status.state, State::Backoff { .. }).then_some(())).await;
    assert_eq!(began.elapsed(), seconds(60));
    assert!(matches!(
        server.status().last_error.as_deref(),
        Some(Failure::Timeout { stage: Stage::Lists, .. })
    ));
    assert_eq!(bench.moves("half"), ["connecting", "ready", "connecting", "backoff"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f014_a_server_silent_to_the_probe_is_opened_as_legacy_and_never_probed_again() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("old", &connector, auto());
    let began = Instant::now();
    let peer = connector.next_peer().await;
    peer.expect("server/discover").await;
    accept(&peer).await;
    let generation = ready(&server).await;
    assert_eq!(began.elapsed(), seconds(5));

    server.reconnect(generation);
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    assert_eq!(began.elapsed(), seconds(5), "the second time it is not probed");
    assert_eq!(bench.moves("old"), ["connecting", "ready", "connecting", "ready"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f015_a_server_killed_by_the_probe_is_restarted_once_and_never_probed_again() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy().with_crash_before_initialize(Exit::Code(3));
    let served = script.clone();
    let (server, connector) = bench.add_with("old", auto(), move |_| served.start());
    let began = Instant::now();
    let generation = ready(&server).await;
    assert_eq!((generation, began.elapsed()), (2, seconds(0)), "one restart, at once");
    assert_eq!(script.log().count("server/discover"), 1);

    server.reconnect(generation);
    let status = server.settled(in_seconds(10)).await;
    assert_eq!(status.state, State::Ready { generation: 3 });
    assert_eq!(script.log().count("server/discover"), 1);
    assert_eq!(connector.attempts(), 3);
    assert_eq!(server.status().losses, 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn v35_a_modern_server_replaced_by_a_legacy_one_is_probed_again() {
    let mut bench = Bench::new();
    let (modern, legacy) = (ServerScript::modern(), ServerScript::legacy());
    let scripts = [modern.clone(), legacy.clone()];
    let (server, _) = bench.add_with("both", auto(), move |number| scripts[number.min(1)].start());
    let generation = ready(&server).await;
    assert_eq!(server.peer().unwrap().era, Era::Modern);
    server.reconnect(generation);
    server.settled(in_seconds(60)).await;
    server.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(server.peer().unwrap().era, Era::Legacy);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f134_a_permanent_failure_parks_at_once_and_leaves_nothing() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let error = SpawnError::NotFound { command: "no-such-server".into() };
    connector.fail_next(ConnectError::Spawn(error));
    let server = bench.add_by_hand("missing", &connector, plain());
    let status = server.settled(in_seconds(1)).await;
    assert!(matches!(status.state, State::Parked { why: ParkReason::Permanent, .. }), "{status:?}");
    tokio::time::sleep(seconds(200)).await; // no retry may come within this time: a probe comes after 240 s
    assert_eq!(connector.attempts(), 1);
    let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("no-such-server"), "{error}");
    assert_eq!(bench.moves("missing"), ["connecting", "parked"]);
    // Nobody else is running but the root task, the actor and this test.
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f134_every_failed_attempt_leaves_nothing_but_its_owner() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let closed = Closed::new(CloseReason::Exited(Exit::Code(1)), "boom");
    for error in [
        ConnectError::Timeout,
        ConnectError::Closed(closed),
        ConnectError::Spawn(SpawnError::ResourceLimit { command: "x".into(), what: "descriptors" }),
    ] {
        connector.fail_next(error);
    }
    let server = bench.add_by_hand("failing", &connector, plain().with_park_after(3));
    until(&server, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
    assert_eq!(connector.attempts(), 3);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 2, "root task and actor");
    bench.end().await;
}

/// How far a connection gets before something happens to its server.
#[derive(Debug, Clone, Copy)]
enum Stall {
    Opening,
    Writing,
    Reading,
    SecondPage,
}

const STALLS: [Stall; 4] = [Stall::Opening, Stall::Writing, Stall::Reading, Stall::SecondPage];

#[tokio::test(start_paused = true)]
async fn the_lists_are_asked_for_in_one_go_but_never_more_at_once_than_calls_may_be() {
    let lists = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
    for at_once in [1, 2, 4, 64] {
        let bench = Bench::new();
        let connector = MemoryConnector::new();
        let options = plain().with_in_flight(NonZeroUsize::new(at_once).unwrap());
        let server = bench.add_by_hand("one", &connector, options);
        let peer = connector.next_peer().await;
        accept_initialize_with(&peer, json!({"tools": {}, "resources": {}, "prompts": {}})).await;
        for expected in lists.chunks(at_once) {
            let mut asked = Vec::new();
            while let Ok(request) = timeout(seconds(1), peer.receive()).await {
                asked.push(request);
            }
            assert_eq!(asked.iter().filter_map(|request| request.method()).collect::<Vec<_>>(), expected);
            for request in asked {
                let page = json!({"tools": [], "resources": [], "resourceTemplates": [], "prompts": []});
                peer.respond(request.id(), page).await;
            }
        }
        ready(&server).await;
        bench.end().await;
    }
}

/// Adds a server and brings its connection to the given stage. What is returned keeps it there.
async fn stalled_at(stage: Stall, bench: &Bench) -> (ServerHandle, MemoryConnector, Vec<Box<dyn Any>>) {
    let window = if let Stall::Writing = stage { 0 } else { 64 };
    let connector = MemoryConnector::with_options(MemoryOptions::default().with_window(window));
    let hold = matches!(stage, Stall::Opening).then(|| connector.hold());
    let server = bench.add_by_hand("stalled", &connector, plain());
    if let Some(hold) = hold {
        while connector.attempts() == 0 {
            tokio::task::yield_now().await;
        }
        return (server, connector, vec![Box::new(hold)]);
    }
    let peer = connector.next_peer().await;
    match stage {
        Stall::Writing => {
            while peer.queued() == 0 {
                tokio::task::yield_now().await;
            }
        }
        Stall::SecondPage => {
            accept_initialize(&peer).await;
            let page = peer.expect("tools/list").await;
            peer.respond(page.id(), json!({"tools": [], "nextCursor": "2"})).await;
            peer.expect("tools/list").await;
        }
        _ => drop(peer.expect("initialize").await),
    }
    (server, connector, vec![Box::new(peer)])
}

#[tokio::test(start_paused = true)]
async fn f133_shutdown_at_every_stage_of_connecting_leaves_nothing() {
    for stage in STALLS {
        let mut bench = Bench::new();
        let (server, connector, kept) = stalled_at(stage, &bench).await;
        let began = Instant::now();
        bench.supervisor.shutdown().await;
        assert_eq!(began.elapsed(), seconds(0), "{stage:?}");
        assert_eq!(bench.moves("stalled"), ["connecting", "draining", "stopped"], "{stage:?}");
        assert_eq!(connector.attempts(), 1);
        assert_eq!(server.lists().map(|_| ()), None);
        drop(kept);
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn f151_a_server_removed_or_switched_off_while_connecting_never_comes_back() {
    for stage in STALLS {
        for is_removed in [true, false] {
            let mut bench = Bench::new();
            let (server, connector, kept) = stalled_at(stage, &bench).await;
            if is_removed {
                let report = bench.supervisor.remove("stalled").unwrap().await;
                assert_eq!(report.calls_cancelled, 0);
                assert!(bench.supervisor.server("stalled").is_none());
                let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
                assert!(matches!(error, CallError::Removed { .. }), "{error}");
            } else {
                server.disable();
                assert_eq!(server.settled(in_seconds(1)).await.state, State::Disabled);
                let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
                assert!(matches!(error, CallError::Disabled { .. }), "{error}");
            }
            drop(kept);
            tokio::time::sleep(seconds(1000)).await; // long enough for any retry
            assert_eq!(connector.attempts(), 1, "{stage:?}");
            assert!(!bench.moves("stalled").contains(&"ready"), "{stage:?}");
            bench.end().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f151_a_server_switched_off_in_the_moment_it_becomes_ready_shows_no_tools() {
    let bench = Bench::new();
    let connector = MemoryConnector::with_options(MemoryOptions::default().with_inbound(1));
    let server = bench.add_by_hand("one", &connector, plain());
    let peer = connector.next_peer().await;
    accept_initialize(&peer).await;
    let request = peer.expect("tools/list").await;
    peer.respond(request.id(), json!({"tools": []})).await;
    // There is room for this only when the answer has been taken: the connection is ready from then
    // on, and its owner has not been told. Tasks take turns, so this one is before the owner.
    let (handle, mut tasks) = (server.clone(), JoinSet::new());
    tasks.spawn(async move {
        peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
        handle.disable();
        peer.closed().await;
    });
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(server.settled(in_seconds(1)).await.state, State::Disabled);
    assert!(server.lists().is_none() && server.peer().is_none());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f016_connections_are_opened_a_few_at_a_time_and_in_order() {
    let bench = Bench::new();
    let connectors: Vec<_> = (0..40).map(|_| MemoryConnector::new()).collect();
    let holds: Vec<_> = connectors.iter().map(MemoryConnector::hold).collect();
    let servers: Vec<_> = connectors
        .iter()
        .enumerate()
        .map(|(number, connector)| bench.add_by_hand(&format!("server {number}"), connector, plain()))
        .collect();
    let attempts = || connectors.iter().map(MemoryConnector::attempts).collect::<Vec<_>>();
    tokio::time::sleep(seconds(1)).await; // everything that can happen has happened
    let expected: Vec<_> = (0..40).map(|number| usize::from(number < 16)).collect();
    assert_eq!(attempts(), expected);

    let served = connectors.clone();
    let mut peers = tokio::task::JoinSet::new();
    for connector in served {
        peers.spawn(async move {
            let peer = connector.next_peer().await;
            accept(&peer).await;
            peer.closed().await;
        });
    }
    drop(holds);
    for server in &servers {
        ready(server).await;
    }
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn names_are_unique_and_limits_make_sense() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    bench.add_by_hand("one", &connector, plain());
    let again = ServerSpec::new("one", Arc::new(connector.clone()));
    assert_eq!(bench.supervisor.add(again).unwrap_err(), AddError::Duplicate { name: "one".into() });
    let never = ServerSpec::new("two", Arc::new(connector)).with_options(plain().with_attempts(0));
    let error = bench.supervisor.add(never).unwrap_err();
    assert_eq!(error, AddError::Limit { name: "two".into(), what: "attempts" });
    bench.end().await;
}

fn auto() -> ServerOptions {
    plain().with_session(SessionOptions::default())
}

/// Adds servers at addresses where nobody answers.
fn add_unreachable(bench: &Bench, number: usize) {
    for number in 0..number {
        let spec = ServerSpec::new(format!("unreachable {number}"), Arc::new(Unreachable));
        bench.supervisor.add(spec.with_options(plain().with_connect_limit(seconds(10)))).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn p09_p10_servers_that_cannot_be_reached_keep_no_others_out() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let known = bench.add("known", &script, plain());
    let sleeper = bench.add("sleeper", &script, plain().with_recess(rest_after(seconds(600))));
    known.call(echo(), CallOptions::default()).await.unwrap();
    sleeper.call(echo(), CallOptions::default()).await.unwrap();
    until(&sleeper, |status| matches!(status.state, State::Dormant { .. }).then_some(())).await;
    add_unreachable(&bench, 100);
    let began = Instant::now();
    let fresh = bench.add("fresh", &script, plain());

    known.call(tool("crash"), CallOptions::default()).await.unwrap_err();
    until(&known, |status| (status.state == State::Ready { generation: 2 }).then_some(())).await;
    assert!(began.elapsed() <= seconds(2), "after a crash: {:?}", began.elapsed());
    let ordered = Instant::now();
    known.reconnect(2);
    until(&known, |status| (status.state == State::Ready { generation: 3 }).then_some(())).await;
    sleeper.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(ordered.elapsed(), seconds(0), "on request");
    // Nobody knows that this one can be reached: it takes its turn, which each of the others gives up soon.
    ready(&fresh).await;
    assert!(began.elapsed() <= seconds(7), "for the first time: {:?}", began.elapsed());
    bench.end().await;
}

fn rest_after(idle: Duration) -> RecessOptions {
    RecessOptions::default().with_idle(Some(idle))
}
