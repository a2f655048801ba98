use std::sync::Arc;

use mcp_proto::{Redactor, Secret};

use super::client_auth::{ClientProof, settle_method, token_request};
use super::client_record::ClientRecord;
use super::discovery::{Discovered, Discovery, DiscoveryStep, endpoint};
use super::dpop::{Binding, DpopKey, Offer, Possession};
use super::error::{AuthError, NeedsAuth, Refusal};
use super::form::Form;
use super::login::UnexpectedInput;
use super::oauth_http::{OAuthHttpError, OAuthRequest, OAuthResponse};
use super::record::{CachedMetadata, CredentialRecord};
use super::renewal::{RenewalInput, RenewalOutput, RenewalPlan};
use super::resource::canonical_resource;
use super::scope::{ScopeSources, Scopes};
use super::settings::Grant;
use super::token_exchange::{NotVouched, TokenExchange};
use super::tokens::{TokenFailure, TokenReply, Tokens};
use super::unix_time::UnixTime;
use super::web_url::WebUrl;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What an authorization server lists that takes the assertions of identity providers.
const ID_JAG_PROFILE: &str = "urn:ietf:params:oauth:grant-profile:id-jag";

/// Makes an access token for a client that acts for itself, so without a person and without a refresh
/// token: a machine without I/O, clock or task.
///
/// ```text
/// begin ─▶ NeedFence ─▶ Send ─▶ Commit ─▶ Done
///            │  │ ▲        └─ refused for want of a nonce, once: Send
///            │  │ │   client credentials
///            │  │ ├── discovery: Send…
///            │  │ │   workload identity
///            │  │ ├── discovery: Send… ─▶ NeedIdentity
///            │  │ │   enterprise-managed
///            │  │ └── discovery: Send… ─▶ NeedIdentity ─▶ Send, to the identity provider
///            │  └────────▲ nothing was found out so far
///            └─ somebody else has made one ─▶ Done
/// ```
///
/// What is found out begins with the server's challenge, as with a login: it names the place of the
/// metadata and the scopes. The fence is held for the last request alone. Whatever is shown there was
/// made for it, is shown once, and is not made again because it was refused: nothing is repeated, but for
/// want of a nonce, before which the server looks at nothing else, and no other grant is tried.
///
/// # Source
///
/// RFC 6749, section 4.4; RFC 7523, section 2.1; MCP extensions
/// `io.modelcontextprotocol/oauth-client-credentials` and
/// `io.modelcontextprotocol/enterprise-managed-authorization`.
#[derive(Debug)]
pub struct MachineGrant {
    plan: RenewalPlan,
    stage: Stage,
    /// The number of the last question; its answer is the only one that is taken.
    asked: u64,
    is_asking: bool,
    /// What the next request for a token will hold, until it is made.
    ready: Option<Box<Ready>>,
    /// Whether the last tokens were bound to a key.
    was_bound: bool,
}

#[derive(Debug)]
enum Stage {
    Fence,
    Discovering(Box<Discovery>),
    Identifying(Box<Ready>),
    Exchanging(Box<Ready>, Secret),
    Asking(Box<Asked>),
    Saving(Box<CredentialRecord>),
    Over,
}

/// Everything that is found out before the token is asked for.
#[derive(Debug)]
struct Ready {
    discovered: Discovered,
    fetched_at: UnixTime,
    token_endpoint: WebUrl,
    resource: Option<String>,
    scopes: Scopes,
    binding: Binding,
    /// What is shown of an identity.
    assertion: Option<Secret>,
}

/// A token that was asked for.
#[derive(Debug)]
struct Asked {
    ready: Box<Ready>,
    client: ClientRecord,
    /// That of the record which is kept.
    revision: u64,
    possession: Option<Possession>,
}

impl MachineGrant {
    /// Begins; the first output is always [`RenewalOutput::NeedFence`].
    #[must_use]
    pub fn begin(plan: RenewalPlan) -> (Self, RenewalOutput) {
        let grant =
            Self { plan, stage: Stage::Fence, asked: 0, is_asking: false, ready: None, was_bound: false };
        (grant, RenewalOutput::NeedFence)
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
            (Stage::Discovering(mut discovery), RenewalInput::Response(_, answer)) => {
                let step = discovery.on_answer(answer);
                self.on_discovery(discovery, step, now)
            }
            (Stage::Identifying(ready), RenewalInput::Identity(identity)) => {
                identity.and_then(|identity| self.on_identity(ready, identity, now))
            }
            (Stage::Exchanging(ready, identity), RenewalInput::Response(_, answer)) => {
                self.on_exchange(ready, &identity, answer)
            }
            (Stage::Asking(asked), RenewalInput::Response(_, answer)) => self.on_tokens(*asked, answer, now),
            (Stage::Saving(mut record), RenewalInput::Saved(saved)) => {
                saved.map_err(AuthError::from).map(|saved| {
                    record.revision = saved.revision;
                    RenewalOutput::Done(Ok(record))
                })
            }
            _ => return Err(UnexpectedInput),
        };
        Ok(output.unwrap_or_else(|error| RenewalOutput::Done(Err(error))))
    }

    /// Whether the fence is to be held until the next step, if it is taken already.
    #[must_use]
    pub fn needs_fence(&self) -> bool {
        !matches!(self.stage, Stage::Discovering(_) | Stage::Exchanging(..) | Stage::Identifying(_))
    }

    fn waits_for(&self, input: &RenewalInput) -> bool {
        match (&self.stage, input) {
            (Stage::Fence, RenewalInput::FenceTaken(_))
            | (Stage::Identifying(_), RenewalInput::Identity(_))
            | (Stage::Saving(_), RenewalInput::Saved(_)) => true,
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
        let revision = kept.as_ref().map_or(0, |kept| kept.revision);
        let known_issuer = kept.as_ref().map(|kept| kept.issuer.clone());
        self.was_bound = kept.as_ref().is_some_and(|kept| kept.is_bound());
        let is_enough =
            |kept: &CredentialRecord| self.plan.settings.accept(kept) && self.plan.is_enough(kept, now);
        if let Some(kept) = kept.filter(|kept| is_enough(kept)) {
            return Ok(RenewalOutput::Done(Ok(kept)));
        }
        let client = self.client()?;
        if let Some(ready) = self.ready.take() {
            return self.ask(ready, client, revision, now);
        }
        let RenewalPlan { settings, server, challenges, .. } = &self.plan;
        let named = challenges.resource_metadata();
        let (discovery, step) = Discovery::begin(settings, server, named, known_issuer.as_deref());
        self.on_discovery(Box::new(discovery), step, now)
    }

    /// The configured client, if it has all that this grant needs.
    fn client(&self) -> Result<ClientRecord, AuthError> {
        let settings = &self.plan.settings;
        let missing = |what: &str| AuthError::Config(format!("a client that acts for itself needs {what}"));
        let client = settings.configured_client().ok_or_else(|| missing("client_id"))?;
        let is_bound = match &settings.grant {
            Grant::ClientCredentials => {
                if client.client_secret.is_none() && settings.signer.is_none() {
                    return Err(missing("client_secret, or a key"));
                }
                // An assertion is of use at the issuer it was made for, and nowhere else.
                client.client_secret.is_none()
            }
            Grant::EnterpriseManaged(provider) if !provider.is_encrypted() => {
                return Err(missing("an identity provider that is reached by https"));
            }
            _ => false,
        };
        if settings.issuer.is_none() && !is_bound && !settings.allows_any_issuer {
            return Err(missing("issuer"));
        }
        Ok(client)
    }

    fn on_discovery(
        &mut self,
        discovery: Box<Discovery>,
        step: DiscoveryStep,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        match step {
            DiscoveryStep::Ask(request) => {
                self.stage = Stage::Discovering(discovery);
                Ok(self.send(*request))
            }
            DiscoveryStep::Found(discovered) => self.on_found(*discovered, now),
            DiscoveryStep::Failed(error) => Err(error),
        }
    }

    fn on_found(&mut self, discovered: Discovered, now: UnixTime) -> Result<RenewalOutput, AuthError> {
        let RenewalPlan { settings, server, challenges, .. } = &self.plan;
        let published = discovered.resource.as_ref();
        let token_endpoint =
            endpoint(settings, server, "token_endpoint", &discovered.metadata.token_endpoint)?;
        let ready = Box::new(Ready {
            resource: settings.resource_parameter(server, published),
            scopes: Scopes::choose(&ScopeSources {
                configured: settings.scope.as_deref(),
                challenge: challenges.scope(),
                resource: published.and_then(|published| published.scopes_supported.as_deref()),
                ..ScopeSources::default()
            }),
            binding: settings.dpop.choose(&Offer {
                issuer: &discovered.metadata,
                resource: published,
                challenges,
                was_bound: self.was_bound,
            })?,
            assertion: None,
            fetched_at: now,
            token_endpoint,
            discovered,
        });
        let (source, audience) = match &settings.grant {
            Grant::EnterpriseManaged(provider) => {
                ready.check_for_id_jag()?;
                (Arc::clone(&provider.source), provider.token_endpoint.to_string())
            }
            Grant::WorkloadIdentity(source) => (Arc::clone(source), ready.issuer().to_owned()),
            _ => return Ok(self.on_ready(ready)),
        };
        self.stage = Stage::Identifying(ready);
        Ok(RenewalOutput::NeedIdentity(source, audience))
    }

    fn on_ready(&mut self, ready: Box<Ready>) -> RenewalOutput {
        self.ready = Some(ready);
        self.stage = Stage::Fence;
        RenewalOutput::NeedFence
    }

    fn on_identity(
        &mut self,
        mut ready: Box<Ready>,
        identity: Secret,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let Some(exchange) = ready.exchange(&self.plan) else {
            ready.assertion = Some(identity);
            return Ok(self.on_ready(ready));
        };
        let request = exchange.request(&identity, now, &*self.plan.randomness)?;
        self.stage = Stage::Exchanging(ready, identity);
        Ok(self.send(request))
    }

    fn on_exchange(
        &mut self,
        mut ready: Box<Ready>,
        identity: &Secret,
        answer: Result<OAuthResponse, OAuthHttpError>,
    ) -> Result<RenewalOutput, AuthError> {
        let response = answer.map_err(|error| AuthError::unavailable(error.to_string()))?;
        // What was exchanged once is exchanged still.
        let Some(exchange) = ready.exchange(&self.plan) else { return Ok(self.on_ready(ready)) };
        let assertion = exchange.read(&response, identity).map_err(|not_vouched| match not_vouched {
            NotVouched::Failed(error) => error,
            NotVouched::Identity(reply) => {
                tracing::info!(server = %self.plan.server, %reply, "the identity provider takes no token");
                AuthError::NeedsAuth(NeedsAuth::Identity)
            }
        })?;
        ready.assertion = Some(assertion);
        Ok(self.on_ready(ready))
    }

    /// Asks for the token. The fence is held.
    fn ask(
        &mut self,
        ready: Box<Ready>,
        mut client: ClientRecord,
        revision: u64,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        settle_method(
            &mut client,
            ready.discovered.metadata.token_endpoint_auth_methods_supported.as_deref(),
        );
        let possession = match ready.binding {
            Binding::Free => None,
            _ => Some(Possession::new(DpopKey::generate()?, &ready.token_endpoint, &self.plan.nonces)),
        };
        self.send_token_request(Asked { ready, client, revision, possession }, now)
    }

    fn send_token_request(&mut self, asked: Asked, now: UnixTime) -> Result<RenewalOutput, AuthError> {
        let Ready { discovered, token_endpoint, resource, scopes, assertion, .. } = &*asked.ready;
        let form = match assertion {
            None => Form::new().with("grant_type", "client_credentials"),
            Some(assertion) => {
                Form::new().with("grant_type", JWT_BEARER).with("assertion", assertion.clone())
            }
        };
        let form = form.with_some("scope", scopes.to_parameter()).with_some("resource", resource.as_deref());
        let proof = ClientProof {
            issuer: &discovered.issuer,
            metadata: Some(&discovered.metadata),
            signer: self.plan.settings.signer.as_deref(),
            possession: asked.possession.as_ref(),
            now,
            randomness: &*self.plan.randomness,
        };
        let request = token_request(token_endpoint, form, &asked.client, &proof)?;
        let request = request.named_by_server(&self.plan.server);
        self.stage = Stage::Asking(Box::new(asked));
        Ok(self.send(request))
    }

    fn on_tokens(
        &mut self,
        mut asked: Asked,
        answer: Result<OAuthResponse, OAuthHttpError>,
        now: UnixTime,
    ) -> Result<RenewalOutput, AuthError> {
        let response = answer.map_err(|error| AuthError::unavailable(error.to_string()))?;
        let redactor = Redactor::new(asked.client.secrets().chain(&asked.ready.assertion).cloned());
        let read = TokenReply::read(&response, &redactor);
        if let (Some(proved), Err(TokenFailure::Refused(reply))) = (&mut asked.possession, &read)
            && proved.repeats(&response, reply)?
        {
            return self.send_token_request(asked, now);
        }
        match read {
            Ok(reply) => {
                let record = Box::new(self.record(asked, reply, now)?);
                self.stage = Stage::Saving(record.clone());
                Ok(RenewalOutput::Commit(record))
            }
            Err(TokenFailure::Transient(why)) => {
                Err(AuthError::Unavailable { what: why.to_owned(), retry_after: response.retry_after() })
            }
            Err(TokenFailure::NoEndpoint(status)) => Err(AuthError::unavailable(format!(
                "no token endpoint answers where it should (status {status})"
            ))),
            Err(TokenFailure::Refused(reply)) if reply.error.is_none() => {
                Err(AuthError::unavailable(reply.to_string()))
            }
            Err(TokenFailure::Refused(reply)) => Err(AuthError::Denied(reply)),
        }
    }

    /// What is to be kept: all of it new.
    fn record(&self, asked: Asked, reply: TokenReply, now: UnixTime) -> Result<CredentialRecord, AuthError> {
        let Asked { ready, client, revision, possession } = asked;
        let Ready { discovered, fetched_at, resource, scopes, binding, .. } = *ready;
        let dpop_key = possession.map(|possession| possession.key);
        reply.check(dpop_key.as_ref(), binding)?;
        // There is no use for a refresh token: the client can ask again at any time.
        let reply = TokenReply { refresh_token: None, ..reply };
        let server = canonical_resource(&self.plan.server);
        let mut record = CredentialRecord::new(server, discovered.issuer, client);
        record.revision = revision;
        record.fingerprint = self.plan.settings.fingerprint();
        record.resource = resource;
        record.tokens = Some(Tokens { dpop_key, ..Tokens::granted(reply, scopes, now) });
        record.metadata = Some(CachedMetadata { document: discovered.metadata, fetched_at });
        Ok(record)
    }
}

impl Ready {
    /// The issuer, as it calls itself.
    fn issuer(&self) -> &str {
        self.discovered.metadata.issuer.as_deref().unwrap_or(&self.discovered.issuer)
    }

    fn exchange<'a>(&'a self, plan: &'a RenewalPlan) -> Option<TokenExchange<'a>> {
        let Grant::EnterpriseManaged(provider) = &plan.settings.grant else { return None };
        let (resource, scopes) = (self.resource.as_deref(), &self.scopes);
        Some(TokenExchange { provider, audience: self.issuer(), resource, scopes })
    }

    /// Whether an identity assertion may be shown: to the issuer itself, if it does not say that it takes
    /// none.
    fn check_for_id_jag(&self) -> Result<(), Refusal> {
        let listed = self.discovered.metadata.authorization_grant_profiles_supported.as_ref();
        if listed.is_some_and(|listed| !listed.iter().any(|profile| profile == ID_JAG_PROFILE)) {
            return Err(Refusal::NoIdentityAssertions);
        }
        let is_own = WebUrl::parse(&self.discovered.issuer)
            .is_ok_and(|issuer| issuer.origin() == self.token_endpoint.origin());
        if is_own {
            return Ok(());
        }
        let why = "it is not on the origin of the issuer".to_owned();
        Err(Refusal::Endpoint { name: "token_endpoint", why })
    }
}
