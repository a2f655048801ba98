//! What a logout forgets here, and what it has the authorization server take back.
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

use std::time::Duration;

use auth::*;
use mcp_transport::auth::*;
use serde_json::{Value, json};
use tokio::time::Instant;

const REVOKE: &str = "as-a.example/revoke";

/// Tokens of an issuer that takes them back.
async fn world() -> World {
    let world = World::new();
    world.net.answer(REVOKE, 200, Value::Null);
    world
        .plant("a", |record| {
            let metadata = &mut record.metadata.as_mut().unwrap().document;
            metadata.revocation_endpoint = Some("https://as-a.example/revoke".to_owned());
        })
        .await;
    world
}

fn revoked(world: &World) -> Vec<(String, String)> {
    let seen = world.net.log().into_iter().filter(|seen| seen.path == "/revoke");
    seen.map(|seen| (seen.value("token_type_hint").unwrap(), seen.value("token").unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_logout_forgets_everything() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.logout().await.unwrap();
    assert_eq!(world.kept("a").await, None);
    assert_eq!(token(&oauth).await, Ok(None));
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert_eq!(end, Ok(AfterRefusal::Repeat), "the token of that request is not the present one");
}

#[tokio::test(start_paused = true)]
async fn a_logout_has_the_refresh_token_taken_back_and_then_the_other() {
    let world = world().await;
    assert_eq!(world.oauth("a").logout().await, Ok(Revocation::Done));
    let both = [("refresh_token", "r1"), ("access_token", "a1")];
    assert_eq!(revoked(&world), both.map(|(kind, token)| (kind.to_owned(), token.to_owned())));
    assert_eq!(world.net.log()[0].value("client_id").as_deref(), Some("client-a"));
    assert_eq!(world.kept("a").await, None);
    // There is nothing left to take back.
    assert_eq!(world.oauth("a").logout().await, Ok(Revocation::NotOffered));
    assert_eq!(revoked(&world).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_take_tokens_back_is_reported_and_keeps_nobody_logged_in() {
    for (status, body) in [
        (0, Value::Null),
        (400, json!({"error": "invalid_client", "error_description": "canary r1"})),
        (404, Value::Null),
        (503, Value::Null),
    ] {
        let world = world().await;
        world.net.answer(REVOKE, status, body);
        let oauth = world.oauth("a");
        let Ok(Revocation::Failed(error)) = oauth.logout().await else { panic!("{status}") };
        assert_eq!(error.is_transient(), matches!(status, 0 | 503), "{error}");
        assert!(!error.to_string().contains("r1"), "{error}");
        assert_eq!(revoked(&world).len(), 1, "it has said enough");
        assert_eq!((world.kept("a").await, token(&oauth).await), (None, Ok(None)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_logout_waits_ten_seconds_for_the_server_and_no_longer() {
    let world = world().await;
    world.net.hold(REVOKE);
    let began = Instant::now();
    let Ok(Revocation::Failed(error)) = world.oauth("a").logout().await else { panic!() };
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert!(error.is_transient());
    assert_eq!(world.kept("a").await, None);
}

#[tokio::test(start_paused = true)]
async fn b04_tokens_of_another_configuration_are_forgotten_without_a_word_to_their_issuer() {
    let world = world().await;
    let mut settings = OAuthSettings::default();
    settings.client = Some(ConfiguredClient { id: "c".into(), secret: Some("s".into()), method: None });
    let oauth = OAuth::new("a", World::url("a"), settings, world.seams());
    let end = oauth.logout().await;
    assert!(matches!(end, Ok(Revocation::Failed(AuthError::Config(_)))), "{end:?}");
    assert_eq!((world.kept("a").await, world.net.log().len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn f174_a_place_to_revoke_at_is_an_endpoint_like_the_others() {
    for place in ["http://as-a.example/revoke", "/revoke", "https://127.0.0.1/revoke"] {
        let world = world().await;
        let spoil = |record: &mut CredentialRecord| {
            record.metadata.as_mut().unwrap().document.revocation_endpoint = Some(place.to_owned());
        };
        world.plant("a", spoil).await;
        let end = world.oauth("a").logout().await;
        assert!(matches!(end, Ok(Revocation::Failed(AuthError::Refused(_)))), "{place}: {end:?}");
        assert_eq!((world.kept("a").await, world.net.log().len()), (None, 0));
    }
}
