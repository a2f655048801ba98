use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mcp_transport::{CloseReason, Closed, Dispatch, Inbound, Rejection, SendError, Sent};

use crate::error::{CallError, ProtocolFault};
use crate::next_round::NextRound;
use crate::progress::ProgressLane;
use crate::rounds::Rounds;
use crate::shared::{Origin, Shared};
use crate::slot::{Ended, Found, Show, Slot};

/// A call whose entry is in the table, or was until somebody ended it.
pub(crate) struct InFlight {
    pub(crate) slot: Arc<Slot>,
    pub(crate) progress: Option<ProgressLane>,
    pub(crate) rounds: Option<Box<Rounds>>,
    pub(crate) origin: Origin,
    /// Whose entry it is, in a later round.
    pub(crate) _place: Option<NextRound>,
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
