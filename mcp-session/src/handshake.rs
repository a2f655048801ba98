use std::sync::Arc;
use std::time::Duration;

use mcp_proto::probe::{
    ProbeFailure, ProbeOutcome, ProbePhase, ProbeTransport, ProbeVerdict, classify, classify_initialize,
};
use mcp_proto::{
    DecodeError, Discover, DiscoverResult, Era, Initialize, InitializeResult, Initialized, MetaMembers,
    Payload, PeerInfo, ProtocolVersion, Request, RequestId, ResultType, encode_request, negotiation,
};
use mcp_transport::{
    BrokenWhy, CloseReason, Closed, Connection, HttpProfile, MirroredHeader, Outbound, SendError, Sent,
    Streams,
};
use tokio::time::{Instant, timeout_at};

use crate::call::{Keeper, RawCall};
use crate::driver::Driver;
use crate::era::{Agreed, mirrored_discovery, notice};
use crate::error::{CallError, HandshakeError, ProtocolFault};
use crate::options::{EraPolicy, SessionOptions};
use crate::pending::later;
use crate::session::{Handle, Session};
use crate::shared::Shared;
use crate::start::Start;

/// How long to wait for the reason of a loss after a write has failed.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Takes a connection over: returns what opens it, and the engine that must run meanwhile.
///
/// Nothing is spawned and nothing is sent yet. The driver must be polled while the opening makes its
/// handshake and for as long as the session is used.
pub fn open(connection: Connection, mut options: SessionOptions) -> (Opening, Driver) {
    options.declare_what_is_served();
    let shared = Arc::new(Shared::new(connection.transport, &options));
    let driver = Driver::new(Arc::clone(&shared), connection.receive);
    let handle = Arc::new(Handle::new(shared, &options));
    (Opening { handle, options }, driver)
}

/// A connection on which nothing is agreed yet. No call can be made: this type has none.
///
/// Dropping it ends the driver.
#[derive(Debug)]
#[must_use = "nothing is sent before the handshake, and dropping it ends the driver"]
pub struct Opening {
    handle: Arc<Handle>,
    options: SessionOptions,
}

/// The next request of a handshake.
#[derive(Debug, Clone, Copy)]
enum Step {
    Discover(ProtocolVersion, ProbePhase),
    Initialize(ProtocolVersion, ProbePhase),
}

/// What a step has led to.
enum Led {
    ToAgreement(Arc<Agreed>),
    To(Step),
}

impl Opening {
    /// Agrees with the server on version and era, according to the [`EraPolicy`] of the options.
    ///
    /// With [`EraPolicy::Auto`] the server is first asked for a discovery. A server that answers with
    /// anything else, or is silent for `probe_limit`, is opened with `initialize` on the same
    /// connection; an answer to the probe that comes later is ignored. Neither request is ever
    /// cancelled on the wire. Requests and log lines of the server are served from the first moment.
    ///
    /// # Errors
    ///
    /// See [`HandshakeError`]. The session is over then and its driver ends; the transport has still to
    /// be closed by whoever holds it, or is dropped with the driver.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the session.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, basic/lifecycle; 2026-07-28, basic/lifecycle and its rules for older servers.
    pub async fn handshake(self, by: Instant) -> Result<Session, HandshakeError> {
        match self.agree(by).await {
            Ok(agreed) => Ok(Session::new(self.handle, agreed)),
            Err(error) => Err(self.explained(error, by).await),
        }
    }

    /// Goes from step to step until there is an agreement.
    async fn agree(&self, by: Instant) -> Result<Arc<Agreed>, HandshakeError> {
        let mut step = self.first_step();
        let agreed = loop {
            let led = match step {
                Step::Discover(version, phase) => self.discover(version, phase, by).await?,
                Step::Initialize(version, phase) => self.initialize(version, phase, by).await?,
            };
            match led {
                Led::ToAgreement(agreed) => break agreed,
                Led::To(next) => step = next,
            }
        };
        let peer = agreed.peer();
        tracing::debug!(version = %peer.version, server = %mcp_proto::escape(&peer.server.name, 128), "agreed");
        let era = peer.era;
        self.handle.shared.transport.set_profile(HttpProfile::new(peer.version));
        let agreed = self.handle.shared.settle(agreed);
        if era == Era::Legacy {
            self.confirm(by).await?;
        }
        Ok(agreed)
    }

    /// A write that failed says only that the server has gone; the receiving half knows in a moment how
    /// it ended and what it wrote last.
    async fn explained(&self, error: HandshakeError, by: Instant) -> HandshakeError {
        let (HandshakeError::Closed(closed) | HandshakeError::ProbeKilled(closed)) = &error else {
            return error;
        };
        if !matches!(closed.reason(), CloseReason::Broken(_)) {
            return error;
        }
        let by = later(Instant::now(), LAST_WORD).min(by);
        let Ok(closed) = timeout_at(by, self.handle.shared.ending.wait()).await else { return error };
        match error {
            HandshakeError::ProbeKilled(_) => HandshakeError::ProbeKilled(closed),
            _ => HandshakeError::Closed(closed),
        }
    }

    fn first_step(&self) -> Step {
        match self.options.era {
            EraPolicy::Auto | EraPolicy::Modern => {
                Step::Discover(ProtocolVersion::NEWEST_MODERN, ProbePhase::First)
            }
            EraPolicy::Legacy => Step::Initialize(ProtocolVersion::NEWEST_LEGACY, ProbePhase::First),
        }
    }

    /// Probes with `server/discover` and judges what comes of it.
    async fn discover(
        &self,
        version: ProtocolVersion,
        phase: ProbePhase,
        by: Instant,
    ) -> Result<Led, HandshakeError> {
        let limit = later(Instant::now(), self.options.probe_limit).min(by);
        let mirrored = mirrored_discovery(self.handle.shared.transport.streams(), version);
        let answer = self.ask(&Discover::default(), &self.modern_meta(version)?, mirrored, limit).await;
        let (mut discovered, mut refusal) = (None, None);
        let outcome = match answer {
            Ok(result) if ResultType::of(&result) != Ok(ResultType::Complete) => ProbeOutcome::Unreadable,
            Ok(result) => match result.decode::<DiscoverResult>() {
                Ok(result) => {
                    let versions = result.supported_versions.clone();
                    discovered = Some(result);
                    ProbeOutcome::Discovered { versions }
                }
                Err(_) => ProbeOutcome::Undiscovered,
            },
            // A page instead of an answer is no evidence of anything but a wrong URL.
            Err(error @ CallError::Protocol(ProtocolFault::Broken(BrokenWhy::NotMcp { .. }))) => {
                return Err(error.into());
            }
            Err(CallError::Protocol(_) | CallError::FrameTooLarge { .. }) => ProbeOutcome::Unreadable,
            Err(CallError::Http(rejection)) => {
                let rejection = refusal.insert(rejection);
                match &rejection.error {
                    Some(error) => {
                        ProbeOutcome::Rejected { error: error.clone(), status: Some(rejection.status) }
                    }
                    None => ProbeOutcome::Status(rejection.status),
                }
            }
            Err(CallError::Lost) => ProbeOutcome::Ended,
            Err(CallError::Peer(error)) => ProbeOutcome::Rejected { error, status: None },
            Err(CallError::Timeout { .. }) if Instant::now() < by => ProbeOutcome::Silence,
            Err(CallError::SessionGone { closed, .. }) => return Err(self.lost(closed)),
            Err(error) => return Err(error.into()),
        };
        let verdict = classify(&outcome, self.transport(), phase, self.supported());
        tracing::debug!(?outcome, ?verdict, "probed");
        match (verdict, discovered) {
            (ProbeVerdict::Modern(version), Some(result)) => {
                let meta = self.modern_meta(version)?;
                let peer = PeerInfo::from_discover(version, result);
                Ok(Led::ToAgreement(Arc::new(Agreed::modern(peer, meta, &self.options.capabilities))))
            }
            (ProbeVerdict::Retry(version), _) => Ok(Led::To(Step::Discover(version, ProbePhase::Retried))),
            (ProbeVerdict::Legacy(_), _) => {
                Ok(Led::To(Step::Initialize(ProtocolVersion::NEWEST_LEGACY, phase)))
            }
            (ProbeVerdict::Failed(failure), _) => Err(match (failure, refusal) {
                // It says more than its status, such as what is wanted, or when to come again.
                (ProbeFailure::Authorization(_) | ProbeFailure::Status(_), Some(refusal)) => {
                    HandshakeError::Http(refusal)
                }
                (failure, _) => failure.into(),
            }),
            // No other verdict follows from these outcomes and phases.
            _ => Err(ProbeFailure::Unreadable.into()),
        }
    }

    /// Offers a legacy version with `initialize`.
    async fn initialize(
        &self,
        version: ProtocolVersion,
        phase: ProbePhase,
        by: Instant,
    ) -> Result<Led, HandshakeError> {
        let request =
            Initialize::offering(version, self.options.client_info.clone(), &self.options.capabilities);
        let failure = match self.ask(&request, &MetaMembers::new(), Vec::new(), by).await {
            Ok(result) => {
                let result: InitializeResult = result.decode().map_err(ProtocolFault::Result)?;
                let version = negotiation::accept(&result.protocol_version, self.supported())?;
                return Ok(Led::ToAgreement(Arc::new(Agreed::legacy(PeerInfo::from_initialize(
                    version, result,
                )))));
            }
            Err(error) => error.into(),
        };
        let HandshakeError::Rpc(error) = failure else { return Err(failure) };
        match classify_initialize(&error, phase, self.supported()) {
            ProbeVerdict::Retry(version) => Ok(Led::To(match version.era() {
                Era::Modern => Step::Discover(version, ProbePhase::Retried),
                Era::Legacy => Step::Initialize(version, ProbePhase::Retried),
            })),
            ProbeVerdict::Failed(ProbeFailure::Version(versions)) => Err(versions.into()),
            _ => Err(HandshakeError::Rpc(error)),
        }
    }

    /// Tells a legacy server that its answer was understood.
    async fn confirm(&self, by: Instant) -> Result<(), HandshakeError> {
        let message = Outbound::notification(notice(&Initialized::default())?);
        match timeout_at(by, self.handle.shared.transport.send(message)).await {
            Ok(Ok(Sent::Rejected(mut rejection))) => {
                self.handle.shared.redact_rejection(&mut rejection);
                Err(HandshakeError::Http(rejection))
            }
            Ok(Ok(Sent::Failed(why))) => Err(ProtocolFault::Broken(why).into()),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(SendError::Closed(closed) | SendError::Refused(closed))) => {
                Err(HandshakeError::Closed(closed))
            }
            Ok(Err(error)) => {
                Err(HandshakeError::Closed(Closed::new(CloseReason::Broken(error.to_string()), "")))
            }
            Err(_) => Err(HandshakeError::Timeout),
        }
    }

    /// Sends one request of the handshake: it is not cancelled on the wire, whatever becomes of it.
    async fn ask<R: Request>(
        &self,
        request: &R,
        meta: &MetaMembers,
        mirrored: Vec<MirroredHeader>,
        limit: Instant,
    ) -> Result<Payload, CallError> {
        let id = self.handle.shared.ids.next();
        let frame =
            encode_request(&RequestId::from(id), &R::METHOD, request, meta).map_err(CallError::Encode)?;
        let start = Start { mirrored, ..Start::alone(frame, limit) };
        RawCall::new(Keeper::Opening(Arc::clone(&self.handle)), id, R::METHOD, Ok(start)).await
    }

    fn modern_meta(&self, version: ProtocolVersion) -> Result<MetaMembers, DecodeError> {
        let client = self.options.names_client.then_some(&self.options.client_info);
        MetaMembers::modern(version, &self.options.capabilities, client)
    }

    /// The connection has ended during the probe. Some legacy servers exit on a request they do not
    /// expect, so on a byte stream that is a verdict on the era rather than a failure.
    fn lost(&self, closed: Closed) -> HandshakeError {
        let is_ours = *closed.reason() == CloseReason::Local;
        let can_be_legacy = self.options.era == EraPolicy::Auto;
        if can_be_legacy && !is_ours && self.transport() == ProbeTransport::Stdio {
            HandshakeError::ProbeKilled(closed)
        } else {
            HandshakeError::Closed(closed)
        }
    }

    fn transport(&self) -> ProbeTransport {
        match self.handle.shared.transport.streams() {
            Streams::PerRequest => ProbeTransport::Http,
            Streams::Shared => ProbeTransport::Stdio,
        }
    }

    fn supported(&self) -> &'static [ProtocolVersion] {
        let all = ProtocolVersion::ALL;
        let first_modern = all.partition_point(|version| version.era() == Era::Legacy);
        let (legacy, modern) = all.split_at(first_modern);
        match self.options.era {
            EraPolicy::Auto => all,
            EraPolicy::Legacy => legacy,
            EraPolicy::Modern => modern,
        }
    }
}
