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

fn client(names: &[(&'static str, &[&'static str])]) -> OAuthClient {
    let names = names.iter().map(|(name, addresses)| (*name, addresses.to_vec())).collect();
    OAuthClient::new(TlsRoots::Platform).with_resolver(Arc::new(Names(names)))
}

/// Asks for what the server at `server` has named.
fn get(server: &str, url: &str) -> OAuthRequest {
    let [server, url] = [server, url].map(|url| WebUrl::parse(url).unwrap());
    OAuthRequest::get(url, HeaderMap::new(), Duration::from_secs(10)).named_by_server(&server)
}

/// Answers one request for `/x`, which has to come.
async fn answer(server: &NetServer) {
    let (mut connection, request) = server.exchange().await;
    assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/x"));
    assert_eq!(request.header("cookie"), None);
    assert!(request.header("user-agent").unwrap().starts_with("mcp-transport/"));
    connection.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    connection.closed().await;
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
            let client = client(&[("as.example", &[address]), ("rs.example", &["8.8.8.8"])]);
            let request = get("https://rs.example/mcp", &format!("http://as.example:{port}/x"));
            let end = client.send(request).await;
            assert!(matches!(end, Err(OAuthHttpError::Address(_))), "{address} {end:?}");
        }
        // As it is written, too, and where nobody has said who has named it.
        let client = client(&[("rs.example", &["8.8.8.8"])]);
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let request = get("https://rs.example/mcp", &format!("http://{host}:{port}/x"));
            let unnamed = OAuthRequest::get(request.url.clone(), HeaderMap::new(), request.limit);
            for request in [request, unnamed] {
                let end = client.send(request).await;
                assert!(matches!(end, Err(OAuthHttpError::Address(_))), "{host} {end:?}");
            }
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
        let client = client(&[
            ("localhost", here),
            ("intranet.example", here),
            ("as.example", here),
            ("both.example", &["127.0.0.1", "8.8.8.8"]),
        ]);
        for (configured, named) in [
            (server.url(), format!("http://localhost:{port}/x")),
            ("https://intranet.example/mcp".to_owned(), format!("http://as.example:{port}/x")),
        ] {
            let (end, ()) = tokio::join!(client.send(get(&configured, &named)), answer(&server));
            assert_eq!(end.unwrap().body, b"{}");
        }
        // A name that leads here and elsewhere opens no door.
        let request = get("https://both.example/mcp", &format!("http://as.example:{port}/x"));
        assert!(matches!(client.send(request).await, Err(OAuthHttpError::Address(_))));
        assert!(is_untouched(&server).await);
    });
}

#[test]
fn d07_servers_that_share_a_client_have_each_their_own_policy() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let port = WebUrl::parse(&server.url()).unwrap().origin().port;
        let client = client(&[
            ("intranet.example", &["127.0.0.1"]),
            ("rs.example", &["8.8.8.8"]),
            ("as.example", &["127.0.0.1"]),
        ]);
        let named = format!("http://as.example:{port}/x");
        for _ in 0..2 {
            let request = get("https://rs.example/mcp", &named);
            assert!(matches!(client.send(request).await, Err(OAuthHttpError::Address(_))));
            let request = get("https://intranet.example/mcp", &named);
            let (end, ()) = tokio::join!(client.send(request), answer(&server));
            assert_eq!(end.unwrap().status, 200);
        }
        assert!(is_untouched(&server).await);
    });
}

#[test]
fn d07_what_the_user_has_written_is_asked_wherever_it_is() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let port = WebUrl::parse(&server.url()).unwrap().origin().port;
        let client = client(&[("both.example", &["127.0.0.1", "10.0.0.1", "8.8.8.8"])]);
        // Well-known places of the configured server are on its own origin.
        for host in ["both.example", "0.0.0.0"] {
            let own = format!("http://{host}:{port}");
            let request = get(&format!("{own}/mcp"), &format!("{own}/x"));
            let (end, ()) = tokio::join!(client.send(request), answer(&server));
            assert_eq!(end.unwrap().status, 200, "{host}");
        }
        let url = WebUrl::parse(&format!("http://127.0.0.1:{port}/x")).unwrap();
        let request = OAuthRequest::get(url, HeaderMap::new(), Duration::from_secs(10)).named_by_user();
        let (end, ()) = tokio::join!(client.send(request), answer(&server));
        assert_eq!(end.unwrap().status, 200);
    });
}

#[test]
fn f167_an_answer_is_cut_off_where_it_is_too_large_or_too_slow() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let client = client(&[]);
        let own = || get(&server.url(), &server.url());
        let (end, ()) = tokio::join!(client.send(own()), async {
            let (mut connection, _) = server.exchange().await;
            let length = 1024_u64 * 1024 * 1024;
            connection.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n")).await;
            connection.write(vec![b' '; MAX_ANSWER_BYTES + 1]).await;
            connection.hung_up().await;
        });
        assert_eq!(end.unwrap_err(), OAuthHttpError::TooLarge);
        let mut slow = own();
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
        let client = client(&[]);
        let url = WebUrl::parse(&server.url()).unwrap();
        let form = Form::new().with("code", "canary").encode();
        let request = OAuthRequest::post(url.clone(), HeaderMap::new(), form, Duration::from_secs(10));
        let request = request.named_by_server(&url);
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
