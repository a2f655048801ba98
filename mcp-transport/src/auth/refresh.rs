use std::time::Duration;

use mcp_proto::Redactor;

use super::client_auth::{ClientProof, token_request};
use super::client_record::{ClientRecord, ClientSource};
use super::discovery::{Discovered, Discovery, DiscoveryStep, endpoint};
use super::dpop::{Binding, Dpop, Possession};
use super::error::{AuthError, NeedsAuth};
use super::error_reply::ErrorReply;
use super::form::Form;
use super::issuer::same_issuer;
use super::login::UnexpectedInput;
use super::oauth_http::{OAuthHttpError, OAuthRequest, OAuthResponse};
use super::record::{CachedMetadata, CredentialRecord};
use super::renewal::{RenewalInput, RenewalOutput, RenewalPlan};
use super::tokens::{TokenFailure, TokenReply};
use super::unix_time::UnixTime;

/// Time between two servers' words that the client is unknown, before the second one is believed.
///
/// Servers say so while they are deployed, and throwing a client away for it locks the user out.
const SECOND_STRIKE_AFTER: Duration = Duration::from_secs(60);

/// How old metadata may be before it is fetched again.
const METADATA_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Makes a new access token without a person, with the refresh token: a machine without I/O, clock or task.
///
/// ```text
/// begin ─▶ NeedFence ─▶ Send ─▶ Commit ─▶ Done
///            │  │ ▲      │ │└─ refused: Reload ─▶ Commit? ─▶ Done
///            │  │ │      │ └─ refused for want of a nonce, once: Send
///            │  │ │      ▼ no such endpoint, once
///            │  │ └── discovery: Send…, without the fence
///            │  └────────▲ nothing recent is known about the issuer
///            └─ somebody else has renewed it ─▶ Done
/// ```
///
/// The fence is asked for anew after a discovery, which may take longer than others wait for it.
///
/// Once the refresh token may have left, whoever drives this drives it to its end: the answer may hold
/// the only token that is worth anything from then on.
///
/// What is kept is thrown away for one reason alone, the word of the server that it is void; a server
/// that is not well, or does not keep to the protocol, costs nothing.
///
/// # Source
///
/// RFC 6749, section 6; RFC 9700, section 4.14; MCP 2026-07-28, basic/authorization.
#[derive(Debug)]
pub struct Refresh {
    plan: RenewalPlan,
    stage: Stage,
    asked: u64,
    is_asking: bool,
    /// What a discovery has found, and when, until it is used.
    found: Option<(Discovered, UnixTime)>,
    has_rediscovered: bool,
    /// Metadata that is merely old has to do, as there is no other.
    uses_old_metadata: bool,
}

#[derive(Debug)]
enum Stage {
    Fence,
    Discovering {
        discovery: Box<Discovery>,
        may_use_old_metadata: bool,
    },
    Renewing(Box<CredentialRecord>, Option<Possession>),
    /// The server has said that the refresh token is void.
    Reloading(Box<CredentialRecord>),
    Saving(Box<CredentialRecord>, Option<AuthError>),
    Over,
}

impl Refresh {
    /// Begins; the first output is always [`RenewalOutput::NeedFence`].
    #[must_use]
    pub fn begin(plan: RenewalPlan) -> (Self, RenewalOutput) {
        let refresh = Self {
            plan,
            stage: Stage::Fence,
            asked: 0,
            is_asking: false,
            found: None,
            has_rediscovered: false,
            uses_old_metadata: false,
        };
        (refresh, RenewalOutput::NeedFence)
    }

    /// Takes what has happened, and says what is to be done next.
    ///
    /// # Errors
    ///
    /// It did not wait for this; then nothing has changed.
    pub fn step(&mut self, input: RenewalInput, now: UnixTime) -> Result<RenewalOutput, UnexpectedInput> {
        if !self.waits_for(&input) {
            return Err(UnexpectedInput);
        }
        self.is_asking = false;
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let output = match (stage, input) {
            (Stage::Fence, RenewalInput::FenceTaken(kept)) => self.on_fence(kept, now),
            (
                Stage::Discovering { mut discovery, may_use_old_metadata },
                RenewalInput::Response(_, answer),
            ) => {
                let step = discovery.on_answer(answer);
                self.on_discovery(discovery, may_use_old_metadata, step, now)
            }
            (Stage::Renewing(record, possession), RenewalInput::Response(_, answer)) => {
                self.on_tokens(record, possession, answer, now)
            }
            (Stage::Reloading(record), RenewalInput::Reloaded(kept)) => self.on_reload(record, kept, now),
            (Stage::Saving(mut record, end), RenewalInput::Saved(saved)) => match (end, saved) {
                (Some(error), Ok(_)) => Err(error),
                (_, Err(error)) => Err(error.into()),
                (None, Ok(saved)) => {
                    record.revision = saved.revision;
                    Ok(RenewalOutput::Done(Ok(record)))
                }
            },
            _ => return Err(UnexpectedInput),
        };
        Ok(output.unwrap_or_else(|error| RenewalOutput::Done(Err(error))))
    }

    /// Whether the fence is to be held until the next step, if it is taken already.
    #[must_use]
    pub fn needs_fence(&self) -> bool {
        !matches!(self.stage, Stage::Discovering { .. })
    }

    fn waits_for(&self, input: &RenewalInput) -> bool {
        match (&self.stage, input) {
            (Stage::Fence, RenewalInput::FenceTaken(_))
            | (Stage::Reloading(_), RenewalInput::Reloaded(_))
            | (Stage::Saving(..), RenewalInput::Saved(_)) => true,
            (_, RenewalInput::Response(number, _)) => self.is_asking && *number == self.asked,
            _ => false,
        }
    }

    fn send(&mut self, request: OAuthRequest) -> RenewalOutput {
        self.asked += 1;
        self.is_asking = true;
        RenewalOutput::Send(self.asked, Box::new(request))
    }

    fn on_fence(
        &mut self,
        kept: Option<Box<CredentialRecord>>,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let mut kept = kept.ok_or(AuthError::NeedsAuth(NeedsAuth::Missing))?;
        if !self.plan.settings.accept(&kept) {
            return Err(AuthError::NeedsAuth(NeedsAuth::Changed));
        }
        let tokens = kept.tokens.as_ref().ok_or(AuthError::NeedsAuth(NeedsAuth::Missing))?;
        if self.plan.is_enough(&kept, now) {
            return Ok(RenewalOutput::Done(Ok(kept)));
        }
        // A client whose secret has ended is registered anew by the next login.
        if tokens.refresh_token.is_none() || kept.client.is_secret_expired(now) {
            return Err(AuthError::NeedsAuth(NeedsAuth::Expired));
        }
        if let Some((found, fetched_at)) = self.found.take()
            && same_issuer(&found.issuer, &kept.issuer)
        {
            kept.metadata = Some(CachedMetadata { document: found.metadata, fetched_at });
            return self.renew(kept, None, now);
        }
        let is_known =
            kept.metadata.as_ref().is_some_and(|cached| now.since(cached.fetched_at) < METADATA_LIFETIME);
        if is_known || (self.uses_old_metadata && kept.metadata.is_some()) {
            return self.renew(kept, None, now);
        }
        let has_old_metadata = kept.metadata.is_some();
        self.discover(&kept.issuer, has_old_metadata, now)
    }

    fn discover(
        &mut self,
        issuer: &str,
        may_use_old_metadata: bool,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let (discovery, step) = Discovery::at_issuer(&self.plan.settings, &self.plan.server, issuer);
        self.on_discovery(Box::new(discovery), may_use_old_metadata, step, now)
    }

    fn on_discovery(
        &mut self,
        discovery: Box<Discovery>,
        may_use_old_metadata: bool,
        step: DiscoveryStep,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        match step {
            DiscoveryStep::Ask(request) => {
                self.stage = Stage::Discovering { discovery, may_use_old_metadata };
                return Ok(self.send(*request));
            }
            DiscoveryStep::Found(found) => {
                self.found = Some((*found, now));
                self.has_rediscovered = true;
            }
            // It was good when it was fetched, and its issuer has not changed.
            DiscoveryStep::Failed(_) if may_use_old_metadata => self.uses_old_metadata = true,
            DiscoveryStep::Failed(error) => return Err(error),
        }
        self.stage = Stage::Fence;
        Ok(RenewalOutput::NeedFence)
    }

    /// Presents the refresh token, with a proof if it may be bound to a key. `possession` is that of the
    /// request before, if this is the same one again.
    fn renew(
        &mut self,
        record: Box<CredentialRecord>,
        possession: Option<Possession>,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let RenewalPlan { settings, server, nonces, randomness, .. } = &self.plan;
        let metadata = record.metadata.as_ref().map(|cached| &cached.document);
        let stated = metadata.map_or(&None, |metadata| &metadata.token_endpoint);
        let url = endpoint(settings, server, "token_endpoint", stated)?;
        let key = record.tokens.as_ref().and_then(|tokens| tokens.dpop_key.clone());
        let possession = possession.or_else(|| key.map(|key| Possession::new(key, &url, nonces)));
        let token = record.tokens.as_ref().and_then(|tokens| tokens.refresh_token.clone());
        // The scope is left out: it stays what it is, and cannot be widened here.
        let form = Form::new()
            .with("grant_type", "refresh_token")
            .with_some("refresh_token", token)
            .with_some("resource", record.resource.as_deref());
        let proof = ClientProof {
            issuer: &record.issuer,
            metadata,
            signer: settings.signer.as_deref(),
            possession: possession.as_ref(),
            now,
            randomness: &**randomness,
        };
        let request = token_request(&url, form, &self.client(&record), &proof)?.named_by_server(server);
        self.stage = Stage::Renewing(record, possession);
        Ok(self.send(request))
    }

    /// The client of the record, with the secret that is not kept.
    fn client(&self, record: &CredentialRecord) -> ClientRecord {
        self.plan.settings.configured_client().unwrap_or_else(|| record.client.clone())
    }

    fn on_tokens(
        &mut self,
        record: Box<CredentialRecord>,
        mut possession: Option<Possession>,
        answer: Result<OAuthResponse, OAuthHttpError>,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let response = answer.map_err(|error| AuthError::unavailable(error.to_string()))?;
        let client = self.client(&record);
        let redactor = Redactor::new(record.secrets().chain(client.secrets()).cloned());
        let read = TokenReply::read(&response, &redactor);
        if let (Some(proved), Err(TokenFailure::Refused(reply))) = (&mut possession, &read)
            && proved.repeats(&response, reply)?
        {
            return self.renew(record, possession, now);
        }
        match read {
            Ok(reply) => self.on_reply(record, reply, now),
            Err(TokenFailure::Transient(why)) => {
                Err(AuthError::Unavailable { what: why.to_owned(), retry_after: response.retry_after() })
            }
            Err(TokenFailure::NoEndpoint(_)) if !self.has_rediscovered => {
                self.discover(&record.issuer, false, now)
            }
            Err(TokenFailure::NoEndpoint(status)) => Err(AuthError::unavailable(format!(
                "no token endpoint answers where it was (status {status})"
            ))),
            Err(TokenFailure::Refused(reply)) if reply.is("invalid_grant") => {
                self.stage = Stage::Reloading(record);
                Ok(RenewalOutput::Reload)
            }
            Err(TokenFailure::Refused(reply)) if is_about_client(&reply) => {
                self.on_unknown_client(record, reply, now)
            }
            Err(TokenFailure::Refused(reply)) if reply.error.is_none() => {
                Err(AuthError::unavailable(reply.to_string()))
            }
            Err(TokenFailure::Refused(reply)) => Err(AuthError::Denied(reply)),
        }
    }

    fn on_reply(
        &mut self,
        mut record: Box<CredentialRecord>,
        reply: TokenReply,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let key = record.tokens.as_ref().and_then(|tokens| tokens.dpop_key.as_ref());
        let must_be_bound = self.plan.settings.dpop == Dpop::Required;
        reply.check(key, if must_be_bound { Binding::Required } else { Binding::Wanted })?;
        record.tokens = record.tokens.map(|tokens| tokens.refreshed(reply, now));
        record.unknown_client_since = None;
        Ok(self.commit(record, None))
    }

    fn commit(&mut self, record: Box<CredentialRecord>, end: Option<AuthError>) -> RenewalOutput {
        self.stage = Stage::Saving(record.clone(), end);
        RenewalOutput::Commit(record)
    }

    /// The refresh token is void, unless somebody who does not know the fence has brought another one.
    fn on_reload(
        &mut self,
        record: Box<CredentialRecord>,
        kept: Option<Box<CredentialRecord>>,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let mut kept = kept.ok_or(AuthError::NeedsAuth(NeedsAuth::Missing))?;
        if self.plan.is_enough(&kept, now) && kept.tokens != record.tokens {
            return Ok(RenewalOutput::Done(Ok(kept)));
        }
        let void = record.tokens.and_then(|tokens| tokens.refresh_token);
        if let Some(tokens) = &mut kept.tokens
            && tokens.refresh_token == void
        {
            tokens.refresh_token = None;
            let is_over = tokens.expires_at.is_some_and(|end| end <= now);
            if is_over || self.plan.refused.as_ref() == Some(&tokens.access_token) {
                kept.tokens = None;
            }
        }
        Ok(self.commit(kept, Some(AuthError::NeedsAuth(NeedsAuth::Revoked))))
    }

    /// One word that the client is unknown proves nothing; a second one, later and after a look at the
    /// server's metadata, throws away the client and all that hangs on it.
    fn on_unknown_client(
        &mut self,
        mut record: Box<CredentialRecord>,
        reply: ErrorReply,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        match (record.client.source, record.unknown_client_since) {
            (ClientSource::Registered, None) => {
                record.unknown_client_since = Some(now);
                Ok(self.commit(record, Some(AuthError::unavailable(reply.to_string()))))
            }
            (ClientSource::Registered, Some(since)) if now.since(since) < SECOND_STRIKE_AFTER => {
                Err(AuthError::unavailable(reply.to_string()))
            }
            (ClientSource::Registered, Some(_)) if !self.has_rediscovered => {
                self.discover(&record.issuer, false, now)
            }
            (ClientSource::Registered, Some(_)) => {
                record.tokens = None;
                record.metadata = None;
                // What no longer works must not be presented again: the next login registers anew.
                record.is_client_void = true;
                Ok(self.commit(record, Some(AuthError::NeedsAuth(NeedsAuth::Revoked))))
            }
            (ClientSource::Document, _) => {
                record.document_refused_by = Some(record.issuer.clone());
                Ok(self.commit(record, Some(AuthError::Denied(reply))))
            }
            (ClientSource::Configured, _) => Err(AuthError::Denied(reply)),
        }
    }
}

fn is_about_client(reply: &ErrorReply) -> bool {
    reply.is("invalid_client") || reply.is("unauthorized_client")
}

#[cfg(test)]
mod tests;
