//! Streams of events over HTTP, byte by byte.
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

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mcp_proto::ProtocolVersion;
use mcp_transport::http::{Endpoint, HttpConnector, HyperBackend, Resolve};
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::{NetConnection, NetServer};
use mcp_transport::{
    BrokenWhy, CloseReason, ConnectError, Connection, Connector as _, Dispatch, HttpProfile, Inbound, Sent,
};
use net::*;
use serde_json::json;
use tokio::time::{Instant, timeout};

const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;
const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// Sends request 1 and answers it with the beginning of a stream.
async fn streaming(client: &Client, connection: &mut NetConnection) {
    let (sent, ()) = tokio::join!(client.send(1, "tools/call"), async {
        connection.request().await;
        connection.events("").await;
    });
    assert!(matches!(sent, Ok(Sent::Streaming)), "{sent:?}");
}

#[track_caller]
fn assert_ended(inbound: Inbound, expected: BrokenWhy) {
    let Inbound::StreamEnded { id, why } = inbound else { panic!("the stream has ended: {inbound:?}") };
    assert_eq!((id, why), (1.into(), expected));
}

#[test]
fn an_answer_in_a_stream_comes_after_what_the_server_said_before() {
    isolated(async |_| {
        for version in [LEGACY, MODERN] {
            let server = NetServer::bind().await;
            let (mut client, mut connection) = Client::agreed(&server, version).await;
            streaming(&client, &mut connection).await;
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
            connection.chunk(": hello\n\n").await;
            connection.event(&progress).await;
            assert_eq!(message(&client.next().await), progress);
            connection.event(&answer(1, "x")).await;
            connection.end().await;
            let inbound = client.next().await;
            assert!(matches!(&inbound, Inbound::Message { stream: Some(id), .. } if *id == 1.into()));
            assert_eq!(message(&inbound), answer(1, "x"));
            client.close().await;
        }
    });
}

#[test]
fn f081_a_stream_that_a_proxy_holds_back_until_its_end_is_only_late() {
    isolated(async |_| {
        for version in [LEGACY, MODERN] {
            let server = NetServer::bind().await;
            let (mut client, mut connection) = Client::agreed(&server, version).await;
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
            let held_back = async {
                connection.request().await;
                // The server has said everything; the proxy passes nothing on. Others are served meanwhile.
                let (sent, other) = tokio::join!(client.send(2, "tools/list"), async {
                    let (mut other, _) = server.exchange().await;
                    other.json("200 OK", "", &answer(2, "y")).await;
                    other
                });
                assert_eq!(answered(sent), answer(2, "y"));
                let events = format!("data: {progress}\n\ndata: {}\n\n", answer(1, "x"));
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
                let length = events.len();
                connection.write(format!("{head}content-length: {length}\r\n\r\n{events}")).await;
                other
            };
            let (sent, other) = tokio::join!(client.send(1, "tools/call"), held_back);
            assert!(matches!(sent, Ok(Sent::Streaming)), "{sent:?}");
            let mut said = Vec::new();
            while said.len() < 2 {
                said.extend(client.receive().await.unwrap().iter().map(message));
            }
            assert_eq!(said, [progress, answer(1, "x")]);
            client.close().await;
            drop(other);
        }
    });
}

#[test]
fn a_stream_that_was_read_to_its_end_leaves_its_connection_for_the_next_request() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::agreed(&server, MODERN).await;
        for _ in 0..3 {
            streaming(&client, &mut connection).await;
            connection.event(&answer(1, "x")).await;
            assert_eq!(message(&client.next().await), answer(1, "x"));
            connection.end().await;
            // Nothing is handed up at the end, so the driver is left to read it.
            let idle = timeout(Duration::from_millis(100), client.receive()).await;
            assert!(idle.is_err(), "{idle:?}");
        }
        client.close().await;
    });
}

#[test]
fn a_stream_that_stays_open_after_its_answer_is_ended_after_a_while() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let linger = Duration::from_millis(200);
        let (mut client, mut connection) = Client::connect_with(&server, limits().with_linger(linger)).await;
        streaming(&client, &mut connection).await;
        connection.event(&answer(1, "x")).await;
        client.next().await;
        let began = Instant::now();
        let closed = tokio::select! {
            _ = client.receive() => panic!("nothing more comes"),
            () = connection.closed() => began.elapsed(),
        };
        assert!(closed >= linger && closed < Duration::from_secs(2), "{closed:?}");
        client.close().await;
    });
}

#[test]
fn f073_a_modern_stream_that_breaks_is_not_resumed() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::agreed(&server, MODERN).await;
        streaming(&client, &mut connection).await;
        connection.chunk("id: 7\nretry: 100\ndata: {}\n\n").await;
        assert_eq!(message(&client.next().await), json!({}));
        connection.reset();
        assert_ended(client.next().await, BrokenWhy::Cut);
        tokio::select! {
            (_, request) = server.exchange() => panic!("nothing is sent again: {request:?}"),
            () = client.close() => {}
        }
    });
}

#[test]
fn f074_a_legacy_stream_that_breaks_is_resumed_after_its_last_event() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::in_session(&server).await;
        streaming(&client, &mut connection).await;
        connection.chunk("id: e-7\nretry: 300\ndata: {}\n\n").await;
        client.next().await;
        connection.reset();
        let began = Instant::now();
        let (answered, ()) = tokio::join!(client.next(), async {
            let (mut connection, request) = server.exchange().await;
            assert!(began.elapsed() >= Duration::from_millis(300), "the server wants a pause");
            assert_eq!(request.method, "GET");
            assert_eq!(request.header("accept"), Some("text/event-stream"));
            assert_eq!(request.header("last-event-id"), Some("e-7"));
            assert_eq!(request.header("mcp-session-id"), Some("canary"));
            assert_eq!(request.header("content-type"), None);
            connection.events("").await;
            connection.event(&answer(1, "x")).await;
            connection.end().await;
        });
        assert!(matches!(&answered, Inbound::Message { stream: Some(id), .. } if *id == 1.into()));
        assert_eq!(message(&answered), answer(1, "x"));
        client.close().await;
    });
}

#[test]
fn h71_a_stream_that_ends_behind_a_bare_id_is_asked_again_without_end() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::agreed(&server, LEGACY).await;
        streaming(&client, &mut connection).await;
        connection.chunk("id: 0\nretry: 100\ndata:\n\n").await;
        connection.end().await;
        let (answered, ()) = tokio::join!(client.next(), async {
            // More often than a stream that brings nothing may be tried.
            for number in 1..8 {
                let request = connection.request().await;
                assert_eq!(request.header("last-event-id"), Some((number - 1).to_string().as_str()));
                connection.events("").await;
                if number < 7 {
                    connection.chunk(format!("id: {number}\n\n")).await;
                } else {
                    connection.event(&answer(1, "x")).await;
                }
                connection.end().await;
            }
        });
        assert_eq!(message(&answered), answer(1, "x"));
        client.close().await;
    });
}

#[test]
fn f074_a_stream_that_cannot_be_resumed_ends_its_call() {
    isolated(async |_| {
        for status in ["405 Method Not Allowed", "400 Bad Request"] {
            let server = NetServer::bind().await;
            let (mut client, mut connection) = Client::agreed(&server, LEGACY).await;
            streaming(&client, &mut connection).await;
            connection.chunk("id: 1\nretry: 100\ndata: {}\n\n").await;
            client.next().await;
            connection.end().await;
            let (ended, ()) = tokio::join!(client.next(), async {
                connection.request().await;
                connection.empty(status).await;
            });
            assert_ended(ended, BrokenWhy::Cut);
            client.close().await;
        }
    });
}

#[test]
fn f074_resuming_ends_after_five_attempts_in_vain() {
    isolated(async |test| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::agreed(&server, LEGACY).await;
        streaming(&client, &mut connection).await;
        connection.chunk("id: 1\nretry: 100\ndata: {}\n\n").await;
        client.next().await;
        connection.end().await;
        let (ended, ()) = tokio::join!(client.next(), async {
            for _ in 0..5 {
                // A connection whose body was not wanted is not kept.
                let request = match connection.next_request().await {
                    Some(request) => request,
                    None => {
                        let (next, request) = server.exchange().await;
                        connection = next;
                        request
                    }
                };
                assert_eq!(request.method, "GET");
                connection.empty("503 Service Unavailable").await;
            }
        });
        assert_ended(ended, BrokenWhy::Cut);
        test.expect_log(tracing::Level::WARN, "giving up");
        client.close().await;
    });
}

#[test]
fn f075_a_stream_that_ends_without_a_reply_ends_its_call_at_once() {
    isolated(async |_| {
        for version in [LEGACY, MODERN] {
            let server = NetServer::bind().await;
            let (mut client, mut connection) = Client::agreed(&server, version).await;
            streaming(&client, &mut connection).await;
            let began = Instant::now();
            connection.end().await;
            assert_ended(client.next().await, BrokenWhy::NoReply);
            assert!(began.elapsed() < Duration::from_secs(1));
            client.close().await;
        }
    });
}

#[test]
fn f085_an_event_over_the_limit_is_skipped_and_named() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) =
            Client::connect_with(&server, limits().with_max_message_bytes(1000)).await;
        streaming(&client, &mut connection).await;
        connection.event(&answer(1, &"x".repeat(5000))).await;
        let inbound = client.next().await;
        let Inbound::Broken(broken) = inbound else { panic!("too large: {inbound:?}") };
        assert_eq!((broken.id, broken.why), (Some(1.into()), BrokenWhy::TooLarge { limit: 1000 }));
        client.close().await;
    });
}

#[test]
fn f123_a_modern_cancel_closes_the_stream_and_posts_nothing() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        streaming(&client, &mut connection).await;
        // Nobody polls the receiving half: the stream ends all the same.
        let began = Instant::now();
        assert_eq!(client.transport.abandon(&1.into(), None).dispatch, Dispatch::MayHaveLeft);
        connection.closed().await;
        assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
        tokio::select! {
            (_, request) = server.exchange() => panic!("nothing is posted: {request:?}"),
            () = client.close() => {}
        }
    });
}

#[test]
fn f123_a_modern_cancel_before_the_answer_closes_the_connection() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, MODERN).await;
        tokio::select! {
            sent = client.send(1, "tools/call") => panic!("there is no answer: {sent:?}"),
            _ = connection.request() => {}
        }
        assert_eq!(client.transport.abandon(&1.into(), None).dispatch, Dispatch::MayHaveLeft);
        connection.closed().await;
        client.close().await;
    });
}

#[test]
fn f123_a_legacy_cancel_posts_its_notice_and_frees_the_connection() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::agreed(&server, LEGACY).await;
        streaming(&client, &mut connection).await;
        let notice = notification("notifications/cancelled");
        let began = Instant::now();
        assert_eq!(client.transport.abandon(&1.into(), Some(notice)).dispatch, Dispatch::MayHaveLeft);
        connection.closed().await;
        let serving = async {
            let (mut connection, request) = server.exchange().await;
            assert_eq!(request.json()["method"], "notifications/cancelled");
            assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
            connection.empty("202 Accepted").await;
            // The first message that is taken lets the server speak by itself.
            let request = connection.request().await;
            assert_eq!(request.method, "GET");
            connection.empty("405 Method Not Allowed").await;
            connection.closed().await;
        };
        tokio::select! {
            received = client.receive() => panic!("nothing comes for a request given up: {received:?}"),
            () = serving => panic!("closed before it was closed"),
            () = tokio::time::sleep(Duration::from_millis(300)) => {} // The time in which a late entry would come.
        }
        client.close().await;
    });
}

#[test]
fn f123_a_request_that_has_not_left_is_not_cancelled() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let backend = HyperBackend::default().with_resolver(Arc::new(OneLookup::default()));
        let endpoint = Endpoint::parse(&server.url()).unwrap();
        let connector = HttpConnector::new(Arc::new(backend), endpoint, limits());
        let (connection, mut first) = tokio::join!(connector.connect(soon()), server.accept());
        let Connection { transport, receive: half, .. } = connection.unwrap();
        let client = Client { transport, half };
        client.transport.set_profile(HttpProfile::new(LEGACY));
        // The one connection is taken by this stream; the next request waits for a second one.
        streaming(&client, &mut first).await;
        let sent = timeout(Duration::from_millis(100), client.send(2, "tools/call")).await;
        assert!(sent.is_err(), "{sent:?}");
        let notice = notification("notifications/cancelled");
        assert_eq!(client.transport.abandon(&2.into(), Some(notice)).dispatch, Dispatch::NotSent);
        tokio::select! {
            (_, request) = server.exchange() => panic!("nothing is posted: {request:?}"),
            () = client.close() => {}
        }
    });
}

#[test]
fn f051_a_resolver_that_hangs_holds_nothing_up() {
    isolated(async |_| {
        let resolver = OneLookup(AtomicBool::new(true));
        let backend = HyperBackend::default().with_resolver(Arc::new(resolver));
        let endpoint = Endpoint::parse("http://example.invalid/").unwrap();
        let connector = HttpConnector::new(Arc::new(backend), endpoint, limits());
        let began = Instant::now();
        let error = connector.connect(began + Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, ConnectError::Timeout) && !error.is_permanent(), "{error:?}");
        assert!(began.elapsed() < Duration::from_millis(300));
    });
}

/// Answers once, and never again.
#[derive(Debug, Default)]
struct OneLookup(AtomicBool);

#[async_trait]
impl Resolve for OneLookup {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if self.0.swap(true, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(vec![SocketAddr::new(host.parse().unwrap(), port)])
    }
}

#[test]
fn notices_that_are_queued_when_it_closes_are_still_sent_even_without_a_driver() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::agreed(&server, LEGACY).await;
        let Client { transport, half } = client;
        transport.post(notification("notifications/cancelled")).unwrap();
        let (report, request) = tokio::join!(transport.close(soon()), async {
            let request = connection.request().await;
            connection.empty("202 Accepted").await;
            request
        });
        assert_eq!(request.json()["method"], "notifications/cancelled");
        assert_eq!(report.ending, mcp_transport::Ending::Clean);
        drop(half);
    });
}

#[test]
fn f064_a_server_without_a_stream_of_its_own_is_asked_once() {
    isolated(async |test| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::in_session(&server).await;
        let serving = async {
            connection.request().await;
            connection.empty("202 Accepted").await;
            let request = connection.request().await;
            assert_eq!(
                (request.method.as_str(), request.header("accept")),
                ("GET", Some("text/event-stream"))
            );
            connection.empty("405 Method Not Allowed").await;
            // The next one is the call, not another attempt.
            let request = connection.request().await;
            assert_eq!(request.json()["id"], json!(1));
            connection.json("200 OK", "", &answer(1, "x")).await;
        };
        let transport = client.transport.clone();
        let calling = async {
            transport.send(notification("notifications/initialized")).await.unwrap();
            // The time in which a second attempt would come.
            tokio::time::sleep(Duration::from_millis(300)).await;
            transport.send(request(1, "tools/list")).await
        };
        let driving = async { client.receive().await };
        let sent = tokio::select! {
            received = driving => panic!("nothing comes: {received:?}"),
            (sent, ()) = async { tokio::join!(calling, serving) } => sent,
        };
        answered(sent);
        assert!(test.log().records().iter().all(|record| record.level >= tracing::Level::DEBUG));
        let ((), request) = tokio::join!(client.close(), async {
            let request = connection.request().await;
            connection.empty("200 OK").await;
            request
        });
        assert_eq!(request.method, "DELETE");
    });
}

#[test]
fn a_handshake_ends_when_the_servers_own_stream_is_open_or_takes_too_long() {
    isolated(async |_| {
        for answers in [true, false] {
            let server = NetServer::bind().await;
            let limit = Duration::from_millis(if answers { 10_000 } else { 1_000 });
            let (mut client, mut connection) =
                Client::connect_with(&server, limits().with_listen_limit(limit)).await;
            client.transport.set_profile(HttpProfile::new(LEGACY));
            let transport = client.transport.clone();
            let confirming = async {
                transport.send(notification("notifications/initialized")).await.unwrap();
                Instant::now()
            };
            let serving = async {
                connection.request().await;
                connection.empty("202 Accepted").await;
                assert_eq!(connection.request().await.method, "GET");
                // Time in which the client would go on if it did not wait.
                tokio::time::sleep(Duration::from_millis(100)).await;
                let opened = Instant::now();
                if answers {
                    connection.events("").await;
                }
                opened
            };
            let driving = async { client.receive().await };
            let (confirmed, opened) = tokio::select! {
                received = driving => panic!("nothing comes: {received:?}"),
                both = async { tokio::join!(confirming, serving) } => both,
            };
            assert!(confirmed >= opened, "{:?} too early", opened - confirmed);
            assert!(confirmed - opened < Duration::from_secs(5));
            client.close().await;
        }
    });
}

#[test]
fn a_reply_to_what_the_server_asks_during_the_handshake_does_not_open_its_own_stream() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::connect(&server).await;
        client.transport.set_profile(HttpProfile::new(LEGACY));
        let transport = client.transport.clone();
        let replying = async { transport.send(reply(1)).await };
        let serving = async {
            connection.request().await;
            connection.empty("202 Accepted").await;
            connection.request().await
        };
        // A stream that is asked for is waited for, so the request would come first.
        let sent = tokio::select! {
            biased;
            request = serving => panic!("too early: {request:?}"),
            sent = replying => sent,
            received = client.receive() => panic!("nothing comes: {received:?}"),
        };
        assert!(matches!(sent, Ok(Sent::Queued)), "{sent:?}");
        client.close().await;
    });
}

#[test]
fn a_server_speaks_on_its_own_stream_which_is_opened_again() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::in_session(&server).await;
        let (sent, ()) =
            tokio::join!(client.transport.send(notification("notifications/initialized")), async {
                connection.request().await;
                connection.empty("202 Accepted").await;
            });
        sent.unwrap();
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        let (inbound, ()) = tokio::join!(client.next(), async {
            assert_eq!(connection.request().await.method, "GET");
            connection.events("").await;
            connection.chunk(format!("id: 3\ndata: {changed}\n\n")).await;
        });
        assert!(matches!(&inbound, Inbound::Message { stream: None, .. }));
        assert_eq!(message(&inbound), changed);
        connection.reset();
        let (inbound, _connection) = tokio::join!(client.next(), async {
            let (mut connection, request) = server.exchange().await;
            assert_eq!(request.header("last-event-id"), Some("3"));
            connection.events("").await;
            connection.event(&changed).await;
            connection
        });
        assert_eq!(message(&inbound), changed);
        drop(client);
    });
}

#[test]
fn f062_a_lost_session_on_the_stream_of_the_server_ends_the_connection() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (mut client, mut connection) = Client::in_session(&server).await;
        let (sent, ()) =
            tokio::join!(client.transport.send(notification("notifications/initialized")), async {
                connection.request().await;
                connection.empty("202 Accepted").await;
            });
        sent.unwrap();
        let (ended, ()) = tokio::join!(client.receive(), async {
            assert_eq!(connection.request().await.method, "GET");
            connection.empty("404 Not Found").await;
        });
        assert_eq!(*ended.unwrap_err().reason(), CloseReason::SessionExpired);
        client.close().await;
    });
}

#[test]
fn dropping_both_halves_ends_everything() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let (client, mut connection) = Client::in_session(&server).await;
        streaming(&client, &mut connection).await;
        drop(client);
        connection.closed().await;
    });
}
