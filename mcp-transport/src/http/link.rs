use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{HeaderMap, HeaderValue};
use mcp_proto::RequestId;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::authorizer::AuthProvider;
use super::backend::{DispatchMark, HttpBody, HttpPool};
use super::endpoint::Endpoint;
use super::error::HttpError;
use super::exchange::{PROTOCOL_VERSION, SESSION_ID};
use super::limits::HttpLimits;
use crate::clock::WallClock;
use crate::error::{CloseReason, CloseReport, Closed, Full, SendError};
use crate::profile::HttpProfile;
use crate::transport::Outbound;

/// What the two halves of one connection have in common. Its lock is held for moments only.
pub(super) struct Link {
    pub(super) pool: Arc<dyn HttpPool>,
    pub(super) endpoint: Endpoint,
    pub(super) limits: HttpLimits,
    /// Headers that every request carries from the beginning.
    base: HeaderMap,
    pub(super) clock: Arc<dyn WallClock>,
    /// Authorizes every request, if that is needed.
    pub(super) auth: Option<Arc<dyn AuthProvider>>,
    /// Messages without a waiter that are queued or on their way.
    pub(super) posts: watch::Sender<usize>,
    pub(super) report: watch::Sender<Option<CloseReport>>,
    /// Whether the server has answered the request for its own stream.
    listening: watch::Sender<bool>,
    /// Holds the one task that closes.
    pub(super) jobs: TaskTracker,
    driver: AtomicWaker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: Option<Closed>,
    /// When this side began to close.
    closing: Option<Instant>,
    profile: Option<HttpProfile>,
    session: Option<HeaderValue>,
    /// Headers that every request carries now: also those that say what was agreed on.
    headers: HeaderMap,
    lanes: HashMap<RequestId, Arc<Lane>>,
    /// For the receiving half: streams that have begun.
    streams: Vec<NewStream>,
    /// Messages that nobody waits for and that have not begun to leave.
    posts: VecDeque<Outbound>,
    /// Those among them that the server must not miss; they leave first.
    cancels: VecDeque<Outbound>,
    is_listening: bool,
}

/// A stream that the receiving half is to read.
#[derive(Debug)]
pub(super) enum NewStream {
    /// The answer to a request; its body is in the lane.
    Answer(RequestId, Arc<Lane>),
    /// The stream on which a legacy server speaks unasked; still to be opened.
    Listening,
}

/// One request and the stream it is answered on.
///
/// The body lies here, not with its reader, so that whoever gives the request up ends the stream then
/// and there, even if nobody polls.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) mark: DispatchMark,
    state: Mutex<LaneState>,
    reader: AtomicWaker,
}

#[derive(Debug, Default)]
struct LaneState {
    body: Option<Box<dyn HttpBody>>,
    is_over: bool,
}

/// What a look into a lane has found.
pub(super) enum Found {
    Chunk(Bytes),
    /// The body has come to its proper end.
    End,
    Failed(HttpError),
    /// The request was given up.
    Over,
}

/// What the receiving half has to do.
pub(super) struct Work {
    pub(super) streams: Vec<NewStream>,
    pub(super) posts: Vec<Outbound>,
    pub(super) closed: Option<Closed>,
}

impl Link {
    pub(super) fn new(
        pool: Arc<dyn HttpPool>,
        endpoint: Endpoint,
        headers: HeaderMap,
        limits: HttpLimits,
        clock: Arc<dyn WallClock>,
        auth: Option<Arc<dyn AuthProvider>>,
    ) -> Self {
        Self {
            pool,
            endpoint,
            limits,
            base: headers.clone(),
            clock,
            auth,
            posts: watch::Sender::new(0),
            report: watch::Sender::new(None),
            listening: watch::Sender::new(false),
            jobs: TaskTracker::new(),
            driver: AtomicWaker::new(),
            state: Mutex::new(State { headers, ..State::default() }),
        }
    }

    /// Makes a lane for a request, unless the connection has ended.
    pub(super) fn admit(&self, id: &RequestId) -> Result<Arc<Lane>, SendError> {
        let mut state = self.state();
        if let Some(closed) = &state.closed {
            return Err(SendError::Closed(closed.clone()));
        }
        let lane = Arc::new(Lane::default());
        state.lanes.insert(id.clone(), Arc::clone(&lane));
        Ok(lane)
    }

    pub(super) fn check_open(&self) -> Result<(), SendError> {
        self.closed().map_or(Ok(()), |closed| Err(SendError::Closed(closed)))
    }

    pub(super) fn closed(&self) -> Option<Closed> {
        self.state().closed.clone()
    }

    /// Forgets a request that has been answered, or has come to its end without an answer.
    pub(super) fn forget(&self, id: &RequestId) -> Option<Arc<Lane>> {
        self.state().lanes.remove(id)
    }

    /// Gives the answer of a request to the receiving half. `false`: the connection has ended.
    pub(super) fn hand_over(&self, id: RequestId, lane: Arc<Lane>, body: Box<dyn HttpBody>) -> bool {
        let mut state = self.state();
        if state.closed.is_some() {
            return false;
        }
        lane.put(body);
        state.streams.push(NewStream::Answer(id, lane));
        drop(state);
        self.driver.wake();
        true
    }

    /// Has the receiving half open the server's own stream, if the agreed version has one and it was not
    /// asked for yet, and waits for the server's answer to that, at most `listen_limit`.
    ///
    /// Whatever is asked next comes after it, so that no change is missed in between.
    pub(super) async fn listen(&self) {
        if self.wants_to_listen() {
            self.driver.wake();
            let mut listening = self.listening.subscribe();
            // Late or not: the stream is heard once it is open.
            let _ = timeout(self.limits.listen_limit, listening.wait_for(|is_answered| *is_answered)).await;
        }
    }

    /// Notes that the server has answered the request for its own stream, or that none will come.
    pub(super) fn end_listen(&self) {
        self.listening.send_replace(true);
    }

    fn wants_to_listen(&self) -> bool {
        let mut state = self.state();
        let has_one = state.profile.is_some_and(HttpProfile::has_sessions);
        if !has_one || state.closed.is_some() || std::mem::replace(&mut state.is_listening, true) {
            return false;
        }
        state.streams.push(NewStream::Listening);
        true
    }

    /// Queues a message that nobody waits for.
    pub(super) fn post(&self, message: Outbound) -> Result<(), Full> {
        self.queue(message, |state| &mut state.posts, self.limits.queued_posts)
    }

    /// Queues a message that the server must not miss, or ends the connection.
    pub(super) fn insist(&self, message: Outbound) -> Result<(), Full> {
        let queued = self.queue(message, |state| &mut state.cancels, self.limits.queued_cancels);
        queued.inspect_err(|_| {
            self.shut(CloseReason::Stuck);
        })
    }

    fn queue(
        &self,
        message: Outbound,
        queue: impl FnOnce(&mut State) -> &mut VecDeque<Outbound>,
        limit: usize,
    ) -> Result<(), Full> {
        let mut state = self.state();
        if state.closed.is_some() {
            return Err(Full);
        }
        let queue = queue(&mut state);
        if queue.len() >= limit {
            return Err(Full);
        }
        queue.push_back(message);
        drop(state);
        self.posts.send_modify(|posts| *posts += 1);
        self.driver.wake();
        Ok(())
    }

    /// Takes up to `room` messages out of the queues, cancels first; [`PostGuard`] goes with each.
    pub(super) fn take_posts(&self, room: usize) -> Vec<Outbound> {
        let mut state = self.state();
        let State { posts, cancels, .. } = &mut *state;
        let next = || cancels.pop_front().or_else(|| posts.pop_front());
        std::iter::from_fn(next).take(room).collect()
    }

    pub(super) fn take_work(&self, room: usize, cx: &Context<'_>) -> Work {
        self.driver.register(cx.waker());
        let posts = self.take_posts(room);
        let mut state = self.state();
        Work { streams: std::mem::take(&mut state.streams), posts, closed: state.closed.clone() }
    }

    pub(super) fn profile(&self) -> Option<HttpProfile> {
        self.state().profile
    }

    pub(super) fn set_profile(&self, profile: HttpProfile) {
        let mut state = self.state();
        let agreed = *state.profile.get_or_insert(profile);
        if !profile.has_sessions() {
            state.session = None;
        }
        state.write_headers(&self.base);
        drop(state);
        if let Some(auth) = &self.auth {
            auth.agreed(agreed.version());
        }
    }

    /// Headers that every request carries now.
    pub(super) fn headers(&self) -> HeaderMap {
        self.state().headers.clone()
    }

    pub(super) fn has_session(&self) -> bool {
        self.state().session.is_some()
    }

    pub(super) fn set_session(&self, id: HeaderValue) {
        let mut state = self.state();
        state.session = Some(id);
        state.write_headers(&self.base);
    }

    /// The server no longer knows the session: nothing can be sent any more.
    pub(super) fn expire_session(&self) -> Closed {
        let mut state = self.state();
        state.session = None;
        state.write_headers(&self.base);
        drop(state);
        self.shut(CloseReason::SessionExpired)
    }

    /// Ends the connection for `reason`, unless it has ended before; answers how it has.
    pub(super) fn shut(&self, reason: CloseReason) -> Closed {
        let mut state = self.state();
        let closed = state.closed.get_or_insert_with(|| Closed::new(reason, "")).clone();
        drop(state);
        self.driver.wake();
        closed
    }

    /// Ends every stream.
    pub(super) fn end_lanes(&self) {
        let (lanes, streams) = {
            let mut state = self.state();
            (std::mem::take(&mut state.lanes), std::mem::take(&mut state.streams))
        };
        lanes.into_values().for_each(|lane| lane.end());
        drop(streams);
    }

    /// Notes that this side closes; answers since when, and whether this caller is the first.
    pub(super) fn begin_close(&self) -> (Instant, bool) {
        let now = Instant::now();
        let mut state = self.state();
        let is_first = state.closing.is_none();
        (*state.closing.get_or_insert(now), is_first)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done inside this lock, so a panic elsewhere does not matter here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes what the handshake has brought, or what is over of it, in the headers of all that follows.
    fn write_headers(&mut self, base: &HeaderMap) {
        let mut headers = base.clone();
        if let Some(profile) = self.profile.filter(|profile| profile.names_version()) {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(profile.version().as_str()));
        }
        if let Some(id) = &self.session {
            headers.insert(SESSION_ID, id.clone());
        }
        self.headers = headers;
    }
}

impl Lane {
    /// Puts the body of an answer in; it is dropped at once if the request was given up.
    pub(super) fn put(&self, body: Box<dyn HttpBody>) {
        let mut state = self.state();
        if !state.is_over {
            state.body = Some(body);
        }
    }

    /// Ends the stream and wakes its reader.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        let body = state.body.take();
        drop(state);
        drop(body);
        self.reader.wake();
    }

    pub(super) fn poll_chunk(&self, cx: &mut Context<'_>) -> Poll<Found> {
        self.reader.register(cx.waker());
        let mut state = self.state();
        if state.is_over {
            return Poll::Ready(Found::Over);
        }
        let Some(body) = &mut state.body else { return Poll::Ready(Found::End) };
        match std::task::ready!(body.poll_chunk(cx)) {
            Some(Ok(chunk)) => Poll::Ready(Found::Chunk(chunk)),
            Some(Err(error)) => {
                state.body = None;
                Poll::Ready(Found::Failed(error))
            }
            None => {
                state.body = None;
                Poll::Ready(Found::End)
            }
        }
    }

    /// Whether the request was given up; the reader is woken when it is.
    pub(super) fn is_over(&self, cx: &Context<'_>) -> bool {
        self.reader.register(cx.waker());
        self.state().is_over
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one message without a waiter as done when it is dropped, however that came.
#[derive(Debug)]
pub(super) struct PostGuard<'a>(pub(super) &'a Link);

impl Drop for PostGuard<'_> {
    fn drop(&mut self) {
        self.0.posts.send_modify(|posts| *posts = posts.saturating_sub(1));
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Link")
            .field("endpoint", &self.endpoint)
            .field("profile", &state.profile)
            .field("closed", &state.closed)
            .field("lanes", &state.lanes.len())
            .finish_non_exhaustive()
    }
}
