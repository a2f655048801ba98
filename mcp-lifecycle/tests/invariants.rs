//! What must hold of the owner as a whole, whatever its servers do; one test for each invariant.
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

use futures_util::future::join_all;
use mcp_lifecycle::{
    AddError, KeepaliveOptions, ServerOptions, ServerSpec, Startup, State, Supervisor, SupervisorOptions,
};
use mcp_session::CallOptions;
use mcp_transport::ConnectError;
use mcp_transport::testing::{MemoryConnector, ServerScript};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use support::{
    Bench, CloseFault, Faulty, accept, assert_quiescent, echo, in_seconds, milliseconds, plain, ready,
    seconds, tool,
};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn i03_a_name_that_is_added_again_and_again_has_one_actor_and_one_ladder() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    (0..1000).for_each(|_| connector.fail_next(ConnectError::Timeout));
    let before = Handle::current().metrics().num_alive_tasks();
    let mut added = 0;
    for _ in 0..5 {
        let adding = (0..50).map(|_| async {
            tokio::task::yield_now().await;
            bench.supervisor.add(ServerSpec::new("one", Arc::new(connector.clone())).with_options(plain()))
        });
        for result in join_all(adding).await {
            match result {
                Ok(_) => added += 1,
                Err(error) => assert_eq!(error, AddError::Duplicate { name: "one".into() }),
            }
        }
        assert!(Handle::current().metrics().num_alive_tasks() <= before + 2, "its actor and its connection");
    }
    assert_eq!(added, 1, "the first one alone");
    let server = bench.supervisor.server("one").unwrap();
    assert!(matches!(server.settled(in_seconds(60)).await.state, State::Parked { .. }));
    assert_eq!(connector.attempts(), 5, "one ladder");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i04_a_probe_ends_what_it_has_begun_and_nothing_else() {
    let mut bench = Bench::new();
    let neighbour = bench.add("neighbour", &ServerScript::legacy(), plain());
    ready(&neighbour).await;
    let before = Handle::current().metrics().num_alive_tasks();
    for outcome in ["ready", "fails", "takes too long", "is given up"] {
        let connector = MemoryConnector::new();
        if outcome == "fails" {
            connector.fail_next(ConnectError::Timeout);
        }
        let options = plain().with_park_after(1).with_connect_limit(seconds(5));
        let probe = Supervisor::start(&Handle::current(), SupervisorOptions::default());
        let probed =
            probe.add(ServerSpec::new("probed", Arc::new(connector.clone())).with_options(options)).unwrap();
        let peer = match outcome {
            "ready" => {
                let peer = connector.next_peer().await;
                accept(&peer).await;
                Some(peer)
            }
            "fails" => None,
            _ => {
                let peer = connector.next_peer().await;
                peer.expect("initialize").await;
                Some(peer)
            }
        };
        if outcome == "is given up" {
            drop(probe);
        } else {
            let expected = if outcome == "ready" { "ready" } else { "parked" };
            assert_eq!(probed.settled(in_seconds(60)).await.state.name(), expected, "{outcome}");
            assert!(probe.shutdown().await.is_clean(), "{outcome}");
        }
        assert_eq!(probed.status().state, State::Stopped, "{outcome}");
        if let Some(peer) = peer {
            peer.closed().await;
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Handle::current().metrics().num_alive_tasks(), before, "{outcome}");
        neighbour.call(echo(), CallOptions::default()).await.unwrap();
    }
    bench.end().await;
}

/// If a timer were set to the past, the clock would never move on, and the test never end.
#[tokio::test(start_paused = true)]
async fn i22_a_day_in_any_state_takes_as_many_steps_as_its_timers_ask_for() {
    let day = seconds(24 * 3600);
    let mut bench = Bench::new();
    let keepalive = KeepaliveOptions::default().with_interval(Some(seconds(60)));
    let script = ServerScript::legacy();
    let served = script.clone();
    let (idle, healthy) = bench.add_with("ready", plain().with_keepalive(keepalive), move |_| served.start());
    let failing = MemoryConnector::new();
    (0..10_000).for_each(|_| failing.fail_next(ConnectError::Timeout));
    bench.add_by_hand("parked", &failing, plain());
    let mute = MemoryConnector::new();
    bench.add_by_hand("connecting", &mute, plain().with_park_after(u32::MAX));
    let mut ignoring = JoinSet::new();
    let ignored = mute.clone();
    ignoring.spawn(async move {
        loop {
            ignored.next_peer().await.closed().await;
        }
    });
    bench.add_by_hand("dormant", &MemoryConnector::new(), plain().with_startup(Startup::OnDemand));
    ready(&idle).await;
    let began = Instant::now();
    tokio::time::sleep(day).await;
    assert_eq!(began.elapsed(), day);
    assert_eq!(healthy.attempts(), 1);
    let pings = script.log().count("ping");
    assert!((1430..=1441).contains(&pings), "{pings} pings in a day of minutes");
    let probes = failing.attempts();
    assert!((24 * 3600 / 360..=24 * 3600 / 240 + 5).contains(&probes), "{probes} probes of a parked server");
    // Each attempt has its connect limit, and then waits at most as long as the backoff's cap.
    let attempts = mute.attempts();
    assert!((24 * 3600 / 120..=24 * 3600 / 60 + 1).contains(&attempts), "{attempts} attempts");
    drop(ignoring);
    bench.end().await;
}

/// What one server of a shutdown does wrong, if anything.
#[derive(Debug, Clone, Copy)]
struct Misbehaviour {
    close: Option<CloseFault>,
    /// Calls that never end.
    hanging: usize,
    /// How far it gets.
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    Failing,
    Parked,
    Ready,
}

fn misbehaviour() -> impl Strategy<Value = Misbehaviour> {
    let close = prop_oneof![
        2 => Just(None),
        1 => Just(Some(CloseFault::Hangs)),
        1 => Just(Some(CloseFault::IgnoresTime)),
        1 => Just(Some(CloseFault::Panics)),
        2 => (0_u64..15_000).prop_map(|millis| Some(CloseFault::Takes(milliseconds(millis)))),
    ];
    let stage = prop_oneof![
        1 => Just(Stage::Connecting),
        1 => Just(Stage::Failing),
        1 => Just(Stage::Parked),
        4 => Just(Stage::Ready),
    ];
    (close, 0_usize..3, stage).prop_map(|(close, hanging, stage)| Misbehaviour { close, hanging, stage })
}

/// Brings a server to where it is when the shutdown begins.
async fn begin(bench: &mut Bench, name: String, behaviour: Misbehaviour, callers: &mut JoinSet<()>) {
    let inner = MemoryConnector::new();
    let (park_after, failures) = match behaviour.stage {
        Stage::Failing => (100, 100),
        Stage::Parked => (1, 1),
        Stage::Connecting | Stage::Ready => (5, 0),
    };
    (0..failures).for_each(|_| inner.fail_next(ConnectError::Timeout));
    let options: ServerOptions = plain().with_park_after(park_after);
    let server = match behaviour.close {
        None => bench.add_by_hand(&name, &inner, options),
        Some(fault) => {
            let connector = Arc::new(Faulty { inner: inner.clone(), fault });
            bench.supervisor.add(ServerSpec::new(name, connector).with_options(options)).unwrap()
        }
    };
    match behaviour.stage {
        Stage::Connecting => {
            let peer = inner.next_peer().await;
            callers.spawn(async move {
                peer.expect("initialize").await;
                peer.closed().await;
            });
        }
        Stage::Failing => {}
        Stage::Parked => {
            server.settled(in_seconds(60)).await;
        }
        Stage::Ready => {
            let peer = inner.next_peer().await;
            accept(&peer).await;
            ready(&server).await;
            callers.spawn(async move { drop(peer.closed().await) });
            for _ in 0..behaviour.hanging {
                let server = server.clone();
                callers.spawn(async move {
                    let result = server.call(tool("hang"), CallOptions::default()).await;
                    assert!(result.is_err(), "nobody answers it");
                });
            }
        }
    }
}

#[test]
fn i36_a_shutdown_is_over_in_time_whatever_its_servers_do() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) };
    let cases = (prop::collection::vec(misbehaviour(), 1..6), 0_u64..6000, 100_u64..12_000);
    let holds = TestRunner::new(config).run(&cases, |(behaviours, drain, total)| {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(shut_down(&behaviours, milliseconds(drain), milliseconds(total)));
        Ok(())
    });
    holds.unwrap_or_else(|error| panic!("{error}"));
}

async fn shut_down(behaviours: &[Misbehaviour], drain: Duration, total: Duration) {
    let mut bench = Bench::with(SupervisorOptions::default().with_drain(drain).with_total(total));
    let mut callers = JoinSet::new();
    for (number, behaviour) in behaviours.iter().enumerate() {
        begin(&mut bench, format!("server {number}"), *behaviour, &mut callers).await;
    }
    let began = Instant::now();
    let report = bench.supervisor.shutdown().await;
    let elapsed = began.elapsed();
    assert!(elapsed <= total + milliseconds(100), "{elapsed:?}: {report:?}");
    assert_eq!(report.servers.len(), behaviours.len());
    // Nobody is left waiting for what will not come.
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    assert_eq!(began.elapsed(), elapsed, "something outlives the shutdown");
    bench.end().await;
    assert_quiescent().await;
}
