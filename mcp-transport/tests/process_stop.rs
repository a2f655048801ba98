//! Stopping a server: the mildest means that works, in time, and nothing left.
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

use mcp_transport::process::{Graces, ProcessFactory as _};
use mcp_transport::testing::checks::{Process, children, isolated, marked, until};
use mcp_transport::testing::fixture::{Fixture, Record};
use mcp_transport::{CloseReason, Ending, Exit};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{AT_ONCE, Host, fixture, graces, since_exit, soon};

/// From the end of the server's input to its first SIGTERM, as the server saw both.
fn from_eof_to_term(fixture: &Fixture) -> Duration {
    let transcript = fixture.transcript();
    let at = |event: &str| transcript.events(event).next().map(|record: &Record| record.at);
    at("signal").expect("a signal was seen") - at("eof").expect("the end of the input was seen")
}

#[track_caller]
fn assert_about(time: Duration, expected: Duration) {
    assert!(time >= expected && time < expected + AT_ONCE, "{time:?} is not {expected:?}");
}

#[test]
fn f037_a_well_behaved_server_gets_no_signal() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        let report = client.close().await;
        assert_eq!((report.ending, report.exit), (Ending::Clean, Some(Exit::Code(0))));
        assert!(report.elapsed < AT_ONCE, "{report:?}");
        let transcript = fixture.transcript();
        assert!(transcript.signals(transcript.servers()[0]).is_empty());
        assert_eq!(transcript.events("eof").count(), 1);
    });
}

#[test]
fn f038_a_server_that_ignores_the_end_of_its_input_gets_sigterm_after_two_seconds() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--ignore-stdin-close");
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        let report = client.close().await;
        assert_eq!((report.ending, report.exit), (Ending::Terminated, Some(Exit::Signal(15))));
        assert_about(report.elapsed, Graces::default().stdin_close);
        assert_about(from_eof_to_term(&fixture), Duration::from_millis(1990));
        let transcript = fixture.transcript();
        // SIGCONT comes with it, and the server may take it first.
        assert!(transcript.signals(transcript.servers()[0]).contains(&15));
    });
}

#[test]
fn f039_a_server_that_ignores_sigterm_as_well_is_killed_within_the_ladder() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        let report = client.close().await;
        assert_eq!((report.ending, report.exit), (Ending::Killed, Some(Exit::Signal(9))));
        assert_about(report.elapsed, Duration::from_secs(4));
        assert!(marked(fixture.mark().1).is_empty());
    });
}

#[test]
fn f040_a_slow_end_after_sigterm_is_waited_for_and_its_status_kept() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--ignore-stdin-close").on("sigterm", "sleep 1900; exit 7");
        let mut client = host.open_with(&fixture, graces(100, 2000)).await;
        client.echo(1).await;
        let report = client.close().await;
        assert_eq!((report.ending, report.exit), (Ending::Terminated, Some(Exit::Code(7))));
        assert_about(report.elapsed, Duration::from_secs(2));
    });
}

#[test]
fn f041_output_while_stopping_is_drained() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture.on("eof", "fill 10485760; write \\n")).await;
        client.echo(1).await;
        let report = client.close().await;
        assert_eq!((report.ending, report.exit), (Ending::Clean, Some(Exit::Code(0))));
    });
}

#[test]
fn f042_what_a_wrapper_leaves_in_its_group_goes_with_it() {
    for end in ["eof", "tools/call#2"] {
        isolated(async |_| {
            let (host, (fixture, _folder)) = (Host::new(), fixture());
            let fixture = fixture.on("start", "fork stubborn silent; fork stubborn").on(end, "exit 0");
            let mut client = host.open(&fixture).await;
            client.echo(1).await;
            until(Duration::from_secs(5), "both workers run", || {
                fixture.transcript().grandchildren().len() == 2
            })
            .await;
            if end == "eof" {
                client.close().await;
            } else {
                client.send(2, "echo", json!({})).await.unwrap();
                client.closed().await;
            }
            // SIGKILL was sent before the leader was reaped; the end of a process takes a moment.
            until(AT_ONCE, "the group is gone", || marked(fixture.mark().1).is_empty()).await;
        });
    }
}

#[test]
fn f043_a_grandchild_that_holds_the_output_open_does_not_hide_the_exit() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        // In a session of its own the sweep of the group does not reach it.
        let fixture = fixture.on("start", "fork session").on("tools/call#2", "respond; exit 0");
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        until(Duration::from_secs(5), "the grandchild runs", || {
            fixture.transcript().grandchildren().len() == 1
        })
        .await;
        client.echo(2).await;
        let closed = client.closed().await;
        assert!(since_exit(&fixture.transcript()) < Duration::from_millis(250));
        assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(0)));
        let report = client.transport.close(soon()).await;
        assert_eq!((report.ending, report.exit), (Ending::Clean, Some(Exit::Code(0))));
        drop(client);
        let grandchild = fixture.transcript().grandchildren()[0];
        assert!(Process::read(grandchild).is_some_and(|process| !process.is_zombie()));
        kill_process(Pid::from_raw(grandchild).unwrap(), Signal::KILL).unwrap();
    });
}

#[test]
fn f046_a_child_that_nobody_waits_for_is_reaped() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("start", "exit 0");
        // Nobody polls the connection.
        let client = host.open(&fixture).await;
        until(Duration::from_secs(1), "the server has ended", || {
            fixture.transcript().events("exit").count() == 1
        })
        .await;
        until(Duration::from_secs(1), "no child is left", || children().is_empty()).await;
        assert_eq!(host.processes.live(), 0);
        drop(client);
    });
}

#[test]
fn a_close_with_little_time_shrinks_the_ladder() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        let began = Instant::now();
        let report = client.transport.close(began + Duration::from_millis(500)).await;
        assert!(began.elapsed() < Duration::from_millis(600), "{:?}", began.elapsed());
        assert_eq!((report.ending, report.exit), (Ending::Killed, Some(Exit::Signal(9))));
    });
}

#[test]
fn closing_twice_gives_one_report_and_dropping_the_close_does_not_stop_it() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--ignore-stdin-close");
        let mut client = host.open_with(&fixture, graces(100, 100)).await;
        client.echo(1).await;
        let first = client.transport.close(soon());
        assert!(tokio::time::timeout(Duration::from_millis(10), first).await.is_err());
        let (one, two) = tokio::join!(client.transport.close(soon()), client.transport.close(soon()));
        assert_eq!(one, two);
        assert_eq!(one.ending, Ending::Terminated);
        assert_eq!(host.processes.live(), 0);
    });
}
