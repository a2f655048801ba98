use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_proto::{Payload, Progress};
use mcp_transport::{SendError, Sent};

use crate::error::CallError;
use crate::gate::Permit;

/// The transport at work on one request.
pub(crate) type Sending = Pin<Box<dyn Future<Output = Result<Sent, SendError>> + Send>>;

/// Where one call meets whoever ends it.
///
/// The unfinished send lives here, not in the call: whoever ends the call can take it away first,
/// so a request that was given up can never slip out afterwards, also when nobody polls the call.
/// The caller polls the send under the slot's lock, which is what makes the two exclude each other.
///
/// No other lock is taken while a slot is locked.
#[derive(Default)]
pub(crate) struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    sending: Option<Sending>,
    /// Whether the transport has been given the request to look at.
    is_tried: bool,
    ended: Option<Ended>,
    /// The newest progress that the caller has not seen.
    progress: Option<Progress>,
    /// The value of the newest progress, seen or not.
    reached: Option<f64>,
    waker: Option<Waker>,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<Payload, CallError>,
    /// The permit of an answered call whose caller wants to go on with it (the next page of a list).
    pub(crate) permit: Option<Permit>,
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
    pub(crate) fn new(sending: Sending) -> Self {
        Self(Mutex::new(State { sending: Some(sending), ..State::default() }))
    }

    /// Hands the send over of a slot that had none yet; a call that has ended will not look at it.
    pub(crate) fn send(&self, sending: Sending) {
        self.lock().sending = Some(sending);
    }

    /// Takes the unfinished send away. From here on the request cannot be handed over any more; if it
    /// was never tried, the transport knows nothing of it.
    pub(crate) fn stop_sending(&self) -> Tried {
        let mut state = self.lock();
        let sending = state.sending.take();
        let tried = if state.is_tried { Tried::Yes } else { Tried::No };
        drop(state);
        drop(sending);
        tried
    }

    /// Ends the call. Only the one who took the entry out of the table may do this.
    pub(crate) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        state.sending = None;
        state.ended = Some(ended);
        let waker = state.waker.take();
        drop(state);
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

    /// Whether progress waits to be seen.
    pub(crate) fn has_progress(&self) -> bool {
        self.lock().progress.is_some()
    }

    /// Looks for the end of the call first, so that a call that was given up never sends.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, show: Show) -> Poll<Found> {
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
        // Out of the slot while it is polled: a send that panics is gone, not half alive.
        if let Some(mut sending) = state.sending.take() {
            state.is_tried = true;
            match sending.as_mut().poll(cx) {
                Poll::Ready(sent) => return Poll::Ready(Found::Sent(sent)),
                Poll::Pending => state.sending = Some(sending),
            }
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done inside these locks, so a panic elsewhere does not matter here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> Slot {
        Slot::new(Box::pin(std::future::pending()))
    }

    fn poll(slot: &Slot) -> Poll<Found> {
        slot.poll(&mut Context::from_waker(Waker::noop()), Show::Progress)
    }

    fn ended() -> Ended {
        Ended { result: Err(CallError::Overloaded), permit: None }
    }

    #[test]
    fn a_send_that_was_never_polled_is_known_to_be_untried() {
        let slot = pending();
        assert_eq!(slot.stop_sending(), Tried::No);
        let slot = pending();
        assert!(poll(&slot).is_pending());
        assert_eq!(slot.stop_sending(), Tried::Yes);
        let slot = Slot::new(Box::pin(std::future::ready(Ok(Sent::Queued))));
        assert!(matches!(poll(&slot), Poll::Ready(Found::Sent(Ok(Sent::Queued)))));
        assert_eq!(slot.stop_sending(), Tried::Yes);
    }

    #[test]
    fn a_call_that_has_ended_does_not_try_its_send() {
        let slot = Slot::new(Box::pin(async { panic!("sent after the end") }));
        slot.end(ended());
        assert!(matches!(poll(&slot), Poll::Ready(Found::Ended(_))));
        assert!(poll(&slot).is_pending(), "it ends once");
        assert_eq!(slot.stop_sending(), Tried::No);
    }

    #[test]
    fn a_send_that_panics_is_gone_and_the_slot_still_works() {
        let slot = Slot::new(Box::pin(async { panic!("transport") }));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&slot)));
        assert!(caught.is_err());
        slot.end(ended());
        assert!(matches!(poll(&slot), Poll::Ready(Found::Ended(_))));
    }
}
