use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mcp_proto::tasks::Task;
use mcp_proto::{InputAnswers, InputRequired, Method, Payload, Request};
use mcp_transport::Outbound;
use tokio::time::Instant;

use crate::era::Reply;
use crate::error::{CallError, ProtocolFault, UnsupportedWhy};
use crate::in_flight::InFlight;
use crate::options::TaskMode;
use crate::rounds::{Gathering, Rounds};
use crate::session::{Handle, Session};
use crate::shared::Farewell;
use crate::slot::{Ended, Kept};
use crate::start::Start;
use crate::task::{FollowedTask, follow};
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
/// the task can keep. However the call ends before the task does, what is asked of handlers ends with it, and
/// the task is cancelled with `tasks/cancel`, exactly once. [`Session::start_task`](crate::Session::start_task) lets a task outlive
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
    keeper: Keeper,
    id: i64,
    method: Method,
    state: State,
}

/// What keeps the session open while the call is there.
pub(crate) enum Keeper {
    /// The call is a part of the handshake.
    Opening(Arc<Handle>),
    Session(Session),
}

impl Keeper {
    fn handle(&self) -> &Arc<Handle> {
        match self {
            Self::Opening(handle) => handle,
            Self::Session(session) => session.handle(),
        }
    }
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
    pub(crate) fn new(keeper: Keeper, id: i64, method: Method, start: Result<Start, CallError>) -> Self {
        let state = start.map_or_else(State::Refused, State::Ready);
        Self { keeper, id, method, state }
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
                    let result = ready!(task.poll(&self.keeper.handle().shared.transport, cx));
                    self.state = State::Done;
                    return Poll::Ready(result.map(|result| (result, Kept::Nothing)));
                }
                State::Refused(_) | State::Ready(_) | State::Done => return Poll::Pending,
            };
            // Its end first: what is gathered for a call that was given up is of no use.
            if let Poll::Ready(ended) = call.poll(&self.keeper.handle().shared, self.id, cx) {
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
                    self.state = State::InFlight(start.begin(&self.keeper.handle().shared, self.id)?);
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
        let reply = match (result, self.keeper.handle().shared.agreed.get()) {
            (Ok(result), Some(agreed)) => {
                agreed.reply(self.keeper.handle().shared.transport.streams(), &self.method, result)
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
        let gathering = rounds.gather(self.keeper.handle(), &self.method, required, call.origin.depth)?;
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
        let opening = rounds.open_urls(self.keeper.handle(), required, call.origin.depth)?;
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
                self.keeper.handle().shared.next_round(permit, rounds.keeps(), rounds.patience(), origin)
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
        let (Some(rounds), Some(agreed)) = (call.rounds, self.keeper.handle().shared.agreed.get()) else {
            return;
        };
        let place = match kept {
            Kept::Task(place) => place,
            // Nobody could see before now that it is one.
            other => {
                let permit = other.into_permit();
                self.keeper.handle().shared.task_place(agreed, permit, rounds.patience(), call.origin, &task)
            }
        };
        self.id = place.id;
        let session = Session::new(Arc::clone(self.keeper.handle()), Arc::clone(agreed));
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
        let shared = &self.keeper.handle().shared;
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
        let shared = &self.keeper.handle().shared;
        // Whoever takes the entry out ends the call; if somebody else has, there is nothing to do.
        let taken = shared.table().remove(self.id);
        if let Some(mut entry) = taken {
            shared.give_up(self.id, &mut entry, "the caller is gone", Farewell::Told);
        }
    }
}

impl fmt::Debug for RawCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCall").field("id", &self.id).field("method", &self.method).finish_non_exhaustive()
    }
}
