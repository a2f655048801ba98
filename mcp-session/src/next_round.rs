use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};

use mcp_transport::Transport;

use crate::error::{CallError, ProtocolFault};
use crate::gate::Permit;
use crate::shared::Table;
use crate::slot::{Found, Show, Slot};

/// The place of a call in its next round, or of a list before its next page, taken by whoever has answered the round before: from then on
/// the call ends at its deadline, or with its session, as in any round, also if nobody polls it.
///
/// Given up when dropped, and with it the permit.
#[derive(Debug)]
pub(crate) struct NextRound {
    table: Arc<Table>,
    pub(crate) id: i64,
    pub(crate) slot: Arc<Slot>,
}

impl NextRound {
    pub(crate) fn new(table: Arc<Table>, id: i64, slot: Arc<Slot>) -> Self {
        Self { table, id, slot }
    }

    /// Gives the place up but for its permit; `None` if it has ended before.
    pub(crate) fn take_permit(&self) -> Option<Permit> {
        let taken = self.table.lock().remove(self.id);
        taken.and_then(|mut entry| entry.permit.take())
    }

    /// Waits for the end of a place that somebody else has ended: at most for moments.
    pub(crate) async fn ended(&self, transport: &Arc<dyn Transport>) -> CallError {
        poll_fn(|cx| {
            loop {
                if let Found::Ended(ended) = ready!(self.slot.poll(transport, cx, Show::Nothing)) {
                    let error = ended.result.err();
                    return Poll::Ready(error.unwrap_or(CallError::Protocol(ProtocolFault::NoAnswer)));
                }
            }
        })
        .await
    }
}

impl Drop for NextRound {
    fn drop(&mut self) {
        // Nothing is there if the round was answered or given up before.
        let taken = self.table.lock().remove(self.id);
        drop(taken);
    }
}
