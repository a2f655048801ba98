//! What the tests of this crate share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "test code; each test file uses a part of it"
)]

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle::{
    KeepaliveOptions, ServerEvent, ServerHandle, ServerOptions, ServerSpec, ServerStatus, ShutdownReport,
    State, Supervisor, SupervisorOptions,
};
use mcp_proto::CallTool;
use mcp_session::{EraPolicy, SessionOptions};
use mcp_transport::testing::{Behaviour, MemoryConnector, ScriptedPeer, ServerScript, serve_all};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A supervisor on the test's own runtime, the servers behind it, and what it has told.
pub struct Bench {
    pub supervisor: Supervisor,
    pub events: broadcast::Receiver<ServerEvent>,
    peers: JoinSet<()>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(SupervisorOptions::default())
    }

    pub fn with(options: SupervisorOptions) -> Self {
        let supervisor = Supervisor::start(&Handle::current(), options.with_seed(1).with_events(100_000));
        let events = supervisor.events();
        Self { supervisor, events, peers: JoinSet::new() }
    }

    /// Adds a server whose connections behave like `script`.
    pub fn add(&mut self, name: &str, script: &ServerScript, options: ServerOptions) -> ServerHandle {
        let script = script.clone();
        self.add_with(name, options, move |_| script.start()).0
    }

    /// Adds a server with a behaviour for each connection.
    pub fn add_with<B: Behaviour + 'static>(
        &mut self,
        name: &str,
        options: ServerOptions,
        make: impl FnMut(usize) -> B + Send + 'static,
    ) -> (ServerHandle, MemoryConnector) {
        let connector = MemoryConnector::new();
        let served = connector.clone();
        self.peers.spawn(async move { serve_all(&served, make).await });
        (self.add_by_hand(name, &connector, options), connector)
    }

    /// Adds a server whose connections the test itself plays.
    pub fn add_by_hand(
        &self,
        name: &str,
        connector: &MemoryConnector,
        options: ServerOptions,
    ) -> ServerHandle {
        let spec = ServerSpec::new(name, Arc::new(connector.clone())).with_options(options);
        self.supervisor.add(spec).unwrap()
    }

    /// The states that were announced for `name` so far and not taken yet.
    pub fn states(&mut self, name: &str) -> Vec<State> {
        std::iter::from_fn(|| self.events.try_recv().ok())
            .filter_map(|event| match event {
                ServerEvent::StateChanged { status } if &*status.name == name => Some(status.state),
                _ => None,
            })
            .collect()
    }

    /// The names of the states that were announced for `name` so far and not taken yet.
    pub fn moves(&mut self, name: &str) -> Vec<&'static str> {
        self.states(name).iter().map(State::name).collect()
    }

    /// Shuts down and checks that nothing is left.
    pub async fn end(self) -> Arc<ShutdownReport> {
        let report = self.supervisor.shutdown().await;
        drop(self.supervisor);
        drop(self.peers);
        assert_quiescent().await;
        report
    }
}

/// No task is left on this runtime but the test itself.
pub async fn assert_quiescent() {
    for _ in 0..100 {
        if Handle::current().metrics().num_alive_tasks() == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} tasks are left", Handle::current().metrics().num_alive_tasks());
}

/// The limits of a legacy server that nobody probes, so that a test sees only what it is about.
pub fn plain() -> ServerOptions {
    ServerOptions::default()
        .with_session(SessionOptions::default().with_era(EraPolicy::Legacy))
        .with_keepalive(KeepaliveOptions::default().with_interval(None))
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn in_seconds(number: u64) -> Instant {
    Instant::now() + seconds(number)
}

pub fn echo() -> CallTool {
    tool("echo")
}

pub fn tool(name: &str) -> CallTool {
    CallTool::new(name)
}

/// Waits until the server is ready.
#[track_caller]
pub fn ready(server: &ServerHandle) -> impl Future<Output = u64> + '_ {
    until(server, |status| match status.state {
        State::Ready { generation } => Some(generation),
        _ => None,
    })
}

/// Waits until the status is as wanted; virtual time is cheap, so the limit is generous.
#[track_caller]
pub fn until<'a, T>(
    server: &'a ServerHandle,
    mut wanted: impl FnMut(&ServerStatus) -> Option<T> + 'a,
) -> impl Future<Output = T> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        let mut watch = server.watch();
        let found = async {
            loop {
                if let Some(found) = wanted(&watch.borrow_and_update()) {
                    return found;
                }
                watch.changed().await.unwrap();
            }
        };
        tokio::time::timeout(seconds(3600), found)
            .await
            .unwrap_or_else(|_| panic!("{caller}: not reached; {:?}", server.status()))
    }
}

/// Plays a legacy handshake and answers the lists: one tool, nothing else declared.
pub async fn accept(peer: &ScriptedPeer) {
    accept_initialize(peer).await;
    answer_tools(peer).await;
}

pub async fn accept_initialize(peer: &ScriptedPeer) {
    let request = peer.expect("initialize").await;
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "scripted", "version": "1"},
    });
    peer.respond(request.id(), result).await;
    peer.expect("notifications/initialized").await;
}

pub async fn answer_tools(peer: &ScriptedPeer) {
    let request = peer.expect("tools/list").await;
    let tools = json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]});
    peer.respond(request.id(), tools).await;
}
