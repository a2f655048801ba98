//! Servers over HTTP, through the public handle.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle::{ServerHandle, ServerOptions, ServerSpec, State, Supervisor, SupervisorOptions};
use mcp_proto::{CallTool, ListTools, RawJson};
use mcp_session::{CallOptions, ListLimits};
use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend};
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::{HttpAnswers, HttpHost, NetServer, ServerScript, ToolBehaviour};
use tokio::runtime::Handle;
use tokio::time::Instant;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A supervisor with the one server behind `url`.
fn start(url: &str) -> (Supervisor, ServerHandle) {
    let supervisor = Supervisor::start(&Handle::current(), SupervisorOptions::default().with_seed(1));
    let endpoint = Endpoint::parse(url).unwrap();
    let connector = HttpConnector::new(Arc::new(HyperBackend::default()), endpoint, HttpLimits::default());
    let spec = ServerSpec::new("web", Arc::new(connector)).with_options(ServerOptions::default());
    let handle = supervisor.add(spec).unwrap();
    (supervisor, handle)
}

fn echo() -> CallTool {
    CallTool::new("echo").with_arguments(RawJson::from_text(r#"{"message":"x"}"#).unwrap())
}

#[test]
fn a_server_over_http_is_ready_called_and_shut_down_in_both_eras_and_forms() {
    isolated(async |_| {
        for script in [ServerScript::legacy(), ServerScript::modern()] {
            for answers in [HttpAnswers::Json, HttpAnswers::Events] {
                let host = HttpHost::bind(script.clone(), answers).await;
                let client = async {
                    let (supervisor, server) = start(&host.url());
                    let status = server.settled(soon()).await;
                    assert!(matches!(status.state, State::Ready { .. }), "{status:?}");
                    server.call(echo(), CallOptions::default()).await.unwrap();
                    let tools = server
                        .list::<ListTools>(CallOptions::default(), ListLimits::default())
                        .await
                        .unwrap();
                    assert!(tools.items.len() >= 6);
                    supervisor.shutdown().await;
                };
                tokio::select! {
                    () = client => {}
                    () = host.run() => {}
                }
                assert!(script.log().violations().is_empty(), "{:?}", script.log().violations());
            }
        }
    });
}

#[test]
fn f062_a_lost_session_is_begun_anew_once_and_each_call_runs_at_most_once() {
    isolated(async |test| {
        let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(Duration::from_secs(30)));
        let host = HttpHost::bind(script.clone(), HttpAnswers::Json).await;
        let client = async {
            let (supervisor, server) = start(&host.url());
            server.settled(soon()).await;
            assert_eq!(host.sessions(), 1);
            // One call is under way when the session is lost; its outcome stays unknown.
            let under_way = tokio::spawn({
                let server = server.clone();
                async move { server.call(CallTool::new("slow"), CallOptions::default()).await }
            });
            while script.log().runs("slow") == 0 {
                tokio::task::yield_now().await;
            }
            host.forget_sessions();
            let calls: Vec<_> = (0..8)
                .map(|_| {
                    let server = server.clone();
                    tokio::spawn(async move { server.call(echo(), CallOptions::default()).await })
                })
                .collect();
            for call in calls {
                // Either it was refused itself and repeated, or it was under way beside one that was.
                if let Err(error) = call.await.unwrap() {
                    assert_eq!(error.outcome(), mcp_session::CallOutcome::Unknown, "{error}");
                }
            }
            server.call(echo(), CallOptions::default()).await.unwrap();
            let lost = under_way.await.unwrap().unwrap_err();
            assert_eq!(lost.outcome(), mcp_session::CallOutcome::Unknown, "{lost}");
            assert_eq!(host.sessions(), 2, "one new session for all");
            assert_eq!(script.log().runs("slow"), 1);
            test.expect_log(tracing::Level::WARN, "connection lost");
            supervisor.shutdown().await;
        };
        tokio::select! {
            () = client => {}
            () = host.run() => {}
        }
    });
}

#[test]
fn a_server_that_asks_for_credentials_waits_for_them_and_a_failing_one_is_tried_again() {
    isolated(async |test| {
        for (status, is_auth) in [("401 Unauthorized", true), ("503 Service Unavailable", false)] {
            let host = NetServer::bind().await;
            let (supervisor, server) = start(&host.url());
            let serving = async {
                let (mut connection, _) = host.exchange().await;
                connection.empty(status).await;
            };
            let mut watch = server.watch();
            let settled =
                watch.wait_for(|status| matches!(status.state, State::NeedsAuth | State::Backoff { .. }));
            let (settled, ()) = tokio::join!(settled, serving);
            let state = settled.unwrap().state;
            assert_eq!(state == State::NeedsAuth, is_auth, "{state:?}");
            supervisor.shutdown().await;
        }
        test.expect_log(tracing::Level::WARN, "401");
        test.expect_log(tracing::Level::WARN, "503");
    });
}
