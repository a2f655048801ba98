use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::task::AtomicWaker;
use mcp_proto::tasks::Task;
use mcp_proto::{Payload, ProtocolVersion, Redactor, RequestId, code};
use mcp_transport::{Abandoned, Closed, Dispatch, Outbound, Transport};
use memchr::memmem;
use tokio::time::Instant;

use crate::counters::{Count, Counters, Counts};
use crate::ending::Ending;
use crate::era::Agreed;
use crate::error::CallError;
use crate::gate::Permit;
use crate::inbox::Inbox;
use crate::next_round::NextRound;
use crate::options::{IdSource, SessionOptions};
use crate::pending::{Door, Patience, PendingTable, Timer};
use crate::roots::RootsNotice;
use crate::served::Served;
use crate::service::Service;
use crate::slot::{Ended, Kept, Slot, Tried};
use crate::subscription::{SubscriptionLane, Unsolicited};
use crate::task::{TaskPlace, Tasks, Ticket};
use crate::wakes::Wakes;

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
    pub(crate) roots: RootsNotice,
    pub(crate) tasks: Tasks,
    /// Who waits for a person to be done with a URL, by the id of the elicitation.
    pub(crate) urls: Wakes,
    task_cancels: Arc<Count>,
    pub(crate) ending: Arc<Ending>,
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
    /// The id of its request.
    pub(crate) id: i64,
    pub(crate) slot: Arc<Slot>,
    pub(crate) permit: Option<Permit>,
    pub(crate) keeps: Keeps,
    pub(crate) origin: Origin,
    pub(crate) role: Role,
}

/// What a call takes along into everything that follows its first request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) started: Instant,
    /// How many handlers it was made inside of.
    pub(crate) depth: u8,
    pub(crate) wants_progress: bool,
}

/// What an entry stands for.
#[derive(Debug)]
pub(crate) enum Role {
    Call,
    /// What handlers are asked on behalf of a task: nothing of the server is waited for.
    Question,
    /// A request that is a subscription, and where its events go.
    Subscription(Arc<SubscriptionLane>),
    /// A call whose answer is a task.
    Task(Box<Ticket>),
}

impl Entry {
    /// Whether somebody waits for its answer, or for the task that was one.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self.role, Role::Call | Role::Task(_))
    }

    pub(crate) fn is_subscription(&self) -> bool {
        matches!(self.role, Role::Subscription(_))
    }

    /// Whether the server owes it an answer that ends it.
    pub(crate) fn is_owed(&self) -> bool {
        matches!(self.role, Role::Call) && self.may_be_answered()
    }

    /// Whether its request may have left: an answer that comes before is none.
    pub(crate) fn may_be_answered(&self) -> bool {
        self.slot.is_tried()
    }
}

impl Role {
    /// Lets a task be, however the call ends.
    pub(crate) fn settle(&mut self) {
        if let Self::Task(ticket) = self {
            ticket.settle();
        }
    }
}

/// For what an answered call keeps its permit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keeps {
    /// For the next page of a list, should there be one before the list must end, or for URLs to be opened.
    ForNextPage(Patience),
    /// For a further round within these limits, should the answer ask for input, or for URLs to be opened.
    ForNextRound(Patience),
    /// For the task that the answer may be, or for a further round.
    ForTask(Patience),
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
            roots: RootsNotice::default(),
            tasks: Tasks::default(),
            urls: Wakes::default(),
            task_cancels: Arc::default(),
            ending: Arc::default(),
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
        let Entry { id, slot, permit, keeps, origin, role } = entry;
        match role {
            Role::Call | Role::Question => {}
            Role::Subscription(lane) => {
                lane.end(self.end_of_subscription(result.clone()));
            }
            // The server is told before the caller.
            Role::Task(ticket) => drop(ticket),
        }
        let kept = match (&result, keeps) {
            (Ok(result), Keeps::ForNextPage(patience)) if may_go_on(result) => {
                Kept::Place(self.next_round(permit, Keeps::Nothing, patience, origin))
            }
            (Ok(result), Keeps::ForTask(patience)) if may_be_task(result) => {
                self.keep_for_task(id, &slot, result, permit, patience, origin)
            }
            (Ok(result), Keeps::ForNextRound(patience) | Keeps::ForTask(patience))
                if may_ask_for_input(result) =>
            {
                Kept::Place(self.next_round(permit, keeps, patience, origin))
            }
            (
                Err(CallError::Peer(error)),
                Keeps::ForNextPage(patience) | Keeps::ForNextRound(patience) | Keeps::ForTask(patience),
            ) if error.code == code::URL_ELICITATION_REQUIRED => {
                Kept::Place(self.next_round(permit, keeps, patience, origin))
            }
            // With nothing further to send, the permit is free before the caller can see the answer.
            _ => {
                drop(permit);
                Kept::Nothing
            }
        };
        slot.end(Ended { result, kept });
    }

    /// Takes the place of the next round of a call, or of the next page of a list. If the session has ended,
    /// so has the round.
    pub(crate) fn next_round(
        &self,
        permit: Option<Permit>,
        keeps: Keeps,
        patience: Patience,
        origin: Origin,
    ) -> NextRound {
        self.place(permit, keeps, patience, origin, Role::Call)
    }

    /// Takes a place for what handlers are asked on behalf of a task: only the deadline of whoever follows that
    /// ends it. If the session has ended, so has the question.
    pub(crate) fn place_of_question(&self, patience: Patience, origin: Origin) -> NextRound {
        self.place(None, Keeps::Nothing, patience, origin, Role::Question)
    }

    fn place(
        &self,
        permit: Option<Permit>,
        keeps: Keeps,
        patience: Patience,
        origin: Origin,
        role: Role,
    ) -> NextRound {
        let slot = Arc::new(Slot::awaiting());
        let id = self.ids.next();
        let entry = Entry { id, slot: Arc::clone(&slot), permit, keeps, origin, role };
        let taken_in = self.table().insert(id, entry, patience.at_rest(Instant::now()), Door::Again);
        match taken_in {
            Ok(timer) => self.wake_driver(timer),
            Err((refused, entry)) => self.answer(entry, Err(refused.into())),
        }
        NextRound::new(Arc::clone(&self.table), id, slot)
    }

    /// Keeps what the answer to the request `id` may need that is a task, or that asks for input.
    fn keep_for_task(
        &self,
        id: i64,
        slot: &Slot,
        result: &Payload,
        permit: Option<Permit>,
        patience: Patience,
        origin: Origin,
    ) -> Kept {
        let agreed = self.agreed.get();
        if let Some((agreed, task)) = agreed.and_then(|agreed| Some((agreed, agreed.task_in(result)?))) {
            // Progress may come before anybody looks at the answer.
            let goes_on = agreed.has_task_progress();
            let token = goes_on.then(|| self.tasks.tokens.begin(id, &task.task_id, slot.reached()));
            let place = self.task_place(agreed, permit, patience, origin, &task);
            return Kept::Task(place.with_token(token));
        }
        if may_ask_for_input(result) {
            let keeps = Keeps::ForTask(patience);
            return Kept::Place(self.next_round(permit, keeps, patience, origin));
        }
        drop(permit);
        Kept::Nothing
    }

    /// Takes the place of a call whose answer is a task. Only the deadline of the call ends it, as its
    /// server need not answer anything meanwhile. If the session has ended, so has the call.
    pub(crate) fn task_place(
        &self,
        agreed: &Agreed,
        permit: Option<Permit>,
        patience: Patience,
        origin: Origin,
        task: &Task,
    ) -> TaskPlace {
        let slot = Arc::new(Slot::awaiting());
        let id = self.ids.next();
        let entry = Entry {
            id,
            slot: Arc::clone(&slot),
            permit,
            keeps: Keeps::Nothing,
            origin,
            role: Role::Task(Box::new(self.ticket(agreed, task))),
        };
        let taken_in = self.table().insert(id, entry, patience.at_rest(Instant::now()), Door::Again);
        match taken_in {
            Ok(timer) => self.wake_driver(timer),
            Err((refused, mut entry)) => {
                entry.role.settle();
                self.answer(entry, Err(refused.into()));
            }
        }
        TaskPlace::new(Arc::clone(&self.table), id, slot)
    }

    /// What cancels a task when it is dropped.
    pub(crate) fn ticket(&self, agreed: &Agreed, task: &Task) -> Ticket {
        let (transport, cancels) = (Arc::clone(&self.transport), Arc::clone(&self.task_cancels));
        Ticket::new(transport, agreed, cancels, self.ids.next(), task)
    }

    /// Gives a call up that was taken out of the table: the send is stopped and the cancel is handed to
    /// the transport before this returns.
    ///
    /// Before anything is agreed on, nothing is cancelled on the wire: these are the requests of the
    /// handshake.
    pub(crate) fn give_up(&self, id: i64, entry: &mut Entry, reason: &str, farewell: Farewell) -> Dispatch {
        if farewell == Farewell::Silent {
            entry.role.settle();
        }
        let dispatch = match entry.slot.stop_sending() {
            Tried::No => Dispatch::NotSent,
            Tried::Yes => self.abandon(id, entry, reason, farewell),
        };
        let started = entry.origin.started;
        tracing::debug!(
            request_id = id,
            reason,
            ?dispatch,
            elapsed_ms = started.elapsed().as_millis(),
            "a request was given up"
        );
        dispatch
    }

    /// Has the transport give a request up that it has seen.
    fn abandon(&self, id: i64, entry: &Entry, reason: &str, farewell: Farewell) -> Dispatch {
        let request_id = RequestId::from(id);
        let told = self.agreed.get().filter(|_| farewell == Farewell::Told);
        let notice =
            told.and_then(|agreed| agreed.cancel_notice(self.transport.streams(), &request_id, reason));
        let Abandoned { dispatch, is_told } = self.transport.abandon(&request_id, notice);
        if told.is_some() && is_told {
            self.counts.cancels_sent.add();
        }
        if told.is_some() && dispatch == Dispatch::MayHaveLeft && matches!(entry.keeps, Keeps::ForTask(_)) {
            self.tasks.await_late(id);
        }
        dispatch
    }

    /// Ends every call whose deadline has come.
    pub(crate) fn expire(&self, now: Instant) {
        let expired = self.table().expire(now);
        for (id, mut entry) in expired {
            let waited = now.duration_since(entry.origin.started);
            let dispatch = self.give_up(id, &mut entry, "no answer in time", Farewell::Told);
            self.answer(entry, Err(CallError::Timeout { dispatch, waited }));
        }
    }

    /// Has the driver give back what is kept for the next calls, if nothing has a deadline.
    pub(crate) fn rest(&self) {
        if self.table().disarm() {
            self.driver.wake();
        }
    }

    /// Gives back what is kept for the next calls; `false`, and nothing is, if one waits for an answer.
    pub(crate) fn trim(&self) -> bool {
        let mut table = self.table();
        let is_idle = !table.values().any(Entry::is_call);
        if is_idle {
            table.trim();
        }
        is_idle
    }

    /// Ends the session: nothing comes in any more, and each waiting call ends exactly once. The first
    /// reason stays; it is returned.
    pub(crate) fn shut(&self, closed: Closed, farewell: Farewell) -> Closed {
        let taken = self.table().close(closed.clone());
        let Some(entries) = taken else {
            return self.table().closed().cloned().unwrap_or(closed);
        };
        let cancelled = entries.len();
        for (id, mut entry) in entries {
            let dispatch = self.give_up(id, &mut entry, "the session is closing", farewell);
            self.answer(entry, Err(CallError::SessionGone { dispatch, closed: closed.clone() }));
        }
        self.stop_serving();
        self.unsolicited.close(&closed);
        tracing::debug!(reason = %closed.reason(), cancelled, "session ended");
        self.inbox.close();
        // Last: whoever waits for the end finds every call ended.
        self.ending.tell(closed.clone());
        closed
    }

    /// What was not as it should be so far.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.counts.read();
        counters.cancels_sent += self.task_cancels.read();
        counters
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

/// Whether another page of a list may follow; as above.
fn may_go_on(page: &Payload) -> bool {
    memmem::find(page.as_bytes(), b"nextCursor").is_some()
}

/// Whether an answer may be a task; as above.
fn may_be_task(result: &Payload) -> bool {
    memmem::find(result.as_bytes(), b"\"task").is_some()
}
