//! What a server costs while nobody uses it. Alone in its process, since it measures all of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::alloc::System;
use std::sync::Arc;

use mcp_lifecycle::{ServerHandle, ServerSpec, Supervisor, SupervisorOptions};
use mcp_session::CallOptions;
use mcp_transport::process::{Command, LocalProcesses};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use mcp_transport::testing::fixture::{Fixture, sibling_example};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use support::{echo, plain, ready};
use tokio::runtime::{Builder, Handle};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Most bytes that a server may keep on the heap, with its command and its lists. A release has smaller futures,
/// and keeps less.
const MOST_BYTES: usize = 20_000;

/// How many are measured together.
const SERVERS: usize = 8;

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

#[test]
fn an_idle_server_keeps_few_bytes() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::from_program(sibling_example("lifecycle_fixture"), folder.path());
    let processes = Arc::new(LocalProcesses::new());
    runtime.block_on(async {
        let supervisor = Supervisor::start(&Handle::current(), SupervisorOptions::default().with_seed(1));
        let add = |number: usize| -> ServerHandle {
            let (name, mark) = fixture.mark();
            let command = Command::new(fixture.program()).args(fixture.arguments()).env(name, mark);
            let connector = StdioConnector::new(processes.clone(), command, StdioLimits::default());
            let spec = ServerSpec::new(format!("fixture {number}"), Arc::new(connector));
            supervisor.add(spec.with_options(plain())).unwrap()
        };
        // What all of them share is there after the first one.
        ready(&add(SERVERS)).await;
        let before = live();
        let servers: Vec<_> = (0..SERVERS).map(add).collect();
        for server in &servers {
            ready(server).await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let each = (live() - before) / SERVERS;
        assert!(each <= MOST_BYTES, "{each} bytes");
        servers[0].call(echo(), CallOptions::default()).await.unwrap();
        assert!(supervisor.shutdown().await.is_clean());
    });
    processes.join();
}
