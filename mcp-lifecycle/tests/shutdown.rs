//! Stopping: one owned sequence with deadlines of its own, whatever its callers do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::join_all;
use mcp_lifecycle::{
    AddError, CallError, ServerHandle, ServerOptions, ServerSpec, Startup, State, StopStep, Supervisor,
    SupervisorOptions,
};
use mcp_proto::{CallToolResult, ListTools};
use mcp_session::{CallOptions, CallOutcome, ListLimits};
use mcp_transport::testing::checks::LogCapture;
use mcp_transport::testing::{MemoryConnector, ScriptedPeer, ServerScript, ToolBehaviour};
use mcp_transport::{ConnectError, Connector, Ending};
use support::{
    Bench, Blocking, CloseFault, Faulty, accept, assert_quiescent, echo, in_seconds, milliseconds, plain,
    ready, seconds, tool, until,
};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Level;

#[tokio::test(start_paused = true)]
async fn f135_i13_shutdown_interrupts_every_wait_at_once() {
    let failing = |connector: &MemoryConnector| {
        (0..10).for_each(|_| connector.fail_next(ConnectError::Timeout));
    };
    let cases: [(&str, ServerOptions, bool); 4] = [
        ("backoff", plain(), true),
        ("parked", plain().with_park_after(1), true),
        ("dormant", plain().with_startup(Startup::OnDemand), false),
        ("disabled", plain().with_startup(Startup::Disabled), false),
    ];
    for (name, options, fails) in cases {
        let mut bench = Bench::new();
        let connector = MemoryConnector::new();
        if fails {
            failing(&connector);
        }
        let server = bench.add_by_hand("one", &connector, options);
        until(&server, |status| (status.state.name() == name).then_some(())).await;
        let began = Instant::now();
        let report = bench.supervisor.shutdown().await;
        assert_eq!(began.elapsed(), seconds(0), "i13: {name}");
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(bench.moves("one").last(), Some(&"stopped"));
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn i01_shutdown_in_mixed_states_leaves_no_task() {
    let mut bench = Bench::new();
    let good = bench.add("good", &ServerScript::legacy(), plain());
    let broken = MemoryConnector::new();
    broken.fail_next(ConnectError::Timeout);
    let parked = bench.add_by_hand("parked", &broken, plain().with_park_after(1));
    let mute = MemoryConnector::new();
    bench.add_by_hand("stuck", &mute, plain());
    let peer = mute.next_peer().await;
    peer.expect("initialize").await;
    ready(&good).await;
    until(&parked, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
    let began = Instant::now();
    let report = bench.end().await;
    assert_eq!(began.elapsed(), seconds(0));
    let names: Vec<_> = report.servers.iter().map(|server| &*server.name).collect();
    assert_eq!(names, ["good", "parked", "stuck"], "in the order in which they were added");
    assert_eq!((broken.attempts(), mute.attempts()), (1, 1), "nothing is started any more");
}

#[tokio::test(start_paused = true)]
async fn f137_running_calls_may_finish_and_the_rest_is_cancelled_and_told() {
    let (log, _guard) = LogCapture::on_this_thread();
    let mut bench = Bench::new();
    let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(seconds(3)));
    let server = bench.add("busy", &script, plain().with_in_flight(100.try_into().unwrap()));
    ready(&server).await;
    let began = Instant::now();
    let calls = join_all((0..100).map(|number| {
        let server = server.clone();
        async move {
            let name = if number % 2 == 0 { "slow" } else { "hang" };
            (server.call(tool(name), CallOptions::default()).await, began.elapsed())
        }
    }));
    let shutdown = async {
        while server.status().in_flight < 100 {
            tokio::task::yield_now().await;
        }
        let shutdown = bench.supervisor.shutdown();
        let refused = server.call(echo(), CallOptions::default()).await.unwrap_err();
        assert!(
            matches!(refused, CallError::ShuttingDown { outcome: CallOutcome::NotSent, .. }),
            "{refused}"
        );
        shutdown.await
    };
    let (results, report) = tokio::join!(calls, shutdown);
    for (number, (result, elapsed)) in results.into_iter().enumerate() {
        if number % 2 == 0 {
            result.unwrap();
            assert_eq!(elapsed, seconds(3));
        } else {
            let error = result.unwrap_err();
            assert!(
                matches!(error, CallError::ShuttingDown { outcome: CallOutcome::Unknown, .. }),
                "{error}"
            );
            assert_eq!(elapsed, seconds(5));
        }
    }
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(script.log().cancelled().len(), 50, "each is told");
    let [busy] = &report.servers[..] else { panic!("{report:?}") };
    assert_eq!((busy.calls_cancelled, busy.tasks_aborted), (50, 0));
    assert_eq!(busy.exceeded.len(), 1);
    assert_eq!((busy.exceeded[0].step, busy.exceeded[0].elapsed), (StopStep::Drain, seconds(5)));
    assert_eq!(log.at(Level::WARN).len(), 1, "i35: one warning for the one bound");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_sent_away_at_once() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("slow", &connector, plain());
    let serial = bench.add("serial", &ServerScript::legacy(), plain().with_in_flight(1.try_into().unwrap()));
    ready(&serial).await;
    let began = Instant::now();
    let waiting = server.call(echo(), CallOptions::default());
    let mut running = Box::pin(serial.call(tool("hang"), CallOptions::default()));
    assert!(running.as_mut().now_or_never().is_none());
    let queued = serial.call(echo(), CallOptions::default());
    let shutdown = async {
        while serial.status().waiting == 0 {
            tokio::task::yield_now().await;
        }
        drop(bench.supervisor.shutdown());
    };
    let (waiting, queued, ()) = tokio::join!(waiting, queued, shutdown);
    for error in [waiting.unwrap_err(), queued.unwrap_err()] {
        assert!(matches!(error, CallError::ShuttingDown { outcome: CallOutcome::NotSent, .. }), "{error}");
    }
    assert_eq!(began.elapsed(), seconds(0));
    drop(running);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn last_work_gets_the_rest_of_the_time_and_no_more() {
    // How long it takes, when the shutdown is over, and what is left then.
    for (takes, over, left) in [(3, 3, 0), (9, 9, 0), (11, 10, 2)] {
        let (log, _guard) = LogCapture::on_this_thread();
        let work = TaskTracker::new();
        let mut bench =
            Bench::with(SupervisorOptions::default().with_last_work("token writes", work.clone()));
        let server = bench.add("one", &ServerScript::legacy(), plain());
        ready(&server).await;
        (0..2).for_each(|_| drop(work.spawn(tokio::time::sleep(seconds(takes)))));
        let report = bench.supervisor.shutdown().await;
        assert_eq!(report.elapsed.as_secs(), over, "{report:?}");
        assert!(report.servers[0].is_clean(), "the server does not wait for it");
        let unfinished: Vec<_> = report.unfinished.iter().map(|left| (left.step, &*left.what)).collect();
        let expected = [(StopStep::Finish, "2 tasks of token writes")];
        assert_eq!(unfinished, expected[..usize::from(left > 0)]);
        assert_eq!((report.is_clean(), log.at(Level::WARN).len()), (left == 0, usize::from(left > 0)));
        assert_eq!(work.len(), left, "nobody has cut it off");
        work.wait().await;
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn f138_two_shutdowns_are_one() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    let (a, b) = tokio::join!(bench.supervisor.shutdown(), bench.supervisor.shutdown());
    let c = bench.supervisor.shutdown().await;
    assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&b, &c));
    assert_eq!(bench.moves("one"), ["connecting", "ready", "draining", "stopped"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f139_a_shutdown_goes_on_when_its_future_is_dropped_at_any_poll() {
    for polls in 0..4 {
        let mut bench = Bench::new();
        let server = bench.add("one", &ServerScript::legacy(), plain());
        ready(&server).await;
        let mut running = Box::pin(server.call(tool("hang"), CallOptions::default()));
        assert!(running.as_mut().now_or_never().is_none());
        let began = Instant::now();
        let mut shutdown = Box::pin(bench.supervisor.shutdown());
        for _ in 0..polls {
            assert!(shutdown.as_mut().now_or_never().is_none());
            tokio::time::sleep(seconds(1)).await; // the drain goes on meanwhile
        }
        drop(shutdown);
        until(&server, |status| (status.state == State::Stopped).then_some(())).await;
        assert_eq!(began.elapsed(), seconds(5), "from the first call, not from the last");
        let error = running.await.unwrap_err();
        assert!(matches!(error, CallError::ShuttingDown { .. }), "{error}");
        assert_eq!(bench.end().await.servers[0].calls_cancelled, 1);
        assert_eq!(began.elapsed(), seconds(5));
    }
}

#[tokio::test(start_paused = true)]
async fn i34_a_caller_that_gives_up_is_told_that_draining_goes_on() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    let mut running = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(running.as_mut().now_or_never().is_none());
    let still = bench.supervisor.shutdown().within(seconds(2)).await.unwrap_err();
    assert_eq!(still.waited, seconds(2));
    assert_eq!(server.status().state, State::Draining);
    let report = bench.supervisor.shutdown().within(seconds(4)).await.unwrap();
    assert_eq!(report.elapsed, seconds(5));
    drop(running);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i34_time_in_which_the_runtime_stood_still_is_not_taken_from_running_calls() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let call = server.call(tool("slow"), CallOptions::default().with_timeout(seconds(100)));
    let (result, report) = tokio::join!(call, async {
        let request = peer.expect("tools/call").await;
        let shutdown = bench.supervisor.shutdown();
        until(&server, |status| (status.state == State::Draining).then_some(())).await;
        // All deadlines pass in one instant, as if the thread had been blocked.
        tokio::time::advance(seconds(20)).await;
        peer.respond(request.id(), serde_json::json!({"content": []})).await;
        shutdown.await
    });
    result.unwrap();
    assert!(report.is_clean(), "{report:?}");
    bench.end().await;
}

/// A server that is ready and has a call which it never answers; its connection takes four seconds to
/// close.
async fn busy(bench: &Bench) -> (ServerHandle, ScriptedPeer, JoinSet<Result<CallToolResult, CallError>>) {
    let connector = MemoryConnector::new();
    let slow = Faulty { inner: connector.clone(), fault: CloseFault::Takes(seconds(4)) };
    let server = bench.supervisor.add(ServerSpec::new("one", Arc::new(slow)).with_options(plain())).unwrap();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let (caller, mut call) = (server.clone(), JoinSet::new());
    call.spawn(async move { caller.call(tool("hang"), CallOptions::default()).await });
    peer.expect("tools/call").await;
    (server, peer, call)
}

#[tokio::test(start_paused = true)]
async fn i34_after_a_standstill_the_root_overtakes_no_step_of_a_server_that_stops() {
    // Blocked from the fourth second on, until the drain is late, and until even the whole limit is late.
    for (removed_first, blocked) in [(false, 5), (false, 20), (true, 5), (true, 20)] {
        let bench = Bench::new();
        let (server, peer, mut call) = busy(&bench).await;
        let removal = removed_first.then(|| bench.supervisor.remove("one").unwrap());
        let shutdown = bench.supervisor.shutdown();
        until(&server, |status| (status.state == State::Draining).then_some(())).await;
        tokio::time::sleep(seconds(4)).await;
        tokio::time::advance(seconds(blocked)).await;
        let report = shutdown.await;

        // The call gets a moment more, then it is cancelled, and the connection has the time it needs.
        let drained = seconds(4 + blocked) + milliseconds(100);
        assert_eq!(report.elapsed, drained + seconds(4), "blocked for {blocked} s");
        let [one] = &report.servers[..] else { panic!("{report:?}") };
        assert_eq!((one.ending, one.calls_cancelled, one.tasks_aborted), (Ending::Clean, 1, 0), "{one:?}");
        let exceeded: Vec<_> =
            one.exceeded.iter().map(|exceeded| (exceeded.step, exceeded.elapsed)).collect();
        assert_eq!(exceeded, [(StopStep::Drain, drained)]);
        let error = call.join_next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.outcome(), CallOutcome::Unknown, "{error}");
        assert_eq!(peer.expect("notifications/cancelled").await.method(), Some("notifications/cancelled"));
        drop(removal);
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn i34_a_runtime_that_stands_still_again_and_again_ends_its_shutdown_all_the_same() {
    let bench = Bench::new();
    let (server, peer, _call) = busy(&bench).await;
    let mut shutdown = Box::pin(bench.supervisor.shutdown());
    until(&server, |status| (status.state == State::Draining).then_some(())).await;
    let began = Instant::now();
    while shutdown.as_mut().now_or_never().is_none() {
        assert!(began.elapsed() < seconds(60), "{:?}", server.status());
        tokio::time::advance(seconds(7)).await;
        tokio::time::sleep(milliseconds(1)).await; // all that is due runs, and the next standstill comes
    }
    let report = bench.supervisor.shutdown().await;
    assert!(report.elapsed <= seconds(10 + 3 * 7 + 1), "{report:?}");
    assert_eq!(report.servers[0].calls_cancelled, 1, "{report:?}");
    peer.expect("notifications/cancelled").await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f140_after_a_shutdown_everything_is_refused_at_once() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    bench.supervisor.shutdown().await;
    let call = server.call(echo(), CallOptions::default()).await.unwrap_err();
    let list = server.list::<ListTools>(CallOptions::default(), ListLimits::default()).await.unwrap_err();
    for error in [call, list] {
        assert!(matches!(error, CallError::ShuttingDown { outcome: CallOutcome::NotSent, .. }), "{error}");
    }
    let spec = ServerSpec::new("two", Arc::new(MemoryConnector::new()));
    let refused = bench.supervisor.add(spec).unwrap_err();
    assert_eq!(refused, AddError::ShuttingDown { name: "two".into() });
    server.wake();
    server.reconnect(1);
    assert_eq!(server.settled(in_seconds(1)).await.state, State::Stopped);
    assert_eq!(bench.supervisor.remove("one").unwrap().await.ending, Ending::Clean);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_added_and_stopped_in_the_same_breath_never_starts() {
    let bench = Bench::new();
    let (stopped, removed) = (MemoryConnector::new(), MemoryConnector::new());
    bench.add_by_hand("removed", &removed, plain());
    let removal = bench.supervisor.remove("removed").unwrap();
    bench.add_by_hand("stopped", &stopped, plain());
    let report = bench.supervisor.shutdown().await;
    assert!(report.is_clean(), "{report:?}");
    assert!(removal.await.is_clean());
    assert_eq!((stopped.attempts(), removed.attempts()), (0, 0));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f144_a_step_that_hangs_or_panics_is_reported_and_the_others_still_run() {
    for (fault, step) in [(CloseFault::Hangs, StopStep::Close), (CloseFault::Panics, StopStep::Join)] {
        let (log, _guard) = LogCapture::on_this_thread();
        let mut bench = Bench::new();
        let connector = MemoryConnector::new();
        let spec = ServerSpec::new("bad", Arc::new(Faulty { inner: connector.clone(), fault }));
        let bad = bench.supervisor.add(spec.with_options(plain())).unwrap();
        let peer = connector.next_peer().await;
        accept(&peer).await;
        ready(&bad).await;
        let good = bench.add("good", &ServerScript::legacy(), plain());
        ready(&good).await;

        let began = Instant::now();
        let report = bench.supervisor.shutdown().await;
        assert!(began.elapsed() <= seconds(10), "{fault:?}: {:?}", began.elapsed());
        let [bad, good] = &report.servers[..] else { panic!("{report:?}") };
        assert!(good.is_clean(), "{good:?}");
        assert_eq!(bad.ending, Ending::Abandoned, "{fault:?}");
        assert_eq!(bad.exceeded.iter().map(|e| e.step).collect::<Vec<_>>(), [step], "{fault:?}");
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].fields["server"], "bad");
        drop(peer);
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_never_says_that_it_has_closed_is_given_up() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let faulty = Faulty { inner: connector.clone(), fault: CloseFault::IgnoresTime };
    let server =
        bench.supervisor.add(ServerSpec::new("bad", Arc::new(faulty)).with_options(plain())).unwrap();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let report = bench.supervisor.shutdown().await;
    assert!(report.elapsed <= seconds(10), "{report:?}");
    assert_eq!(report.servers[0].ending, Ending::Abandoned);
    drop(peer);
    bench.end().await;
    assert_quiescent().await;
}

#[tokio::test(start_paused = true)]
async fn i05_a_removed_server_frees_its_name_also_when_it_had_to_be_abandoned() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let faulty = Faulty { inner: connector.clone(), fault: CloseFault::Hangs };
    let server =
        bench.supervisor.add(ServerSpec::new("one", Arc::new(faulty)).with_options(plain())).unwrap();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let removal = bench.supervisor.remove("one").unwrap();
    let spec = ServerSpec::new("one", Arc::new(MemoryConnector::new()));
    assert_eq!(bench.supervisor.add(spec).unwrap_err(), AddError::Duplicate { name: "one".into() });
    assert_eq!(removal.await.ending, Ending::Abandoned);
    let again = bench.add("one", &ServerScript::legacy(), plain());
    again.call(echo(), CallOptions::default()).await.unwrap();
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_goes_on_without_its_future() {
    let mut bench = Bench::new();
    let server = bench.add("one", &ServerScript::legacy(), plain());
    ready(&server).await;
    drop(bench.supervisor.remove("one"));
    until(&server, |status| (status.state == State::Stopped).then_some(())).await;
    while bench.supervisor.server("one").is_some() {
        tokio::task::yield_now().await;
    }
    let again = bench.add("one", &ServerScript::legacy(), plain());
    again.call(echo(), CallOptions::default()).await.unwrap();
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f149_calls_of_a_removed_server_may_finish_and_end_as_removed() {
    let mut bench = Bench::new();
    let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(seconds(2)));
    let server = bench.add("one", &script, plain());
    ready(&server).await;
    let mut slow = Box::pin(server.call(tool("slow"), CallOptions::default()));
    let mut hung = Box::pin(server.call(tool("hang"), CallOptions::default()));
    assert!(slow.as_mut().now_or_never().is_none() && hung.as_mut().now_or_never().is_none());
    let removal = bench.supervisor.remove("one").unwrap();
    let (slow, hung, report) = tokio::join!(slow, hung, removal);
    slow.unwrap();
    let error = hung.unwrap_err();
    assert!(matches!(error, CallError::Removed { outcome: CallOutcome::Unknown, .. }), "{error}");
    assert_eq!(report.calls_cancelled, 1);
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn i35_a_task_that_cannot_be_aborted_is_named_in_the_report_and_given_up() {
    let (blocked, release) = std::sync::mpsc::sync_channel::<()>(0);
    let options = SupervisorOptions::default().with_drain(milliseconds(100)).with_total(seconds(1));
    let supervisor = Supervisor::start(&Handle::current(), options);
    let connector = MemoryConnector::new();
    let blocking = Blocking { inner: connector.clone(), until: Arc::new(Mutex::new(release)) };
    let server = supervisor.add(ServerSpec::new("bad", Arc::new(blocking)).with_options(plain())).unwrap();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let report = supervisor.shutdown().within(seconds(5)).await.unwrap();
    assert!(report.elapsed >= milliseconds(900) && report.elapsed <= milliseconds(1100), "{report:?}");
    let [bad] = &report.servers[..] else { panic!("{report:?}") };
    assert_eq!((bad.ending, bad.tasks_aborted), (Ending::Abandoned, 1));
    assert!(bad.exceeded.iter().all(|exceeded| exceeded.step == StopStep::Join), "{bad:?}");
    assert!(bad.exceeded[0].what.contains("connection 1"), "{bad:?}");
    drop(blocked);
}

/// Blocks the thread that wakes it, until it is let go.
struct Blocker {
    blocks: SyncSender<()>,
    let_go: Mutex<Receiver<()>>,
}

impl Wake for Blocker {
    fn wake(self: Arc<Self>) {
        let _ = self.blocks.try_send(());
        // An error as well: there is nobody any more who could let it go.
        let _ = self.let_go.lock().unwrap().recv();
    }
}

/// A thread of the runtime is blocked with the owner of a server on it, in the middle of a step. The root
/// runs on another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn i35_a_server_whose_owner_does_not_get_to_run_is_in_the_report_and_given_up() {
    let options = SupervisorOptions::default().with_drain(milliseconds(100)).with_total(seconds(1));
    let supervisor = Supervisor::start(&Handle::current(), options);
    let connector = MemoryConnector::new();
    let server =
        supervisor.add(ServerSpec::new("bad", Arc::new(connector.clone())).with_options(plain())).unwrap();
    let _peer = connector.next_peer().await; // it never answers
    let (blocks, blocked) = sync_channel(1);
    let (let_go, is_let_go) = sync_channel(1);
    let waker = Waker::from(Arc::new(Blocker { blocks, let_go: Mutex::new(is_let_go) }));
    // The owner wakes whoever waits for its server.
    let mut waiting = Box::pin(server.call(echo(), CallOptions::default()));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());

    let report = supervisor.shutdown().within(seconds(5)).await.unwrap();
    blocked.try_recv().expect("its owner is blocked");
    assert!(report.elapsed >= seconds(1) && report.elapsed <= milliseconds(1500), "{report:?}");
    let [bad] = &report.servers[..] else { panic!("{report:?}") };
    assert_eq!((bad.ending, report.is_clean()), (Ending::Abandoned, false));
    let exceeded: Vec<_> = bad.exceeded.iter().map(|exceeded| (exceeded.step, &*exceeded.what)).collect();
    assert_eq!(exceeded, [(StopStep::Schedule, "its owner did not get to run in time")]);
    assert_eq!(server.status().state, State::Stopped);
    drop(let_go);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_is_gone_holds_on_to_nothing() {
    for shuts_down in [true, false] {
        let supervisor = Supervisor::start(&Handle::current(), SupervisorOptions::default());
        let connector: Arc<dyn Connector> = Arc::new(MemoryConnector::new());
        let left = Arc::downgrade(&connector);
        let server = supervisor.add(ServerSpec::new("one", connector)).unwrap();
        if shuts_down {
            supervisor.shutdown().await;
        }
        drop(supervisor);
        assert_quiescent().await;
        assert!(left.upgrade().is_none(), "shuts down: {shuts_down}");
        drop(server); // A handle holds on to nothing either.
    }
}
