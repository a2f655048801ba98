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

pub mod web;

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle::{
    KeepaliveOptions, ServerEvent, ServerHandle, ServerOptions, ServerSpec, ServerStatus, ShutdownReport,
    State, Supervisor, SupervisorOptions,
};
use mcp_proto::{CallTool, RequestId};
use mcp_session::{EraPolicy, SessionOptions};
use mcp_transport::testing::{Behaviour, MemoryConnector, ScriptedPeer, ServerScript, serve_all};
use mcp_transport::{
    Abandoned, CloseReport, Closed, ConnectError, Connection, Connector, Ending, Full, Inbound, Outbound,
    Receive, SendError, Sent, Streams, Transport,
};
use serde_json::{Value, json};
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
        let options = options.with_seed(1).with_events(100_000);
        let supervisor = Supervisor::start(&Handle::current(), options);
        let events = supervisor.events();
        Self { supervisor, events, peers: JoinSet::new() }
    }

    /// Adds a server whose connections behave like `script`.
    pub fn add(&mut self, name: &str, script: &ServerScript, options: ServerOptions) -> ServerHandle {
        let script = script.clone();
        self.add_with(name, options, move |_| script.start()).0
    }

    /// Serves connections that behave like `script`, for a connector of the test's own.
    pub fn serve(&mut self, script: &ServerScript) -> MemoryConnector {
        let connector = MemoryConnector::new();
        let (served, script) = (connector.clone(), script.clone());
        self.peers.spawn(async move { serve_all(&served, move |_| script.start()).await });
        connector
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

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
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

/// Takes what is told until it is what is wanted; virtual time is cheap, so the limit is generous.
#[track_caller]
pub fn told<'a, T>(
    events: &'a mut broadcast::Receiver<ServerEvent>,
    mut wanted: impl FnMut(ServerEvent) -> Option<T> + 'a,
) -> impl Future<Output = T> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        let found = async {
            loop {
                if let Some(found) = wanted(events.recv().await.unwrap()) {
                    return found;
                }
            }
        };
        tokio::time::timeout(seconds(3600), found).await.unwrap_or_else(|_| panic!("{caller}: not told"))
    }
}

/// Takes what is told until a server is in a state of this name.
#[track_caller]
pub fn told_state<'a>(
    events: &'a mut broadcast::Receiver<ServerEvent>,
    name: &'a str,
) -> impl Future<Output = Arc<ServerStatus>> + 'a {
    told(events, move |event| match event {
        ServerEvent::StateChanged { status } if status.state.name() == name => Some(status),
        _ => None,
    })
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

/// Lets others run until `is_so`, which takes no time.
#[track_caller]
pub fn soon<'a>(mut is_so: impl FnMut() -> bool + 'a) -> impl Future<Output = ()> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{caller}: it does not come");
    }
}

/// Plays a legacy handshake and answers the lists: one tool, nothing else declared.
pub async fn accept(peer: &ScriptedPeer) {
    accept_initialize(peer).await;
    answer_tools(peer).await;
}

pub async fn accept_initialize(peer: &ScriptedPeer) {
    accept_initialize_with(peer, json!({"tools": {}})).await;
}

pub async fn accept_initialize_with(peer: &ScriptedPeer, capabilities: Value) {
    let request = peer.expect("initialize").await;
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
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

/// Opens connections whose receiving half panics on the frame `panic`.
#[derive(Debug)]
pub struct Panicking(pub MemoryConnector);

#[async_trait]
impl Connector for Panicking {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let connection = self.0.connect(by).await?;
        Ok(Connection::new(connection.transport, Box::new(PanickingReceive(connection.receive))))
    }
}

#[derive(Debug)]
struct PanickingReceive(Box<dyn Receive>);

impl Receive for PanickingReceive {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        let result = self.0.poll_receive(cx, into);
        for inbound in into.iter() {
            assert!(!matches!(inbound, Inbound::Message { frame, .. } if **frame == *b"panic"), "as asked");
        }
        result
    }
}

/// Opens no connection before the time is up, as a host does that drops whatever is sent to it.
#[derive(Debug)]
pub struct Unreachable;

#[async_trait]
impl Connector for Unreachable {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        tokio::time::sleep_until(by).await;
        Err(ConnectError::Timeout)
    }
}

/// What goes wrong when a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseFault {
    /// It takes until its deadline and reports that.
    Hangs,
    /// It takes for ever, whatever its deadline.
    IgnoresTime,
    /// It panics.
    Panics,
    /// It takes this long, as a process that resists for a while.
    Takes(Duration),
}

/// Opens connections that cannot be closed as they should.
#[derive(Debug)]
pub struct Faulty {
    pub inner: MemoryConnector,
    pub fault: CloseFault,
}

#[async_trait]
impl Connector for Faulty {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let connection = self.inner.connect(by).await?;
        let transport = FaultyTransport { inner: connection.transport, fault: self.fault };
        Ok(Connection::new(Arc::new(transport), connection.receive))
    }
}

#[derive(Debug)]
struct FaultyTransport {
    inner: Arc<dyn Transport>,
    fault: CloseFault,
}

#[async_trait]
impl Transport for FaultyTransport {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        self.inner.send(message).await
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        self.inner.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        self.inner.abandon(id, notice)
    }

    async fn close(&self, by: Instant) -> CloseReport {
        match self.fault {
            CloseFault::Hangs => {
                let began = Instant::now();
                tokio::time::sleep_until(by).await;
                CloseReport::new(Ending::Abandoned, None, began.elapsed())
            }
            CloseFault::IgnoresTime => std::future::pending().await,
            CloseFault::Panics => panic!("as asked"),
            CloseFault::Takes(time) => {
                tokio::time::sleep(time).await;
                self.inner.close(by).await
            }
        }
    }
}

/// Opens connections that block their thread when they are closed, until the other end is dropped.
#[derive(Debug)]
pub struct Blocking {
    pub inner: MemoryConnector,
    pub until: Arc<Mutex<mpsc::Receiver<()>>>,
}

#[async_trait]
impl Connector for Blocking {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let connection = self.inner.connect(by).await?;
        let transport = BlockingTransport { inner: connection.transport, until: Arc::clone(&self.until) };
        Ok(Connection::new(Arc::new(transport), connection.receive))
    }
}

#[derive(Debug)]
struct BlockingTransport {
    inner: Arc<dyn Transport>,
    until: Arc<Mutex<mpsc::Receiver<()>>>,
}

#[async_trait]
impl Transport for BlockingTransport {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        self.inner.send(message).await
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        self.inner.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        self.inner.abandon(id, notice)
    }

    async fn close(&self, by: Instant) -> CloseReport {
        let _ = self.until.lock().unwrap().recv();
        self.inner.close(by).await
    }
}
