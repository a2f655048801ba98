//! Subscriptions of the legacy era: changed lists come unasked, resources are asked for one by one.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_proto::{
    Request, RequestId, SubscribeResource, SubscriptionFilter, UnsubscribeResource, encode_request,
};
use mcp_transport::{Closed, Dispatch};
use tokio::time::{Instant, timeout_at};

use crate::call::Start;
use crate::error::{CallError, CallOutcome};
use crate::options::CallOptions;
use crate::pending::later;
use crate::session::{Handle, Session};
use crate::shared::Shared;
use crate::subscription::interests::{Hold, Interests};
use crate::subscription::{Source, SubscribeOptions, Subscription, SubscriptionEnd, SubscriptionLane};

/// How long a server may take to stop watching a resource; nobody waits for it.
const UNSUBSCRIBE_LIMIT: Duration = Duration::from_secs(10);

/// Who is told what a legacy server says unasked, and what it was asked to watch.
#[derive(Debug, Default)]
pub(crate) struct Unsolicited {
    state: Mutex<State>,
    /// Held while the server is asked to watch a resource or to stop that, so that it sees the two in
    /// their order also where each request has a connection of its own.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Arc<SubscriptionLane>>,
    interests: Interests,
    closed: Option<Closed>,
}

/// One subscription among those that are told: leaving is dropping it. What it alone has held is taken
/// back by the driver, so that this never waits.
pub(super) struct Member {
    handle: Arc<Handle>,
    lane: Arc<SubscriptionLane>,
    held: Vec<String>,
}

/// Joins those that are told, then has the server watch what is wanted.
pub(super) async fn join(
    session: &Session,
    wanted: SubscriptionFilter,
    options: &SubscribeOptions,
) -> Result<Subscription, CallError> {
    let started = Instant::now();
    let by = later(started, options.open_limit);
    let lane = Arc::new(SubscriptionLane::open(wanted.clone(), options.max_resources));
    let mut member = Member::enter(&session.handle, &lane)?;
    if !wanted.resource_subscriptions.is_empty() {
        let turn = timeout_at(by, session.handle.shared.unsolicited.turn.lock()).await;
        let _turn = turn.map_err(|_| CallError::Timeout {
            dispatch: Dispatch::NotSent,
            waited: by.duration_since(started),
        })?;
        for uri in &wanted.resource_subscriptions {
            member.watch(session, uri, by).await?;
        }
    }
    Ok(Subscription { lane, honoured: wanted, source: Some(Source::Member { _place: member }) })
}

impl Member {
    fn enter(handle: &Arc<Handle>, lane: &Arc<SubscriptionLane>) -> Result<Self, CallError> {
        let mut state = handle.shared.unsolicited.lock();
        if let Some(closed) = &state.closed {
            return Err(CallError::SessionGone { dispatch: Dispatch::NotSent, closed: closed.clone() });
        }
        state.lanes.push(Arc::clone(lane));
        Ok(Self { handle: Arc::clone(handle), lane: Arc::clone(lane), held: Vec::new() })
    }

    /// Has the server watch a resource, unless it does already.
    async fn watch(&mut self, session: &Session, uri: &str, by: Instant) -> Result<(), CallError> {
        if self.held.iter().any(|held| held == uri) {
            return Ok(());
        }
        let unsolicited = &session.handle.shared.unsolicited;
        // Held before it is asked for: what is given up halfway is taken back.
        self.held.push(uri.to_owned());
        if unsolicited.lock().interests.hold(uri) == Hold::Known {
            return Ok(());
        }
        let options = CallOptions::default().with_deadline(by);
        match session.call(SubscribeResource::new(uri), options).await {
            Ok(_) => unsolicited.lock().interests.confirm(uri),
            Err(error) => {
                if error.outcome() != CallOutcome::Unknown {
                    unsolicited.lock().interests.refuse(uri);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        let mut state = shared.unsolicited.lock();
        state.lanes.retain(|lane| !Arc::ptr_eq(lane, &self.lane));
        self.held.iter().for_each(|uri| state.interests.release(uri));
        let has_parting = state.interests.has_parting();
        drop(state);
        if has_parting {
            shared.driver.wake();
        }
    }
}

impl Unsolicited {
    /// How many subscriptions are told.
    pub(crate) fn members(&self) -> usize {
        self.lock().lanes.len()
    }

    /// All that are told, at this moment.
    pub(super) fn lanes(&self) -> Vec<Arc<SubscriptionLane>> {
        self.lock().lanes.clone()
    }

    /// Ends all of them, and takes nobody in again.
    pub(crate) fn close(&self, closed: &Closed) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| closed.clone());
        let lanes = std::mem::take(&mut state.lanes);
        drop(state);
        for lane in lanes {
            lane.end(SubscriptionEnd::SessionGone(closed.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done inside these locks, so a panic elsewhere does not matter here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Begins to take back what nobody holds any more; the future is the driver's to poll.
    pub(crate) fn begin_parting(self: &Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        let has_parting = self.unsolicited.lock().interests.has_parting();
        has_parting.then(|| Box::pin(Arc::clone(self).part()) as _)
    }

    async fn part(self: Arc<Self>) {
        loop {
            let _turn = self.unsolicited.turn.lock().await;
            let parting = self.unsolicited.lock().interests.part();
            let Some(uri) = parting else { return };
            if let Err(error) = self.ask(&UnsubscribeResource::new(uri)).await {
                tracing::debug!(%error, "a subscription to a resource could not be taken back");
            }
        }
    }

    /// Makes a call whose answer nobody waits for.
    async fn ask<R: Request>(self: &Arc<Self>, request: &R) -> Result<(), CallError> {
        let Some(agreed) = self.agreed.get() else { return Ok(()) };
        let id = self.ids.next();
        let frame = encode_request(&RequestId::from(id), &R::METHOD, request, agreed.base())
            .map_err(CallError::Encode)?;
        let mut call = Start::alone(frame, later(Instant::now(), UNSUBSCRIBE_LIMIT)).begin(self, id)?;
        poll_fn(|cx| call.poll(self, id, cx)).await.result.map(drop)
    }
}
