//! The requests of flows: where they may lead, and how much they take from a server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "oauth")]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_transport::auth::*;
use mcp_transport::http::{HeaderMap, Resolve, TlsRoots};
use mcp_transport::testing::NetServer;
use mcp_transport::testing::checks::isolated;

/// Knows a few names, each with the addresses that it leads to.
#[derive(Debug)]
struct Names(HashMap<&'static str, Vec<&'static str>>);

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let literal = host.parse().ok().map(|address| vec![SocketAddr::new(address, port)]);
        let named = self.0.get(host).map(|addresses| {
            addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect()
        });
        literal.or(named).ok_or_else(|| io::Error::other("no such name"))
    }
}

fn client(server: &str, names: &[(&'static str, &[&'static str])]) -> OAuthClient {
    let names = names.iter().map(|(name, addresses)| (*name, addresses.to_vec())).collect();
    let roots = TlsRoots::Platform;
    OAuthClient::new(WebUrl::parse(server).unwrap(), roots).with_resolver(Arc::new(Names(names)))
}

fn get(url: &str) -> OAuthRequest {
    OAuthRequest::get(WebUrl::parse(url).unwrap(), HeaderMap::new(), Duration::from_secs(10))
}

async fn is_untouched(server: &NetServer) -> bool {
    tokio::time::timeout(Duration::from_millis(50), server.accept()).await.is_err()
}

#[test]
fn f168_f169_d07_a_name_that_leads_to_an_address_of_ours_is_not_connected_to() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let port = WebUrl::parse(&server.url()).unwrap().origin().port;
        for address in
            ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "fd00::1"]
        {
            let client =
                client("https://rs.example/mcp", &[("as.example", &[address]), ("rs.example", &["8.8.8.8"])]);
            let end = client.send(get(&format!("http://as.example:{port}/x"))).await;
            assert!(matches!(end, Err(OAuthHttpError::Address(_))), "{address} {end:?}");
        }
        // As it is written, too.
        let client = client("https://rs.example/mcp", &[("rs.example", &["8.8.8.8"])]);
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let end = client.send(get(&format!("http://{host}:{port}/x"))).await;
            assert!(matches!(end, Err(OAuthHttpError::Address(_))), "{host} {end:?}");
        }
        assert!(is_untouched(&server).await);
    });
}

#[test]
fn d07_a_server_of_the_same_class_may_be_named() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let port = WebUrl::parse(&server.url()).unwrap().origin().port;
        let here: &[&str] = &["127.0.0.1"];
        for (configured, named) in [
            (server.url(), server.url()),
            (server.url(), format!("http://localhost:{port}/mcp")),
            ("https://intranet.example/mcp".to_owned(), format!("http://as.example:{port}/mcp")),
        ] {
            let client =
                client(&configured, &[("localhost", here), ("intranet.example", here), ("as.example", here)]);
            let (end, ()) = tokio::join!(client.send(get(&named)), async {
                let (mut connection, request) = server.exchange().await;
                assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/mcp"));
                assert_eq!(request.header("cookie"), None);
                assert!(request.header("user-agent").unwrap().starts_with("mcp-transport/"));
                connection.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
                connection.closed().await;
            });
            assert_eq!(end.unwrap().body, b"{}");
        }
        // A name that leads here and elsewhere opens no door.
        let client = client(
            "https://both.example/mcp",
            &[("both.example", &["8.8.8.8", "127.0.0.1"]), ("as.example", here)],
        );
        assert!(matches!(
            client.send(get(&format!("http://as.example:{port}/x"))).await,
            Err(OAuthHttpError::Address(_))
        ));
        assert!(is_untouched(&server).await);
    });
}

#[test]
fn f167_an_answer_is_cut_off_where_it_is_too_large_or_too_slow() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let client = client(&server.url(), &[]);
        let (end, ()) = tokio::join!(client.send(get(&server.url())), async {
            let (mut connection, _) = server.exchange().await;
            let length = 1024_u64 * 1024 * 1024;
            connection.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n")).await;
            connection.write(vec![b' '; MAX_ANSWER_BYTES + 1]).await;
            connection.hung_up().await;
        });
        assert_eq!(end.unwrap_err(), OAuthHttpError::TooLarge);
        let mut slow = get(&server.url());
        slow.limit = Duration::from_millis(100);
        let (end, ()) = tokio::join!(client.send(slow), async {
            let (mut connection, _) = server.exchange().await;
            connection.hung_up().await;
        });
        assert_eq!(end.unwrap_err(), OAuthHttpError::Timeout(Duration::from_millis(100)));
    });
}

#[test]
fn z02_a_token_request_is_sent_once_and_follows_no_redirect() {
    isolated(async |_| {
        let (server, elsewhere) = (NetServer::bind().await, NetServer::bind().await);
        let client = client(&server.url(), &[]);
        let url = WebUrl::parse(&server.url()).unwrap();
        let form = Form::new().with("code", "canary").encode();
        let request = OAuthRequest::post(url, HeaderMap::new(), form, Duration::from_secs(10));
        let (end, ()) = tokio::join!(client.send(request), async {
            let (mut connection, request) = server.exchange().await;
            assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", &b"code=canary"[..]));
            connection
                .json(
                    "307 Temporary Redirect",
                    &format!("location: {}\r\n", elsewhere.url()),
                    &serde_json::Value::Null,
                )
                .await;
            connection.closed().await;
        });
        assert_eq!(end.unwrap().status, 307);
        assert!(is_untouched(&elsewhere).await);
    });
}
