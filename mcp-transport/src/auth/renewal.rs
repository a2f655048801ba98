use std::sync::Arc;

use mcp_proto::Secret;

use super::challenge::Challenges;
use super::dpop::DpopNonces;
use super::error::AuthError;
use super::identity::IdentitySource;
use super::login::UnexpectedInput;
use super::machine_grant::MachineGrant;
use super::oauth_http::{OAuthHttpError, OAuthRequest, OAuthResponse};
use super::random::Randomness;
use super::record::CredentialRecord;
use super::refresh::Refresh;
use super::settings::OAuthSettings;
use super::store::{Saved, StoreError};
use super::unix_time::UnixTime;
use super::web_url::WebUrl;

/// What a new access token is made for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RenewalPlan {
    /// What the user has said about the server.
    pub settings: OAuthSettings,
    /// Where the server is.
    pub server: WebUrl,
    /// The access token that is of no use any more, if it is not merely about to end.
    pub refused: Option<Secret>,
    /// What the server has asked for last; empty if nothing. Of use where the client acts for itself: whoever
    /// refreshes a token knows where and for what.
    pub challenges: Challenges,
    /// What authorization servers want to see in proofs, as far as that is known.
    pub nonces: DpopNonces,
    /// Makes what nobody may guess.
    pub randomness: Arc<dyn Randomness>,
}

/// Makes a new access token without a person, in the way that the settings name.
#[derive(Debug)]
pub enum Renewal {
    /// The client acts for itself.
    Grant(Box<MachineGrant>),
    /// With the refresh token of a person's grant.
    Refresh(Box<Refresh>),
}

/// What a driver tells a [`Renewal`].
#[derive(Debug)]
#[non_exhaustive]
pub enum RenewalInput {
    /// The fence is taken, and this is what is kept now.
    FenceTaken(Option<Box<CredentialRecord>>),
    /// The token of the identity, or why there is none.
    Identity(Result<Secret, AuthError>),
    /// What is kept now.
    Reloaded(Option<Box<CredentialRecord>>),
    /// The answer to the request of this number.
    Response(u64, Result<OAuthResponse, OAuthHttpError>),
    /// The record is kept, or not.
    Saved(Result<Saved, StoreError>),
}

/// What a [`Renewal`] wants next.
#[derive(Debug)]
#[non_exhaustive]
pub enum RenewalOutput {
    /// Keep this record, before anybody may use it.
    Commit(Box<CredentialRecord>),
    /// It is over: these are the credentials, or there are none that are better.
    Done(Result<Box<CredentialRecord>, AuthError>),
    /// Take the fence and read what is kept.
    NeedFence,
    /// Ask this source for a token of its identity, to be shown to this audience.
    NeedIdentity(Arc<dyn IdentitySource>, String),
    /// Read once more what is kept.
    Reload,
    /// Send this, under this number.
    Send(u64, Box<OAuthRequest>),
}

impl RenewalPlan {
    /// A new token for the server at `server`.
    #[must_use]
    pub fn new(settings: OAuthSettings, server: WebUrl, randomness: Arc<dyn Randomness>) -> Self {
        let (challenges, nonces) = Default::default();
        Self { settings, server, refused: None, challenges, nonces, randomness }
    }

    /// Whether the access token that is kept will do.
    pub(super) fn is_enough(&self, kept: &CredentialRecord, now: UnixTime) -> bool {
        kept.tokens
            .as_ref()
            .is_some_and(|tokens| tokens.is_fresh(now) && self.refused.as_ref() != Some(&tokens.access_token))
    }
}

impl Renewal {
    /// Begins; the first output is always [`RenewalOutput::NeedFence`].
    #[must_use]
    pub fn begin(plan: RenewalPlan) -> (Self, RenewalOutput) {
        if plan.settings.is_for_itself() {
            let (grant, wants) = MachineGrant::begin(plan);
            (Self::Grant(Box::new(grant)), wants)
        } else {
            let (refresh, wants) = Refresh::begin(plan);
            (Self::Refresh(Box::new(refresh)), wants)
        }
    }

    /// Takes what has happened, and says what is to be done next.
    ///
    /// # Errors
    ///
    /// It did not wait for this; then nothing has changed.
    pub fn step(&mut self, input: RenewalInput, now: UnixTime) -> Result<RenewalOutput, UnexpectedInput> {
        match self {
            Self::Grant(grant) => grant.step(input, now),
            Self::Refresh(refresh) => refresh.step(input, now),
        }
    }

    /// Whether the fence is to be held until the next step, if it is taken already.
    #[must_use]
    pub fn needs_fence(&self) -> bool {
        match self {
            Self::Grant(grant) => grant.needs_fence(),
            Self::Refresh(refresh) => refresh.needs_fence(),
        }
    }
}
