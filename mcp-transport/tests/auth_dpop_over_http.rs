//! Requests over HTTP prove that they have the key of their token, each for itself and once for each nonce.
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
mod dpop;
mod net;

use std::collections::HashSet;
use std::sync::Arc;

use auth::*;
use dpop::{ASKS, Bound, Proof, nonces};
use mcp_proto::{ProtocolVersion, Secret};
use mcp_transport::auth::*;
use mcp_transport::http::HttpConnector;
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::{NetConnection, NetRequest, NetServer};
use mcp_transport::{AuthFailureKind, HttpProfile, Sent};
use net::{Client, answer, connector, limits};
use serde_json::json;

const TOKEN: &str = "as-a.example/token";

/// A server on loopback that takes bound tokens, and a login at its authorization server.
struct Site {
    bound: Bound,
    server: NetServer,
    oauth: OAuth,
}

impl Site {
    async fn logged_in() -> Self {
        let (bound, server) = (Bound::new(), NetServer::bind().await);
        let url = server.url();
        let document = json!({"resource": url, "authorization_servers": ["https://as-a.example"],
            "dpop_signing_alg_values_supported": ["ES256"]});
        bound.world.net.answer("127.0.0.1/.well-known/oauth-protected-resource/mcp", 200, document);
        let oauth = OAuth::new("a", WebUrl::parse(&url).unwrap(), OAuthSettings::default(), bound.seams());
        oauth.login(ui(&Person::new(Habit::Grants)), false).await.unwrap();
        Self { bound, server, oauth }
    }

    fn connector(&self) -> HttpConnector {
        connector(&self.server.url(), limits()).with_auth(Arc::new(self.oauth.clone())).unwrap()
    }

    async fn connect(&self) -> (Client, NetConnection) {
        let (client, connection) = Client::connect_by(self.connector(), &self.server).await;
        client.transport.set_profile(HttpProfile::new(ProtocolVersion::V2026_07_28));
        (client, connection)
    }

    /// The proof of a request, which presents this token, to this path.
    #[track_caller]
    fn proof(&self, request: &NetRequest, token: &str, path: &str) -> Proof {
        assert_eq!(request.header("authorization"), Some(format!("DPoP {token}").as_str()));
        let url = self.server.url().replace("/mcp", path);
        let proof = Proof::read(request.header("dpop").unwrap(), "POST", &url);
        assert!(proof.is_of(token));
        proof
    }

    async fn kept(&self) -> Tokens {
        let key = CredentialKey::new("a", &WebUrl::parse(&self.server.url()).unwrap());
        self.bound.world.store.load(&key).await.unwrap().unwrap().tokens.unwrap()
    }

    fn count(&self) -> usize {
        self.bound.world.net.count(TOKEN)
    }
}

/// A refusal for want of this nonce.
fn wants(nonce: &str) -> String {
    format!("www-authenticate: DPoP error=\"use_dpop_nonce\"\r\ndpop-nonce: {nonce}\r\n")
}

#[test]
fn each_request_presents_the_token_with_a_proof_of_its_own() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect().await;
        let mut proofs = Vec::new();
        for id in 1..=3 {
            let (sent, proof) = tokio::join!(client.send(id, "tools/list"), async {
                let proof = site.proof(&connection.request().await, "a101", "/mcp");
                connection.json("200 OK", "", &answer(id, "x")).await;
                proof
            });
            assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
            proofs.push(proof);
        }
        let login = site.bound.issuer.proofs();
        proofs.extend(login);
        let jtis: HashSet<&String> = proofs.iter().map(|proof| &proof.jti).collect();
        let keys: HashSet<&String> = proofs.iter().map(|proof| &proof.key).collect();
        assert_eq!((jtis.len(), keys.len()), (4, 1));
        client.close().await;
    });
}

#[test]
fn a_request_is_sent_again_with_the_nonce_of_the_server_and_the_token_is_not_renewed_for_it() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect().await;
        let (sent, proofs) = tokio::join!(client.send(1, "tools/list"), async {
            let first = site.proof(&connection.request().await, "a101", "/mcp");
            connection.json("401 Unauthorized", &wants("n-1"), &json!({})).await;
            let second = site.proof(&connection.request().await, "a101", "/mcp");
            // The newest one counts, whatever answer it comes with.
            connection.json("200 OK", "dpop-nonce: n-2\r\n", &answer(1, "x")).await;
            [first, second]
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
        assert_eq!(nonces(&proofs), [None, Some("n-1")]);
        assert_ne!(proofs[0].jti, proofs[1].jti);
        let (sent, proof) = tokio::join!(client.send(2, "tools/list"), async {
            let proof = site.proof(&connection.request().await, "a101", "/mcp");
            connection.json("200 OK", "", &answer(2, "x")).await;
            proof
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
        assert_eq!(proof.nonce.as_deref(), Some("n-2"));
        assert_eq!(site.count(), 1, "the login alone");
        assert_eq!(nonces(&site.bound.issuer.proofs()), [None], "those of the server are its own");
        client.close().await;
    });
}

#[test]
fn a_server_that_wants_one_nonce_after_the_other_is_tried_twice_and_nobody_has_to_log_in() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let unnamed = "www-authenticate: DPoP error=\"use_dpop_nonce\"\r\n".to_owned();
        let invalid = unnamed.replace("use_dpop_nonce", "invalid_dpop_proof");
        for refusals in [vec![unnamed], vec![wants("n-1"), wants("n-2")], vec![invalid]] {
            let (client, mut connection) = site.connect().await;
            let (sent, ()) = tokio::join!(client.send(1, "tools/list"), async {
                for refusal in &refusals {
                    site.proof(&connection.request().await, "a101", "/mcp");
                    connection.json("401 Unauthorized", refusal, &json!({})).await;
                }
            });
            let Ok(Sent::Rejected(rejection)) = sent else { panic!("{sent:?}") };
            assert_eq!(rejection.auth.unwrap().kind, AuthFailureKind::Unavailable(None), "{refusals:?}");
            client.close().await;
        }
        assert_eq!(site.count(), 1, "the token was not refused");
        assert!(site.kept().await.is_bound);
    });
}

#[test]
fn a_token_that_is_refused_and_a_nonce_that_is_wanted_are_counted_apart() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (_, stamp) = site.oauth.authorize().await.unwrap();
        site.oauth.on_accepted(stamp);
        let (client, mut connection) = site.connect().await;
        let refused = format!("www-authenticate: {ASKS}\r\n");
        let (sent, proofs) = tokio::join!(client.send(1, "tools/list"), async {
            let first = site.proof(&connection.request().await, "a101", "/mcp");
            connection.json("401 Unauthorized", &refused, &json!({})).await;
            let second = site.proof(&connection.request().await, "a102", "/mcp");
            connection.json("401 Unauthorized", &wants("n-1"), &json!({})).await;
            let third = site.proof(&connection.request().await, "a102", "/mcp");
            connection.json("200 OK", "", &answer(1, "x")).await;
            [first, second, third]
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
        assert_eq!(nonces(&proofs), [None, None, Some("n-1")]);
        assert_eq!(site.count(), 2, "the login, and one renewal");
        client.close().await;
    });
}

#[test]
fn a_redirected_request_proves_where_it_goes() {
    isolated(async |_| {
        let site = Site::logged_in().await;
        let (client, mut connection) = site.connect().await;
        let (sent, proofs) = tokio::join!(client.send(1, "tools/list"), async {
            let first = site.proof(&connection.request().await, "a101", "/mcp");
            connection.json("307 Temporary Redirect", "location: /there?x=y\r\n", &json!({})).await;
            let second = site.proof(&connection.request().await, "a101", "/there");
            connection.json("200 OK", "", &answer(1, "x")).await;
            [first, second]
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
        assert_ne!(proofs[0].jti, proofs[1].jti);
        client.close().await;
    });
}

#[test]
fn z01_nothing_of_a_connection_shows_a_proof_or_a_key() {
    isolated(async |test| {
        let site = Site::logged_in().await;
        let key: Secret = site.kept().await.dpop_key.unwrap().secret().clone();
        let (client, mut connection) = site.connect().await;
        let (sent, proof) = tokio::join!(client.send(1, "tools/list"), async {
            connection.request().await;
            connection.json("401 Unauthorized", &wants("n-1"), &json!({})).await;
            let request = connection.request().await;
            connection.json("401 Unauthorized", &wants("n-2"), &json!({})).await;
            request.header("dpop").unwrap().to_owned()
        });
        let mut shown = format!("{sent:?} {:?} {:?} {:?}", client.transport, site.connector(), site.oauth);
        shown += &format!("{:?}", test.log().records());
        let signature = proof.rsplit('.').next().unwrap();
        for secret in [key.expose(), "a101", signature] {
            assert!(!shown.contains(secret), "{shown}");
        }
        client.close().await;
    });
}
