//! Servers over HTTP that are overloaded, fail, hang up or fall silent, through the public handle.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_lifecycle::{
    BackoffOptions, BreakerOptions, BreakerState, CallError, Failure, KeepaliveOptions, ParkReason,
    ServerHandle, ServerOptions, State,
};
use mcp_proto::{CallTool, ListTools};
use mcp_session::{CallOptions, CallOutcome, EraPolicy, ListLimits, SessionOptions, UnsupportedWhy};
use mcp_transport::http::HttpLimits;
use mcp_transport::testing::checks::{isolated, until};
use mcp_transport::testing::{NetConnection, NetServer};
use serde_json::{Value, json};
use support::web::{soon, start, start_with};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pauses short enough for a test.
fn options() -> ServerOptions {
    ServerOptions::default().with_backoff(BackoffOptions::default().with_first(Duration::from_millis(20)))
}

/// Plays a modern server until it is ready.
async fn become_ready(server: &NetServer) -> NetConnection {
    let mut connection = server.accept().await;
    for result in [
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        json!({"resultType": "complete", "tools": []}),
    ] {
        answer(&mut connection, &result).await;
    }
    connection
}

/// Answers the next request with success.
async fn answer(connection: &mut NetConnection, result: &Value) {
    let id = connection.request().await.json()["id"].clone();
    connection.json("200 OK", "", &json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
}

/// Answers every request with this head and no body; returns the methods when `calls` is over.
async fn refuse_all<T>(
    connection: &mut NetConnection,
    head: &str,
    calls: impl Future<Output = T>,
) -> (T, Vec<String>) {
    let mut asked = Vec::new();
    let serve = async {
        loop {
            let request = connection.request().await;
            asked.push(request.json()["method"].as_str().unwrap().to_owned());
            connection.write(format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n")).await;
        }
    };
    let output = tokio::select! {
        output = calls => output,
        () = serve => unreachable!("it serves for ever"),
    };
    (output, asked)
}

async fn list(server: &ServerHandle) -> Result<(), CallError> {
    server.list::<ListTools>(CallOptions::default(), ListLimits::default()).await.map(drop)
}

async fn call(server: &ServerHandle) -> Result<(), CallError> {
    server.call(CallTool::new("any"), CallOptions::default()).await.map(drop)
}

fn of_session(error: CallError) -> mcp_session::CallError {
    let CallError::Session { error, .. } = error else { panic!("{error:?}") };
    error
}

#[test]
fn f065_a_server_that_wants_fewer_requests_gets_an_idempotent_one_again_when_it_says() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        let began = Instant::now();
        let (listed, waited) = tokio::join!(list(&server), async {
            connection.request().await;
            connection
                .write("HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n")
                .await;
            answer(&mut connection, &json!({"resultType": "complete", "tools": []})).await;
            began.elapsed()
        });
        listed.unwrap();
        assert!(waited >= Duration::from_secs(1), "{waited:?}");

        let head = "429 Too Many Requests\r\nretry-after: 7";
        let (called, asked) = refuse_all(&mut connection, head, call(&server)).await;
        assert_eq!(asked, ["tools/call"], "a call that may do something is left to its caller");
        let error = called.unwrap_err();
        assert!(error.is_retryable() && error.outcome() == CallOutcome::Rejected, "{error:?}");
        let error = of_session(error);
        assert_eq!((error.is_rate_limited(), error.retry_after()), (true, Some(Duration::from_secs(7))));
        supervisor.shutdown().await;
    });
}

#[test]
fn f065_wanting_fewer_requests_never_opens_the_breaker_and_a_wait_beyond_the_deadline_is_not_begun() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        let head = "429 Too Many Requests\r\nretry-after: 1000000000";
        let calls = async {
            for _ in 0..10 {
                let began = Instant::now();
                let error = of_session(list(&server).await.unwrap_err());
                assert_eq!(error.retry_after(), Some(Duration::from_secs(300)));
                assert!(began.elapsed() < Duration::from_secs(1));
            }
        };
        let ((), asked) = refuse_all(&mut connection, head, calls).await;
        assert_eq!(asked.len(), 10);
        assert_eq!(server.status().breaker, BreakerState::Closed);
        supervisor.shutdown().await;
    });
}

#[test]
fn f066_a_failing_server_gets_three_attempts_of_what_is_idempotent_and_one_of_a_call() {
    isolated(async |test| {
        for status in ["500 Oops", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
            let host = NetServer::bind().await;
            let (supervisor, server) = start(&host.url(), options());
            let mut connection = become_ready(&host).await;
            server.settled(soon()).await;
            let (listed, asked) = refuse_all(&mut connection, status, list(&server)).await;
            assert_eq!(asked, ["tools/list"; 3], "{status}");
            assert_eq!(listed.unwrap_err().outcome(), CallOutcome::Unknown);
            assert_eq!(server.status().breaker, BreakerState::Closed);

            let (called, asked) = refuse_all(&mut connection, status, call(&server)).await;
            assert_eq!(asked, ["tools/call"], "{status}");
            assert_eq!(called.unwrap_err().outcome(), CallOutcome::Unknown);

            // The fifth in a row: from here on nothing is sent.
            let (_, asked) = refuse_all(&mut connection, status, call(&server)).await;
            assert_eq!((asked.len(), server.status().breaker), (1, BreakerState::Open));
            let (refused, asked) = refuse_all(&mut connection, status, list(&server)).await;
            assert!(matches!(refused, Err(CallError::CircuitOpen { .. })), "{refused:?}");
            assert!(asked.is_empty());
            assert!(server.status().state.is_ready(), "the connection itself is as it was");
            test.expect_log(tracing::Level::WARN, "the server keeps failing");
            supervisor.shutdown().await;
        }
    });
}

#[test]
fn f066_a_failing_server_is_found_out_whatever_it_says() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "busy"}});
        for _ in 0..5 {
            assert_eq!(server.status().breaker, BreakerState::Closed);
            let (called, ()) = tokio::join!(call(&server), async {
                connection.request().await;
                connection.json("503 Service Unavailable", "", &error).await;
            });
            assert_eq!(called.unwrap_err().outcome(), CallOutcome::Unknown);
        }
        assert_eq!(server.status().breaker, BreakerState::Open);
        test.expect_log(tracing::Level::WARN, "the server keeps failing");
        supervisor.shutdown().await;
    });
}

#[test]
fn f066_failures_of_requests_that_were_under_way_together_are_one_strike() {
    isolated(async |test| {
        const TOGETHER: usize = 6;
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let first = become_ready(&host).await;
        server.settled(soon()).await;
        let serving = async {
            let mut connections = vec![first];
            while connections.len() < TOGETHER {
                connections.push(host.accept().await);
            }
            loop {
                // Nobody is refused before everybody has asked.
                for connection in &mut connections {
                    connection.request().await;
                }
                for connection in &mut connections {
                    connection.empty("503 Busy").await;
                }
            }
        };
        let calls = async {
            for round in 1..=5 {
                assert_eq!(server.status().breaker, BreakerState::Closed, "round {round}");
                let calls = futures_util::future::join_all((0..TOGETHER).map(|_| call(&server)));
                assert!(calls.await.iter().all(Result::is_err));
            }
        };
        tokio::select! {
            () = calls => {}
            () = serving => unreachable!("it serves for ever"),
        }
        assert_eq!(server.status().breaker, BreakerState::Open);
        test.expect_log(tracing::Level::WARN, "the server keeps failing");
        supervisor.shutdown().await;
    });
}

#[test]
fn a_wish_for_input_that_nobody_serves_proves_that_the_server_is_well() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        // Open at the first failure, and until the next call only.
        let breaker = BreakerOptions::default().with_open_after(1).with_open_for(Duration::ZERO);
        let (supervisor, server) = start(&host.url(), options().with_breaker(breaker));
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        refuse_all(&mut connection, "503 Busy", call(&server)).await.0.unwrap_err();
        assert_eq!(server.status().breaker, BreakerState::Open);
        test.expect_log(tracing::Level::WARN, "the server keeps failing");

        let wish =
            json!({"resultType": "input_required", "inputRequests": {"where": {"method": "roots/list"}}});
        let (called, ()) = tokio::join!(call(&server), answer(&mut connection, &wish));
        let error = of_session(called.unwrap_err());
        let why = UnsupportedWhy::InputRequired;
        assert!(
            matches!(&error, mcp_session::CallError::Unsupported { why: w, .. } if *w == why),
            "{error:?}"
        );
        assert_eq!(server.status().breaker, BreakerState::Closed);
        supervisor.shutdown().await;
    });
}

#[test]
fn whatever_a_server_says_of_a_request_that_it_does_not_take_proves_that_it_is_well() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let breaker = BreakerOptions::default().with_open_after(1).with_open_for(Duration::ZERO);
        let (supervisor, server) = start(&host.url(), options().with_breaker(breaker));
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        for (head, breaker) in [
            ("404 Not Found", BreakerState::Closed),
            ("429 Too Many Requests", BreakerState::Closed),
            ("403 Forbidden", BreakerState::HalfOpen),
        ] {
            refuse_all(&mut connection, "503 Busy", call(&server)).await.0.unwrap_err();
            assert_eq!(server.status().breaker, BreakerState::Open);
            test.expect_log(tracing::Level::WARN, "the server keeps failing");
            refuse_all(&mut connection, head, call(&server)).await.0.unwrap_err();
            assert_eq!(server.status().breaker, breaker, "{head}");
        }
        supervisor.shutdown().await;
    });
}

#[test]
fn f035_a_probe_that_fails_at_once_is_one_miss_for_the_whole_time_of_a_probe() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let reply_limit = Duration::from_millis(500);
        let keepalive = KeepaliveOptions::default()
            .with_interval(Some(Duration::from_millis(50)))
            .with_reply_limit(reply_limit);
        let (supervisor, server) = start(&host.url(), options().with_keepalive(keepalive));
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        let misses = async {
            let mut misses = Vec::new();
            while misses.len() < 2 {
                connection.request().await;
                misses.push(Instant::now());
                connection.empty("503 Busy").await;
            }
            misses
        };
        let misses = misses.await;
        let apart = misses[1] - misses[0];
        // The clock of the probe begins before the server has it.
        assert!(apart >= reply_limit - Duration::from_millis(100), "{apart:?}");
        server.watch().wait_for(|status| !status.state.is_ready()).await.unwrap();
        let failure = server.status().last_error;
        assert!(matches!(failure.as_deref(), Some(Failure::Unresponsive { misses: 2 })), "{failure:?}");
        test.expect_log(tracing::Level::WARN, "connection lost");
        supervisor.shutdown().await;
    });
}

#[test]
fn f060_credentials_that_are_refused_where_changes_are_told_are_asked_for() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = host.accept().await;
        let capabilities = json!({"tools": {"listChanged": true}});
        for result in [
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
            json!({"resultType": "complete", "tools": []}),
        ] {
            answer(&mut connection, &result).await;
        }
        assert_eq!(connection.request().await.json()["method"], "subscriptions/listen");
        connection.empty("401 Unauthorized").await;
        server.watch().wait_for(|status| status.state == State::NeedsAuth).await.unwrap();
        assert_eq!(server.status().losses, 0);
        test.expect_log(tracing::Level::WARN, "the server wants credentials");
        supervisor.shutdown().await;
    });
}

#[test]
fn f066_repeats_end_with_the_budget() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        // A success in between keeps the breaker closed, and pays for a tenth of a repeat.
        let success = json!({"resultType": "complete", "tools": []});
        let mut attempts = Vec::new();
        for _ in 0..4 {
            let (listed, asked) = refuse_all(&mut connection, "503 Busy", list(&server)).await;
            listed.unwrap_err();
            attempts.push(asked.len());
            let (listed, ()) = tokio::join!(list(&server), answer(&mut connection, &success));
            listed.unwrap();
        }
        assert_eq!(attempts, [3, 3, 3, 1]);
        supervisor.shutdown().await;
    });
}

#[test]
fn f066_a_pause_before_a_repeat_holds_no_shutdown_up() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        let pausing = tokio::spawn(async move { list(&server).await });
        connection.request().await;
        let head = "HTTP/1.1 503 Busy\r\nretry-after: 30\r\ncontent-length: 0\r\n\r\n";
        connection.write(head).await;
        // The answer has been read when its connection is free for something else.
        while supervisor.server("web").unwrap().status().in_flight > 0 {
            tokio::task::yield_now().await;
        }
        let began = Instant::now();
        supervisor.shutdown().await;
        let error = pausing.await.unwrap().unwrap_err();
        assert_eq!(error.outcome(), CallOutcome::Unknown, "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    });
}

#[test]
fn f057_a_server_that_hangs_up_at_once_is_tried_with_pauses_and_then_parked() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options().with_park_after(3));
        let mut connections = 0;
        let status = tokio::select! {
            status = server.settled(soon()) => status,
            () = async {
                loop {
                    drop(host.accept().await);
                    connections += 1;
                }
            } => unreachable!("it serves for ever"),
        };
        assert!(
            matches!(status.state, State::Parked { why: ParkReason::Unproven { attempts: 3 }, .. }),
            "{status:?}"
        );
        // Each attempt may find its first connection closed before anything was written.
        assert!((3..=6).contains(&connections), "{connections}");
        (0..3).for_each(|_| test.expect_log(tracing::Level::WARN, "connection lost"));
        supervisor.shutdown().await;
    });
}

/// What a server says that wants other credentials; the second says so with a JSON-RPC error.
const WANTS_CREDENTIALS: [(&str, &str, &str); 2] = [
    ("401 Unauthorized", "www-authenticate: Bearer error=\"invalid_token\"\r\n", ""),
    ("401 Unauthorized", "", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"who is it?"}}"#),
];

#[test]
fn f060_f061_a_call_refused_for_want_of_credentials_costs_the_server_no_strike_and_its_neighbours_nothing() {
    isolated(async |test| {
        for (status, header, body) in WANTS_CREDENTIALS {
            let host = NetServer::bind().await;
            let (supervisor, server) = start(&host.url(), options());
            let mut connection = become_ready(&host).await;
            server.settled(soon()).await;
            let (neighbour, refused, ()) = tokio::join!(call(&server), call(&server), async {
                let first = connection.request().await.json();
                let mut other = host.accept().await;
                other.request().await;
                let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
                let length = body.len();
                other
                    .write(format!(
                        "HTTP/1.1 {status}\r\n{header}{kind}content-length: {length}\r\n\r\n{body}"
                    ))
                    .await;
                // The state follows while the first call still runs.
                server.watch().wait_for(|status| status.state == State::NeedsAuth).await.unwrap();
                let result = json!({"resultType": "complete", "content": []});
                let answer = json!({"jsonrpc": "2.0", "id": first["id"], "result": result});
                connection.json("200 OK", "", &answer).await;
            });
            neighbour.unwrap();
            let error = refused.unwrap_err();
            assert!(
                matches!(error, CallError::NeedsAuth { outcome: CallOutcome::Rejected, .. }),
                "{status}: {error:?}"
            );
            assert!(!error.is_retryable() && error.to_string().contains("log in"), "{error}");
            let at_once = call(&server).await.unwrap_err();
            assert!(
                matches!(at_once, CallError::NeedsAuth { outcome: CallOutcome::NotSent, .. }),
                "{at_once:?}"
            );
            let told = server.status();
            assert!(matches!(told.last_error.as_deref(), Some(Failure::Unauthorized)), "{told:?}");
            assert_eq!((told.losses, told.breaker), (0, BreakerState::Closed));

            server.wake();
            let _connection = become_ready(&host).await;
            assert_eq!(server.settled(soon()).await.state, State::Ready { generation: 2 });
            test.expect_log(tracing::Level::WARN, "wants credentials");
            supervisor.shutdown().await;
        }
    });
}

#[test]
fn f061_a_call_that_needs_a_wider_scope_is_refused_alone() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        let wider = "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"write\"\r\n";
        let (called, ()) = tokio::join!(call(&server), async {
            connection.request().await;
            connection.json("403 Forbidden", wider, &json!({})).await;
        });
        let error = called.unwrap_err();
        assert!(matches!(error, CallError::InsufficientScope { .. }), "{error:?}");
        assert!(server.status().state.is_ready());
        supervisor.shutdown().await;
    });
}

#[test]
fn f061_any_other_403_while_connecting_is_final() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let serving = async {
            let (mut connection, _) = host.exchange().await;
            connection.empty("403 Forbidden").await;
        };
        let (status, ()) = tokio::join!(server.settled(soon()), serving);
        assert!(matches!(status.state, State::Parked { why: ParkReason::Permanent, .. }), "{status:?}");
        test.expect_log(tracing::Level::WARN, "403");
        supervisor.shutdown().await;
    });
}

#[test]
fn f061_any_other_403_is_an_answer_and_the_server_stays_ready() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let mut connection = become_ready(&host).await;
        server.settled(soon()).await;
        let refusal = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "not you"}});
        let (called, ()) = tokio::join!(call(&server), async {
            connection.request().await;
            connection.json("403 Forbidden", "", &refusal).await;
        });
        let error = of_session(called.unwrap_err());
        assert!(matches!(error, mcp_session::CallError::Peer(_)), "{error:?}");
        assert!(server.status().state.is_ready());
        supervisor.shutdown().await;
    });
}

#[test]
fn f060_a_list_refused_for_want_of_credentials_while_connecting_waits_for_them() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), options());
        let serving = async {
            let mut connection = host.accept().await;
            let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                                "capabilities": {"tools": {}}});
            answer(&mut connection, &result).await;
            connection.request().await;
            connection.empty("401 Unauthorized").await;
        };
        let (status, ()) = tokio::join!(server.settled(soon()), serving);
        assert_eq!(status.state, State::NeedsAuth, "{status:?}");
        test.expect_log(tracing::Level::WARN, "401");
        supervisor.shutdown().await;
    });
}

#[test]
fn a_server_whose_own_stream_is_given_up_is_degraded_until_it_is_back() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let limits = HttpLimits::default()
            .with_resume_pause(Duration::from_millis(5))
            .with_relisten_pause(Duration::from_millis(300));
        let session = SessionOptions::default().with_era(EraPolicy::Legacy);
        let (supervisor, server) = start_with(&host.url(), options().with_session(session), limits);
        let web = Arc::new(Silenceable::default());
        web.refuses_stream.store(true, Ordering::Relaxed);
        let serving = tokio::spawn(Arc::clone(&web).run(host));
        let mut watch = server.watch();
        watch.wait_for(|status| status.degraded).await.unwrap();
        let status = server.status();
        assert_eq!((status.state, status.losses), (State::Ready { generation: 1 }, 0), "it is no loss");
        server.list::<ListTools>(CallOptions::default(), ListLimits::default()).await.unwrap();
        test.expect_log(tracing::Level::WARN, "does not stay open");

        web.take_asked();
        web.refuses_stream.store(false, Ordering::Relaxed);
        watch.wait_for(|status| !status.degraded).await.unwrap();
        assert_eq!(server.status().state, State::Ready { generation: 1 });
        // What changed meanwhile was told to nobody.
        let is_fetched = || web.asked.lock().unwrap().iter().any(|asked| asked == "tools/list");
        until(Duration::from_secs(20), "the tools are fetched anew", is_fetched).await;
        supervisor.shutdown().await;
        serving.abort();
    });
}

/// A legacy server with a stream of its own, which can fall silent: connections stay and are accepted,
/// and nothing is answered on them.
#[derive(Default)]
struct Silenceable {
    is_silent: AtomicBool,
    refuses_stream: AtomicBool,
    asked: Mutex<Vec<String>>,
    sessions: AtomicUsize,
}

impl Silenceable {
    async fn run(self: Arc<Self>, server: NetServer) {
        let mut connections = JoinSet::new();
        loop {
            connections.spawn(Arc::clone(&self).talk(server.accept().await));
        }
    }

    async fn talk(self: Arc<Self>, mut connection: NetConnection) {
        while let Some(request) = connection.next_request().await {
            if self.is_silent.load(Ordering::Relaxed) {
                std::future::pending().await
            }
            let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let method = message["method"].as_str().unwrap_or(&request.method);
            self.asked.lock().unwrap().push(method.to_owned());
            let mut header = String::new();
            let result = match method {
                "GET" if self.refuses_stream.load(Ordering::Relaxed) => {
                    connection.empty("503 Busy").await;
                    continue;
                }
                "GET" => {
                    connection.events("").await;
                    connection.hung_up().await;
                    return;
                }
                "initialize" => {
                    let session = self.sessions.fetch_add(1, Ordering::Relaxed);
                    header = format!("mcp-session-id: session-{session}\r\n");
                    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "silenceable", "version": "1"}})
                }
                "tools/list" => json!({"tools": []}),
                "ping" => json!({}),
                _ => {
                    connection.empty("202 Accepted").await;
                    continue;
                }
            };
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            connection.json("200 OK", &header, &answer).await;
        }
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

#[test]
fn f079_a_server_that_falls_silent_is_found_out_and_everything_is_asked_anew_when_it_is_back() {
    isolated(async |test| {
        const INTERVAL: Duration = Duration::from_secs(1);
        let host = NetServer::bind().await;
        let keepalive = KeepaliveOptions::default()
            .with_interval(Some(INTERVAL))
            .with_reply_limit(Duration::from_millis(100));
        let session = SessionOptions::default().with_era(EraPolicy::Legacy);
        let options = options()
            .with_keepalive(keepalive)
            .with_session(session)
            .with_connect_limit(Duration::from_secs(1));
        let (supervisor, server) = start(&host.url(), options);
        let web = Arc::new(Silenceable::default());
        let serving = tokio::spawn(Arc::clone(&web).run(host));
        let mut watch = server.watch();
        watch.wait_for(|status| status.state.is_ready()).await.unwrap();
        let at_first = web.take_asked();
        for method in ["initialize", "notifications/initialized", "GET", "tools/list"] {
            assert!(at_first.iter().any(|asked| asked == method), "{method}: {at_first:?}");
        }

        web.is_silent.store(true, Ordering::Relaxed);
        let began = Instant::now();
        watch.wait_for(|status| !status.state.is_ready()).await.unwrap();
        assert!(began.elapsed() < 2 * INTERVAL, "{:?}", began.elapsed());

        web.take_asked();
        web.is_silent.store(false, Ordering::Relaxed);
        watch.wait_for(|status| status.state.is_ready()).await.unwrap();
        let again = web.take_asked();
        for method in ["initialize", "notifications/initialized", "GET", "tools/list"] {
            assert!(again.iter().any(|asked| asked == method), "{method}: {again:?}");
        }
        (0..test.log().at(tracing::Level::WARN).len())
            .for_each(|_| test.expect_log(tracing::Level::WARN, "connection lost"));
        supervisor.shutdown().await;
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
    });
}
