use std::sync::Arc;

use mcp_proto::tasks::{CancelTask, Task};
use mcp_proto::{Request as _, RequestId, encode_request};
use mcp_transport::{CloseReason, Outbound, Transport};

use crate::counters::Count;
use crate::era::Agreed;
use crate::error::CallError;
use crate::shared::Table;
use crate::slot::Slot;
use crate::task::TaskToken;

/// Says that a task is wanted no more, once, when it is dropped; unless it was [settled](Self::settle)
/// before. A server that does not take that loses its connection.
///
/// It lies in the pending table, in the entry of the call that the task belongs to: whatever ends the
/// call cancels the task, before the caller sees the end.
#[derive(Debug)]
pub(crate) struct Ticket {
    transport: Arc<dyn Transport>,
    /// The request that cancels the task, written when the task began. Nobody waits for its answer.
    cancel: Option<Outbound>,
    cancels: Arc<Count>,
}

/// The place of a call whose answer is a task, from the answer on: it ends at its deadline, or with its
/// session, also if nobody polls it.
///
/// Given up when dropped, and with it permit and task.
#[derive(Debug)]
pub(crate) struct TaskPlace {
    table: Arc<Table>,
    pub(crate) id: i64,
    pub(crate) slot: Arc<Slot>,
    /// Has the progress of the task told from the answer on, where it has such.
    token: Option<Arc<TaskToken>>,
}

impl Ticket {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        agreed: &Agreed,
        cancels: Arc<Count>,
        id: i64,
        task: &Task,
    ) -> Self {
        let cancel = cancel(&*transport, agreed, id, task);
        Self { transport, cancel, cancels }
    }

    /// The task is over, or somebody else's by now.
    pub(crate) fn settle(&mut self) {
        self.cancel = None;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(cancel) = self.cancel.take() else { return };
        if self.transport.insist(cancel).is_ok() {
            self.cancels.add();
        } else {
            tracing::debug!("a task was not cancelled: the connection has ended");
        }
    }
}

impl TaskPlace {
    pub(crate) fn new(table: Arc<Table>, id: i64, slot: Arc<Slot>) -> Self {
        Self { table, id, slot, token: None }
    }

    /// With what has the progress of the task told.
    pub(crate) fn with_token(mut self, token: Option<Arc<TaskToken>>) -> Self {
        self.token = token;
        self
    }

    /// What has the progress of the task told, without the place.
    pub(crate) fn into_token(mut self) -> Option<Arc<TaskToken>> {
        self.token.take()
    }

    /// Frees the place and lets the task be: it is over, or somebody else's by now. `false`: somebody else
    /// has ended the call before.
    pub(crate) fn settle(&self) -> bool {
        let taken = self.table.lock().remove(self.id);
        taken.is_some_and(|mut entry| {
            entry.role.settle();
            true
        })
    }

    /// Frees the place and lets the task be, for whoever takes it. An error if it was cancelled before, when
    /// the call was ended; a task whose connection was lost is not.
    pub(crate) async fn hand_over(&self, transport: &Arc<dyn Transport>) -> Result<(), CallError> {
        if self.settle() {
            return Ok(());
        }
        match self.slot.ended(transport).await {
            CallError::SessionGone { closed, .. } if *closed.reason() != CloseReason::Local => Ok(()),
            error => Err(error.of_later_round()),
        }
    }

    /// Frees the place and cancels the task, unless that was done before.
    pub(crate) fn give_up(&self) {
        let taken = self.table.lock().remove(self.id);
        drop(taken);
    }
}

impl Drop for TaskPlace {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Writes the request `id` that cancels a task; `None` for one whose id no message can carry.
fn cancel(transport: &dyn Transport, agreed: &Agreed, id: i64, task: &Task) -> Option<Outbound> {
    let params = CancelTask::new(task.task_id.as_str());
    let frame = encode_request(&RequestId::from(id), &CancelTask::METHOD, &params, agreed.base()).ok()?;
    let name = Some(task.task_id.as_str());
    let mirrored = agreed.mirrored(transport.streams(), &CancelTask::METHOD, name, &frame).ok()?;
    let mut cancel = Outbound::request(id.into(), frame);
    cancel.mirrored = mirrored;
    Some(cancel)
}
