//! Supervising real child processes: what they do, and that nothing of them is left.
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
use std::sync::mpsc::{SyncSender, sync_channel};

use futures_util::future::join_all;
use mcp_lifecycle::{
    CallError, Failure, KeepaliveOptions, ParkReason, RecessOptions, ServerHandle, ServerOptions, ServerSpec,
    State, Supervisor, SupervisorOptions,
};
use mcp_session::{CallOptions, CallOutcome};
use mcp_transport::process::{Command, Graces, LocalProcesses, ProcessFactory};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use mcp_transport::testing::checks::{self, Process, isolated, marked};
use mcp_transport::testing::fixture::{Fixture, sibling_example};
use mcp_transport::{Ending, Exit};
use rustix::process::{Pid, Signal, kill_process};
use support::{echo, milliseconds, plain, ready, seconds, tool, until};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Level;

/// The longest that something which should happen at once may take.
const AT_ONCE: std::time::Duration = milliseconds(100);

/// A process factory and the supervisor that uses it.
struct Host {
    processes: Arc<LocalProcesses>,
    supervisor: Option<Supervisor>,
}

impl Host {
    fn new() -> Self {
        Self::on(&Handle::current(), SupervisorOptions::default())
    }

    fn on(runtime: &Handle, options: SupervisorOptions) -> Self {
        let processes = Arc::new(LocalProcesses::new());
        let killed = Arc::clone(&processes);
        let options = options.with_seed(1).with_kill(move || killed.kill_all());
        Self { processes, supervisor: Some(Supervisor::start(runtime, options)) }
    }

    fn add(&self, fixture: &Fixture, options: ServerOptions) -> ServerHandle {
        let (name, mark) = fixture.mark();
        let command =
            Command::new(fixture.program()).args(fixture.arguments()).env(name, mark).server("fixture");
        let graces = Graces::default().with_stdin_close(milliseconds(300)).with_terminate(milliseconds(300));
        let limits = StdioLimits::default().with_graces(graces);
        let connector = StdioConnector::new(self.processes.clone(), command, limits);
        let spec = ServerSpec::new("fixture", Arc::new(connector)).with_options(options);
        self.supervisor().add(spec).unwrap()
    }

    fn supervisor(&self) -> &Supervisor {
        self.supervisor.as_ref().unwrap()
    }

    fn drop_supervisor(&mut self) {
        self.supervisor = None;
    }
}

/// Every child is reaped and the thread has ended before the outside checks look.
impl Drop for Host {
    fn drop(&mut self) {
        self.processes.join();
    }
}

/// A fixture in a folder of its own.
fn fixture() -> (Fixture, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Fixture::from_program(sibling_example("lifecycle_fixture"), folder.path()), folder)
}

fn alive(fixture: &Fixture) -> Vec<Process> {
    marked(fixture.mark().1)
}

fn signal_server(fixture: &Fixture, signal: Signal) {
    let pid = *fixture.transcript().servers().last().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn f017_a_killed_server_ends_its_call_at_once_and_the_next_call_succeeds_by_itself() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let server = host.add(&fixture, plain());
        server.call(echo(), CallOptions::default()).await.unwrap();
        test.expect_log(Level::WARN, "connection lost");
        let began = Instant::now();
        let (result, ()) = tokio::join!(server.call(tool("hang"), CallOptions::default()), async {
            while fixture.transcript().runs("hang") == 0 {
                tokio::task::yield_now().await;
            }
            signal_server(&fixture, Signal::KILL);
        });
        let error = result.unwrap_err();
        assert!(error.is_session_gone() && error.outcome() == CallOutcome::Unknown, "{error}");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        server.call(echo(), CallOptions::default()).await.unwrap();
        assert!(began.elapsed() < 2 * AT_ONCE, "a first crash costs no delay: {:?}", began.elapsed());
        let transcript = fixture.transcript();
        assert_eq!((transcript.runs("hang"), transcript.runs("echo"), transcript.servers().len()), (1, 2, 2));
        let Some(Failure::Lost(closed)) = server.status().last_error.as_deref().cloned() else { panic!() };
        assert_eq!(*closed.reason(), mcp_transport::CloseReason::Exited(Exit::Signal(9)));
        assert!(host.supervisor().shutdown().await.is_clean());
    });
}

#[test]
fn f021_a_server_that_floods_its_output_with_noise_after_it_was_ready_is_started_again() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let server = host.add(&fixture.on("tools/call#1", "respond; noise 1001"), plain());
        test.expect_log(Level::WARN, "are no messages");
        test.expect_log(Level::WARN, "a broken message");
        test.expect_log(Level::WARN, "connection lost");
        server.call(echo(), CallOptions::default()).await.unwrap();
        until(&server, |status| (status.state == State::Ready { generation: 2 }).then_some(())).await;
        let Some(Failure::Lost(closed)) = server.status().last_error.as_deref().cloned() else { panic!() };
        assert_eq!(*closed.reason(), mcp_transport::CloseReason::NotMcp);
        assert!(host.supervisor().shutdown().await.is_clean());
    });
}

#[test]
fn a_server_that_nobody_uses_has_no_process_until_the_next_call() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let recess = RecessOptions::default().with_idle(Some(milliseconds(200)));
        let server = host.add(&fixture, plain().with_recess(recess));
        for processes in 1..=2 {
            let calls = join_all((0..10).map(|_| server.call(echo(), CallOptions::default())));
            calls.await.into_iter().for_each(|result| drop(result.unwrap()));
            assert_eq!(fixture.transcript().servers().len(), processes, "one start for all callers");
            assert_eq!(alive(&fixture).len(), 1);
            until(&server, |status| matches!(status.state, State::Dormant { .. }).then_some(())).await;
            checks::until(seconds(1), "no process", || alive(&fixture).is_empty()).await;
            assert!(server.lists().is_some());
        }
        assert!(host.supervisor().shutdown().await.is_clean());
    });
}

#[test]
fn f031_a_stopped_server_is_found_out_ended_and_replaced() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let keepalive = KeepaliveOptions::default()
            .with_interval(Some(milliseconds(100)))
            .with_reply_limit(milliseconds(200))
            .with_misses(2);
        let server = host.add(&fixture, plain().with_keepalive(keepalive));
        ready(&server).await;
        test.expect_log(Level::WARN, "connection lost");
        signal_server(&fixture, Signal::STOP);
        let began = Instant::now();
        until(&server, |status| (status.state == State::Ready { generation: 2 }).then_some(())).await;
        assert!(began.elapsed() < seconds(3), "{:?}", began.elapsed());
        assert_eq!(alive(&fixture).len(), 1);
        let Some(Failure::Unresponsive { .. }) = server.status().last_error.as_deref() else { panic!() };
        host.supervisor().shutdown().await;
    });
}

#[test]
fn f012_a_server_that_hangs_in_the_handshake_is_ended_at_the_limit_with_all_it_has_started() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("start", "fork stubborn").on("initialize", "hang").flag("--ignore-sigterm");
        let options = plain().with_connect_limit(milliseconds(500)).with_park_after(1);
        test.expect_log(Level::WARN, "not ready within 500 ms");
        test.expect_log(Level::WARN, "did not end by itself");
        let began = Instant::now();
        let server = host.add(&fixture, options);
        until(&server, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
        let elapsed = began.elapsed();
        assert!(elapsed >= milliseconds(500) && elapsed < milliseconds(700), "{elapsed:?}");
        let is_closed = || test.log().at(Level::WARN).len() == 2;
        mcp_transport::testing::checks::until(seconds(2), "closed", is_closed).await;
        assert_eq!(alive(&fixture), []);
        assert_eq!(fixture.transcript().servers().len(), 1);
        host.supervisor().shutdown().await;
    });
}

#[test]
fn f133_i02_shutdown_at_every_stage_of_connecting_leaves_no_process() {
    for (event, steps) in [
        ("start", "barrier held"),
        ("initialize", "barrier held; respond"),
        ("initialize", "write-bytes 17; barrier held"),
        ("tools/list#2", "barrier held; respond"),
    ] {
        isolated(async |_| {
            let (host, (fixture, _folder)) = (Host::new(), fixture());
            let (fixture, mut control) = fixture.option("--page-size", 2).on(event, steps).with_control();
            host.add(&fixture, plain());
            control.wait_for("held").await;
            assert_eq!(alive(&fixture).len(), 1);
            let began = Instant::now();
            let report = host.supervisor().shutdown().await;
            // A server at a barrier does not notice the end of its input.
            assert!(began.elapsed() < seconds(1), "{event}: {:?}", began.elapsed());
            assert!(report.servers[0].ending <= Ending::Terminated, "{report:?}");
            assert_eq!(alive(&fixture), []);
        });
    }
}

#[test]
fn f134_a_server_that_exits_before_the_handshake_leaves_nothing_and_says_why() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("start", "stderr no licence; exit 1");
        let began = Instant::now();
        let server = host.add(&fixture, plain().with_park_after(1));
        test.expect_log(Level::WARN, "no licence");
        until(&server, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
        assert!(began.elapsed() < seconds(1), "not at the connect limit: {:?}", began.elapsed());
        let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("status 1") && text.contains("no licence"), "{text}");
        assert_eq!(alive(&fixture), []);
        assert_eq!(host.processes.live(), 0);
        assert!(host.supervisor().shutdown().await.is_clean());
    });
}

#[test]
fn f135_promise_c_a_parked_server_is_owned_revivable_and_ended_by_the_public_shutdown() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        // It is ready, then dies: twice, then it is healthy.
        let fixture = fixture.on("tools/call@1", "exit 1").on("tools/call@2", "exit 1");
        let server = host.add(&fixture, plain().with_park_after(2));
        for _ in 0..2 {
            test.expect_log(Level::WARN, "connection lost");
            let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
            assert!(error.is_session_gone(), "{error}");
        }
        let why = until(&server, |status| match status.state {
            State::Parked { why, .. } => Some(why),
            _ => None,
        });
        assert_eq!(why.await, ParkReason::Unproven { attempts: 2 });
        server.wake();
        server.call(echo(), CallOptions::default()).await.unwrap();

        test.expect_log(Level::WARN, "connection lost");
        signal_server(&fixture, Signal::KILL);
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
        let began = Instant::now();
        let report = host.supervisor().shutdown().await;
        assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
        assert!(report.servers[0].exceeded.is_empty(), "{report:?}");
        assert_eq!(alive(&fixture), []);
    });
}

#[test]
fn f135_shutdown_of_a_parked_server_is_immediate() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("start", "exit 1");
        let server = host.add(&fixture, plain().with_park_after(1));
        test.expect_log(Level::WARN, "connection lost");
        until(&server, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
        let began = Instant::now();
        assert!(host.supervisor().shutdown().await.is_clean());
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    });
}

#[test]
fn f135_promise_c_a_failed_start_that_is_still_retried_is_ended_by_shutdown() {
    isolated(async |test| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("start", "exit 1");
        let options = plain().with_park_after(100);
        let server = host.add(&fixture, options);
        until(&server, |status| matches!(status.state, State::Backoff { attempt: 3, .. }).then_some(()))
            .await;
        (0..2).for_each(|_| test.expect_log(Level::WARN, "connection lost"));
        let began = Instant::now();
        let report = host.supervisor().shutdown().await;
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(fixture.transcript().servers().len(), 2);
        assert_eq!(alive(&fixture), []);
    });
}

/// A runtime with one thread of its own, as a program without a runtime would have it; it runs until
/// the sender is used or dropped.
fn runtime_of_its_own() -> (Handle, oneshot::Sender<()>, std::thread::JoinHandle<()>) {
    let (finish, finished) = oneshot::channel::<()>();
    let (started, handle) = sync_channel(1);
    let thread = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        started.send(runtime.handle().clone()).unwrap();
        let _ = runtime.block_on(finished);
    });
    (handle.recv().unwrap(), finish, thread)
}

/// Blocks the only thread of `runtime` by a std channel, until the sender is used.
fn block(runtime: &Handle, blocker: &mut JoinSet<()>) -> SyncSender<()> {
    let (unblock, blocked) = sync_channel::<()>(0);
    let (is_blocked, seen) = sync_channel(1);
    let block = async move {
        is_blocked.send(()).unwrap();
        blocked.recv().unwrap();
    };
    blocker.spawn_on(block, runtime);
    seen.recv().unwrap();
    unblock
}

#[test]
fn i34_promise_c_a_blocked_runtime_delays_the_drain_and_the_stop_never_overtakes_it() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.option("--tool", "held=echo").on("tools/call:held", "barrier held; respond");
        let (fixture, mut control) = fixture.with_control();
        let (runtime, finish, thread) = runtime_of_its_own();
        // Shorter than the runtime is going to be blocked: only what it has for itself counts.
        let host = Host::on(&runtime, SupervisorOptions::default().with_drain(milliseconds(500)));
        let server = host.add(&fixture, plain());
        let (mut tasks, mut blocker) = (JoinSet::new(), JoinSet::new());
        let caller = server.clone();
        let call =
            tasks.spawn_on(async move { caller.call(tool("echo"), CallOptions::default()).await }, &runtime);
        drop(call);
        tasks.join_next().await.unwrap().unwrap().unwrap();
        tasks.spawn_on(async move { server.call(tool("held"), CallOptions::default()).await }, &runtime);
        control.wait_for("held").await;

        // Its only thread is blocked by a std channel while a shutdown is asked for.
        let unblock = block(&runtime, &mut blocker);
        let still = host.supervisor().shutdown().wait(milliseconds(700)).unwrap_err();
        assert_eq!(still.waited, milliseconds(700));
        assert_eq!(fixture.transcript().events("eof").count(), 0, "nothing was stopped");
        control.release("held").await;
        unblock.send(()).unwrap();

        // The drain runs first: the call is answered. Then the server is stopped.
        let report = host.supervisor().shutdown().wait(seconds(5)).unwrap();
        assert!(report.is_clean(), "{report:?}");
        tasks.join_next().await.unwrap().unwrap().unwrap();
        let transcript = fixture.transcript();
        assert_eq!(transcript.cancelled(), []);
        assert_eq!(transcript.events("eof").count(), 1);
        finish.send(()).unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn i34_promise_c_a_runtime_that_stands_still_while_it_drains_gets_that_time_back() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.option("--tool", "held=echo").on("tools/call:held", "barrier held; respond");
        let (fixture, mut control) = fixture.with_control();
        let (runtime, finish, thread) = runtime_of_its_own();
        let host = Host::on(&runtime, SupervisorOptions::default().with_drain(milliseconds(500)));
        let server = host.add(&fixture, plain());
        let mut status = server.watch();
        let (mut tasks, mut blocker) = (JoinSet::new(), JoinSet::new());
        tasks.spawn_on(async move { server.call(tool("held"), CallOptions::default()).await }, &runtime);
        control.wait_for("held").await;
        drop(host.supervisor().shutdown());
        status.wait_for(|status| status.state == State::Draining).await.unwrap();

        // Three times as long as the drain may take; the answer comes only after that.
        let unblock = block(&runtime, &mut blocker);
        host.supervisor().shutdown().wait(milliseconds(1500)).unwrap_err();
        unblock.send(()).unwrap();
        // A timer set now fires after the one of the drain, which is late: that was looked at first.
        blocker.spawn_on(tokio::time::sleep(milliseconds(1)), &runtime);
        while blocker.join_next().await.is_some() {}
        control.release("held").await;

        let report = host.supervisor().shutdown().wait(seconds(5)).unwrap();
        assert!(report.is_clean(), "{report:?}");
        tasks.join_next().await.unwrap().unwrap().unwrap();
        finish.send(()).unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn f137_running_calls_are_drained_then_cancelled_then_the_process_is_stopped() {
    isolated(async |test| {
        let host = Host::on(&Handle::current(), SupervisorOptions::default().with_drain(milliseconds(300)));
        let (fixture, _folder) = fixture();
        let fixture = fixture.option("--tool", "slow=slow:100");
        let server = host.add(&fixture, plain().with_in_flight(100.try_into().unwrap()));
        ready(&server).await;
        test.expect_log(Level::WARN, "stopping exceeds a bound");
        let calls = join_all((0..100).map(|number| {
            let name = if number % 2 == 0 { "slow" } else { "hang" };
            server.call(tool(name), CallOptions::default())
        }));
        let shutdown = async {
            while server.status().in_flight < 100 {
                tokio::task::yield_now().await;
            }
            host.supervisor().shutdown().await
        };
        let began = Instant::now();
        let (results, report) = tokio::join!(calls, shutdown);
        assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
        for (number, result) in results.into_iter().enumerate() {
            match result {
                Ok(_) => assert_eq!(number % 2, 0),
                Err(CallError::ShuttingDown { outcome, .. }) => {
                    assert_eq!((outcome, number % 2), (CallOutcome::Unknown, 1));
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(report.servers[0].calls_cancelled, 50);
        let transcript = fixture.transcript();
        assert_eq!(
            (transcript.cancelled().len(), transcript.runs("slow"), transcript.runs("hang")),
            (50, 50, 50)
        );
        let order: Vec<_> = transcript.records().iter().map(|record| record.event.clone()).collect();
        assert_eq!(order.iter().filter(|event| *event == "eof").count(), 1);
    });
}

#[test]
fn f141_a_supervisor_dropped_without_a_shutdown_kills_its_children_and_says_so_once() {
    isolated(async |test| {
        let (mut host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        let server = host.add(&fixture, plain());
        ready(&server).await;
        test.expect_log(Level::WARN, "dropped without a shutdown");
        host.drop_supervisor();
        checks::until(seconds(1), "no process", || alive(&fixture).is_empty()).await;
        let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
        assert!(matches!(error, CallError::ShuttingDown { .. }), "{error}");
    });
}

#[test]
fn f142_dropping_it_outside_any_runtime_or_after_its_end_kills_without_a_panic() {
    for is_ended_first in [false, true] {
        isolated(async |test| {
            let (fixture, _folder) = fixture();
            let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
            test.expect_log(Level::WARN, "dropped without a shutdown");
            let marked_fixture = fixture.clone();
            let thread = std::thread::spawn(move || {
                let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
                let mut host = Host::on(runtime.handle(), SupervisorOptions::default());
                let server = host.add(&marked_fixture, plain());
                runtime.block_on(ready(&server));
                if is_ended_first {
                    drop(runtime);
                    host.drop_supervisor();
                } else {
                    host.drop_supervisor();
                    drop(runtime);
                }
            });
            while !thread.is_finished() {
                tokio::task::yield_now().await;
            }
            thread.join().unwrap();
            assert_eq!(alive(&fixture), []);
        });
    }
}

#[test]
fn f142_dropping_it_kills_at_once_although_its_runtime_does_not_get_to_run() {
    isolated(async |test| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        test.expect_log(Level::WARN, "dropped without a shutdown");
        let (dropped, is_dropped) = oneshot::channel();
        let (seen, is_seen) = sync_channel::<()>(0);
        let started = fixture.clone();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let mut host = Host::on(runtime.handle(), SupervisorOptions::default());
            let server = host.add(&started, plain());
            runtime.block_on(ready(&server));
            // Nobody drives the runtime from here on, so no task of it can help.
            host.drop_supervisor();
            dropped.send(()).unwrap();
            is_seen.recv().unwrap();
        });
        is_dropped.await.unwrap();
        checks::until(seconds(1), "no process", || alive(&fixture).is_empty()).await;
        seen.send(()).unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn f143_a_runtime_that_ends_under_live_connections_takes_the_children_along() {
    isolated(async |test| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        test.expect_log(Level::WARN, "dropped without a shutdown");
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut host = Host::on(runtime.handle(), SupervisorOptions::default());
        let server = host.add(&fixture, plain());
        ready(&server).await;
        let began = Instant::now();
        std::thread::spawn(move || runtime.shutdown_timeout(seconds(1))).join().unwrap();
        assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
        checks::until(seconds(1), "no process", || alive(&fixture).is_empty()).await;
        // Nobody may wait for what will not come.
        let error = server.call(echo(), CallOptions::default()).await.unwrap_err();
        assert!(matches!(error, CallError::ShuttingDown { .. }), "{error}");
        assert_eq!(host.supervisor().shutdown().await.servers[0].ending, Ending::Abandoned);
        host.drop_supervisor();
    });
}
