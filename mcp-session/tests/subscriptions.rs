//! Subscriptions of the modern era: one request that lives as long as they do.
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

use mcp_proto::{CallTool, Method, Redactor, SubscriptionFilter};
use mcp_session::{
    CallError, CallOptions, CallOutcome, Gate, ListKind, ProtocolFault, Session, SessionEvent,
    SessionOptions, SubscribeOptions, Subscription, SubscriptionEnd, SubscriptionEvent, UnsupportedWhy,
};
use mcp_transport::CloseReason;
use mcp_transport::testing::{MemoryOptions, Received, ScriptedPeer};
use serde_json::{Value, json};
use support::*;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const TASKS: &str = "notifications/tasks";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const UPDATED: &str = "notifications/resources/updated";

/// Changes of the tools, and of one resource.
fn wanted() -> SubscriptionFilter {
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    wanted.resource_subscriptions = vec!["a:".to_owned()];
    wanted
}

fn subscribe(session: &Session) -> JoinHandle<Result<Subscription, CallError>> {
    let session = session.clone();
    tokio::spawn(async move { session.subscribe(wanted(), SubscribeOptions::default()).await })
}

/// A notice about the subscription `id`.
async fn tell(peer: &ScriptedPeer, id: &Value, method: &str, mut params: Value) {
    params["_meta"] = json!({SUBSCRIPTION: id});
    peer.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
}

async fn acknowledge(peer: &ScriptedPeer, listen: &Received) {
    let honoured = json!({"notifications": listen.params()["notifications"]});
    tell(peer, &listen.value["id"], "notifications/subscriptions/acknowledged", honoured).await;
}

async fn update(peer: &ScriptedPeer, id: &Value, uri: &str) {
    tell(peer, id, UPDATED, json!({"uri": uri})).await;
}

async fn complete(peer: &ScriptedPeer, listen: &Received) {
    let meta = json!({SUBSCRIPTION: listen.value["id"]});
    peer.respond(listen.id(), json!({"resultType": "complete", "_meta": meta})).await;
}

async fn cancel(peer: &ScriptedPeer, listen: &Received) {
    let params = json!({"requestId": listen.value["id"], "reason": "bye"});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
}

/// An open subscription, and the request that it is.
async fn open(it: &Fixture) -> (Subscription, Received) {
    let opening = subscribe(&it.session);
    let listen = it.peer.expect("subscriptions/listen").await;
    acknowledge(&it.peer, &listen).await;
    (opening.await.unwrap().unwrap(), listen)
}

/// An event as a word: a kind of list, an address, or how it ended.
fn word(event: Option<SubscriptionEvent>) -> String {
    match event {
        None => "nothing".to_owned(),
        Some(SubscriptionEvent::Ended(SubscriptionEnd::SessionGone(closed))) => {
            format!("SessionGone {:?}", closed.reason())
        }
        Some(SubscriptionEvent::Ended(SubscriptionEnd::Failed(error))) => format!("Failed {error}"),
        Some(SubscriptionEvent::Ended(end)) => format!("{end:?}"),
        Some(SubscriptionEvent::Lagged) => "Lagged".to_owned(),
        Some(SubscriptionEvent::ListChanged(kind)) => format!("{kind:?}"),
        Some(SubscriptionEvent::ResourceUpdated(uri)) => uri,
        Some(SubscriptionEvent::TaskChanged(task)) => format!("{} {}", task.task_id, task.status.as_str()),
        Some(other) => panic!("{other:?}"),
    }
}

async fn next(subscription: &mut Subscription) -> String {
    word(subscription.next().await)
}

#[tokio::test(start_paused = true)]
async fn u119_u120_u127_what_is_wanted_is_asked_for_and_what_is_honoured_is_known() {
    let it = modern().await;
    let opening = subscribe(&it.session);
    let listen = it.peer.expect("subscriptions/listen").await;
    let mut meta = listen.params()["_meta"].as_object().unwrap().clone();
    for key in ["protocolVersion", "clientCapabilities", "clientInfo"] {
        assert!(meta.remove(&format!("io.modelcontextprotocol/{key}")).is_some(), "{key}");
    }
    assert!(meta.is_empty(), "no progress is asked for: {meta:?}");
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:"]});
    assert_eq!(listen.params()["notifications"], filter);
    settle().await;
    assert!(!opening.is_finished(), "it is not open before it is acknowledged");
    // Whatever else it says is nobody's, and is not kept.
    let honoured = json!({"notifications": {
        "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["foreign:"], "x": "y",
    }});
    tell(&it.peer, &listen.value["id"], "notifications/subscriptions/acknowledged", honoured).await;
    let mut subscription = opening.await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(subscription.honoured()).unwrap(), json!({"toolsListChanged": true}));
    let missing = wanted().without(subscription.honoured());
    assert_eq!((missing.tools_list_changed, missing.resource_subscriptions.len()), (false, 1));

    tell(&it.peer, &listen.value["id"], TOOLS, json!({})).await;
    update(&it.peer, &listen.value["id"], "a:below").await;
    assert_eq!(next(&mut subscription).await, "Tools");
    assert_eq!(next(&mut subscription).await, "a:below", "u127: it may be below a wanted one");
    let told = it.session.next_event().await;
    assert_eq!(told, Some(SessionEvent::ListChanged(ListKind::Tools)), "the session is told as well");
    assert_eq!(it.session.counters().stray_notices, 0);
}

#[tokio::test(start_paused = true)]
async fn u121_what_comes_before_anybody_looks_at_the_subscription_again_is_its_own() {
    let it = modern().await;
    let mut opening = ByHand::new(it.session.subscribe(wanted(), SubscribeOptions::default()));
    assert!(opening.poll().is_pending());
    let listen = it.peer.expect("subscriptions/listen").await;
    acknowledge(&it.peer, &listen).await;
    update(&it.peer, &listen.value["id"], "at once").await;
    settle().await;
    assert_eq!(it.session.counters().stray_notices, 0);
    let std::task::Poll::Ready(Ok(mut subscription)) = opening.poll() else { panic!("not open") };
    assert_eq!(next(&mut subscription).await, "at once");
}

#[tokio::test(start_paused = true)]
async fn f124_a_subscription_that_is_not_acknowledged_ends_after_ten_seconds_and_is_cancelled() {
    let it = modern().await;
    let began = Instant::now();
    let opening = subscribe(&it.session);
    let listen = it.peer.expect("subscriptions/listen").await;
    // It is no call that reports progress.
    let progress = json!({"progressToken": listen.value["id"], "progress": 1});
    tokio::time::sleep(seconds(9)).await;
    it.peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})).await;
    let error = opening.await.unwrap().unwrap_err();
    assert!(error.is_timeout() && error.outcome() == CallOutcome::Unknown, "{error:?}");
    assert_eq!(began.elapsed(), seconds(10));
    settle().await;
    assert_eq!(cancelled_ids(&it.peer), [listen.value["id"].as_i64().unwrap()]);
    // Whatever comes of it now is nobody's.
    acknowledge(&it.peer, &listen).await;
    tell(&it.peer, &listen.value["id"], TOOLS, json!({})).await;
    complete(&it.peer, &listen).await;
    settle().await;
    let counters = it.session.counters();
    assert_eq!((counters.stray_notices, counters.late_replies, counters.ignored_progress), (2, 1, 1));
    assert!(ByHand::new(it.session.next_event()).poll().is_pending());
}

#[tokio::test(start_paused = true)]
async fn f124_notices_before_the_acknowledgement_and_of_foreign_subscriptions_are_dropped_and_counted() {
    for is_early in [true, false] {
        let it = modern().await;
        let opening = subscribe(&it.session);
        let listen = it.peer.expect("subscriptions/listen").await;
        let id = &listen.value["id"];
        if is_early {
            tell(&it.peer, id, TOOLS, json!({})).await;
            update(&it.peer, id, "early").await;
        }
        acknowledge(&it.peer, &listen).await;
        let mut subscription = opening.await.unwrap().unwrap();
        for foreign in [json!(id.as_i64().unwrap() + 1), json!(id.to_string()), json!(null)] {
            tell(&it.peer, &foreign, UPDATED, json!({"uri": "foreign"})).await;
        }
        acknowledge(&it.peer, &listen).await;
        tell(&it.peer, id, PROMPTS, json!({})).await;
        update(&it.peer, id, "own").await;
        assert_eq!(next(&mut subscription).await, "own");
        assert_eq!(it.session.counters().stray_notices, if is_early { 7 } else { 5 });
        assert!(ByHand::new(it.session.next_event()).poll().is_pending(), "nor is the session told");
    }
}

#[tokio::test(start_paused = true)]
async fn u122_u123_two_subscriptions_share_a_stream_and_no_event() {
    let it = modern().await;
    let (mut one, first) = open(&it).await;
    let (mut other, second) = open(&it).await;
    for round in 0..3 {
        update(&it.peer, &first.value["id"], &format!("one {round}")).await;
        update(&it.peer, &second.value["id"], &format!("other {round}")).await;
    }
    complete(&it.peer, &first).await;
    for round in 0..3 {
        assert_eq!(next(&mut one).await, format!("one {round}"));
        assert_eq!(next(&mut other).await, format!("other {round}"));
    }
    assert_eq!(next(&mut one).await, "Completed");
    update(&it.peer, &second.value["id"], "alone").await;
    assert_eq!(next(&mut other).await, "alone", "the other one lives on");
}

#[tokio::test(start_paused = true)]
async fn f125_u124_each_end_is_told_once_after_what_came_before_it() {
    for (how, expected, is_graceful) in [
        ("result", "Completed", true),
        ("cancel", "Cancelled", true),
        ("result, cancel", "Completed", true),
        ("cancel, result", "Cancelled", true),
        ("error", "Failed error -32603: no more", false),
        ("other result", "Failed", false),
        ("result, close", "Completed", true),
        ("close", "SessionGone EndOfStream", false),
        ("our close", "SessionGone Local", false),
    ] {
        let it = modern().await;
        let (mut subscription, listen) = open(&it).await;
        update(&it.peer, &listen.value["id"], "before").await;
        settle().await;
        for step in how.split(", ") {
            match step {
                "result" => complete(&it.peer, &listen).await,
                "cancel" => cancel(&it.peer, &listen).await,
                "error" => it.peer.respond_error(listen.id(), -32603, "no more").await,
                "other result" => {
                    it.peer
                        .respond(listen.id(), json!({"resultType": "input_required", "requestState": "s"}))
                        .await;
                }
                "close" => it.peer.close(CloseReason::EndOfStream),
                _ => {
                    it.session.close(soon()).await;
                }
            }
            settle().await;
        }
        update(&it.peer, &listen.value["id"], "after").await;
        settle().await;
        assert_eq!(next(&mut subscription).await, "before", "{how}");
        let Some(SubscriptionEvent::Ended(end)) = subscription.next().await else { panic!("{how}") };
        assert_eq!(end.is_graceful(), is_graceful, "{how}: {end}");
        let told = word(Some(SubscriptionEvent::Ended(end)));
        assert!(told.starts_with(expected), "{how}: {told}");
        for _ in 0..2 {
            assert_eq!(next(&mut subscription).await, "nothing", "{how}");
        }
        drop(subscription);
        settle().await;
        let cancels = if how == "our close" { 1 } else { 0 };
        assert_eq!(cancelled_ids(&it.peer).len(), cancels, "{how}: nothing is left to be cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn f125_an_end_without_a_beginning_is_an_error() {
    for how in ["result", "cancel", "error", "close"] {
        let it = modern().await;
        let opening = subscribe(&it.session);
        let listen = it.peer.expect("subscriptions/listen").await;
        match how {
            "result" => complete(&it.peer, &listen).await,
            "cancel" => cancel(&it.peer, &listen).await,
            "error" => it.peer.respond_error(listen.id(), -32602, "no").await,
            _ => it.peer.close(CloseReason::EndOfStream),
        }
        let error = opening.await.unwrap().unwrap_err();
        match (how, &error) {
            ("result" | "cancel", CallError::Protocol(ProtocolFault::NotAcknowledged))
            | ("error", CallError::Peer(_))
            | ("close", CallError::SessionGone { .. }) => {}
            _ => panic!("{how}: {error:?}"),
        }
        assert!(cancelled_ids(&it.peer).is_empty(), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn f125_an_end_right_after_the_beginning_is_an_end() {
    let it = modern().await;
    let opening = subscribe(&it.session);
    let listen = it.peer.expect("subscriptions/listen").await;
    // All of it arrives before anybody looks.
    acknowledge(&it.peer, &listen).await;
    update(&it.peer, &listen.value["id"], "a:").await;
    complete(&it.peer, &listen).await;
    let mut subscription = opening.await.unwrap().unwrap();
    assert_eq!(next(&mut subscription).await, "a:");
    assert_eq!(next(&mut subscription).await, "Completed");
}

#[tokio::test(start_paused = true)]
async fn f129_dropping_at_each_stage_cancels_once_if_and_only_if_it_was_sent() {
    for stage in ["unpolled", "queued", "sent", "open", "closed by hand", "ended"] {
        let it =
            modern_with(SessionOptions::default(), MemoryOptions::default().with_queue(1).with_window(0))
                .await;
        if stage == "queued" {
            it.peer.pause_reading();
        }
        let mut opening = ByHand::new(it.session.subscribe(wanted(), SubscribeOptions::default()));
        let mut cancels = 0;
        match stage {
            "unpolled" => drop(opening),
            "queued" => {
                assert!(opening.poll().is_pending());
                drop(opening);
                it.peer.resume();
            }
            _ => {
                assert!(opening.poll().is_pending());
                let listen = it.peer.expect("subscriptions/listen").await;
                cancels = 1;
                if stage != "sent" {
                    acknowledge(&it.peer, &listen).await;
                    settle().await;
                    let std::task::Poll::Ready(Ok(mut subscription)) = opening.poll() else {
                        panic!("{stage}")
                    };
                    update(&it.peer, &listen.value["id"], "a:").await;
                    settle().await;
                    if stage == "closed by hand" {
                        subscription.close();
                        subscription.close();
                        assert_eq!(next(&mut subscription).await, "Closed", "what waited is not told");
                        assert_eq!(next(&mut subscription).await, "nothing");
                    }
                    if stage == "ended" {
                        complete(&it.peer, &listen).await;
                        settle().await;
                        cancels = 0;
                    }
                    drop(subscription);
                }
                drop(opening);
            }
        }
        let waiting = tokio::time::timeout(seconds(1), it.peer.receive()).await;
        assert_eq!(waiting.is_ok(), cancels == 1, "{stage}: {waiting:?}");
        assert_eq!(cancelled_ids(&it.peer).len(), cancels, "{stage}");
        // Nothing of it is left: a place among as many as may wait is free.
        assert_eq!(it.session.counters().cancels_sent, cancels as u64, "{stage}");
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_has_no_deadline_and_is_no_call() {
    let it = modern().await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let (mut subscription, listen) = open(&it).await;
    assert_quiescent(&it.session);
    tokio::time::sleep(seconds(30 * 24 * 60 * 60)).await;
    // The one permit is free, and an error that names no request is that of the one call.
    let live = gate.enter(soon()).await.unwrap();
    let calling = tokio::spawn(live.call(CallTool::new("any"), CallOptions::default()));
    it.peer.expect("tools/call").await;
    assert_eq!(it.session.in_flight(), 1);
    it.peer.send(json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}})).await;
    assert!(matches!(calling.await.unwrap(), Err(CallError::Peer(_))));
    update(&it.peer, &listen.value["id"], "a:").await;
    assert_eq!(next(&mut subscription).await, "a:");
    assert!(cancelled_ids(&it.peer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn u128_a_flood_is_coalesced_and_what_is_lost_is_told() {
    let it = modern().await;
    let (mut subscription, listen) = open(&it).await;
    let id = &listen.value["id"];
    for round in 0..5000 {
        tell(&it.peer, id, TOOLS, json!({})).await;
        update(&it.peer, id, &format!("a:{}", round % 256)).await;
    }
    settle().await;
    assert_eq!(next(&mut subscription).await, "Tools");
    for resource in 0..256 {
        assert_eq!(next(&mut subscription).await, format!("a:{resource}"));
    }
    for round in 0..5000 {
        update(&it.peer, id, &format!("a:{}", round % 257)).await;
    }
    settle().await;
    assert_eq!(next(&mut subscription).await, "Lagged");
    let mut quiet = ByHand::new(subscription.next());
    assert!(quiet.poll().is_pending());
    drop(quiet);
    update(&it.peer, id, "a:").await;
    assert_eq!(next(&mut subscription).await, "a:", "it goes on");
    assert_eq!(it.session.counters().stray_notices, 0);
}

#[tokio::test(start_paused = true)]
async fn next_is_woken_once_for_many_events_and_loses_none_when_it_is_dropped() {
    let it = modern().await;
    let (mut subscription, listen) = open(&it).await;
    let mut waiting = ByHand::new(subscription.next());
    assert!(waiting.poll().is_pending());
    for uri in ["a", "b", "c"] {
        update(&it.peer, &listen.value["id"], uri).await;
    }
    settle().await;
    assert_eq!(waiting.wakes(), 1);
    drop(waiting);
    for uri in ["a", "b", "c"] {
        assert_eq!(next(&mut subscription).await, uri);
    }
}

#[tokio::test(start_paused = true)]
async fn u129_nothing_is_asked_of_a_server_that_has_not_declared_it() {
    for (capabilities, expected) in [
        (json!({"tools": {}, "resources": {"listChanged": true}}), None),
        (json!({"tools": {"listChanged": true}}), Some(json!({"toolsListChanged": true}))),
        (json!({"resources": {"subscribe": true}}), Some(json!({"resourceSubscriptions": ["a:"]}))),
    ] {
        let (opening, driver, peer) = unopened(SessionOptions::default(), MemoryOptions::default());
        let driver = tokio::spawn(driver.run());
        let server = async {
            let discover = peer.expect("server/discover").await;
            let mut result = discover_result();
            result["capabilities"] = capabilities;
            peer.respond(discover.id(), result).await;
        };
        let (session, ()) = tokio::join!(opening.handshake(soon()), server);
        let it = Fixture { session: session.unwrap(), peer, driver };
        let subscribing = subscribe(&it.session);
        let Some(expected) = expected else {
            let error = subscribing.await.unwrap().unwrap_err();
            let CallError::Unsupported { method, why } = error else { panic!("{error:?}") };
            assert_eq!((method, why), (Method::SUBSCRIPTIONS_LISTEN, UnsupportedWhy::Capability));
            assert_eq!(methods(&it.peer), ["server/discover"]);
            continue;
        };
        let listen = it.peer.expect("subscriptions/listen").await;
        assert_eq!(listen.params()["notifications"], expected);
        acknowledge(&it.peer, &listen).await;
        let subscription = subscribing.await.unwrap().unwrap();
        assert!(!wanted().without(subscription.honoured()).is_empty());
    }
}

/// Changes of two tasks.
fn wanted_tasks() -> SubscriptionFilter {
    let mut wanted = SubscriptionFilter::default();
    wanted.task_ids = vec!["x".to_owned(), "y".to_owned()];
    wanted
}

/// A subscription to tasks, of a session in which both sides have declared them.
async fn open_tasks() -> (Fixture, Subscription, Received) {
    let options =
        SessionOptions::default().with_tasks().with_redactor(Redactor::new(["hunter2".into()]).into());
    let it = modern_offering(options, json!({EXTENSION: {}})).await;
    let session = it.session.clone();
    let opening =
        tokio::spawn(async move { session.subscribe(wanted_tasks(), SubscribeOptions::default()).await });
    let listen = it.peer.expect("subscriptions/listen").await;
    acknowledge(&it.peer, &listen).await;
    (it, opening.await.unwrap().unwrap(), listen)
}

#[tokio::test(start_paused = true)]
async fn k2_189_a_subscription_that_names_tasks_is_told_how_they_are() {
    let (it, mut subscription, listen) = open_tasks().await;
    assert_eq!(listen.params()["notifications"], json!({"taskIds": ["x", "y"]}));
    let declared = &listen.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["extensions"], json!({EXTENSION: {}}), "k2_185: with this request too");
    assert!(wanted_tasks().without(subscription.honoured()).is_empty());
    let id = &listen.value["id"];
    let done = json!({"content": [], "n": 1.0});
    for params in [
        json!({"taskId": "x", "status": "working"}),
        json!({"taskId": "y", "status": "input_required", "statusMessage": "the key hunter2"}),
        json!({"taskId": "x", "status": "completed", "result": done}),
        json!({"taskId": "z", "status": "working"}),
    ] {
        tell(&it.peer, id, TASKS, params).await;
    }
    tell(&it.peer, &json!(999), TASKS, json!({"taskId": "x", "status": "failed"})).await;
    settle().await;
    let Some(SubscriptionEvent::TaskChanged(x)) = subscription.next().await else { panic!("nothing of x") };
    assert_eq!((x.task_id.as_str(), x.status.as_str()), ("x", "completed"), "as it was last");
    assert_eq!(x.result.unwrap().get(), done.to_string());
    let Some(SubscriptionEvent::TaskChanged(y)) = subscription.next().await else { panic!("nothing of y") };
    assert_eq!(y.status_message.as_deref(), Some("the key [secret]"));
    assert_eq!(it.session.counters().stray_notices, 2, "another task, another subscription");
    complete(&it.peer, &listen).await;
    assert_eq!(next(&mut subscription).await, "Completed");
}

#[tokio::test(start_paused = true)]
async fn k2_189_tasks_that_are_too_large_to_wait_are_told_as_a_lag() {
    let (it, mut subscription, listen) = open_tasks().await;
    let large = json!({"taskId": "x", "status": "completed", "result": said(&"x".repeat(1024 * 1024))});
    tell(&it.peer, &listen.value["id"], TASKS, large).await;
    tell(&it.peer, &listen.value["id"], TASKS, json!({"taskId": "y", "status": "working"})).await;
    settle().await;
    assert_eq!(next(&mut subscription).await, "Lagged");
    tell(&it.peer, &listen.value["id"], TASKS, json!({"taskId": "y", "status": "failed"})).await;
    assert_eq!(next(&mut subscription).await, "y failed", "it goes on");
}

#[tokio::test(start_paused = true)]
async fn k2_189_what_is_told_of_a_task_is_a_hint_for_whoever_follows_it() {
    let (it, mut subscription, listen) = open_tasks().await;
    let calling = tokio::spawn(it.session.call(CallTool::new("t"), CallOptions::default()));
    let request = it.peer.expect("tools/call").await;
    let task = json!({"resultType": "task", "taskId": "x", "status": "working", "pollIntervalMs": 50_000});
    it.peer.respond(request.id(), task).await;
    settle().await;
    let began = Instant::now();
    tell(&it.peer, &listen.value["id"], TASKS, json!({"taskId": "x", "status": "working"})).await;
    let poll = it.peer.expect("tasks/get").await;
    assert!(poll.at - began < seconds(1), "long before its pause is over: {:?}", poll.at - began);
    let done = json!({"taskId": "x", "status": "completed", "result": said("done")});
    it.peer.respond(poll.id(), done).await;
    calling.await.unwrap().unwrap();
    assert_eq!(next(&mut subscription).await, "x working");
}

#[tokio::test(start_paused = true)]
async fn k2_189_no_task_is_named_to_a_server_unless_both_sides_have_declared_them() {
    let undeclared = modern_offering(SessionOptions::default(), json!({EXTENSION: {}})).await;
    let unoffered = modern_offering(SessionOptions::default().with_tasks(), json!({})).await;
    let older = legacy_with(SessionOptions::default().with_tasks(), MemoryOptions::default()).await;
    for (it, method) in [
        (undeclared, Method::SUBSCRIPTIONS_LISTEN),
        (unoffered, Method::SUBSCRIPTIONS_LISTEN),
        (older, Method::TASKS_CHANGED),
    ] {
        let before = it.peer.transcript().len();
        let error = it.session.subscribe(wanted_tasks(), SubscribeOptions::default()).await.unwrap_err();
        let CallError::Unsupported { method: named, why } = error else { panic!("{error:?}") };
        assert_eq!((named, why), (method, UnsupportedWhy::Capability));
        assert_eq!(it.peer.transcript().len(), before, "nothing was sent");
    }
    // Beside what is offered they are left out.
    let it = modern().await;
    let (session, mut both) = (it.session.clone(), wanted_tasks());
    both.tools_list_changed = true;
    let opening = tokio::spawn(async move { session.subscribe(both, SubscribeOptions::default()).await });
    let listen = it.peer.expect("subscriptions/listen").await;
    assert_eq!(listen.params()["notifications"], json!({"toolsListChanged": true}));
    acknowledge(&it.peer, &listen).await;
    assert_eq!(wanted_tasks().without(opening.await.unwrap().unwrap().honoured()), wanted_tasks());
}
