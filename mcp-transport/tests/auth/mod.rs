//! Protected servers, their authorization servers, persons and clocks for the tests of authorization.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mcp_transport::WallClock;
use mcp_transport::auth::*;
use mcp_transport::http::HeaderMap;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

pub(crate) const NOW: u64 = 1_700_000_000;

/// Authorization servers with strict rotation: a refresh token that comes twice ends the grant.
///
/// The site `a` is `https://rs-a.example/mcp` with the issuer `https://as-a.example`. Access tokens are
/// `a1`, `a2`, …, and `r1`, `r2`, … renew them.
#[derive(Debug, Default)]
pub(crate) struct Net {
    state: Mutex<NetState>,
    seen: watch::Sender<usize>,
    released: Notify,
}

#[derive(Debug, Default)]
struct NetState {
    log: Vec<Seen>,
    held: HashSet<String>,
    /// Answers that take the place of the usual ones, by host and path.
    instead: HashMap<String, (u16, Value)>,
    /// Seconds that every answer asks to wait.
    wait: Option<u32>,
    grants: HashMap<String, Grant>,
}

#[derive(Debug, Default, Clone)]
struct Grant {
    number: u32,
    is_over: bool,
}

/// A request that has arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) form: Form,
    pub(crate) policy: Option<AddressPolicy>,
}

impl Seen {
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.form.get(name).map(|value| value.expose().to_owned())
    }
}

impl Net {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on answers of this host and path are kept back.
    pub(crate) fn hold(&self, place: &str) {
        self.state.lock().unwrap().held.insert(place.to_owned());
    }

    pub(crate) fn release(&self, place: &str) {
        self.state.lock().unwrap().held.remove(place);
        self.released.notify_waiters();
    }

    /// From now on this host and path answers like this; with the status 0 not at all.
    pub(crate) fn answer(&self, place: &str, status: u16, body: Value) {
        self.state.lock().unwrap().instead.insert(place.to_owned(), (status, body));
    }

    /// From now on every answer asks to wait so many seconds.
    pub(crate) fn ask_to_wait(&self, seconds: Option<u32>) {
        self.state.lock().unwrap().wait = seconds;
    }

    pub(crate) fn answer_as_usual(&self, place: &str) {
        self.state.lock().unwrap().instead.remove(place);
    }

    pub(crate) fn log(&self) -> Vec<Seen> {
        self.state.lock().unwrap().log.clone()
    }

    pub(crate) fn places(&self) -> Vec<String> {
        self.log().iter().map(|seen| format!("{}{}", seen.host, seen.path)).collect()
    }

    pub(crate) fn count(&self, place: &str) -> usize {
        self.places().iter().filter(|seen| *seen == place).count()
    }

    /// Waits until so many requests to this host and path have arrived.
    pub(crate) async fn arrived(&self, place: &str, times: usize) {
        let mut seen = self.seen.subscribe();
        seen.wait_for(|_| self.count(place) >= times).await.unwrap();
    }

    fn usual(&self, host: &str, path: &str, form: &Form) -> (u16, Value) {
        let Some((kind, name)) = host.trim_end_matches(".example").split_once('-') else {
            return (404, Value::Null);
        };
        let issuer = format!("https://as-{name}.example");
        match (kind, path) {
            ("rs", "/.well-known/oauth-protected-resource/mcp") => {
                let resource = format!("https://rs-{name}.example/mcp");
                (200, json!({"resource": resource, "authorization_servers": [issuer]}))
            }
            ("as", "/.well-known/oauth-authorization-server") => (
                200,
                json!({"issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
                    "token_endpoint": format!("{issuer}/token"), "registration_endpoint": format!("{issuer}/register"),
                    "code_challenge_methods_supported": ["S256"]}),
            ),
            ("as", "/register") => (201, json!({"client_id": format!("client-{name}")})),
            ("as", "/token") => self.token(name, form),
            _ => (404, Value::Null),
        }
    }

    fn token(&self, name: &str, form: &Form) -> (u16, Value) {
        let value = |name: &str| form.get(name).map(|value| value.expose().to_owned());
        let mut state = self.state.lock().unwrap();
        let grant = state.grants.entry(name.to_owned()).or_insert(Grant { number: 1, is_over: false });
        if value("grant_type").as_deref() == Some("authorization_code") {
            *grant = Grant { number: grant.number + 100, is_over: false };
        } else if grant.is_over || value("refresh_token") != Some(format!("r{}", grant.number)) {
            grant.is_over = true;
            return (400, json!({"error": "invalid_grant"}));
        } else {
            grant.number += 1;
        }
        let number = grant.number;
        (
            200,
            json!({"access_token": format!("a{number}"), "refresh_token": format!("r{number}"), "expires_in": 3600}),
        )
    }
}

#[async_trait]
impl OAuthHttp for Net {
    async fn send(&self, request: OAuthRequest) -> Result<OAuthResponse, OAuthHttpError> {
        let form = Form::parse(request.body.as_ref().map_or("", |body| body.expose()));
        let (host, path) = (request.url.origin().host.clone(), request.url.path().to_owned());
        let place = format!("{host}{path}");
        self.state.lock().unwrap().log.push(Seen {
            host: host.clone(),
            path: path.clone(),
            form: form.clone(),
            policy: request.policy.clone(),
        });
        self.seen.send_modify(|seen| *seen += 1);
        loop {
            let released = self.released.notified();
            if !self.state.lock().unwrap().held.contains(&place) {
                break;
            }
            released.await;
        }
        let instead = self.state.lock().unwrap().instead.get(&place).cloned();
        let (status, body) = instead.unwrap_or_else(|| self.usual(&host, &path, &form));
        if status == 0 {
            return Err(OAuthHttpError::Unreachable("no route".to_owned()));
        }
        let mut headers = HeaderMap::new();
        if let Some(seconds) = self.state.lock().unwrap().wait {
            headers.insert("retry-after", seconds.into());
        }
        Ok(OAuthResponse::new(status, headers, body.to_string().into_bytes()))
    }
}

/// A calendar that a test sets.
#[derive(Debug, Default)]
pub(crate) struct Calendar(Mutex<u64>);

impl Calendar {
    pub(crate) fn set(&self, seconds: u64) {
        *self.0.lock().unwrap() = seconds;
    }
}

impl WallClock for Calendar {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW + *self.0.lock().unwrap())
    }
}

/// What a person does about a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Grants access at once.
    Grants,
    /// Has a desktop that breaks.
    Panics,
    /// Never answers.
    Sleeps,
    /// Wants nothing of it.
    Skips,
}

/// A person, and what was asked of them.
#[derive(Debug)]
pub(crate) struct Person {
    habit: Habit,
    pub(crate) opened: AtomicUsize,
    pub(crate) shown: AtomicUsize,
    pub(crate) closed: AtomicUsize,
    asked: watch::Sender<usize>,
}

impl Person {
    pub(crate) fn new(habit: Habit) -> Arc<Self> {
        let (opened, shown, closed) = Default::default();
        Arc::new(Self { habit, opened, shown, closed, asked: watch::channel(0).0 })
    }

    pub(crate) fn counts(&self) -> [usize; 3] {
        [&self.opened, &self.shown, &self.closed].map(|count| count.load(Ordering::SeqCst))
    }

    /// Waits until something was shown so many times.
    pub(crate) async fn asked(&self, times: usize) {
        self.asked.subscribe().wait_for(|asked| *asked >= times).await.unwrap();
    }
}

/// As an [`AuthUi`], which has to be a type of its own.
#[derive(Debug)]
pub(crate) struct Ui(pub(crate) Arc<Person>);

pub(crate) fn ui(person: &Arc<Person>) -> Arc<dyn AuthUi> {
    Arc::new(Ui(Arc::clone(person)))
}

#[async_trait]
impl AuthUi for Ui {
    async fn open(&self, _wish: &RedirectWish) -> Result<Box<dyn Consent>, LoginEnd> {
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Window { person: Arc::clone(&self.0), state: String::new() }))
    }
}

struct Window {
    person: Arc<Person>,
    state: String,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Window")
    }
}

#[async_trait]
impl Consent for Window {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:7000/callback".to_owned()
    }

    async fn show(&mut self, request: &AuthorizationRequest) -> Result<(), LoginEnd> {
        self.person.shown.fetch_add(1, Ordering::SeqCst);
        self.person.asked.send_modify(|asked| *asked += 1);
        self.state = request.state().expose().to_owned();
        Ok(())
    }

    async fn answer(&mut self) -> Result<Delivery, LoginEnd> {
        match self.person.habit {
            Habit::Grants => {
                let parameters = Form::new().with("state", self.state.as_str()).with("code", "canary-code");
                Ok(Delivery { parameters, verdict: oneshot::channel().0 })
            }
            Habit::Panics => panic!("the desktop is gone"),
            Habit::Sleeps => pending().await,
            Habit::Skips => Err(LoginEnd::Skipped),
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.person.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// A store that fails to keep what it is given, so many times, and that can be slow to read.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailingStore {
    pub(crate) inner: MemoryStore,
    pub(crate) failures: Arc<AtomicUsize>,
    /// Readings without the lock that have begun.
    pub(crate) readings: Arc<AtomicUsize>,
    /// Whoever reads without the lock has to hold this for a moment, after having read.
    pub(crate) reader: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct FailingLock {
    inner: Box<dyn LockedCredentials>,
    failures: Arc<AtomicUsize>,
}

#[async_trait]
impl CredentialStore for FailingStore {
    async fn load(&self, key: &CredentialKey) -> Result<Option<CredentialRecord>, StoreError> {
        self.readings.fetch_add(1, Ordering::SeqCst);
        let record = self.inner.load(key).await;
        drop(self.reader.lock().await);
        record
    }

    fn stamp(&self, key: &CredentialKey) -> Option<Stamp> {
        self.inner.stamp(key)
    }

    async fn lock(&self, key: &CredentialKey, by: Instant) -> Result<Box<dyn LockedCredentials>, StoreError> {
        let inner = self.inner.lock(key, by).await?;
        Ok(Box::new(FailingLock { inner, failures: Arc::clone(&self.failures) }))
    }
}

#[async_trait]
impl LockedCredentials for FailingLock {
    async fn load(&self) -> Result<Option<CredentialRecord>, StoreError> {
        self.inner.load().await
    }

    async fn save(&self, record: &CredentialRecord) -> Result<Saved, StoreError> {
        let left = self.failures.load(Ordering::SeqCst);
        if left > 0 {
            self.failures.store(left - 1, Ordering::SeqCst);
            return Err(StoreError::Io("no space left".to_owned()));
        }
        self.inner.save(record).await
    }

    async fn clear(&self) -> Result<(), StoreError> {
        self.inner.clear().await
    }
}

/// One world: a network, a store, a calendar, a gate.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) net: Arc<Net>,
    pub(crate) store: FailingStore,
    pub(crate) calendar: Arc<Calendar>,
    pub(crate) gate: InteractiveGate,
}

impl World {
    pub(crate) fn new() -> Self {
        let (store, calendar, gate) = Default::default();
        Self { net: Net::new(), store, calendar, gate }
    }

    pub(crate) fn url(name: &str) -> WebUrl {
        WebUrl::parse(&format!("https://rs-{name}.example/mcp")).unwrap()
    }

    pub(crate) fn key(name: &str) -> CredentialKey {
        CredentialKey::new(name, &Self::url(name))
    }

    pub(crate) fn seams(&self) -> OAuthSeams {
        OAuthSeams {
            http: Arc::<Net>::clone(&self.net),
            store: Arc::new(self.store.clone()),
            clock: Arc::<Calendar>::clone(&self.calendar),
            randomness: Arc::new(SystemRandomness),
            gate: self.gate.clone(),
        }
    }

    /// As one process would authorize for the site of this name.
    pub(crate) fn oauth(&self, name: &str) -> OAuth {
        OAuth::new(name, Self::url(name), OAuthSettings::default(), self.seams())
    }

    /// Leaves credentials in the store: access token `a1`, refresh token `r1`, an hour to live.
    pub(crate) async fn plant(&self, name: &str, spoil: impl FnOnce(&mut CredentialRecord)) {
        let document = json!({"server": format!("https://rs-{name}.example/mcp"), "issuer": format!("https://as-{name}.example"),
            "resource": format!("https://rs-{name}.example/mcp")});
        let issuer = document["issuer"].as_str().unwrap();
        let client = ClientRecord::new(ClientSource::Registered, format!("client-{name}"));
        let mut record = CredentialRecord::new(document["server"].as_str().unwrap(), issuer, client);
        record.resource = document["resource"].as_str().map(str::to_owned);
        let now = UnixTime::from(self.calendar.now());
        let body =
            json!({"access_token": "a1", "refresh_token": "r1", "expires_in": 3600}).to_string().into_bytes();
        let response = OAuthResponse::new(200, HeaderMap::new(), body);
        let reply = TokenReply::read(&response, &mcp_proto::Redactor::default()).unwrap();
        record.tokens = Some(Tokens::granted(reply, Scopes::default(), now));
        let mut metadata = ServerMetadata::default();
        metadata.issuer = Some(issuer.to_owned());
        metadata.token_endpoint = Some(format!("{issuer}/token"));
        record.metadata = Some(CachedMetadata { document: metadata, fetched_at: now });
        spoil(&mut record);
        let locked = self.store.inner.lock(&Self::key(name), Instant::now()).await.unwrap();
        record.revision = locked.load().await.unwrap().map_or(0, |kept| kept.revision);
        locked.save(&record).await.unwrap();
    }

    pub(crate) async fn kept(&self, name: &str) -> Option<CredentialRecord> {
        self.store.inner.load(&Self::key(name)).await.unwrap()
    }

    pub(crate) async fn kept_token(&self, name: &str) -> Option<String> {
        let tokens = self.kept(name).await?.tokens?;
        Some(tokens.access_token.expose().to_owned())
    }
}

pub(crate) fn challenges(value: &str) -> Challenges {
    Challenges::parse([value.as_bytes()])
}

pub(crate) fn unauthorized() -> Challenges {
    challenges("Bearer error=\"invalid_token\"")
}

/// The token that a request would carry.
pub(crate) async fn token(oauth: &OAuth) -> Result<Option<String>, AuthError> {
    Ok(oauth.authorize().await?.0.map(|found| found.token.expose().to_owned()))
}
