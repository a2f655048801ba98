use std::sync::Arc;

use crate::gate::Permit;
use crate::shared::Table;
use crate::slot::Slot;

/// The place of a call in its next round, of a list before its next page, or of what a task has handlers asked.
///
/// Taken by whoever has answered the round before: from then on the call ends at its deadline, or with its
/// session, as in any round, also if nobody polls it.
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
}

impl Drop for NextRound {
    fn drop(&mut self) {
        // Nothing is there if the round was answered or given up before.
        let taken = self.table.lock().remove(self.id);
        drop(taken);
    }
}
