use std::time::Duration;

use mcp_proto::{Redactor, Secret};

use super::client_auth::token_request;
use super::client_record::{AuthMethod, ClientRecord, ClientSource};
use super::discovery::{Discovered, Discovery, DiscoveryStep, usable};
use super::error::{AuthError, NeedsAuth, Refusal};
use super::error_reply::ErrorReply;
use super::form::Form;
use super::issuer::same_issuer;
use super::login::UnexpectedInput;
use super::oauth_http::{OAuthHttpError, OAuthRequest, OAuthResponse};
use super::record::{CachedMetadata, CredentialRecord};
use super::resource::canonical_resource;
use super::scope::{ScopeSources, Scopes};
use super::settings::OAuthSettings;
use super::store::{Saved, StoreError};
use super::tokens::{TokenFailure, TokenReply, Tokens};
use super::unix_time::UnixTime;
use super::web_url::WebUrl;

/// Time between two servers' words that the client is unknown, before the second one is believed.
///
/// Servers say so while they are deployed, and throwing a client away for it locks the user out.
const SECOND_STRIKE_AFTER: Duration = Duration::from_secs(60);

/// How old metadata may be before it is fetched again.
const METADATA_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Makes a new access token without a person, with the refresh token or with the client's own secret: a
/// machine without I/O, clock or task.
///
/// ```text
/// begin ─▶ NeedFence ─▶ Send ─▶ Commit ─▶ Done
///            │  │ ▲      │ └─ refused: Reload ─▶ Commit? ─▶ Done
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
    settings: OAuthSettings,
    server: WebUrl,
    /// The access token that is of no use any more, if it is not merely about to end.
    refused: Option<Secret>,
    stage: Stage,
    asked: u64,
    is_asking: bool,
    /// What a discovery has found, and when, until it is used.
    found: Option<(Discovered, UnixTime)>,
    has_rediscovered: bool,
    /// Metadata that is merely old has to do, as there is no other.
    uses_old_metadata: bool,
    /// The scopes of a token that is asked for without a refresh token.
    scopes: Scopes,
}

/// What a driver tells a [`Refresh`].
#[derive(Debug)]
#[non_exhaustive]
pub enum RefreshInput {
    /// The fence is taken, and this is what is kept now.
    FenceTaken(Option<Box<CredentialRecord>>),
    /// What is kept now.
    Reloaded(Option<Box<CredentialRecord>>),
    /// The answer to the request of this number.
    Response(u64, Result<OAuthResponse, OAuthHttpError>),
    /// The record is kept, or not.
    Saved(Result<Saved, StoreError>),
}

/// What a [`Refresh`] wants next.
#[derive(Debug)]
#[non_exhaustive]
pub enum RefreshOutput {
    /// Keep this record, before anybody may use it.
    Commit(Box<CredentialRecord>),
    /// It is over: these are the credentials, or there are none that are better.
    Done(Result<Box<CredentialRecord>, AuthError>),
    /// Take the fence and read what is kept.
    NeedFence,
    /// Read once more what is kept.
    Reload,
    /// Send this, under this number.
    Send(u64, Box<OAuthRequest>),
}

#[derive(Debug)]
enum Stage {
    Fence,
    Discovering {
        discovery: Box<Discovery>,
        may_use_old_metadata: bool,
    },
    Renewing(Box<CredentialRecord>),
    /// The server has said that the refresh token is void.
    Reloading(Box<CredentialRecord>),
    Saving(Box<CredentialRecord>, Option<AuthError>),
    Over,
}

impl Refresh {
    /// Begins; the first output is always [`RefreshOutput::NeedFence`].
    #[must_use]
    pub fn begin(settings: OAuthSettings, server: WebUrl, refused: Option<Secret>) -> (Self, RefreshOutput) {
        let refresh = Self {
            settings,
            server,
            refused,
            stage: Stage::Fence,
            asked: 0,
            is_asking: false,
            found: None,
            has_rediscovered: false,
            uses_old_metadata: false,
            scopes: Scopes::default(),
        };
        (refresh, RefreshOutput::NeedFence)
    }

    /// Takes what has happened, and says what is to be done next.
    ///
    /// # Errors
    ///
    /// It did not wait for this; then nothing has changed.
    pub fn step(&mut self, input: RefreshInput, now: UnixTime) -> Result<RefreshOutput, UnexpectedInput> {
        if !self.waits_for(&input) {
            return Err(UnexpectedInput);
        }
        self.is_asking = false;
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let output = match (stage, input) {
            (Stage::Fence, RefreshInput::FenceTaken(kept)) => self.on_fence(kept, now),
            (
                Stage::Discovering { mut discovery, may_use_old_metadata },
                RefreshInput::Response(_, answer),
            ) => {
                let step = discovery.on_answer(answer);
                self.on_discovery(discovery, may_use_old_metadata, step, now)
            }
            (Stage::Renewing(record), RefreshInput::Response(_, answer)) => {
                self.on_tokens(record, answer, now)
            }
            (Stage::Reloading(record), RefreshInput::Reloaded(kept)) => self.on_reload(record, kept, now),
            (Stage::Saving(mut record, end), RefreshInput::Saved(saved)) => match (end, saved) {
                (Some(error), Ok(_)) => Err(error),
                (_, Err(error)) => Err(error.into()),
                (None, Ok(saved)) => {
                    record.revision = saved.revision;
                    Ok(RefreshOutput::Done(Ok(record)))
                }
            },
            _ => return Err(UnexpectedInput),
        };
        Ok(output.unwrap_or_else(|error| RefreshOutput::Done(Err(error))))
    }

    /// Whether the fence is to be held until the next step, if it is taken already.
    #[must_use]
    pub fn needs_fence(&self) -> bool {
        !matches!(self.stage, Stage::Discovering { .. })
    }

    fn waits_for(&self, input: &RefreshInput) -> bool {
        match (&self.stage, input) {
            (Stage::Fence, RefreshInput::FenceTaken(_))
            | (Stage::Reloading(_), RefreshInput::Reloaded(_))
            | (Stage::Saving(..), RefreshInput::Saved(_)) => true,
            (_, RefreshInput::Response(number, _)) => self.is_asking && *number == self.asked,
            _ => false,
        }
    }

    fn send(&mut self, request: OAuthRequest) -> RefreshOutput {
        self.asked += 1;
        self.is_asking = true;
        RefreshOutput::Send(self.asked, Box::new(request))
    }

    fn on_fence(
        &mut self,
        kept: Option<Box<CredentialRecord>>,
        now: UnixTime,
    ) -> Result<RefreshOutput, AuthError> {
        if self.settings.is_for_itself() {
            return self.act_for_itself(kept, now);
        }
        let mut kept = kept.ok_or(AuthError::NeedsAuth(NeedsAuth::Missing))?;
        if !self.settings.accept(&kept) {
            return Err(AuthError::NeedsAuth(NeedsAuth::Changed));
        }
        let tokens = kept.tokens.as_ref().ok_or(AuthError::NeedsAuth(NeedsAuth::Missing))?;
        if self.is_of_use(&kept, now) {
            return Ok(RefreshOutput::Done(Ok(kept)));
        }
        if tokens.refresh_token.is_none() {
            return Err(AuthError::NeedsAuth(NeedsAuth::Expired));
        }
        if let Some((found, fetched_at)) = self.found.take()
            && same_issuer(&found.issuer, &kept.issuer)
        {
            kept.metadata = Some(CachedMetadata { document: found.metadata, fetched_at });
            return self.renew(kept);
        }
        let is_known =
            kept.metadata.as_ref().is_some_and(|cached| now.since(cached.fetched_at) < METADATA_LIFETIME);
        if is_known || (self.uses_old_metadata && kept.metadata.is_some()) {
            return self.renew(kept);
        }
        let has_old_metadata = kept.metadata.is_some();
        self.discover(&kept.issuer, has_old_metadata, now)
    }

    /// Asks for a token with the client's own secret, of the configured issuer alone.
    ///
    /// # Source
    ///
    /// RFC 6749, section 4.4; MCP extension `io.modelcontextprotocol/oauth-client-credentials`.
    fn act_for_itself(
        &mut self,
        kept: Option<Box<CredentialRecord>>,
        now: UnixTime,
    ) -> Result<RefreshOutput, AuthError> {
        let revision = kept.as_ref().map_or(0, |kept| kept.revision);
        if let Some(kept) = kept.filter(|kept| self.settings.accept(kept) && self.is_of_use(kept, now)) {
            return Ok(RefreshOutput::Done(Ok(kept)));
        }
        let missing = |what: &str| AuthError::Config(format!("client credentials need {what}"));
        let client =
            self.settings.configured_client().ok_or_else(|| missing("client_id and client_secret"))?;
        client.client_secret.as_ref().ok_or_else(|| missing("client_secret"))?;
        let issuer = self.settings.issuer.clone().ok_or_else(|| missing("issuer"))?;
        let Some((found, fetched_at)) = self.found.take() else {
            let (discovery, step) = Discovery::begin(&self.settings, &self.server, None, None);
            return self.on_discovery(Box::new(discovery), false, step, now);
        };
        if !same_issuer(&found.issuer, &issuer) {
            let named = mcp_proto::escape(&found.issuer, 200).into_owned();
            return Err(Refusal::IssuerNotNamed { named }.into());
        }
        let Discovered { metadata: document, resource, .. } = found;
        let mut record = Box::new(CredentialRecord::new(canonical_resource(&self.server), issuer, client));
        record.revision = revision;
        record.fingerprint = self.settings.fingerprint();
        record.resource = self.settings.resource_parameter(&self.server, resource.as_ref());
        record.metadata = Some(CachedMetadata { document, fetched_at });
        self.scopes = Scopes::choose(&ScopeSources {
            configured: self.settings.scope.as_deref(),
            resource: resource.as_ref().and_then(|resource| resource.scopes_supported.as_deref()),
            ..ScopeSources::default()
        });
        self.renew(record)
    }

    /// Whether the access token that is kept will do.
    fn is_of_use(&self, kept: &CredentialRecord, now: UnixTime) -> bool {
        kept.tokens
            .as_ref()
            .is_some_and(|tokens| tokens.is_fresh(now) && self.refused.as_ref() != Some(&tokens.access_token))
    }

    fn discover(
        &mut self,
        issuer: &str,
        may_use_old_metadata: bool,
        now: UnixTime,
    ) -> Result<RefreshOutput, AuthError> {
        let (discovery, step) = Discovery::at_issuer(&self.settings, &self.server, issuer);
        self.on_discovery(Box::new(discovery), may_use_old_metadata, step, now)
    }

    fn on_discovery(
        &mut self,
        discovery: Box<Discovery>,
        may_use_old_metadata: bool,
        step: DiscoveryStep,
        now: UnixTime,
    ) -> Result<RefreshOutput, AuthError> {
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
        Ok(RefreshOutput::NeedFence)
    }

    fn renew(&mut self, record: Box<CredentialRecord>) -> Result<RefreshOutput, AuthError> {
        let endpoint = record.metadata.as_ref().and_then(|cached| cached.document.token_endpoint.as_deref());
        let endpoint = endpoint.ok_or(Refusal::NoEndpoint("token_endpoint"))?;
        let url = WebUrl::parse(endpoint).map_err(|error| error.to_string());
        let url = url.and_then(|_| usable(&self.settings, &self.server, endpoint));
        let url = url.map_err(|why| Refusal::Endpoint { name: "token_endpoint", why })?;
        let form = if self.settings.is_for_itself() {
            Form::new()
                .with("grant_type", "client_credentials")
                .with_some("scope", self.scopes.to_parameter())
        } else {
            let token = record.tokens.as_ref().and_then(|tokens| tokens.refresh_token.clone());
            // The scope is left out: it stays what it is, and cannot be widened here.
            Form::new().with("grant_type", "refresh_token").with_some("refresh_token", token)
        };
        let form = form.with_some("resource", record.resource.as_deref());
        let client = self.client(&record);
        let request = token_request(&url, form, &client, record.server_methods())?;
        self.stage = Stage::Renewing(record);
        Ok(self.send(request))
    }

    /// The client of the record, with the secret that is not kept.
    fn client(&self, record: &CredentialRecord) -> ClientRecord {
        let mut client = self.settings.configured_client().unwrap_or_else(|| record.client.clone());
        if self.settings.is_for_itself() && client.token_endpoint_auth_method.is_none() {
            let listed = record.server_methods();
            let lists = |method: AuthMethod| {
                listed.is_some_and(|listed| listed.iter().any(|one| one == method.as_str()))
            };
            let (basic, post) = (AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost);
            // Every server has to support the header, the body is an extra (RFC 6749, section 2.3.1).
            let method = if lists(post) && !lists(basic) { post } else { basic };
            client.token_endpoint_auth_method = Some(method.as_str().to_owned());
        }
        client
    }

    fn on_tokens(
        &mut self,
        record: Box<CredentialRecord>,
        answer: Result<OAuthResponse, OAuthHttpError>,
        now: UnixTime,
    ) -> Result<RefreshOutput, AuthError> {
        let response = answer.map_err(|error| AuthError::unavailable(error.to_string()))?;
        let client = self.client(&record);
        let redactor = Redactor::new(record.secrets().chain(client.secrets()).cloned());
        match TokenReply::read(&response, &redactor) {
            Ok(reply) => self.on_reply(record, reply, now),
            Err(TokenFailure::Transient(why)) => {
                Err(AuthError::Unavailable { what: why.to_owned(), retry_after: response.retry_after() })
            }
            Err(TokenFailure::NoEndpoint(_)) if !self.has_rediscovered => {
                self.discover(&record.issuer, false, now)
            }
            Err(TokenFailure::NoEndpoint(status)) => {
                Err(AuthError::unavailable(format!("the token endpoint answers with the status {status}")))
            }
            Err(TokenFailure::Refused(reply)) if self.settings.is_for_itself() && reply.error.is_some() => {
                Err(AuthError::Denied(reply))
            }
            Err(TokenFailure::Refused(reply)) if reply.is("invalid_grant") => {
                self.stage = Stage::Reloading(record);
                Ok(RefreshOutput::Reload)
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
    ) -> Result<RefreshOutput, AuthError> {
        record.tokens = match record.tokens {
            Some(tokens) => Some(tokens.refreshed(reply, now)),
            // Whoever acts for itself needs no refresh token.
            None => {
                Some(Tokens::granted(TokenReply { refresh_token: None, ..reply }, self.scopes.clone(), now))
            }
        };
        record.unknown_client_since = None;
        Ok(self.commit(record, None))
    }

    fn commit(&mut self, record: Box<CredentialRecord>, end: Option<AuthError>) -> RefreshOutput {
        self.stage = Stage::Saving(record.clone(), end);
        RefreshOutput::Commit(record)
    }

    /// The refresh token is void, unless somebody who does not know the fence has brought another one.
    fn on_reload(
        &mut self,
        record: Box<CredentialRecord>,
        kept: Option<Box<CredentialRecord>>,
        now: UnixTime,
    ) -> Result<RefreshOutput, AuthError> {
        let mut kept = kept.ok_or(AuthError::NeedsAuth(NeedsAuth::Missing))?;
        if self.is_of_use(&kept, now) && kept.tokens != record.tokens {
            return Ok(RefreshOutput::Done(Ok(kept)));
        }
        let void = record.tokens.and_then(|tokens| tokens.refresh_token);
        if let Some(tokens) = &mut kept.tokens
            && tokens.refresh_token == void
        {
            tokens.refresh_token = None;
            let is_over = tokens.expires_at.is_some_and(|end| end <= now);
            if is_over || self.refused.as_ref() == Some(&tokens.access_token) {
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
    ) -> Result<RefreshOutput, AuthError> {
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
                record.client.secret_expires_at = Some(now);
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
