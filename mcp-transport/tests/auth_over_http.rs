//! Requests over HTTP are authorized, refused ones once more with another token, and nothing leaks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "oauth")]

mod auth;
mod net;

use std::sync::Arc;
use std::time::Duration;

use auth::*;
use mcp_proto::ProtocolVersion;
use mcp_transport::auth::*;
use mcp_transport::http::{
    AfterChallenge, AuthProvider, AuthStamp, Endpoint, EndpointError, HeaderMap, HttpConnector, HyperBackend,
    Method, StatusCode,
};
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::{NetConnection, NetRequest, NetServer};
use mcp_transport::{AuthFailure, AuthFailureKind, HttpProfile, Rejection, Sent};
use net::{Client, answer, connector, limits, soon};
use serde_json::json;

const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;
const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;
const TOKEN: &str = "as-a.example/token";
const REFUSED: &str = "www-authenticate: Bearer error=\"invalid_token\"\r\n";

/// A server on loopback whose authorization server is the site `a`, logged in to with the token `a101`.
struct Site {
    world: World,
    server: NetServer,
    oauth: OAuth,
}

impl Site {
    async fn logged_in() -> Self {
        let (world, server) = (World::new(), NetServer::bind().await);
        let url = server.url();
        let document = json!({"resource": url, "authorization_servers": ["https://as-a.example"]});
        world.net.answer("127.0.0.1/.well-known/oauth-protected-resource/mcp", 200, document);
        let oauth = OAuth::new("a", WebUrl::parse(&url).unwrap(), OAuthSettings::default(), world.seams());
        oauth.login(ui(&Person::new(Habit::Grants)), false).await.unwrap();
        // Has worked before, so that it is worth renewing.
        let (_, stamp) = oauth.authorize().await.unwrap();
        oauth.on_accepted(stamp);
        Self { world, server, oauth }
    }

    fn connector(&self) -> HttpConnector {
        connector(&self.server.url(), limits()).with_auth(Arc::new(self.oauth.clone())).unwrap()
    }

    async fn connect(&self, version: ProtocolVersion) -> (Client, NetConnection) {
        let (client, connection) = Client::connect_by(self.connector(), &self.server).await;
        client.transport.set_profile(HttpProfile::new(version));
        (client, connection)
    }
}

fn bearer(request: &NetRequest) -> Option<&str> {
    request.header("authorization")
}

fn rejection(sent: Sent) -> Rejection {
    match sent {
        Sent::Rejected(rejection) => *rejection,
        other => panic!("{other:?}"),
    }
}

#[test]
fn f164_a_refused_request_is_sent_once_more_with_a_new_token() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect(MODERN).await;
        let (sent, requests) = tokio::join!(client.send(1, "tools/list"), async {
            let first = connection.request().await;
            connection.json("401 Unauthorized", REFUSED, &json!({})).await;
            let second = connection.request().await;
            connection.json("200 OK", "", &answer(1, "x")).await;
            [first, second]
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
        assert_eq!(requests.each_ref().map(bearer), [Some("Bearer a101"), Some("Bearer a102")]);
        assert_eq!(requests[0].body, requests[1].body);
        assert_eq!(site.world.net.count(TOKEN), 2, "the login, and one renewal");
        client.close().await;
    });
}

#[test]
fn t09_a_request_is_sent_twice_at_most_and_the_failure_says_what_to_do() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect(MODERN).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
            for _ in 0..2 {
                connection.request().await;
                connection.json("401 Unauthorized", REFUSED, &json!({})).await;
            }
        });
        let rejection = rejection(sent.unwrap());
        assert_eq!(rejection.status, 401);
        let failure = rejection.auth.unwrap();
        assert_eq!(failure.kind, AuthFailureKind::NeedsAuth);
        assert!(failure.needs_login() && !failure.message.contains("a10"), "{failure:?}");
        assert_eq!(site.world.net.count(TOKEN), 2);
        client.close().await;
    });
}

#[test]
fn k02_a_refusal_that_is_not_about_authorization_is_an_ordinary_one() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect(MODERN).await;
        let wider = "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"x\"\r\n";
        for (headers, kind) in
            [("", None), (REFUSED, None), (wider, Some(AuthFailureKind::InsufficientScope("x".to_owned())))]
        {
            let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
                connection.request().await;
                connection.json("403 Forbidden", headers, &json!({})).await;
            });
            let rejection = rejection(sent.unwrap());
            assert_eq!((rejection.status, rejection.auth.map(|failure| failure.kind)), (403, kind));
        }
        client.close().await;
    });
}

#[test]
fn a_token_that_cannot_be_renewed_in_time_is_told_without_a_request() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, connection) = site.connect(MODERN).await;
        site.world.calendar.set(4000);
        site.world.net.answer(TOKEN, 503, json!(null));
        let rejection = rejection(client.send(1, "tools/list").await.unwrap());
        assert_eq!(rejection.auth.unwrap().kind, AuthFailureKind::Unavailable(None));
        drop(connection);
        client.close().await;
    });
}

#[test]
fn every_request_of_a_session_is_authorized_and_a_refused_stream_is_opened_again() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = Client::connect_by(site.connector(), &site.server).await;
        let (sent, first) = tokio::join!(client.send(0, "initialize"), async {
            let request = connection.request().await;
            connection.json("200 OK", "mcp-session-id: s\r\n", &answer(0, "hello")).await;
            request
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))));
        assert_eq!(bearer(&first), Some("Bearer a101"));
        client.transport.set_profile(HttpProfile::new(LEGACY));
        let mut client = client;
        let serving = async {
            let notice = connection.request().await;
            connection.empty("202 Accepted").await;
            assert_eq!((notice.method.as_str(), bearer(&notice)), ("POST", Some("Bearer a101")));
            let refused = connection.request().await;
            connection.json("401 Unauthorized", REFUSED, &json!({})).await;
            assert_eq!((refused.method.as_str(), bearer(&refused)), ("GET", Some("Bearer a101")));
            let again = connection.request().await;
            assert_eq!((again.method.as_str(), bearer(&again)), ("GET", Some("Bearer a102")));
            connection.events("").await;
            connection.event(&json!({"jsonrpc": "2.0", "method": "notifications/hello"})).await;
        };
        let transport = Arc::clone(&client.transport);
        let notifying = transport.send(net::notification("notifications/initialized"));
        let (sent, (), entry) = tokio::join!(notifying, serving, client.next());
        assert!(matches!(sent, Ok(Sent::Queued)), "{sent:?}");
        assert!(matches!(entry, mcp_transport::Inbound::Message { .. }), "{entry:?}");
        // The stream stays open, and takes nothing from the requests beside it.
        let (sent, mut second) = tokio::join!(client.send(1, "tools/list"), async {
            let (mut second, request) = site.server.exchange().await;
            assert_eq!(bearer(&request), Some("Bearer a102"));
            second.json("200 OK", "", &answer(1, "x")).await;
            second
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))));
        let (request, ()) = tokio::join!(
            async {
                let request = second.request().await;
                second.empty("204 No Content").await;
                request
            },
            client.close()
        );
        assert_eq!((request.method.as_str(), bearer(&request)), ("DELETE", Some("Bearer a102")));
    });
}

#[test]
fn a_request_that_waits_for_a_login_server_holds_up_no_other() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect(MODERN).await;
        site.world.net.hold(TOKEN);
        let refused = client.send(1, "tools/list");
        let other = async {
            connection.request().await;
            connection.json("401 Unauthorized", REFUSED, &json!({})).await;
            site.world.net.arrived(TOKEN, 2).await;
            let (sent, _kept) = tokio::join!(client.send(2, "tools/list"), async {
                let (mut second, _) = site.server.exchange().await;
                second.json("200 OK", "", &answer(2, "x")).await;
                second
            });
            assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
            site.world.net.release(TOKEN);
            connection.request().await;
            connection.json("200 OK", "", &answer(1, "x")).await;
        };
        let (sent, ()) = tokio::join!(refused, other);
        assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
        client.close().await;
    });
}

#[test]
fn z02_a_token_does_not_follow_a_redirect_to_another_place() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let elsewhere = NetServer::bind().await;
        let (client, connection) = site.connect(MODERN).await;
        let url = elsewhere.url();
        let mut first = Some(connection);
        for location in [url.clone(), url.replace("127.0.0.1", "localhost"), url.replace("http:", "https:")] {
            for status in ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
                let headers = format!("location: {location}\r\nconnection: close\r\n");
                let first = first.take();
                let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
                    let mut connection = match first {
                        Some(first) => first,
                        None => site.server.accept().await,
                    };
                    connection.request().await;
                    connection.json(status, &headers, &json!({})).await;
                });
                assert!(matches!(sent, Ok(Sent::Rejected(_))), "{sent:?}");
            }
        }
        let nobody = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
        assert!(nobody.is_err(), "nobody has connected");
        client.close().await;
    });
}

/// Says of every refusal that the request is to be sent again.
#[derive(Debug)]
struct Stubborn;

#[async_trait::async_trait]
impl AuthProvider for Stubborn {
    async fn decorate(&self, _: &Method, _: &str, _: &mut HeaderMap) -> Result<AuthStamp, AuthFailure> {
        Ok(AuthStamp(0))
    }

    async fn challenged(
        &self,
        _: StatusCode,
        _: &HeaderMap,
        _: AuthStamp,
    ) -> Result<AfterChallenge, AuthFailure> {
        Ok(AfterChallenge::Repeat)
    }

    fn accepted(&self, _: &HeaderMap, _: AuthStamp) {}

    fn agreed(&self, _: ProtocolVersion) {}
}

#[test]
fn t09_the_transport_itself_sends_a_request_twice_at_most() {
    isolated(async |_| {
        let server = NetServer::bind().await;
        let connector = connector(&server.url(), limits()).with_auth(Arc::new(Stubborn)).unwrap();
        let (client, mut connection) = Client::connect_by(connector, &server).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
            for _ in 0..2 {
                connection.request().await;
                connection.json("401 Unauthorized", "", &json!({})).await;
            }
        });
        let rejection = rejection(sent.unwrap());
        assert_eq!((rejection.status, rejection.auth), (401, None));
        client.close().await;
    });
}

#[test]
fn a_header_of_the_user_and_a_login_exclude_each_other() {
    let world = World::new();
    let url = "https://rs-a.example/mcp";
    let endpoint = Endpoint::parse(url).unwrap().with_header("Authorization", &"Bearer mine".into()).unwrap();
    let connector = HttpConnector::new(Arc::new(HyperBackend::default()), endpoint, limits());
    let refused = connector.with_auth(Arc::new(world.oauth("a"))).unwrap_err();
    assert_eq!(refused, EndpointError::Reserved("authorization".to_owned()));
}

#[test]
fn z01_nothing_of_a_connection_shows_a_token() {
    isolated(async |test| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect(MODERN).await;
        let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
            connection.request().await;
            connection.json("401 Unauthorized", REFUSED, &json!({})).await;
            connection.request().await;
            connection.json("401 Unauthorized", REFUSED, &json!({})).await;
        });
        let mut shown = format!("{sent:?} {:?} {:?}", client.transport, site.connector());
        shown += &format!("{:?}", test.log().records());
        assert!(!shown.contains("a101") && !shown.contains("a102"), "{shown}");
        client.close().await;
        assert_eq!(site.oauth.close(soon()).await, 0);
    });
}
