use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error::{AuthError, LoginEnd};
use super::gate::GatePass;
use super::login::{Login, LoginInput, LoginOutput, LoginPlan};
use super::provider::Shared;
use super::store::{FENCE_LIMIT, LockedCredentials, Stamp};
use super::ui::{AnswerVerdict, AuthUi, Consent};

/// How long a login may take from the gate until a person is asked, as others wait at the gate.
const ASK_LIMIT: Duration = Duration::from_secs(60);

/// What a login holds while it runs. Dropping it gives everything back: listener, fence, gate.
#[derive(Debug, Default)]
struct Held {
    // In the order in which they are given back.
    consent: Option<Box<dyn Consent>>,
    fence: Option<Box<dyn LockedCredentials>>,
    gate: Option<GatePass>,
    /// The state of the store in which it was read at the gate.
    stamp: Option<Stamp>,
    /// When a person must have been asked.
    ask_by: Option<Instant>,
    /// Where to say what the last answer was worth.
    verdict: Option<oneshot::Sender<AnswerVerdict>>,
    /// When the person must have answered.
    answer_by: Option<Instant>,
}

/// Drives a [`Login`] to its end. It is ended from outside by `ended`, but not while a code is redeemed.
pub(super) async fn run(
    shared: &Shared,
    plan: LoginPlan,
    ui: &dyn AuthUi,
    ended: &CancellationToken,
) -> Result<(), AuthError> {
    let limit = plan.settings.login_limit;
    let (mut login, mut wants) = Login::begin(plan, Arc::clone(&shared.seams.randomness));
    let mut held = Held::default();
    let mut is_new = false;
    loop {
        let input = if let LoginOutput::Done(end) = wants {
            let record = end?;
            if !is_new {
                shared.adopt(Some(record), held.stamp);
            }
            return Ok(());
        } else if login.is_committing() {
            commit(shared, &mut held, wants, &mut is_new).await?
        } else {
            // Nobody waits for it any more: that goes before whatever else has happened.
            match ended.run_until_cancelled(prepare(shared, &mut held, wants, ui, limit)).await {
                None => LoginInput::Ended(LoginEnd::Cancelled),
                Some(input) => input?,
            }
        };
        let next = login.step(input, shared.now());
        // The inputs above are what it waits for.
        wants = next.map_err(|error| AuthError::unavailable(error.to_string()))?;
        held.tell(&wants);
    }
}

/// Does what can be given up at any time.
async fn prepare(
    shared: &Shared,
    held: &mut Held,
    wants: LoginOutput,
    ui: &dyn AuthUi,
    limit: Duration,
) -> Result<LoginInput, AuthError> {
    Ok(match wants {
        LoginOutput::NeedGate => {
            held.gate = Some(shared.seams.gate.enter().await);
            held.ask_by = Some(Instant::now() + ASK_LIMIT);
            held.stamp = shared.seams.store.stamp(&shared.key);
            let kept = shared.seams.store.load(&shared.key).await?.map(Box::new);
            LoginInput::GateEntered(shared.unsaved(&kept).or(kept))
        }
        LoginOutput::Send(number, request) => {
            LoginInput::Response(number, in_time(held.ask_by, shared.send(*request)).await?)
        }
        LoginOutput::NeedListener(wish) => match in_time(held.ask_by, ui.open(&wish)).await? {
            Ok(consent) => {
                let uri = consent.redirect_uri();
                held.consent = Some(consent);
                LoginInput::Listening(uri)
            }
            Err(end) => LoginInput::Ended(end),
        },
        LoginOutput::NeedUser(request) => {
            let by = *held.answer_by.insert(Instant::now() + limit);
            let Some(consent) = &mut held.consent else { return Ok(LoginInput::Ended(LoginEnd::NoListener)) };
            match timeout_at(by, consent.show(&request)).await {
                Ok(Ok(())) => held.answer().await,
                Ok(Err(end)) => LoginInput::Ended(end),
                Err(_) => LoginInput::Ended(LoginEnd::TimedOut),
            }
        }
        LoginOutput::KeepWaiting(_) => held.answer().await,
        LoginOutput::NeedFence => {
            let fence = shared.seams.store.lock(&shared.key, Instant::now() + FENCE_LIMIT).await?;
            let kept = fence.load().await?.map(Box::new);
            held.fence = Some(fence);
            LoginInput::FenceTaken(shared.unsaved(&kept).or(kept))
        }
        // Both belong to `commit` and to the loop above.
        LoginOutput::Commit(_) | LoginOutput::Done(_) => LoginInput::Ended(LoginEnd::Cancelled),
    })
}

/// Redeems the code and keeps what it brings: once the code has left, this goes on to its end.
async fn commit(
    shared: &Shared,
    held: &mut Held,
    wants: LoginOutput,
    is_new: &mut bool,
) -> Result<LoginInput, AuthError> {
    match wants {
        LoginOutput::Send(number, request) => Ok(LoginInput::Response(number, shared.send(*request).await)),
        LoginOutput::Commit(mut record) => {
            let Some(fence) = &held.fence else { return Err(AuthError::Login(LoginEnd::Cancelled)) };
            let saved = fence.save(&record).await;
            if let Ok(saved) = &saved {
                record.revision = saved.revision;
            } else {
                tracing::warn!(server = %shared.server, "new credentials cannot be kept");
            }
            *is_new = true;
            if record.tokens.is_some() {
                shared.publish(record, saved.as_ref().ok().copied());
            }
            held.fence = None;
            Ok(LoginInput::Saved(saved))
        }
        _ => Err(AuthError::Login(LoginEnd::Cancelled)),
    }
}

/// Waits for what has to be done before a person is asked.
async fn in_time<T>(by: Option<Instant>, work: impl Future<Output = T>) -> Result<T, AuthError> {
    let Some(by) = by else { return Ok(work.await) };
    let late = || format!("nobody could be asked within {} s", ASK_LIMIT.as_secs());
    timeout_at(by, work).await.map_err(|_| AuthError::unavailable(late()))
}

impl Held {
    /// Waits for the next answer of the person.
    async fn answer(&mut self) -> LoginInput {
        let (Some(consent), Some(by)) = (&mut self.consent, self.answer_by) else {
            return LoginInput::Ended(LoginEnd::NoListener);
        };
        match timeout_at(by, consent.answer()).await {
            Ok(Ok(delivery)) => {
                self.verdict = Some(delivery.verdict);
                LoginInput::Answer(delivery.parameters)
            }
            Ok(Err(end)) => LoginInput::Ended(end),
            Err(_) => LoginInput::Ended(LoginEnd::TimedOut),
        }
    }

    /// Tells what the last answer was worth, as soon as that is known.
    fn tell(&mut self, wants: &LoginOutput) {
        let verdict = match wants {
            LoginOutput::KeepWaiting(why) => AnswerVerdict::Foreign(*why),
            LoginOutput::NeedFence => AnswerVerdict::Granted,
            LoginOutput::Done(Err(AuthError::Denied(_))) => AnswerVerdict::Denied,
            _ => return,
        };
        if let Some(place) = self.verdict.take() {
            // The browser may be gone.
            let _ = place.send(verdict);
        }
    }
}
