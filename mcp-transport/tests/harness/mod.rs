//! What the tests with real processes share: a factory, a fixture, and a plain client.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mcp_proto::sniff_id;
use mcp_transport::process::{Command, Graces, LocalProcesses, ProcessFactory as _};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use mcp_transport::testing::fixture::{Fixture, Record, Transcript, machine_time};
use mcp_transport::{
    CloseReport, Closed, Connection, Connector as _, Inbound, Outbound, Receive, SendError, Transport,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

/// The longest that something which should happen at once may take.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(100);

/// A fixture in a folder of its own.
pub(crate) fn fixture() -> (Fixture, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Fixture::from_program(env!("CARGO_BIN_EXE_mcp-fixture"), folder.path()), folder)
}

/// How a fixture is started: with its mark and nothing else in its environment.
pub(crate) fn command(fixture: &Fixture) -> Command {
    let (name, mark) = fixture.mark();
    Command::new(fixture.program()).args(fixture.arguments()).env(name, mark).server("fixture")
}

/// Limits with these graces from stdin close to SIGTERM and from there to SIGKILL.
pub(crate) fn graces(stdin_close: u64, terminate: u64) -> StdioLimits {
    let graces = Graces::default()
        .with_stdin_close(Duration::from_millis(stdin_close))
        .with_terminate(Duration::from_millis(terminate));
    StdioLimits::default().with_graces(graces)
}

/// Time since the server ended by itself, as it recorded it.
#[track_caller]
pub(crate) fn since_exit(transcript: &Transcript) -> Duration {
    let is_end = |record: &&Record| matches!(record.event.as_str(), "exit" | "raise");
    let end = transcript.records().iter().rev().find(is_end).expect("the server has ended by itself");
    machine_time().checked_sub(end.at).expect("it has ended in the past")
}

/// Checks that something takes less than `limit`: in the best of three rounds, each with a server of
/// its own. A machine with other work to do may stall one round, a defect slows all of them.
pub(crate) async fn assert_within(limit: Duration, mut round: impl AsyncFnMut() -> Duration) {
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(round().await);
    }
    assert!(times.iter().any(|time| *time < limit), "{times:?} is not less than {limit:?}");
}

/// A process factory that is joined at the end of the test.
pub(crate) struct Host {
    pub(crate) processes: Arc<LocalProcesses>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self { processes: Arc::new(LocalProcesses::new()) }
    }

    pub(crate) async fn open(&self, fixture: &Fixture) -> Client {
        self.open_with(fixture, StdioLimits::default()).await
    }

    pub(crate) async fn open_with(&self, fixture: &Fixture, limits: StdioLimits) -> Client {
        self.open_command(command(fixture), limits).await
    }

    pub(crate) async fn open_command(&self, command: Command, limits: StdioLimits) -> Client {
        Client::new(self.connector(command, limits).connect(soon()).await.unwrap())
    }

    pub(crate) fn connector(&self, command: Command, limits: StdioLimits) -> StdioConnector {
        StdioConnector::new(self.processes.clone(), command, limits)
    }
}

/// Every child is reaped and the thread has ended before the outside checks look.
impl Drop for Host {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.processes.live(), 0, "processes of the factory");
        }
        self.processes.join();
    }
}

/// A client of one connection that sends modern requests, which need no handshake.
pub(crate) struct Client {
    pub(crate) transport: Arc<dyn Transport>,
    receive: Box<dyn Receive>,
    inbox: VecDeque<Inbound>,
}

impl Client {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { transport: connection.transport, receive: connection.receive, inbox: VecDeque::new() }
    }

    /// Sends a call of a tool; nobody drives the connection meanwhile.
    pub(crate) async fn send(&self, id: i64, tool: &str, arguments: Value) -> Result<(), SendError> {
        self.transport.send(call(id, tool, arguments)).await.map(drop)
    }

    /// Calls a tool and waits for its answer.
    pub(crate) async fn call(&mut self, id: i64, tool: &str, arguments: Value) -> Value {
        let transport = Arc::clone(&self.transport);
        let (sent, answer) = tokio::join!(transport.send(call(id, tool, arguments)), self.answer(id));
        sent.unwrap();
        answer.unwrap()
    }

    /// Calls `echo` and checks the answer.
    pub(crate) async fn echo(&mut self, id: i64) {
        let answer = self.call(id, "echo", json!({"message": format!("number {id}")})).await;
        assert_eq!(answer["result"]["content"][0]["text"], format!("number {id}"));
    }

    /// Waits for the answer to a request; skips everything else.
    pub(crate) async fn answer(&mut self, id: i64) -> Result<Value, Closed> {
        loop {
            if let Inbound::Message { frame, .. } = self.next().await?
                && sniff_id(&frame) == Some(id.into())
            {
                return Ok(serde_json::from_slice(&frame).unwrap());
            }
        }
    }

    /// Waits for whatever comes next.
    pub(crate) async fn next(&mut self) -> Result<Inbound, Closed> {
        while self.inbox.is_empty() {
            let mut batch = Vec::new();
            poll_fn(|cx| self.receive.poll_receive(cx, &mut batch)).await?;
            self.inbox.extend(batch);
        }
        Ok(self.inbox.pop_front().unwrap())
    }

    /// Waits for the end of the connection; skips what comes before.
    pub(crate) async fn closed(&mut self) -> Closed {
        loop {
            if let Err(closed) = self.next().await {
                return closed;
            }
        }
    }

    /// Drives the connection while something else is waited for; what comes is kept for later.
    pub(crate) async fn during<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        let mut is_over = false;
        poll_fn(|cx| {
            let mut batch = Vec::new();
            while !is_over {
                match self.receive.poll_receive(cx, &mut batch) {
                    // The end is returned again by whatever is called next.
                    Poll::Ready(result) => is_over = result.is_err(),
                    Poll::Pending => break,
                }
            }
            self.inbox.extend(batch);
            other.as_mut().poll(cx)
        })
        .await
    }

    /// Whether nothing comes for this long.
    pub(crate) async fn is_silent(&mut self, time: Duration) -> bool {
        timeout(time, self.next()).await.is_err()
    }

    /// Closes the connection as a session does: the driver goes on reading.
    pub(crate) async fn close(&mut self) -> CloseReport {
        let transport = Arc::clone(&self.transport);
        let (report, _) = tokio::join!(transport.close(soon()), self.closed());
        report
    }
}

pub(crate) fn call(id: i64, tool: &str, arguments: Value) -> Outbound {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let frame = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    Outbound::request(id.into(), frame.to_string().into())
}

pub(crate) fn cancel(id: i64) -> Outbound {
    let params = json!({"requestId": id});
    let frame = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    Outbound::notification(frame.to_string().into())
}

/// A deadline that no test reaches unless something is wrong.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}
