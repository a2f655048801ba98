//! Tokens are renewed once for everybody, by one process at a time, and never lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "oauth")]

mod auth;

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use auth::*;
use futures_util::future::join_all;
use mcp_transport::auth::*;
use tokio::time::{Instant, advance, sleep, timeout};

const TOKEN: &str = "as-a.example/token";

#[tokio::test(start_paused = true)]
async fn t01_a_cold_start_renews_an_ended_token_before_the_first_request() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    assert_eq!(token(&world.oauth("a")).await.unwrap().as_deref(), Some("a1"));
    assert!(world.net.log().is_empty(), "what is good needs no network");
    world.calendar.set(3600);
    // As after a restart.
    assert_eq!(token(&world.oauth("a")).await.unwrap().as_deref(), Some("a2"));
    assert_eq!(world.net.places(), [TOKEN], "nothing else is asked");
    assert_eq!(world.kept_token("a").await.as_deref(), Some("a2"));
}

#[tokio::test(start_paused = true)]
async fn t01_metadata_that_is_missing_is_found_before_the_token_is_renewed() {
    let world = World::new();
    world.plant("a", |record| record.metadata = None).await;
    world.calendar.set(3600);
    assert_eq!(token(&world.oauth("a")).await.unwrap().as_deref(), Some("a2"));
    assert_eq!(world.net.places(), ["as-a.example/.well-known/oauth-authorization-server", TOKEN]);
}

#[tokio::test(start_paused = true)]
async fn f164_s06_a_hundred_refusals_cost_one_renewal() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    world.net.hold(TOKEN);
    let refusals = join_all((0..100).map(|_| oauth.on_refused(401, unauthorized(), stamp)));
    let release = async {
        world.net.arrived(TOKEN, 1).await;
        world.net.release(TOKEN);
    };
    let (ends, ()) = tokio::join!(refusals, release);
    assert!(ends.iter().all(|end| *end == Ok(AfterRefusal::Repeat)));
    // One that comes late finds the new token.
    assert_eq!(oauth.on_refused(401, unauthorized(), stamp).await, Ok(AfterRefusal::Repeat));
    assert_eq!(world.net.count(TOKEN), 1);
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a2"));
}

#[tokio::test(start_paused = true)]
async fn t05_two_processes_present_a_refresh_token_once() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let (one, other) = (world.oauth("a"), world.oauth("a"));
    let stamps = [one.authorize().await.unwrap().1, other.authorize().await.unwrap().1];
    world.net.hold(TOKEN);
    let both = join_all([
        one.on_refused(401, unauthorized(), stamps[0]),
        other.on_refused(401, unauthorized(), stamps[1]),
    ]);
    let release = async {
        world.net.arrived(TOKEN, 1).await;
        world.net.release(TOKEN);
    };
    let (ends, ()) = tokio::join!(both, release);
    assert_eq!(ends, [Ok(AfterRefusal::Repeat), Ok(AfterRefusal::Repeat)]);
    assert_eq!(world.net.count(TOKEN), 1, "a second time would have ended the grant");
    for oauth in [one, other] {
        assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a2"));
    }
}

#[tokio::test(start_paused = true)]
async fn t05_what_another_process_has_renewed_is_seen_by_a_running_one() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a1"));
    let other = world.oauth("a");
    let (_, stamp) = other.authorize().await.unwrap();
    other.on_refused(401, unauthorized(), stamp).await.unwrap();
    advance(Duration::from_millis(251)).await;
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a2"));
    assert_eq!(world.net.count(TOKEN), 1);
}

#[tokio::test(start_paused = true)]
async fn t06_a_fence_that_is_never_given_back_costs_a_time_out_and_no_token() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    let held = world.store.inner.lock(&World::key("a"), Instant::now()).await.unwrap();
    let began = Instant::now();
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert_eq!(end, Err(AuthError::Store(StoreError::Busy)));
    assert!(end.unwrap_err().is_transient());
    assert_eq!(began.elapsed(), FENCE_LIMIT);
    assert_eq!(world.net.count(TOKEN), 0);
    drop(held);
    assert_eq!(oauth.on_refused(401, unauthorized(), stamp).await, Ok(AfterRefusal::Repeat));
}

#[tokio::test(start_paused = true)]
async fn t07_a_renewal_whose_callers_are_gone_is_kept_all_the_same() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    world.net.hold(TOKEN);
    let mut caller = Box::pin(oauth.on_refused(401, unauthorized(), stamp));
    tokio::select! {
        _ = &mut caller => panic!("the answer is held"),
        () = world.net.arrived(TOKEN, 1) => {}
    }
    drop(caller);
    world.net.release(TOKEN);
    assert_eq!(oauth.close(Instant::now() + Duration::from_secs(5)).await, 0);
    assert_eq!(world.kept_token("a").await.as_deref(), Some("a2"));
}

#[tokio::test(start_paused = true)]
async fn x01_closing_waits_for_a_renewal_no_longer_than_it_may() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    world.net.hold(TOKEN);
    let caller = oauth.clone();
    let waiting = async { caller.on_refused(401, unauthorized(), stamp).await };
    let closing = async {
        world.net.arrived(TOKEN, 1).await;
        let began = Instant::now();
        assert_eq!(oauth.close(began + Duration::from_secs(35)).await, 1);
        assert_eq!(began.elapsed(), Duration::from_secs(35));
        world.net.release(TOKEN);
    };
    let (end, ()) = tokio::join!(waiting, closing);
    assert_eq!(end, Ok(AfterRefusal::Repeat));
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.on_accepted(stamp);
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert_eq!(end, Err(AuthError::Closed), "nothing new is begun");
}

#[tokio::test(start_paused = true)]
async fn t08_a_token_that_cannot_be_kept_is_used_and_kept_later() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    world.store.failures.store(2, Ordering::SeqCst);
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert!(matches!(end, Err(AuthError::Store(StoreError::Io(_)))), "it is told");
    assert_eq!(world.kept_token("a").await.as_deref(), Some("a1"));
    for _ in 0..3 {
        advance(Duration::from_millis(251)).await;
        assert_eq!(
            token(&oauth).await.unwrap().as_deref(),
            Some("a2"),
            "no request fails for want of a disk"
        );
    }
    assert_eq!(oauth.close(Instant::now() + Duration::from_secs(1)).await, 0);
    assert_eq!(world.kept_token("a").await.as_deref(), Some("a2"), "the new token was not lost");
    assert_eq!(world.net.count(TOKEN), 1);
}

/// The refresh tokens that were presented, in order.
fn presented(world: &World) -> Vec<String> {
    let tokens = world.net.log().into_iter().filter_map(|seen| seen.value("refresh_token"));
    tokens.collect()
}

#[tokio::test(start_paused = true)]
async fn t08_a_token_that_cannot_be_kept_is_what_is_renewed_next() {
    // The store is full all the time, or only until the first token was renewed.
    for failures in [usize::MAX, 1] {
        let world = World::new();
        world.plant("a", |_| {}).await;
        let oauth = world.oauth("a");
        let (_, stamp) = oauth.authorize().await.unwrap();
        world.store.failures.store(failures, Ordering::SeqCst);
        oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err();
        let (token, stamp) = oauth.authorize().await.unwrap();
        assert_eq!(token.unwrap().token.expose(), "a2");
        oauth.on_accepted(stamp);
        // Within the time in which the store is not looked at again.
        let end = oauth.on_refused(401, unauthorized(), stamp).await;
        assert_eq!(end.is_ok(), failures == 1, "{end:?}");
        assert_eq!(presented(&world), ["r1", "r2"], "a used one would have ended the grant");
        let (token, stamp) = oauth.authorize().await.unwrap();
        assert_eq!(token.unwrap().token.expose(), "a3");
        oauth.on_accepted(stamp);
    }
}

#[tokio::test(start_paused = true)]
async fn t08_a_token_that_ends_while_it_cannot_be_kept_is_renewed_with_its_own_refresh_token() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    world.store.failures.store(usize::MAX, Ordering::SeqCst);
    for (seconds, expected) in [(3600, "a2"), (7200, "a3"), (10800, "a4")] {
        world.calendar.set(seconds);
        assert_eq!(token(&oauth).await.unwrap().as_deref(), Some(expected));
    }
    assert_eq!(presented(&world), ["r1", "r2", "r3"]);
}

#[tokio::test(start_paused = true)]
async fn t08_what_another_process_has_kept_since_goes_before_what_could_not_be_kept() {
    for has_logged_out in [true, false] {
        let world = World::new();
        world.plant("a", |_| {}).await;
        let oauth = world.oauth("a");
        let (_, stamp) = oauth.authorize().await.unwrap();
        world.store.failures.store(1, Ordering::SeqCst);
        oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err();
        world.calendar.set(10);
        let locked = world.store.inner.lock(&World::key("a"), Instant::now()).await.unwrap();
        let expected = if has_logged_out {
            locked.clear().await.unwrap();
            drop(locked);
            None
        } else {
            drop(locked);
            let newer = |record: &mut CredentialRecord| {
                record.tokens.as_mut().unwrap().access_token = "b1".into();
            };
            world.plant("a", newer).await;
            Some("b1".to_owned())
        };
        let kept = world.kept("a").await;
        advance(Duration::from_millis(251)).await;
        token(&oauth).await.unwrap();
        // The store is written to in the background.
        let deadline = Instant::now() + Duration::from_secs(5);
        while token(&oauth).await.unwrap() != expected && Instant::now() < deadline {
            advance(Duration::from_millis(251)).await;
        }
        assert_eq!(token(&oauth).await.unwrap(), expected, "{has_logged_out}");
        assert_eq!(world.kept("a").await, kept, "nothing is written over it");
    }
}

#[tokio::test(start_paused = true)]
async fn t12_one_word_that_the_client_is_unknown_costs_no_login_and_a_second_one_does() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    world.net.answer(TOKEN, 401, serde_json::json!({"error": "invalid_client"}));
    for _ in 0..2 {
        let end = oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err();
        assert!(end.is_transient(), "{end:?}");
        let (_, again) = oauth.authorize().await.unwrap();
        assert_eq!(again, stamp);
    }
    // The server was being deployed.
    world.net.answer_as_usual(TOKEN);
    assert_eq!(oauth.on_refused(401, unauthorized(), stamp).await, Ok(AfterRefusal::Repeat));
    let (_, stamp) = oauth.authorize().await.unwrap();
    oauth.on_accepted(stamp);
    world.net.answer(TOKEN, 401, serde_json::json!({"error": "invalid_client"}));
    assert!(oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err().is_transient());
    world.calendar.set(61);
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Revoked)));
}

/// Calls a function when it is woken, in the middle of whatever wakes it.
struct OnWake<F>(F);

impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

type Refusal = Pin<Box<dyn Future<Output = Result<AfterRefusal, AuthError>> + Send>>;

fn refusal(oauth: &OAuth, stamp: TokenStamp) -> Refusal {
    let oauth = oauth.clone();
    Box::pin(async move { oauth.on_refused(401, unauthorized(), stamp).await })
}

#[tokio::test(start_paused = true)]
async fn f164_a_renewal_that_begins_while_another_one_ends_is_joined_by_all() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    world.net.answer(TOKEN, 503, serde_json::Value::Null);
    world.net.hold(TOKEN);
    // The second caller begins as soon as the first one can know the end, on the thread that tells it.
    let second = Arc::new(Mutex::new(None));
    let waker = Waker::from(Arc::new(OnWake({
        let (oauth, net, second) = (oauth.clone(), Arc::clone(&world.net), Arc::clone(&second));
        move || {
            let mut second = second.lock().unwrap();
            if second.is_none() {
                net.hold(TOKEN);
                let mut refusal = refusal(&oauth, stamp);
                assert!(refusal.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                *second = Some(refusal);
            }
        }
    })));
    let mut first = refusal(&oauth, stamp);
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    world.net.arrived(TOKEN, 1).await;
    world.net.release(TOKEN);
    let second = loop {
        if let Some(second) = second.lock().unwrap().take() {
            break second;
        }
        tokio::task::yield_now().await;
    };
    let mut third = refusal(&oauth, stamp);
    assert!(third.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    world.net.release(TOKEN);
    for end in join_all([first, second, third]).await {
        assert!(end.unwrap_err().is_transient());
    }
    assert_eq!(world.net.count(TOKEN), 2, "one for the first caller, one for both others");
}

#[tokio::test(start_paused = true)]
async fn t04_while_a_token_works_nobody_waits_for_its_renewal() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    world.calendar.set(3590);
    world.net.hold(TOKEN);
    for _ in 0..3 {
        let carried = timeout(Duration::from_secs(1), token(&oauth)).await.expect("it is at hand");
        assert_eq!(carried.unwrap().as_deref(), Some("a1"));
    }
    world.net.arrived(TOKEN, 1).await;
    world.net.release(TOKEN);
    while token(&oauth).await.unwrap().as_deref() == Some("a1") {
        tokio::task::yield_now().await;
    }
    assert_eq!((token(&oauth).await.unwrap().as_deref(), world.net.count(TOKEN)), (Some("a2"), 1));
}

#[tokio::test(start_paused = true)]
async fn t04_a_server_that_is_not_well_is_left_alone_while_the_token_works() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    world.calendar.set(3590);
    world.net.answer(TOKEN, 503, serde_json::Value::Null);
    let requests = async |seconds| {
        for _ in 0..4 {
            assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a1"));
            tokio::task::yield_now().await;
            advance(Duration::from_secs(seconds)).await;
        }
        world.net.count(TOKEN)
    };
    assert_eq!(requests(1).await, 1);
    advance(Duration::from_secs(10)).await;
    world.net.ask_to_wait(Some(100));
    assert_eq!(requests(20).await, 2);
    // What the server has asked for holds without a token too, and is told.
    world.calendar.set(3600);
    let end = token(&oauth).await.unwrap_err();
    assert!(
        matches!(end, AuthError::Unavailable { retry_after: Some(left), .. } if left <= Duration::from_secs(20)),
        "{end:?}"
    );
    assert_eq!(world.net.count(TOKEN), 2);
    world.net.ask_to_wait(None);
    world.net.answer_as_usual(TOKEN);
    advance(Duration::from_secs(20)).await;
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a2"));
}

#[tokio::test(start_paused = true)]
async fn t01_no_request_leaves_before_the_credentials_are_read() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let held = Arc::clone(&world.store.reader).lock_owned().await;
    // One that goes away in the meantime leaves the others to read by themselves.
    let mut given_up = Box::pin(token(&oauth));
    assert!(given_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let waiting: Vec<_> = (0..5).map(|_| Box::pin(token(&oauth))).collect();
    let mut all = join_all(waiting);
    assert!(Pin::new(&mut all).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(given_up);
    drop(held);
    for carried in all.await {
        assert_eq!(carried.unwrap().as_deref(), Some("a1"));
    }
    assert_eq!(
        world.store.readings.load(Ordering::SeqCst),
        2,
        "once for the one who left, once for all others"
    );
}

#[tokio::test(start_paused = true)]
async fn s06_a_hundred_refusals_read_the_store_twice_at_most() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    let held = Arc::clone(&world.store.reader).lock_owned().await;
    let mut all = join_all((0..100).map(|_| refusal(&oauth, stamp)));
    assert!(Pin::new(&mut all).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(held);
    assert!(all.await.iter().all(|end| *end == Ok(AfterRefusal::Repeat)));
    let readings = world.store.readings.load(Ordering::SeqCst);
    assert!(readings <= 3, "one for the first request, two for the refusals: {readings}");
    assert_eq!(world.net.count(TOKEN), 1);
}

#[tokio::test(start_paused = true)]
async fn t08_a_slow_reading_does_not_bring_back_what_was_renewed_meanwhile() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    world.net.hold(TOKEN);
    let mut renewing = refusal(&oauth, stamp);
    tokio::select! {
        _ = &mut renewing => panic!("held"),
        () = world.net.arrived(TOKEN, 1) => {}
    }
    // It has read the old record, and is slow to say so.
    let held = Arc::clone(&world.store.reader).lock_owned().await;
    let mut reading = refusal(&oauth, stamp);
    assert!(reading.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    world.net.release(TOKEN);
    renewing.await.unwrap();
    drop(held);
    reading.await.unwrap();
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a2"));
    assert_eq!(world.net.count(TOKEN), 1);
}

#[tokio::test(start_paused = true)]
async fn t06_nobody_waits_at_the_fence_for_a_discovery() {
    let world = World::new();
    world.plant("a", |record| record.metadata = None).await;
    world.calendar.set(3600);
    let (one, other) = (world.oauth("a"), world.oauth("a"));
    let place = "as-a.example/.well-known/oauth-authorization-server";
    world.net.hold(place);
    let mut waiting = Box::pin(token(&one));
    tokio::select! {
        _ = &mut waiting => panic!("held"),
        () = world.net.arrived(place, 1) => {}
    }
    world.store.inner.lock(&World::key("a"), Instant::now()).await.expect("the fence is free");
    // What another process renews meanwhile is found when the fence is taken again.
    world.plant("a", |record| record.tokens.as_mut().unwrap().access_token = "b1".into()).await;
    world.net.release(place);
    assert_eq!(waiting.await.unwrap().as_deref(), Some("b1"));
    assert_eq!(token(&other).await.unwrap().as_deref(), Some("b1"));
    assert_eq!(world.net.count(TOKEN), 0);
}

#[tokio::test(start_paused = true)]
async fn t09_a_new_token_that_is_refused_ends_it() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let mut requests = 0;
    let end = loop {
        let (_, stamp) = oauth.authorize().await.unwrap();
        requests += 1;
        match oauth.on_refused(401, unauthorized(), stamp).await {
            Ok(AfterRefusal::Repeat) => {}
            other => break other,
        }
    };
    assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Rejected)));
    assert_eq!((requests, world.net.count(TOKEN)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn t04_a_server_that_is_not_well_costs_nothing_and_a_revoked_grant_the_tokens() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    let before = world.kept("a").await;
    for status in [0, 429, 503] {
        world.net.answer(TOKEN, status, "<html>".into());
        assert!(oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err().is_transient());
        assert_eq!(world.kept("a").await, before);
    }
    world.net.answer(TOKEN, 400, serde_json::json!({"error": "invalid_grant"}));
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Revoked)));
    let after = world.kept("a").await.unwrap();
    assert_eq!((after.tokens, after.client.client_id.as_str()), (None, "client-a"));
    assert_eq!(token(&oauth).await, Ok(None), "a dead token is not sent");
}

#[tokio::test(start_paused = true)]
async fn t04_a_token_that_still_works_is_used_while_it_cannot_be_renewed() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    world.net.answer(TOKEN, 503, serde_json::Value::Null);
    world.calendar.set(3590);
    assert_eq!(token(&oauth).await.unwrap().as_deref(), Some("a1"));
    world.calendar.set(3600);
    assert!(token(&oauth).await.unwrap_err().is_transient());
}

#[tokio::test(start_paused = true)]
async fn t02_tokens_of_any_lifetime_cost_one_renewal_each() {
    for lifetime in [1_u64, 10, 60, 3600] {
        let world = World::new();
        world.plant("a", |_| {}).await;
        world.calendar.set(4000);
        let answer =
            |number: u64| serde_json::json!({"access_token": format!("b{number}"), "expires_in": lifetime});
        let oauth = world.oauth("a");
        for number in 1..4 {
            world.net.answer(TOKEN, 200, answer(number));
            for _ in 0..5 {
                assert_eq!(token(&oauth).await.unwrap(), Some(format!("b{number}")), "{lifetime} s");
            }
            world.calendar.set(4000 + number * lifetime);
        }
        assert_eq!(world.net.count(TOKEN), 3, "{lifetime} s");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_credentials_gets_those_of_another_process_and_no_token_that_was_refused() {
    let world = World::new();
    let oauth = world.oauth("a");
    let refuse = async || {
        let (_, stamp) = oauth.authorize().await.unwrap();
        oauth.on_refused(401, unauthorized(), stamp).await.unwrap_err()
    };
    assert!(refuse().await.needs_auth());
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, oauth.renewed()).await.is_err(), "there are none");
    let login = async {
        sleep(Duration::from_secs(5)).await; // while somebody waits
        world.plant("a", |record| record.tokens.as_mut().unwrap().refresh_token = None).await;
    };
    let (waited, ()) = tokio::join!(timeout(Duration::from_secs(7), oauth.renewed()), login);
    waited.unwrap();
    timeout(minute, oauth.renewed()).await.expect("nobody has refused them yet");
    assert!(refuse().await.needs_auth());
    assert!(timeout(minute, oauth.renewed()).await.is_err(), "they are of no use");
}

#[tokio::test(start_paused = true)]
async fn l07_without_credentials_nothing_is_asked_opened_or_sent() {
    let world = World::new();
    let oauth = world.oauth("a");
    let (token, stamp) = oauth.authorize().await.unwrap();
    assert_eq!(token, None);
    let end = oauth.on_refused(401, unauthorized(), stamp).await;
    assert_eq!(end, Err(AuthError::NeedsAuth(NeedsAuth::Missing)));
    assert!(end.unwrap_err().needs_auth());
    assert!(world.net.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn k02_only_a_challenge_about_scope_makes_403_a_matter_of_authorization() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    let (_, stamp) = oauth.authorize().await.unwrap();
    for (status, value) in [
        (403, "Bearer"),
        (403, "Bearer error=\"invalid_token\""),
        (403, "Basic realm=\"insufficient_scope\""),
        (403, ""),
        (404, "Bearer error=\"insufficient_scope\""),
    ] {
        assert_eq!(
            oauth.on_refused(status, challenges(value), stamp).await,
            Ok(AfterRefusal::Unrelated),
            "{value}"
        );
    }
    let end =
        oauth.on_refused(403, challenges("Bearer error=\"insufficient_scope\", scope=\"x\""), stamp).await;
    assert_eq!(end, Err(AuthError::InsufficientScope { required: "x".to_owned(), is_final: false }));
    assert!(world.net.log().is_empty(), "a refresh cannot widen a scope");
}

#[tokio::test(start_paused = true)]
async fn f173_b03_another_url_gets_no_token_of_the_old_one() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    for url in [
        "https://rs-b.example/mcp",
        "https://rs-a.example/other",
        "http://rs-a.example/mcp",
        "https://rs-a.example:8443/mcp",
    ] {
        let moved = OAuth::new("a", WebUrl::parse(url).unwrap(), OAuthSettings::default(), world.seams());
        assert_eq!(token(&moved).await, Ok(None), "{url}");
    }
    assert_eq!(token(&world.oauth("a")).await.unwrap().as_deref(), Some("a1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f164_s06_on_several_threads_a_token_is_renewed_once_each_time_it_ends() {
    let world = World::new();
    world.plant("a", |_| {}).await;
    let oauth = world.oauth("a");
    for round in 1..=20 {
        world.calendar.set(3600 * round);
        let asking: Vec<_> = (0..16)
            .map(|_| {
                let oauth = oauth.clone();
                tokio::spawn(async move { token(&oauth).await })
            })
            .collect();
        for one in asking {
            assert_eq!(one.await.unwrap(), Ok(Some(format!("a{}", round + 1))));
        }
        assert_eq!(world.net.count(TOKEN), usize::try_from(round).unwrap());
    }
    assert_eq!(oauth.close(Instant::now() + Duration::from_secs(5)).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn x01_on_several_threads_nothing_begins_after_the_close() {
    for _ in 0..50 {
        let world = World::new();
        world.plant("a", |_| {}).await;
        let oauth = world.oauth("a");
        world.calendar.set(3600);
        let asking: Vec<_> = (0..8)
            .map(|_| {
                let oauth = oauth.clone();
                tokio::spawn(async move { token(&oauth).await })
            })
            .collect();
        assert_eq!(oauth.close(Instant::now() + Duration::from_secs(5)).await, 0);
        let asked = world.net.count(TOKEN);
        for one in asking {
            let end = one.await.unwrap();
            assert!(matches!(end, Ok(Some(_)) | Err(AuthError::Closed)), "{end:?}");
        }
        assert_eq!(world.net.count(TOKEN), asked, "nothing was asked after the close");
    }
}
