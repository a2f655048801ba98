//! Subscriptions of the legacy era: changed lists come unasked, resources are asked for one by one.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_proto::{
    Request, RequestId, SubscribeResource, SubscriptionFilter, UnsubscribeResource, encode_request,
};
use mcp_transport::{CloseReason, Closed, Dispatch};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::call::Call;
use crate::error::{CallError, CallOutcome};
use crate::options::CallOptions;
use crate::pending::later;
use crate::session::{Handle, Session};
use crate::shared::Shared;
use crate::start::Start;
use crate::subscription::interests::{Hold, Interests, Turn};
use crate::subscription::{Source, SubscribeOptions, Subscription, SubscriptionEnd, SubscriptionLane};

/// How long a server may take to stop watching a resource; nobody waits for it.
const UNSUBSCRIBE_LIMIT: Duration = Duration::from_secs(10);

/// Who is told what a legacy server says unasked, and what it is asked to watch.
///
/// The driver asks, one thing after the other, so that the server sees all of it in its order also where each
/// request has a connection of its own, and so that a caller who does not poll keeps nobody waiting.
#[derive(Debug, Default)]
pub(crate) struct Unsolicited(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Arc<SubscriptionLane>>,
    interests: Interests<Errand>,
    closed: Option<Closed>,
}

/// A resource that somebody waits for the server to watch. Once that one is gone, so is the call.
#[derive(Debug)]
struct Errand {
    call: Call<SubscribeResource>,
    told: oneshot::Sender<Result<(), CallError>>,
}

/// One subscription among those that are told: leaving is dropping it. What it alone has held is taken
/// back by the driver, so that this never waits.
pub(super) struct Member {
    handle: Arc<Handle>,
    lane: Arc<SubscriptionLane>,
    held: Vec<String>,
    /// Its number in the line, while it may stand there.
    in_line: Option<u64>,
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
    let mut member = Member::enter(session.handle(), &lane)?;
    for uri in &wanted.resource_subscriptions {
        match member.watch(session, uri, by).await? {
            Watch::Agreed => {}
            Watch::Unasked => {
                let waited = by.duration_since(started);
                return Err(CallError::Timeout { dispatch: Dispatch::NotSent, waited });
            }
        }
    }
    Ok(Subscription { lane, honoured: wanted, source: Some(Source::Member { _place: member }) })
}

/// What has become of a resource that was to be watched.
enum Watch {
    Agreed,
    /// Its turn to be asked for has not come in time.
    Unasked,
}

impl Member {
    fn enter(handle: &Arc<Handle>, lane: &Arc<SubscriptionLane>) -> Result<Self, CallError> {
        let mut state = handle.shared.unsolicited.lock();
        if let Some(closed) = &state.closed {
            return Err(CallError::SessionGone { dispatch: Dispatch::NotSent, closed: closed.clone() });
        }
        state.lanes.push(Arc::clone(lane));
        Ok(Self { handle: Arc::clone(handle), lane: Arc::clone(lane), held: Vec::new(), in_line: None })
    }

    /// Has the server watch a resource, unless it does already.
    async fn watch(&mut self, session: &Session, uri: &str, by: Instant) -> Result<Watch, CallError> {
        if self.held.iter().any(|held| held == uri) {
            return Ok(Watch::Agreed);
        }
        let shared = Arc::clone(&session.handle().shared);
        // Held before it is asked for: what is given up halfway is taken back.
        self.held.push(uri.to_owned());
        if shared.unsolicited.lock().interests.hold(uri) == Hold::Known {
            return Ok(Watch::Agreed);
        }
        let call = session.call(SubscribeResource::new(uri), CallOptions::default().with_deadline(by));
        let (told, mut answer) = oneshot::channel();
        self.in_line = Some(shared.unsolicited.line_up(uri, Errand { call, told })?);
        shared.driver.wake();
        let answered = match timeout_at(by, &mut answer).await {
            Ok(answered) => answered,
            Err(_) if self.leave_line() => return Ok(Watch::Unasked),
            // It was asked for, and how that has ended comes in a moment.
            Err(_) => answer.await,
        };
        self.in_line = None;
        answered.unwrap_or_else(|_| Err(shared.unsolicited.gone(Dispatch::MayHaveLeft)))?;
        Ok(Watch::Agreed)
    }

    /// Waits for no turn any more; `false` if it had come before.
    fn leave_line(&mut self) -> bool {
        let Some(number) = self.in_line.take() else { return false };
        let errand = self.handle.shared.unsolicited.lock().interests.leave_line(number);
        errand.is_some()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave_line();
        let shared = &self.handle.shared;
        let mut state = shared.unsolicited.lock();
        state.lanes.retain(|lane| !Arc::ptr_eq(lane, &self.lane));
        self.held.iter().for_each(|uri| state.interests.release(uri));
        let is_next = state.interests.is_next();
        drop(state);
        if is_next {
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
        let waiting = state.interests.clear_line();
        drop(state);
        for errand in waiting {
            errand.tell(Err(self.gone(Dispatch::NotSent)));
        }
        for lane in lanes {
            lane.end(SubscriptionEnd::SessionGone(closed.clone()));
        }
    }

    /// Has the driver ask for a resource when its turn comes; answers its number in the line.
    fn line_up(&self, uri: &str, errand: Errand) -> Result<u64, CallError> {
        let mut state = self.lock();
        if state.closed.is_some() {
            drop(state);
            return Err(self.gone(Dispatch::NotSent));
        }
        Ok(state.interests.line_up(uri, errand))
    }

    /// The error of what has ended with the session.
    fn gone(&self, dispatch: Dispatch) -> CallError {
        let closed = self.lock().closed.clone();
        let closed = closed.unwrap_or_else(|| Closed::new(CloseReason::Local, ""));
        CallError::SessionGone { dispatch, closed }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done inside these locks, so a panic elsewhere does not matter here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Errand {
    fn tell(self, answer: Result<(), CallError>) {
        // Whoever is gone needs no answer.
        let _ = self.told.send(answer);
    }
}

impl Shared {
    /// Begins to ask the server for what is next in line; the future is the driver's to poll.
    pub(crate) fn begin_asking(self: &Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        let is_next = self.unsolicited.lock().interests.is_next();
        is_next.then(|| Box::pin(Arc::clone(self).ask_in_turn()) as _)
    }

    async fn ask_in_turn(self: Arc<Self>) {
        loop {
            let turn = self.unsolicited.lock().interests.next();
            match turn {
                None => return,
                Some(Turn::Known(errand)) => errand.tell(Ok(())),
                Some(Turn::Part { uri }) => {
                    if let Err(error) = self.ask(&UnsubscribeResource::new(uri)).await {
                        tracing::debug!(%error, "a subscription to a resource could not be taken back");
                    }
                }
                Some(Turn::Watch { uri, waiting }) => self.watch(&uri, waiting).await,
            }
        }
    }

    /// Asks the server to watch a resource, for as long as somebody waits for that.
    async fn watch(&self, uri: &str, errand: Errand) {
        let Errand { call, mut told } = errand;
        let answer = tokio::select! {
            biased;
            // First: a request that nobody has sent yet is not sent for nobody.
            () = told.closed() => return,
            answer = call => answer.map(drop),
        };
        let mut state = self.unsolicited.lock();
        match &answer {
            Ok(()) => state.interests.on_agreed(uri),
            Err(error) if error.outcome() != CallOutcome::Unknown => state.interests.on_refused(uri),
            Err(_) => {}
        }
        drop(state);
        // Whoever is gone needs no answer.
        let _ = told.send(answer);
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
