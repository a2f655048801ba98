//! What the tests of this crate share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "test code; each test file uses a part of it"
)]

pub mod desk;
pub mod echo;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mcp_session::{Driver, EraPolicy, Gate, Opening, Session, SessionOptions, open};
use mcp_transport::Closed;
use mcp_transport::testing::{MemoryOptions, ScriptedPeer, memory_with};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// An open session, the far end of its connection, and the task that drives it.
pub struct Fixture {
    pub session: Session,
    pub peer: ScriptedPeer,
    pub driver: JoinHandle<Closed>,
}

pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Ends the tests with a failure if this one waits for something that never comes.
///
/// On the paused clock a year passes at once when nobody has anything left to do.
pub fn fail_instead_of_hanging() {
    tokio::spawn(async {
        tokio::time::sleep(seconds(365 * 24 * 60 * 60)).await;
        eprintln!("a test waits for something that never comes");
        std::process::exit(101);
    });
}

/// A connection on which nothing was said yet.
pub fn unopened(options: SessionOptions, memory: MemoryOptions) -> (Opening, Driver, ScriptedPeer) {
    fail_instead_of_hanging();
    let (connection, peer) = memory_with(memory);
    let (opening, driver) = open(connection, options);
    (opening, driver, peer)
}

/// A legacy session whose server has declared everything.
pub async fn legacy() -> Fixture {
    legacy_with(SessionOptions::default(), MemoryOptions::default()).await
}

pub async fn legacy_with(options: SessionOptions, memory: MemoryOptions) -> Fixture {
    legacy_in("2025-11-25", options, memory).await
}

pub async fn legacy_in(version: &str, options: SessionOptions, memory: MemoryOptions) -> Fixture {
    let (opening, driver, peer) = unopened(options.with_era(EraPolicy::Legacy), memory);
    let driver = tokio::spawn(driver.run());
    let (session, ()) = tokio::join!(opening.handshake(soon()), accept_initialize(&peer, version));
    Fixture { session: session.unwrap(), peer, driver }
}

/// A modern session whose server has declared everything.
pub async fn modern() -> Fixture {
    modern_with(SessionOptions::default(), MemoryOptions::default()).await
}

pub async fn modern_with(options: SessionOptions, memory: MemoryOptions) -> Fixture {
    let (opening, driver, peer) = unopened(options, memory);
    let driver = tokio::spawn(driver.run());
    let (session, ()) = tokio::join!(opening.handshake(soon()), accept_discover(&peer));
    Fixture { session: session.unwrap(), peer, driver }
}

/// A modern session whose server has declared everything and these extensions.
pub async fn modern_offering(options: SessionOptions, extensions: Value) -> Fixture {
    modern_over(MemoryOptions::default(), options, extensions).await
}

/// As [`modern_offering`], over a connection of these sizes.
pub async fn modern_over(memory: MemoryOptions, options: SessionOptions, extensions: Value) -> Fixture {
    let (opening, driver, peer) = unopened(options, memory);
    let driver = tokio::spawn(driver.run());
    let accept = async {
        let discover = peer.expect("server/discover").await;
        let mut result = discover_result();
        result["capabilities"]["extensions"] = extensions;
        peer.respond(discover.id(), result).await;
    };
    let (session, ()) = tokio::join!(opening.handshake(soon()), accept);
    Fixture { session: session.unwrap(), peer, driver }
}

/// Plays the server's part of a legacy handshake.
pub async fn accept_initialize(peer: &ScriptedPeer, version: &str) {
    let initialize = peer.expect("initialize").await;
    peer.respond(initialize.id(), initialize_result(version)).await;
    peer.expect("notifications/initialized").await;
}

pub async fn accept_discover(peer: &ScriptedPeer) {
    let discover = peer.expect("server/discover").await;
    peer.respond(discover.id(), discover_result()).await;
}

pub fn everything() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "logging": {},
        "completions": {},
    })
}

pub fn initialize_result(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": everything(),
        "serverInfo": {"name": "scripted", "version": "1"},
    })
}

pub fn discover_result() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": everything(),
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
    })
}

/// The result of a tool call that says `text`.
pub fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Lets every other task go on until all of them wait for something.
///
/// On the paused clock the shortest sleep ends only when no task can run any more.
pub async fn settle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

/// Nothing is left of any call.
#[track_caller]
pub fn assert_quiescent(session: &Session) {
    assert_eq!(session.in_flight(), 0, "calls are still pending");
}

/// Nothing is left of any call, and every permit is free.
#[track_caller]
pub fn assert_gate_quiescent(gate: &Gate) {
    assert!(gate.idle(), "in flight {}, queued {}", gate.in_flight(), gate.queued());
}

/// The methods of everything that has reached the server, in order.
pub fn methods(peer: &ScriptedPeer) -> Vec<String> {
    peer.transcript().iter().map(|frame| frame.method().unwrap_or("response").to_owned()).collect()
}

/// The ids that `notifications/cancelled` has named, in order.
pub fn cancelled_ids(peer: &ScriptedPeer) -> Vec<i64> {
    peer.transcript()
        .iter()
        .filter(|frame| frame.method() == Some("notifications/cancelled"))
        .map(|frame| frame.params()["requestId"].as_i64().unwrap())
        .collect()
}

/// A future polled by hand, which counts how often it was woken.
pub struct ByHand<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

/// Who was woken, in order.
pub type WakeOrder = Arc<Mutex<Vec<&'static str>>>;

#[derive(Default)]
struct Wakes {
    count: AtomicUsize,
    noted: Option<(&'static str, WakeOrder)>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if let Some((name, order)) = &self.noted {
            order.lock().unwrap().push(name);
        }
    }
}

impl<F: Future> ByHand<F> {
    pub fn new(future: F) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default() }
    }

    /// As `new`; each wake is noted as `name` in `order` as well.
    pub fn noted(future: F, name: &'static str, order: &WakeOrder) -> Self {
        let wakes = Wakes { noted: Some((name, Arc::clone(order))), ..Wakes::default() };
        Self { future: Box::pin(future), wakes: Arc::new(wakes) }
    }

    pub fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls, or does as if it was not done yet.
    pub fn poll_if(&mut self, is_wanted: bool) -> Poll<F::Output> {
        if is_wanted { self.poll() } else { Poll::Pending }
    }

    pub fn wakes(&self) -> usize {
        self.wakes.count.load(Ordering::SeqCst)
    }
}

/// Lets real time pass, where a test needs its threads to be in the middle of something.
pub async fn settle_for(span: Duration) {
    tokio::time::sleep(span).await;
}
