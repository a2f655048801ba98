//! The five public handlers while their session is taken away from under them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "test code"
)]

mod stage;

use std::num::NonZeroUsize;

use mcp_lifecycle::{ServerOptions, ServerStatus};
use mcp_transport::{CloseReason, Closed, ConnectError};
use serde_json::{Value, json};
use stage::{OPERATIONS, SERVER, Stage, eventually, is_right};

/// What a swap of the session must leave alone.
fn bookkeeping(status: &ServerStatus) -> Value {
    json!({
        "breaker": status.breaker, "losses": status.losses, "ever_ready": status.ever_ready,
        "ready": status.state.is_ready(),
        "last_error": status.last_error.as_ref().map(ToString::to_string),
    })
}

fn serial() -> ServerOptions {
    ServerOptions::default().with_in_flight(NonZeroUsize::MIN)
}

/// A call waits for its turn; meanwhile the session it saw is replaced. It must go out on the new one.
#[tokio::test(start_paused = true)]
async fn f127_session_swapped_before_the_permit() {
    for (operation, method) in OPERATIONS {
        // A single attempt: a call that went to the old session first could not hide behind a repeat.
        let stage = Stage::start(serial().with_attempts(1)).await;
        let before = bookkeeping(&stage.server().status());
        let handlers = stage.handlers.clone();
        let first = tokio::spawn(async move {
            handlers.call_tool(&json!({"server": SERVER, "tool": "hang"}).to_string()).await
        });
        eventually("the first call has the only permit", || stage.log.runs("hang") == 1).await;
        let second = stage.perform(operation);
        eventually("the second call waits for its turn", || stage.server().status().waiting == 1).await;
        let on_old = stage.wire.left(0, method);

        stage.swap();

        let answer = second.await.unwrap();
        assert!(is_right(operation, &answer), "{operation}: {answer}");
        assert_eq!(stage.wire.left(0, method), on_old, "{operation} left on the old connection");
        let lost: Value = serde_json::from_str(&first.await.unwrap()).unwrap();
        assert_eq!((&lost["outcome"], &lost["server"]), (&json!("unknown"), &json!(SERVER)));
        assert_eq!(stage.wire.connections(), 2, "the loss asked for one connection");
        assert_eq!(stage.log.runs("hang"), 1, "what may have run is not repeated");
        assert_eq!(bookkeeping(&stage.settled().await), before);
        stage.finish().await;
    }
}

/// A call has won its permit and stands before the wire when its session is replaced. Nothing of it may
/// reach either connection twice, and none of it the old one.
#[tokio::test(start_paused = true)]
async fn f127_session_swapped_between_permit_and_send() {
    for (operation, method) in OPERATIONS {
        let stage = Stage::start(serial()).await;
        let before = bookkeeping(&stage.server().status());
        let (on_old, gate) = (stage.wire.left(0, method), stage.wire.hold(method));
        let call = stage.perform(operation);
        eventually("the call stands before the wire", || stage.wire.arrived() == 1).await;

        stage.swap();
        eventually("there is another connection", || stage.wire.connections() == 2).await;
        gate.add_permits(1);

        let answer = call.await.unwrap();
        assert!(is_right(operation, &answer), "{operation}: {answer}");
        assert_eq!(stage.wire.left(0, method), on_old, "{operation} left on the old connection");
        assert!(stage.log.runs("echo") <= 1, "the tool ran more than once");
        assert_eq!(bookkeeping(&stage.settled().await), before);
        stage.finish().await;
    }
}

/// As before, but no other session comes: a typed error that says that nothing was sent, at the deadline.
#[tokio::test(start_paused = true)]
async fn f127_session_lost_between_permit_and_send_and_none_follows() {
    for (operation, method) in OPERATIONS {
        let stage = Stage::start(serial()).await;
        let _gate = stage.wire.hold(method);
        let call = stage.perform(operation);
        eventually("the call stands before the wire", || stage.wire.arrived() == 1).await;

        let connect = stage.memory.hold();
        stage.swap();

        let answer = call.await.unwrap();
        assert_eq!(answer["outcome"], "not_sent", "{operation}: {answer}");
        assert_eq!(answer["server"], SERVER);
        assert_eq!(answer["retryable"], true);
        assert!(answer["error"].as_str().unwrap().contains(SERVER), "{answer}");
        connect.open();
        assert!(stage.settled().await.state.is_ready());
        stage.finish().await;
    }
}

/// One lost connection under many waiting calls is one loss, and nobody burns the budget of attempts.
#[tokio::test(start_paused = true)]
async fn f127_a_loss_under_many_calls_is_one_loss() {
    let stage = Stage::start(serial()).await;
    let gate = stage.wire.hold("tools/call");
    let calls: Vec<_> = (0..20).map(|_| stage.perform("call_tool")).collect();
    eventually("all others wait", || stage.server().status().waiting == 19).await;
    stage.memory.fail_next(ConnectError::Closed(Closed::new(CloseReason::EndOfStream, "")));
    stage.swap();
    eventually("the session has been taken away", || stage.memory.attempts() == 2).await;
    gate.add_permits(1);
    for call in calls {
        let answer = call.await.unwrap();
        assert!(is_right("call_tool", &answer), "{answer}");
    }
    assert_eq!(stage.log.runs("echo"), 20);
    assert_eq!(stage.memory.attempts(), 3, "the first one, the failed one, the next one");
    stage.finish().await;
}
