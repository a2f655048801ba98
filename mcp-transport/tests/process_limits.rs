//! Starting processes when descriptors or processes run out. Alone in its program: the limits are the
//! process's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(all(feature = "stdio", feature = "test-util"))]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_transport::process::{Command, LocalProcesses, ProcessFactory, SpawnError};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use mcp_transport::testing::checks::{isolated, open_descriptors, until};
use mcp_transport::{ConnectError, Connection, Connector, Outbound};
use rustix::process::{Resource, Rlimit, Uid, getrlimit, getuid, setrlimit};
use rustix::thread::set_thread_res_uid;
use tokio::runtime::Builder;
use tokio::time::Instant;

fn far() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn f008_running_out_of_descriptors_at_any_point_leaves_nothing() {
    isolated(async |_| {
        let factory = Arc::new(LocalProcesses::new());
        let command = Command::new("cat").inherit([("PATH", "/usr/bin:/bin")]);
        let connector = StdioConnector::new(factory.clone(), command, StdioLimits::default());
        let Connection { transport, mut receive, .. } = connector.connect(far()).await.unwrap();
        let before = open_descriptors();
        let full = getrlimit(Resource::Nofile);
        let mut refusals = 0;
        // Three pipes, the pipe that reports a failed exec, and a pidfd: nine at most.
        for spare in 0..=9 {
            // New descriptors take the lowest free numbers.
            let limit = (0_i32..).filter(|fd| !before.contains_key(fd)).nth(spare).unwrap();
            let current = Some(u64::from(limit.unsigned_abs()));
            setrlimit(Resource::Nofile, Rlimit { current, ..full }).unwrap();
            let attempt = connector.connect(far()).await;
            // The connection that stands does not notice.
            transport.send(Outbound::notification(Bytes::from_static(b"{}"))).await.unwrap();
            let mut into = Vec::new();
            poll_fn(|cx| receive.poll_receive(cx, &mut into)).await.unwrap();
            setrlimit(Resource::Nofile, full).unwrap();
            match attempt {
                Ok(connection) => {
                    connection.transport.close(far()).await;
                }
                Err(ConnectError::Spawn(error)) => {
                    refusals += 1;
                    let what = "file descriptors";
                    assert_eq!(error, SpawnError::ResourceLimit { command: "cat".into(), what }, "{spare}");
                    assert!(!error.is_permanent());
                }
                Err(other) => panic!("{other}"),
            }
            until(Duration::from_secs(5), "only one child lives", || factory.live() == 1).await;
            assert_eq!(open_descriptors(), before, "with {spare} to spare");
        }
        assert!((4..=9).contains(&refusals), "{refusals}");
        transport.close(far()).await;
        drop((transport, receive, connector));
        factory.join();
    });
}

#[test]
fn f007_running_out_of_processes_is_told_and_passes_and_leaves_nothing() {
    isolated(async |_| {
        let command = Command::new("cat").inherit([("PATH", "/usr/bin:/bin")]);
        let first = command.clone();
        let factory = std::thread::spawn(move || {
            // For root there is no such limit: this thread becomes somebody else, and with it the thread
            // that the factory makes for its first start.
            if getuid().is_root() {
                let nobody = Uid::from_raw(65_534);
                set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let factory = Arc::new(LocalProcesses::new());
            let runtime = Builder::new_current_thread().build().unwrap();
            drop(runtime.block_on(factory.spawn(&first)).unwrap());
            factory
        });
        let factory = factory.join().unwrap();
        until(Duration::from_secs(5), "the first one is gone", || factory.live() == 0).await;
        let connector = StdioConnector::new(factory.clone(), command, StdioLimits::default());
        let Connection { transport, mut receive, .. } = connector.connect(far()).await.unwrap();
        let before = open_descriptors();
        let full = getrlimit(Resource::Nproc);
        for _ in 0..3 {
            setrlimit(Resource::Nproc, Rlimit { current: Some(1), ..full }).unwrap();
            let attempt = connector.connect(far()).await;
            // The connection that stands does not notice.
            transport.send(Outbound::notification(Bytes::from_static(b"{}"))).await.unwrap();
            let mut into = Vec::new();
            poll_fn(|cx| receive.poll_receive(cx, &mut into)).await.unwrap();
            setrlimit(Resource::Nproc, full).unwrap();
            let Err(ConnectError::Spawn(error)) = attempt else { panic!("{attempt:?}") };
            let what = "processes or threads";
            assert_eq!(error, SpawnError::ResourceLimit { command: "cat".into(), what });
            assert!(!error.is_permanent());
            assert_eq!((factory.live(), open_descriptors()), (1, before.clone()));
        }
        // Where there is room again, it starts.
        let second = connector.connect(far()).await.unwrap();
        second.transport.close(far()).await;
        transport.close(far()).await;
        drop((transport, receive, second, connector));
        factory.join();
    });
}
