//! Sessions over HTTP, against a server that is played byte by byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::probe::ProbeFailure;
use mcp_proto::{
    CallTool, Complete, Era, InvalidAnnotation, ListTools, Method, Payload, RawJson, ReadResource, Redactor,
    SubscriptionFilter,
};
use mcp_session::{
    CallError, CallOptions, CallOutcome, EraPolicy, HandshakeError, HeaderFault, ListLimits, ProtocolFault,
    Session, SessionOptions, SubscribeOptions, Subscription, SubscriptionEnd, SubscriptionEvent, open,
};
use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend};
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::{NetConnection, NetRequest, NetServer};
use mcp_transport::{BrokenWhy, CloseReason, Closed, Connector as _, Dispatch, Ending};
use serde_json::{Value, json};
use support::desk::{Desk, accepted, form};
use support::{discover_result, initialize_result, said, soon};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// A session, the task that drives it, and the connection that was used last.
struct Opened<'a> {
    server: &'a NetServer,
    session: Session,
    driver: JoinHandle<Closed>,
    connection: NetConnection,
}

/// The answer to a request, with the type that a modern result has.
fn result(request: &NetRequest, result: &Value) -> Value {
    let request = request.json();
    let mut result = result.clone();
    if request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28" {
        let members = result.as_object_mut().unwrap();
        members.entry("resultType").or_insert("complete".into());
    }
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

fn error(code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}})
}

/// Makes the handshake while `serve` plays the server.
async fn handshake<T>(
    server: &NetServer,
    options: SessionOptions,
    serve: impl AsyncFnOnce(&mut NetConnection) -> T,
) -> (Result<Session, HandshakeError>, JoinHandle<Closed>, NetConnection, T) {
    let endpoint = Endpoint::parse(&server.url()).unwrap();
    let connector = HttpConnector::new(Arc::new(HyperBackend::default()), endpoint, HttpLimits::default());
    let (connected, mut connection) = tokio::join!(connector.connect(soon()), server.accept());
    let (opening, driver) = open(connected.unwrap(), options);
    let driver = tokio::spawn(driver.run());
    let (session, served) = tokio::join!(opening.handshake(soon()), serve(&mut connection));
    (session, driver, connection, served)
}

/// A handshake that fails, and leaves nothing behind.
async fn failure(serve: impl AsyncFnOnce(&mut NetConnection)) -> HandshakeError {
    let server = NetServer::bind().await;
    let (session, driver, ..) = handshake(&server, SessionOptions::default(), serve).await;
    driver.await.unwrap();
    session.unwrap_err()
}

async fn modern(server: &NetServer) -> Opened<'_> {
    modern_with(server, SessionOptions::default()).await
}

async fn modern_with(server: &NetServer, options: SessionOptions) -> Opened<'_> {
    let (session, driver, connection, ()) = handshake(server, options, async |connection| {
        let request = connection.request().await;
        connection.json("200 OK", "", &result(&request, &discover_result())).await;
    })
    .await;
    Opened { server, session: session.unwrap(), driver, connection }
}

/// Answers `initialize` with the session `one`, and takes note of nothing else.
async fn accept_initialize(connection: &mut NetConnection) {
    let request = connection.request().await;
    assert_eq!(request.json()["method"], "initialize");
    assert_eq!(request.header("mcp-protocol-version"), None);
    let answer = result(&request, &initialize_result("2025-11-25"));
    connection.json("200 OK", "Mcp-Session-Id: one\r\n", &answer).await;
    let request = connection.request().await;
    assert_eq!(request.json()["method"], "notifications/initialized");
    assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(request.header("mcp-session-id"), Some("one"));
    connection.empty("202 Accepted").await;
    let request = connection.request().await;
    assert_eq!(request.method, "GET");
    // Whatever follows comes on a connection of its own, whether this answer was read by then or not.
    let head = "HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\n";
    connection.write(format!("{head}content-length: 0\r\n\r\n")).await;
}

async fn legacy(server: &NetServer) -> Opened<'_> {
    legacy_with(server, SessionOptions::default()).await
}

async fn legacy_with(server: &NetServer, options: SessionOptions) -> Opened<'_> {
    let options = options.with_era(EraPolicy::Legacy);
    let (session, driver, connection, ()) = handshake(server, options, accept_initialize).await;
    Opened { server, session: session.unwrap(), driver, connection }
}

impl Opened<'_> {
    /// The next request, on whichever connection it comes.
    async fn request(&mut self) -> NetRequest {
        tokio::select! {
            biased;
            Some(request) = self.connection.next_request() => request,
            (connection, request) = self.server.exchange() => {
                self.connection = connection;
                request
            }
        }
    }

    /// Closes the session; no call may be left.
    async fn close(mut self) {
        let session = self.session.clone();
        assert_eq!(session.in_flight(), 0);
        let serving = async {
            loop {
                assert_eq!(self.request().await.method, "DELETE");
                self.connection.empty("200 OK").await;
            }
        };
        let report = tokio::select! {
            report = session.close(soon()) => report,
            () = serving => unreachable!("it serves for ever"),
        };
        assert_eq!(report.ending, Ending::Clean);
        drop((session, self.session));
        self.driver.await.unwrap();
    }
}

fn call(session: &Session) -> mcp_session::Call<CallTool> {
    session.call(CallTool::new("any"), CallOptions::default())
}

#[test]
fn m79_to_m82_a_modern_session_mirrors_what_it_sends() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (session, driver, connection, request) =
            handshake(&server, SessionOptions::default(), async |connection| {
                let request = connection.request().await;
                let mut discovered = discover_result();
                discovered["capabilities"]["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
                connection.json("200 OK", "", &result(&request, &discovered)).await;
                request
            })
            .await;
        assert_eq!(request.header("mcp-method"), Some("server/discover"));
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-name"), None);
        let mut opened = Opened { server: &server, session: session.unwrap(), driver, connection };
        assert_eq!(opened.session.peer().era, Era::Modern);

        let list = opened.session.call(ListTools::default(), CallOptions::default());
        let (listed, request) = tokio::join!(list, async {
            let request = opened.connection.request().await;
            opened.connection.json("200 OK", "", &result(&request, &json!({"tools": []}))).await;
            request
        });
        listed.unwrap();
        assert_eq!((request.header("mcp-method"), request.header("mcp-name")), (Some("tools/list"), None));

        let raw = opened.session.call_raw(
            mcp_proto::Method::TOOLS_CALL,
            mcp_proto::Payload::encode(&json!({"name": "Grüße"})).unwrap(),
            CallOptions::default(),
        );
        let (called, request) = tokio::join!(raw, async {
            let request = opened.connection.request().await;
            opened.connection.json("200 OK", "", &result(&request, &said("x"))).await;
            request
        });
        called.unwrap();
        assert_eq!(request.header("mcp-method"), Some("tools/call"));
        assert_eq!(request.header("mcp-name"), Some("=?base64?R3LDvMOfZQ==?="));

        let read = opened.session.call(ReadResource::new("file:///a b"), CallOptions::default());
        let (read, request) = tokio::join!(read, async {
            let request = opened.connection.request().await;
            opened.connection.json("200 OK", "", &result(&request, &json!({"contents": []}))).await;
            request
        });
        read.unwrap();
        assert_eq!(request.header("mcp-name"), Some("file:///a b"));

        let asked = opened.session.call_raw(
            mcp_proto::Method::TASKS_CANCEL,
            mcp_proto::Payload::encode(&json!({"taskId": "t 1", "name": "x"})).unwrap(),
            CallOptions::default(),
        );
        let (cancelled, request) = tokio::join!(asked, async {
            let request = opened.connection.request().await;
            opened.connection.json("200 OK", "", &result(&request, &json!({}))).await;
            request
        });
        cancelled.unwrap();
        assert_eq!(request.header("mcp-name"), Some("t 1"));
        let meta = &request.json()["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        opened.close().await;
    });
}

#[test]
fn f059_v33_a_400_that_says_nothing_of_the_modern_era_falls_back_to_initialize_once() {
    isolated(async |_| {
        for body in [
            "",
            "<html>Bad Request</html>",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"?"}}"#,
        ] {
            let server = NetServer::bind().await;
            let (session, driver, connection, ()) =
                handshake(&server, SessionOptions::default(), async |connection| {
                    let request = connection.request().await;
                    assert_eq!(request.json()["method"], "server/discover");
                    let kind = if body.starts_with('{') { "application/json" } else { "text/html" };
                    let head = format!("HTTP/1.1 400 Bad Request\r\ncontent-type: {kind}\r\n");
                    connection.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
                    accept_initialize(connection).await;
                })
                .await;
            let opened = Opened { server: &server, session: session.unwrap(), driver, connection };
            assert_eq!(opened.session.peer().era, Era::Legacy);
            opened.close().await;
        }
    });
}

#[test]
fn f058_v33_a_recognised_modern_error_does_not_fall_back() {
    isolated(async |_| {
        let error = failure(async |connection| {
            connection.request().await;
            connection.json("400 Bad Request", "", &error(-32020, "header mismatch")).await;
            connection.closed().await;
        })
        .await;
        assert!(matches!(&error, HandshakeError::Probe(ProbeFailure::Refused(_))), "{error:?}");
        assert!(error.is_permanent());
    });
}

#[test]
fn statuses_that_say_nothing_about_the_era_end_the_probe() {
    isolated(async |_| {
        for (status, number) in [
            ("401 Unauthorized", 401),
            ("403 Forbidden", 403),
            ("429 Too Many Requests", 429),
            ("503 Service Unavailable", 503),
        ] {
            let error = failure(async |connection| {
                connection.request().await;
                // Not even with an error of the protocol in the body.
                connection.json(status, "retry-after: 7\r\n", &error(-32601, "no such method")).await;
                connection.closed().await;
            })
            .await;
            let HandshakeError::Http(rejection) = error else { panic!("{error:?}") };
            assert_eq!((rejection.status, rejection.retry_after), (number, Some(Duration::from_secs(7))));
        }
    });
}

#[test]
fn row_04_a_success_that_is_no_discovery_leads_to_initialize() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (session, driver, ..) = handshake(&server, SessionOptions::default(), async |connection| {
            let probe = connection.request().await;
            assert_eq!(probe.json()["method"], "server/discover");
            // What a server says that answers every method it does not know like this.
            connection.json("200 OK", "", &result(&probe, &json!({}))).await;
            accept_initialize(connection).await;
        })
        .await;
        assert_eq!(session.unwrap().peer().era, Era::Legacy);
        driver.await.unwrap();
    });
}

#[test]
fn row_04_a_result_of_the_modern_era_that_is_no_discovery_ends_the_probe() {
    isolated(async |_| {
        let error = failure(async |connection| {
            let probe = connection.request().await;
            connection.json("200 OK", "", &result(&probe, &json!({"resultType": "input_required"}))).await;
            connection.closed().await;
        })
        .await;
        assert!(matches!(&error, HandshakeError::Probe(ProbeFailure::Unreadable)), "{error:?}");
    });
}

#[test]
fn f069_a_login_page_ends_the_handshake_for_good() {
    isolated(async |_| {
        let error = failure(async |connection| {
            connection.request().await;
            connection
                .write("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\ncanary")
                .await;
            connection.closed().await;
        })
        .await;
        let text = error.to_string();
        assert!(error.is_permanent() && text.contains("text/html") && !text.contains("canary"), "{text}");
    });
}

#[test]
fn f062_the_call_that_names_the_lost_session_is_refused_and_the_others_may_have_run() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = legacy(&server).await;
        let session = opened.session.clone();
        let first = tokio::spawn(call(&session));
        assert_eq!(opened.request().await.json()["method"], "tools/call");
        let (refused, ()) = tokio::join!(call(&session), async {
            let (mut second, _) = server.exchange().await;
            second.json("404 Not Found", "", &error(-32001, "session not found")).await;
        });
        let refused = refused.unwrap_err();
        let CallError::SessionGone { dispatch: Dispatch::Refused, closed } = &refused else {
            panic!("the server refused it: {refused:?}")
        };
        assert_eq!(*closed.reason(), CloseReason::SessionExpired);
        assert!(refused.outcome() == CallOutcome::Rejected && refused.is_retryable());

        let unknown = first.await.unwrap().unwrap_err();
        assert!(unknown.is_session_gone() && !unknown.is_retryable(), "{unknown:?}");
        assert_eq!(unknown.outcome(), CallOutcome::Unknown);
        assert!(!session.is_open());
        drop(session);
        opened.close().await;
    });
}

#[test]
fn f063_a_404_with_an_error_of_the_protocol_is_that_error() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        let (called, ()) = tokio::join!(call(&opened.session), async {
            opened.connection.request().await;
            opened.connection.json("404 Not Found", "", &error(-32601, "no such method")).await;
        });
        let called = called.unwrap_err();
        assert!(matches!(&called, CallError::Peer(error) if error.code == -32601), "{called:?}");
        assert!(opened.session.is_open());
        opened.close().await;
    });
}

#[test]
fn h58_any_other_status_is_told_and_the_session_stays() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        for (status, outcome) in
            [("410 Gone", CallOutcome::Rejected), ("502 Bad Gateway", CallOutcome::Unknown)]
        {
            let (called, ()) = tokio::join!(call(&opened.session), async {
                opened.connection.request().await;
                opened.connection.empty(status).await;
            });
            let called = called.unwrap_err();
            assert!(matches!(&called, CallError::Http(_)), "{called:?}");
            assert_eq!(called.outcome(), outcome);
            assert!(!called.is_retryable() && opened.session.is_open());
        }
        opened.close().await;
    });
}

#[test]
fn h58_an_error_in_the_body_does_not_hide_that_nothing_can_be_served_now() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        for status in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
            let (called, ()) = tokio::join!(call(&opened.session), async {
                opened.connection.request().await;
                opened.connection.json(status, "retry-after: 7\r\n", &error(-32000, "busy")).await;
            });
            let called = called.unwrap_err();
            assert!(matches!(&called, CallError::Http(_)), "{called:?}");
            assert_eq!(called.retry_after(), Some(Duration::from_secs(7)));
            assert_eq!(called.outcome(), CallOutcome::Unknown);
            assert!(called.to_string().contains("busy"), "{called}");
        }
        let (called, ()) = tokio::join!(call(&opened.session), async {
            opened.connection.request().await;
            opened.connection.json("500 Oops", "", &error(-32603, "this one failed")).await;
        });
        assert!(matches!(called.unwrap_err(), CallError::Peer(error) if error.code == -32603));
        opened.close().await;
    });
}

#[test]
fn f158_a_secret_that_lies_across_the_end_of_what_is_shown_is_taken_out_whole() {
    isolated(async |_| {
        let options = SessionOptions::default().with_redactor(Redactor::new(["hunter2".into()]).into());
        let server = NetServer::bind().await;
        let mut opened = modern_with(&server, options).await;
        for before in 500..=515 {
            let text = format!("{}hunter2 and more", "x".repeat(before));
            let head = "HTTP/1.1 410 Gone\r\ncontent-type: text/plain\r\n";
            let page = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
            let (called, ()) = tokio::join!(call(&opened.session), async {
                opened.connection.request().await;
                opened.connection.write(&page).await;
            });
            let error = called.unwrap_err();
            let CallError::Http(rejection) = &error else { panic!("{error:?}") };
            for shown in [error.to_string(), format!("{error:?}"), rejection.text.clone()] {
                assert!(shown.contains("xxx") && !shown.contains("xh"), "{before}: {shown}");
                assert!(shown.len() < 700, "{shown}");
            }
        }
        opened.close().await;
    });
}

#[test]
fn f158_secrets_are_taken_out_of_errors_that_come_with_a_status_or_without_an_id() {
    #[track_caller]
    fn assert_discreet(error: &(impl std::fmt::Display + std::fmt::Debug)) {
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("[secret]") && !shown.contains("hunter2"), "{shown}");
    }
    isolated(async |_| {
        const TEXT: &str = "no such key: hunter2";
        let page =
            format!("HTTP/1.1 410 Gone\r\ncontent-type: text/plain\r\ncontent-length: 20\r\n\r\n{TEXT}");
        let options = SessionOptions::default().with_redactor(Redactor::new(["hunter2".into()]).into());
        let server = NetServer::bind().await;
        let mut opened = modern_with(&server, options.clone()).await;
        for status in ["200 OK", "400 Bad Request", "429 Too Many Requests"] {
            let (called, ()) = tokio::join!(call(&opened.session), async {
                opened.connection.request().await;
                opened.connection.json(status, "", &error(-32000, TEXT)).await;
            });
            assert_discreet(&called.unwrap_err());
        }
        let (called, ()) = tokio::join!(call(&opened.session), async {
            opened.connection.request().await;
            opened.connection.write(&page).await;
        });
        assert_discreet(&called.unwrap_err());
        opened.close().await;

        let server = NetServer::bind().await;
        let options = options.with_era(EraPolicy::Legacy);
        let (session, driver, ..) = handshake(&server, options, async |connection| {
            let request = connection.request().await;
            let answer = result(&request, &initialize_result("2025-11-25"));
            connection.json("200 OK", "", &answer).await;
            connection.request().await;
            connection.write(&page).await;
        })
        .await;
        assert_discreet(&session.unwrap_err());
        driver.await.unwrap();
    });
}

#[test]
fn f072_and_f073_a_broken_connection_costs_its_call_alone_and_nothing_is_repeated() {
    isolated(async |_| {
        for head in [
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nid: 1\ndata: {\"json",
        ] {
            let server = NetServer::bind().await;
            let Opened { session, driver, mut connection, .. } = modern(&server).await;
            let frames = session.counters().frames;
            let (called, ()) = tokio::join!(call(&session), async {
                connection.request().await;
                connection.write(head).await;
                // The client must have seen the head, or the reset would overtake it.
                tokio::time::sleep(Duration::from_millis(50)).await;
                connection.reset();
            });
            let called = called.unwrap_err();
            assert!(matches!(called, CallError::Lost), "{called:?}");
            assert_eq!(session.counters().frames, frames, "the end of a stream is no sign of life");
            assert_eq!(called.outcome(), CallOutcome::Unknown);
            let (called, connection) = tokio::join!(call(&session), async {
                let (mut connection, request) = server.exchange().await;
                assert_eq!(request.header("last-event-id"), None);
                connection.json("200 OK", "", &result(&request, &said("x"))).await;
                connection
            });
            called.unwrap();
            Opened { server: &server, session, driver, connection }.close().await;
        }
    });
}

#[test]
fn f075_and_f076_an_exchange_without_an_answer_ends_its_call_at_once() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        for answer in [
            "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            let began = Instant::now();
            let (called, ()) = tokio::join!(call(&opened.session), async {
                opened.connection.request().await;
                opened.connection.write(answer).await;
            });
            let called = called.unwrap_err();
            let expected = ProtocolFault::Broken(BrokenWhy::NoReply);
            assert!(
                matches!(&called, CallError::Protocol(fault) if *fault == expected),
                "{answer}: {called:?}"
            );
            assert!(began.elapsed() < Duration::from_secs(1));
        }
        opened.close().await;
    });
}

#[test]
fn f077_an_answer_with_the_id_of_another_call_fails_its_own_call_alone() {
    isolated(async |_| {
        for in_stream in [false, true] {
            let server = NetServer::bind().await;
            let mut opened = modern(&server).await;
            let session = opened.session.clone();
            let first = tokio::spawn(call(&session));
            let asked = opened.connection.request().await;
            let (second, ()) = tokio::join!(call(&session), async {
                let (mut connection, _) = server.exchange().await;
                let foreign = result(&asked, &said("wrong"));
                if in_stream {
                    connection.events("").await;
                    connection.event(&foreign).await;
                    connection.end().await;
                } else {
                    connection.json("200 OK", "", &foreign).await;
                }
            });
            let second = second.unwrap_err();
            assert!(matches!(second, CallError::Protocol(ProtocolFault::IdMismatch)), "{second:?}");
            opened.connection.json("200 OK", "", &result(&asked, &said("right"))).await;
            let first = first.await.unwrap().unwrap();
            assert!(format!("{first:?}").contains("right"), "{first:?}");
            drop(session);
            opened.close().await;
        }
    });
}

#[test]
fn b5_an_error_without_an_id_belongs_to_the_request_that_it_answers() {
    isolated(async |_| {
        for (status, id) in
            [("400 Bad Request", r#""id":null,"#), ("400 Bad Request", ""), ("200 OK", r#""id":null,"#)]
        {
            let server = NetServer::bind().await;
            let mut opened = modern(&server).await;
            let session = opened.session.clone();
            let first = tokio::spawn(call(&session));
            let asked = opened.connection.request().await;
            let (second, ()) = tokio::join!(call(&session), async {
                let (mut connection, _) = server.exchange().await;
                let error: Value = serde_json::from_str(&format!(
                    r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32600,"message":"what?"}}}}"#
                ))
                .unwrap();
                connection.json(status, "", &error).await;
            });
            let second = second.unwrap_err();
            assert!(matches!(&second, CallError::Peer(error) if error.code == -32600), "{second:?}");
            opened.connection.json("200 OK", "", &result(&asked, &said("right"))).await;
            first.await.unwrap().unwrap();
            drop(session);
            opened.close().await;
        }
    });
}

#[test]
fn f078_a_call_on_a_connection_that_falls_silent_ends_with_its_time_and_the_connection_is_not_used_again() {
    isolated(async |_| {
        let heads = [
            "",
            "HTTP/1.1 200 OK\r\ncontent-type: appli",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: still",
        ];
        for era in [Era::Modern, Era::Legacy] {
            for head in heads {
                let server = NetServer::bind().await;
                let mut opened =
                    if era == Era::Modern { modern(&server).await } else { legacy(&server).await };
                let options = CallOptions::default().with_timeout(Duration::from_millis(200));
                let began = Instant::now();
                let silent = opened.session.call(CallTool::new("slow"), options);
                let (called, mut unused) = tokio::join!(async { (silent.await, began.elapsed()) }, async {
                    assert_eq!(opened.request().await.json()["method"], "tools/call");
                    opened.connection.write(head).await;
                    // What comes next, the notice or another call, comes on a connection of its own.
                    let next = async {
                        let (mut next, request) = server.exchange().await;
                        match era {
                            Era::Legacy => next.empty("202 Accepted").await,
                            Era::Modern => next.json("200 OK", "", &result(&request, &said("x"))).await,
                        }
                        next
                    };
                    let next = match era {
                        Era::Legacy => next.await,
                        Era::Modern => {
                            let (called, next) = tokio::join!(call(&opened.session), next);
                            called.unwrap();
                            next
                        }
                    };
                    std::mem::replace(&mut opened.connection, next)
                });
                let (called, elapsed) = called;
                assert!(called.unwrap_err().is_timeout(), "{head}");
                assert!(elapsed < Duration::from_secs(2), "{head}: {elapsed:?}");
                unused.closed().await;
                opened.close().await;
            }
        }
    });
}

#[test]
fn f123_s93_a_modern_time_out_closes_the_stream_and_posts_nothing() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let Opened { session, driver, mut connection, .. } = modern(&server).await;
        let options = CallOptions::default().with_timeout(Duration::from_millis(200));
        let (called, ()) = tokio::join!(session.call(CallTool::new("slow"), options), async {
            connection.request().await;
            connection.events("").await;
            connection.closed().await;
        });
        let called = called.unwrap_err();
        assert!(called.is_timeout() && called.outcome() == CallOutcome::Unknown, "{called:?}");
        let nothing = timeout(Duration::from_millis(200), server.exchange()).await;
        assert!(nothing.is_err(), "nothing is posted: {nothing:?}");
        session.close(soon()).await;
        driver.await.unwrap();
    });
}

#[test]
fn f123_s93_a_legacy_time_out_posts_the_notice_within_50_ms() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = legacy(&server).await;
        let options = CallOptions::default().with_timeout(Duration::from_millis(200));
        let call = opened.session.call(CallTool::new("slow"), options);
        let ((called, ended), (request, notice, told)) =
            tokio::join!(async { (call.await, Instant::now()) }, async {
                let request = opened.request().await;
                opened.connection.events("").await;
                opened.connection.closed().await;
                let notice = opened.request().await;
                let told = Instant::now();
                opened.connection.empty("202 Accepted").await;
                (request, notice, told)
            });
        assert!(called.unwrap_err().is_timeout());
        assert!(told < ended + Duration::from_millis(50));
        let notice = notice.json();
        assert_eq!(notice["method"], "notifications/cancelled");
        assert_eq!(notice["params"]["requestId"], request.json()["id"]);
        opened.close().await;
    });
}

#[test]
fn f123_s94_the_handshake_is_never_cancelled() {
    isolated(async |_| {
        for era in [EraPolicy::Legacy, EraPolicy::Modern] {
            let server = NetServer::bind().await;
            let endpoint = Endpoint::parse(&server.url()).unwrap();
            let connector =
                HttpConnector::new(Arc::new(HyperBackend::default()), endpoint, HttpLimits::default());
            let (connected, mut connection) = tokio::join!(connector.connect(soon()), server.accept());
            let (opening, driver) = open(connected.unwrap(), SessionOptions::default().with_era(era));
            let driver = tokio::spawn(driver.run());
            let by = Instant::now() + Duration::from_millis(200);
            let (session, ()) = tokio::join!(opening.handshake(by), async {
                connection.request().await;
                connection.closed().await;
            });
            assert!(matches!(session, Err(HandshakeError::Timeout)), "{session:?}");
            let nothing = timeout(Duration::from_millis(200), server.exchange()).await;
            assert!(nothing.is_err(), "nothing is posted: {nothing:?}");
            driver.await.unwrap();
        }
    });
}

#[test]
fn f122_a_ping_on_the_stream_of_a_call_is_answered_by_a_post() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = legacy(&server).await;
        let (called, ()) = tokio::join!(call(&opened.session), async {
            let request = opened.request().await;
            opened.connection.events("").await;
            opened.connection.event(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
            let (mut second, pong) = server.exchange().await;
            assert_eq!(pong.json(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
            assert_eq!(pong.header("mcp-session-id"), Some("one"));
            second.empty("202 Accepted").await;
            opened.connection.event(&result(&request, &said("x"))).await;
            opened.connection.end().await;
        });
        called.unwrap();
        opened.close().await;
    });
}

/// A tool with one parameter `p`, whose header is `name`.
fn tool(tool: &str, kind: &str, name: &str) -> Value {
    json!({"name": tool, "inputSchema": {"type": "object", "properties": {
        "p": {"type": kind, "x-mcp-header": name},
    }}})
}

/// Answers the next request, which must be for `tools/list`.
async fn serve_tools(connection: &mut NetConnection, tools: &[Value]) {
    let request = connection.request().await;
    assert_eq!(request.json()["method"], "tools/list");
    let page = json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    connection.json("200 OK", "", &result(&request, &page)).await;
}

fn with_p(tool: &str, p: &str) -> CallTool {
    CallTool::new(tool).with_arguments(RawJson::from_text(format!(r#"{{"p":{p}}}"#)).unwrap())
}

/// Answers a legacy handshake; returns the server's own stream.
async fn accept_with_own_stream(mut connection: NetConnection) -> NetConnection {
    let request = connection.request().await;
    connection.json("200 OK", "", &result(&request, &initialize_result("2025-11-25"))).await;
    connection.request().await;
    connection.empty("202 Accepted").await;
    assert_eq!(connection.request().await.method, "GET");
    connection.events("").await;
    connection
}

#[test]
fn a_call_that_is_answered_on_another_stream_leaves_none_of_its_own() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let endpoint = Endpoint::parse(&server.url()).unwrap();
        let connector =
            HttpConnector::new(Arc::new(HyperBackend::default()), endpoint, HttpLimits::default());
        let (connected, connection) = tokio::join!(connector.connect(soon()), server.accept());
        let connected = connected.unwrap();
        let transport = Arc::clone(&connected.transport);
        let (opening, driver) = open(connected, SessionOptions::default().with_era(EraPolicy::Legacy));
        let driver = tokio::spawn(driver.run());
        let (session, mut own) = tokio::join!(opening.handshake(soon()), accept_with_own_stream(connection));
        let session = session.unwrap();
        for has_stream in [false, true] {
            let serve = async {
                let (mut connection, request) = server.exchange().await;
                if has_stream {
                    let line = json!({"level": "info", "data": "x"});
                    let line = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": line});
                    connection.events("").await;
                    connection.event(&line).await;
                    // Whoever sees it reads this stream.
                    session.next_event().await.unwrap();
                }
                own.event(&result(&request, &said("x"))).await;
                connection.hung_up().await;
            };
            let (called, ()) = tokio::join!(call(&session), serve);
            called.unwrap();
            assert!(format!("{transport:?}").contains("lanes: 0"), "{transport:?}");
        }
        session.close(soon()).await;
        drop((session, transport));
        driver.await.unwrap();
    });
}

#[test]
fn m83_arguments_are_mirrored_as_the_newest_list_asks_for() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        let lists = [
            (Vec::new(), None),
            (vec![tool("t", "string", "One")], Some("mcp-param-one")),
            (vec![tool("t", "integer", "Two")], Some("mcp-param-two")),
            (vec![json!({"name": "t", "inputSchema": {}})], None),
        ];
        for (tools, header) in lists {
            let list = opened.session.list::<ListTools>(CallOptions::default(), ListLimits::default());
            let (listed, ()) = tokio::join!(list, serve_tools(&mut opened.connection, &tools));
            assert_eq!(listed.unwrap().items.len(), tools.len());
            let raw = Payload::encode(&json!({"name": "t", "arguments": {"p": " 世"}})).unwrap();
            let raw = opened.session.call_raw(Method::TOOLS_CALL, raw, CallOptions::default());
            let serve = async |connection: &mut NetConnection, expected: &str| {
                let request = connection.request().await;
                let of_tool = |(name, value): &(String, String)| {
                    name.starts_with("mcp-param-").then(|| (name.clone(), value.clone()))
                };
                let sent: Vec<_> = request.headers.iter().filter_map(of_tool).collect();
                let expected = header.map(|name| (name.to_owned(), expected.to_owned()));
                assert_eq!(sent, Vec::from_iter(expected));
                connection.json("200 OK", "", &result(&request, &said("x"))).await;
            };
            let typed = opened.session.call(with_p("t", "-42"), CallOptions::default());
            let (called, ()) = tokio::join!(typed, serve(&mut opened.connection, "-42"));
            called.unwrap();
            let (called, ()) = tokio::join!(raw, serve(&mut opened.connection, "=?base64?IOS4lg==?="));
            called.unwrap();
        }
        opened.close().await;
    });
}

#[test]
fn m84_tools_with_invalid_annotations_are_left_out_and_never_called() {
    isolated(async |test| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        let tools = [tool("valid", "string", "P"), tool("broken", "string", "a b"), json!({"name": "plain"})];
        let list = opened.session.call(ListTools::new(), CallOptions::default());
        let (listed, ()) = tokio::join!(list, serve_tools(&mut opened.connection, &tools));
        let names: Vec<String> = listed.unwrap().tools.into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["valid", "plain"]);
        let rejected = opened.session.rejected_tools();
        assert_eq!(rejected.len(), 1);
        assert_eq!(
            (rejected[0].name.as_str(), &rejected[0].why),
            ("broken", &InvalidAnnotation::Token("a b".into()))
        );

        let refused = opened.session.call(with_p("broken", "1"), CallOptions::default()).await.unwrap_err();
        assert!(matches!(refused, CallError::Header(HeaderFault::Tool(_))), "{refused:?}");
        assert_eq!((refused.outcome(), refused.is_retryable()), (CallOutcome::NotSent, false));
        test.expect_log(tracing::Level::WARN, "a tool is left out");
        opened.close().await;
    });
}

#[test]
fn m85_an_argument_that_no_header_can_carry_is_refused_before_it_is_sent() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        let list = opened.session.call(ListTools::new(), CallOptions::default());
        let tools = [tool("t", "integer", "N")];
        let (listed, ()) = tokio::join!(list, serve_tools(&mut opened.connection, &tools));
        listed.unwrap();
        let refused = opened.session.call(with_p("t", "9007199254740992"), CallOptions::default());
        let refused = refused.await.unwrap_err();
        assert!(matches!(refused, CallError::Header(HeaderFault::Arguments(_))), "{refused:?}");
        assert_eq!(refused.outcome(), CallOutcome::NotSent);
        opened.close().await;
    });
}

#[test]
fn m84_legacy_servers_keep_all_their_tools_and_get_no_headers() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = legacy(&server).await;
        let tools = [tool("valid", "string", "P"), tool("broken", "string", "a b")];
        let list = opened.session.call(ListTools::new(), CallOptions::default());
        let (listed, ()) = tokio::join!(list, async {
            let request = opened.request().await;
            opened.connection.json("200 OK", "", &result(&request, &json!({"tools": tools}))).await;
        });
        assert_eq!(listed.unwrap().tools.len(), 2);
        for name in ["valid", "broken"] {
            let (called, ()) =
                tokio::join!(opened.session.call(with_p(name, "\"v\""), CallOptions::default()), async {
                    let request = opened.connection.request().await;
                    assert!(!request.headers.iter().any(|(name, _)| name.starts_with("mcp-param")));
                    opened.connection.json("200 OK", "", &result(&request, &said("x"))).await;
                });
            called.unwrap();
        }
        assert!(opened.session.rejected_tools().is_empty());
        opened.close().await;
    });
}

#[test]
fn f122_what_a_legacy_server_asks_on_the_stream_of_a_call_is_answered_by_a_post() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let desk = Desk::new();
        let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _);
        let mut opened = legacy_with(&server, options).await;
        let (called, ()) = tokio::join!(call(&opened.session), async {
            let request = opened.request().await;
            opened.connection.events("").await;
            let ask = |id, message| json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form(message)});
            opened.connection.event(&ask("slow", "wait")).await;
            opened.connection.event(&ask("quick", "now")).await;
            let (mut second, answer) = server.exchange().await;
            let expected = json!({"jsonrpc": "2.0", "id": "quick", "result": accepted("now")});
            assert_eq!(answer.json(), expected);
            assert_eq!(answer.header("mcp-session-id"), Some("one"));
            second.empty("202 Accepted").await;
            desk.let_go(1);
            // On whichever connection is free.
            let (mut second, answer) = tokio::select! {
                answer = second.request() => (second, answer),
                exchanged = server.exchange() => exchanged,
            };
            assert_eq!(answer.json()["id"], "slow");
            second.empty("202 Accepted").await;
            opened.connection.event(&result(&request, &said("x"))).await;
            opened.connection.end().await;
        });
        called.unwrap();
        opened.close().await;
    });
}

#[test]
fn g144_a_completion_over_http_mirrors_its_method_and_names_nothing() {
    isolated(async |_| {
        for is_modern in [true, false] {
            let server = NetServer::bind().await;
            let mut opened = if is_modern { modern(&server).await } else { legacy(&server).await };
            let known = BTreeMap::from([("owner".to_owned(), "a".to_owned())]);
            let asked = Complete::of_template("repo://{owner}/{name}", "name", "r").with_known(known);
            let session = opened.session.clone();
            let completing = session.call(asked, CallOptions::default());
            let (completed, request) = tokio::join!(completing, async {
                let request = opened.request().await;
                let values = json!({"completion": {"values": ["rust"], "total": 1}});
                opened.connection.json("200 OK", "", &result(&request, &values)).await;
                request
            });
            assert_eq!(completed.unwrap().completion.values, ["rust"]);
            let mirrored = is_modern.then_some("completion/complete");
            assert_eq!((request.header("mcp-method"), request.header("mcp-name")), (mirrored, None));
            assert_eq!(request.json()["params"]["context"], json!({"arguments": {"owner": "a"}}));
            drop(session);
            opened.close().await;
        }
    });
}

/// Opens a subscription to changes of the tools; its stream is the connection used last.
async fn subscribe(opened: &mut Opened<'_>) -> (Subscription, NetRequest) {
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    let session = opened.session.clone();
    let (subscription, listen) =
        tokio::join!(session.subscribe(wanted, SubscribeOptions::default()), async {
            let listen = opened.request().await;
            opened.connection.events("").await;
            opened.connection.event(&notice(&listen, "subscriptions/acknowledged")).await;
            listen
        });
    (subscription.unwrap(), listen)
}

fn notice(listen: &NetRequest, name: &str) -> Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.json()["id"]});
    let params = json!({"notifications": listen.json()["params"]["notifications"], "_meta": meta});
    json!({"jsonrpc": "2.0", "method": format!("notifications/{name}"), "params": params})
}

#[test]
fn f125_u124_a_subscription_over_http_ends_with_its_stream_and_the_session_stays() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        for how in ["result", "end", "break"] {
            let (mut subscription, listen) = subscribe(&mut opened).await;
            assert_eq!(listen.header("mcp-method"), Some("subscriptions/listen"));
            assert_eq!(listen.header("mcp-name"), None);
            // A notice that names another subscription is none of this stream.
            let mut foreign = notice(&listen, "tools/list_changed");
            foreign["params"]["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": 0});
            opened.connection.event(&foreign).await;
            opened.connection.event(&notice(&listen, "tools/list_changed")).await;
            assert!(matches!(subscription.next().await, Some(SubscriptionEvent::ListChanged(_))));
            if how == "result" {
                let complete = json!({"resultType": "complete"});
                opened.connection.event(&result(&listen, &complete)).await;
            }
            if how == "break" {
                opened.connection.write("what?\r\n").await;
            } else {
                opened.connection.end().await;
            }
            let Some(SubscriptionEvent::Ended(end)) = subscription.next().await else { panic!("no end") };
            match end {
                SubscriptionEnd::Completed => assert_eq!(how, "result"),
                SubscriptionEnd::Lost => assert_ne!(how, "result"),
                other => panic!("{other:?}"),
            }
            assert!(subscription.next().await.is_none());
        }
        assert_eq!(opened.session.counters().stray_notices, 3);
        assert!(opened.session.is_open());
        opened.close().await;
    });
}

#[test]
fn f123_a_subscription_over_http_is_cancelled_by_its_stream_alone() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let mut opened = modern(&server).await;
        for is_ours in [true, false] {
            let (mut subscription, listen) = subscribe(&mut opened).await;
            if !is_ours {
                let params = json!({"requestId": listen.json()["id"]});
                let cancelled =
                    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                opened.connection.event(&cancelled).await;
                let Some(SubscriptionEvent::Ended(end)) = subscription.next().await else { panic!("no end") };
                assert!(matches!(end, SubscriptionEnd::Cancelled), "{end:?}");
            }
            drop(subscription);
            opened.connection.hung_up().await;
            let nothing = timeout(Duration::from_millis(200), opened.server.exchange()).await;
            assert!(nothing.is_err(), "nothing is posted: {nothing:?}");
        }
        opened.close().await;
    });
}

#[test]
fn r111_a_modern_call_over_http_goes_through_its_rounds_with_mirrored_headers() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let options = SessionOptions::default().with_handler(Desk::new() as _);
        let mut opened = modern_with(&server, options).await;
        let asked = json!({"q": {"method": "elicitation/create", "params": form("who?")}});
        let asked = json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"});
        let list = opened.session.list::<ListTools>(CallOptions::default(), ListLimits::default());
        let tools = [tool("Grüße", "string", "One")];
        let (listed, ()) = tokio::join!(list, serve_tools(&mut opened.connection, &tools));
        listed.unwrap();
        let calling = opened.session.call(with_p("Grüße", "\"v\""), CallOptions::default());
        let (called, ()) = tokio::join!(calling, async {
            let first = opened.request().await;
            opened.connection.json("200 OK", "", &result(&first, &asked)).await;
            let second = opened.request().await;
            for name in ["mcp-method", "mcp-name", "mcp-protocol-version", "mcp-param-one"] {
                assert!(first.header(name).is_some(), "{name}");
                assert_eq!(first.header(name), second.header(name));
            }
            assert_ne!(first.json()["id"], second.json()["id"]);
            assert_eq!(second.json()["params"]["inputResponses"], json!({"q": accepted("who?")}));
            assert_eq!(second.json()["params"]["requestState"], "s");
            // Once more, on a stream.
            opened.connection.events("").await;
            opened.connection.event(&result(&second, &asked)).await;
            opened.connection.end().await;
            let third = opened.request().await;
            opened.connection.json("200 OK", "", &result(&third, &said("done"))).await;
        });
        assert!(format!("{:?}", called.unwrap()).contains("done"));
        opened.close().await;
    });
}

#[test]
fn p2_a_status_that_refuses_a_later_round_does_not_say_that_the_call_did_not_begin() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let options = SessionOptions::default().with_handler(Desk::new() as _);
        let mut opened = modern_with(&server, options).await;
        let asked = json!({"q": {"method": "elicitation/create", "params": form("who?")}});
        let asked = json!({"resultType": "input_required", "inputRequests": asked});
        for status in ["400 Bad Request", "403 Forbidden", "429 Too Many Requests", "503 Service Unavailable"]
        {
            let (called, ()) = tokio::join!(call(&opened.session), async {
                let first = opened.connection.request().await;
                opened.connection.json("200 OK", "", &result(&first, &asked)).await;
                opened.connection.request().await;
                let head = format!("HTTP/1.1 {status}\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n");
                opened.connection.write(&head).await;
            });
            let called = called.unwrap_err();
            assert_eq!(called.outcome(), CallOutcome::Unknown, "{status}: {called:?}");
            assert!(!called.is_retryable() && !called.is_rate_limited(), "{status}: {called:?}");
        }
        opened.close().await;
    });
}

#[test]
fn f123_a_modern_call_that_is_dropped_between_two_rounds_posts_nothing() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let desk = Desk::new();
        let options = SessionOptions::default().with_handler(Arc::clone(&desk) as _);
        let mut opened = modern_with(&server, options).await;
        let asked = json!({"q": {"method": "elicitation/create", "params": form("hang")}});
        let asked = json!({"resultType": "input_required", "inputRequests": asked});
        let options = CallOptions::default().with_deadline(Instant::now() + Duration::from_millis(300));
        let (called, ()) = tokio::join!(opened.session.call(CallTool::new("t"), options), async {
            let first = opened.request().await;
            opened.connection.json("200 OK", "", &result(&first, &asked)).await;
        });
        let called = called.unwrap_err();
        assert!(called.is_timeout() && called.outcome() == CallOutcome::Unknown, "{called:?}");
        assert_eq!((desk.asked().len(), desk.running()), (1, 0));
        let nothing = timeout(Duration::from_millis(200), opened.request()).await;
        assert!(nothing.is_err(), "nothing is posted: {nothing:?}");
        opened.close().await;
    });
}

#[test]
fn s100_a_call_over_http_that_is_dropped_cancels_its_task_with_a_post_and_asks_again_after_a_lost_answer() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let options = SessionOptions::default().with_tasks();
        let mut discovered = discover_result();
        discovered["capabilities"]["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        let (session, driver, connection, ()) = handshake(&server, options, async |connection| {
            let request = connection.request().await;
            connection.json("200 OK", "", &result(&request, &discovered)).await;
        })
        .await;
        let mut opened = Opened { server: &server, session: session.unwrap(), driver, connection };
        let working =
            json!({"resultType": "task", "taskId": "Tür", "status": "working", "pollIntervalMs": 100});
        let calling = tokio::spawn(call(&opened.session));
        let request = opened.request().await;
        opened.connection.json("200 OK", "", &result(&request, &working)).await;
        let named = |request: &NetRequest, method: &str| {
            assert_eq!(request.header("mcp-method"), Some(method));
            assert_eq!(request.header("mcp-name"), Some("=?base64?VMO8cg==?="));
        };
        for head in ["429 Too Many Requests", "503 Service Unavailable"] {
            let poll = opened.request().await;
            named(&poll, "tasks/get");
            opened.connection.write(&format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n")).await;
        }
        let poll = opened.request().await;
        named(&poll, "tasks/get");
        opened.connection.json("200 OK", "", &result(&poll, &working)).await;
        calling.abort();
        assert!(calling.await.unwrap_err().is_cancelled());
        assert_eq!(opened.session.in_flight(), 0);
        let mut cancels = 0;
        // A question may have been on its way.
        while let Ok(request) = timeout(Duration::from_millis(500), opened.request()).await {
            if request.header("mcp-method") == Some("tasks/cancel") {
                named(&request, "tasks/cancel");
                cancels += 1;
            }
            opened.connection.json("200 OK", "", &result(&request, &json!({"resultType": "complete"}))).await;
        }
        assert_eq!(cancels, 1);
        opened.close().await;
    });
}
