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

use mcp_lifecycle::{ServerOptions, State};
use mcp_session::{CallOptions, EraPolicy, SessionOptions, StartedTask};
use mcp_transport::testing::{MemoryConnector, ScriptedPeer};
use mcp_transport::{CloseReason, Exit};
use serde_json::{Value, json};
use support::{Bench, answer_tools, echo, plain, ready, seconds, until};
use tokio::time::Instant;

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
