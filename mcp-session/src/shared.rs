use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::task::AtomicWaker;
use mcp_proto::{Payload, ProtocolVersion, Redactor, RequestId};
use mcp_transport::{Closed, Dispatch, Outbound, Transport};
use memchr::memmem;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::counters::Counts;
use crate::era::Agreed;
use crate::error::CallError;
use crate::gate::Permit;
use crate::inbox::Inbox;
use crate::next_round::NextRound;
use crate::options::{IdSource, SessionOptions};
use crate::pending::{Door, Patience, PendingTable, Timer};
use crate::served::Served;
use crate::service::Service;
use crate::slot::{Ended, Kept, Slot, Tried};
use crate::subscription::{SubscriptionLane, Unsolicited};

/// What the handles, the calls and the driver of one connection have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) agreed: OnceLock<Arc<Agreed>>,
    pub(crate) counts: Counts,
    pub(crate) inbox: Inbox,
    pub(crate) ids: IdSource,
    pub(crate) redactor: Option<Arc<Redactor>>,
    /// Answers what the server asks; `None` if nobody does.
    pub(crate) service: Option<Service>,
    /// Ids below this one belong to earlier sessions of the same source.
    pub(crate) first_id: i64,
    /// Wakes the driver: an earlier deadline, or the end.
    pub(crate) driver: AtomicWaker,
    stopping: AtomicBool,
    table: Arc<Table>,
    served: Mutex<Served>,
    pub(crate) unsolicited: Unsolicited,
    closed: watch::Sender<Option<Closed>>,
}

/// The pending calls, for callers and driver, one at a time.
#[derive(Debug)]
pub(crate) struct Table(Mutex<PendingTable<Entry>>);

impl Table {
    pub(crate) fn lock(&self) -> MutexGuard<'_, PendingTable<Entry>> {
        // The table leaves nothing half-done inside its methods, so a panic elsewhere does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One waiting call: everything it owns until it ends.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) slot: Arc<Slot>,
    pub(crate) permit: Option<Permit>,
    pub(crate) keeps: Keeps,
    pub(crate) wants_progress: bool,
    pub(crate) started: Instant,
    /// Where the events of the subscription go that this request is.
    pub(crate) lane: Option<Arc<SubscriptionLane>>,
}

impl Entry {
    /// Whether it is a call that the server owes an answer, and not a subscription.
    pub(crate) fn is_call(&self) -> bool {
        self.lane.is_none()
    }
}

/// For what an answered call keeps its permit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keeps {
    /// For the next page of a list.
    ForNextPage,
    /// For a further round within these limits, should the answer ask for input.
    ForNextRound(Patience),
    /// It is free at once.
    Nothing,
}

/// Whether the server can still be told anything when a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// The connection has ended already.
    Silent,
    /// The connection still stands: waiting calls are cancelled.
    Told,
}

impl Shared {
    pub(crate) fn new(transport: Arc<dyn Transport>, options: &SessionOptions) -> Self {
        Self {
            transport,
            agreed: OnceLock::new(),
            counts: Counts::default(),
            inbox: Inbox::new(options.max_events),
            ids: options.ids.clone(),
            redactor: options.redactor.clone(),
            service: Service::new(options),
            first_id: options.ids.upcoming(),
            driver: AtomicWaker::new(),
            stopping: AtomicBool::new(false),
            table: Arc::new(Table(Mutex::new(PendingTable::new(options.max_pending.max(1))))),
            served: Mutex::default(),
            unsolicited: Unsolicited::default(),
            closed: watch::Sender::new(None),
        }
    }

    /// Notes what the handshake has agreed on, once.
    pub(crate) fn settle(&self, agreed: Arc<Agreed>) -> Arc<Agreed> {
        Arc::clone(self.agreed.get_or_init(|| agreed))
    }

    /// The version that was agreed on, once one was.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.agreed.get().map(|agreed| agreed.peer().version)
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, PendingTable<Entry>> {
        self.table.lock()
    }

    pub(crate) fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a call that was taken out of the table with an answer.
    pub(crate) fn answer(&self, entry: Entry, result: Result<Payload, CallError>) {
        let Entry { slot, permit, keeps, wants_progress, started, lane } = entry;
        if let Some(lane) = lane {
            lane.end(self.end_of_subscription(result.clone()));
        }
        let kept = match (&result, keeps) {
            (Ok(_), Keeps::ForNextPage) => permit.map_or(Kept::Nothing, Kept::Permit),
            (Ok(result), Keeps::ForNextRound(patience)) if may_ask_for_input(result) => {
                Kept::Round(self.next_round(permit, patience, wants_progress, started))
            }
            // With nothing further to send, the permit is free before the caller can see the answer.
            _ => {
                drop(permit);
                Kept::Nothing
            }
        };
        slot.end(Ended { result, kept });
    }

    /// Takes the place of the next round of a call. If the session has ended, so has the round.
    pub(crate) fn next_round(
        &self,
        permit: Option<Permit>,
        patience: Patience,
        wants_progress: bool,
        started: Instant,
    ) -> NextRound {
        let slot = Arc::new(Slot::awaiting());
        let keeps = Keeps::ForNextRound(patience);
        let entry = Entry { slot: Arc::clone(&slot), permit, keeps, wants_progress, started, lane: None };
        let id = self.ids.next();
        let taken_in = self.table().insert(id, entry, patience.at_rest(Instant::now()), Door::Again);
        match taken_in {
            Ok(timer) => self.wake_driver(timer),
            Err((refused, entry)) => self.answer(entry, Err(refused.into())),
        }
        NextRound::new(Arc::clone(&self.table), id, slot)
    }

    /// Gives a call up that was taken out of the table: the send is stopped and the cancel is handed to
    /// the transport before this returns.
    ///
    /// Before anything is agreed on, nothing is cancelled on the wire: these are the requests of the
    /// handshake.
    pub(crate) fn give_up(&self, id: i64, entry: &Entry, reason: &str, farewell: Farewell) -> Dispatch {
        if entry.slot.stop_sending() == Tried::No {
            return Dispatch::NotSent;
        }
        let id = RequestId::from(id);
        let told = self.agreed.get().filter(|_| farewell == Farewell::Told);
        let notice = told.and_then(|agreed| agreed.cancel_notice(self.transport.streams(), &id, reason));
        let dispatch = self.transport.abandon(&id, notice);
        if told.is_some() && dispatch == Dispatch::MayHaveLeft {
            self.counts.cancels_sent.add();
        }
        dispatch
    }

    /// Ends every call whose deadline has come.
    pub(crate) fn expire(&self, now: Instant) {
        let expired = self.table().expire(now);
        for (id, entry) in expired {
            let waited = now.duration_since(entry.started);
            let dispatch = self.give_up(id, &entry, "no answer in time", Farewell::Told);
            tracing::debug!(request_id = id, ?dispatch, elapsed_ms = waited.as_millis(), "call timed out");
            self.answer(entry, Err(CallError::Timeout { dispatch, waited }));
        }
    }

    /// Ends the session: nothing comes in any more, and each waiting call ends exactly once. The first
    /// reason stays; it is returned.
    pub(crate) fn shut(&self, closed: Closed, farewell: Farewell) -> Closed {
        let taken = self.table().close(closed.clone());
        let Some(entries) = taken else {
            return self.table().closed().cloned().unwrap_or(closed);
        };
        let cancelled = entries.len();
        for (id, entry) in entries {
            let dispatch = self.give_up(id, &entry, "the session is closing", farewell);
            self.answer(entry, Err(CallError::SessionGone { dispatch, closed: closed.clone() }));
        }
        self.stop_serving();
        self.unsolicited.close(&closed);
        tracing::debug!(reason = %closed.reason(), cancelled, "session ended");
        self.inbox.close();
        // Last: whoever waits for the end finds every call ended.
        self.closed.send_replace(Some(closed.clone()));
        closed
    }

    /// Asks the driver to end, also when nobody is left who could close the session.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.driver.wake();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn wake_driver(&self, timer: Timer) {
        if timer == Timer::Late {
            self.driver.wake();
        }
    }

    pub(crate) fn watch_closed(&self) -> watch::Receiver<Option<Closed>> {
        self.closed.subscribe()
    }

    /// Hands a message over that nobody waits for. If the server does not read, it is lost.
    pub(crate) fn post(&self, message: Outbound) {
        if self.transport.post(message).is_err() && self.counts.unsent_replies.add() {
            tracing::warn!("the server takes no more messages: an answer to it was dropped");
        }
    }
}

/// Whether an answer may ask for input.
///
/// That is known for certain only where the result is read. Here its type is searched for: who has it in
/// some text keeps a place and a permit until then, and only who writes it with escapes goes on without.
fn may_ask_for_input(result: &Payload) -> bool {
    memmem::find(result.as_bytes(), b"input_required").is_some()
}
