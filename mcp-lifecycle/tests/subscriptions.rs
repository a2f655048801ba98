//! Subscriptions of a supervised server.
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
use std::time::Duration;

use mcp_lifecycle::{
    CallError, FollowEnd, FollowEvent, Following, Interruption, KeepaliveOptions, ServerHandle,
    ServerOptions, Startup, State,
};
use mcp_proto::SubscriptionFilter;
use mcp_session::{
    CallOptions, EraPolicy, SessionOptions, SubscribeOptions, Subscription, SubscriptionEnd,
    SubscriptionEvent,
};
use mcp_transport::testing::{MemoryConnector, Received, ScriptedPeer};
use mcp_transport::{CloseReason, ConnectError, Exit};
use serde_json::{Value, json};
use support::{Bench, answer_tools, echo, plain, ready, seconds, until};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// What a server declares that tells of changed resources: of its lists the supervisor asks nothing.
fn resources() -> Value {
    json!({"tools": {}, "resources": {"subscribe": true}})
}

/// A modern server, one call at a time.
fn modern() -> ServerOptions {
    plain()
        .with_session(SessionOptions::default().with_era(EraPolicy::Modern))
        .with_in_flight(NonZeroUsize::MIN)
}

async fn accept(peer: &ScriptedPeer, capabilities: Value) {
    let discover = peer.expect("server/discover").await;
    let has_resources = capabilities.get("resources").is_some();
    let result = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities,
    });
    peer.respond(discover.id(), result).await;
    answer_tools(peer).await;
    if has_resources {
        answer_resources(peer).await;
    }
}

async fn answer_resources(peer: &ScriptedPeer) {
    for (method, list) in [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
    {
        let request = peer.expect(method).await;
        peer.respond(request.id(), json!({"resultType": "complete", list: []})).await;
    }
}

fn wanted() -> SubscriptionFilter {
    let mut wanted = SubscriptionFilter::default();
    wanted.resource_subscriptions = vec!["a:".to_owned()];
    wanted
}

fn subscribe(server: &ServerHandle) -> JoinHandle<Result<Subscription, CallError>> {
    let server = server.clone();
    tokio::spawn(async move { server.subscribe(wanted(), SubscribeOptions::default()).await })
}

async fn tell(peer: &ScriptedPeer, listen: &Received, method: &str) {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.value["id"]});
    let params = json!({"notifications": listen.params()["notifications"], "uri": "a:b", "_meta": meta});
    peer.send(json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})).await;
}

/// Answers a request to be told of changes.
async fn agree(peer: &ScriptedPeer) -> Received {
    let listen = peer.expect("subscriptions/listen").await;
    tell(peer, &listen, "subscriptions/acknowledged").await;
    listen
}

/// An event as one word.
async fn next(following: &mut Following) -> String {
    let event = timeout(seconds(3600), following.next()).await.expect("something is told");
    match event {
        None => "nothing".to_owned(),
        Some(FollowEvent::Ended(end)) => match end {
            FollowEnd::Refused(error) => format!("refused: {error}"),
            FollowEnd::Removed => "removed".to_owned(),
            FollowEnd::ShuttingDown => "shutting down".to_owned(),
            FollowEnd::Unsupported(_) => "unsupported".to_owned(),
            end => panic!("{end:?}"),
        },
        Some(FollowEvent::Interrupted(why)) => match why {
            Interruption::Disabled => "disabled".to_owned(),
            Interruption::Ending => "ending".to_owned(),
            Interruption::Lost(failure) => format!("lost: {failure}"),
            Interruption::Renewed => "renewed".to_owned(),
            Interruption::Subscription(SubscriptionEnd::Cancelled) => "cancelled".to_owned(),
            Interruption::Subscription(SubscriptionEnd::Completed) => "completed".to_owned(),
            Interruption::Subscription(SubscriptionEnd::Failed(_)) => "failed".to_owned(),
            why => panic!("{why:?}"),
        },
        Some(FollowEvent::Opened { honoured }) => {
            assert_eq!(honoured, wanted());
            "opened".to_owned()
        }
        Some(FollowEvent::Reopened { honoured }) => {
            assert_eq!(honoured, wanted());
            "reopened".to_owned()
        }
        Some(FollowEvent::ResourceUpdated(uri)) => uri,
        Some(FollowEvent::TaskChanged(task)) => format!("{} {}", task.task_id, task.status.as_str()),
        Some(event) => panic!("{event:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn f125_a_subscription_ends_with_its_connection_and_a_new_one_waits_for_the_next() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let mut opening = subscribe(&server);
    for _ in 0..2 {
        let peer = connector.next_peer().await;
        accept(&peer, resources()).await;
        let listen = peer.expect("subscriptions/listen").await;
        // It has no place of a call: the only one is free before and after it is open.
        assert_eq!(server.status().in_flight, 0);
        tell(&peer, &listen, "subscriptions/acknowledged").await;
        let mut subscription = opening.await.unwrap().unwrap();
        let (called, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
            let request = peer.expect("tools/call").await;
            peer.respond(request.id(), json!({"content": []})).await;
        });
        called.unwrap();
        tell(&peer, &listen, "resources/updated").await;
        let event = subscription.next().await;
        assert!(matches!(event, Some(SubscriptionEvent::ResourceUpdated(_))), "{event:?}");

        peer.close(CloseReason::Exited(Exit::Code(0)));
        let event = subscription.next().await;
        let Some(SubscriptionEvent::Ended(SubscriptionEnd::SessionGone(_))) = event else {
            panic!("{event:?}")
        };
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
        opening = subscribe(&server);
    }
    opening.abort();
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn u125_u126_a_followed_server_is_subscribed_to_again_on_each_connection_and_the_gap_is_told() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let mut following = server.follow(wanted(), SubscribeOptions::default());
    for round in 0..2 {
        let peer = connector.next_peer().await;
        let play = async {
            accept(&peer, resources()).await;
            agree(&peer).await
        };
        let (listen, opened) = tokio::join!(play, next(&mut following));
        assert_eq!(opened, if round == 0 { "opened" } else { "reopened" });
        tell(&peer, &listen, "resources/updated").await;
        assert_eq!(next(&mut following).await, "a:b");
        // The server ends it, in each of its ways; the connection stays.
        let mut listen = listen;
        for how in ["completed", "cancelled", "failed"] {
            let began = Instant::now();
            match how {
                "completed" => peer.respond(listen.id(), json!({"resultType": "complete"})).await,
                "cancelled" => {
                    let params = json!({"requestId": listen.value["id"]});
                    let method = "notifications/cancelled";
                    peer.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
                }
                _ => peer.respond_error(listen.id(), -32603, "no more").await,
            }
            assert_eq!(next(&mut following).await, how);
            let (again, reopened) = tokio::join!(agree(&peer), next(&mut following));
            assert_eq!(reopened, "reopened");
            assert!(began.elapsed() > Duration::ZERO, "not at once");
            listen = again;
        }
        peer.close(CloseReason::Exited(Exit::Code(1)));
        assert_eq!(next(&mut following).await, "lost: the server process ended with status 1");
    }
    drop(following);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_follows_a_server_learns_why_it_was_interrupted_however_late() {
    let hows = [
        ("exited", "lost: the server process ended with status 3"),
        ("silent", "lost: no answer to 2 probes in a row"),
        ("reconnected", "renewed"),
        ("switched off", "disabled"),
    ];
    for (how, told) in hows {
        let bench = Bench::new();
        let connector = MemoryConnector::new();
        let keepalive = KeepaliveOptions::default().with_interval(Some(seconds(10)));
        let server = bench.add_by_hand("one", &connector, modern().with_keepalive(keepalive));
        let mut following = server.follow(wanted(), SubscribeOptions::default());
        let peer = connector.next_peer().await;
        let play = async {
            accept(&peer, resources()).await;
            agree(&peer).await
        };
        assert_eq!(tokio::join!(play, next(&mut following)).1, "opened");
        match how {
            "exited" => peer.close(CloseReason::Exited(Exit::Code(3))),
            "silent" => {}
            "reconnected" => server.reconnect(server.status().generation),
            _ => {
                server.disable();
                until(&server, |status| (status.state == State::Disabled).then_some(())).await;
                server.enable();
            }
        }
        // Another connection comes and goes before anybody looks.
        let second = connector.next_peer().await;
        accept(&second, resources()).await;
        ready(&server).await;
        second.close(CloseReason::EndOfStream);
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
        assert_eq!(next(&mut following).await, told, "{how}");
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_follows_a_server_learns_that_its_supervisor_was_dropped() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let mut following = server.follow(wanted(), SubscribeOptions::default());
    let peer = connector.next_peer().await;
    let play = async {
        accept(&peer, resources()).await;
        agree(&peer).await
    };
    assert_eq!(tokio::join!(play, next(&mut following)).1, "opened");
    drop(bench);
    assert_eq!(next(&mut following).await, "ending");
    assert_eq!(next(&mut following).await, "shutting down");
    assert_eq!(next(&mut following).await, "nothing");
}

#[tokio::test(start_paused = true)]
async fn k2_189_tasks_of_a_followed_server_are_named_on_each_connection_and_told_of() {
    const EXTENSION: &str = "io.modelcontextprotocol/tasks";
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let session = SessionOptions::default().with_era(EraPolicy::Modern).with_tasks();
    let server = bench.add_by_hand("one", &connector, plain().with_session(session));
    let mut filter = SubscriptionFilter::default();
    filter.task_ids = vec!["x".to_owned()];
    let mut following = server.follow(filter.clone(), SubscribeOptions::default());
    for is_first in [true, false] {
        let peer = connector.next_peer().await;
        let play = async {
            accept(&peer, json!({"tools": {}, "extensions": {EXTENSION: {}}})).await;
            agree(&peer).await
        };
        let (listen, opened) = tokio::join!(play, following.next());
        assert_eq!(listen.params()["notifications"], json!({"taskIds": ["x"]}));
        match opened.unwrap() {
            FollowEvent::Opened { honoured } => assert!(is_first && honoured == filter),
            FollowEvent::Reopened { honoured } => assert!(!is_first && honoured == filter),
            event => panic!("{event:?}"),
        }
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.value["id"]});
        let params = json!({"taskId": "x", "status": "working", "_meta": meta});
        peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params})).await;
        assert_eq!(next(&mut following).await, "x working");
        peer.close(CloseReason::EndOfStream);
        assert_eq!(next(&mut following).await, "lost: the server closed its output");
    }
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn u129_a_followed_legacy_server_is_asked_for_its_resources_on_each_connection() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let mut following = server.follow(wanted(), SubscribeOptions::default());
    for opened in ["opened", "reopened"] {
        let peer = connector.next_peer().await;
        let play = async {
            let request = peer.expect("initialize").await;
            let result = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": resources(),
                "serverInfo": {"name": "scripted", "version": "1"},
            });
            peer.respond(request.id(), result).await;
            peer.expect("notifications/initialized").await;
            answer_tools(&peer).await;
            answer_resources(&peer).await;
            let request = peer.expect("resources/subscribe").await;
            assert_eq!(request.params()["uri"], "a:");
            peer.respond(request.id(), json!({})).await;
        };
        let ((), event) = tokio::join!(play, next(&mut following));
        assert_eq!(event, opened);
        let method = "notifications/resources/updated";
        peer.send(json!({"jsonrpc": "2.0", "method": method, "params": {"uri": "a:"}})).await;
        assert_eq!(next(&mut following).await, "a:");
        peer.close(CloseReason::EndOfStream);
        assert_eq!(next(&mut following).await, "lost: the server closed its output");
    }
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_followed_server_ends_with_a_reason_and_only_then() {
    for how in ["removed", "shutting down", "unsupported", "refused"] {
        let bench = Bench::new();
        let connector = MemoryConnector::new();
        let server = bench.add_by_hand("one", &connector, modern());
        let peer = connector.next_peer().await;
        let capabilities = if how == "unsupported" { json!({"tools": {}}) } else { resources() };
        accept(&peer, capabilities).await;
        ready(&server).await;
        let mut following = server.follow(wanted(), SubscribeOptions::default());
        match how {
            "unsupported" => assert_eq!(next(&mut following).await, how),
            "refused" => {
                let (told, ()) = tokio::join!(next(&mut following), async {
                    let listen = peer.expect("subscriptions/listen").await;
                    peer.respond_error(listen.id(), -32602, "\u{1b}no").await;
                });
                assert!(told.starts_with("refused") && !told.contains('\u{1b}'), "{told}");
            }
            _ => {
                let (_, opened) = tokio::join!(agree(&peer), next(&mut following));
                assert_eq!(opened, "opened");
                if how == "removed" {
                    drop(bench.supervisor.remove("one"));
                } else {
                    drop(bench.supervisor.shutdown());
                }
                assert_eq!(next(&mut following).await, "ending");
                assert_eq!(next(&mut following).await, how);
            }
        }
        assert_eq!(next(&mut following).await, "nothing");
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn following_waits_for_as_long_as_it_takes_and_wakes_a_sleeping_server_once() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern().with_startup(Startup::OnDemand));
    let mut following = server.follow(wanted(), SubscribeOptions::default());
    assert_eq!(connector.attempts(), 0, "nothing begins before somebody waits");
    // It is parked meanwhile, for longer than any call may wait.
    (0..5).for_each(|_| connector.fail_next(ConnectError::Timeout));
    let began = Instant::now();
    let peer = async {
        let peer = connector.next_peer().await;
        accept(&peer, resources()).await;
        agree(&peer).await;
        peer
    };
    let (_peer, opened) = tokio::join!(peer, next(&mut following));
    assert_eq!(opened, "opened");
    assert!(began.elapsed() > seconds(240), "{:?}", began.elapsed());
    server.disable();
    assert_eq!(next(&mut following).await, "disabled");
    assert!(timeout(seconds(600), following.next()).await.is_err(), "it is off, and may be on again");
    server.enable();
    sleep(seconds(10)).await;
    assert!(timeout(seconds(10), following.next()).await.is_err());
    assert_eq!(server.status().state.name(), "dormant", "it is not woken again");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_server_does_not_tell_is_refused_and_harms_nothing() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let peer = connector.next_peer().await;
    accept(&peer, json!({"tools": {}})).await;
    ready(&server).await;
    let error = subscribe(&server).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, CallError::Session { error: mcp_session::CallError::Unsupported { .. }, .. }),
        "{error:?}"
    );
    assert_eq!((server.status().in_flight, server.status().state.is_ready()), (0, true));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_refuses_to_tell_of_changes_is_degraded_until_it_does() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let peer = connector.next_peer().await;
    accept(&peer, json!({"tools": {"listChanged": true}})).await;
    let listen = peer.expect("subscriptions/listen").await;
    peer.respond_error(listen.id(), -32000, "too many streams").await;
    until(&server, |status| status.degraded.then_some(())).await;
    let status = server.status();
    assert!(status.state.is_ready() && status.losses == 0, "{status:?}");
    let listen = peer.expect("subscriptions/listen").await;
    tell(&peer, &listen, "subscriptions/acknowledged").await;
    until(&server, |status| (!status.degraded).then_some(())).await;
    let told: Vec<_> = bench.states("one").iter().map(mcp_lifecycle::State::name).collect();
    assert_eq!(told, ["connecting", "ready", "ready", "ready"], "one event for each change");
    answer_tools(&peer).await; // what has changed meanwhile
    bench.end().await;
}
