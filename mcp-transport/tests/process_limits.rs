//! Starting processes when descriptors run out. Alone in its program: the limit is the process's own.
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
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
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
