//! Servers that are let go although they are well: nobody uses them, or they are old.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use mcp_lifecycle::{
    CallError, DormantReason, FollowEvent, Interruption, KeepaliveOptions, RecessOptions, ServerHandle,
    ServerOptions, State,
};
use mcp_proto::SubscriptionFilter;
use mcp_session::{CallOptions, CallOutcome, SubscribeOptions, SubscriptionEvent};
use mcp_transport::testing::{MemoryConnector, ServerScript, ToolBehaviour};
use serde_json::json;
use support::{Bench, echo, milliseconds, plain, ready, seconds, tool, until};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

const MINUTE: Duration = Duration::from_secs(60);

/// What a person wants of a server.
type Order = fn(&ServerHandle);

fn idle(limit: Duration) -> ServerOptions {
    plain().with_recess(RecessOptions::default().with_idle(Some(limit)))
}

fn aged(limit: Duration) -> ServerOptions {
    plain().with_recess(RecessOptions::default().with_age(Some(limit)))
}

async fn dormant(server: &ServerHandle) -> DormantReason {
    until(server, |status| match status.state {
        State::Dormant { why } => Some(why),
        _ => None,
    })
    .await
}

fn tools(server: &ServerHandle) -> usize {
    server.lists().map_or(0, |lists| lists.tools.items.len())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_nobody_uses_is_stopped_keeps_its_lists_and_is_started_once_by_many_calls() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let served = script.clone();
    let (server, connector) = bench.add_with("one", idle(MINUTE), move |_| served.start());
    ready(&server).await;
    sleep(seconds(30)).await; // nobody needs it
    server.call(echo(), CallOptions::default()).await.unwrap();
    let last = Instant::now();
    assert_eq!(dormant(&server).await, DormantReason::Idle);
    assert_eq!(last.elapsed(), MINUTE, "from the end of the last call");
    assert_eq!(tools(&server), 6, "a sleeping server still offers its tools");
    sleep(100 * MINUTE).await; // nobody needs it now either
    assert_eq!(connector.attempts(), 1);

    for result in join_all((0..20).map(|_| server.call(echo(), CallOptions::default()))).await {
        result.unwrap();
    }
    assert_eq!((connector.attempts(), script.log().runs("echo")), (2, 21));
    assert_eq!(
        bench.moves("one"),
        ["connecting", "ready", "dormant", "connecting", "ready"],
        "no loss, no backoff"
    );
    assert_eq!(server.status().losses, 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i23_a_call_in_the_moment_in_which_the_limit_passes_never_fails() {
    let limit = MINUTE;
    // At the limit in both orders of the two timers, and one millisecond beside it.
    for (at, waits_first) in
        [(limit - milliseconds(1), true), (limit, true), (limit, false), (limit + milliseconds(1), true)]
    {
        let mut bench = Bench::new();
        let script = ServerScript::legacy();
        let served = script.clone();
        let (server, connector) = bench.add_with("one", idle(limit), move |_| served.start());
        let (caller, added) = (server.clone(), Instant::now());
        let call = async move {
            if !waits_first {
                ready(&caller).await;
            }
            sleep_until(added + at).await;
            caller.call(echo(), CallOptions::default()).await
        };
        tokio::spawn(call).await.unwrap().unwrap();
        assert_eq!(script.log().runs("echo"), 1);
        assert!(connector.attempts() <= 2);
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_call_keeps_a_server_awake() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(3 * MINUTE));
    let server = bench.add("one", &script, idle(MINUTE));
    let options = CallOptions::default().with_timeout(5 * MINUTE).with_deadline(Instant::now() + 5 * MINUTE);
    server.call(tool("slow"), options).await.unwrap();
    let ended = Instant::now();
    assert_eq!(server.status().state, State::Ready { generation: 1 });
    dormant(&server).await;
    assert_eq!(ended.elapsed(), MINUTE);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_open_subscription_keeps_a_server_awake_and_its_end_does_not_stop_it_at_once() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, idle(MINUTE));
    let peer = connector.next_peer().await;
    support::accept_initialize_with(&peer, json!({"tools": {"listChanged": true}})).await;
    support::answer_tools(&peer).await;
    ready(&server).await;
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    let mut subscription = server.subscribe(wanted, SubscribeOptions::default()).await.unwrap();
    sleep(10 * MINUTE).await; // it is told nothing, and waits all the same
    assert_eq!(server.status().state, State::Ready { generation: 1 });
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    assert!(matches!(subscription.next().await, Some(SubscriptionEvent::ListChanged(_))));
    support::answer_tools(&peer).await; // it is fetched anew
    sleep(MINUTE / 2).await; // half-way to the next look
    drop(subscription);
    let ended = Instant::now();
    dormant(&server).await;
    assert!(ended.elapsed() >= MINUTE && ended.elapsed() <= 2 * MINUTE, "{:?}", ended.elapsed());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_no_look_has_seen_is_a_use_of_its_server() {
    let limit = 10 * MINUTE;
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, idle(limit));
    let peer = connector.next_peer().await;
    support::accept_initialize_with(&peer, json!({"tools": {"listChanged": true}})).await;
    support::answer_tools(&peer).await;
    ready(&server).await;
    let up = Instant::now();
    sleep_until(up + 9 * MINUTE).await;
    let (answer, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
        let request = peer.expect("tools/call").await;
        peer.respond(request.id(), json!({"content": []})).await;
    });
    answer.unwrap();
    // Looks are due 10 and 19 minutes after it is up: this is between them.
    sleep_until(up + 11 * MINUTE).await;
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    let subscription = server.subscribe(wanted, SubscribeOptions::default()).await.unwrap();
    sleep_until(up + 18 * MINUTE).await;
    drop(subscription);
    let ended = Instant::now();
    dormant(&server).await;
    assert!(ended.elapsed() >= limit && ended.elapsed() <= 2 * limit, "{:?}", ended.elapsed());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_server_that_nobody_uses_rests() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), aged(MINUTE));
    ready(&server).await;
    assert_eq!(dormant(&server).await, DormantReason::Age);
    server.call(echo(), CallOptions::default()).await.unwrap();
    assert_eq!(server.status().state, State::Ready { generation: 2 });
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i23_an_old_server_in_use_finishes_its_calls_and_new_ones_wait_for_the_next_connection() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(seconds(30)));
    let served = script.clone();
    let (server, connector) = bench.add_with("one", aged(MINUTE), move |_| served.start());
    ready(&server).await;
    sleep(seconds(50)).await; // ten seconds before it is old
    let mut running = Box::pin(server.call(tool("slow"), CallOptions::default()));
    assert!(running.as_mut().now_or_never().is_none());
    sleep(seconds(11)).await; // one second after
    assert_eq!(server.status().state, State::Connecting { generation: 2, attempt: 1 });
    let began = Instant::now();
    let (running, waiting) = tokio::join!(running, server.call(echo(), CallOptions::default()));
    running.unwrap();
    waiting.unwrap();
    assert_eq!(began.elapsed(), seconds(19), "as soon as the running call has ended");
    assert_eq!((connector.attempts(), server.status().losses), (2, 0));
    assert!(script.log().cancelled().is_empty());
    assert_eq!(bench.moves("one"), ["connecting", "ready", "connecting", "ready"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn shutting_down_while_an_old_server_is_replaced_is_no_different() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(seconds(4)));
    let server = bench.add("one", &script, aged(MINUTE));
    ready(&server).await;
    sleep(seconds(59)).await;
    let mut slow = Box::pin(server.call(tool("slow"), CallOptions::default()));
    let mut hung = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(slow.as_mut().now_or_never().is_none() && hung.as_mut().now_or_never().is_none());
    sleep(seconds(2)).await; // it is old, and its calls run
    let began = Instant::now();
    let (slow, hung, report) = tokio::join!(slow, hung, bench.supervisor.shutdown());
    slow.unwrap();
    hung.unwrap_err();
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(report.servers[0].calls_cancelled, 1);
    bench.end().await;
}

/// A server that is old while this call runs, one second after it has become old.
async fn old_in_use(bench: &mut Bench) -> (ServerHandle, JoinHandle<Result<(), CallError>>, Instant) {
    let server = bench.add("one", &ServerScript::legacy(), aged(MINUTE));
    ready(&server).await;
    let caller = server.clone();
    let hung = tokio::spawn(async move {
        let hours = 8 * 60 * MINUTE;
        let options = CallOptions::default().with_timeout(hours).with_deadline(Instant::now() + hours);
        caller.call(tool("hang"), options).await.map(drop)
    });
    sleep(MINUTE).await;
    let left = Instant::now();
    sleep(seconds(1)).await; // it has been left
    assert_eq!(server.status().state, State::Connecting { generation: 2, attempt: 1 });
    (server, hung, left)
}

#[tokio::test(start_paused = true)]
async fn a_call_of_hours_keeps_others_from_the_next_connection_for_five_minutes_at_most() {
    let mut bench = Bench::new();
    let (server, hung, left) = old_in_use(&mut bench).await;
    let options = CallOptions::default().with_timeout(6 * MINUTE).with_deadline(left + 7 * MINUTE);
    server.call(echo(), options).await.unwrap();
    assert_eq!(left.elapsed(), 5 * MINUTE);
    assert_eq!(hung.await.unwrap().unwrap_err().outcome(), CallOutcome::Unknown);
    assert_eq!(server.status().losses, 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_want_to_wait_for_an_old_connection_hurries_or_ends_it() {
    let orders: [(Order, u64); 2] = [(|server| server.wake(), 5), (|server| server.reconnect(2), 0)];
    for (order, limit) in orders {
        let mut bench = Bench::new();
        let (server, hung, _) = old_in_use(&mut bench).await;
        let ordered = Instant::now();
        order(&server);
        server.call(echo(), CallOptions::default()).await.unwrap();
        assert_eq!(ordered.elapsed(), seconds(limit));
        hung.await.unwrap().unwrap_err();
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_follows_a_server_wakes_it_when_it_went_to_rest_before_it_was_followed_again() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, idle(MINUTE));
    let listening = json!({"tools": {"listChanged": true}});
    let connect = async || {
        let peer = connector.next_peer().await;
        support::accept_initialize_with(&peer, listening.clone()).await;
        support::answer_tools(&peer).await;
        peer
    };
    let peer = connect().await;
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    let mut following = server.follow(wanted, SubscribeOptions::default());
    assert!(matches!(following.next().await, Some(FollowEvent::Opened { .. })));
    drop(peer); // it breaks, and nobody waits for what is told
    let second = connect().await;
    dormant(&server).await;
    drop(second);
    let event = following.next().await;
    assert!(matches!(event, Some(FollowEvent::Interrupted(Interruption::Lost(_)))), "{event:?}");
    let (event, _peer) = tokio::join!(following.next(), connect());
    assert!(matches!(event, Some(FollowEvent::Reopened { .. })), "{event:?}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn keepalive_is_no_use_of_a_server() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy();
    let keepalive = KeepaliveOptions::default().with_interval(Some(seconds(10)));
    let server = bench.add("one", &script, idle(MINUTE).with_keepalive(keepalive));
    ready(&server).await;
    let up = Instant::now();
    dormant(&server).await;
    assert_eq!(up.elapsed(), MINUTE);
    assert!(script.log().count("ping") >= 5, "{}", script.log().count("ping"));
    bench.end().await;
}
