//! Tasks of a supervised server.
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
use mcp_lifecycle::{RecessOptions, ServerHandle, ServerOptions, State};
use mcp_session::{CallOptions, EraPolicy, SessionOptions, StartedTask, TaskHandle};
use mcp_transport::testing::{MemoryConnector, ScriptedPeer};
use mcp_transport::{CloseReason, Exit};
use serde_json::{Value, json};
use support::{Bench, answer_tools, echo, plain, ready, seconds, until};
use tokio::time::{Instant, sleep};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A modern server with tasks, one call at a time.
fn with_tasks() -> ServerOptions {
    let session = SessionOptions::default().with_era(EraPolicy::Modern).with_tasks();
    plain().with_session(session).with_in_flight(NonZeroUsize::MIN)
}

async fn accept(peer: &ScriptedPeer) {
    let discover = peer.expect("server/discover").await;
    let result = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}},
    });
    peer.respond(discover.id(), result).await;
    answer_tools(peer).await;
}

/// The answer to a call that becomes a task.
fn created() -> Value {
    json!({"resultType": "task", "taskId": "x", "status": "working"})
}

fn working() -> Value {
    json!({"taskId": "x", "status": "working"})
}

fn done() -> Value {
    json!({"taskId": "x", "status": "completed", "result": {"content": []}})
}

#[tokio::test(start_paused = true)]
async fn k2_186_a_task_is_followed_across_connections_and_holds_no_place() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, with_tasks());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let (started, ()) = tokio::join!(server.start_task(echo(), CallOptions::default()), async {
        let request = peer.expect("tools/call").await;
        peer.respond(request.id(), created()).await;
    });
    let StartedTask::Running(task) = started.unwrap() else { panic!("no task") };
    let following = tokio::spawn({
        let (server, id) = (server.clone(), task.id().to_owned());
        async move { server.task_result(&id, CallOptions::default()).await }
    });
    let poll = peer.expect("tasks/get").await;
    assert_eq!(server.status().in_flight, 0, "the only place is free while the task is at work");
    peer.respond(poll.id(), working()).await;
    peer.expect("tasks/get").await;
    peer.close(CloseReason::Exited(Exit::Code(0)));
    until(&server, |status| (!status.state.is_ready()).then_some(())).await;

    let peer = connector.next_peer().await;
    accept(&peer).await;
    let poll = peer.expect("tasks/get").await;
    peer.respond(poll.id(), done()).await;
    following.await.unwrap().unwrap();
    let sent: Vec<_> =
        peer.transcript().iter().filter_map(|frame| frame.method().map(str::to_owned)).collect();
    assert!(
        !sent.contains(&"tasks/cancel".to_owned()) && !sent.contains(&"tools/call".to_owned()),
        "{sent:?}"
    );
    bench.end().await;
}

/// The limits of a call hold for each question, not for how long a task is at work.
#[tokio::test(start_paused = true)]
async fn k2_186_a_task_that_was_long_at_work_is_still_followed_on_the_next_connection() {
    // In the first round the next connection has to be waited for, in the second it stands already.
    for waits in [true, false] {
        let bench = Bench::new();
        let connector = MemoryConnector::new();
        let server = bench.add_by_hand("one", &connector, with_tasks());
        let peer = connector.next_peer().await;
        accept(&peer).await;
        ready(&server).await;
        let began = Instant::now();
        let mut following = Box::pin(server.task_result("x", CallOptions::default()));
        let at_work = async {
            while began.elapsed() < seconds(100) {
                let poll = peer.expect("tasks/get").await;
                peer.respond(poll.id(), working()).await;
            }
            peer.expect("tasks/get").await;
        };
        tokio::select! {
            result = &mut following => panic!("{result:?}"),
            () = at_work => {}
        }
        peer.close(CloseReason::Exited(Exit::Code(0)));
        let next = async {
            let peer = connector.next_peer().await;
            accept(&peer).await;
            peer
        };
        let end = async |peer: ScriptedPeer| {
            let poll = peer.expect("tasks/get").await;
            peer.respond(poll.id(), done()).await;
            Ok(())
        };
        let followed = async {
            if waits {
                tokio::try_join!(following, async { end(next.await).await })
            } else {
                let peer = next.await;
                until(&server, |status| (status.state == State::Ready { generation: 2 }).then_some(())).await;
                tokio::try_join!(following, end(peer))
            }
        };
        followed.await.unwrap();
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn s100_a_dropped_call_of_a_supervised_server_cancels_its_task() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, with_tasks());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(echo(), CallOptions::default()).await }
    });
    let request = peer.expect("tools/call").await;
    peer.respond(request.id(), created()).await;
    let poll = peer.expect("tasks/get").await;
    assert_eq!(server.status().in_flight, 1, "a call is under way as long as its task");
    peer.respond(poll.id(), working()).await;
    peer.expect("tasks/get").await;
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    assert_eq!(server.status().in_flight, 0);
    peer.expect("tasks/cancel").await;
    peer.expect("notifications/cancelled").await;
    bench.end().await;
}

/// A ready server with a task that is at work.
async fn at_work(
    bench: &Bench,
    recess: RecessOptions,
) -> (ServerHandle, MemoryConnector, ScriptedPeer, TaskHandle) {
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, with_tasks().with_recess(recess));
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let (started, ()) = tokio::join!(server.start_task(echo(), CallOptions::default()), async {
        let request = peer.expect("tools/call").await;
        peer.respond(request.id(), created()).await;
    });
    let StartedTask::Running(task) = started.unwrap() else { panic!("no task") };
    (server, connector, peer, task)
}

/// Asks how the task is; the server says that it is done.
async fn finish(peer: &ScriptedPeer, task: &TaskHandle) {
    let (told, ()) = tokio::join!(task.get(CallOptions::default()), async {
        let poll = peer.expect("tasks/get").await;
        peer.respond(poll.id(), done()).await;
    });
    assert!(told.unwrap().status.is_final());
}

async fn is_asleep(server: &ServerHandle) {
    until(server, |status| matches!(status.state, State::Dormant { .. }).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_keeps_its_server_awake_until_it_is_over_or_nobody_wants_it() {
    for is_finished in [true, false] {
        let bench = Bench::new();
        let recess = RecessOptions::default().with_idle(Some(seconds(60)));
        let (server, _connector, peer, task) = at_work(&bench, recess).await;
        sleep(seconds(3600)).await; // nobody asks about the task for an hour
        assert_eq!(server.status().state, State::Ready { generation: 1 });
        // Of two handles one is enough, and a task that is over is nobody's use though both are held.
        let _other = is_finished.then(|| task.clone());
        if is_finished {
            finish(&peer, &task).await;
        } else {
            drop(task);
        }
        let ended = Instant::now();
        is_asleep(&server).await;
        assert!(ended.elapsed() >= seconds(60) && ended.elapsed() <= seconds(120), "{:?}", ended.elapsed());
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_connection_waits_for_a_task_that_somebody_wants_but_not_for_ever() {
    for is_finished in [true, false] {
        let bench = Bench::new();
        let recess = RecessOptions::default().with_age(Some(seconds(60)));
        let (server, connector, peer, task) = at_work(&bench, recess).await;
        let next = State::Connecting { generation: 2, attempt: 1 };
        until(&server, |status| (status.state == next).then_some(())).await;
        let left = Instant::now();
        sleep(seconds(100)).await; // the task is at work, and the connection stands
        assert_eq!(server.status().state, next);
        if is_finished {
            finish(&peer, &task).await;
        }
        let peer = connector.next_peer().await;
        assert_eq!(left.elapsed(), seconds(if is_finished { 100 } else { 300 }));
        accept(&peer).await;
        ready(&server).await;
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_somebody_wants_holds_up_no_stop() {
    let mut bench = Bench::new();
    let (_server, _connector, _peer, task) = at_work(&bench, RecessOptions::default()).await;
    let mut result = Box::pin(task.result(CallOptions::default()));
    assert!(result.as_mut().now_or_never().is_none());
    let began = Instant::now();
    let report = bench.supervisor.shutdown().await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((began.elapsed(), bench.moves("one").last()), (seconds(0), Some(&"stopped")));
    assert!(result.await.unwrap_err().is_session_gone());
    bench.end().await;
}
