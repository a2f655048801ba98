//! A client that acts for itself: no person, no registration, and its secret for one issuer alone.
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

use auth::*;
use mcp_transport::auth::*;
use serde_json::{Value, json};

const TOKEN: &str = "as-a.example/token";
const METADATA: &str = "as-a.example/.well-known/oauth-authorization-server";
const RESOURCE: &str = "rs-a.example/.well-known/oauth-protected-resource/mcp";

fn settings() -> OAuthSettings {
    let mut settings = OAuthSettings::default();
    settings.grant = Grant::ClientCredentials;
    settings.issuer = Some("https://as-a.example".to_owned());
    settings.client =
        Some(ConfiguredClient { id: "c".into(), secret: Some("canary-secret".into()), method: None });
    settings
}

fn world() -> World {
    let world = World::new();
    world.net.answer(
        TOKEN,
        200,
        json!({"access_token": "m1", "expires_in": 100, "refresh_token": "unwanted"}),
    );
    world
}

fn oauth(world: &World, settings: OAuthSettings) -> OAuth {
    OAuth::new("a", World::url("a"), settings, world.seams())
}

#[tokio::test(start_paused = true)]
async fn a_token_is_made_before_the_first_request_and_again_when_it_ends() {
    let world = world();
    let oauth = oauth(&world, settings());
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("m1"));
    assert_eq!(world.net.places(), [RESOURCE, METADATA, TOKEN], "nobody is asked, nothing registered");
    let request = world.net.log().pop().unwrap();
    assert_eq!(request.value("grant_type").as_deref(), Some("client_credentials"));
    assert_eq!(request.value("resource").as_deref(), Some("https://rs-a.example/mcp"));
    assert_eq!(
        (request.value("client_secret"), request.value("client_id")),
        (None, None),
        "it is in the header"
    );
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("m1"));
    assert_eq!(world.net.count(TOKEN), 1);
    let kept = world.kept("a").await.unwrap().tokens.unwrap();
    assert_eq!(kept.refresh_token, None);
    world.calendar.set(100);
    world.net.answer(TOKEN, 200, json!({"access_token": "m2"}));
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("m2"));
    assert_eq!(world.net.count(TOKEN), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_makes_one_new_token_and_a_second_one_ends_it() {
    let world = world();
    let oauth = oauth(&world, settings());
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.on_accepted(stamp);
    world.net.answer(TOKEN, 200, json!({"access_token": "m2"}));
    assert_eq!(oauth.on_refused(401, unauthorized(), stamp).await, Ok(AfterRefusal::Repeat));
    let (token, stamp) = oauth.authorize().await.unwrap();
    assert_eq!(token.unwrap().expose(), "m2");
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Rejected)));
    assert_eq!(world.net.count(TOKEN), 2);
}

#[tokio::test(start_paused = true)]
async fn the_secret_goes_the_way_that_the_server_lists() {
    for (methods, is_posted) in [
        (Value::Null, false),
        (json!(["client_secret_basic"]), false),
        (json!(["client_secret_post", "client_secret_basic"]), false),
        (json!(["client_secret_post"]), true),
    ] {
        let world = world();
        world.net.answer(
            METADATA,
            200,
            json!({"issuer": "https://as-a.example", "token_endpoint": "https://as-a.example/token",
                "token_endpoint_auth_methods_supported": methods}),
        );
        token(&oauth(&world, settings())).await.unwrap();
        let secret = world.net.log().pop().unwrap().value("client_secret");
        assert_eq!(secret.is_some(), is_posted, "{methods}");
    }
}

#[tokio::test(start_paused = true)]
async fn m02_a_secret_goes_to_the_configured_issuer_alone() {
    let evil =
        json!({"resource": "https://rs-a.example/mcp", "authorization_servers": ["https://as-b.example"]});
    let posing = json!({"issuer": "https://as-b.example", "token_endpoint": "https://as-b.example/token"});
    for (place, document) in [(RESOURCE, evil), (METADATA, posing)] {
        let world = world();
        world.net.answer(place, 200, document);
        let end = token(&oauth(&world, settings())).await;
        assert!(matches!(end, Err(AuthError::Refused(_))), "{end:?}");
        assert!(world.net.places().iter().all(|place| !place.ends_with("/token")));
    }
    // Of a server that publishes nothing nothing is guessed: the configured issuer is asked all the same.
    for is_published in [true, false] {
        let world = world();
        world.net.answer(RESOURCE, 404, Value::Null);
        if !is_published {
            world.net.answer(METADATA, 404, Value::Null);
        }
        let end = token(&oauth(&world, settings())).await;
        assert_eq!(end.is_ok(), is_published, "{end:?}");
        let posted: Vec<_> = world.net.log().into_iter().filter(|seen| seen.form != Form::new()).collect();
        assert_eq!(posted.len(), usize::from(is_published));
        assert!(posted.iter().all(|seen| seen.host == "as-a.example"), "{posted:?}");
        assert!(is_published || matches!(end, Err(AuthError::Refused(_))), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_in_the_configuration_is_named() {
    type Spoil = fn(&mut OAuthSettings);
    let spoilers: [(Spoil, &str); 3] = [
        (|settings| settings.issuer = None, "issuer"),
        (|settings| settings.client = None, "client_id"),
        (|settings| settings.client.as_mut().unwrap().secret = None, "client_secret"),
    ];
    for (spoil, key) in spoilers {
        let (world, mut settings) = (world(), settings());
        spoil(&mut settings);
        let Err(AuthError::Config(what)) = token(&oauth(&world, settings)).await else { panic!("{key}") };
        assert!(what.contains(key), "{what}");
        assert!(world.net.log().is_empty());
    }
    let end = oauth(&world(), settings()).login(ui(&Person::new(Habit::Grants)), true).await;
    assert!(matches!(end, Err(AuthError::Config(_))));
}
