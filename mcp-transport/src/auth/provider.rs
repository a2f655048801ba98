use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use mcp_proto::{ProtocolVersion, Secret};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::access::{Access, Carry, Refused, TokenStamp};
use super::access_token::AccessToken;
use super::challenge::Challenges;
use super::dpop::{DpopKey, DpopNonce, DpopNonces, DpopProof, WANTS_NONCE};
use super::error::{AuthError, NeedsAuth};
use super::gate::InteractiveGate;
use super::login::LoginPlan;
use super::login_run;
use super::oauth_http::{OAuthHttp, OAuthHttpError, OAuthRequest, OAuthResponse};
use super::random::Randomness;
use super::record::CredentialRecord;
use super::renewal::RenewalPlan;
use super::renewal_run;
use super::revocation::{REVOCATION_LIMIT, Revocation, Revoking};
use super::settings::OAuthSettings;
use super::store::{CredentialKey, CredentialStore, FENCE_LIMIT, Saved, Stamp};
use super::ui::AuthUi;
use super::unix_time::UnixTime;
use super::web_url::WebUrl;
use crate::clock::WallClock;

/// How often the store is asked whether somebody else has changed it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often the store is asked for new credentials by whoever waits for them.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// How long a token that still works is not renewed ahead of its end after that has failed.
const PAUSE: Duration = Duration::from_secs(10);

/// What the authorization of a server stands on.
#[derive(Debug, Clone)]
pub struct OAuthSeams {
    /// Makes its requests.
    pub http: Arc<dyn OAuthHttp>,
    /// Keeps its credentials.
    pub store: Arc<dyn CredentialStore>,
    /// Tells the date.
    pub clock: Arc<dyn WallClock>,
    /// Makes what nobody may guess.
    pub randomness: Arc<dyn Randomness>,
    /// Lets one login at a time ask a person; the same one for all servers.
    pub gate: InteractiveGate,
}

/// Authorizes the requests to one server. Clones are the same one.
///
/// It renews tokens by itself, once for all requests that need it, and never asks a person: that is
/// [`login`](Self::login), which the layers above call. Nothing here is locked while a request to the
/// server is under way.
///
/// Work that must not be lost (a token that was renewed, a code that was redeemed) runs in tasks of its
/// own: whoever waits for it may go away. Dropping the last clone stops everything else; use
/// [`close`](Self::close) to wait for it.
#[derive(Clone)]
pub struct OAuth {
    shared: Arc<Shared>,
    _stop: Arc<DropGuard>,
}

/// What became of a request that the server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterRefusal {
    /// It has nothing to do with authorization.
    Unrelated,
    /// Send it again, with what [`OAuth::authorize`] says now.
    Repeat,
    /// Send it again with another proof: this one has lacked a nonce, and nothing is wrong with the token.
    ProveAgain,
}

pub(super) struct Shared {
    pub(super) server: WebUrl,
    pub(super) key: CredentialKey,
    pub(super) seams: OAuthSeams,
    pub(super) stop: CancellationToken,
    state: Mutex<State>,
    /// Lets one request at a time read the store; the others take what it has read.
    reading: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

struct State {
    settings: OAuthSettings,
    access: Access,
    /// What authorization servers want to see in proofs.
    nonces: DpopNonces,
    /// What the server itself wants to see in them.
    server_nonce: Option<DpopNonce>,
    /// When the store was last looked at; `None` until it was read once.
    looked_at: Option<Instant>,
    /// How many readings of the store have begun, and which of them was the last to succeed.
    readings: u64,
    read: u64,
    /// When the next renewal may begin, as the last one has failed.
    pause: Option<Pause>,
    /// Counts the flights.
    flights: u64,
    renewal: Option<Flight>,
    saving: Option<Flight>,
    login: Option<LoginFlight>,
    /// The token, or the want of one, that only a person can help with.
    unusable: Option<TokenStamp>,
    /// Which token of an identity was shown last.
    shown: Option<Stamp>,
    is_closed: bool,
}

/// Work of which there is one at a time: whoever wants the same waits for the same end.
struct Flight {
    /// Tells it from the next one that takes its place.
    number: u64,
    end: End,
}

type End = watch::Receiver<Option<Result<(), AuthError>>>;

struct LoginFlight {
    flight: Flight,
    /// Goes away with the last one who waits, and ends the login.
    interest: Weak<DropGuard>,
}

/// A kind of work, of each of which there is one at a time.
#[derive(Debug, Clone, Copy)]
enum Work {
    Login,
    Renewal,
    Saving,
}

/// How long the authorization server is left alone.
#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    /// Whether the server has asked for it; then it holds even where no token works.
    is_wished: bool,
}

impl OAuth {
    /// Authorizes requests to the server that is called `name` and is at `server`.
    #[must_use]
    pub fn new(name: &str, server: WebUrl, settings: OAuthSettings, seams: OAuthSeams) -> Self {
        let stop = CancellationToken::new();
        let state = State {
            settings,
            access: Access::default(),
            nonces: DpopNonces::default(),
            server_nonce: None,
            looked_at: None,
            readings: 0,
            read: 0,
            pause: None,
            flights: 0,
            renewal: None,
            saving: None,
            login: None,
            unusable: None,
            shown: None,
            is_closed: false,
        };
        let shared = Arc::new(Shared {
            key: CredentialKey::new(name, &server),
            server,
            seams,
            state: Mutex::new(state),
            reading: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        Self { shared, _stop: Arc::new(stop.drop_guard()) }
    }

    /// Tells which version is spoken with the server, as soon as that is known.
    pub fn set_version(&self, version: ProtocolVersion) {
        self.shared.state().settings.version = Some(version);
    }

    /// The access token for a request, if there is one, and a stamp to name it by.
    ///
    /// A token that has ended is renewed before; one that is about to end is renewed meanwhile. Whatever
    /// else is wrong with it, the server will say: a client that acts for itself makes its first token when
    /// the server has asked for one, as only then it is known where.
    ///
    /// # Errors
    ///
    /// The token has ended and cannot be renewed, or the credentials cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops nothing that was begun.
    pub async fn authorize(&self) -> Result<(Option<AccessToken>, TokenStamp), AuthError> {
        let shared = &self.shared;
        shared.look().await?;
        let (carry, stamp) = shared.carry();
        self.provide(carry, stamp).await.inspect_err(|error| shared.note(stamp, error))
    }

    async fn provide(
        &self,
        carry: Carry,
        stamp: TokenStamp,
    ) -> Result<(Option<AccessToken>, TokenStamp), AuthError> {
        let shared = &self.shared;
        match carry {
            Carry::Nothing => return Ok((None, stamp)),
            Carry::Token(token) => return Ok((Some(token), stamp)),
            Carry::Renewed { fallback: Some(token) } => {
                shared.renew_ahead(stamp);
                return Ok((Some(token), stamp));
            }
            Carry::Renewed { fallback: None } => {}
        }
        let renewed = match shared.wished_pause() {
            Some(error) => Err(error),
            None => shared.renew(stamp, None).await,
        };
        match (shared.carry(), renewed) {
            // A lifetime may be shorter than the renewal took, and a token that cannot be kept is a good one.
            ((Carry::Token(token) | Carry::Renewed { fallback: Some(token) }, stamp), _) => {
                Ok((Some(token), stamp))
            }
            (_, Err(error)) => Err(error),
            ((Carry::Nothing, stamp), Ok(())) => Ok((None, stamp)),
            ((Carry::Renewed { fallback: None }, _), Ok(())) => Err(AuthError::NeedsAuth(NeedsAuth::Expired)),
        }
    }

    /// What proves, with a request of this method to this target, that the client has the key of `token`.
    pub(super) fn prove(
        &self,
        key: &DpopKey,
        token: &Secret,
        method: &Method,
        target: &str,
    ) -> Result<HeaderValue, AuthError> {
        let shared = &self.shared;
        let nonce = shared.state().server_nonce.clone();
        let proof = DpopProof {
            key,
            method,
            origin: shared.server.origin(),
            target,
            token: Some(token),
            nonce: nonce.as_ref(),
            now: shared.now(),
            randomness: &*shared.seams.randomness,
        };
        proof.sign()
    }

    /// The server has answered, with these headers: they may say what it wants to see in proofs from now on.
    pub fn on_answer(&self, headers: &HeaderMap) {
        if let Some(nonce) = DpopNonce::of(headers) {
            self.shared.state().server_nonce = Some(nonce);
        }
    }

    /// The server has accepted a request with the token of this stamp.
    pub fn on_accepted(&self, stamp: TokenStamp) {
        self.shared.state().access.on_accepted(stamp);
    }

    /// The server has answered a request, which carried the token of `stamp`, with the status 401 or 403.
    ///
    /// Renews the token if that can help: once, however many requests were refused. What the server wants
    /// to see in a proof has to be told before, with [`on_answer`](Self::on_answer).
    ///
    /// # Errors
    ///
    /// Repeating the request is no use.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops nothing that was begun.
    pub async fn on_refused(
        &self,
        status: u16,
        challenges: Challenges,
        stamp: TokenStamp,
    ) -> Result<AfterRefusal, AuthError> {
        match (status, challenges.error()) {
            (401, Some(WANTS_NONCE | "invalid_dpop_proof")) if self.shared.is_bound(stamp) => {
                self.shared.on_proof_refused(&challenges)
            }
            (401, _) => {
                let recovered = self.shared.on_unauthorized(stamp, challenges).await;
                recovered.inspect_err(|error| self.shared.note(stamp, error))?;
                Ok(AfterRefusal::Repeat)
            }
            (403, Some("insufficient_scope")) => match self.shared.on_insufficient_scope(stamp, challenges) {
                Refused::Final(error) => Err(error),
                Refused::Renew(_) | Refused::Repeat => Ok(AfterRefusal::Repeat),
            },
            _ => Ok(AfterRefusal::Unrelated),
        }
    }

    /// Has a person grant access, unless somebody else has meanwhile; joins a login that is going on.
    ///
    /// The credentials that are kept stay until there are new ones. `is_forced` asks the person even if
    /// nothing is known to be wrong with them.
    ///
    /// # Errors
    ///
    /// There are no new credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the login, unless others wait for it too or the answer is being redeemed.
    pub async fn login(&self, ui: Arc<dyn AuthUi>, is_forced: bool) -> Result<(), AuthError> {
        loop {
            if let Some((end, _interest)) = self.shared.join_login(&ui, is_forced)? {
                return ended(end).await;
            }
            // One that nobody waited for is just ending.
            self.shared.login_over().await;
        }
    }

    /// Waits until there is a token that was not yet known to be of no use: somebody has logged in, here or
    /// in another process, or signed on anew where the token of an identity is shown. The store and
    /// [that token](super::IdentitySource::stamp) are looked at every second.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing; whoever waits again misses nothing.
    pub async fn renewed(&self) {
        loop {
            if let Err(error) = self.shared.look().await {
                tracing::debug!(server = %self.shared.server, %error, "no look at the credentials");
            }
            let (carry, stamp) = self.shared.carry();
            let is_unusable = self.shared.state().unusable == Some(stamp) && !self.shared.has_new_identity();
            if carry != Carry::Nothing && !is_unusable {
                return;
            }
            sleep(WATCH_EVERY).await;
        }
    }

    /// Forgets the credentials, here and in the store, and asks the authorization server to take the tokens
    /// back. That may take 10 s; whatever comes of it is told and changes nothing here.
    ///
    /// # Errors
    ///
    /// The store fails; then they are not forgotten.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the credentials, or tokens that the server still takes.
    ///
    /// # Source
    ///
    /// RFC 7009, section 2.
    pub async fn logout(&self) -> Result<Revocation, AuthError> {
        let shared = &self.shared;
        let fence = shared.seams.store.lock(&shared.key, Instant::now() + FENCE_LIMIT).await?;
        let kept = fence.load().await.map(|kept| kept.map(Box::new));
        fence.clear().await?;
        // What cannot be read was forgotten all the same.
        let forgotten = kept.map(|kept| shared.unsaved(&kept).or(kept));
        shared.state().access.on_cleared();
        drop(fence);
        Ok(match forgotten {
            Ok(Some(record)) => shared.revoke(&record).await,
            Ok(None) => Revocation::NotOffered,
            Err(error) => Revocation::Failed(error.into()),
        })
    }

    /// Ends logins, refuses new work, and waits until `by` for what must not be lost. Answers with the
    /// number of tasks that were not done by then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops waiting.
    pub async fn close(&self, by: Instant) -> usize {
        let shared = &self.shared;
        // Nothing begins from here on, so that what is counted below is all there is.
        shared.state().is_closed = true;
        shared.stop.cancel();
        shared.tasks.close();
        // Running out of time leaves the rest to the runtime; their number is the answer.
        let _ = timeout_at(by, shared.tasks.wait()).await;
        let left = shared.tasks.len();
        if left > 0 {
            tracing::warn!(server = %shared.server, left, "authorization is not done in time");
        }
        left
    }
}

impl Shared {
    pub(super) fn now(&self) -> UnixTime {
        self.seams.clock.now().into()
    }

    /// Never held while anything is waited for.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settings(&self) -> OAuthSettings {
        self.state().settings.clone()
    }

    /// Notes that nothing but a person helps with the token of `stamp`, if the error says so.
    fn note(&self, stamp: TokenStamp, error: &AuthError) {
        if matches!(error, AuthError::NeedsAuth(_)) {
            self.state().unusable = Some(stamp);
        }
    }

    /// The token of an identity is about to be shown that is of this state.
    pub(super) fn on_shown(&self, identity: Option<Stamp>) {
        self.state().shown = identity;
    }

    /// Whether there is a token of an identity that was not shown yet.
    fn has_new_identity(&self) -> bool {
        let settings = self.settings();
        let identity = settings.grant.identity().and_then(|identity| identity.stamp());
        identity.is_some() && identity != self.state().shown
    }

    fn carry(&self) -> (Carry, TokenStamp) {
        let now = self.now();
        let state = self.state();
        state.access.carry(&state.settings, now)
    }

    /// Takes over what somebody else has left in the store.
    async fn look(self: &Arc<Self>) -> Result<(), AuthError> {
        if self.state().has_looked() {
            return Ok(());
        }
        let _turn = self.reading.lock().await;
        // Somebody may have looked while this waited for its turn.
        let (is_unsaved, is_first) = {
            let state = self.state();
            if state.has_looked() {
                return Ok(());
            }
            (state.access.is_unsaved(), state.looked_at.is_none())
        };
        if is_unsaved {
            self.save_again();
        } else if is_first || self.seams.store.stamp(&self.key) != self.state().access.stamp {
            self.load().await?;
        }
        self.state().looked_at = Some(Instant::now());
        Ok(())
    }

    /// Reads the store; for whoever has the turn.
    async fn load(&self) -> Result<(), AuthError> {
        let (number, changes) = {
            let mut state = self.state();
            state.readings += 1;
            (state.readings, state.access.changes())
        };
        // The stamp is older than the record at worst, so a change in between is seen the next time.
        let stamp = self.seams.store.stamp(&self.key);
        let record = self.seams.store.load(&self.key).await?;
        let mut state = self.state();
        state.read = number;
        // What was made or forgotten here meanwhile is newer than what was read.
        if state.access.changes() == changes {
            state.access.on_loaded(record.map(Box::new), stamp);
        }
        Ok(())
    }

    /// Reads the store, unless somebody does who has begun after this was called.
    async fn load_once(&self, stamp: TokenStamp) -> Result<(), AuthError> {
        let before = self.state().readings;
        let _turn = self.reading.lock().await;
        let is_needed = {
            let state = self.state();
            state.read <= before && state.access.generation() == stamp && !state.access.is_unsaved()
        };
        if is_needed { self.load().await } else { Ok(()) }
    }

    /// Makes a request of a flow, and remembers what its answer says about proofs.
    pub(super) async fn send(&self, request: OAuthRequest) -> Result<OAuthResponse, OAuthHttpError> {
        let origin = request.url.origin().clone();
        let answer = self.seams.http.send(request).await;
        if let Ok(response) = &answer {
            self.state().nonces.note(&origin, &response.headers);
        }
        answer
    }

    /// What a renewal goes by, in place of an access token that was `refused`, if it was.
    pub(super) fn renewal_plan(&self, refused: Option<Secret>) -> RenewalPlan {
        let state = self.state();
        let randomness = Arc::clone(&self.seams.randomness);
        RenewalPlan {
            refused,
            challenges: state.access.challenges(),
            nonces: state.nonces.clone(),
            ..RenewalPlan::new(state.settings.clone(), self.server.clone(), randomness)
        }
    }

    fn is_bound(&self, stamp: TokenStamp) -> bool {
        self.state().access.is_bound(stamp)
    }

    /// The server does not take the proof, and has not looked at the token.
    fn on_proof_refused(&self, challenges: &Challenges) -> Result<AfterRefusal, AuthError> {
        let has_nonce = self.state().server_nonce.is_some();
        match challenges.error() {
            Some(WANTS_NONCE) if has_nonce => Ok(AfterRefusal::ProveAgain),
            Some(WANTS_NONCE) => {
                Err(AuthError::unavailable("the server wants a nonce in proofs and names none"))
            }
            _ => Err(AuthError::unavailable(
                "the server does not take the proof of the token's key; is the clock right?",
            )),
        }
    }

    fn on_insufficient_scope(&self, stamp: TokenStamp, challenges: Challenges) -> Refused {
        let mut state = self.state();
        // Whoever acts for itself has asked for all there is, and has nobody to ask for more.
        let can_ask = !state.settings.is_for_itself();
        state.access.on_insufficient_scope(stamp, challenges, can_ask)
    }

    async fn on_unauthorized(
        self: &Arc<Self>,
        stamp: TokenStamp,
        challenges: Challenges,
    ) -> Result<(), AuthError> {
        self.load_once(stamp).await?;
        let refused = {
            let mut state = self.state();
            let renews_itself = state.settings.is_for_itself();
            state.access.on_unauthorized(stamp, challenges, renews_itself)
        };
        match refused {
            Refused::Repeat => Ok(()),
            Refused::Renew(token) => self.renew(stamp, token).await,
            Refused::Final(error) if self.state().login.is_some() => {
                Err(if error.needs_auth() { AuthError::NeedsAuth(NeedsAuth::LoginInProgress) } else { error })
            }
            Refused::Final(error) => Err(error),
        }
    }

    /// Makes a new token in place of the one of `stamp`, together with everybody who wants that.
    async fn renew(self: &Arc<Self>, stamp: TokenStamp, refused: Option<Secret>) -> Result<(), AuthError> {
        match self.begin_renewal(stamp, refused)? {
            Some(end) => ended(end).await,
            None => Ok(()),
        }
    }

    /// Begins to make a new token while the one of `stamp` still works. How that ends is told by the next
    /// look at the token.
    fn renew_ahead(self: &Arc<Self>, stamp: TokenStamp) {
        if !self.state().is_pausing()
            && let Err(error) = self.begin_renewal(stamp, None)
        {
            tracing::debug!(server = %self.server, %error, "a token is not renewed");
        }
    }

    /// Begins a renewal or joins the one that is going on; `None` if there is another token by now.
    fn begin_renewal(
        self: &Arc<Self>,
        stamp: TokenStamp,
        refused: Option<Secret>,
    ) -> Result<Option<End>, AuthError> {
        let (end, landing) = {
            let mut state = self.state();
            if state.access.generation() != stamp {
                return Ok(None);
            }
            if let Some(flight) = &state.renewal {
                return Ok(Some(flight.end.clone()));
            }
            let (flight, landing) = self.reserve(&mut state, Work::Renewal)?;
            let end = flight.end.clone();
            state.renewal = Some(flight);
            (end, landing)
        };
        let shared = Arc::clone(self);
        landing.launch(async move {
            let result = renewal_run::run(&shared, refused).await;
            shared.state().on_renewal_over(&result);
            result
        });
        Ok(Some(end))
    }

    /// Tries in the background to keep what could not be kept.
    fn save_again(self: &Arc<Self>) {
        let reserved = {
            let mut state = self.state();
            if state.saving.is_some() {
                return;
            }
            let reserved = self.reserve(&mut state, Work::Saving);
            reserved.map(|(flight, landing)| {
                state.saving = Some(flight);
                landing
            })
        };
        // Whoever closes has waited for what could be kept in time.
        let Ok(landing) = reserved else { return };
        let shared = Arc::clone(self);
        landing.launch(async move {
            renewal_run::save_again(&shared).await.inspect_err(|error| {
                tracing::debug!(server = %shared.server, %error, "a renewed token still cannot be kept");
            })
        });
    }

    /// Makes a place for work that is about to begin. What it answers with must not be dropped or launched
    /// before the state is let go.
    fn reserve(self: &Arc<Self>, state: &mut State, work: Work) -> Result<(Flight, Landing), AuthError> {
        if state.is_closed || self.stop.is_cancelled() {
            return Err(AuthError::Closed);
        }
        state.flights += 1;
        let number = state.flights;
        let (sender, end) = watch::channel(None);
        let counted = Some(self.tasks.token());
        let landing = Landing { shared: Arc::clone(self), work, number, counted, sender, result: None };
        Ok((Flight { number, end }, landing))
    }

    /// What to say while the authorization server wants to be left alone.
    fn wished_pause(&self) -> Option<AuthError> {
        let pause = self.state().pause.filter(|pause| pause.is_wished)?;
        let left = pause.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        let what = "the authorization server has asked to wait".to_owned();
        Some(AuthError::Unavailable { what, retry_after: Some(left) })
    }

    /// Joins the login that is going on or starts one; `None` if one is just ending.
    fn join_login(
        self: &Arc<Self>,
        ui: &Arc<dyn AuthUi>,
        is_forced: bool,
    ) -> Result<Option<(End, Arc<DropGuard>)>, AuthError> {
        let nobody_waits = self.stop.child_token();
        let (end, interest, landing, plan) = {
            let mut state = self.state();
            if state.settings.is_for_itself() {
                return Err(AuthError::Config("a client that acts for itself needs no login".to_owned()));
            }
            if let Some(LoginFlight { flight, interest }) = &state.login {
                return Ok(interest.upgrade().map(|interest| (flight.end.clone(), interest)));
            }
            let (flight, landing) = self.reserve(&mut state, Work::Login)?;
            let (challenges, wanted, refused) = state.access.on_login();
            let plan = LoginPlan::new(state.settings.clone(), self.server.clone());
            let nonces = state.nonces.clone();
            let plan = LoginPlan { challenges, wanted, refused, nonces, is_forced, ..plan };
            let interest = Arc::new(nobody_waits.clone().drop_guard());
            let end = flight.end.clone();
            state.login = Some(LoginFlight { flight, interest: Arc::downgrade(&interest) });
            (end, interest, landing, plan)
        };
        let (shared, ui) = (Arc::clone(self), Arc::clone(ui));
        landing.launch(async move {
            let wanted = plan.wanted.clone();
            let result = login_run::run(&shared, plan, &*ui, &nobody_waits).await;
            if let (Ok(()), Some(wanted)) = (&result, &wanted) {
                shared.state().access.on_stepped_up(wanted);
            }
            result
        });
        Ok(Some((end, interest)))
    }

    /// Asks the authorization server to take tokens back that are forgotten here.
    async fn revoke(&self, record: &CredentialRecord) -> Revocation {
        let (settings, randomness) = (self.settings(), &*self.seams.randomness);
        let revoking =
            Revoking { record, settings: &settings, server: &self.server, now: self.now(), randomness };
        let revoked = timeout(REVOCATION_LIMIT, revoking.run(&*self.seams.http)).await;
        let late = || Revocation::Failed(AuthError::unavailable("the tokens are not revoked in time"));
        revoked.unwrap_or_else(|_| late())
    }

    async fn login_over(&self) {
        let end = self.state().login.as_ref().map(|login| login.flight.end.clone());
        if let Some(end) = end {
            // How it ended is of no interest to whoever did not wait for it.
            let _ = ended(end).await;
        }
    }

    /// Credentials that somebody has made here, and whether they are kept.
    pub(super) fn publish(&self, record: Box<CredentialRecord>, saved: Option<Saved>) {
        self.state().access.on_renewed(record, saved);
    }

    /// Credentials that were in the store in the state `stamp`; nobody has made them here.
    pub(super) fn adopt(&self, record: Option<Box<CredentialRecord>>, stamp: Option<Stamp>) {
        self.state().access.on_adopted(record, stamp);
    }

    /// What could not be kept is kept.
    pub(super) fn on_saved(&self, saved: Saved) {
        self.state().access.on_saved(saved);
    }

    /// Credentials that could not be kept and go before those that are, to follow them.
    pub(super) fn unsaved(&self, kept: &Option<Box<CredentialRecord>>) -> Option<Box<CredentialRecord>> {
        self.state().access.unsaved(kept.as_deref())
    }
}

impl State {
    fn has_looked(&self) -> bool {
        self.looked_at.is_some_and(|looked_at| Instant::now() - looked_at < LOOK_EVERY)
    }

    fn is_pausing(&self) -> bool {
        self.pause.is_some_and(|pause| Instant::now() < pause.until)
    }

    fn on_renewal_over(&mut self, result: &Result<(), AuthError>) {
        self.pause = result.as_ref().err().map(|error| {
            let wished = match error {
                AuthError::Unavailable { retry_after, .. } => *retry_after,
                _ => None,
            };
            Pause { until: Instant::now() + wished.unwrap_or(PAUSE), is_wished: wished.is_some() }
        });
    }

    /// Frees the place of this flight, if it is still its own.
    fn free(&mut self, work: Work, number: u64) {
        let place = match work {
            Work::Login => {
                if self.login.as_ref().is_some_and(|login| login.flight.number == number) {
                    self.login = None;
                }
                return;
            }
            Work::Renewal => &mut self.renewal,
            Work::Saving => &mut self.saving,
        };
        if place.as_ref().is_some_and(|flight| flight.number == number) {
            *place = None;
        }
    }
}

/// Frees the place of a flight and then tells its end, also if its task panics or never runs.
struct Landing {
    shared: Arc<Shared>,
    work: Work,
    number: u64,
    /// Makes whoever closes wait for a flight that has a place and no task yet.
    counted: Option<TaskTrackerToken>,
    sender: watch::Sender<Option<Result<(), AuthError>>>,
    result: Option<Result<(), AuthError>>,
}

impl Landing {
    fn launch(mut self, work: impl Future<Output = Result<(), AuthError>> + Send + 'static) {
        let (tasks, counted) = (self.shared.tasks.clone(), self.counted.take());
        tasks.spawn(async move {
            let result = work.await;
            self.land(result);
        });
        drop(counted);
    }

    fn land(mut self, result: Result<(), AuthError>) {
        self.result = Some(result);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.shared.state().free(self.work, self.number);
        let result = self.result.take();
        let result = result.unwrap_or_else(|| Err(AuthError::unavailable("its task has ended early")));
        self.sender.send_replace(Some(result));
    }
}

async fn ended(mut end: End) -> Result<(), AuthError> {
    match end.wait_for(Option::is_some).await.map(|end| end.clone()) {
        Ok(Some(result)) => result,
        // Every end is told, so this is never reached.
        _ => Err(AuthError::unavailable("its task is gone without a word")),
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{MemoryStore, OAuthHttpError, OAuthRequest, OAuthResponse, SystemRandomness};
    use crate::clock::SystemClock;

    #[derive(Debug)]
    struct NoNetwork;

    #[async_trait::async_trait]
    impl OAuthHttp for NoNetwork {
        async fn send(&self, _request: OAuthRequest) -> Result<OAuthResponse, OAuthHttpError> {
            Err(OAuthHttpError::Unreachable("no network".to_owned()))
        }
    }

    fn oauth() -> OAuth {
        let seams = OAuthSeams {
            http: Arc::new(NoNetwork),
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(SystemClock),
            randomness: Arc::new(SystemRandomness),
            gate: InteractiveGate::default(),
        };
        let server = WebUrl::parse("https://rs.example/mcp").unwrap();
        OAuth::new("a", server, OAuthSettings::default(), seams)
    }

    #[tokio::test(start_paused = true)]
    async fn x01_work_that_is_about_to_begin_is_waited_for_and_none_begins_after_that() {
        let oauth = oauth();
        let shared = &oauth.shared;
        let reserved = shared.reserve(&mut shared.state(), Work::Renewal);
        let (flight, landing) = reserved.map_err(|error| error.to_string()).unwrap();
        assert_eq!(oauth.close(Instant::now()).await, 1, "it has a place and no task yet");
        landing.launch(async { Ok(()) });
        assert_eq!(ended(flight.end).await, Ok(()), "its end is told");
        assert_eq!(oauth.close(Instant::now() + Duration::from_secs(1)).await, 0);
        let refused = shared.reserve(&mut shared.state(), Work::Renewal);
        assert_eq!(refused.map(drop), Err(AuthError::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flight_that_never_runs_gives_its_place_back_and_no_other_one() {
        let oauth = oauth();
        let shared = &oauth.shared;
        let place = || {
            let mut state = shared.state();
            let (flight, landing) = shared.reserve(&mut state, Work::Renewal).ok().unwrap();
            state.renewal = Some(flight);
            landing
        };
        let (first, second) = (place(), place());
        drop(first);
        assert!(shared.state().renewal.is_some(), "the place is that of the second one by now");
        drop(second);
        assert!(shared.state().renewal.is_none());
    }
}
