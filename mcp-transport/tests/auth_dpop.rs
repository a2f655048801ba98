//! Tokens are bound to a key that is never lost while they stand, and every request proves it anew.
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

use std::collections::HashSet;
use std::sync::Arc;

use auth::*;
use dpop::{ASKS, Bound, nonces};
use mcp_transport::auth::*;
use serde_json::json;

const TOKEN: &str = "as-a.example/token";
const METADATA: &str = "as-a.example/.well-known/oauth-authorization-server";

fn required() -> OAuthSettings {
    let mut settings = OAuthSettings::default();
    settings.dpop = Dpop::Required;
    settings
}

fn for_itself() -> OAuthSettings {
    let mut settings = OAuthSettings::default();
    settings.grant = Grant::ClientCredentials;
    settings.issuer = Some("https://as-a.example".to_owned());
    let method = Some(AuthMethod::ClientSecretPost);
    settings.client = Some(ConfiguredClient { id: "c".into(), secret: Some("canary-secret".into()), method });
    settings
}

/// The token that a request would carry, and whether it is bound to a key.
async fn access(oauth: &OAuth) -> (String, bool) {
    let found = oauth.authorize().await.unwrap().0.unwrap();
    (found.token.expose().to_owned(), found.key.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_login_binds_its_tokens_to_a_key_that_outlives_restarts() {
    let bound = Bound::new();
    let oauth = bound.logged_in(OAuthSettings::default()).await.unwrap();
    assert_eq!(access(&oauth).await, ("a101".to_owned(), true));
    drop(oauth);
    // Another process, whose refresh token is of no use without the key.
    bound.world.calendar.set(3600);
    assert_eq!(access(&bound.oauth(OAuthSettings::default())).await, ("a102".to_owned(), true));
    let keys: HashSet<String> = bound.issuer.proofs().into_iter().map(|proof| proof.key).collect();
    assert_eq!((keys.len(), bound.world.net.count(TOKEN)), (1, 2));
    assert!(bound.kept().await.is_bound);
}

#[cfg(unix)]
#[tokio::test]
async fn the_key_is_read_back_from_a_file_that_shows_it_to_nobody_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let (bound, folder) = (Bound::new(), tempfile::tempdir().unwrap());
    let store = FileStore::new(folder.path().join("oauth"));
    let with_files = |settings| {
        let seams = OAuthSeams { store: Arc::new(store.clone()), ..bound.seams() };
        OAuth::new("a", World::url("a"), settings, seams)
    };
    let oauth = with_files(required());
    oauth.login(ui(&Person::new(Habit::Grants)), false).await.unwrap();
    let record = store.load(&World::key("a")).await.unwrap().unwrap();
    let key = record.tokens.as_ref().unwrap().dpop_key.clone().unwrap();
    assert!(!format!("{oauth:?} {record:?} {key:?}").contains(key.secret().expose()));
    let file = folder.path().join("oauth").join(format!("{}.json", World::key("a").file_stem()));
    assert!(std::fs::read_to_string(&file).unwrap().contains(key.secret().expose()));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    bound.world.calendar.set(3600);
    assert_eq!(access(&with_files(required())).await, ("a102".to_owned(), true));
    let again = store.load(&World::key("a")).await.unwrap().unwrap();
    assert_eq!(again.tokens.unwrap().dpop_key, Some(key));
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_token_is_made_again_once_with_the_nonce_that_the_server_names() {
    let bound = Bound::new();
    bound.issuer.want_nonce("n-1");
    let oauth = bound.logged_in(OAuthSettings::default()).await.unwrap();
    assert_eq!(nonces(&bound.issuer.proofs()), [None, Some("n-1")]);
    assert_eq!(bound.world.net.count(TOKEN), 1, "the code was looked at once");
    // It is known by now, until there is a newer one.
    bound.world.calendar.set(3600);
    assert_eq!(access(&oauth).await, ("a102".to_owned(), true));
    bound.issuer.want_nonce("n-2");
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.on_accepted(stamp);
    assert_eq!(oauth.on_refused(401, challenges(ASKS), stamp).await, Ok(AfterRefusal::Repeat));
    assert_eq!(nonces(&bound.issuer.proofs())[2..], [Some("n-1"), Some("n-1"), Some("n-2")]);
    let keys: HashSet<String> = bound.issuer.proofs().into_iter().map(|proof| proof.key).collect();
    assert_eq!(keys.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_one_nonce_after_the_other_is_asked_twice() {
    let bound = Bound::new();
    bound.issuer.be_fickle();
    let end = bound.logged_in(OAuthSettings::default()).await.unwrap_err();
    assert!(end.is_transient(), "{end:?}");
    assert_eq!(bound.issuer.proofs().len(), 2);
    let mut settings = for_itself();
    settings.dpop = Dpop::Required;
    let oauth = bound.oauth(settings);
    let (_, stamp) = oauth.authorize().await.unwrap();
    let end = oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err();
    assert!(end.is_transient(), "{end:?}");
    assert_eq!(bound.issuer.proofs().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_is_refused_for_want_of_nonces_loses_nothing() {
    let bound = Bound::new();
    let oauth = bound.logged_in(OAuthSettings::default()).await.unwrap();
    let before = bound.kept().await;
    bound.issuer.be_fickle();
    bound.world.calendar.set(3600);
    let end = oauth.authorize().await.unwrap_err();
    assert!(end.is_transient() && !end.needs_auth(), "{end:?}");
    assert_eq!((bound.issuer.proofs().len(), bound.kept().await), (3, before));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_bound_is_good_unless_it_has_to_be() {
    let bound = Bound::new();
    bound.issuer.be_lax();
    let oauth = bound.logged_in(OAuthSettings::default()).await.unwrap();
    assert_eq!(access(&oauth).await, ("a101".to_owned(), false));
    // The refresh token may be bound all the same.
    bound.world.calendar.set(3600);
    assert_eq!(access(&oauth).await, ("a102".to_owned(), false));
    let keys: HashSet<String> = bound.issuer.proofs().into_iter().map(|proof| proof.key).collect();
    assert_eq!((bound.issuer.proofs().len(), keys.len()), (2, 1));

    let refused = Bound::new();
    refused.issuer.be_lax();
    let end = refused.logged_in(required()).await.unwrap_err();
    assert_eq!(end, AuthError::Refused(Refusal::NotBound));
    assert!(refused.world.kept("a").await.is_none(), "nothing is kept of it");
}

#[tokio::test(start_paused = true)]
async fn whoever_requires_bound_tokens_uses_no_others_and_asks_nobody_in_vain() {
    let world = World::new();
    let person = Person::new(Habit::Grants);
    world.plant("a", |_| {}).await;
    let oauth = OAuth::new("a", World::url("a"), required(), world.seams());
    assert_eq!(token(&oauth).await, Ok(None), "what is kept is not bound");
    let end = oauth.login(ui(&person), false).await.unwrap_err();
    assert_eq!(end, AuthError::Refused(Refusal::NoDpop), "the authorization server does not offer it");
    assert_eq!((person.counts(), world.net.count(TOKEN)), ([0, 0, 0], 0));
}

#[tokio::test(start_paused = true)]
async fn tokens_are_not_bound_where_nobody_asks_for_it_or_it_is_switched_off() {
    let mut off = OAuthSettings::default();
    off.dpop = Dpop::Off;
    for (settings, asks) in [(OAuthSettings::default(), "Bearer"), (off, ASKS)] {
        let world = World::new();
        let mut metadata = json!({"issuer": "https://as-a.example", "dpop_signing_alg_values_supported": ["ES256"],
            "code_challenge_methods_supported": ["S256"]});
        for name in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
            let path = if name == "registration_endpoint" { "register" } else { "token" };
            metadata[name] = format!("https://as-a.example/{path}").into();
        }
        world.net.answer(METADATA, 200, metadata);
        let oauth = OAuth::new("a", World::url("a"), settings, world.seams());
        let (_, stamp) = oauth.authorize().await.unwrap();
        oauth.on_refused(401, challenges(asks), stamp).await.unwrap_err();
        oauth.login(ui(&Person::new(Habit::Grants)), false).await.unwrap();
        assert_eq!(access(&oauth).await, ("a101".to_owned(), false));
        assert_eq!(world.kept("a").await.unwrap().tokens.unwrap().dpop_key, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_acts_for_itself_binds_its_tokens_once_the_server_asks_for_it() {
    let bound = Bound::new();
    bound.world.net.answer(TOKEN, 200, json!({"access_token": "m1", "expires_in": 100}));
    bound.issuer.want_nonce("n-1");
    let oauth = bound.oauth(for_itself());
    let (_, stamp) = oauth.authorize().await.unwrap();
    assert_eq!(oauth.on_refused(401, challenges(ASKS), stamp).await, Ok(AfterRefusal::Repeat));
    assert_eq!(access(&oauth).await, ("m1".to_owned(), true));
    assert_eq!(nonces(&bound.issuer.proofs()), [None, Some("n-1")]);
    // Another process knows from what is kept, and each token has a key of its own.
    bound.world.calendar.set(100);
    bound.world.net.answer(TOKEN, 200, json!({"access_token": "m2", "expires_in": 100}));
    let oauth = bound.oauth(for_itself());
    let (_, stamp) = oauth.authorize().await.unwrap();
    assert_eq!(oauth.on_refused(401, Challenges::default(), stamp).await, Ok(AfterRefusal::Repeat));
    assert_eq!(access(&oauth).await, ("m2".to_owned(), true));
    let keys: HashSet<String> = bound.issuer.proofs().into_iter().map(|proof| proof.key).collect();
    assert_eq!(keys.len(), 2);
}
