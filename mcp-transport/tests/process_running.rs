//! A running server: whatever it does, the connection says so at once and the host goes on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod harness;

use std::time::Duration;

use mcp_proto::{RequestId, sniff_id};
use mcp_transport::stdio::StdioLimits;
use mcp_transport::testing::checks::{Process, isolated, isolated_on, until};
use mcp_transport::{Broken, BrokenWhy, CloseReason, Dispatch, Ending, Exit, Inbound, SendError};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::Level;

use crate::harness::{AT_ONCE, Host, assert_within, call, cancel, fixture, graces, since_exit, soon};

/// The longest wait for what must come, on a machine with other work to do.
const SOON: Duration = Duration::from_secs(5);

/// Calls that are given up in one turn. Their notices fit into the pipe, so that the server need not
/// read them within the time limit of a notice.
const CANCELS: i64 = 400;

#[test]
fn f017_death_in_the_middle_of_a_call_is_seen_at_once() {
    for (step, exit) in [("exit 139", Exit::Code(139)), ("raise KILL", Exit::Signal(9))] {
        isolated(async |_| {
            assert_within(AT_ONCE, async || {
                let (host, (fixture, _folder)) = (Host::new(), fixture());
                let fixture = fixture.on("tools/call", &format!("barrier read; {step}"));
                let (fixture, mut control) = fixture.with_control();
                let mut client = host.open(&fixture).await;
                client.send(1, "echo", json!({})).await.unwrap();
                client.during(control.release("read")).await;
                let closed = client.closed().await;
                let transcript = fixture.transcript();
                let time = since_exit(&transcript);
                assert_eq!(closed.reason(), &CloseReason::Exited(exit));
                assert_eq!(
                    client.transport.abandon(&1.into(), Some(cancel(1))).dispatch,
                    Dispatch::MayHaveLeft
                );
                assert_eq!((transcript.runs("echo"), transcript.servers().len()), (1, 1));
                time
            })
            .await;
        });
    }
}

#[test]
fn f018_death_between_calls_is_seen_without_traffic() {
    isolated(async |_| {
        assert_within(AT_ONCE, async || {
            let (host, (fixture, _folder)) = (Host::new(), fixture());
            let fixture = fixture.on("tools/call", "respond; barrier idle; exit 0");
            let (fixture, mut control) = fixture.with_control();
            let mut client = host.open(&fixture).await;
            client.echo(1).await;
            control.release("idle").await;
            let closed = client.closed().await;
            let time = since_exit(&fixture.transcript());
            assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(0)));
            let refused = client.send(2, "echo", json!({})).await;
            assert!(matches!(refused, Err(SendError::Closed(_))), "{refused:?}");
            let report = client.transport.close(soon()).await;
            assert_eq!((report.ending, report.exit), (Ending::Clean, Some(Exit::Code(0))));
            time
        })
        .await;
    });
}

#[test]
fn f019_a_part_of_a_line_is_never_handed_up() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture.on("tools/call", "write-bytes 17; exit 139")).await;
        client.send(1, "echo", json!({})).await.unwrap();
        let closed = client.next().await.unwrap_err();
        assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(139)));
    });
}

#[test]
fn f021_noise_is_skipped_with_one_warning() {
    isolated(async |test| {
        test.expect_log(Level::WARN, "are no messages");
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture =
            fixture.on("start", "noise 300").on("tools/call#1", "noise 3; respond; flood 2; noise 300");
        let mut client = host.open(&fixture).await;
        for id in 1..=3 {
            client.echo(id).await;
        }
        client.close().await;
    });
}

#[test]
fn f021_noise_without_end_is_no_mcp_server() {
    isolated(async |test| {
        test.expect_log(Level::WARN, "are no messages");
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture.on("start", "noise 1001; hang")).await;
        assert_eq!(client.closed().await.reason(), &CloseReason::NotMcp);
        client.transport.close(soon()).await;
    });
}

#[test]
fn f023_a_line_over_the_limit_fails_its_own_call() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let limit = 2000;
        let mut client = host.open_with(&fixture, StdioLimits::default().with_max_frame_bytes(limit)).await;
        let answer = client.call(1, "echo", json!({"payload": 0})).await;
        let rest = answer.to_string().len();
        for length in [limit - 1, limit] {
            let answer = client.call(2, "echo", json!({"payload": length - rest})).await;
            assert_eq!(answer.to_string().len(), length);
        }
        client.send(3, "echo", json!({"payload": limit + 1 - rest})).await.unwrap();
        let inbound = client.next().await.unwrap();
        let Inbound::Broken(broken) = inbound else { panic!("{inbound:?}") };
        assert_eq!(broken, Broken::new(Some(3.into()), BrokenWhy::TooLarge { limit }));
        client.echo(4).await;
        client.close().await;
    });
}

#[test]
fn f023_an_endless_line_ends_the_connection() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture =
            fixture.on("start", "write {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"; fill 100000; hang");
        let limit = 10_000;
        let mut client = host.open_with(&fixture, StdioLimits::default().with_max_frame_bytes(limit)).await;
        let inbound = client.next().await.unwrap();
        let Inbound::Broken(broken) = inbound else { panic!("{inbound:?}") };
        assert_eq!(broken, Broken::new(Some(7.into()), BrokenWhy::TooLarge { limit }));
        let closed = client.closed().await;
        assert!(matches!(closed.reason(), CloseReason::Broken(_)), "{closed}");
        client.transport.close(soon()).await;
    });
}

#[test]
fn f024_a_server_that_does_not_read_holds_nobody_up() {
    isolated(async |_| {
        let host = Host::new();
        let ((deaf, _one), (healthy, _two)) = (fixture(), fixture());
        let limits = graces(100, 100).with_queue(4, 1024 * 1024);
        let mut deaf = host.open_with(&deaf.on("start", "hang"), limits).await;
        let mut healthy = host.open(&healthy).await;
        // More than the pipe and the queue can hold.
        let mut sent = 0;
        let transport = deaf.transport.clone();
        let frame = |id| call(id, "echo", json!({"message": "x".repeat(30_000)}));
        while deaf.during(timeout(AT_ONCE, transport.send(frame(sent)))).await.is_ok() {
            sent += 1;
        }
        assert!((4..20).contains(&sent), "{sent}");
        assert_eq!(deaf.transport.abandon(&sent.into(), Some(cancel(sent))).dispatch, Dispatch::NotSent);
        // The pipe holds two frames and a part of the third; or, for a user with many pipes, a part of one.
        let may_have_left =
            |id: &i64| deaf.transport.abandon(&(*id).into(), None).dispatch == Dispatch::MayHaveLeft;
        let left = (0..sent).take_while(may_have_left).count();
        assert!(left == 3 || left == 1, "{left}");
        assert!((4..sent).all(|id| !may_have_left(&id)));
        for id in 0..200 {
            let began = Instant::now();
            healthy.echo(id).await;
            assert!(began.elapsed() < AT_ONCE);
        }
        // A cancel that cannot be written ends the connection 50 ms later.
        let began = Instant::now();
        assert_eq!(deaf.transport.abandon(&0.into(), Some(cancel(0))).dispatch, Dispatch::MayHaveLeft);
        assert_eq!(deaf.closed().await.reason(), &CloseReason::Stuck);
        assert!((50..150).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        let report = deaf.transport.close(soon()).await;
        assert_eq!(report.ending, Ending::Terminated);
        assert!(report.elapsed < Duration::from_millis(300), "{report:?}");
        healthy.close().await;
    });
}

#[test]
fn f025_both_sides_write_a_mebibyte_before_they_read() {
    isolated(async |_| {
        assert_within(Duration::from_secs(1), async || {
            let (host, (fixture, _folder)) = (Host::new(), fixture());
            let begin =
                "write {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"";
            let fixture = fixture.on("start", &format!("{begin}; fill 1048576; write \"}}}}\\n"));
            let mut client = host.open(&fixture).await;
            let message = "x".repeat(1024 * 1024);
            let began = Instant::now();
            let answer = client.call(1, "echo", json!({"message": message, "payload": 3})).await;
            let time = began.elapsed();
            assert_eq!(answer["result"]["content"][0]["text"], "xxx");
            client.close().await;
            time
        })
        .await;
    });
}

#[test]
fn f026_answers_come_through_a_flood_of_notifications() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture.option("--flood-notifications", 5000)).await;
        for id in 1..=4 {
            client.send(id, "echo", json!({})).await.unwrap();
        }
        let (mut notifications, mut answers) = (0, Vec::new());
        while answers.len() < 4 {
            let inbound = client.next().await.unwrap();
            let Inbound::Message { frame, .. } = inbound else { panic!("{inbound:?}") };
            match sniff_id(&frame) {
                Some(id) => answers.push(id),
                None => notifications += 1,
            }
        }
        assert_eq!((notifications, answers), (20_000, vec![1.into(), 2.into(), 3.into(), 4.into()]));
        client.close().await;
    });
}

#[test]
fn f027_a_closed_output_loses_the_connection_at_once() {
    isolated(async |_| {
        assert_within(AT_ONCE, async || {
            let (host, (fixture, _folder)) = (Host::new(), fixture());
            let fixture = fixture.on("tools/call", "barrier read; close stdout; barrier closed");
            let (fixture, mut control) = fixture.with_control();
            let mut client = host.open(&fixture).await;
            client.send(1, "echo", json!({})).await.unwrap();
            client.during(control.release("read")).await;
            control.wait_for("closed").await;
            let began = Instant::now();
            assert_eq!(client.closed().await.reason(), &CloseReason::EndOfStream);
            let time = began.elapsed();
            control.release("closed").await;
            assert_eq!(client.transport.close(soon()).await.ending, Ending::Clean);
            time
        })
        .await;
    });
}

#[test]
fn f028_a_closed_input_is_no_signal_for_the_host_and_nothing_has_left() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("tools/call", "close stdin; respond; hang");
        let mut client = host.open_with(&fixture, graces(100, 100)).await;
        client.echo(1).await;
        let refused = client.send(2, "echo", json!({})).await;
        let Err(SendError::Closed(closed)) = refused else { panic!("{refused:?}") };
        assert!(matches!(closed.reason(), CloseReason::Broken(_)), "{closed}");
        client.closed().await;
        client.transport.close(soon()).await;
        assert_eq!(fixture.transcript().count("tools/call"), 1);
    });
}

#[test]
fn f128_cancels_for_many_calls_in_one_turn_are_all_written() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture).await;
        let transport = client.transport.clone();
        let expected: Vec<RequestId> = (1..=CANCELS).map(RequestId::from).collect();
        let send = async {
            for id in 1..=CANCELS {
                transport.send(call(id, "hang", json!({}))).await.unwrap();
            }
        };
        client.during(send).await;
        let calls_have_come = || fixture.transcript().runs("hang") == expected.len();
        client.during(until(SOON, "all calls have come", calls_have_come)).await;
        for id in 1..=CANCELS {
            assert_eq!(transport.abandon(&id.into(), Some(cancel(id))).dispatch, Dispatch::MayHaveLeft);
        }
        let notices_have_come = || fixture.transcript().cancelled() == expected;
        client.during(until(SOON, "all notices have come", notices_have_come)).await;
        client.echo(0).await;
        client.close().await;
    });
}

#[test]
fn f029_a_flood_on_stderr_is_drained_and_its_end_kept() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("tools/call#2", "stderr-flood 20971520; stderr the end; respond; exit 3");
        let began = Instant::now();
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        client.echo(2).await;
        let closed = client.closed().await;
        let tail = closed.stderr_tail();
        assert!(tail.contains("the end") && tail.len() <= 4096, "{tail:?}");
        let lines = test.log().records().iter().filter(|record| record.fields.contains_key("line")).count();
        let allowed = 100 * (began.elapsed().as_secs() + 2);
        assert!(
            lines > 0 && u64::try_from(lines).unwrap() <= allowed,
            "{lines} lines in {:?}",
            began.elapsed()
        );
    });
}

#[test]
fn f031_a_stopped_server_is_woken_to_be_terminated() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--ignore-stdin-close").on("tools/call", "raise STOP");
        let mut client = host.open_with(&fixture, graces(100, 500)).await;
        client.send(1, "echo", json!({})).await.unwrap();
        let is_stopped = || {
            let servers = fixture.transcript().servers();
            servers.first().and_then(|pid| Process::read(*pid)).is_some_and(|process| process.state == 'T')
        };
        client.during(until(Duration::from_secs(5), "the server is stopped", is_stopped)).await;
        assert!(client.is_silent(AT_ONCE).await);
        let report = client.close().await;
        assert_eq!((report.ending, report.exit), (Ending::Terminated, Some(Exit::Signal(15))));
        assert!(report.elapsed < Duration::from_millis(300), "{report:?}");
    });
}

#[test]
fn a_thousand_calls_side_by_side_are_all_answered_on_two_threads() {
    isolated_on(2, async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture).await;
        let transport = client.transport.clone();
        let send = async {
            for id in 0..1000_i64 {
                transport.send(call(id, "echo", json!({"delay_ms": id % 7}))).await.unwrap();
            }
        };
        let receive = async {
            for _ in 0..1000 {
                let inbound = client.next().await.unwrap();
                assert!(matches!(inbound, Inbound::Message { .. }), "{inbound:?}");
            }
        };
        tokio::join!(send, receive);
        client.close().await;
        assert_eq!(fixture.transcript().runs("echo"), 1000);
        assert!(fixture.transcript().violations().is_empty());
    });
}

#[test]
fn neighbours_do_not_touch_each_other() {
    isolated(async |_| {
        let host = Host::new();
        let ((one, _one), (two, _two)) = (fixture(), fixture());
        let one = one.on("tools/call", "raise KILL");
        let (mut first, mut second) = tokio::join!(host.open(&one), host.open(&two));
        first.send(1, "echo", json!({})).await.unwrap();
        first.closed().await;
        second.echo(1).await;
        second.close().await;
        let transcript = two.transcript();
        assert!(transcript.signals(transcript.servers()[0]).is_empty());
    });
}
