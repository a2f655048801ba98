//! The fixture server does what its flags and rules say, and records it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use mcp_transport::testing::fixture::Fixture;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A fixture server without any client around it. Dropping it kills it.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(fixture: &Fixture) -> Self {
        let mut command = Command::new(fixture.program());
        command.args(fixture.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let (name, mark) = fixture.mark();
        let mut child = command.env(name, mark).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout) }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        serde_json::from_str(&self.line()).unwrap()
    }

    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        rest
    }

    fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        self.stdin = None;
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn fixture() -> (Fixture, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Fixture::from_program(env!("CARGO_BIN_EXE_mcp-fixture"), folder.path()), folder)
}

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn it_serves_records_and_ends_with_its_input() {
    let (fixture, _folder) = fixture();
    let mut server = Running::start(&fixture);
    let answer = server.ask(&call(1, "echo", json!({"message": "hi"})));
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    assert_eq!(server.end().code(), Some(0));
    let transcript = fixture.transcript();
    assert_eq!(transcript.servers(), [server.pid()]);
    assert_eq!((transcript.count("tools/call"), transcript.runs("echo")), (1, 1));
    assert_eq!(transcript.runs_with("echo", &json!({"message": "hi"})), 1);
    assert_eq!(transcript.cancelled(), [7.into()]);
    assert_eq!(transcript.exit_code(server.pid()), Some(0));
    assert!(transcript.signals(server.pid()).is_empty());
    assert_eq!(transcript.violations(), [&json!(null); 0]);
}

#[test]
fn calls_run_side_by_side() {
    let (fixture, _folder) = fixture();
    let mut server = Running::start(&fixture);
    server.send(&call(1, "hang", json!({})));
    server.send(&call(2, "echo", json!({"message": "slow", "delay_ms": 50})));
    let fast = server.ask(&call(3, "echo", json!({"payload": 3})));
    assert_eq!((&fast["id"], &fast["result"]["content"][0]["text"]), (&json!(3), &json!("xxx")));
    let slow: Value = serde_json::from_str(&server.line()).unwrap();
    assert_eq!(slow["id"], 2);
}

#[test]
fn a_line_that_is_no_message_is_a_violation() {
    let (fixture, _folder) = fixture();
    let mut server = Running::start(&fixture);
    writeln!(server.stdin.as_mut().unwrap(), "hello").unwrap();
    server.end();
    assert_eq!(fixture.transcript().violations()[0]["text"], "hello");
}

#[test]
fn a_rule_answers_by_the_byte_and_ends_the_process_once_it_applies() {
    let (fixture, _folder) = fixture();
    let fixture = fixture.on("tools/call:echo#2", "write-bytes 17; exit 139");
    let mut server = Running::start(&fixture);
    server.ask(&call(1, "echo", json!({})));
    server.ask(&call(2, "stats", json!({})));
    server.send(&call(3, "echo", json!({})));
    assert_eq!(server.rest().len(), 17);
    assert_eq!(server.end().code(), Some(139));
    assert_eq!(
        (fixture.transcript().runs("echo"), fixture.transcript().exit_code(server.pid())),
        (2, Some(139))
    );
}

#[test]
fn a_rule_can_be_for_one_generation() {
    let (fixture, _folder) = fixture();
    let fixture = fixture.on("start@2", "exit 5");
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(Running::start(&fixture).end().code());
    }
    assert_eq!(codes, [Some(0), Some(5), Some(0)]);
    assert_eq!(fixture.transcript().servers().len(), 3);
}

#[test]
fn it_ends_by_the_signal_it_was_told() {
    for (name, number) in [("SEGV", 11), ("KILL", 9), ("TERM", 15)] {
        let (fixture, _folder) = fixture();
        let mut server = Running::start(&fixture.on("start", &format!("raise {name}")));
        assert_eq!(server.end().signal(), Some(number));
    }
}

#[test]
fn a_signal_is_recorded_and_then_obeyed() {
    let (fixture, _folder) = fixture();
    let mut server = Running::start(&fixture.clone().on("start", "line up"));
    server.line();
    server.signal(Signal::TERM);
    assert_eq!(server.child.wait().unwrap().signal(), Some(15));
    assert_eq!(fixture.transcript().signals(server.pid()), [15]);
    assert_eq!(fixture.transcript().exit_code(server.pid()), None);
}

#[test]
fn it_can_ignore_sigterm_and_the_end_of_its_input() {
    let (fixture, _folder) = fixture();
    let fixture = fixture.flag("--ignore-sigterm").flag("--ignore-stdin-close");
    let fixture = fixture.on("sigterm#2", "line alive").on("eof", "line eof");
    let mut server = Running::start(&fixture);
    server.stdin = None;
    assert_eq!(server.line(), "eof\n");
    server.signal(Signal::TERM);
    while fixture.transcript().signals(server.pid()).is_empty() {
        assert!(server.child.try_wait().unwrap().is_none());
    }
    server.signal(Signal::TERM);
    assert_eq!(server.line(), "alive\n");
}

#[test]
fn streams_close_for_real() {
    let (fixture, _folder) = fixture();
    let fixture = fixture.on("tools/call#1", "close stdin; line closed; close stdout; hang");
    let mut server = Running::start(&fixture);
    server.send(&call(1, "echo", json!({})));
    assert_eq!(server.rest(), b"closed\n");
    let refused = writeln!(server.stdin.as_mut().unwrap(), "{{}}").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
    assert!(server.child.try_wait().unwrap().is_none());
}

#[test]
fn output_is_what_the_steps_say() {
    let (fixture, _folder) = fixture();
    let fixture =
        fixture.flag("--crlf").on("start", "write \\xef\\xbb\\xbf\\r\\n; line hi; fill 3; noise 2; flood 2");
    let mut server = Running::start(&fixture);
    server.stdin = None;
    let output = server.rest();
    let output = String::from_utf8(output).unwrap();
    let lines: Vec<&str> = output.split('\n').collect();
    assert_eq!(lines[..2], ["\u{feff}\r", "hi\r"]);
    assert!(lines[2].starts_with("xxx[INFO] log line 0 ") && lines[3].starts_with("[INFO] log line 1 "));
    assert!(lines[4].ends_with("}\r") && lines[5].ends_with("}\r"));
    assert_eq!(lines.len(), 7);
}

#[test]
fn a_grandchild_outlives_the_server_in_its_group_with_its_streams_and_its_mark() {
    let (fixture, _folder) = fixture();
    let fixture = fixture.flag("--fork-grandchild").on("tools/call", "exit 0");
    let mut server = Running::start(&fixture);
    server.send(&call(1, "echo", json!({})));
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let grandchild = loop {
        if let [grandchild] = fixture.transcript().grandchildren()[..] {
            break grandchild;
        }
    };
    let (name, mark) = fixture.mark();
    let environment = std::fs::read(format!("/proc/{grandchild}/environ")).unwrap();
    let entry = format!("{name}={mark}");
    assert!(environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes()));
    let transcript = fixture.transcript();
    let groups: Vec<_> = transcript.events("start").map(|record| &record.value["group"]).collect();
    assert_eq!(groups[0], groups[1]);
    // The pipe stays open as long as it lives.
    kill_process(Pid::from_raw(grandchild).unwrap(), Signal::KILL).unwrap();
    assert_eq!(server.rest(), b"");
}

#[test]
fn a_double_fork_in_a_session_of_its_own_leaves_group_and_parent() {
    let (fixture, _folder) = fixture();
    let fixture = fixture.on("start", "fork double session silent stubborn");
    let mut server = Running::start(&fixture);
    let grandchild = loop {
        if let [grandchild] = fixture.transcript().grandchildren()[..] {
            break grandchild;
        }
    };
    server.end();
    let transcript = fixture.transcript();
    let starts: Vec<&Value> = transcript.events("start").map(|record| &record.value).collect();
    assert_ne!(starts[0]["session"], starts[1]["session"]);
    assert_ne!(starts[0]["group"], starts[1]["group"]);
    let grandchild = Pid::from_raw(grandchild).unwrap();
    kill_process(grandchild, Signal::TERM).unwrap();
    while fixture.transcript().signals(grandchild.as_raw_nonzero().get()).is_empty() {}
    kill_process(grandchild, Signal::KILL).unwrap();
}

#[tokio::test]
async fn barriers_order_steps() {
    let (fixture, _folder) = fixture();
    let (fixture, mut control) = fixture.on("start", "barrier a; barrier b; line through").with_control();
    let mut server = Running::start(&fixture);
    assert_eq!(control.wait_for("a").await, server.pid());
    assert_eq!(fixture.transcript().events("barrier").count(), 1);
    control.release("a").await;
    control.wait_for("b").await;
    assert_eq!(fixture.transcript().events("released").count(), 1);
    control.release("b").await;
    assert_eq!(server.line(), "through\n");
}

#[tokio::test]
async fn a_server_at_a_barrier_does_not_outlive_its_test() {
    let (fixture, _folder) = fixture();
    let (fixture, mut control) = fixture.on("start", "barrier a").with_control();
    let mut server = Running::start(&fixture);
    control.wait_for("a").await;
    drop(control);
    assert_eq!(server.child.wait().unwrap().code(), Some(70));
}

#[test]
fn unusable_flags_are_refused_with_a_sentence() {
    let output = Command::new(env!("CARGO_BIN_EXE_mcp-fixture")).arg("--dance").arg("x").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "fixture server: no such flag: --dance\n");
}
