//! Requests over HTTP and what comes of them, byte by byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "http")]

mod net;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_proto::{ProtocolVersion, code};
use mcp_transport::http::{Endpoint, HttpConnectError, HttpConnector, HyperBackend, Resolve};
use mcp_transport::testing::NetServer;
use mcp_transport::testing::checks::isolated;
use mcp_transport::{
    BrokenWhy, CloseReason, ConnectError, Connection, Connector as _, Dispatch, HttpProfile, MirroredHeader,
    SendError, Sent,
};
use net::*;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;
const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

#[test]
fn a_json_answer_comes_inline_and_its_connection_is_kept() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        for id in 1..4 {
            let (sent, request) = tokio::join!(client.send(id, "tools/list"), async {
                let request = connection.request().await;
                connection.json("200 OK", "", &answer(id, "x")).await;
                request
            });
            assert_eq!(answered(sent), answer(id, "x"));
            assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/mcp"));
            assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
            assert_eq!(request.header("content-type"), Some("application/json"));
            assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
            assert_eq!(request.header("mcp-session-id"), None);
            assert_eq!(request.header("accept-encoding"), None);
            assert_eq!(request.json()["id"], json!(id));
        }
        tokio::join!(client.close(), connection.closed());
    });
}

#[test]
fn mirrored_headers_are_sent_and_replace_the_agreed_version() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::connect(&server).await;
        let mut message = request(1, "server/discover");
        for (name, value) in [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")] {
            message.mirrored.push(MirroredHeader { name: name.into(), value: value.into() });
        }
        let (sent, request) = tokio::join!(client.transport.send(message), async {
            let request = connection.request().await;
            connection.json("200 OK", "", &answer(1, "x")).await;
            request
        });
        answered(sent);
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-method"), Some("server/discover"));
        client.close().await;
    });
}

#[test]
fn f090_h64_a_session_id_comes_from_initialize_alone_and_goes_with_every_later_request() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::in_session(&server).await;
        assert!(!format!("{:?}{:?}", client.transport, client.half).contains("canary"), "the id is a secret");
        for id in 1..3 {
            let (sent, request) = tokio::join!(client.send(id, "tools/list"), async {
                let request = connection.request().await;
                connection.json("200 OK", "mcp-session-id: other\r\n", &answer(id, "x")).await;
                request
            });
            answered(sent);
            assert_eq!(request.header("mcp-session-id"), Some("canary"));
            assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
        }
        let (request, ()) = tokio::join!(
            async {
                let request = connection.request().await;
                connection.empty("405 Method Not Allowed").await;
                request
            },
            client.close()
        );
        assert_eq!((request.method.as_str(), request.header("mcp-session-id")), ("DELETE", Some("canary")));
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
    });
}

#[test]
fn f090_h64_a_session_id_that_may_not_be_sent_back_fails_the_handshake() {
    isolated(async |_| {
        for id in ["with space", "caf\u{e9}", &"x".repeat(1025)] {
            let server = NetServer::bind().await;
            let (client, mut connection) = Client::connect(&server).await;
            let (sent, ()) = tokio::join!(client.send(0, "initialize"), async {
                connection.request().await;
                connection.json("200 OK", &format!("mcp-session-id: {id}\r\n"), &answer(0, "x")).await;
            });
            assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::SessionId))), "{sent:?}");
            client.close().await;
        }
    });
}

#[test]
fn m87_a_modern_server_gets_no_session() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let serving = async {
            for _ in 0..2 {
                let request = connection.request().await;
                assert_eq!(request.header("mcp-session-id"), None);
                connection.json("200 OK", "mcp-session-id: canary\r\n", &answer(1, "x")).await;
            }
            // Neither a GET nor a DELETE follows.
            connection.closed().await;
        };
        let calling = async {
            answered(client.send(1, "tools/list").await);
            answered(client.send(1, "tools/list").await);
            client.close().await;
        };
        tokio::join!(serving, calling);
    });
}

#[test]
fn f052_a_closed_port_is_refused_at_once_and_may_open_again() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let url = server.url();
        drop(server);
        let began = Instant::now();
        let error = connector(&url, limits()).connect(soon()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Http(HttpConnectError::Refused { .. })), "{error:?}");
        assert!(!error.is_permanent());
        assert!(began.elapsed() < Duration::from_secs(1));
    });
}

/// A listener that answers no further connection, and those that fill its queue.
async fn black_hole(address: &str) -> std::io::Result<(TcpListener, Vec<TcpStream>)> {
    let address: SocketAddr = address.parse().unwrap();
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(address)?;
    // The queue of a listener that nobody serves takes a few connections; further ones get no answer.
    let listener = socket.listen(1)?;
    let mut filling = Vec::new();
    let short = Duration::from_millis(300);
    while let Ok(Ok(stream)) = timeout(short, TcpStream::connect(listener.local_addr()?)).await {
        filling.push(stream);
    }
    Ok((listener, filling))
}

#[test]
fn f052_a_connection_that_is_never_accepted_ends_at_its_limit() {
    isolated(async |_| {
        let (listener, _filling) = black_hole("127.0.0.1:0").await.unwrap();
        let connector = connector(&format!("http://{}/mcp", listener.local_addr().unwrap()), limits());
        let began = Instant::now();
        let by = began + Duration::from_secs(1);
        let error = connector.connect(by).await.unwrap_err();
        assert!(matches!(error, ConnectError::Timeout), "{error:?}");
        assert!(!error.is_permanent());
        assert!(began.elapsed() < Duration::from_millis(1050), "{:?}", began.elapsed());
    });
}

/// Knows the addresses of every name.
#[derive(Debug)]
struct Addresses(Vec<SocketAddr>);

#[async_trait]
impl Resolve for Addresses {
    async fn resolve(&self, _: &str, _: u16) -> std::io::Result<Vec<SocketAddr>> {
        Ok(self.0.clone())
    }
}

#[test]
fn f053_the_second_address_is_tried_when_the_first_leads_into_a_black_hole() {
    isolated(async |_| {
        // A machine without IPv6 has two addresses of one family.
        let (hole, _filling) = match black_hole("[::1]:0").await {
            Ok(hole) => hole,
            Err(_) => black_hole("127.0.0.1:0").await.unwrap(),
        };
        let server = NetServer::bind().await;
        let second = server.url().trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap();
        let addresses = Addresses(vec![hole.local_addr().unwrap(), second]);
        let backend = HyperBackend::default().with_resolver(Arc::new(addresses));
        let endpoint = Endpoint::parse("http://two.example/mcp").unwrap();
        let connector = HttpConnector::new(Arc::new(backend), endpoint, limits());
        let began = Instant::now();
        let (connected, connection) = tokio::join!(connector.connect(soon()), server.accept());
        let elapsed = began.elapsed();
        assert!(elapsed >= Duration::from_millis(250) && elapsed < Duration::from_secs(1), "{elapsed:?}");
        let Connection { transport, receive: half, .. } = connected.unwrap();
        drop(connection);
        Client { transport, half }.close().await;
    });
}

#[test]
fn f052_a_server_that_goes_away_ends_the_connection_with_nothing_sent() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, connection) = Client::agreed(&server, MODERN).await;
        drop((server, connection));
        let sent = client.send(1, "tools/call").await;
        let Err(SendError::Closed(closed)) = sent else { panic!("nobody is there: {sent:?}") };
        assert!(matches!(closed.reason(), CloseReason::Broken(text) if text.contains("refuses connections")));
        assert_eq!(client.transport.abandon(&1.into(), None).dispatch, Dispatch::NotSent);
        assert!(client.receive().await.is_err());
        client.close().await;
    });
}

#[test]
fn f056_endless_headers_and_too_many_headers_are_cut_off() {
    isolated(async |_| {
        let many: String = (0..101).map(|number| format!("x-{number}: y\r\n")).collect();
        let large = format!("x: {}\r\n", "y".repeat(70 * 1024));
        for headers in [many, large] {
            let server = NetServer::bind().await;
            let (client, mut connection) = Client::agreed(&server, MODERN).await;
            let began = Instant::now();
            let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
                connection.request().await;
                connection.write(format!("HTTP/1.1 200 OK\r\n{headers}")).await;
                if headers.len() < 70_000 {
                    connection.write("content-length: 2\r\n\r\n{}").await;
                }
                connection.closed().await;
            });
            assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::Headers(_)))), "{sent:?}");
            assert!(began.elapsed() < Duration::from_secs(5));
            client.close().await;
        }
    });
}

#[test]
fn f056_a_head_that_comes_too_slowly_is_cut_off_but_slow_work_is_not() {
    isolated(async |_| {
        let limit = Duration::from_millis(500);
        let server = NetServer::bind().await;
        let backend = HyperBackend::default().with_head_limit(limit);
        let (client, mut connection) = Client::agreed_over(backend, &server, MODERN).await;
        let (worked, ()) = tokio::join!(client.send(1, "tools/list"), async {
            connection.request().await;
            // The server works for longer than a head may take.
            assert!(timeout(2 * limit, connection.closed()).await.is_err());
            connection.json("200 OK", "", &json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await;
        });
        assert!(matches!(worked, Ok(Sent::Answered(_))), "{worked:?}");

        let began = Instant::now();
        let (sent, ()) = tokio::join!(client.send(2, "tools/list"), async {
            connection.request().await;
            // A byte now and then, until the client has had enough.
            for byte in b"HTTP/1.1 200 OK\r\nx-slow: ".iter().chain(&[b'y'; 100]) {
                connection.write([*byte]).await;
                if timeout(limit / 10, connection.closed()).await.is_ok() {
                    return;
                }
            }
            panic!("the client waits for ever");
        });
        let Ok(Sent::Failed(BrokenWhy::Headers(_))) = sent else { panic!("too slow: {sent:?}") };
        let waited = began.elapsed();
        assert!((limit..4 * limit).contains(&waited), "{waited:?}");
        client.close().await;
    });
}

#[test]
fn f063_an_error_of_the_protocol_in_a_404_is_delivered_and_the_connection_stays() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        for (status, id, code) in [
            ("404 Not Found", json!(1), code::METHOD_NOT_FOUND),
            ("400 Bad Request", json!(null), code::INVALID_PARAMS),
            ("500 Internal Server Error", json!(99), code::INTERNAL_ERROR),
        ] {
            let (sent, ()) = tokio::join!(client.send(1, "x/y"), async {
                connection.request().await;
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}});
                connection.json(status, "", &error).await;
            });
            let Ok(Sent::Rejected(rejection)) = sent else { panic!("refused: {sent:?}") };
            assert_eq!(Some(rejection.status), status[..3].parse().ok());
            assert_eq!(rejection.error.map(|error| error.code), Some(code));
        }
        client.close().await;
    });
}

#[test]
fn h58_any_other_error_is_told_with_its_status_and_a_harmless_preview() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let page = format!("<h1>\u{1b}[2Jdown{}</h1>", "x".repeat(100_000));
        let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
            connection.request().await;
            let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/html\r\nretry-after: 7\r\n";
            connection.write(format!("{head}content-length: {}\r\n\r\n{page}", page.len())).await;
        });
        let Ok(Sent::Rejected(rejection)) = sent else { panic!("refused: {sent:?}") };
        assert_eq!((rejection.status, rejection.retry_after), (503, Some(Duration::from_secs(7))));
        for shown in [rejection.shown().into_owned(), rejection.to_string(), format!("{rejection:?}")] {
            assert!(shown.contains(r"<h1>\u{1b}[2Jdownxx") && shown.len() < 700, "{shown}");
        }
        assert_eq!(rejection.text.len(), 64 * 1024, "whoever knows the secrets in it gets it whole");
        client.close().await;
    });
}

#[test]
fn f062_the_request_that_names_a_lost_session_is_refused_and_ends_the_connection() {
    isolated(async |_| {
        let not_found = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "?"}});
        let invalid = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID"}});
        for (status, body) in [("404 Not Found", &not_found), ("400 Bad Request", &invalid)] {
            let server = NetServer::bind().await;
            let (mut client, mut connection) = Client::in_session(&server).await;
            let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
                connection.request().await;
                connection.json(status, "", body).await;
            });
            let Err(SendError::Refused(closed)) = sent else { panic!("the session is gone: {sent:?}") };
            assert_eq!(*closed.reason(), CloseReason::SessionExpired);
            assert_eq!(client.transport.abandon(&1.into(), None).dispatch, Dispatch::Refused);
            let ended = client.receive().await.unwrap_err();
            assert_eq!(*ended.reason(), CloseReason::SessionExpired);
            assert!(matches!(client.send(2, "tools/call").await, Err(SendError::Closed(_))));
            // No DELETE for a session that the server does not know.
            tokio::join!(client.close(), connection.closed());
        }
    });
}

#[test]
fn f062_a_404_without_a_session_is_no_lost_session() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, LEGACY).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
            connection.request().await;
            connection.empty("404 Not Found").await;
        });
        assert!(matches!(sent, Ok(Sent::Rejected(rejection)) if rejection.status == 404));
        client.close().await;
    });
}

#[test]
fn f069_a_page_instead_of_an_answer_is_told_by_its_kind_and_not_read() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let began = Instant::now();
        let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
            connection.request().await;
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\ncontent-length: 100000\r\n";
            connection.write(format!("{head}\r\n<html>canary")).await;
            connection.closed().await;
        });
        let Ok(Sent::Failed(why)) = sent else { panic!("no answer: {sent:?}") };
        assert_eq!(why, BrokenWhy::NotMcp { content_type: "Text/HTML".into() });
        assert!(!why.to_string().contains("canary") && began.elapsed() < Duration::from_secs(5));
        client.close().await;
    });
}

#[test]
fn f070_without_a_content_type_the_first_byte_decides() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
            connection.request().await;
            let body = answer(1, "x").to_string();
            connection
                .write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
                .await;
        });
        assert_eq!(answered(sent), answer(1, "x"));
        let (sent, ()) = tokio::join!(client.send(2, "tools/list"), async {
            connection.request().await;
            connection.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhiya").await;
        });
        assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::NotMcp { .. }))), "{sent:?}");
        client.close().await;
    });
}

#[test]
fn f072_a_body_that_is_cut_fails_its_request_alone() {
    isolated(async |_| {
        for is_reset in [false, true] {
            let server = NetServer::bind().await;
            let (client, mut connection) = Client::agreed(&server, MODERN).await;
            let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
                connection.request().await;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
                connection.write(format!("{head}{{\"jsonrpc\":")).await;
                if is_reset {
                    connection.reset();
                } else {
                    drop(connection);
                }
            });
            assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::Cut))), "{sent:?}");
            // The connection as such stays; the request is not made again.
            let (sent, ()) = tokio::join!(client.send(2, "tools/list"), async {
                let (mut connection, request) = server.exchange().await;
                assert_eq!(request.json()["id"], json!(2));
                connection.json("200 OK", "", &answer(2, "x")).await;
            });
            assert_eq!(answered(sent), answer(2, "x"));
            client.close().await;
        }
    });
}

#[test]
fn f076_an_answer_without_a_body_is_no_reply_at_once() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        for head in [
            "202 Accepted\r\ncontent-length: 0",
            "204 No Content",
            "200 OK\r\ncontent-length: 0",
            "200 OK\r\ncontent-type: application/json\r\ncontent-length: 2",
        ] {
            let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
                connection.request().await;
                let body = if head.ends_with('2') { "\r\n" } else { "" };
                connection.write(format!("HTTP/1.1 {head}\r\n\r\n{body}")).await;
            });
            assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::NoReply))), "{head}: {sent:?}");
        }
        client.close().await;
    });
}

#[test]
fn f086_an_encoded_body_is_refused() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
            connection.request().await;
            connection.json("200 OK", "content-encoding: gzip\r\n", &answer(1, "x")).await;
        });
        assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::Framing(_)))), "{sent:?}");
        client.close().await;
    });
}

#[test]
fn f087_what_is_not_http_closes_its_connection() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
            connection.request().await;
            connection.write("SMTP ready\r\n\r\n").await;
            connection.closed().await;
        });
        assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::Framing(_)))), "{sent:?}");
        client.close().await;
    });
}

#[test]
fn f089_a_kept_connection_that_was_closed_is_not_used_again() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
            connection.request().await;
            connection.json("200 OK", "", &answer(1, "x")).await;
            drop(connection);
        });
        answered(sent);
        let (sent, request) = tokio::join!(client.send(2, "tools/call"), async {
            let (mut connection, request) = server.exchange().await;
            connection.json("200 OK", "", &answer(2, "x")).await;
            request
        });
        answered(sent);
        assert_eq!(request.json()["id"], json!(2));
        client.close().await;
    });
}

#[test]
fn f067_redirects_are_followed_on_the_same_origin_alone() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let other = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
            connection.request().await;
            connection.write("HTTP/1.1 307 T\r\nlocation: /there\r\ncontent-length: 2\r\n\r\nxx").await;
            let request = connection.request().await;
            assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/there"));
            assert_eq!(request.json()["id"], json!(1));
            connection.json("200 OK", "", &answer(1, "x")).await;
        });
        answered(sent);
        for (status, location) in
            [("308 P", other.url()), ("302 F", "/there".into()), ("303 S", "/there".into())]
        {
            let (sent, ()) = tokio::join!(client.send(2, "tools/call"), async {
                connection.request().await;
                connection
                    .write(format!("HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
                    .await;
            });
            let Ok(Sent::Rejected(rejection)) = sent else { panic!("not followed: {sent:?}") };
            assert_eq!(rejection.status.to_string(), status[..3]);
        }
        tokio::select! {
            _ = other.accept() => panic!("nothing goes to another origin"),
            () = client.close() => {}
        }
    });
}

#[test]
fn f068_a_redirect_in_a_circle_ends() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        let (sent, hops) = tokio::join!(client.send(1, "tools/call"), async {
            for _ in 0..6 {
                connection.request().await;
                connection.write("HTTP/1.1 308 P\r\nlocation: /mcp\r\ncontent-length: 0\r\n\r\n").await;
            }
        });
        let ((), Ok(Sent::Rejected(rejection))) = (hops, sent) else { panic!("not followed for ever") };
        assert_eq!(rejection.status, 308);
        client.close().await;
    });
}

#[test]
fn a_message_over_the_limit_is_refused_in_both_directions() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) =
            Client::connect_with(&server, limits().with_max_message_bytes(200)).await;
        client.transport.set_profile(HttpProfile::new(MODERN));
        let sent = client.send(1, &"x".repeat(200)).await;
        assert!(matches!(sent, Err(SendError::TooLarge { limit: 200 })), "{sent:?}");
        let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
            connection.request().await;
            connection.json("200 OK", "", &answer(1, &"x".repeat(200))).await;
        });
        assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::TooLarge { limit: 200 }))), "{sent:?}");
        client.close().await;
    });
}

#[test]
fn a_close_is_bounded_while_a_server_is_silent() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::in_session(&server).await;
        let began = Instant::now();
        // The DELETE is read and never answered.
        let (request, ()) = tokio::join!(connection.request(), client.close());
        assert_eq!(request.method, "DELETE");
        assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    });
}

#[test]
fn h56_a_notification_is_taken_whatever_success_it_is_answered_with() {
    isolated(async |_| {
        for answer in [
            "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull",
            // Never ends.
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n",
        ] {
            let server = NetServer::bind().await;
            let (client, mut connection) = Client::agreed(&server, MODERN).await;
            let began = Instant::now();
            let (sent, ()) = tokio::join!(client.transport.send(notification("notifications/x")), async {
                connection.request().await;
                connection.write(answer).await;
            });
            assert!(matches!(sent, Ok(Sent::Queued)), "{sent:?}");
            assert!(began.elapsed() < Duration::from_secs(1));
            client.close().await;
        }
    });
}

/// A frame of HTTP/2: its type and what it holds.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, 0][..], payload].concat()
}

/// This client speaks HTTP/1.1 alone, so nothing of HTTP/2 can hold a request up or end it unclearly.
#[test]
fn f088_a_server_that_speaks_http_2_is_not_understood_and_its_connection_is_closed() {
    isolated(async |_| {
        let settings = frame(4, &[]);
        let go_away = frame(7, &[0; 8]);
        let reset_stream = frame(3, &[0, 0, 0, 7]);
        for said in
            [settings.clone(), go_away.clone(), reset_stream, [settings.repeat(1000), go_away].concat()]
        {
            let server = NetServer::bind().await;
            let (client, mut connection) = Client::agreed(&server, MODERN).await;
            let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
                connection.request().await;
                connection.write(&said).await;
                connection.hung_up().await;
            });
            assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::Framing(_)))), "{sent:?}");
            // The next request has a connection of its own.
            let (sent, _connection) = tokio::join!(client.send(2, "tools/call"), async {
                let (mut connection, _) = server.exchange().await;
                connection.json("200 OK", "", &answer(2, "x")).await;
                connection
            });
            assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
            client.close().await;
        }
    });
}

/// What a machine that has vanished does cannot be played on loopback; that somebody looks for it can be
/// seen from outside.
#[test]
fn f079_the_system_asks_whether_a_silent_peer_is_still_there() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, connection) = Client::agreed(&server, MODERN).await;
        let port: u16 = server.url().trim_end_matches("/mcp").rsplit(':').next().unwrap().parse().unwrap();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        // Columns: number, local address, remote address, state, queues, timer and when it is due.
        let peer = format!("0100007F:{port:04X}");
        let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // The port may have served another connection before, of which a trace is left.
        let is_ours = |row: &Vec<&str>| row[2] == peer && row[3] == "01";
        let row = row.into_iter().find(is_ours).expect("the connection of the client");
        let (timer, due) = row[5].split_once(':').unwrap();
        assert_eq!(timer, "02", "the keepalive timer: {row:?}");
        let due = Duration::from_millis(10) * u32::from_str_radix(due, 16).unwrap();
        assert!(due <= Duration::from_secs(30), "{due:?}");
        drop(connection);
        client.close().await;
    });
}

#[test]
fn an_answer_that_the_server_does_not_take_is_given_up_after_the_limit() {
    isolated(async |test| {
        let mut limits = limits();
        limits.post_limit = Duration::from_millis(200);
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::connect_with(&server, limits).await;
        let began = Instant::now();
        let (sent, ()) = tokio::join!(client.transport.send(reply(1)), async {
            connection.request().await;
            connection.hung_up().await;
        });
        assert!(matches!(sent, Ok(Sent::Failed(BrokenWhy::Cut))), "{sent:?}");
        assert!(began.elapsed() >= Duration::from_millis(200));
        test.expect_log(tracing::Level::WARN, "an answer to the server was not taken in time");
        client.close().await;
    });
}
