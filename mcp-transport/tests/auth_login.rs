//! Logins take turns at the person, are shared by who waits for them, and leave nothing behind.
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
use mcp_transport::testing::checks::isolated;
use serde_json::json;
use tokio::time::{Instant, timeout};

const TOKEN: &str = "as-a.example/token";

#[tokio::test(start_paused = true)]
async fn a_login_brings_a_token_that_the_next_process_finds() {
    let world = World::new();
    let (oauth, person) = (world.oauth("a"), Person::new(Habit::Grants));
    oauth.login(ui(&person), false).await.unwrap();
    assert_eq!(person.counts(), [1, 1, 1]);
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a101"));
    assert_eq!(token(&world.oauth("a")).await.unwrap().as_deref(), Some("a101"));
    oauth.login(ui(&person), false).await.unwrap();
    let counts = (world.net.count(TOKEN), person.counts());
    assert_eq!(counts, (1, [1, 1, 1]), "what is not known to be bad is replaced only on demand");
    oauth.login(ui(&person), true).await.unwrap();
    assert_eq!((world.net.count(TOKEN), person.counts()), (2, [2, 2, 2]), "and then it is");
}

#[tokio::test(start_paused = true)]
async fn s04_two_requests_that_were_refused_lead_to_one_login() {
    let world = World::new();
    world.plant("a", |record| record.tokens.as_mut().unwrap().refresh_token = None).await;
    let (oauth, person) = (world.oauth("a"), Person::new(Habit::Grants));
    let (_, stamp) = oauth.authorize().await.unwrap();
    for _ in 0..2 {
        let end = oauth.on_refused(401, unauthorized(), stamp).await;
        assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Expired)));
    }
    // Each caller has the user log in, one after the other.
    oauth.login(ui(&person), false).await.unwrap();
    oauth.login(ui(&person), false).await.unwrap();
    assert_eq!((world.net.count(TOKEN), person.counts()), (1, [1, 1, 1]));
    // But a token that the server refuses is replaced, however long it would live.
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err();
    oauth.login(ui(&person), false).await.unwrap();
    assert_eq!(person.counts(), [2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn k01_a_refusal_for_scope_that_comes_late_repeats_the_request() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    let wider = challenges("Bearer error=\"insufficient_scope\", scope=\"x y\"");
    assert!(oauth.on_refused(403, wider.clone(), stamp).await.unwrap_err().needs_auth());
    oauth.login(ui(&Person::new(Habit::Grants)), false).await.unwrap();
    // The other request had left with the old token.
    assert_eq!(oauth.on_refused(403, wider, stamp).await, Ok(AfterRefusal::Repeat));
}

#[tokio::test(start_paused = true)]
async fn s02_a_login_that_panics_ends_and_lets_the_next_one_in() {
    let world = World::new();
    let (oauth, other) = (world.oauth("a"), world.oauth("b"));
    let (broken, person) = (Person::new(Habit::Panics), Person::new(Habit::Grants));
    let end = timeout(Duration::from_secs(1), oauth.login(ui(&broken), false)).await;
    assert!(matches!(end, Ok(Err(AuthError::Unavailable { .. }))), "{end:?}");
    for oauth in [&oauth, &other] {
        let end = timeout(Duration::from_secs(1), oauth.login(ui(&person), false)).await;
        assert_eq!(end, Ok(Ok(())));
    }
    assert_eq!(broken.counts(), [1, 1, 1], "nothing listens any more");
}

#[tokio::test(start_paused = true)]
async fn f165_a_server_that_is_slow_holds_up_the_logins_of_others_for_a_minute() {
    for place in ["rs-a.example/.well-known/oauth-protected-resource/mcp", "as-a.example/register"] {
        let world = World::new();
        let (a, b) = (world.oauth("a"), world.oauth("b"));
        let person = Person::new(Habit::Grants);
        // The network here knows no limit of its own, like a server that sends a byte now and then.
        world.net.hold(place);
        let began = Instant::now();
        let both = async { tokio::join!(a.login(ui(&person), false), b.login(ui(&person), false)) };
        let (of_a, of_b) = timeout(Duration::from_secs(600), both).await.expect("it has an end");
        assert!(of_a.unwrap_err().is_transient());
        assert_eq!((of_b, began.elapsed()), (Ok(()), Duration::from_secs(60)), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn f165_s01_logins_of_two_servers_take_turns() {
    let world = World::new();
    let (a, b) = (world.oauth("a"), world.oauth("b"));
    let person = Person::new(Habit::Grants);
    world.net.hold(TOKEN);
    let (of_a, of_b) = (a.login(ui(&person), false), b.login(ui(&person), false));
    let release = async {
        world.net.arrived(TOKEN, 1).await;
        assert!(world.net.log().iter().all(|seen| seen.host.ends_with("-a.example")), "b has not begun");
        world.net.release(TOKEN);
    };
    let (of_a, of_b, ()) = tokio::join!(of_a, of_b, release);
    assert_eq!((of_a, of_b), (Ok(()), Ok(())));
    let hosts: Vec<bool> = world.net.log().iter().map(|seen| seen.host.ends_with("-b.example")).collect();
    assert!(hosts.is_sorted() && hosts.len() == 8, "{hosts:?}");
    assert_eq!(person.counts(), [2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn d07_every_request_of_a_flow_brings_the_policy_of_its_own_server() {
    let world = World::new();
    let person = Person::new(Habit::Grants);
    for (name, later) in [("a", 5000), ("b", 10_000)] {
        world.oauth(name).login(ui(&person), false).await.unwrap();
        // The token is renewed, too.
        world.calendar.set(later);
        token(&world.oauth(name)).await.unwrap();
    }
    let mut own = 0;
    for seen in world.net.log() {
        let (kind, site) = seen.host.trim_end_matches(".example").split_once('-').unwrap();
        let policy = (kind != "rs").then(|| AddressPolicy::of_server(&World::url(site)));
        assert_eq!(seen.policy, policy, "{seen:?}");
        own += usize::from(seen.policy.is_none());
    }
    assert_eq!((own, world.net.log().len()), (2, 10), "metadata twice, client, code and refresh token");
}

#[tokio::test(start_paused = true)]
async fn f165_s02_a_login_that_is_dropped_anywhere_lets_the_next_one_in() {
    let places = [
        "rs-a.example/.well-known/oauth-protected-resource/mcp",
        "as-a.example/.well-known/oauth-authorization-server",
        "as-a.example/register",
    ];
    for place in places.map(Some).into_iter().chain([None]) {
        let world = World::new();
        let (sleeper, person) = (Person::new(Habit::Sleeps), Person::new(Habit::Grants));
        let (a, b) = (world.oauth("a"), world.oauth("b"));
        let mut login = Box::pin(a.login(ui(&sleeper), false));
        if let Some(place) = place {
            world.net.hold(place);
        }
        let reached = async {
            match place {
                Some(place) => world.net.arrived(place, 1).await,
                None => sleeper.asked(1).await,
            }
        };
        tokio::select! {
            end = &mut login => panic!("{end:?}"),
            () = reached => {}
        }
        drop(login);
        b.login(ui(&person), false).await.unwrap();
        let [opened, _, closed] = sleeper.counts();
        assert_eq!(opened, closed, "nothing listens any more");
        assert_eq!(world.kept("a").await, None);
        world.store.inner.lock(&World::key("a"), Instant::now()).await.expect("no fence is left");
        assert_eq!(a.close(Instant::now()).await, 0, "no task is left");
    }
}

#[tokio::test(start_paused = true)]
async fn f165_s02_a_code_that_is_being_redeemed_is_redeemed_to_the_end() {
    let world = World::new();
    let (a, person) = (world.oauth("a"), Person::new(Habit::Grants));
    world.net.hold(TOKEN);
    let mut login = Box::pin(a.login(ui(&person), false));
    tokio::select! {
        end = &mut login => panic!("{end:?}"),
        () = world.net.arrived(TOKEN, 1) => {}
    }
    drop(login);
    world.net.release(TOKEN);
    assert_eq!(a.close(Instant::now() + Duration::from_secs(5)).await, 0);
    assert_eq!(world.kept_token("a").await.as_deref(), Some("a101"));
}

#[tokio::test(start_paused = true)]
async fn s04_two_callers_share_one_login() {
    let world = World::new();
    let (oauth, person) = (world.oauth("a"), Person::new(Habit::Grants));
    world.net.hold(TOKEN);
    let both =
        futures_util::future::join_all([oauth.login(ui(&person), false), oauth.login(ui(&person), true)]);
    let release = async {
        world.net.arrived(TOKEN, 1).await;
        world.net.release(TOKEN);
    };
    let (ends, ()) = tokio::join!(both, release);
    assert_eq!(ends, [Ok(()), Ok(())]);
    assert_eq!((person.counts(), world.net.count(TOKEN)), ([1, 1, 1], 1));
}

#[tokio::test(start_paused = true)]
async fn s04_one_caller_who_leaves_does_not_end_the_login_of_another() {
    let world = World::new();
    let (oauth, person) = (world.oauth("a"), Person::new(Habit::Grants));
    world.net.hold("as-a.example/register");
    let mut first = Box::pin(oauth.login(ui(&person), false));
    let mut second = Box::pin(oauth.login(ui(&person), false));
    tokio::select! {
        biased;
        _ = &mut first => panic!("held"),
        _ = &mut second => panic!("held"),
        () = world.net.arrived("as-a.example/register", 1) => {}
    }
    drop(first);
    world.net.release("as-a.example/register");
    second.await.unwrap();
    assert_eq!(person.counts(), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn s05_a_server_is_renewed_while_a_person_thinks_about_another() {
    let world = World::new();
    world.plant("b", |_| {}).await;
    let (a, b) = (world.oauth("a"), world.oauth("b"));
    let sleeper = Person::new(Habit::Sleeps);
    let mut login = Box::pin(a.login(ui(&sleeper), false));
    tokio::select! {
        end = &mut login => panic!("{end:?}"),
        () = sleeper.asked(1) => {}
    }
    let (_, stamp) = b.authorize().await.unwrap();
    let renewed = timeout(Duration::from_secs(1), b.on_refused(401, unauthorized(), stamp)).await;
    assert_eq!(renewed, Ok(Ok(AfterRefusal::Repeat)));
    // Whoever may not ask a person does not wait for one either.
    let (_, stamp) = a.authorize().await.unwrap();
    let end = timeout(Duration::from_secs(1), a.on_refused(401, unauthorized(), stamp)).await;
    assert_eq!(end, Ok(Err(AuthError::NeedsAuth(NeedsAuth::LoginInProgress))));
    // And nobody holds the fence while a person thinks.
    world.store.inner.lock(&World::key("a"), Instant::now()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn l06_f165_a_person_who_never_answers_is_waited_for_five_minutes() {
    let world = World::new();
    let (a, b) = (world.oauth("a"), world.oauth("b"));
    let (sleeper, person) = (Person::new(Habit::Sleeps), Person::new(Habit::Grants));
    let began = Instant::now();
    let (of_a, of_b) = tokio::join!(a.login(ui(&sleeper), false), b.login(ui(&person), false));
    assert_eq!((of_a, of_b), (Err(AuthError::Login(LoginEnd::TimedOut)), Ok(())));
    assert_eq!(began.elapsed(), Duration::from_secs(300));
    assert_eq!(sleeper.counts(), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn l08_a_login_that_is_skipped_says_so() {
    let world = World::new();
    let person = Person::new(Habit::Skips);
    let end = world.oauth("a").login(ui(&person), false).await;
    assert_eq!(end, Err(AuthError::Login(LoginEnd::Skipped)));
    assert_eq!(person.counts(), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn l09_a_login_that_fails_leaves_what_is_kept_as_it_was() {
    for (place, status, body) in [
        ("rs-a.example/.well-known/oauth-protected-resource/mcp", 503, json!(null)),
        (
            "as-a.example/.well-known/oauth-authorization-server",
            200,
            json!({"issuer": "https://evil.example"}),
        ),
        ("as-a.example/register", 403, json!(null)),
        (TOKEN, 400, json!({"error": "invalid_grant"})),
        (TOKEN, 503, json!(null)),
    ] {
        let world = World::new();
        world.plant("a", |record| record.issuer = "https://old.example".to_owned()).await;
        let before = world.kept("a").await;
        world.net.answer(place, status, body);
        let oauth = world.oauth("a");
        oauth.login(ui(&Person::new(Habit::Grants)), true).await.unwrap_err();
        assert_eq!(world.kept("a").await, before, "{place}");
        assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a1"), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn x01_closing_ends_a_login_wherever_it_is() {
    for place in [Some("as-a.example/register"), None] {
        let world = World::new();
        let (a, b, sleeper) = (world.oauth("a"), world.oauth("b"), Person::new(Habit::Sleeps));
        if let Some(place) = place {
            world.net.hold(place);
        }
        let closing = async {
            match place {
                Some(place) => world.net.arrived(place, 1).await,
                None => sleeper.asked(1).await,
            }
            // The one that waits at the gate ends first, so that it cannot get in.
            assert_eq!(b.close(Instant::now() + Duration::from_secs(1)).await, 0);
            assert_eq!(a.close(Instant::now() + Duration::from_secs(1)).await, 0);
        };
        let (of_a, of_b, ()) =
            tokio::join!(a.login(ui(&sleeper), false), b.login(ui(&sleeper), false), closing);
        let cancelled = Err(AuthError::Login(LoginEnd::Cancelled));
        assert_eq!((&of_a, &of_b), (&cancelled, &cancelled));
        assert_eq!(a.login(ui(&sleeper), false).await, Err(AuthError::Closed), "and no other one begins");
        let [opened, _, closed] = sleeper.counts();
        assert_eq!(opened, closed);
        drop(world.gate.enter().await);
    }
}

#[tokio::test(start_paused = true)]
async fn k01_a_wider_scope_is_logged_in_for_and_the_old_token_works_until_then() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    let wider = challenges("Bearer error=\"insufficient_scope\", scope=\"x y\"");
    let end = oauth.on_refused(403, wider.clone(), stamp).await.unwrap_err();
    assert!(end.needs_auth());
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a1"));
    let person = Person::new(Habit::Grants);
    oauth.login(ui(&person), false).await.unwrap();
    assert_eq!(world.net.log().last().unwrap().value("grant_type").as_deref(), Some("authorization_code"));
    assert_eq!(world.kept("a").await.unwrap().tokens.unwrap().granted, Scopes::parse("x y"));
    let (_, stamp) = oauth.authorize().await.unwrap();
    let end = oauth.on_refused(403, wider, stamp).await.unwrap_err();
    assert!(!end.needs_auth(), "it has that now, so another login is no use");
}

#[test]
fn z01_nothing_of_a_login_or_a_renewal_is_logged_that_is_secret() {
    isolated(async |test| {
        let world = World::new();
        let tokens = |access: &str| json!({"access_token": access, "refresh_token": "canary-refresh", "vendor": "canary-vendor"});
        world.net.answer(
            "as-a.example/register",
            201,
            json!({"client_id": "c", "client_secret": "canary-secret"}),
        );
        world.net.answer(TOKEN, 200, tokens("canary-access"));
        let oauth = world.oauth("a");
        oauth.login(ui(&Person::new(Habit::Grants)), false).await.unwrap();
        let (_, stamp) = oauth.authorize().await.unwrap();
        oauth.on_accepted(stamp);
        let mut shown = format!("{oauth:?} {stamp:?} {:?}", world.kept("a").await);
        // A server may repeat in an error what it was told in that request.
        let (of_renewal, of_login) = ("canary-refresh canary-secret", "canary-code canary-secret");
        let error = |code: &str, echo: &str| json!({"error": code, "error_description": echo});
        for (status, code) in
            [(400, "invalid_scope"), (400, "invalid_grant"), (401, "invalid_client"), (503, "x"), (200, "")]
        {
            world.net.answer(TOKEN, 200, tokens("canary-access"));
            oauth.login(ui(&Person::new(Habit::Grants)), true).await.unwrap();
            let (_, stamp) = oauth.authorize().await.unwrap();
            oauth.on_accepted(stamp);
            world.net.answer(TOKEN, status, error(code, of_renewal));
            let renewal = oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err();
            world.net.answer(TOKEN, status, error(code, of_login));
            let login = oauth.login(ui(&Person::new(Habit::Grants)), true).await.unwrap_err();
            shown += &format!("{renewal:?} {renewal} {login:?} {login}");
        }
        assert!(shown.contains("[secret] [secret]"), "the descriptions are shown, without what is secret");
        for line in test.log().records() {
            shown += &format!("{line:?}");
        }
        assert!(!shown.contains("canary"), "{shown}");
    });
}
