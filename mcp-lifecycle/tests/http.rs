//! Servers over HTTP, through the public handle.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::time::Duration;

use mcp_lifecycle::{BackoffOptions, BreakerState, ServerOptions, State};
use mcp_proto::{CallTool, ListTools, RawJson};
use mcp_session::{CallError, CallOptions, CallOutcome, ListLimits};
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::{
    HttpAnswers, HttpHost, NetConnection, NetRequest, NetServer, ServerScript, ToolBehaviour,
};
use serde_json::{Value, json};
use support::web::{soon, start};

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
                    let (supervisor, server) = start(&host.url(), ServerOptions::default());
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
                host.beside(client).await;
                assert!(script.log().violations().is_empty(), "{:?}", script.log().violations());
            }
        }
    });
}

#[test]
fn f062_a_lost_session_is_begun_anew_once_and_each_call_runs_at_most_once() {
    isolated(async |_| {
        let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(Duration::from_secs(30)));
        let host = HttpHost::bind(script.clone(), HttpAnswers::Json).await;
        let client = async {
            let (supervisor, server) = start(&host.url(), ServerOptions::default());
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
            let status = server.status();
            assert_eq!((status.losses, status.breaker), (0, BreakerState::Closed), "nobody has failed");
            let lost = under_way.await.unwrap().unwrap_err();
            assert_eq!(lost.outcome(), mcp_session::CallOutcome::Unknown, "{lost}");
            assert_eq!(host.sessions(), 2, "one new session for all");
            assert_eq!(script.log().runs("slow"), 1);
            supervisor.shutdown().await;
        };
        host.beside(client).await;
    });
}

#[test]
fn f062_a_server_that_forgets_its_sessions_again_and_again_is_never_kept_waiting() {
    isolated(async |_| {
        let script = ServerScript::legacy();
        let host = HttpHost::bind(script.clone(), HttpAnswers::Json).await;
        let client = async {
            // One delay would be felt: nothing is random about it but its length.
            let backoff = BackoffOptions::default()
                .with_first(Duration::from_secs(3600))
                .with_cap(Duration::from_secs(3600));
            let (supervisor, server) = start(&host.url(), ServerOptions::default().with_backoff(backoff));
            for sessions in 1..=12 {
                server.call(echo(), CallOptions::default()).await.unwrap();
                assert_eq!(host.sessions(), sessions);
                host.forget_sessions();
            }
            let status = server.status();
            assert_eq!((status.losses, status.breaker), (0, BreakerState::Closed));
            supervisor.shutdown().await;
        };
        host.beside(client).await;
    });
}

#[test]
fn a_server_that_asks_for_credentials_waits_for_them_and_a_failing_one_is_tried_again() {
    isolated(async |test| {
        for (status, is_auth) in [("401 Unauthorized", true), ("503 Service Unavailable", false)] {
            let host = NetServer::bind().await;
            let (supervisor, server) = start(&host.url(), ServerOptions::default());
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

async fn answer(connection: &mut NetConnection, request: &NetRequest, result: &Value) {
    let answer = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result});
    connection.json("200 OK", "", &answer).await;
}

/// Plays a modern server that has one tool, which wants its parameter in the header `wanted`; its list
/// tells of each of `told` in turn. Returns every method that it was asked, until `enough` calls.
async fn serve_a_changing_tool(
    server: &NetServer,
    told: &[&str],
    wanted: &str,
    enough: usize,
) -> (Vec<String>, usize) {
    let mut connection = server.accept().await;
    let (mut told, mut name) = (told.iter(), "");
    let (mut asked, mut runs, mut calls) = (Vec::new(), 0, 0);
    while calls < enough {
        let request = connection.request().await;
        let method = request.json()["method"].as_str().unwrap().to_owned();
        match method.as_str() {
            "server/discover" => {
                let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                                    "capabilities": {"tools": {}}});
                answer(&mut connection, &request, &result).await;
            }
            "tools/list" => {
                name = told.next().unwrap_or(&name);
                let property = json!({"type": "string", "x-mcp-header": name});
                let tool = json!({"name": "t", "inputSchema": {"properties": {"p": property}}});
                answer(&mut connection, &request, &json!({"resultType": "complete", "tools": [tool]})).await;
            }
            _ => {
                calls += 1;
                if request.header(&format!("mcp-param-{wanted}")) == Some("v") {
                    runs += 1;
                    answer(&mut connection, &request, &json!({"resultType": "complete", "content": []}))
                        .await;
                } else {
                    let error = json!({"code": -32020, "message": "header mismatch"});
                    let error = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error});
                    connection.json("400 Bad Request", "", &error).await;
                }
            }
        }
        asked.push(method);
    }
    (asked, runs)
}

fn call_t() -> CallTool {
    CallTool::new("t").with_arguments(RawJson::from_text(r#"{"p":"v"}"#).unwrap())
}

#[test]
fn m86_a_call_with_stale_headers_is_repeated_once_after_the_tools_are_fetched_anew() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), ServerOptions::default());
        let call = async {
            server.settled(soon()).await;
            server.call(call_t(), CallOptions::default()).await
        };
        let (called, (asked, runs)) =
            tokio::join!(call, serve_a_changing_tool(&host, &["old", "new"], "new", 2));
        called.unwrap();
        assert_eq!(asked, ["server/discover", "tools/list", "tools/call", "tools/list", "tools/call"]);
        assert_eq!(runs, 1);
        let tools = server.lists().unwrap().tools.clone();
        assert!(tools.items[0].input_schema.get().contains("new"), "whoever asks sees the new definition");
        supervisor.shutdown().await;
    });
}

#[test]
fn m86_a_call_whose_headers_stay_wrong_is_repeated_no_second_time() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), ServerOptions::default());
        let call = async {
            server.settled(soon()).await;
            server.call(call_t(), CallOptions::default()).await
        };
        let serve = serve_a_changing_tool(&host, &["old"], "new", 3);
        let called = tokio::select! {
            called = call => called,
            served = serve => panic!("a third call has come: {served:?}"),
        };
        let mcp_lifecycle::CallError::Session { error, .. } = called.unwrap_err() else { panic!() };
        assert!(matches!(&error, CallError::Peer(error) if error.code == -32020), "{error:?}");
        assert_eq!(error.outcome(), CallOutcome::Rejected);
        supervisor.shutdown().await;
    });
}

#[test]
fn m86_where_there_are_no_headers_the_code_means_nothing_and_the_call_is_not_repeated() {
    isolated(async |_| {
        let script = ServerScript::legacy().with_tool("error", ToolBehaviour::Error(-32020));
        let host = HttpHost::bind(script.clone(), HttpAnswers::Json).await;
        let client = async {
            let (supervisor, server) = start(&host.url(), ServerOptions::default());
            server.settled(soon()).await;
            server.call(CallTool::new("error"), CallOptions::default()).await.unwrap_err();
            supervisor.shutdown().await;
        };
        tokio::select! {
            () = client => {}
            () = host.run() => {}
        }
        assert_eq!(script.log().runs("error"), 1);
    });
}

#[test]
fn m86_a_call_with_little_time_does_not_cut_the_list_of_all_others() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), ServerOptions::default());
        let first = json!({"resultType": "complete", "nextCursor": "2",
                           "tools": [{"name": "t", "inputSchema": {}}]});
        let second = json!({"resultType": "complete", "tools": [{"name": "u", "inputSchema": {}}]});
        let call = async {
            server.settled(soon()).await;
            server.call(call_t(), CallOptions::default().with_timeout(Duration::from_millis(500))).await
        };
        let serve = async {
            let mut connection = host.accept().await;
            let discovered = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                                    "capabilities": {"tools": {}}});
            for result in [&discovered, &first, &second] {
                let request = connection.request().await;
                answer(&mut connection, &request, result).await;
            }
            connection.request().await;
            let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32020, "message": "header"}});
            connection.json("400 Bad Request", "", &error).await;
            let request = connection.request().await;
            answer(&mut connection, &request, &first).await;
            // The second page does not come in the time of the call.
            assert_eq!(connection.request().await.json()["params"]["cursor"], "2");
            connection.hung_up().await;
        };
        let (called, ()) = tokio::join!(call, serve);
        let tools = server.lists().unwrap().tools.clone();
        assert_eq!((tools.items.len(), tools.truncated), (2, None));
        assert_eq!(called.unwrap_err().outcome(), CallOutcome::Rejected);
        supervisor.shutdown().await;
    });
}

#[test]
fn m86_calls_that_are_refused_together_fetch_the_tools_once() {
    isolated(async |_| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), ServerOptions::default());
        let calls = async {
            server.settled(soon()).await;
            let call = || server.call(call_t(), CallOptions::default());
            tokio::join!(call(), call())
        };
        let mut asked = Vec::new();
        let serve = async {
            let mut first = host.accept().await;
            for result in [
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
                json!({"resultType": "complete", "tools": []}),
            ] {
                let request = first.request().await;
                answer(&mut first, &request, &result).await;
            }
            let ((mut second, _), _) = tokio::join!(host.exchange(), first.request());
            let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32020, "message": "header"}});
            first.json("400 Bad Request", "", &error).await;
            second.json("400 Bad Request", "", &error).await;
            loop {
                let (connection, request) = tokio::select! {
                    request = first.request() => (&mut first, request),
                    request = second.request() => (&mut second, request),
                };
                let method = request.json()["method"].as_str().unwrap().to_owned();
                let result = match method.as_str() {
                    "tools/list" => json!({"resultType": "complete", "tools": []}),
                    _ => json!({"resultType": "complete", "content": []}),
                };
                answer(connection, &request, &result).await;
                asked.push(method);
            }
        };
        let (one, two) = tokio::select! {
            called = calls => called,
            () = serve => unreachable!("it serves for ever"),
        };
        one.unwrap();
        two.unwrap();
        assert_eq!(asked, ["tools/list", "tools/call", "tools/call"]);
        supervisor.shutdown().await;
    });
}

#[test]
fn m84_a_tool_with_an_invalid_annotation_is_not_offered_and_its_reason_is_told() {
    isolated(async |test| {
        let host = NetServer::bind().await;
        let (supervisor, server) = start(&host.url(), ServerOptions::default());
        let settled = async {
            server.settled(soon()).await;
            server.lists().unwrap()
        };
        let serve = serve_a_changing_tool(&host, &["no token"], "", 1);
        let lists = tokio::select! {
            lists = settled => lists,
            served = serve => panic!("no call was made: {served:?}"),
        };
        assert!(lists.tools.items.is_empty());
        assert_eq!(lists.rejected_tools[0].name, "t");
        assert!(lists.rejected_tools[0].why.to_string().contains("no token"));
        test.expect_log(tracing::Level::WARN, "a tool is left out");
        supervisor.shutdown().await;
    });
}
