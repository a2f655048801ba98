//! The client for threads without a runtime, with real children.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use mcp_client::blocking::{self, GaveUp, Interrupt, Wait};
use mcp_client::{Client, ClientBuilder, StartError, StdioServer};
use mcp_transport::testing::checks::{isolated, marked, until};
use mcp_transport::testing::fixture::Fixture;
use serde_json::{Value, json};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

/// A fixture server that this package's own program plays.
fn fixture() -> (Fixture, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::from_program(env!("CARGO_BIN_EXE_mcpctl"), folder.path()).with_prefix(["fixture"]);
    (fixture, folder)
}

fn builder(name: &str, fixture: &Fixture) -> ClientBuilder {
    let arguments = fixture.arguments().iter().map(|argument| argument.to_str().unwrap());
    let (variable, mark) = fixture.mark();
    let program = StdioServer::new(fixture.program().to_str().unwrap()).args(arguments).env(variable, mark);
    Client::builder().stdio(name, program).unwrap()
}

fn answer(result: Result<String, GaveUp>) -> Value {
    serde_json::from_str(&result.unwrap()).unwrap()
}

/// How many threads of this process drive a background runtime.
fn runtime_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name =
        |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
    threads.map(name).filter(|name| name.trim() == "mcp-runtime").count()
}

#[test]
fn a_thread_without_a_runtime_calls_and_shuts_down() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let client = blocking::Client::start(builder("s", &fixture)).unwrap();
        // As long as it takes.
        assert!(client.settled("s", Duration::MAX).unwrap().unwrap().state.is_ready());
        assert!(client.settled("t", LONG).unwrap().is_none());
        let call = json!({"server": "s", "tool": "echo", "arguments": {"message": "hello"}}).to_string();
        assert_eq!(answer(client.call_tool(call, LONG)), json!({"result": "hello"}));
        let list = answer(client.list_prompts(json!({"server": "s"}).to_string(), LONG));
        assert_eq!(list["prompts"].as_array().unwrap().len(), 2);
        let report = client.shutdown(LONG).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert!(marked(fixture.mark().1).is_empty());
        drop(client);
        until(LONG, "the thread ends", || runtime_threads() == 0).await;
    });
}

/// The caller gives up while the runtime's own thread is blocked; the sequence is neither lost nor overtaken.
#[test]
fn i34_promise_c_a_caller_gives_up_on_time_while_the_runtime_is_blocked() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let client = blocking::Client::start(builder("s", &fixture)).unwrap();
        assert!(client.settled("s", LONG).unwrap().unwrap().state.is_ready());
        let (open, gate) = sync_channel::<()>(0);
        let (entered, inside) = sync_channel::<()>(0);
        client.runtime().handle().spawn(async move {
            entered.send(()).unwrap();
            gate.recv().unwrap();
        });
        inside.recv().unwrap();

        let call = json!({"server": "s", "tool": "echo", "arguments": {"message": "late"}}).to_string();
        assert_eq!(client.call_tool(call, SHORT), Err(GaveUp::Cancelled(SHORT)));
        assert!(client.shutdown(SHORT).is_err());
        assert!(client.shutdown(SHORT).is_err(), "asking again changes nothing");
        assert_eq!(marked(fixture.mark().1).len(), 1, "nothing was stopped behind the back of the drain");

        open.send(()).unwrap();
        let report = client.shutdown(LONG).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(fixture.transcript().runs("echo"), 0, "what nobody waits for is not sent");
        assert!(Arc::ptr_eq(&report, &client.shutdown(LONG).unwrap()), "there is one shutdown");
        assert!(marked(fixture.mark().1).is_empty());
        drop(client);
        until(LONG, "the thread ends", || runtime_threads() == 0).await;
    });
}

/// The waiter gives up and drops everything: the drain that has begun goes on to its end all the same.
#[test]
fn i34_dropping_the_client_in_the_middle_of_a_shutdown_does_not_overtake_it() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.option("--tool", "slow=slow:1500");
        let client = blocking::Client::start(builder("s", &fixture)).unwrap();
        assert!(client.settled("s", LONG).unwrap().unwrap().state.is_ready());
        let handlers = client.inner().handlers();
        let call = json!({"server": "s", "tool": "slow", "arguments": {}}).to_string();
        let (answered, answer) = sync_channel(1);
        client
            .runtime()
            .handle()
            .spawn(async move { answered.send(handlers.call_tool(&call).await).unwrap() });
        until(LONG, "the call runs", || fixture.transcript().runs("slow") == 1).await;
        assert!(client.shutdown(SHORT).is_err());
        drop(client);
        let answer = answer.recv_timeout(LONG).unwrap();
        assert!(!answer.contains("error"), "it was given its time: {answer}");
        until(LONG, "the server is gone", || marked(fixture.mark().1).is_empty()).await;
        until(LONG, "the thread ends", || runtime_threads() == 0).await;
    });
}

#[test]
fn a_thread_that_is_interrupted_cancels_its_call_and_the_server_is_told() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let client = blocking::Client::start(builder("s", &fixture)).unwrap();
        assert!(client.settled("s", LONG).unwrap().unwrap().state.is_ready());
        let interrupt = Interrupt::new();
        let call = json!({"server": "s", "tool": "hang", "arguments": {}}).to_string();
        let wait = Wait::at_most(LONG).until(&interrupt);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client.call_tool(call, wait));
            while fixture.transcript().runs("hang") == 0 {
                std::thread::yield_now();
            }
            interrupt.interrupt();
            assert_eq!(waiting.join().unwrap(), Err(GaveUp::Interrupted));
        });
        until(LONG, "the server is told", || fixture.transcript().cancelled().len() == 1).await;
        assert_eq!(client.status()[0].in_flight, 0);
        let report = client.end(LONG).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(runtime_threads(), 0, "joined");
    });
}

#[test]
fn dropping_the_client_without_a_shutdown_kills_its_servers() {
    isolated(async |test| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        let client = blocking::Client::start(builder("s", &fixture)).unwrap();
        assert!(client.settled("s", LONG).unwrap().unwrap().state.is_ready());
        drop(client);
        test.expect_log(tracing::Level::WARN, "dropped without a shutdown");
        until(Duration::from_secs(1), "the server is gone", || marked(fixture.mark().1).is_empty()).await;
        until(LONG, "the thread ends", || runtime_threads() == 0).await;
    });
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let twice = builder("s", &fixture).stdio("s", StdioServer::new("other")).unwrap();
        let error = blocking::Client::start(twice).unwrap_err();
        assert!(matches!(error, StartError::Config(_)), "{error}");
        assert!(fixture.transcript().servers().is_empty());
        until(LONG, "the thread ends", || runtime_threads() == 0).await;
    });
}
