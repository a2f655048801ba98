use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use mcp_proto::{InputAnswers, Payload, Progress};
use mcp_transport::{Outbound, SendError, Sent, Transport};

use crate::error::{CallError, ProtocolFault};
use crate::gate::Permit;
use crate::next_round::NextRound;
use crate::rounds::Gathering;
use crate::task::{TaskPlace, TaskToken};

/// Where one call meets whoever ends it.
///
/// The unfinished send lives here, not in the call: whoever ends the call can take it away first,
/// so a request that was given up can never slip out afterwards, also when nobody polls the call.
/// The caller polls the send under the slot's lock, which is what makes the two exclude each other.
///
/// ```text
///   awaited ──▶ ready ──▶ begun ──▶ over    handed over, often without a wait in between
///      └──────────┴─────────┴─────▶ over    given up, or ended: a request that comes now is dropped
/// ```
///
/// While a slot is locked, the transport takes its own locks, and a provider of authorization may run: so the
/// table is never locked under a slot, and nobody may end the session from there.
pub(crate) struct Slot {
    /// Whether the transport has been given the request, and may have sent it. Changed under the lock.
    is_tried: AtomicBool,
    state: Mutex<State>,
}

struct State {
    outgoing: Outgoing,
    ended: Option<Ended>,
    /// The newest progress that the caller has not seen.
    progress: Option<Progress>,
    /// The value of the newest progress, seen or not.
    reached: Option<f64>,
    waker: Option<Waker>,
}

/// What has become of the request of a call.
enum Outgoing {
    /// It comes later, if the call is not given up before: once what it needs is gathered.
    Awaited(Option<Gathering>),
    /// The transport is at work on it.
    Begun(Sending),
    /// Nothing is sent any more.
    Over,
    /// It is handed over with the next poll.
    Ready(Outbound),
}

/// The transport at work on one request.
type Sending = Pin<Box<dyn Future<Output = Result<Sent, SendError>> + Send>>;

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<Payload, CallError>,
    pub(crate) kept: Kept,
}

/// What an answered call keeps, because it may go on.
#[derive(Debug)]
pub(crate) enum Kept {
    Nothing,
    /// A place, if something follows: a page, or a round.
    Place(NextRound),
    /// A place, if the answer is a task.
    Task(TaskPlace),
}

impl Kept {
    /// The place alone; a task is given up.
    pub(crate) fn into_place(self) -> Option<NextRound> {
        match self {
            Self::Place(place) => Some(place),
            Self::Nothing | Self::Task(_) => None,
        }
    }

    /// What has the progress of a task told, if the answer is one that makes progress; its place is given
    /// up, and so is the task, unless that was settled.
    pub(crate) fn into_token(self) -> Option<Arc<TaskToken>> {
        match self {
            Self::Task(place) => place.into_token(),
            Self::Nothing | Self::Place(_) => None,
        }
    }

    /// The permit alone, if nobody has freed it; a place is given up, and with it the task.
    pub(crate) fn into_permit(self) -> Option<Permit> {
        match self {
            Self::Place(place) => place.take_permit(),
            Self::Nothing | Self::Task(_) => None,
        }
    }
}

/// What a call finds in its slot.
#[derive(Debug)]
pub(crate) enum Found {
    Ended(Ended),
    Progress(Progress),
    Sent(Result<Sent, SendError>),
}

/// Whether the transport has seen a request at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    No,
    Yes,
}

/// Whether a caller may be shown progress right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Nothing,
    Progress,
}

impl Slot {
    /// The slot of a call that can be sent at once.
    pub(crate) fn new(request: Outbound) -> Self {
        Self::with(Outgoing::Ready(request))
    }

    /// The slot of a call that is sent later, see [`send`](Self::send).
    pub(crate) fn awaiting() -> Self {
        Self::with(Outgoing::Awaited(None))
    }

    fn with(outgoing: Outgoing) -> Self {
        let state = State { outgoing, ended: None, progress: None, reached: None, waker: None };
        Self { is_tried: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Whether the server may have seen the request, and can have answered it.
    pub(crate) fn is_tried(&self) -> bool {
        self.is_tried.load(Ordering::Acquire)
    }

    /// Takes in what is gathered for the request that is awaited, unless the call has ended. Whoever ends the
    /// call drops it, and with it the handlers that it runs, also if nobody polls the call.
    pub(crate) fn gather(&self, gathering: Gathering) {
        let mut state = self.lock();
        let late = match &mut state.outgoing {
            Outgoing::Awaited(place) => place.replace(gathering),
            Outgoing::Begun(_) | Outgoing::Over | Outgoing::Ready(_) => Some(gathering),
        };
        drop(state);
        drop(late);
    }

    /// Goes on gathering. Handlers run without the lock: they may end the very call.
    pub(crate) fn poll_gathering(&self, cx: &mut Context<'_>) -> Poll<Result<InputAnswers, CallError>> {
        let gathering = match &mut self.lock().outgoing {
            Outgoing::Awaited(place) => place.take(),
            Outgoing::Begun(_) | Outgoing::Over | Outgoing::Ready(_) => None,
        };
        let Some(mut gathering) = gathering else { return Poll::Pending };
        let answers = gathering.as_mut().poll(cx);
        if answers.is_pending() {
            self.gather(gathering);
        }
        answers
    }

    /// Hands in the request that was awaited. Too late if the call was given up or has ended: then it is
    /// dropped, and the transport never sees it.
    pub(crate) fn send(&self, request: Outbound) {
        let mut state = self.lock();
        let is_awaited = matches!(state.outgoing, Outgoing::Awaited(_));
        let late = if is_awaited {
            state.outgoing = Outgoing::Ready(request);
            None
        } else {
            Some(request)
        };
        drop(state);
        drop(late);
    }

    /// Takes the unfinished send away. From here on the request cannot be handed over any more; if it
    /// was never tried, the transport knows nothing of it and never will.
    pub(crate) fn stop_sending(&self) -> Tried {
        let mut state = self.lock();
        let outgoing = state.outgoing.take();
        let tried = if self.is_tried() { Tried::Yes } else { Tried::No };
        drop(state);
        drop(outgoing);
        tried
    }

    /// Ends the call. Only the one who took the entry out of the table may do this.
    pub(crate) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        let outgoing = state.outgoing.take();
        state.ended = Some(ended);
        let waker = state.waker.take();
        drop(state);
        drop(outgoing);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Notes progress, unless it does not grow; kept to be shown only where somebody wants to see it.
    /// The newest replaces one that was not seen yet.
    pub(crate) fn report(&self, progress: Progress, is_wanted: bool) -> bool {
        let mut state = self.lock();
        if state.reached.is_some_and(|reached| progress.progress <= reached) {
            return false;
        }
        state.reached = Some(progress.progress);
        if !is_wanted {
            return true;
        }
        let is_first_unseen = state.progress.replace(progress).is_none();
        let waker = if is_first_unseen { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// The value of the newest progress, seen or not.
    pub(crate) fn reached(&self) -> Option<f64> {
        self.lock().reached
    }

    /// The progress that waits to be seen.
    pub(crate) fn take_progress(&self) -> Option<Progress> {
        self.lock().progress.take()
    }

    /// Whether progress waits to be seen.
    pub(crate) fn has_progress(&self) -> bool {
        self.lock().progress.is_some()
    }

    /// Looks for the end of the call first, so that a call that was given up never sends.
    pub(crate) fn poll(
        &self,
        transport: &Arc<dyn Transport>,
        cx: &mut Context<'_>,
        show: Show,
    ) -> Poll<Found> {
        let mut state = self.lock();
        if show == Show::Progress
            && let Some(progress) = state.progress.take()
        {
            return Poll::Ready(Found::Progress(progress));
        }
        if let Some(ended) = state.ended.take() {
            return Poll::Ready(Found::Ended(ended));
        }
        match &state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => state.waker = Some(cx.waker().clone()),
        }
        if let Outgoing::Awaited(_) | Outgoing::Over = state.outgoing {
            return Poll::Pending;
        }
        self.is_tried.store(true, Ordering::Release);
        // Out of the slot while it is polled: a send that panics is gone, not half alive.
        let mut sending = match state.outgoing.take() {
            Outgoing::Begun(sending) => sending,
            Outgoing::Ready(request) => match transport.try_send(request) {
                Ok(Some(request)) => begin(transport, request),
                Ok(None) => return Poll::Ready(Found::Sent(Ok(Sent::Queued))),
                Err(error) => return Poll::Ready(self.on_sent(Err(error))),
            },
            Outgoing::Awaited(_) | Outgoing::Over => return Poll::Pending,
        };
        match sending.as_mut().poll(cx) {
            Poll::Ready(sent) => Poll::Ready(self.on_sent(sent)),
            Poll::Pending => {
                state.outgoing = Outgoing::Begun(sending);
                Poll::Pending
            }
        }
    }

    /// Waits for the end of a call that sends nothing more and that somebody else has ended: for moments.
    pub(crate) async fn ended(&self, transport: &Arc<dyn Transport>) -> CallError {
        poll_fn(|cx| {
            loop {
                if let Found::Ended(ended) = ready!(self.poll(transport, cx, Show::Nothing)) {
                    let error = ended.result.err();
                    return Poll::Ready(error.unwrap_or(CallError::Protocol(ProtocolFault::NoAnswer)));
                }
            }
        })
        .await
    }

    /// The transport is done with the request. If it has not taken it, that is noted before the slot is free:
    /// somebody else may end the call before its poll does.
    fn on_sent(&self, sent: Result<Sent, SendError>) -> Found {
        if let Err(SendError::Closed(_) | SendError::TooLarge { .. }) = sent {
            self.is_tried.store(false, Ordering::Release);
        }
        Found::Sent(sent)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done inside these locks, so a panic elsewhere does not matter here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the transport to work on a request that it has to wait with.
fn begin(transport: &Arc<dyn Transport>, request: Outbound) -> Sending {
    let transport = Arc::clone(transport);
    Box::pin(async move { transport.send(request).await })
}

impl Outgoing {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Over)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use bytes::Bytes;
    use mcp_proto::RequestId;
    use mcp_transport::{Abandoned, CloseReason, CloseReport, Closed, Dispatch, Ending, Full, Streams};
    use tokio::time::Instant;

    use super::*;

    /// What a transport does with the one request that it is given.
    #[derive(Debug, Clone, Copy)]
    enum Does {
        Panic,
        Queue,
        QueueAtOnce,
        Refuse,
        RefuseAtOnce,
        Wait,
    }

    #[async_trait]
    impl Transport for Does {
        fn streams(&self) -> Streams {
            Streams::Shared
        }

        async fn send(&self, _: Outbound) -> Result<Sent, SendError> {
            match self {
                Self::Queue | Self::QueueAtOnce => Ok(Sent::Queued),
                Self::Refuse | Self::RefuseAtOnce => Err(closed()),
                Self::Wait => std::future::pending().await,
                Self::Panic => panic!("the transport has seen the request"),
            }
        }

        fn try_send(&self, request: Outbound) -> Result<Option<Outbound>, SendError> {
            match self {
                Self::QueueAtOnce => Ok(None),
                Self::RefuseAtOnce => Err(closed()),
                _ => Ok(Some(request)),
            }
        }

        fn post(&self, _: Outbound) -> Result<(), Full> {
            Err(Full)
        }

        fn abandon(&self, _: &RequestId, _: Option<Outbound>) -> Abandoned {
            Abandoned { dispatch: Dispatch::NotSent, is_told: false }
        }

        async fn close(&self, _: Instant) -> CloseReport {
            CloseReport::new(Ending::Abandoned, None, Duration::ZERO)
        }
    }

    fn closed() -> SendError {
        SendError::Closed(Closed::new(CloseReason::EndOfStream, ""))
    }

    fn request() -> Outbound {
        Outbound::request(1.into(), Bytes::from_static(b"{}"))
    }

    fn poll(slot: &Slot, transport: Does) -> Poll<Found> {
        let transport: Arc<dyn Transport> = Arc::new(transport);
        slot.poll(&transport, &mut Context::from_waker(Waker::noop()), Show::Progress)
    }

    fn ended() -> Ended {
        Ended { result: Err(CallError::Overloaded), kept: Kept::Nothing }
    }

    #[test]
    fn a_send_that_was_never_polled_is_known_to_be_untried() {
        let slot = Slot::new(request());
        assert_eq!(slot.stop_sending(), Tried::No);
        let slot = Slot::new(request());
        assert!(poll(&slot, Does::Wait).is_pending());
        assert_eq!(slot.stop_sending(), Tried::Yes);
        for does in [Does::Queue, Does::QueueAtOnce] {
            let slot = Slot::new(request());
            assert!(matches!(poll(&slot, does), Poll::Ready(Found::Sent(Ok(Sent::Queued)))));
            assert!(poll(&slot, Does::Panic).is_pending(), "it is sent once");
            assert_eq!(slot.stop_sending(), Tried::Yes);
        }
    }

    /// The slot is unlocked before the call is ended for it: somebody else may be faster.
    #[test]
    fn a_send_that_was_refused_is_known_not_to_have_left() {
        for does in [Does::Refuse, Does::RefuseAtOnce] {
            let slot = Slot::new(request());
            assert!(matches!(poll(&slot, does), Poll::Ready(Found::Sent(Err(SendError::Closed(_))))));
            assert_eq!(slot.stop_sending(), Tried::No);
        }
    }

    #[test]
    fn a_call_that_has_ended_does_not_try_its_send() {
        let slot = Slot::new(request());
        slot.end(ended());
        assert!(matches!(poll(&slot, Does::Panic), Poll::Ready(Found::Ended(_))));
        assert!(poll(&slot, Does::Panic).is_pending(), "it ends once");
        assert_eq!(slot.stop_sending(), Tried::No);
    }

    #[test]
    fn a_send_that_was_awaited_is_dropped_if_the_call_was_given_up_before_it_came() {
        let given_up: [fn(&Slot); 3] = [
            |slot| assert_eq!(slot.stop_sending(), Tried::No),
            |slot| slot.end(ended()),
            |slot| {
                assert_eq!(slot.stop_sending(), Tried::No);
                slot.end(ended());
            },
        ];
        for give_up in given_up {
            let slot = Slot::awaiting();
            assert!(poll(&slot, Does::Panic).is_pending(), "nothing to send yet");
            give_up(&slot);
            slot.send(request());
            let _ = poll(&slot, Does::Panic);
            assert_eq!(slot.stop_sending(), Tried::No, "the transport has not seen it");
        }
        let slot = Slot::awaiting();
        slot.send(request());
        assert!(matches!(poll(&slot, Does::Queue), Poll::Ready(Found::Sent(Ok(Sent::Queued)))));
    }

    #[test]
    fn a_send_that_panics_is_gone_and_the_slot_still_works() {
        let slot = Slot::new(request());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&slot, Does::Panic)));
        assert!(caught.is_err());
        slot.end(ended());
        assert!(matches!(poll(&slot, Does::Panic), Poll::Ready(Found::Ended(_))));
    }
}
