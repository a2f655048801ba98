//! The demo: everything holds, and each guarantee that is disabled turns exactly its own line red.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use mcp_transport::testing::checks::{marked_by, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How many demos run at once: each has up to ten processes.
const AT_ONCE: usize = 3;

/// How long a killed process may still be seen.
const DYING: Duration = Duration::from_millis(500);

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcpctl")).arg("demo").args(arguments).output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The names of the checks that failed.
fn red(document: &Value) -> Vec<&str> {
    let checks = document["checks"].as_array().unwrap();
    checks.iter().filter(|check| check["ok"] == false).map(|check| check["name"].as_str().unwrap()).collect()
}

#[test]
fn every_promise_holds() {
    let output = demo(&["--json"]);
    let document = document(&output);
    assert_eq!(red(&document), Vec::<&str>::new(), "{document:#}");
    assert_eq!((output.status.code(), &document["ok"]), (Some(0), &Value::Bool(true)));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let stubborn =
        document["shutdown"]["servers"].as_array().unwrap().iter().find(|s| s["name"] == "stubborn");
    assert_eq!(stubborn.unwrap()["ending"], "killed");
}

#[test]
fn a_broken_guarantee_turns_exactly_its_line_red() {
    let list = demo(&["--break", "list"]);
    let names = String::from_utf8(list.stdout).unwrap();
    let names: Vec<&str> = names.lines().collect();
    assert_eq!(names.len(), 14);
    let waiting = Mutex::new(names.into_iter());
    std::thread::scope(|scope| {
        let worker = || {
            while let Some(name) = { waiting.lock().unwrap().next() } {
                let output = demo(&["--json", "--break", name]);
                let document = document(&output);
                assert_eq!(red(&document), [name], "{document:#}");
                assert_eq!((output.status.code(), &document["ok"]), (Some(1), &Value::Bool(false)));
            }
        };
        for _ in 0..AT_ONCE {
            scope.spawn(worker);
        }
    });
}

#[test]
fn people_get_one_line_for_each_promise() {
    let output = demo(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("ok ")).count(), 14, "{text}");
    assert!(text.ends_with("every promise held\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours without a terminal");
}

#[test]
fn park_revive_breaker_and_drain_are_shown_live_from_the_snapshots() {
    let output = demo(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    // What is shown of each server in its order, and before the line that judges it.
    for (server, moves, verdict) in [
        ("broken", &["connecting", "backoff", "parked"][..], "ok    park "),
        ("broken", &["parked", "connecting", "ready"], "ok    revive"),
        ("crashing", &["breaker open", "breaker lets one call try", "ready"], "ok    breaker"),
        ("silent", &["ready", "draining", "stopped"], "ok    nothing-left"),
    ] {
        let before = text.split(verdict).next().unwrap();
        let mut shown = before.lines().filter(|line| line.starts_with(&format!("      {server} ")));
        for step in moves {
            assert!(shown.any(|line| line.contains(step)), "{server}: no {step}, or too late:\n{text}");
        }
    }
}

#[test]
fn a_demo_that_nobody_watches_to_its_end_has_shown_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut demo = Command::new(env!("CARGO_BIN_EXE_mcpctl"));
    let output = demo.args(["demo", "--break", "park"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(1), &b""[..]));
}

#[tokio::test]
async fn an_interrupted_demo_leaves_no_server() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_mcpctl"));
    let mut demo = demo.arg("demo").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.starts_with("ok    together")));
    // The broken one may be between two starts, and the stubborn one has a grandchild.
    let servers = marked_by(demo.id());
    assert!((8..=9).contains(&servers.len()), "{servers:?}");
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    until(DYING, "no server is left", || marked_by(demo.id()).is_empty()).await;
}

#[test]
fn nothing_to_break_of_that_name_is_a_usage_error() {
    let output = demo(&["--break", "everything"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "mcpctl: nothing to break is called \"everything\"; try --break list\n"
    );
}
