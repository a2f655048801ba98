//! What is left after connections and factories have gone: nothing.
//!
//! Descriptors and children are counted for the whole process, so these tests take turns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "stdio")]

use std::collections::BTreeSet;
use std::fs;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use mcp_transport::process::{Command, LocalProcesses, ProcessFactory};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use mcp_transport::{ConnectError, Connection, Connector, Ending, Outbound};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

static TURN: Mutex<()> = Mutex::new(());

fn in_turn(test: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // The first runtime of a program may make descriptors that stay for good (for signals, where some
    // crate wants them): they are there before anything is counted.
    drop(runtime());
    test();
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn connector(factory: &Arc<LocalProcesses>, program: &str, args: &[&str]) -> StdioConnector {
    let command = Command::new(program).args(args.iter().copied()).inherit([("PATH", "/usr/bin:/bin")]);
    StdioConnector::new(factory.clone(), command, StdioLimits::default())
}

fn descriptors() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?.display().to_string();
        Some(format!("{} {target}", entry.file_name().display()))
    });
    // The listing itself is one.
    links.filter(|link| !link.contains("/proc/")).collect()
}

/// Children of any thread, zombies included.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn factory_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "mcp-processes").count()
}

async fn poll_once(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
}

async fn none_live(factory: &LocalProcesses) {
    let by = far();
    while factory.live() > 0 {
        assert!(Instant::now() < by, "{} are left", factory.live());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_hundred_connections_leave_nothing() {
    in_turn(|| {
        let factory = Arc::new(LocalProcesses::new());
        let cat = connector(&factory, "cat", &[]);
        runtime().block_on(async {
            cat.connect(far()).await.unwrap().transport.close(far()).await;
            let before = descriptors();
            for round in 0..100 {
                let Connection { transport, receive, .. } = cat.connect(far()).await.unwrap();
                assert!(descriptors().len() <= before.len() + 4, "four descriptors a child at most");
                transport.send(Outbound::notification(Bytes::from_static(b"{}"))).await.unwrap();
                if round % 2 == 0 {
                    assert_eq!(transport.close(far()).await.ending, Ending::Clean);
                }
                drop((transport, receive));
                none_live(&factory).await;
            }
            assert_eq!(descriptors(), before);
            assert_eq!(children(), [""; 0]);
        });
        factory.join();
    });
}

#[test]
fn a_factory_leaves_neither_thread_nor_descriptor() {
    in_turn(|| {
        let runtime = runtime();
        let before = descriptors();
        let factory = Arc::new(LocalProcesses::new());
        assert_eq!((descriptors(), factory_threads()), (before.clone(), 0), "an idle factory has nothing");
        let connection = runtime.block_on(connector(&factory, "cat", &[]).connect(far())).unwrap();
        assert_eq!(factory_threads(), 1);
        factory.join();
        drop((connection, factory));
        assert_eq!((descriptors(), factory_threads()), (before, 0));
        assert_eq!(children(), [""; 0]);
    });
}

#[test]
fn f142_f143_a_connection_outlives_its_runtime_and_ends_quietly() {
    in_turn(|| {
        let before = descriptors();
        let runtime = runtime();
        let factory = Arc::new(LocalProcesses::new());
        let stubborn = connector(&factory, "sh", &["-c", "trap '' TERM; sleep 600 & sleep 600"]);
        let connections: Vec<_> =
            (0..3).map(|_| runtime.block_on(stubborn.connect(far())).unwrap()).collect();
        let began = Instant::now();
        drop(runtime);
        std::thread::spawn(move || drop(connections)).join().unwrap();
        drop(stubborn);
        factory.join();
        assert!(began.elapsed() < Duration::from_secs(1));
        drop(factory);
        assert_eq!(children(), [""; 0]);
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn f134_failed_starts_leave_nothing() {
    in_turn(|| {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        let factory = Arc::new(LocalProcesses::new());
        runtime().block_on(async {
            let cat = connector(&factory, "cat", &[]);
            cat.connect(far()).await.unwrap().transport.close(far()).await;
            let before = descriptors();
            for program in ["no-such-command", "/", plain.to_str().unwrap(), ""] {
                let error = connector(&factory, program, &[]).connect(far()).await.unwrap_err();
                assert!(matches!(error, ConnectError::Spawn(_)), "{error}");
                assert!(error.is_permanent());
            }
            poll_once(cat.connect(far())).await;
            // Starts are served in order, so the one that was given up has been dealt with then.
            cat.connect(far()).await.unwrap().transport.close(far()).await;
            none_live(&factory).await;
            assert_eq!(descriptors(), before);
            assert_eq!(children(), [""; 0]);
        });
        factory.join();
    });
}
