//! A client that acts for itself: no person, no registration, and what it shows for one issuer alone.
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

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use auth::*;
use mcp_proto::Secret;
use mcp_transport::auth::*;
use serde_json::{Value, json};
use tokio::time::timeout;

const TOKEN: &str = "as-a.example/token";
const METADATA: &str = "as-a.example/.well-known/oauth-authorization-server";
const RESOURCE: &str = "rs-a.example/.well-known/oauth-protected-resource/mcp";
const IDP: &str = "idp.example/token";
const PEM: &str = include_str!("data/keys/p256-pkcs8.pem");
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

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

/// The token that a request carries at last, after the server has asked for one.
async fn token(oauth: &OAuth) -> Result<Option<String>, AuthError> {
    token_for(oauth, unauthorized()).await
}

async fn token_for(oauth: &OAuth, challenge: Challenges) -> Result<Option<String>, AuthError> {
    let (token, stamp) = oauth.authorize().await?;
    if token.is_none() {
        assert_eq!(oauth.on_refused(401, challenge, stamp).await?, AfterRefusal::Repeat);
    }
    auth::token(oauth).await
}

#[tokio::test(start_paused = true)]
async fn a_token_is_made_when_the_server_asks_for_one_and_again_when_it_ends() {
    let world = world();
    let oauth = oauth(&world, settings());
    let (nothing, _) = oauth.authorize().await.unwrap();
    assert!(nothing.is_none() && world.net.log().is_empty(), "nobody has asked for a token");
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
    assert_eq!(auth::token(&oauth).await.unwrap().as_deref(), Some("m2"), "before the request");
    assert_eq!(world.net.count(TOKEN), 2);
}

#[tokio::test(start_paused = true)]
async fn t01_a_token_that_has_ended_while_the_program_was_not_there_is_replaced() {
    let world = world();
    token(&oauth(&world, settings())).await.unwrap();
    world.calendar.set(100);
    let oauth = oauth(&world, settings());
    let (old, stamp) = oauth.authorize().await.unwrap();
    assert_eq!(old.unwrap().token.expose(), "m1", "the server says what it wants");
    world.net.answer(TOKEN, 200, json!({"access_token": "m2"}));
    assert_eq!(oauth.on_refused(401, unauthorized(), stamp).await, Ok(AfterRefusal::Repeat));
    assert_eq!(auth::token(&oauth).await.unwrap().as_deref(), Some("m2"));
    assert_eq!(world.net.count(TOKEN), 2);
}

#[tokio::test(start_paused = true)]
async fn d01_the_challenge_says_where_and_for_what_a_token_is_made() {
    const PLACE: &str = "rs-a.example/elsewhere";
    let metadata = json!({"resource": "https://rs-a.example/mcp", "scopes_supported": ["listed"],
        "authorization_servers": ["https://as-a.example"]});
    for (grant, exchange) in [
        (Grant::ClientCredentials, None),
        (workload(), None),
        (enterprise("https://idp.example/token"), Some(IDP)),
    ] {
        for configured in [None, Some("own")] {
            let world = world();
            vouching(&world);
            world.net.answer(RESOURCE, 404, Value::Null);
            world.net.answer(PLACE, 200, metadata.clone());
            let mut settings = with(grant.clone());
            settings.scope = configured.map(str::to_owned);
            let oauth = oauth(&world, settings);
            let challenge = r#"Bearer resource_metadata="/elsewhere", scope="x y""#;
            let made = token_for(&oauth, challenges(challenge)).await.unwrap();
            assert_eq!(made.as_deref(), Some("m1"), "{grant:?}");
            let expected: Vec<&str> = [PLACE, METADATA].into_iter().chain(exchange).chain([TOKEN]).collect();
            assert_eq!(world.net.places(), expected, "{grant:?}");
            let asked_for = |seen: &Seen| seen.value("scope");
            for seen in world.net.log().iter().filter(|seen| seen.form != Form::new()) {
                assert_eq!(asked_for(seen).as_deref(), configured.or(Some("x y")), "{grant:?} {seen:?}");
            }
            // And so does the next one.
            world.calendar.set(100);
            auth::token(&oauth).await.unwrap();
            assert_eq!(world.net.places(), [expected.clone(), expected].concat(), "{grant:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_makes_one_new_token_and_a_second_one_ends_it() {
    let world = world();
    let oauth = oauth(&world, settings());
    token(&oauth).await.unwrap();
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.on_accepted(stamp);
    world.net.answer(TOKEN, 200, json!({"access_token": "m2"}));
    assert_eq!(oauth.on_refused(401, unauthorized(), stamp).await, Ok(AfterRefusal::Repeat));
    let (token, stamp) = oauth.authorize().await.unwrap();
    assert_eq!(token.unwrap().token.expose(), "m2");
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
    let spoilers: [(Spoil, &str); 5] = [
        (|settings| settings.issuer = None, "issuer"),
        (|settings| settings.client = None, "client_id"),
        (|settings| settings.client.as_mut().unwrap().secret = None, "client_secret"),
        (
            |settings| {
                settings.grant = workload();
                settings.issuer = None;
            },
            "issuer",
        ),
        (|settings| settings.grant = enterprise("http://idp.example/token"), "https"),
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

/// An identity, and to whom it was to be shown.
#[derive(Debug, Default)]
struct Badge {
    audiences: Mutex<Vec<String>>,
    is_gone: bool,
    /// Which token it is; 0 if that cannot be told.
    state: AtomicU64,
}

#[async_trait]
impl IdentitySource for Badge {
    async fn identity(&self, audience: &str) -> Result<Secret, AuthError> {
        let mut audiences = self.audiences.lock().unwrap();
        audiences.push(audience.to_owned());
        match self.is_gone {
            true => Err(AuthError::NeedsAuth(NeedsAuth::Identity)),
            false => Ok(format!("canary-identity-{}", audiences.len()).into()),
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        let state = self.state.load(Ordering::SeqCst);
        (state > 0).then(|| Stamp::new([state, 0, 0]))
    }
}

fn workload() -> Grant {
    Grant::WorkloadIdentity(Arc::new(Badge::default()))
}

fn enterprise(token_endpoint: &str) -> Grant {
    let endpoint = WebUrl::parse(token_endpoint).unwrap();
    Grant::EnterpriseManaged(IdentityProvider::new(endpoint, "idp-client", Arc::new(Badge::default())))
}

fn with(grant: Grant) -> OAuthSettings {
    let mut settings = settings();
    settings.grant = grant;
    settings
}

fn vouching(world: &World) {
    world.net.answer(
        IDP,
        200,
        json!({"access_token": "canary-jag", "token_type": "N_A",
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}),
    );
}

/// The claims of an assertion.
fn claims(assertion: &str) -> Value {
    use base64::Engine as _;
    let claims = assertion.split('.').nth(1).unwrap();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
    serde_json::from_slice(&claims).unwrap()
}

#[tokio::test(start_paused = true)]
async fn m01_a_client_with_a_key_needs_neither_secret_nor_issuer() {
    let world = world();
    let mut settings = settings();
    settings.issuer = None;
    settings.client = Some(ConfiguredClient { id: "c".into(), secret: None, method: None });
    settings.signer = Some(Arc::new(SigningKey::from_pem(&PEM.into()).unwrap()));
    let oauth = oauth(&world, settings);
    for lifetime in [0, 100] {
        world.calendar.set(lifetime);
        token(&oauth).await.unwrap();
    }
    let posted: Vec<_> = world.net.log().into_iter().filter(|seen| seen.path == "/token").collect();
    let assertions: Vec<_> = posted.iter().map(|seen| seen.value("client_assertion").unwrap()).collect();
    assert_eq!(assertions.len(), 2);
    let [first, second] = [0, 1].map(|index| claims(&assertions[index]));
    assert_eq!((&first["iss"], &first["sub"], &first["aud"]), (&"c".into(), &"c".into(), &second["aud"]));
    assert_eq!(first["aud"], "https://as-a.example");
    assert_eq!(second["iat"], NOW + 100);
    assert_ne!(first["jti"], second["jti"]);
    assert!(posted.iter().all(|seen| !seen.form.has("client_id")), "{posted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_goes_to_an_issuer_that_nobody_has_named_only_where_the_user_allows_it() {
    let world = world();
    let mut settings = settings();
    settings.issuer = None;
    settings.allows_any_issuer = true;
    assert_eq!(token(&oauth(&world, settings)).await.unwrap().as_deref(), Some("m1"));
}

#[tokio::test(start_paused = true)]
async fn a_workload_shows_its_identity_to_the_issuer_and_once() {
    let world = world();
    let badge = Arc::new(Badge::default());
    let oauth = oauth(&world, with(Grant::WorkloadIdentity(badge.clone())));
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("m1"));
    assert_eq!(world.net.places(), [RESOURCE, METADATA, TOKEN]);
    let request = world.net.log().pop().unwrap();
    assert_eq!(request.value("grant_type").as_deref(), Some(JWT_BEARER));
    assert_eq!(request.value("assertion").as_deref(), Some("canary-identity-1"));
    assert_eq!(*badge.audiences.lock().unwrap(), ["https://as-a.example"]);
    // Refused: no other grant, and nothing again.
    world.calendar.set(100);
    let refusal = json!({"error": "invalid_grant", "error_description": "canary-identity-2 is over"});
    world.net.answer(TOKEN, 400, refusal);
    let end = token(&oauth).await.unwrap_err();
    assert!(matches!(&end, AuthError::Denied(reply) if reply.is("invalid_grant")), "{end:?}");
    assert!(!end.to_string().contains("canary"), "{end}");
    assert_eq!(world.net.count(TOKEN), 2);
}

#[tokio::test(start_paused = true)]
async fn an_organisation_vouches_for_a_person_and_its_word_is_shown_to_the_issuer() {
    let world = world();
    vouching(&world);
    let oauth = oauth(&world, with(enterprise("https://idp.example/token")));
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("m1"));
    assert_eq!(world.net.places(), [RESOURCE, METADATA, IDP, TOKEN], "no person is asked");
    let log = world.net.log();
    assert_eq!(log[2].value("audience").as_deref(), Some("https://as-a.example"));
    assert_eq!(log[2].value("resource").as_deref(), Some("https://rs-a.example/mcp"));
    assert_eq!(log[2].value("subject_token").as_deref(), Some("canary-identity-1"));
    assert_eq!(log[2].value("client_id").as_deref(), Some("idp-client"));
    assert!(!log[2].form.has("client_secret"), "that is what the issuer knows");
    assert_eq!(log[3].value("grant_type").as_deref(), Some(JWT_BEARER));
    assert_eq!(log[3].value("assertion").as_deref(), Some("canary-jag"));
    assert_eq!(log[3].value("resource").as_deref(), Some("https://rs-a.example/mcp"));
    // A refused token costs a new exchange, not the same word again.
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.on_accepted(stamp);
    world.net.answer(TOKEN, 200, json!({"access_token": "m2"}));
    assert_eq!(oauth.on_refused(401, unauthorized(), stamp).await, Ok(AfterRefusal::Repeat));
    assert_eq!((world.net.count(IDP), world.net.count(TOKEN)), (2, 2));
    assert_eq!(
        world
            .net
            .log()
            .iter()
            .filter(|seen| seen.value("subject_token").as_deref() == Some("canary-identity-2"))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn what_an_organisation_does_not_vouch_for_gets_no_token() {
    // Signed on too long ago: somebody has to do that again.
    let world = world();
    world.net.answer(IDP, 400, json!({"error": "invalid_grant"}));
    let end = token(&oauth(&world, with(enterprise("https://idp.example/token")))).await;
    assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Identity)));
    // Nobody is signed on.
    let badge = Badge { is_gone: true, ..Badge::default() };
    let endpoint = WebUrl::parse("https://idp.example/token").unwrap();
    let provider = IdentityProvider::new(endpoint, "idp-client", Arc::new(badge));
    let end = token(&oauth(&world, with(Grant::EnterpriseManaged(provider)))).await;
    assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Identity)));
    assert_eq!((world.net.count(IDP), world.net.count(TOKEN)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn f060_a_new_sign_on_is_noticed_and_makes_a_token() {
    let (world, badge) = (world(), Arc::new(Badge::default()));
    let endpoint = WebUrl::parse("https://idp.example/token").unwrap();
    let provider = IdentityProvider::new(endpoint, "idp-client", badge.clone());
    let oauth = oauth(&world, with(Grant::EnterpriseManaged(provider)));
    badge.state.store(1, Ordering::SeqCst);
    world.net.answer(IDP, 400, json!({"error": "invalid_grant"}));
    assert_eq!(token(&oauth).await, Err(AuthError::NeedsAuth(NeedsAuth::Identity)));
    let mut renewed = pin!(oauth.renewed());
    // The old one is known, and none at all is no new one.
    for state in [1, 0] {
        badge.state.store(state, Ordering::SeqCst);
        let early = timeout(Duration::from_secs(3600), renewed.as_mut()).await;
        assert!(early.is_err(), "{state}");
    }
    badge.state.store(2, Ordering::SeqCst);
    timeout(Duration::from_secs(1), renewed).await.expect("it is noticed within a second");
    vouching(&world);
    assert_eq!(auth::token(&oauth).await.unwrap().as_deref(), Some("m1"));
    assert_eq!(world.net.count(IDP), 2);
}

#[tokio::test(start_paused = true)]
async fn an_identity_assertion_is_shown_to_the_issuer_itself_and_where_it_is_taken() {
    let issuer = "https://as-a.example";
    for (document, is_shown) in [
        (json!({"issuer": issuer, "token_endpoint": "https://as-a.example/token"}), true),
        (
            json!({"issuer": issuer, "token_endpoint": "https://as-a.example/token",
                "authorization_grant_profiles_supported": ["x", "urn:ietf:params:oauth:grant-profile:id-jag"]}),
            true,
        ),
        (
            json!({"issuer": issuer, "token_endpoint": "https://as-a.example/token",
                "authorization_grant_profiles_supported": ["x"]}),
            false,
        ),
        (json!({"issuer": issuer, "token_endpoint": "https://as-b.example/token"}), false),
    ] {
        let world = world();
        vouching(&world);
        world.net.answer(METADATA, 200, document.clone());
        let end = token(&oauth(&world, with(enterprise("https://idp.example/token")))).await;
        assert_eq!(end.is_ok(), is_shown, "{document} {end:?}");
        assert!(is_shown || matches!(end, Err(AuthError::Refused(_))), "{end:?}");
        assert_eq!(world.net.count(IDP), usize::from(is_shown), "nothing is asked for in vain");
    }
}

#[tokio::test(start_paused = true)]
async fn t05_what_another_process_has_made_meanwhile_is_used() {
    let world = world();
    vouching(&world);
    let [one, other] = [(); 2].map(|()| oauth(&world, with(enterprise("https://idp.example/token"))));
    world.net.hold(IDP);
    let (first, second, ()) = tokio::join!(token(&one), token(&other), async {
        world.net.arrived(IDP, 2).await;
        world.net.release(IDP);
    });
    assert_eq!((first.unwrap(), second.unwrap()), (Some("m1".to_owned()), Some("m1".to_owned())));
    assert_eq!(world.net.count(TOKEN), 1);
}
