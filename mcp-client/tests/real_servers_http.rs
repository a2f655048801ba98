//! The whole path against servers that nobody here wrote, at pinned versions, over HTTP.
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

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use installed::web::Web;
use installed::{Running, with_servers};
use mcp_proto::Era;
use mcp_session::EraPolicy;
use mcp_transport::testing::checks::{Isolated, until};
use serde_json::{Value, json};
use tracing::Level;

const SOON: Duration = Duration::from_secs(10);

/// Each era, and how a client that knows both is brought to speak it.
const ERAS: [(EraPolicy, Era); 2] = [(EraPolicy::Auto, Era::Modern), (EraPolicy::Legacy, Era::Legacy)];

#[test]
fn five_operations_are_answered_in_python_in_both_eras() {
    with_servers(async |installed, _| five_operations(installed.in_python_over_http().await).await);
}

#[test]
fn five_operations_are_answered_in_javascript_in_both_eras() {
    with_servers(async |installed, _| five_operations(installed.in_javascript_over_http().await).await);
}

async fn five_operations(web: Web) {
    for (policy, era) in ERAS {
        let running = Running::at(web.server(), policy).await;
        assert_eq!(running.server.peer().unwrap().era, era);
        assert_eq!(running.call("echo", json!({"message": "grüße"})).await["result"], "grüße");
        let handlers = &running.handlers;
        let resources = answer(&handlers.list_resources(r#"{"server":"real"}"#).await);
        assert_eq!(resources["resources"][0]["uri"], "fixture://text");
        let read = answer(&handlers.read_resource(r#"{"server":"real","uri":"fixture://text"}"#).await);
        assert_eq!(read["result"], "This is a text.");
        let prompts = answer(&handlers.list_prompts(r#"{"server":"real"}"#).await);
        assert_eq!(prompts["prompts"][0]["name"], "ask");
        let ask = r#"{"server":"real","name":"ask","arguments":{"topic":"rain"}}"#;
        let asked = answer(&handlers.get_prompt(ask).await);
        assert_eq!(asked["messages"][0]["content"], "Say something about rain.");
        running.finish().await;
    }
    assert_eq!(web.logged("echo grüße"), 2);
    web.finish().await;
}

#[test]
fn a_timed_out_call_is_cancelled_in_python_in_both_eras() {
    with_servers(async |installed, _| time_out(installed.in_python_over_http().await, &ERAS).await);
}

#[test]
fn a_timed_out_call_is_cancelled_in_javascript_in_both_eras() {
    with_servers(async |installed, _| time_out(installed.in_javascript_over_http().await, &ERAS).await);
}

/// The tool itself sees that its call is over.
async fn time_out(web: Web, eras: &[(EraPolicy, Era)]) {
    for (number, (policy, _)) in eras.iter().enumerate() {
        let running = Running::at(web.server(), *policy).await;
        let call =
            json!({"server": "real", "tool": "hang", "arguments": {"number": number}, "timeout_ms": 500});
        let ended = answer(&running.handlers.call_tool(&call.to_string()).await);
        assert_eq!(ended["outcome"], "unknown", "{ended}");
        until(SOON, "its place is free", || running.server.status().in_flight == 0).await;
        until(SOON, "the tool is cancelled", || web.logged(&format!("cancelled {number}")) == 1).await;
        assert_eq!(web.logged(&format!("hang {number}")), 1);
        assert_eq!(running.call("echo", json!({"message": "still here"})).await["result"], "still here");
        running.finish().await;
    }
    web.finish().await;
}

#[test]
fn a_session_that_python_has_ended_is_begun_anew_and_the_call_runs_once() {
    with_servers(async |installed, _| {
        let web = installed.in_python_over_http().await;
        let running = Running::at(web.server(), EraPolicy::Legacy).await;
        assert_eq!(running.call("echo", json!({"message": "before"})).await["result"], "before");
        let [session] = &sessions(&web)[..] else { panic!("{:?}", web.log()) };
        assert_eq!(delete(web.address(), session), 200);

        assert_eq!(running.call("echo", json!({"message": "after"})).await["result"], "after");
        assert_eq!((web.logged("echo before"), web.logged("echo after")), (1, 1));
        assert_eq!(sessions(&web).len(), 2, "{:?}", web.log());
        // An expired session is no loss: a warning would fail this.
        running.finish().await;
        web.finish().await;
    });
}

/// The sessions in which requests were answered, in the log of the server in Python.
fn sessions(web: &Web) -> Vec<String> {
    let log = web.log();
    let answered = log.iter().filter_map(|line| line.strip_prefix("POST 200 "));
    let sessions: BTreeSet<&str> = answered.filter(|session| !session.is_empty()).collect();
    sessions.into_iter().map(ToOwned::to_owned).collect()
}

/// Ends a session from outside, behind the client's back; the status of the answer.
fn delete(address: SocketAddr, session: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("DELETE /mcp HTTP/1.1\r\nhost: {address}\r\nmcp-session-id: {session}\r\n");
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn python_is_started_anew_while_calls_run() {
    with_servers(async |installed, test| {
        started_anew(test, installed.in_python_over_http().await, &ERAS, &OURS).await;
    });
}

#[test]
fn javascript_is_started_anew_while_calls_run() {
    with_servers(async |installed, test| {
        started_anew(test, installed.in_javascript_over_http().await, &ERAS, &OURS).await;
    });
}

#[test]
fn everything_is_started_anew_while_calls_run() {
    with_servers(async |installed, test| {
        let legacy = (EraPolicy::Auto, Era::Legacy);
        started_anew(test, installed.everything_over_http().await, &[legacy], &EVERYTHING).await;
    });
}

/// How to make a server work, and how to see that it does.
struct Work {
    /// A tool that does not end, and its arguments, different for each number.
    endless: fn(usize) -> (&'static str, Value),
    /// How often a tool has run with these arguments, by the log of the server.
    runs: fn(&Web, &str, &Value) -> usize,
}

const OURS: Work = Work {
    endless: |number| ("hang", json!({"number": number})),
    runs: |web, tool, arguments| {
        let argument = arguments.as_object().unwrap().values().next().unwrap();
        let argument = argument.as_str().map_or_else(|| argument.to_string(), ToOwned::to_owned);
        web.logged(&format!("{tool} {argument}"))
    },
};

const EVERYTHING: Work = Work {
    endless: |number| ("trigger-long-running-operation", json!({"duration": 3600, "steps": 3600 + number})),
    runs: |web, tool, arguments| {
        let log = web.log();
        let asked = |prefix: &str| {
            let messages = log.iter().filter_map(|line| line.strip_prefix(prefix)).map(answer);
            let is_it = |message: &Value| {
                message["params"]["name"] == tool && message["params"]["arguments"] == *arguments
            };
            messages.filter(is_it).count()
        };
        // It refuses a session that it does not know with this status.
        asked("received ") - asked("answered 400 ")
    },
};

/// Calls that are under way end and say so, those that come later wait for the server, and none runs
/// twice.
async fn started_anew(test: &Isolated, mut web: Web, eras: &[(EraPolicy, Era)], work: &Work) {
    for (round, (policy, era)) in eras.iter().enumerate() {
        let running = Running::at(web.server(), *policy).await;
        assert_eq!(running.server.peer().unwrap().era, *era);
        let endless: Vec<_> = (0..4).map(|number| (work.endless)(10 * round + number)).collect();
        let under_way: Vec<_> =
            endless.iter().map(|(tool, arguments)| running.begin(tool, arguments)).collect();
        until(SOON, "the calls are under way", || {
            endless.iter().all(|(tool, arguments)| (work.runs)(&web, tool, arguments) == 1)
        })
        .await;

        web.kill();
        let echo = |number: usize| json!({"message": format!("{round}-{number}")});
        let at_once: Vec<_> = (0..4).map(|number| running.begin("echo", &echo(number))).collect();
        until(SOON, "the loss is noticed", || !running.server.status().state.is_ready()).await;
        let waiting: Vec<_> = (4..8).map(|number| running.begin("echo", &echo(number))).collect();
        web.start().await;
        for (call, (tool, arguments)) in under_way.into_iter().zip(&endless) {
            let ended = call.await.unwrap();
            assert_eq!(ended["outcome"], "unknown", "{ended}");
            assert_eq!((work.runs)(&web, tool, arguments), 1);
        }
        for (number, call) in at_once.into_iter().chain(waiting).enumerate() {
            let (answered, message) = (call.await.unwrap(), echo(number));
            let runs = (work.runs)(&web, "echo", &message);
            match answered["result"].as_str() {
                Some(result) => {
                    assert!(result.ends_with(message["message"].as_str().unwrap()), "{answered}");
                    assert_eq!(runs, 1, "{answered}");
                }
                // Written to a connection whose other end was just gone.
                None if number < 4 => {
                    assert_eq!((&answered["outcome"], runs), (&json!("unknown"), 0), "{answered}");
                }
                None => panic!("a call that waits for the server is answered: {answered}"),
            }
        }
        running.finish().await;
    }
    expect_losses(test, 1);
    web.finish().await;
}

/// One line for each loss, and one for each attempt while nobody listened.
fn expect_losses(test: &Isolated, at_least: usize) {
    let records = test.log().records();
    let losses = records.iter().filter(|record| record.to_string().contains("connection lost")).count();
    assert!(losses >= at_least, "{losses} losses");
    (0..losses).for_each(|_| test.expect_log(Level::WARN, "connection lost"));
}

fn answer(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
