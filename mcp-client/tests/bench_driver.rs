//! The bench driver keeps to its contract: flags, one line, exit status, and figures that can be true.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "test code"
)]

use std::process::{Command, Output, Stdio};
use std::thread;

use mcp_transport::testing::fixture::sibling_example;
use mcp_transport::testing::{HttpAnswers, HttpHost, ServerScript};
use serde_json::Value;
use tokio::sync::oneshot;

/// Runs the driver with the words of `line`.
fn drive(line: &str) -> Output {
    let mut driver = Command::new(sibling_example("bench_driver"));
    driver.args(line.split_whitespace()).stdin(Stdio::null()).output().unwrap()
}

/// Runs a scenario over stdio against the fixture server.
fn over_stdio(line: &str) -> Output {
    drive(&format!("{line} --server {} --server-arg fixture", env!("CARGO_BIN_EXE_mcpctl")))
}

/// The line of a run that must have succeeded.
#[track_caller]
fn line(output: &Output) -> Value {
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let line: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    assert_eq!((output.status.code(), &line["ok"]), (Some(0), &Value::Bool(true)), "{output:?}");
    assert_eq!(line["error"], Value::Null);
    line
}

#[track_caller]
fn figure(line: &Value, name: &str) -> f64 {
    line["metrics"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// The figures of a scenario that makes calls one after another, or side by side.
#[track_caller]
fn assert_calls_were_measured(line: &Value) {
    let (median, high) = (figure(line, "lat_us_p50"), figure(line, "lat_us_p99"));
    assert!(0.0 < median && median <= high, "{line}");
    for name in ["calls_per_s", "cpu_s_per_100k", "switches_per_call", "peak_rss_kb"] {
        assert!(figure(line, name) > 0.0, "{name}: {line}");
    }
}

#[test]
fn the_line_has_the_shape_of_the_contract() {
    let line = line(&over_stdio("--scenario seq --n 20 --warmup 2 --payload 7 --x-mode fast --tag shape"));
    let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "contract",
        "driver",
        "error",
        "metrics",
        "ok",
        "params",
        "protocol",
        "runtime",
        "scenario",
        "transport",
        "version",
    ];
    assert_eq!(keys, expected);
    assert_eq!(line["contract"], 1);
    assert_eq!((&line["scenario"], &line["transport"]), (&"seq".into(), &"stdio".into()));
    assert_eq!((&line["protocol"], &line["runtime"]), (&"2025-11-25".into(), &"mt".into()));
    let params = serde_json::json!({
        "n": 20, "warmup": 2, "concurrency": 1, "payload": 7, "tools": 5000, "servers": 32, "stubborn": 8,
        "hard": false, "seconds": 10.0, "timeout_ms": 100, "deadline_ms": 0,
    });
    assert_eq!(line["params"], params);
    assert_calls_were_measured(&line);
}

#[test]
fn calls_are_measured_on_one_thread_in_the_modern_era_and_side_by_side() {
    for flags in
        ["--scenario seq --protocol 2026-07-28 --deadline-ms 60000", "--scenario conc --concurrency 5"]
    {
        assert_calls_were_measured(&line(&over_stdio(&format!("{flags} --runtime ct --n 20 --warmup 2"))));
    }
}

#[tokio::test]
async fn calls_are_measured_over_http() {
    let host = HttpHost::bind(ServerScript::legacy(), HttpAnswers::Json).await;
    let flags = format!("--scenario seq --transport http --url {} --n 10 --warmup 1", host.url());
    let (ended, end) = oneshot::channel();
    let driving = thread::spawn(move || ended.send(drive(&flags)));
    let output = host.beside(end).await.unwrap();
    driving.join().unwrap().unwrap();
    let line = line(&output);
    assert_eq!(line["transport"], "http");
    assert_calls_were_measured(&line);
}

#[test]
fn the_server_sees_every_call_that_runs_out_of_time_cancelled() {
    let line = line(&over_stdio("--scenario cancel --n 3 --timeout-ms 20"));
    assert_eq!(figure(&line, "cancelled_seen"), 1.0);
    assert!(figure(&line, "next_call_us") > 0.0);
    assert!(figure(&line, "overrun_us_p50") <= figure(&line, "overrun_us_p99"), "{line}");
}

#[test]
fn nothing_is_left_of_servers_that_resist() {
    for (flags, processes) in [("", 3.0), ("--hard", 4.0)] {
        let line = line(&over_stdio(&format!("--scenario shutdown --servers 3 --stubborn 1 {flags}")));
        assert_eq!(figure(&line, "processes_before"), processes);
        for name in ["left_at_return", "left_after_1s", "zombies_at_return", "close_errors"] {
            assert_eq!(figure(&line, name), 0.0, "{name}: {line}");
        }
        // The one that resists has cost at least the grace that it was given.
        assert!(figure(&line, "shutdown_ms") > 1000.0, "{line}");
    }
}

#[test]
fn a_killed_server_is_found_again() {
    let line = line(&over_stdio("--scenario reconnect --n 1"));
    assert!(figure(&line, "reconnect_ms_p50") > 0.0);
}

#[test]
fn every_other_scenario_has_its_figures() {
    for (flags, names) in [
        ("bulk --n 2 --payload 100000", &["mb_per_s", "cpu_ms_per_mb", "switches_per_call"][..]),
        ("connect --n 2", &["connect_ms_p50", "connect_ms_p99", "cpu_ms_per_connect"]),
        ("flood --n 1", &["notifications_per_s", "cpu_s_per_100k"]),
        ("idle --servers 3 --seconds 0.1", &["rss_kb", "fds_per_server", "connect_all_ms"]),
        ("list --n 2 --tools 30", &["list_ms_p50", "list_ms_p99", "cpu_ms_per_list", "tools"]),
    ] {
        let line = line(&over_stdio(&format!("--scenario {flags}")));
        for name in names {
            assert!(figure(&line, name) > 0.0, "{name}: {line}");
        }
    }
}

#[test]
fn a_scenario_that_fails_says_so_in_its_line() {
    let output = drive("--scenario seq --server /nonexistent/server");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &line["ok"]), (Some(1), &Value::Bool(false)));
    assert!(line["error"].as_str().unwrap().contains("/nonexistent/server"), "{line}");
    assert_eq!(line["metrics"], serde_json::json!({}));
}

#[test]
fn flags_that_cannot_be_used_print_no_line() {
    for (flags, part) in [
        ("", "--scenario"),
        ("--scenario jump --server x", "jump"),
        ("--scenario seq", "--server"),
        ("--scenario seq --transport http --server x", "--url"),
        ("--scenario seq --server x --n 0", "--n"),
        ("--scenario seq --server x --n many", "many"),
        ("--scenario seq --server x --protocol 2024-11-05", "2024-11-05"),
        ("--scenario seq --server x --fast yes", "--fast"),
        ("--scenario seq --server x --tag", "--tag"),
    ] {
        let output = drive(flags);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{flags}: {output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let first = stderr.lines().next().unwrap();
        assert!(first.contains(part), "{flags}: {first}");
    }
}
