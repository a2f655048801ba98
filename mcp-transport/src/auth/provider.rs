use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcp_proto::{ProtocolVersion, Secret};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::access::{Access, Carry, Refused, TokenStamp};
use super::challenge::{BearerChallenge, Challenges};
use super::error::{AuthError, LoginEnd, NeedsAuth};
use super::gate::InteractiveGate;
use super::login::LoginPlan;
use super::login_run;
use super::oauth_http::OAuthHttp;
use super::random::Randomness;
use super::record::CredentialRecord;
use super::refresh_run;
use super::settings::OAuthSettings;
use super::store::{CredentialKey, CredentialStore, FENCE_LIMIT, Saved};
use super::ui::AuthUi;
use super::unix_time::UnixTime;
use super::web_url::WebUrl;
use crate::clock::WallClock;

/// How often the store is asked whether somebody else has changed it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

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
}

pub(super) struct Shared {
    pub(super) server: WebUrl,
    pub(super) key: CredentialKey,
    pub(super) seams: OAuthSeams,
    pub(super) stop: CancellationToken,
    state: Mutex<State>,
    tasks: TaskTracker,
}

struct State {
    settings: OAuthSettings,
    access: Access,
    looked_at: Option<Instant>,
    renewal: Option<Flight>,
    login: Option<LoginFlight>,
}

/// Work of which there is one at a time, and its end.
type Flight = watch::Receiver<Option<Result<(), AuthError>>>;

struct LoginFlight {
    end: Flight,
    /// Goes away with the last one who waits, and ends the login.
    interest: Weak<DropGuard>,
}

impl OAuth {
    /// Authorizes requests to the server that is called `name` and is at `server`.
    #[must_use]
    pub fn new(name: &str, server: WebUrl, settings: OAuthSettings, seams: OAuthSeams) -> Self {
        let stop = CancellationToken::new();
        let state =
            State { settings, access: Access::default(), looked_at: None, renewal: None, login: None };
        let shared = Arc::new(Shared {
            key: CredentialKey::new(name, &server),
            server,
            seams,
            state: Mutex::new(state),
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
    /// A token that has ended is renewed before. Whatever else is wrong with it, the server will say.
    ///
    /// # Errors
    ///
    /// The token has ended and cannot be renewed, or the credentials cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops nothing that was begun.
    pub async fn authorize(&self) -> Result<(Option<Secret>, TokenStamp), AuthError> {
        self.shared.look().await?;
        let (carry, stamp) = self.shared.carry();
        match carry {
            Carry::Nothing => return Ok((None, stamp)),
            Carry::Token(token) => return Ok((Some(token), stamp)),
            Carry::Renewed { fallback } => {
                if let Err(error) = self.shared.renew(stamp, None).await {
                    return match fallback {
                        Some(token) => Ok((Some(token), stamp)),
                        None => Err(error),
                    };
                }
            }
        }
        // A lifetime may be shorter than the renewal took; then the token is sent all the same.
        Ok(match self.shared.carry() {
            (Carry::Nothing, stamp) => (None, stamp),
            (Carry::Token(token) | Carry::Renewed { fallback: Some(token) }, stamp) => (Some(token), stamp),
            (Carry::Renewed { fallback: None }, _) => return Err(AuthError::NeedsAuth(NeedsAuth::Expired)),
        })
    }

    /// The server has accepted a request with the token of this stamp.
    pub fn on_accepted(&self, stamp: TokenStamp) {
        self.shared.state().access.on_accepted(stamp);
    }

    /// The server has answered a request, which carried the token of `stamp`, with the status 401 or 403.
    ///
    /// Renews the token if that can help: once, however many requests were refused.
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
        match (status, challenges.bearer) {
            (401, challenge) => {
                self.shared.on_unauthorized(stamp, challenge).await.map(|()| AfterRefusal::Repeat)
            }
            (403, Some(challenge)) if challenge.error.as_deref() == Some("insufficient_scope") => {
                Err(self.shared.state().access.on_insufficient_scope(challenge))
            }
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

    /// Forgets the credentials, here and in the store.
    ///
    /// # Errors
    ///
    /// The store fails; then they are not forgotten.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the credentials.
    pub async fn logout(&self) -> Result<(), AuthError> {
        let shared = &self.shared;
        shared.seams.store.lock(&shared.key, Instant::now() + FENCE_LIMIT).await?.clear().await?;
        shared.state().access.on_cleared();
        Ok(())
    }

    /// Ends logins, refuses new work, and waits until `by` for what must not be lost. Answers with the
    /// number of tasks that were not done by then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops waiting.
    pub async fn close(&self, by: Instant) -> usize {
        let shared = &self.shared;
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

    pub(super) fn settings(&self) -> OAuthSettings {
        self.state().settings.clone()
    }

    fn carry(&self) -> (Carry, TokenStamp) {
        let now = self.now();
        let state = self.state();
        state.access.carry(&state.settings, now)
    }

    /// Takes over what somebody else has left in the store.
    async fn look(self: &Arc<Self>) -> Result<(), AuthError> {
        let (is_first, is_unsaved) = {
            let mut state = self.state();
            let now = Instant::now();
            if state.looked_at.is_some_and(|looked_at| now - looked_at < LOOK_EVERY) {
                return Ok(());
            }
            (state.looked_at.replace(now).is_none(), state.access.is_unsaved)
        };
        if is_unsaved {
            let stamp = self.state().access.generation();
            return self.fly(stamp, |shared| async move { refresh_run::save_again(&shared).await }).await;
        }
        let stamp = self.seams.store.stamp(&self.key);
        if is_first || stamp != self.state().access.stamp {
            self.load().await.inspect_err(|_| self.state().looked_at = None)?;
        }
        Ok(())
    }

    async fn load(&self) -> Result<(), AuthError> {
        // The stamp is older than the record at worst, so a change in between is seen the next time.
        let stamp = self.seams.store.stamp(&self.key);
        let record = self.seams.store.load(&self.key).await?;
        let mut state = self.state();
        // What was renewed and could not be kept is worth more than what is kept.
        if !state.access.is_unsaved {
            state.access.on_loaded(record.map(Box::new), stamp);
        }
        Ok(())
    }

    async fn on_unauthorized(
        self: &Arc<Self>,
        stamp: TokenStamp,
        challenge: Option<BearerChallenge>,
    ) -> Result<(), AuthError> {
        if self.state().access.generation() == stamp && !self.state().access.is_unsaved {
            self.load().await?;
        }
        let refused = {
            let mut state = self.state();
            let renews_itself = state.settings.is_for_itself();
            state.access.on_unauthorized(stamp, challenge, renews_itself)
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
        self.fly(stamp, |shared| async move { refresh_run::run(&shared, refused).await }).await
    }

    /// Joins the work that is going on, or starts `work`, unless there is another token by now.
    async fn fly<F>(
        self: &Arc<Self>,
        stamp: TokenStamp,
        work: impl FnOnce(Arc<Self>) -> F + Send,
    ) -> Result<(), AuthError>
    where
        F: Future<Output = Result<(), AuthError>> + Send + 'static,
    {
        let end = {
            let mut state = self.state();
            if state.access.generation() != stamp {
                return Ok(());
            }
            match &state.renewal {
                Some(end) => end.clone(),
                None if self.stop.is_cancelled() => return Err(AuthError::Login(LoginEnd::Cancelled)),
                None => {
                    let (sender, end) = watch::channel(None);
                    state.renewal = Some(end.clone());
                    let (shared, work) = (Arc::clone(self), work(Arc::clone(self)));
                    self.tasks.spawn(async move {
                        let landing = Landing { shared, sender };
                        let result = work.await;
                        landing.land(result);
                    });
                    end
                }
            }
        };
        ended(end).await
    }

    /// Joins the login that is going on or starts one; `None` if one is just ending.
    fn join_login(
        self: &Arc<Self>,
        ui: &Arc<dyn AuthUi>,
        is_forced: bool,
    ) -> Result<Option<(Flight, Arc<DropGuard>)>, AuthError> {
        let mut state = self.state();
        if state.settings.is_for_itself() {
            return Err(AuthError::Config("a client that acts for itself needs no login".to_owned()));
        }
        if let Some(flight) = &state.login {
            return Ok(flight.interest.upgrade().map(|interest| (flight.end.clone(), interest)));
        }
        if self.stop.is_cancelled() {
            return Err(AuthError::Login(LoginEnd::Cancelled));
        }
        let (challenge, wanted, refused) = state.access.on_login();
        let plan = LoginPlan {
            settings: state.settings.clone(),
            server: self.server.clone(),
            challenge,
            wanted,
            refused,
            is_forced,
        };
        let nobody_waits = self.stop.child_token();
        let (sender, end) = watch::channel(None);
        let interest = Arc::new(nobody_waits.clone().drop_guard());
        state.login = Some(LoginFlight { end: end.clone(), interest: Arc::downgrade(&interest) });
        let (shared, ui) = (Arc::clone(self), Arc::clone(ui));
        self.tasks.spawn(async move {
            let result = login_run::run(&shared, plan, &*ui, &nobody_waits).await;
            // First the place is free, then whoever waits learns of the end.
            shared.state().login = None;
            sender.send_replace(Some(result));
        });
        Ok(Some((end, interest)))
    }

    async fn login_over(&self) {
        let end = self.state().login.as_ref().map(|flight| flight.end.clone());
        if let Some(end) = end {
            // How it ended is of no interest to whoever did not wait for it.
            let _ = ended(end).await;
        }
    }

    /// Credentials that are kept from now on.
    pub(super) fn publish(&self, record: Box<CredentialRecord>, saved: Option<Saved>) {
        let mut state = self.state();
        state.access.on_renewed(record);
        state.access.is_unsaved = saved.is_none();
        if let Some(saved) = saved {
            state.access.stamp = saved.stamp;
        }
    }

    /// Credentials that were in the store; nobody has made them here.
    pub(super) fn adopt(&self, record: Option<Box<CredentialRecord>>) {
        let stamp = self.seams.store.stamp(&self.key);
        self.state().access.on_loaded(record, stamp);
    }

    pub(super) fn unsaved(&self) -> Option<Box<CredentialRecord>> {
        self.state().access.unsaved()
    }
}

/// Frees the place of a renewal and tells its end, also if its task panics.
struct Landing {
    shared: Arc<Shared>,
    sender: watch::Sender<Option<Result<(), AuthError>>>,
}

impl Landing {
    fn land(self, result: Result<(), AuthError>) {
        self.shared.state().renewal = None;
        self.sender.send_replace(Some(result));
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.shared.state().renewal = None;
    }
}

async fn ended(mut end: Flight) -> Result<(), AuthError> {
    match end.wait_for(Option::is_some).await.map(|end| end.clone()) {
        Ok(Some(result)) => result,
        // Its task is gone without a word.
        _ => Err(AuthError::Login(LoginEnd::Cancelled)),
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("server", &self.shared.server).finish_non_exhaustive()
    }
}
