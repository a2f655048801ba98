//! The whole path against servers that nobody here wrote, at pinned versions, over standard streams.
//!
//! `cargo xtask real-servers` installs them and runs these tests. Without them the tests pass and say
//! so; in CI they fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod installed;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use installed::{Running, with_servers};
use mcp_client::StdioServer;
use mcp_lifecycle::ServerEvent;
use mcp_proto::{Complete, Era, LogLevel, SetLogLevel};
use mcp_session::{CallOptions, EraPolicy};
use mcp_transport::Ending;
use mcp_transport::testing::checks::{until, until_some};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::Level;

#[test]
fn everything_answers_all_five_operations() {
    with_servers(async |installed, _| {
        let running = Running::start(installed.everything(), EraPolicy::Auto).await;
        let peer = running.server.peer().unwrap();
        assert_eq!((peer.era, peer.version.as_str()), (Era::Legacy, "2025-11-25"));

        assert_eq!(running.call("echo", json!({"message": "grüße"})).await, json!({"result": "Echo: grüße"}));
        assert_eq!(
            running.call("get-sum", json!({"a": 2, "b": 40})).await["result"],
            "The sum of 2 and 40 is 42."
        );
        let handlers = &running.handlers;
        let resources = answer(&handlers.list_resources(r#"{"server":"real"}"#).await);
        let uri = &resources["resources"][0]["uri"];
        assert!(uri.is_string(), "{resources}");
        let resource =
            answer(&handlers.read_resource(&json!({"server": "real", "uri": uri}).to_string()).await);
        assert!(resource["result"].as_str().is_some_and(|text| !text.is_empty()), "{resource}");
        let prompts = answer(&handlers.list_prompts(r#"{"server":"real"}"#).await);
        assert!(
            prompts["prompts"].as_array().unwrap().iter().any(|prompt| prompt["name"] == "simple-prompt")
        );
        let prompt = answer(&handlers.get_prompt(r#"{"server":"real","name":"simple-prompt"}"#).await);
        assert_eq!(prompt["messages"][0]["role"], "user", "{prompt}");
        running.finish().await;
    });
}

#[test]
fn everything_completes_arguments_by_what_is_known_of_the_others() {
    with_servers(async |installed, _| {
        let running = Running::start(installed.everything(), EraPolicy::Auto).await;
        let ask = Complete::of_prompt("completable-prompt", "department", "S");
        let departments = running.server.call(ask, CallOptions::default()).await.unwrap();
        assert_eq!(departments.completion.values, ["Sales", "Support"]);

        let known = BTreeMap::from([("department".to_owned(), "Sales".to_owned())]);
        let ask = Complete::of_prompt("completable-prompt", "name", "E").with_known(known);
        let names = running.server.call(ask, CallOptions::default()).await.unwrap();
        assert_eq!(names.completion.values, ["Eve"]);
        running.finish().await;
    });
}

#[test]
fn everything_logs_from_the_level_on_that_was_asked_for() {
    with_servers(async |installed, _| {
        let running = Running::start(installed.everything(), EraPolicy::Auto).await;
        let mut events = running.client.events();
        let level = SetLogLevel::new(LogLevel::Debug);
        running.server.call(level, CallOptions::default()).await.unwrap();
        running.call("toggle-simulated-logging", json!({})).await;
        // The server logs once at once, at any level.
        let logged = timeout(Duration::from_secs(30), async {
            loop {
                if let ServerEvent::Log { message, .. } = events.recv().await.unwrap() {
                    return message;
                }
            }
        });
        let text: String = logged.await.unwrap().data.decode().unwrap();
        assert!(text.contains("essage"), "{text}");
        // While it logs it does not end with its input.
        running.call("toggle-simulated-logging", json!({})).await;
        running.finish().await;
    });
}

#[test]
fn everything_is_told_that_a_timed_out_call_is_over() {
    with_servers(async |installed, _| {
        let transcript = installed.work().join("transcript");
        let running = Running::start(installed.everything_overheard(&transcript), EraPolicy::Auto).await;
        let endless = json!({
            "server": "real", "tool": "trigger-long-running-operation",
            "arguments": {"duration": 3600, "steps": 10}, "timeout_ms": 300,
        });
        let ended = answer(&running.handlers.call_tool(&endless.to_string()).await);
        assert_eq!(ended["outcome"], "unknown", "{ended}");
        assert_eq!(running.server.status().in_flight, 0);

        let heard =
            || -> Vec<Value> { fs::read_to_string(&transcript).unwrap().lines().map(answer).collect() };
        let cancelled = until_some(Duration::from_secs(10), "a cancel on the wire", || {
            heard().into_iter().find(|message| message["method"] == "notifications/cancelled")
        })
        .await;
        let call = heard().into_iter().find(|message| message["method"] == "tools/call").unwrap();
        assert_eq!(cancelled["params"]["requestId"], call["id"]);

        assert_eq!(
            running.call("echo", json!({"message": "still here"})).await["result"],
            "Echo: still here"
        );
        let cancels = heard().iter().filter(|message| message["method"] == "notifications/cancelled").count();
        assert_eq!(cancels, 1);

        // The tool itself does not listen to the cancel and keeps its server from ending by itself.
        let report = running.stop().await;
        assert_eq!(report.servers[0].ending, Ending::Terminated, "{report:?}");
    });
}

#[test]
fn filesystem_writes_where_it_may_and_nowhere_else() {
    with_servers(async |installed, _| {
        let running = Running::start(installed.filesystem(), EraPolicy::Auto).await;
        let path = installed.work().canonicalize().unwrap().join("note.txt");
        let written = running.call("write_file", json!({"path": path, "content": "kept\n"})).await;
        assert!(written["error"].is_null(), "{written}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept\n");
        let refused = running.call("write_file", json!({"path": "/not-allowed.txt", "content": ""})).await;
        assert_eq!(refused["outcome"], "rejected", "{refused}");
        running.finish().await;
    });
}

#[test]
fn time_is_told_in_both_eras() {
    with_servers(async |installed, _| {
        for (policy, era) in [(EraPolicy::Auto, Era::Modern), (EraPolicy::Legacy, Era::Legacy)] {
            let running = Running::start(installed.time(), policy).await;
            assert_eq!(running.server.peer().unwrap().era, era);
            let arguments =
                json!({"source_timezone": "Etc/UTC", "target_timezone": "Asia/Tokyo", "time": "12:30"});
            let converted = running.call("convert_time", arguments).await;
            assert!(
                converted["result"].as_str().is_some_and(|text| text.contains("T21:30:00+09:00")),
                "{converted}"
            );
            let refused = running.call("convert_time", json!({"time": "noon"})).await;
            assert_eq!(refused["outcome"], "rejected", "{refused}");
            running.finish().await;
        }
    });
}

#[test]
fn git_reads_a_repository_in_both_eras() {
    with_servers(async |installed, _| {
        for (policy, era) in [(EraPolicy::Auto, Era::Modern), (EraPolicy::Legacy, Era::Legacy)] {
            let running = Running::start(installed.git(), policy).await;
            assert_eq!(running.server.peer().unwrap().era, era);
            let log = running.call("git_log", json!({"repo_path": installed.work()})).await;
            assert!(log["result"].as_str().is_some_and(|text| text.contains("the first commit")), "{log}");
            running.finish().await;
        }
    });
}

#[test]
fn each_comes_back_by_itself_after_a_kill() {
    type Call = (&'static str, Value);
    with_servers(async |installed, test| {
        let programs: [(StdioServer, Call); 4] = [
            (installed.everything(), ("echo", json!({"message": "a"}))),
            (installed.filesystem(), ("list_allowed_directories", json!({}))),
            (installed.time(), ("get_current_time", json!({"timezone": "Etc/UTC"}))),
            (installed.git(), ("git_status", json!({"repo_path": installed.work()}))),
        ];
        for (program, (tool, arguments)) in programs {
            let running = Running::start(program, EraPolicy::Auto).await;
            let before = running.server.status().generation;
            let [process] = &running.processes()[..] else { panic!("{:?}", running.processes()) };
            test.expect_log(Level::WARN, "the server process ended with signal 9");
            kill_process(Pid::from_raw(process.pid).unwrap(), Signal::KILL).unwrap();

            // The next call succeeds by itself: it waits for the new connection inside its own time.
            until(Duration::from_secs(5), "the loss is noticed", || {
                !running.server.status().state.is_ready()
            })
            .await;
            let called = running.call(tool, arguments).await;
            assert!(called["error"].is_null(), "{called}");
            let status = running.ready_after(before).await;
            assert_eq!(status.losses, 1);
            let [successor] = &running.processes()[..] else { panic!("{:?}", running.processes()) };
            assert_ne!(successor.pid, process.pid);
            running.finish().await;
        }
    });
}

fn answer(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
