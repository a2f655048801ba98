use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::RequestId;
use mcp_transport::{CloseReason, Closed, Dispatch, MirroredHeader, Outbound};
use tokio::time::Instant;

use crate::error::CallError;
use crate::gate::Permit;
use crate::in_flight::InFlight;
use crate::pending::{Door, Patience, Refused};
use crate::progress::ProgressLane;
use crate::rounds::Rounds;
use crate::shared::{Entry, Keeps, Origin, Role, Shared};
use crate::slot::Slot;
use crate::subscription::SubscriptionLane;

/// A written request that has not been taken in yet.
pub(crate) struct Start {
    pub(crate) frame: Bytes,
    /// Headers for transports that have some.
    pub(crate) mirrored: Vec<MirroredHeader>,
    pub(crate) started: Instant,
    /// How many handlers the call was made inside of.
    pub(crate) depth: u8,
    pub(crate) patience: Patience,
    pub(crate) pass: Pass,
    pub(crate) progress: Option<ProgressLane>,
    /// Where the server may ask for input before it answers.
    pub(crate) rounds: Option<Box<Rounds>>,
    /// Where the events of the subscription go that this request is.
    pub(crate) lane: Option<Arc<SubscriptionLane>>,
}

/// How a call was let in, and what it holds for that.
#[derive(Debug)]
pub(crate) enum Pass {
    /// On behalf of a call that was let in before.
    Again,
    /// Straight from a session handle.
    Session,
    /// With a permit of a gate, free as soon as the call has ended.
    Gate(Permit),
    /// With a permit of a gate, kept for the next page of a list.
    GateAndBack(Permit),
}

impl Start {
    /// A request that is no call of anybody's, answered by `limit` whatever it reports.
    pub(crate) fn alone(frame: Bytes, limit: Instant) -> Self {
        let started = Instant::now();
        let patience = Patience::new(started, Duration::MAX, limit);
        let mirrored = Vec::new();
        Self {
            frame,
            mirrored,
            started,
            depth: 0,
            patience,
            pass: Pass::Session,
            progress: None,
            rounds: None,
            lane: None,
        }
    }

    /// Takes the call in: from here on somebody will end it, and the guard that cancels it is armed,
    /// before the transport has seen anything.
    pub(crate) fn begin(self, shared: &Arc<Shared>, id: i64) -> Result<InFlight, CallError> {
        let Self { frame, mirrored, started, depth, patience, pass, progress, rounds, lane } = self;
        let now = Instant::now();
        if patience.due() <= now {
            let waited = now.duration_since(started);
            return Err(CallError::Timeout { dispatch: Dispatch::NotSent, waited });
        }
        let mut request = Outbound::request(RequestId::from(id), frame);
        request.mirrored = mirrored;
        let slot = Arc::new(Slot::new(request));
        let door = match pass {
            Pass::Again => Door::Again,
            Pass::Session => Door::Session,
            Pass::Gate(_) | Pass::GateAndBack(_) => Door::Gate,
        };
        let keeps = match (&pass, &rounds) {
            (Pass::GateAndBack(_), _) => Keeps::ForNextPage(patience),
            (_, Some(rounds)) => rounds.keeps(),
            (_, None) => Keeps::Nothing,
        };
        let permit = match pass {
            Pass::Again | Pass::Session => None,
            Pass::Gate(permit) | Pass::GateAndBack(permit) => Some(permit),
        };
        let origin = Origin { started, depth, wants_progress: progress.is_some() };
        let role = lane.map_or(Role::Call, Role::Subscription);
        let entry = Entry { id, slot: Arc::clone(&slot), permit, keeps, origin, role };
        let taken_in = shared.table().insert(id, entry, patience, door);
        match taken_in {
            Ok(timer) => shared.wake_driver(timer),
            Err((refused, _entry)) => return Err(refused.into()),
        }
        Ok(InFlight { slot, progress, rounds, origin, _place: None })
    }
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        let closed = match refused {
            Refused::Closed(closed) => closed,
            Refused::Full => return Self::Overloaded,
            Refused::Retracted => Closed::new(CloseReason::Local, ""),
        };
        Self::SessionGone { dispatch: Dispatch::NotSent, closed }
    }
}
