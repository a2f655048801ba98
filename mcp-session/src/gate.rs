use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::{Method, Paginated, Payload, PeerInfo, Request};
use mcp_transport::{CloseReason, Closed, Dispatch};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError};
use tokio::time::{Instant, timeout_at};

use crate::call::{Call, RawCall};
use crate::error::CallError;
use crate::list::{ListLimits, Listed};
use crate::options::CallOptions;
use crate::session::Session;
use crate::start::Pass;

/// The door of one server: how many calls may run at once, and on which session.
///
/// One gate per *server*: it outlives the sessions. Its owner publishes the session of each
/// generation when it is ready and retracts it when it is not. A caller that gets through holds a
/// [`LiveSession`], a permit together with the session of one generation; there is no way to hold a
/// permit and no session. Waiting callers are served in the order they came.
///
/// A limit of 1 makes a server strictly serial.
#[derive(Debug)]
pub struct Gate {
    permits: Arc<Permits>,
    limit: usize,
    queued: AtomicUsize,
    queue_limit: usize,
    published: Mutex<Published>,
}

#[derive(Debug, Default)]
struct Published {
    /// The newest generation seen; an older one can no longer be published.
    newest: u64,
    session: Option<Session>,
}

/// A gate did not let a call through; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The gate has been closed for good.
    #[error("the server takes no more calls")]
    Closed,
    /// No session is published.
    #[error("the server is not connected")]
    NotLive,
    /// As many callers as may wait are waiting.
    #[error("too many calls are waiting for this server")]
    Overloaded,
    /// No permit came free in time.
    #[error("no free slot for this server in time")]
    Timeout,
}

impl GateError {
    /// The same refusal as the error of a call that has waited this long; its outcome is *not sent*.
    #[must_use]
    pub fn into_call_error(self, waited: Duration) -> CallError {
        match self {
            Self::Closed | Self::NotLive => CallError::SessionGone {
                dispatch: Dispatch::NotSent,
                closed: Closed::new(CloseReason::Local, ""),
            },
            Self::Overloaded => CallError::Overloaded,
            Self::Timeout => CallError::QueueTimeout { waited },
        }
    }
}

/// The right to make one call on the session of one generation.
///
/// Once the gate has retracted that generation, the call is refused with
/// [`CallError::SessionGone`] and outcome *not sent*; it never reaches another generation. Dropping
/// the guard gives the permit back.
#[derive(Debug)]
#[must_use = "dropping it gives the permit back"]
pub struct LiveSession {
    permit: Permit,
    session: Session,
    generation: u64,
}

/// The place of one call in its gate; free again when dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Permits>);

/// The permits of a gate, and who waits for the last one to come back.
#[derive(Debug)]
struct Permits {
    free: Semaphore,
    are_awaited: AtomicBool,
    returned: Notify,
}

impl Gate {
    /// Makes a gate for `limit` calls at once and at most `queue` waiting ones; nothing is published.
    #[must_use]
    pub fn new(limit: NonZeroUsize, queue: usize) -> Arc<Self> {
        let limit = limit.get().min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            permits: Arc::new(Permits::new(limit)),
            limit,
            queued: AtomicUsize::new(0),
            queue_limit: queue,
            published: Mutex::default(),
        })
    }

    /// Makes a gate for a session that is used alone.
    #[must_use]
    pub fn alone(session: Session, limit: NonZeroUsize, queue: usize) -> Arc<Self> {
        let gate = Self::new(limit, queue);
        gate.publish(0, session);
        gate
    }

    /// Lets calls through to `session` from now on.
    ///
    /// The session published before, if any, is retracted. A generation older than one seen before
    /// is not published, and nothing is once the gate is [closed](Self::close). A session that was retracted
    /// takes no calls through a gate ever again: publish a new one.
    pub fn publish(&self, generation: u64, session: Session) {
        let mut published = self.published();
        if generation < published.newest || self.permits.free.is_closed() {
            return;
        }
        published.newest = generation;
        let before = published.session.replace(session.clone());
        drop(published);
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before.handle(), session.handle())) {
            before.retract();
        }
    }

    /// Lets no further call through to the session of `generation`; another one is not touched.
    ///
    /// When this returns, no [`LiveSession`] of that generation is taken in any more. Calls that were taken in
    /// before go on: also one that is not sent yet, or that has to be sent again.
    pub fn retract(&self, generation: u64) {
        let mut published = self.published();
        if published.newest != generation {
            return;
        }
        let session = published.session.take();
        drop(published);
        if let Some(session) = session {
            session.retract();
        }
    }

    /// Closes the gate for good and sends all waiting callers away. Calls that were taken in go on.
    pub fn close(&self) {
        self.permits.free.close();
        let session = self.published().session.take();
        if let Some(session) = session {
            session.retract();
        }
    }

    /// Waits for a permit and takes the session that is published *then*.
    ///
    /// # Errors
    ///
    /// See [`GateError`]; nothing was sent in any case.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the place in the queue up.
    pub async fn enter(&self, by: Instant) -> Result<LiveSession, GateError> {
        if let Some(live) = self.try_enter()? {
            return Ok(live);
        }
        let permit = {
            let _place = Place::take(self)?;
            let permit = timeout_at(by, self.permits.free.acquire())
                .await
                .map_err(|_| GateError::Timeout)?
                .map_err(|_| GateError::Closed)?;
            self.permits.give(permit)
        };
        self.admit(permit)
    }

    /// Takes a permit if one is free, with the session that is published; `None`: there is none, and
    /// [`enter`](Self::enter) would wait for one.
    ///
    /// # Errors
    ///
    /// [`GateError::Closed`] and [`GateError::NotLive`]; nothing was sent.
    pub fn try_enter(&self) -> Result<Option<LiveSession>, GateError> {
        match self.permits.free.try_acquire() {
            Ok(permit) => self.admit(self.permits.give(permit)).map(Some),
            Err(TryAcquireError::Closed) => Err(GateError::Closed),
            Err(TryAcquireError::NoPermits) => Ok(None),
        }
    }

    fn admit(&self, permit: Permit) -> Result<LiveSession, GateError> {
        let published = self.published();
        let session = published.session.clone().ok_or(GateError::NotLive)?;
        Ok(LiveSession { permit, session, generation: published.newest })
    }

    /// The session that calls are let through to now, for what needs no permit.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.published().session.clone()
    }

    /// Permits that are taken: calls in flight and guards that are held.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.limit.saturating_sub(self.permits.free.available_permits())
    }

    /// Callers that wait for a permit.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Whether no call is in flight and none is waiting.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.in_flight() == 0 && self.queued() == 0
    }

    /// Waits until no permit is taken. Meant for a closed gate: an open one may fill again at once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn drained(&self) {
        loop {
            let mut returned = std::pin::pin!(self.permits.returned.notified());
            returned.as_mut().enable();
            self.permits.are_awaited.store(true, Ordering::Relaxed);
            // Pairs with the fence in `Permits::tell`: either that permit is seen to be free here, or
            // who gave it back sees that it is awaited.
            fence(Ordering::SeqCst);
            if self.in_flight() == 0 {
                return;
            }
            returned.await;
        }
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveSession {
    /// The generation whose session this is.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The server at the other end.
    #[must_use]
    pub fn peer(&self) -> &PeerInfo {
        self.session.peer()
    }

    /// The session, for calls that need no permit.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn into_parts(self) -> (Session, Permit) {
        (self.session, self.permit)
    }

    /// Makes a call; the permit is free as soon as the call has ended.
    ///
    /// As [`Session::call`], refused with [`CallError::SessionGone`] once the gate has retracted this
    /// generation.
    pub fn call<R: Request>(self, request: R, options: CallOptions) -> Call<R> {
        self.call_ref(&request, options)
    }

    /// As [`call`](Self::call), for a caller that may have to make the same call again.
    pub fn call_ref<R: Request>(self, request: &R, options: CallOptions) -> Call<R> {
        self.session.call_through(request, options, self.permit)
    }

    /// Makes a call whose parameters and result stay undecoded; see [`call`](Self::call) and
    /// [`Session::call_raw`].
    pub fn call_raw(self, method: Method, params: Payload, options: CallOptions) -> RawCall {
        self.session.start_raw(method, &params, options, Pass::Gate(self.permit))
    }

    /// Fetches all pages of a list under this one permit; see [`Session::list`]. The permit is free when the
    /// list has ended, at its deadline at the latest, also if nobody polls this future.
    ///
    /// # Errors
    ///
    /// As [`Session::list`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the page that is being fetched and frees the permit.
    pub async fn list<R: Paginated>(
        self,
        options: CallOptions,
        limits: ListLimits,
    ) -> Result<Listed<R::Item>, CallError> {
        crate::list::fetch::<R>(&self.session, Some(self.permit), options, limits).await
    }
}

/// A place in the queue of a gate; given up when dropped.
struct Place<'a>(&'a Gate);

impl<'a> Place<'a> {
    fn take(gate: &'a Gate) -> Result<Self, GateError> {
        let taken = gate.queued.fetch_add(1, Ordering::Relaxed);
        let place = Self(gate);
        if taken >= gate.queue_limit { Err(GateError::Overloaded) } else { Ok(place) }
    }
}

impl Permits {
    fn new(count: usize) -> Self {
        Self { free: Semaphore::new(count), are_awaited: AtomicBool::new(false), returned: Notify::new() }
    }

    /// Makes a permit one whose return is told.
    fn give(self: &Arc<Self>, permit: SemaphorePermit<'_>) -> Permit {
        permit.forget();
        Permit(Arc::clone(self))
    }

    /// A permit may just have come back.
    fn tell(&self) {
        fence(Ordering::SeqCst);
        if self.are_awaited.load(Ordering::Relaxed) {
            self.returned.notify_waiters();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Free before anybody is told.
        self.0.free.add_permits(1);
        self.0.tell();
    }
}

/// Who leaves the queue may have been given a permit that it never saw: the semaphore hands one to the
/// first in line, who then finds the gate closed, is too late or goes away. It is back by now, because
/// the place is taken before the wait for a permit begins, and so outlives it.
impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::Relaxed);
        self.0.permits.tell();
    }
}
