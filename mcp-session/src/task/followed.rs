use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mcp_transport::Transport;

use crate::error::{CallError, ProtocolFault};
use crate::slot::{Found, Show, Work};
use crate::task::TaskPlace;
use crate::task::follow::{FollowEnd, Following};

/// A task on its way to its result, in a place of its own: whoever ends that ends the following, and what it
/// asks of handlers, also if nobody polls it.
pub(crate) struct FollowedTask {
    place: TaskPlace,
}

impl FollowedTask {
    pub(crate) fn new(place: TaskPlace, following: Following) -> Self {
        place.slot.take_up(Work::Following(following));
        Self { place }
    }

    pub(crate) fn poll(&mut self, transport: &Arc<dyn Transport>, cx: &mut Context<'_>) -> Poll<FollowEnd> {
        // Its end first: what is learned for a call that was given up is of no use.
        if let Poll::Ready(Found::Ended(ended)) = self.place.slot.poll(transport, cx, Show::Nothing) {
            // Nothing was sent that an answer could belong to, but questions may have been.
            let error = ended.result.err().unwrap_or(CallError::Protocol(ProtocolFault::NoAnswer));
            return Poll::Ready(FollowEnd::GivenUp(error.of_later_round()));
        }
        match ready!(self.place.slot.poll_following(cx)) {
            // Somebody has ended the call a moment before, and tells so in a moment.
            FollowEnd::Over(_) if !self.place.settle() => Poll::Pending,
            FollowEnd::Over(result) => Poll::Ready(FollowEnd::Over(result)),
            FollowEnd::GivenUp(error) => {
                self.place.give_up();
                Poll::Ready(FollowEnd::GivenUp(error))
            }
        }
    }
}
