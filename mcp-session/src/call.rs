use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::tasks::Task;
use mcp_proto::{InputAnswers, InputRequired, Method, Payload, Request, RequestId};
use mcp_transport::{
    CloseReason, Closed, Dispatch, Inbound, MirroredHeader, Outbound, Rejection, SendError, Sent, Transport,
};
use tokio::time::Instant;

use crate::era::Reply;
use crate::error::{CallError, ProtocolFault, UnsupportedWhy};
use crate::gate::Permit;
use crate::next_round::NextRound;
use crate::options::TaskMode;
use crate::pending::{Door, Patience, Refused};
use crate::progress::ProgressLane;
use crate::rounds::{Gathering, Rounds};
use crate::session::{Handle, Session};
use crate::shared::{Entry, Farewell, Keeps, Origin, Role, Shared};
use crate::slot::{Ended, Found, Kept, Show, Slot};
use crate::subscription::SubscriptionLane;
use crate::task::{FollowEnd, Following, TaskPlace, follow};
use crate::urls::UrlsRequired;

/// A call in progress: a future of its result.
///
/// Nothing is sent before the first poll. From then on the call ends at its deadline even if nobody
/// polls it. Once it has ended, its permit and its place in the session are free *before* the result
/// can be seen here.
///
/// # Rounds
///
/// A modern server may answer `tools/call`, `prompts/get` and `resources/read` with a wish for input.
/// What it asks for is then asked of the [`ClientHandler`](crate::ClientHandler) of the session, inside
/// the polls of this future, and the request is sent again under a new id, with the answers and the
/// state that the server gave; [`SessionOptions::max_rounds`](crate::SessionOptions::max_rounds) times
/// at most. The permit is kept meanwhile. The time-out of the call rests while input is gathered, and
/// each round has the whole of it; the deadline goes on and ends the call in any case. Where a person is
/// asked, give a deadline that a person can keep.
///
/// A server of 2025-11-25 may refuse a request until a person has opened URLs. Where the handler opens them,
/// it is asked in the same way, and the request repeated once: when the server tells that it is done, or
/// with half the time of the call left. Otherwise the call ends with
/// [`CallError::UrlsRequired`].
///
/// # Tasks
///
/// Where both sides have declared the extension tasks
/// ([`SessionOptions::with_tasks`](crate::SessionOptions::with_tasks)), a modern server may answer
/// `tools/call` with a task. It is then asked about inside the polls of this future, as often as it wishes
/// (every 100 ms at most and every 60 s at least, every second if it says nothing; earlier once it tells of
/// a change), given what it asks for, and its result becomes that of the call. The permit is kept
/// meanwhile. The time-out of the call holds for each question, its deadline for the whole: give one that
/// the task can keep. However the call ends before the task does, the task is cancelled with
/// `tasks/cancel`, exactly once. [`Session::start_task`](crate::Session::start_task) lets a task outlive
/// its call.
///
/// # Cancel safety
///
/// Dropping it is cancelling it: place and permit are free at once, and if the request may have
/// left, the server is told exactly once in the way of the era and transport
/// (`notifications/cancelled` on stdio). A late answer is dropped. Calling again sends a new request.
#[must_use = "a call does nothing unless it is awaited"]
pub struct Call<R> {
    raw: RawCall,
    result: PhantomData<fn() -> R>,
}

/// A call in progress whose result stays undecoded; otherwise the same as [`Call`].
#[must_use = "a call does nothing unless it is awaited"]
pub struct RawCall {
    handle: Arc<Handle>,
    id: i64,
    method: Method,
    state: State,
}

/// ```text
///   Refused ────────────────▶ Done    refused before anything could be sent
///   Ready ────▶ InFlight ───▶ Done
///                ▲    │
///   input given  │    ▼  input required
///               Gathering ──▶ Done    input refused, or ended as in any round
///   InFlight ──▶ Task ──────▶ Done    the answer is a task, which is followed to its end
/// ```
enum State {
    Refused(CallError),
    Ready(Start),
    InFlight(InFlight),
    /// As in flight, with nothing to send before the input is there.
    Gathering(InFlight),
    /// The server has answered with a task.
    Task(Box<FollowedTask>),
    Done,
}

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

/// A call whose entry is in the table, or was until somebody ended it.
pub(crate) struct InFlight {
    slot: Arc<Slot>,
    progress: Option<ProgressLane>,
    rounds: Option<Box<Rounds>>,
    origin: Origin,
    /// Whose entry it is, in a later round.
    _place: Option<NextRound>,
}

/// A task in the place of an answer.
struct FollowedTask {
    place: TaskPlace,
    following: Following,
}

impl<R: Request> Call<R> {
    pub(crate) fn new(raw: RawCall) -> Self {
        Self { raw, result: PhantomData }
    }

    /// The id of its request.
    pub(crate) fn id(&self) -> i64 {
        self.raw.id()
    }
}

impl<R: Request> Future for Call<R> {
    type Output = Result<R::Result, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.raw).poll(cx))?;
        let decoded = result.decode();
        Poll::Ready(decoded.map_err(|error| CallError::Protocol(ProtocolFault::Result(error))))
    }
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&self.raw).finish()
    }
}

impl RawCall {
    pub(crate) fn new(handle: Arc<Handle>, id: i64, method: Method, start: Result<Start, CallError>) -> Self {
        let state = start.map_or_else(State::Refused, State::Ready);
        Self { handle, id, method, state }
    }

    /// The id of its request, at present.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Polls for the final result; with it comes what the call keeps, where something may follow.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Payload, Kept), CallError>> {
        self.begin()?;
        loop {
            let (call, is_gathering) = match &mut self.state {
                State::InFlight(call) => (call, false),
                State::Gathering(call) => (call, true),
                State::Task(task) => {
                    let result = ready!(task.poll(&self.handle.shared.transport, cx));
                    self.state = State::Done;
                    return Poll::Ready(result.map(|result| (result, Kept::Nothing)));
                }
                State::Refused(_) | State::Ready(_) | State::Done => return Poll::Pending,
            };
            // Its end first: what is gathered for a call that was given up is of no use.
            if let Poll::Ready(ended) = call.poll(&self.handle.shared, self.id, cx) {
                match self.on_ended(ended) {
                    Some(result) => return Poll::Ready(result),
                    None => continue,
                }
            }
            if !is_gathering {
                return Poll::Pending;
            }
            let answers = ready!(call.slot.poll_gathering(cx));
            if let Err(error) = answers.and_then(|answers| self.send_again(&answers)) {
                return Poll::Ready(Err(self.give_in(error)));
            }
        }
    }

    /// Takes the call in, with the first poll.
    fn begin(&mut self) -> Result<(), CallError> {
        if let State::Ready(_) | State::Refused(_) = self.state {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Ready(start) => {
                    self.state = State::InFlight(start.begin(&self.handle.shared, self.id)?);
                }
                State::Refused(error) => return Err(error),
                running => self.state = running,
            }
        }
        Ok(())
    }

    /// What the end of a request means for the call; `None` if a further round has begun.
    fn on_ended(&mut self, ended: Ended) -> Option<Result<(Payload, Kept), CallError>> {
        let (State::InFlight(call) | State::Gathering(call)) =
            std::mem::replace(&mut self.state, State::Done)
        else {
            return None;
        };
        let Ended { result, kept } = ended;
        let reply = match (result, self.handle.shared.agreed.get()) {
            (Ok(result), Some(agreed)) => {
                agreed.reply(self.handle.shared.transport.streams(), &self.method, result)
            }
            (Ok(result), None) => Ok(Reply::Complete(result)),
            (Err(error), Some(agreed)) => Err(agreed.read_error(error)),
            (Err(error), None) => Err(error),
        };
        let is_taken = call.rounds.as_ref().is_some_and(|rounds| rounds.tasks() == TaskMode::ByHand);
        let end = match reply {
            Ok(Reply::Complete(result) | Reply::Task(result, _)) if is_taken => Ok((result, kept)),
            Ok(Reply::Complete(result)) => Ok((result, kept)),
            Ok(Reply::Task(_, task)) => {
                self.follow(call, *task, kept);
                return None;
            }
            Ok(Reply::InputRequired(required)) => match self.begin_round(call, *required, kept) {
                Ok(()) => return None,
                Err(error) => Err(error),
            },
            Err(CallError::UrlsRequired(required)) => match self.begin_opening(call, required, kept) {
                Ok(()) => return None,
                Err(error) => Err(error),
            },
            Err(error) => Err(explained(call.rounds.as_deref(), error)),
        };
        Some(end)
    }

    /// Goes over to the next round, for which the server wants input.
    fn begin_round(
        &mut self,
        mut call: InFlight,
        required: InputRequired,
        kept: Kept,
    ) -> Result<(), CallError> {
        let why = UnsupportedWhy::InputRequired;
        let rounds = call.rounds.take();
        let mut rounds = rounds.ok_or_else(|| CallError::Unsupported { method: self.method.clone(), why })?;
        let gathering = rounds.gather(&self.handle, &self.method, required, call.origin.depth)?;
        self.go_over(call, rounds, gathering, kept);
        Ok(())
    }

    /// Goes over to the repeat of a request that was refused until a person has opened URLs.
    fn begin_opening(
        &mut self,
        mut call: InFlight,
        required: Box<UrlsRequired>,
        kept: Kept,
    ) -> Result<(), CallError> {
        let Some(mut rounds) = call.rounds.take() else { return Err(CallError::UrlsRequired(required)) };
        let opening = rounds.open_urls(&self.handle, required, call.origin.depth)?;
        self.go_over(call, rounds, opening, kept);
        Ok(())
    }

    /// Goes over to the place of the next round, before anything is asked.
    fn go_over(&mut self, call: InFlight, rounds: Box<Rounds>, gathering: Gathering, kept: Kept) {
        let InFlight { progress, origin, .. } = call;
        let place = match kept {
            Kept::Place(place) => place,
            // Nobody could see before now that it asks for input.
            other => {
                let permit = other.into_permit();
                self.handle.shared.next_round(permit, rounds.keeps(), rounds.patience(), origin)
            }
        };
        self.id = place.id;
        let slot = Arc::clone(&place.slot);
        slot.gather(gathering);
        let call = InFlight { slot, progress, rounds: Some(rounds), origin, _place: Some(place) };
        self.state = State::Gathering(call);
    }

    /// Goes over to the place of a task, and follows it from there.
    fn follow(&mut self, call: InFlight, task: Task, kept: Kept) {
        let (Some(rounds), Some(agreed)) = (call.rounds, self.handle.shared.agreed.get()) else { return };
        let place = match kept {
            Kept::Task(place) => place,
            // Nobody could see before now that it is one.
            other => {
                let permit = other.into_permit();
                self.handle.shared.task_place(agreed, permit, rounds.patience(), call.origin, &task)
            }
        };
        self.id = place.id;
        let session = Session::new(Arc::clone(&self.handle), Arc::clone(agreed));
        // Those of the extension make no progress.
        let token = None;
        let following =
            Box::pin(follow(session, task, token, rounds.patience(), rounds.mode(), call.origin.depth));
        self.state = State::Task(Box::new(FollowedTask { place, following }));
    }

    /// Sends the request once more, with what the server has asked for.
    fn send_again(&mut self, answers: &InputAnswers) -> Result<(), CallError> {
        let State::Gathering(InFlight { slot, rounds: Some(rounds), .. }) = &self.state else {
            return Ok(());
        };
        let shared = &self.handle.shared;
        let mut request = Outbound::request(self.id.into(), rounds.write(&self.method, self.id, answers)?);
        if let Some(agreed) = shared.agreed.get() {
            let streams = shared.transport.streams();
            request.mirrored = agreed.mirrored_again(streams, &self.method, &request.frame)?;
        }
        slot.send(request);
        let timer = shared.table().resume(self.id, Instant::now());
        shared.wake_driver(timer);
        if let State::Gathering(call) = std::mem::replace(&mut self.state, State::Done) {
            self.state = State::InFlight(call);
        }
        Ok(())
    }

    /// Ends the call between two rounds: the server waits for nothing, so there is nothing to cancel.
    fn give_in(&mut self, error: CallError) -> CallError {
        // With its place. Somebody else may have ended it a moment before; it ends once, here.
        match std::mem::replace(&mut self.state, State::Done) {
            State::Gathering(call) => explained(call.rounds.as_deref(), error),
            _ => error,
        }
    }
}

/// What an error says of a call, after what has happened to it before.
fn explained(rounds: Option<&Rounds>, error: CallError) -> CallError {
    match rounds {
        Some(rounds) => rounds.explain(error),
        None => error,
    }
}

impl Future for RawCall {
    type Output = Result<Payload, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx).map_ok(|(result, _)| result)
    }
}

impl Drop for RawCall {
    fn drop(&mut self) {
        if !matches!(self.state, State::InFlight(_) | State::Gathering(_)) {
            return;
        }
        // Whoever takes the entry out ends the call; if somebody else has, there is nothing to do.
        let taken = self.handle.shared.table().remove(self.id);
        if let Some(mut entry) = taken {
            self.handle.shared.give_up(self.id, &mut entry, "the caller is gone", Farewell::Told);
        }
    }
}

impl fmt::Debug for RawCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCall").field("id", &self.id).field("method", &self.method).finish_non_exhaustive()
    }
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

impl FollowedTask {
    fn poll(
        &mut self,
        transport: &Arc<dyn Transport>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Payload, CallError>> {
        // Its end first: what is learned for a call that was given up is of no use.
        if let Poll::Ready(Found::Ended(ended)) = self.place.slot.poll(transport, cx, Show::Nothing) {
            // Nothing was sent that an answer could belong to.
            let error = ended.result.err().unwrap_or(CallError::Protocol(ProtocolFault::NoAnswer));
            return Poll::Ready(Err(error.of_later_round()));
        }
        let result = match ready!(self.following.as_mut().poll(cx)) {
            // Somebody has ended the call a moment before, and tells so in a moment.
            FollowEnd::Over(_) if !self.place.settle() => {
                self.following = Box::pin(std::future::pending());
                return Poll::Pending;
            }
            FollowEnd::Over(result) => result,
            FollowEnd::GivenUp(error) => {
                self.place.give_up();
                Err(error)
            }
        };
        Poll::Ready(result.map_err(CallError::of_later_round))
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

impl InFlight {
    pub(crate) fn poll(&mut self, shared: &Shared, id: i64, cx: &mut Context<'_>) -> Poll<Ended> {
        loop {
            let show = self.progress.as_ref().map_or(Show::Nothing, ProgressLane::show);
            match (self.slot.poll(&shared.transport, cx, show), &mut self.progress) {
                (Poll::Ready(Found::Ended(ended)), lane) => {
                    // What came before the end is shown before it, however soon after the one before.
                    if let Some(lane) = lane
                        && let Some(progress) = self.slot.take_progress()
                    {
                        lane.deliver(progress);
                    }
                    return Poll::Ready(ended);
                }
                (Poll::Ready(Found::Sent(sent)), _) => on_sent(sent, shared, id),
                (Poll::Ready(Found::Progress(progress)), Some(lane)) => lane.deliver(progress),
                (Poll::Ready(Found::Progress(_)), None) => {}
                // Asked after the slot has our waker: progress that comes later will wake us.
                (Poll::Pending, Some(lane)) if self.slot.has_progress() => ready!(lane.poll_rest(cx)),
                (Poll::Pending, _) => return Poll::Pending,
            }
        }
    }
}

/// Takes note of what the transport did with the request.
fn on_sent(sent: Result<Sent, SendError>, shared: &Shared, id: i64) {
    let error = match sent {
        Ok(Sent::Answered(frame)) => {
            shared.route(Inbound::Message { frame, stream: Some(id.into()) });
            // Still there if the frame was not the answer; none can come any more.
            CallError::Protocol(ProtocolFault::NoAnswer)
        }
        Ok(Sent::Failed(why)) => why.into(),
        Ok(Sent::Rejected(rejection)) => return on_rejected(rejection, shared, id),
        Ok(_) => return,
        Err(SendError::Refused(closed)) => CallError::SessionGone { dispatch: Dispatch::Refused, closed },
        Err(SendError::Closed(closed)) => CallError::SessionGone { dispatch: Dispatch::NotSent, closed },
        Err(SendError::TooLarge { limit }) => CallError::FrameTooLarge { limit, dispatch: Dispatch::NotSent },
        Err(other) => {
            let closed = Closed::new(CloseReason::Broken(other.to_string()), "");
            CallError::SessionGone { dispatch: Dispatch::NotSent, closed }
        }
    };
    let taken = shared.table().remove(id);
    if let Some(entry) = taken {
        shared.answer(entry, Err(error));
    }
}

/// The server refused the request with an HTTP status. A JSON-RPC error says more, but what a probe
/// means depends on the status, so the handshake gets both.
fn on_rejected(mut rejection: Box<Rejection>, shared: &Shared, id: i64) {
    let taken = shared.table().remove(id);
    let Some(entry) = taken else { return };
    shared.redact_rejection(&mut rejection);
    let is_refusal = asks_for_time(rejection.status) || rejection.wants_authorization();
    let is_answer = shared.agreed.get().is_some() && !is_refusal;
    let error = match rejection.error.take_if(|_| is_answer) {
        Some(error) => CallError::Peer(error),
        None => CallError::Http(rejection),
    };
    shared.answer(entry, Err(error));
}

/// Whether a status says that the server, or what stands before it, cannot serve anything right now: it
/// counts more than what a JSON-RPC error says, and only the headers tell how long to wait. A 500 is not
/// among them: with a JSON-RPC error, this one request failed, as it would have on a pipe.
fn asks_for_time(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}
