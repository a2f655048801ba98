//! Servers with a new configuration, at run time.
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

use futures_util::FutureExt;
use mcp_lifecycle::{
    AddError, BreakerState, CallError, EndReason, FollowEnd, FollowEvent, Interruption, ServerHandle,
    ServerOptions, ServerSpec, Startup, State,
};
use mcp_proto::SubscriptionFilter;
use mcp_session::{CallOptions, CallOutcome, SubscribeOptions};
use mcp_transport::Ending;
use mcp_transport::testing::{MemoryConnector, ServerScript, ToolBehaviour, serve_all};
use support::{Bench, accept, echo, in_seconds, plain, ready, seconds, soon, told_state, tool, until};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Has a server reach a state: with these options, and what is done to its connector.
type Prepare = fn(&MemoryConnector) -> ServerOptions;

/// A connector whose connections behave like `script`, served until the set is dropped.
fn served(script: &ServerScript, peers: &mut JoinSet<()>) -> MemoryConnector {
    let (connector, script) = (MemoryConnector::new(), script.clone());
    let serving = connector.clone();
    peers.spawn(async move { serve_all(&serving, |_| script.start()).await });
    connector
}

fn spec(connector: &MemoryConnector) -> ServerSpec {
    ServerSpec::new("one", Arc::new(connector.clone())).with_options(plain())
}

#[tokio::test(start_paused = true)]
async fn f149_a_replaced_server_finishes_its_calls_and_everybody_else_gets_the_new_one() {
    let mut bench = Bench::new();
    let mut peers = JoinSet::new();
    let old = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(seconds(2)));
    let new = ServerScript::legacy();
    let before = bench.add("one", &old, plain());
    ready(&before).await;
    let mut slow = Box::pin(before.call(tool("slow"), CallOptions::default()));
    assert!(slow.as_mut().now_or_never().is_none());

    let connector = served(&new, &mut peers);
    let after = bench.supervisor.replace(spec(&connector)).unwrap();
    let began = Instant::now();
    // Through the handle of the one that was replaced, and through the new one.
    let (slow, late, later) = tokio::join!(
        slow,
        before.call(echo(), CallOptions::default()),
        after.call(echo(), CallOptions::default())
    );
    slow.unwrap();
    late.unwrap();
    later.unwrap();
    assert_eq!(began.elapsed(), seconds(2), "the new one begins when the old one has ended");
    assert_eq!((old.log().runs("slow"), old.log().runs("echo"), new.log().runs("echo")), (1, 0, 2));
    assert!(old.log().cancelled().is_empty());
    assert_eq!(before.status().state, State::Ready { generation: 2 }, "the handle stands for the new one");
    assert_eq!(bench.moves("one"), ["connecting", "ready", "draining", "stopped", "connecting", "ready"]);
    assert_eq!(bench.supervisor.servers().len(), 1);
    drop(peers);
    let report = bench.end().await;
    assert_eq!(report.servers.len(), 1, "the old one has ended long ago");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_on_to_the_new_server_is_counted_there_and_only_there() {
    let bench = Bench::new();
    let mut peers = JoinSet::new();
    let mut events = bench.supervisor.events();
    let never = MemoryConnector::new();
    let before = bench.add_by_hand("one", &never, plain());
    let _peer = never.next_peer().await;
    // A task of its own, which is woken as soon as the old one begins to stop.
    let caller = before.clone();
    let waiting = tokio::spawn(async move { caller.call(echo(), CallOptions::default()).await });
    while before.status().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let connector = served(&ServerScript::legacy(), &mut peers);
    let after = bench.supervisor.replace(spec(&connector)).unwrap();
    waiting.await.unwrap().unwrap();
    let calls = after.status().calls;
    assert_eq!((calls.succeeded, calls.ended()), (1, 1));
    // The last that the old one has told.
    let old = told_state(&mut events, "stopped").await;
    assert_eq!(old.calls.ended(), 0, "{old:?}");
    drop(peers);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f149_a_call_that_does_not_finish_in_time_says_that_its_server_was_replaced() {
    let mut bench = Bench::new();
    let mut peers = JoinSet::new();
    let old = ServerScript::legacy();
    let before = bench.add("one", &old, plain());
    ready(&before).await;
    let mut hung = Box::pin(before.call(tool("hang"), CallOptions::default()));
    assert!(hung.as_mut().now_or_never().is_none());
    let connector = served(&ServerScript::legacy(), &mut peers);
    let after = bench.supervisor.replace(spec(&connector)).unwrap();
    let began = Instant::now();
    let (hung, called) = tokio::join!(hung, after.call(echo(), CallOptions::default()));
    called.unwrap();
    let error = hung.unwrap_err();
    assert!(matches!(error, CallError::Replaced { outcome: CallOutcome::Unknown, .. }), "{error:?}");
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(old.log().cancelled().len(), 1);
    drop(peers);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f150_of_a_hundred_replacements_only_the_last_one_is_started() {
    let mut bench = Bench::new();
    let mut peers = JoinSet::new();
    let script = ServerScript::legacy();
    let server = bench.add("one", &script, plain());
    ready(&server).await;
    let mut hung = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(hung.as_mut().now_or_never().is_none());
    let connectors: Vec<_> = (0..100).map(|_| served(&script, &mut peers)).collect();
    for connector in &connectors {
        bench.supervisor.replace(spec(connector)).unwrap();
    }
    server.call(echo(), CallOptions::default()).await.unwrap();
    let attempts: Vec<_> = connectors.iter().map(MemoryConnector::attempts).collect();
    assert_eq!((attempts[..99].iter().sum::<usize>(), attempts[99]), (0, 1));
    assert!(matches!(hung.await.unwrap_err(), CallError::Replaced { .. }));
    drop(peers);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_in_any_state_is_replaced_and_the_new_one_begins_anew() {
    let states: [(&str, Prepare); 5] = [
        ("connecting", |_| plain()),
        ("backoff", |connector| {
            (0..10).for_each(|_| connector.fail_next(mcp_transport::ConnectError::Timeout));
            plain()
        }),
        ("parked", |connector| {
            connector.fail_next(mcp_transport::ConnectError::Timeout);
            plain().with_park_after(1)
        }),
        ("dormant", |_| plain().with_startup(Startup::OnDemand)),
        ("disabled", |_| plain().with_startup(Startup::Disabled)),
    ];
    for (state, options) in states {
        let bench = Bench::new();
        let mut peers = JoinSet::new();
        let connector = MemoryConnector::new();
        let options = options(&connector);
        let before = bench.add_by_hand("one", &connector, options);
        until(&before, |status| (status.state.name() == state).then_some(())).await;
        let made = before.status().generation;
        let script = ServerScript::legacy();
        let after = bench.supervisor.replace(spec(&served(&script, &mut peers))).unwrap();
        after.call(echo(), CallOptions::default()).await.unwrap();
        let status = before.status();
        assert_eq!((status.state, status.losses), (State::Ready { generation: made + 1 }, 0), "{state}");
        assert_eq!(status.breaker, BreakerState::Closed);
        drop(peers);
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_is_refused_changes_nothing() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    let broken = spec(&MemoryConnector::new()).with_options(plain().with_attempts(0));
    let refused = bench.supervisor.replace(broken).unwrap_err();
    assert_eq!(refused, AddError::Limit { name: "one".into(), what: "attempts" });
    server.call(echo(), CallOptions::default()).await.unwrap();
    bench.supervisor.shutdown().await;
    let late = bench.supervisor.replace(spec(&MemoryConnector::new())).unwrap_err();
    assert_eq!(late, AddError::ShuttingDown { name: "one".into() });
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i01_shutting_down_in_the_middle_of_a_replacement_ends_both() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    let mut hung = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(hung.as_mut().now_or_never().is_none());
    let connector = MemoryConnector::new();
    bench.supervisor.replace(spec(&connector)).unwrap();
    let began = Instant::now();
    let (hung, report) = tokio::join!(hung, bench.supervisor.shutdown());
    hung.unwrap_err();
    assert_eq!(began.elapsed(), seconds(5));
    let endings: Vec<_> =
        report.servers.iter().map(|server| (server.ending, server.calls_cancelled)).collect();
    assert_eq!(endings, [(Ending::Clean, 1), (Ending::Clean, 0)], "the old one, then the new one");
    assert_eq!(connector.attempts(), 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f151_a_server_removed_while_it_waits_for_the_place_of_another_never_starts() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    let mut hung = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(hung.as_mut().now_or_never().is_none());
    let connector = MemoryConnector::new();
    bench.supervisor.replace(spec(&connector)).unwrap();
    let removal = bench.supervisor.remove("one").unwrap();
    let (hung, removed, called) = tokio::join!(hung, removal, server.call(echo(), CallOptions::default()));
    hung.unwrap_err();
    assert!(removed.is_clean(), "{removed:?}");
    assert!(matches!(called.unwrap_err(), CallError::Removed { outcome: CallOutcome::NotSent, .. }));
    assert_eq!(connector.attempts(), 0);
    assert!(bench.supervisor.server("one").is_none());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_follows_a_server_follows_the_one_that_takes_its_place() {
    let bench = Bench::new();
    let (old, new) = (MemoryConnector::new(), MemoryConnector::new());
    let server = bench.add_by_hand("one", &old, plain());
    let listening = serde_json::json!({"tools": {"listChanged": true}});
    let peer = old.next_peer().await;
    support::accept_initialize_with(&peer, listening.clone()).await;
    support::answer_tools(&peer).await;
    ready(&server).await;
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    let mut following = server.follow(wanted, SubscribeOptions::default());
    assert!(matches!(following.next().await, Some(FollowEvent::Opened { .. })));
    bench.supervisor.replace(spec(&new)).unwrap();
    let again = async {
        let peer = new.next_peer().await;
        support::accept_initialize_with(&peer, listening).await;
        support::answer_tools(&peer).await;
        peer
    };
    let (events, _peer) = tokio::join!(async { (following.next().await, following.next().await) }, again);
    assert!(matches!(events.0, Some(FollowEvent::Interrupted(Interruption::Replaced))), "{events:?}");
    assert!(matches!(events.1, Some(FollowEvent::Reopened { .. })), "{events:?}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f149_a_server_that_is_switched_off_finishes_its_calls_or_has_the_time_of_a_drain() {
    // Switched on again at once, or later: what becomes of its calls is the same.
    let cases = [("slow", 2, true, false), ("hang", 5, false, false), ("hang", 5, false, true)];
    for (name, limit, finishes, is_back) in cases {
        let mut bench = Bench::new();
        let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(seconds(2)));
        let server = bench.add("one", &script, plain());
        ready(&server).await;
        let mut running = Box::pin(server.call(tool(name), CallOptions::default()));
        assert!(running.as_mut().now_or_never().is_none());
        let began = Instant::now();
        server.disable();
        assert_eq!(server.settled(in_seconds(1)).await.state, State::Disabled);
        assert!(is_disabled(&server).await, "new ones are refused at once");
        if is_back {
            server.enable();
        }
        let ended = running.await;
        assert_eq!((ended.is_ok(), began.elapsed()), (finishes, seconds(limit)), "{ended:?}");
        if let Err(error) = ended {
            let says_why = matches!(error, CallError::Disabled { outcome: CallOutcome::Unknown, .. });
            assert!(says_why && !error.is_retryable(), "{error}");
        }
        assert_eq!(script.log().cancelled().len(), usize::from(!finishes));
        server.enable();
        server.call(echo(), CallOptions::default()).await.unwrap();
        assert_eq!(server.status().losses, 0);
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn i14_a_reconnect_that_rejects_a_connection_of_the_old_server_does_not_touch_the_new_one() {
    let mut bench = Bench::new();
    let mut peers = JoinSet::new();
    let before = bench.add("one", &ServerScript::legacy(), plain());
    let seen = ready(&before).await;
    // Several come in between, and none of them makes a connection.
    let connectors: Vec<_> = (0..3).map(|_| served(&ServerScript::legacy(), &mut peers)).collect();
    for connector in &connectors {
        bench.supervisor.replace(spec(connector)).unwrap();
    }
    before.call(echo(), CallOptions::default()).await.unwrap();
    before.reconnect(seen);
    let status = before.settled(in_seconds(60)).await;
    assert_eq!(status.state, State::Ready { generation: seen + 1 });
    assert_eq!(connectors[2].attempts(), 1);
    drop(peers);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_server_to_settle_waits_for_the_one_that_takes_its_place() {
    let mut bench = Bench::new();
    let mut peers = JoinSet::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain()); // nobody answers there
    until(&server, |status| matches!(status.state, State::Connecting { .. }).then_some(())).await;
    let mut settled = Box::pin(server.settled(in_seconds(30)));
    assert!(settled.as_mut().now_or_never().is_none());
    bench.supervisor.replace(spec(&served(&ServerScript::legacy(), &mut peers))).unwrap();
    let status = settled.await;
    assert!(status.state.is_ready(), "{status:?}");
    assert_eq!(bench.moves("one").last(), Some(&"ready"));
    drop(peers);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_is_switched_off_is_seen_to_be() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    let off = spec(&MemoryConnector::new()).with_options(plain().with_startup(Startup::Disabled));
    let mut events = bench.supervisor.events();
    bench.supervisor.replace(off).unwrap();
    assert_eq!(server.settled(in_seconds(10)).await.state, State::Disabled);
    told_state(&mut events, "disabled").await;
    assert_eq!(bench.moves("one"), ["connecting", "ready", "draining", "stopped", "disabled"]);
    bench.end().await;
}

/// The clock is real: what never waits would stop one that is not.
#[tokio::test]
async fn whoever_follows_a_server_whose_successor_is_gone_is_told_that_it_is_over() {
    for shuts_down in [false, true] {
        let bench = Bench::new();
        let connector = MemoryConnector::new();
        let server = bench.add_by_hand("one", &connector, plain());
        let peer = connector.next_peer().await;
        support::accept_initialize_with(&peer, serde_json::json!({"tools": {"listChanged": true}})).await;
        support::answer_tools(&peer).await;
        ready(&server).await;
        let mut wanted = SubscriptionFilter::default();
        wanted.tools_list_changed = true;
        let mut following = server.follow(wanted, SubscribeOptions::default());
        assert!(matches!(following.next().await, Some(FollowEvent::Opened { .. })));
        drop(bench.supervisor.replace(spec(&MemoryConnector::new())).unwrap());
        if !shuts_down {
            bench.supervisor.remove("one").unwrap().await;
        }
        bench.end().await;
        let told = async {
            assert!(matches!(following.next().await, Some(FollowEvent::Interrupted(_))));
            following.next().await
        };
        let told = tokio::time::timeout(seconds(10), told).await.expect("it never waits");
        let ended = server.call(echo(), CallOptions::default()).await.unwrap_err();
        if shuts_down {
            assert!(matches!(told, Some(FollowEvent::Ended(FollowEnd::ShuttingDown))), "{told:?}");
            assert!(matches!(ended, CallError::ShuttingDown { .. }), "{ended:?}");
        } else {
            assert!(matches!(told, Some(FollowEvent::Ended(FollowEnd::Removed))), "{told:?}");
            assert!(matches!(ended, CallError::Removed { .. }), "{ended:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn switching_off_and_on_and_reconnecting_are_orders_like_any_other() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    server.disable();
    assert_eq!(server.settled(in_seconds(1)).await.state, State::Disabled);
    peer.closed().await;
    assert!(is_disabled(&server).await);
    server.enable();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    let generation = ready(&server).await;
    server.reconnect(generation);
    let peer = connector.next_peer().await;
    accept(&peer).await;
    assert_eq!(ready(&server).await, generation + 1);
    bench.end().await;
}

async fn is_disabled(server: &ServerHandle) -> bool {
    matches!(server.call(echo(), CallOptions::default()).await, Err(CallError::Disabled { .. }))
}

#[tokio::test(start_paused = true)]
async fn f149_a_server_that_ends_says_whether_it_was_replaced_removed_or_shut_down() {
    let bench = Bench::new();
    let mut peers = JoinSet::new();
    let mut events = bench.supervisor.events();
    let connector = served(&ServerScript::legacy(), &mut peers);
    let server = bench.add_by_hand("one", &connector, plain());
    ready(&server).await;
    let watch = server.watch();
    let mut ends = async || {
        let (draining, stopped) =
            (told_state(&mut events, "draining").await, told_state(&mut events, "stopped").await);
        assert_eq!(draining.end, stopped.end);
        stopped.end
    };
    assert_eq!(watch.borrow().end, None);
    bench.supervisor.replace(spec(&connector)).unwrap();
    ready(&server).await;
    assert_eq!(ends().await, Some(EndReason::Replaced));
    assert_eq!(watch.borrow().end, Some(EndReason::Replaced));
    assert_eq!(server.status().end, None, "the new one");
    bench.supervisor.remove("one").unwrap().await;
    assert_eq!(ends().await, Some(EndReason::Removed));
    let server = bench.add_by_hand("one", &connector, plain());
    ready(&server).await;
    bench.supervisor.shutdown().await;
    assert_eq!(ends().await, Some(EndReason::ShuttingDown));
    drop(peers);
    bench.end().await;
}

/// Whoever waited on the old server waits on the new one, however many wait there already.
#[tokio::test(start_paused = true)]
async fn a_call_that_goes_on_to_the_new_server_is_not_refused_for_want_of_a_place() {
    let bench = Bench::new();
    let options = plain().with_queued(1);
    let before = bench.add_by_hand("one", &MemoryConnector::new(), options.clone());
    let mut first = Box::pin(before.call(echo(), CallOptions::default()));
    assert!(first.as_mut().now_or_never().is_none());
    let connector = MemoryConnector::new();
    let after = bench.supervisor.replace(spec(&connector).with_options(options)).unwrap();
    let mut second = Box::pin(after.call(echo(), CallOptions::default()));
    assert!(second.as_mut().now_or_never().is_none());
    let is_full = async |waiting| {
        assert_eq!(after.status().waiting, waiting);
        let third = after.call(echo(), CallOptions::default()).await;
        assert!(matches!(third, Err(CallError::Overloaded { .. })), "{third:?}");
    };
    is_full(1).await;
    let (first, second, _peer) = tokio::join!(first, second, async {
        let peer = connector.next_peer().await;
        // The first is told that the old one has ended, and waits for the new one.
        soon(|| after.status().waiting == 2).await;
        is_full(2).await;
        accept(&peer).await;
        for _ in 0..2 {
            let request = peer.expect("tools/call").await;
            peer.respond(request.id(), serde_json::json!({"content": []})).await;
        }
        peer
    });
    first.unwrap();
    second.unwrap();
    bench.end().await;
}
