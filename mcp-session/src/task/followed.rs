use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mcp_proto::Payload;
use mcp_transport::Transport;

use crate::error::{CallError, ProtocolFault};
use crate::slot::{Found, Show};
use crate::task::TaskPlace;
use crate::task::follow::{FollowEnd, Following};

/// A task in the place of an answer.
pub(crate) struct FollowedTask {
    pub(crate) place: TaskPlace,
    pub(crate) following: Following,
}

impl FollowedTask {
    pub(crate) fn poll(
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
