//! The fixture server does over HTTP what it does on its standard streams.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use mcp_transport::testing::checks::until;
use mcp_transport::testing::fixture::{Fixture, Transcript};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(10);

/// A fixture server without any client around it. Dropping it kills it.
struct Running {
    child: Child,
    stdin: ChildStdin,
    address: String,
    fixture: Fixture,
    _folder: TempDir,
}

impl Running {
    fn start(era: &str, form: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture::from_program(env!("CARGO_BIN_EXE_mcp-fixture"), folder.path())
            .option("--era", era)
            .option("--http", form);
        let mut command = Command::new(fixture.program());
        command.args(fixture.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp\n").unwrap().to_owned();
        Self { stdin: child.stdin.take().unwrap(), child, address, fixture, _folder: folder }
    }

    /// Asks on a connection of its own.
    fn post(&self, session: Option<&str>, message: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let session = session.map_or_else(String::new, |session| format!("mcp-session-id: {session}\r\n"));
        let body = message.to_string();
        let length = body.len();
        let head = format!("POST /mcp HTTP/1.1\r\ncontent-length: {length}\r\n{session}\r\n");
        stream.write_all((head + &body).as_bytes()).unwrap();
        stream
    }

    fn transcript(&self) -> Transcript {
        self.fixture.transcript()
    }

    async fn seen(&self, event: &str, times: usize) {
        until(PATIENCE, event, || self.transcript().events(event).count() == times).await;
    }

    async fn end(mut self) {
        drop(self.stdin);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert!(TcpStream::connect(&self.address).is_err(), "nobody listens any more");
    }
}

/// What has come, up to the end of `end`.
fn answer(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

fn hang(id: i64) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "hang", "_meta": meta}})
}

#[tokio::test]
async fn it_has_sessions_and_forgets_them_when_it_is_told_to() {
    let mut server = Running::start("legacy", "json");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let begun = answer(&mut server.post(None, &initialize), "\r\n\r\n");
    assert!(begun.starts_with("HTTP/1.1 200") && begun.contains("mcp-session-id: session-1\r\n"), "{begun}");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = answer(&mut server.post(Some("session-1"), &initialized), "\r\n\r\n");
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
    let echo = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                      "params": {"name": "echo", "arguments": {"message": "hi"}}});
    let called = answer(&mut server.post(Some("session-1"), &echo), "}]}}");
    assert!(called.contains(r#""text":"hi""#), "{called}");

    writeln!(server.stdin, "forget-sessions").unwrap();
    server.seen("session-ended", 1).await;
    let refused = answer(&mut server.post(Some("session-1"), &echo), "\r\n\r\n");
    assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");

    server.seen("disconnected", 4).await;
    let seen = server.transcript();
    assert_eq!(seen.events("session-begun").count(), 1);
    assert_eq!(seen.events("connected").count(), 4);
    assert_eq!((seen.count("tools/call"), seen.runs("echo")), (2, 1), "the refused call did not run");
    assert_eq!(seen.events("refused").next().unwrap().value["status"], "404 Not Found");
    assert!(seen.violations().is_empty(), "{:?}", seen.violations());
    server.end().await;
}

#[tokio::test]
async fn it_begins_a_stream_at_once_and_sees_that_it_is_given_up() {
    let server = Running::start("modern", "events");
    let mut streams = [server.post(None, &hang(1)), server.post(None, &hang(2))];
    for stream in &mut streams {
        let head = answer(stream, "\r\n\r\n");
        assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
    }
    let [first, second] = streams;
    drop(second);
    server.seen("hung-up", 1).await;
    let seen = server.transcript();
    assert_eq!(seen.events("hung-up").next().unwrap().value["id"], 2);
    assert_eq!((seen.runs("hang"), seen.events("disconnected").count()), (2, 1));
    drop(first);
    server.seen("hung-up", 2).await;
    assert!(server.transcript().cancelled().is_empty(), "a connection that ends is no notice");
    server.end().await;
}
