use std::fmt;
use std::sync::Arc;

use mcp_proto::{Redactor, Secret};

use super::authorization::{Answer, AuthorizationRequest, ForeignAnswer, Pending, Wish};
use super::challenge::Challenges;
use super::client_auth::{ClientProof, token_request};
use super::client_record::{ClientRecord, ClientSource};
use super::discovery::{Discovered, Discovery, DiscoveryStep, endpoint};
use super::dpop::{Binding, DpopKey, DpopNonces, Offer, Possession};
use super::error::{AuthError, LoginEnd, Refusal};
use super::error_reply::ErrorReply;
use super::form::Form;
use super::issuer::same_issuer;
use super::oauth_http::{OAuthHttpError, OAuthRequest, OAuthResponse};
use super::random::Randomness;
use super::record::{CachedMetadata, CredentialRecord};
use super::registration::{self, NotRegistered, Registration};
use super::resource::canonical_resource;
use super::scope::{ScopeSources, Scopes};
use super::settings::{ApplicationType, OAuthSettings};
use super::store::{Saved, StoreError};
use super::tokens::{TokenFailure, TokenReply, Tokens};
use super::ui::RedirectWish;
use super::unix_time::UnixTime;
use super::web_url::WebUrl;

/// Ports that a client which is known by a document listens on: the document has to name them.
pub(super) const DOCUMENT_PORTS: [u16; 5] = [27890, 27891, 27892, 27893, 27894];

/// What a login is for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoginPlan {
    /// What the user has said about the server.
    pub settings: OAuthSettings,
    /// Where the server is.
    pub server: WebUrl,
    /// What the server has asked for; empty if it was not asked.
    pub challenges: Challenges,
    /// Scopes that the new token must have, where the old one's do not do.
    pub wanted: Option<Scopes>,
    /// An access token that is of no use any more.
    pub refused: Option<Secret>,
    /// What authorization servers want to see in proofs, as far as that is known.
    pub nonces: DpopNonces,
    /// Whether to log in even if there is a token that can be used.
    pub is_forced: bool,
}

/// A login that may end at a person: a machine without I/O, clock or task.
///
/// ```text
/// begin ─▶ NeedGate ─▶ discovery: Send… ─▶ NeedListener ─▶ registration: Send? ─▶ NeedUser ─▶ NeedFence
///              │                                                                      │ ▲         │
///              └─ somebody else has logged in meanwhile ─▶ Done                 Foreign┘ │         ▼
///                                                                                KeepWaiting   Send, Send?
///                                                                                              Commit ─▶ Done
/// ```
///
/// Each arrow is one [`step`](Self::step). Everything that is not drawn is an error that changes nothing,
/// also an answer to a question that is not the last one; so a driver can neither drop nor swap an
/// answer unseen. [`LoginInput::Ended`] leads to `Done` from everywhere.
///
/// Nothing is kept before the tokens are there, and then everything in one piece: a login that fails
/// leaves the old credentials as they were.
///
/// # Source
///
/// MCP 2025-11-25 and 2026-07-28, basic/authorization; RFC 6749, section 4.1.
pub struct Login {
    plan: LoginPlan,
    randomness: Arc<dyn Randomness>,
    stage: Stage,
    /// What is kept now, as it was read last.
    kept: Option<CredentialRecord>,
    /// The number of the last question; its answer is the only one that is taken.
    asked: u64,
    is_asking: bool,
}

/// What a driver tells a [`Login`].
#[derive(Debug)]
#[non_exhaustive]
pub enum LoginInput {
    /// An answer came in through the browser, or was pasted.
    Answer(Form),
    /// The login ends here.
    Ended(LoginEnd),
    /// The fence is taken, and this is what is kept now.
    FenceTaken(Option<Box<CredentialRecord>>),
    /// The gate is entered, and this is what is kept now.
    GateEntered(Option<Box<CredentialRecord>>),
    /// Answers come to this redirect URI.
    Listening(String),
    /// The answer to the request of this number.
    Response(u64, Result<OAuthResponse, OAuthHttpError>),
    /// The record is kept, or not.
    Saved(Result<Saved, StoreError>),
}

/// What a [`Login`] wants next.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoginOutput {
    /// Keep this record, then give the fence back.
    Commit(Box<CredentialRecord>),
    /// It is over: these are the credentials, or there are none.
    Done(Result<Box<CredentialRecord>, AuthError>),
    /// The answer was not the one; wait for the next.
    KeepWaiting(ForeignAnswer),
    /// Take the fence and read what is kept.
    NeedFence,
    /// Enter the gate and read what is kept.
    NeedGate,
    /// Make a place for the answer.
    NeedListener(RedirectWish),
    /// Show this and wait for the answer, as long as it takes.
    NeedUser(AuthorizationRequest),
    /// Send this, under this number.
    Send(u64, Box<OAuthRequest>),
}

/// An input came that the flow did not wait for. Nothing has changed; the driver is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the authorization flow did not wait for this")]
pub struct UnexpectedInput;

enum Stage {
    Gate,
    Discovering(Box<Discovery>),
    Opening(Box<Chosen>),
    Registering(Box<Chosen>, Attempt),
    Asking(Box<Asked>),
    Fencing(Box<Asked>, Secret),
    Exchanging(Box<Asked>, Secret),
    Saving(Box<CredentialRecord>, Result<(), AuthError>),
    Over,
}

/// A registration that was asked for.
struct Attempt {
    redirect_uri: String,
    application_type: ApplicationType,
    is_second: bool,
}

/// Everything that is decided before a person is asked.
struct Chosen {
    discovered: Discovered,
    authorization_endpoint: WebUrl,
    token_endpoint: WebUrl,
    registration_endpoint: Option<WebUrl>,
    resource: Option<String>,
    scopes: Scopes,
    binding: Binding,
    client: Candidate,
}

/// Who the client is, as far as that is known before there is a redirect URI.
enum Candidate {
    /// Configured, or known by its document.
    Fixed(ClientRecord),
    /// Registered before, of use with the redirect URIs of then.
    Kept(ClientRecord),
    /// To be registered.
    New,
}

/// What a person was asked.
struct Asked {
    chosen: Box<Chosen>,
    client: ClientRecord,
    pending: Pending,
    /// Of the key that the tokens are to be bound to, as soon as they are asked for.
    possession: Option<Possession>,
}

impl LoginPlan {
    /// A login at the server at `server`, unless there is a token already.
    #[must_use]
    pub fn new(settings: OAuthSettings, server: WebUrl) -> Self {
        let (challenges, nonces) = Default::default();
        Self { settings, server, challenges, wanted: None, refused: None, nonces, is_forced: false }
    }
}

impl Login {
    /// Begins; the first output is always [`LoginOutput::NeedGate`].
    #[must_use]
    pub fn begin(plan: LoginPlan, randomness: Arc<dyn Randomness>) -> (Self, LoginOutput) {
        let login = Self { plan, randomness, stage: Stage::Gate, kept: None, asked: 0, is_asking: false };
        (login, LoginOutput::NeedGate)
    }

    /// Takes what has happened, and says what is to be done next.
    ///
    /// # Errors
    ///
    /// It did not wait for this; then nothing has changed.
    pub fn step(&mut self, input: LoginInput, now: UnixTime) -> Result<LoginOutput, UnexpectedInput> {
        if !self.waits_for(&input) {
            return Err(UnexpectedInput);
        }
        self.is_asking = false;
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let output = match (stage, input) {
            (_, LoginInput::Ended(end)) => Err(AuthError::Login(end)),
            (Stage::Gate, LoginInput::GateEntered(kept)) => self.on_gate(kept, now),
            (Stage::Discovering(mut discovery), LoginInput::Response(_, answer)) => {
                let step = discovery.on_answer(answer);
                self.on_discovery(discovery, step, now)
            }
            (Stage::Opening(chosen), LoginInput::Listening(uri)) => self.on_listening(chosen, uri, now),
            (Stage::Registering(chosen, attempt), LoginInput::Response(_, answer)) => {
                self.on_registration(chosen, attempt, answer, now)
            }
            (Stage::Asking(asked), LoginInput::Answer(answer)) => self.on_answer(asked, &answer),
            (Stage::Fencing(asked, code), LoginInput::FenceTaken(kept)) => {
                self.kept = kept.map(|kept| *kept);
                self.begin_exchange(asked, code, now)
            }
            (Stage::Exchanging(asked, code), LoginInput::Response(_, answer)) => {
                self.on_tokens(asked, code, answer, now)
            }
            (Stage::Saving(record, end), LoginInput::Saved(saved)) => on_saved(record, end, saved),
            _ => return Err(UnexpectedInput),
        };
        Ok(output.unwrap_or_else(|error| LoginOutput::Done(Err(error))))
    }

    /// Whether the code is being redeemed: from here on the login must be driven to its end.
    #[must_use]
    pub fn is_committing(&self) -> bool {
        matches!(self.stage, Stage::Exchanging(..) | Stage::Saving(..))
    }

    fn waits_for(&self, input: &LoginInput) -> bool {
        match (&self.stage, input) {
            (Stage::Over, _) => false,
            (_, LoginInput::Ended(_))
            | (Stage::Gate, LoginInput::GateEntered(_))
            | (Stage::Opening(_), LoginInput::Listening(_))
            | (Stage::Asking(_), LoginInput::Answer(_))
            | (Stage::Fencing(..), LoginInput::FenceTaken(_))
            | (Stage::Saving(..), LoginInput::Saved(_)) => true,
            (_, LoginInput::Response(number, _)) => self.is_asking && *number == self.asked,
            _ => false,
        }
    }

    fn send(&mut self, request: OAuthRequest) -> LoginOutput {
        self.asked += 1;
        self.is_asking = true;
        LoginOutput::Send(self.asked, Box::new(request))
    }

    fn on_gate(
        &mut self,
        kept: Option<Box<CredentialRecord>>,
        now: UnixTime,
    ) -> Result<LoginOutput, AuthError> {
        if let Some(kept) = kept {
            if !self.plan.is_forced && self.is_enough(&kept, now) {
                return Ok(LoginOutput::Done(Ok(kept)));
            }
            self.kept = Some(*kept);
        }
        let LoginPlan { settings, server, challenges, .. } = &self.plan;
        let named = challenges.resource_metadata();
        let known = self.kept.as_ref().map(|kept| kept.issuer.as_str());
        let (discovery, step) = Discovery::begin(settings, server, named, known);
        self.on_discovery(Box::new(discovery), step, now)
    }

    /// Whether somebody else has brought what this login is for.
    fn is_enough(&self, kept: &CredentialRecord, now: UnixTime) -> bool {
        let is_new = |tokens: &Tokens| self.plan.refused.as_ref() != Some(&tokens.access_token);
        let is_wide =
            |tokens: &Tokens| self.plan.wanted.as_ref().is_none_or(|wanted| tokens.granted.cover(wanted));
        let is_usable = |tokens: &Tokens| tokens.is_fresh(now) && is_new(tokens) && is_wide(tokens);
        self.plan.settings.accept(kept) && kept.tokens.as_ref().is_some_and(is_usable)
    }

    fn on_discovery(
        &mut self,
        discovery: Box<Discovery>,
        step: DiscoveryStep,
        now: UnixTime,
    ) -> Result<LoginOutput, AuthError> {
        match step {
            DiscoveryStep::Ask(request) => {
                self.stage = Stage::Discovering(discovery);
                Ok(self.send(*request))
            }
            DiscoveryStep::Found(discovered) => {
                let chosen = self.choose(*discovered, now)?;
                let wish = self.redirect_wish(&chosen);
                self.stage = Stage::Opening(Box::new(chosen));
                Ok(LoginOutput::NeedListener(wish))
            }
            DiscoveryStep::Failed(error) => Err(error),
        }
    }

    fn choose(&self, discovered: Discovered, now: UnixTime) -> Result<Chosen, AuthError> {
        let LoginPlan { settings, server, challenges, wanted, .. } = &self.plan;
        let metadata = &discovered.metadata;
        if metadata
            .response_types_supported
            .as_ref()
            .is_some_and(|types| !types.iter().any(|kind| kind == "code"))
        {
            return Err(Refusal::NoCodeGrant.into());
        }
        if !settings.pkce_metadata.allows(metadata) {
            return Err(Refusal::NoPkce.into());
        }
        let endpoint = |name, stated| endpoint(settings, server, name, stated);
        let resource = discovered.resource.as_ref();
        let scopes = wanted.clone().unwrap_or_else(|| {
            Scopes::choose(&ScopeSources {
                configured: settings.scope.as_deref(),
                challenge: challenges.scope(),
                resource: resource.and_then(|resource| resource.scopes_supported.as_deref()),
                server: metadata.scopes_supported.as_deref(),
                allows_offline: settings.asks_offline_access,
            })
        });
        Ok(Chosen {
            authorization_endpoint: endpoint("authorization_endpoint", &metadata.authorization_endpoint)?,
            token_endpoint: endpoint("token_endpoint", &metadata.token_endpoint)?,
            registration_endpoint: match &metadata.registration_endpoint {
                None => None,
                some => Some(endpoint("registration_endpoint", some)?),
            },
            resource: settings.resource_parameter(server, resource),
            scopes,
            binding: settings.dpop.choose(&Offer {
                issuer: metadata,
                resource,
                challenges,
                was_bound: self.kept.as_ref().is_some_and(CredentialRecord::is_bound),
            })?,
            client: self.candidate(&discovered, now)?,
            discovered,
        })
    }

    /// Who the client is: configured, or known by its document, or registered before, or to be registered.
    fn candidate(&self, discovered: &Discovered, now: UnixTime) -> Result<Candidate, AuthError> {
        let (settings, metadata) = (&self.plan.settings, &discovered.metadata);
        let kept = self.kept.as_ref();
        let of_issuer = kept.filter(|kept| same_issuer(&kept.issuer, &discovered.issuer));
        if let Some(mut client) = settings.configured_client() {
            let is_stranger = kept.is_some_and(|kept| kept.client.source == ClientSource::Configured);
            if is_stranger && of_issuer.is_none() && settings.issuer.is_none() {
                return Err(AuthError::Config(format!(
                    "the server names another issuer than before, {}; if that is right, configure it as issuer",
                    mcp_proto::escape(&discovered.issuer, 200)
                )));
            }
            client.normalise(metadata.token_endpoint_auth_methods_supported.as_deref());
            settings.check_proof(&client)?;
            return Ok(Candidate::Fixed(client));
        }
        if let Some(url) = &settings.client_metadata_url
            && metadata.client_id_metadata_document_supported
            && !kept.is_some_and(|kept| kept.has_refused_document(&discovered.issuer))
        {
            if !is_document_url(url) {
                let what = "client_metadata_url must be an https URL with a path and nothing behind it";
                return Err(AuthError::Config(what.to_owned()));
            }
            return Ok(Candidate::Fixed(settings.document_client(url)));
        }
        match of_issuer.filter(|kept| !kept.is_client_void).map(|kept| &kept.client) {
            Some(client) if client.source == ClientSource::Registered && !client.is_secret_expired(now) => {
                Ok(Candidate::Kept(client.clone()))
            }
            _ if metadata.registration_endpoint.is_some() => Ok(Candidate::New),
            _ => Err(AuthError::Config(
                "the authorization server registers no clients; configure client_id (and client_secret)"
                    .to_owned(),
            )),
        }
    }

    fn redirect_wish(&self, chosen: &Chosen) -> RedirectWish {
        let redirect = &self.plan.settings.redirect;
        let port_of = |uri: &String| WebUrl::parse(uri).ok().map(|url| url.origin().port);
        let (ports, is_binding) = match (redirect.port, &chosen.client) {
            (Some(port), _) => (vec![port], true),
            (None, Candidate::Kept(client)) => {
                (client.redirect_uris.iter().filter_map(port_of).collect(), false)
            }
            (None, Candidate::Fixed(client)) if client.source == ClientSource::Document => {
                (DOCUMENT_PORTS.to_vec(), true)
            }
            _ => (Vec::new(), false),
        };
        RedirectWish { uri: redirect.uri.clone(), ports, is_binding }
    }

    fn on_listening(
        &mut self,
        mut chosen: Box<Chosen>,
        redirect_uri: String,
        now: UnixTime,
    ) -> Result<LoginOutput, AuthError> {
        match std::mem::replace(&mut chosen.client, Candidate::New) {
            Candidate::Fixed(client) => self.ask(chosen, client, &redirect_uri),
            Candidate::Kept(mut client) if client.redirect_uris.contains(&redirect_uri) => {
                self.check(&mut client, &redirect_uri, now)?;
                self.ask(chosen, client, &redirect_uri)
            }
            Candidate::Kept(_) | Candidate::New => {
                let application_type = self.plan.settings.application_type;
                let application_type =
                    application_type.unwrap_or_else(|| ApplicationType::of_redirect(&redirect_uri));
                self.register(chosen, Attempt { redirect_uri, application_type, is_second: false })
            }
        }
    }

    /// Checks a registered client before anything is kept or shown.
    fn check(&self, client: &mut ClientRecord, redirect_uri: &str, now: UnixTime) -> Result<(), AuthError> {
        client.complete(redirect_uri);
        client.check_for_code_flow(redirect_uri, now)?;
        Ok(self.plan.settings.check_proof(client)?)
    }

    fn register(&mut self, chosen: Box<Chosen>, attempt: Attempt) -> Result<LoginOutput, AuthError> {
        let Some(endpoint) = &chosen.registration_endpoint else {
            let what = "the port that was registered is taken, and the server registers no client again";
            return Err(AuthError::Config(what.to_owned()));
        };
        let registration = Registration {
            name: &self.plan.settings.client_name,
            redirect_uri: &attempt.redirect_uri,
            application_type: attempt.application_type,
            scopes: &chosen.scopes,
        };
        let request = registration.request(endpoint, &chosen.discovered.metadata);
        let request = request.named_by_server(&self.plan.server);
        self.stage = Stage::Registering(chosen, attempt);
        Ok(self.send(request))
    }

    fn on_registration(
        &mut self,
        chosen: Box<Chosen>,
        attempt: Attempt,
        answer: Result<OAuthResponse, OAuthHttpError>,
        now: UnixTime,
    ) -> Result<LoginOutput, AuthError> {
        let response = answer.map_err(|error| failed("the registration", &error))?;
        match registration::read(&response, &chosen.discovered.metadata) {
            Ok(mut client) => {
                self.check(&mut client, &attempt.redirect_uri, now)?;
                self.ask(chosen, client, &attempt.redirect_uri)
            }
            Err(NotRegistered::OtherType(_)) if !attempt.is_second => {
                let application_type = attempt.application_type.other();
                self.register(chosen, Attempt { application_type, is_second: true, ..attempt })
            }
            Err(NotRegistered::OtherType(reply)) => Err(AuthError::RegistrationRejected(reply)),
            Err(NotRegistered::Failed(error)) => Err(error),
        }
    }

    fn ask(
        &mut self,
        chosen: Box<Chosen>,
        client: ClientRecord,
        redirect_uri: &str,
    ) -> Result<LoginOutput, AuthError> {
        let metadata = &chosen.discovered.metadata;
        let wish = Wish {
            endpoint: &chosen.authorization_endpoint,
            // Answers name it as its metadata does, not as the server that is protected spells it.
            issuer: metadata.issuer.as_deref().unwrap_or(&chosen.discovered.issuer),
            needs_issuer: metadata.authorization_response_iss_parameter_supported,
            client_id: &client.client_id,
            redirect_uri,
            resource: chosen.resource.as_deref(),
            scopes: &chosen.scopes,
            extra: &self.plan.settings.extra_parameters,
        };
        let (pending, request) = Pending::ask(&wish, &*self.randomness)?;
        self.stage = Stage::Asking(Box::new(Asked { chosen, client, pending, possession: None }));
        Ok(LoginOutput::NeedUser(request))
    }

    fn on_answer(&mut self, asked: Box<Asked>, answer: &Form) -> Result<LoginOutput, AuthError> {
        match asked.pending.judge(answer) {
            Answer::Code(code) => {
                self.stage = Stage::Fencing(asked, code);
                Ok(LoginOutput::NeedFence)
            }
            Answer::Denied(reply) => Err(AuthError::Denied(reply)),
            Answer::Foreign(why) => {
                self.stage = Stage::Asking(asked);
                Ok(LoginOutput::KeepWaiting(why))
            }
        }
    }

    fn begin_exchange(
        &mut self,
        mut asked: Box<Asked>,
        code: Secret,
        now: UnixTime,
    ) -> Result<LoginOutput, AuthError> {
        if asked.chosen.binding != Binding::Free {
            let (key, endpoint) = (DpopKey::generate()?, &asked.chosen.token_endpoint);
            asked.possession = Some(Possession::new(key, endpoint, &self.plan.nonces));
        }
        self.exchange(asked, code, now)
    }

    fn exchange(&mut self, asked: Box<Asked>, code: Secret, now: UnixTime) -> Result<LoginOutput, AuthError> {
        let Asked { chosen, client, pending, possession } = &*asked;
        let form = Form::new()
            .with("grant_type", "authorization_code")
            .with("code", code.clone())
            .with("redirect_uri", pending.redirect_uri.as_str())
            .with("code_verifier", pending.pkce.verifier().clone())
            .with_some("resource", chosen.resource.as_deref());
        let proof = ClientProof {
            issuer: &chosen.discovered.issuer,
            metadata: Some(&chosen.discovered.metadata),
            signer: self.plan.settings.signer.as_deref(),
            possession: possession.as_ref(),
            now,
            randomness: &*self.randomness,
        };
        let request = token_request(&chosen.token_endpoint, form, client, &proof)?;
        let request = request.named_by_server(&self.plan.server);
        self.stage = Stage::Exchanging(asked, code);
        Ok(self.send(request))
    }

    fn on_tokens(
        &mut self,
        mut asked: Box<Asked>,
        code: Secret,
        answer: Result<OAuthResponse, OAuthHttpError>,
        now: UnixTime,
    ) -> Result<LoginOutput, AuthError> {
        let response = answer.map_err(|error| failed("the exchange of the code", &error))?;
        let kept = self.kept.iter().flat_map(CredentialRecord::secrets);
        let own = [&code, asked.pending.pkce.verifier()].into_iter().chain(asked.client.secrets());
        let redactor = Redactor::new(own.chain(kept).cloned());
        let read = TokenReply::read(&response, &redactor);
        if let (Some(proved), Err(TokenFailure::Refused(reply))) = (&mut asked.possession, &read)
            && proved.repeats(&response, reply)?
        {
            return self.exchange(asked, code, now);
        }
        match read {
            Ok(reply) => {
                let key = asked.possession.as_ref().map(|possession| &possession.key);
                reply.check(key, asked.chosen.binding)?;
                let record = self.record(*asked, Some(reply), now);
                self.commit(record, Ok(()))
            }
            Err(TokenFailure::Refused(reply)) if is_document_refused(&asked.client, &reply) => {
                let issuer = asked.chosen.discovered.issuer.clone();
                // What is kept stays, of whichever issuer it is.
                let mut record = match &self.kept {
                    Some(kept) => kept.clone(),
                    None => self.record(*asked, None, now),
                };
                record.document_refused_by = Some(issuer);
                self.commit(record, Err(AuthError::Denied(reply)))
            }
            Err(TokenFailure::Refused(reply)) => Err(AuthError::Denied(reply)),
            Err(TokenFailure::Transient(why)) => Err(AuthError::Unavailable {
                what: format!("the exchange of the code has failed: {why}"),
                retry_after: response.retry_after(),
            }),
            Err(TokenFailure::NoEndpoint(_)) => Err(Refusal::NoEndpoint("token_endpoint").into()),
        }
    }

    fn commit(
        &mut self,
        record: CredentialRecord,
        end: Result<(), AuthError>,
    ) -> Result<LoginOutput, AuthError> {
        self.stage = Stage::Saving(Box::new(record.clone()), end);
        Ok(LoginOutput::Commit(Box::new(record)))
    }

    /// What is to be kept: all of it new.
    fn record(&self, asked: Asked, reply: Option<TokenReply>, now: UnixTime) -> CredentialRecord {
        let Asked { chosen, client, possession, .. } = asked;
        let Chosen { discovered, resource, scopes, .. } = *chosen;
        let kept = self.kept.as_ref();
        let has_refused = kept.is_some_and(|kept| kept.has_refused_document(&discovered.issuer));
        let mut record =
            CredentialRecord::new(canonical_resource(&self.plan.server), discovered.issuer, client);
        record.revision = kept.map_or(0, |kept| kept.revision);
        record.document_refused_by = has_refused.then(|| record.issuer.clone());
        record.resource = resource;
        record.fingerprint = self.plan.settings.fingerprint();
        let dpop_key = possession.map(|possession| possession.key);
        record.tokens = reply.map(|reply| Tokens { dpop_key, ..Tokens::granted(reply, scopes, now) });
        record.metadata = Some(CachedMetadata { document: discovered.metadata, fetched_at: now });
        record
    }
}

fn on_saved(
    mut record: Box<CredentialRecord>,
    end: Result<(), AuthError>,
    saved: Result<Saved, StoreError>,
) -> Result<LoginOutput, AuthError> {
    end?;
    record.revision = saved?.revision;
    Ok(LoginOutput::Done(Ok(record)))
}

fn failed(what: &str, error: &OAuthHttpError) -> AuthError {
    AuthError::unavailable(format!("{what} has failed: {error}"))
}

/// Whether the URL can stand for a client (MCP 2025-11-25, *Client ID Metadata Documents*).
fn is_document_url(text: &str) -> bool {
    let Ok(url) = WebUrl::parse(text) else { return false };
    let has_dots = url.path().split('/').any(|segment| segment == "." || segment == "..");
    url.is_https() && !url.has_fragment() && url.path().len() > 1 && !has_dots
}

fn is_document_refused(client: &ClientRecord, reply: &ErrorReply) -> bool {
    client.source == ClientSource::Document && (reply.is("invalid_client") || reply.is("invalid_request"))
}

impl Stage {
    fn name(&self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Discovering(_) => "discovering",
            Self::Opening(_) => "opening",
            Self::Registering(..) => "registering",
            Self::Asking(_) => "asking",
            Self::Fencing(..) => "fencing",
            Self::Exchanging(..) => "exchanging",
            Self::Saving(..) => "saving",
            Self::Over => "over",
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("server", &self.plan.server)
            .field("stage", &self.stage.name())
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
