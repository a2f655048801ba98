//! What a connection tells unasked, and what follows: logs are handed on, and a list that has changed
//! is fetched anew. Part of the task of the connection.

use std::sync::Arc;

use mcp_proto::{
    Era, ListPrompts, ListResourceTemplates, ListResources, ListTools, Paginated, SubscriptionFilter, code,
};
use mcp_session::{
    CallError, CallOptions, GateError, ListKind, Listed, Session, SessionEvent, SubscribeOptions,
    SubscriptionEvent,
};
use mcp_transport::Dispatch;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::event::ServerEvent;
use crate::lists::{Lists, Part, keep_whole, or_nothing};
use crate::orders::Wishes;
use crate::refresh::{Refresh, Weather};
use crate::server::Server;
use crate::state::State;
use crate::stop_plan::later;
use crate::timer;

/// Follows what the server tells on one connection. Never returns: the end of the session is seen
/// elsewhere.
pub(crate) async fn follow<T>(server: &Server, generation: u64, session: &Session) -> T {
    let follower = Follower { server, generation, session, changes: Changes::default() };
    tokio::join!(follower.hand_on(), follower.while_ready());
    std::future::pending().await
}

struct Follower<'a> {
    server: &'a Server,
    generation: u64,
    session: &'a Session,
    changes: Changes,
}

/// The lists that have changed and are not being fetched yet.
#[derive(Debug, Default)]
struct Changes {
    prompts: Notify,
    resources: Notify,
    tools: Notify,
}

impl Changes {
    fn of(&self, kind: ListKind) -> Option<&Notify> {
        match kind {
            ListKind::Prompts => Some(&self.prompts),
            ListKind::Resources => Some(&self.resources),
            ListKind::Tools => Some(&self.tools),
            _ => None,
        }
    }

    fn note(&self, kind: ListKind) {
        if let Some(change) = self.of(kind) {
            change.notify_one();
        }
    }
}

impl Follower<'_> {
    /// Hands on what the session tells, until it has ended.
    async fn hand_on(&self) {
        while let Some(event) = self.session.next_event().await {
            match &event {
                SessionEvent::ListChanged(kind) => self.changes.note(*kind),
                SessionEvent::OwnStream { is_open } => self.on_own_stream(*is_open),
                _ => {}
            }
            if let Some(event) = ServerEvent::from_session(&self.server.name, event) {
                self.server.runtime.emit(event);
            }
        }
    }

    /// Keeps the lists as the server has them for as long as the connection is the one that is used: a
    /// server that stops, parks or connects again has nothing fetched any more.
    async fn while_ready(&self) {
        let is_ready = |state: State| state == State::Ready { generation: self.generation };
        self.server.until_state(is_ready).await;
        let keep = async {
            tokio::join!(
                self.listen(),
                self.keep(ListKind::Tools),
                self.keep(ListKind::Resources),
                self.keep(ListKind::Prompts),
            )
        };
        tokio::select! {
            biased;
            () = self.server.until_state(|state| !is_ready(state)) => {}
            _ = keep => {}
        }
    }

    /// Keeps a subscription to the lists open, where the server wants to be asked for that. Returns if it
    /// tells of none.
    async fn listen(&self) {
        if self.session.peer().era == Era::Modern {
            // Boxed, so that a server that tells unasked takes no room for it.
            Box::pin(self.listen_on()).await;
        }
    }

    async fn listen_on(&self) {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            if self.listen_once().await == Again::Never {
                return;
            }
            failures = if began.elapsed() < self.server.options.stable_for { failures + 1 } else { 1 };
            self.server.pause_before_subscribing(failures).await;
        }
    }

    /// The stream on which the server tells of changes is down, or up again. What it told meanwhile is lost.
    fn on_own_stream(&self, is_up: bool) {
        if is_up {
            for kind in [ListKind::Tools, ListKind::Resources, ListKind::Prompts] {
                self.changes.note(kind);
            }
        }
        self.tell_degraded(!is_up);
    }

    fn tell_degraded(&self, is_degraded: bool) {
        self.server.orders.give(|wishes| wishes.set_degraded(self.generation, is_degraded));
    }

    /// A server that wants other credentials wants them for everything, as when it says so to a call.
    fn tell_unauthorized(&self, error: &CallError) {
        if let CallError::Http(rejection) = error {
            self.server.on_refused(self.generation, rejection);
        }
    }

    /// One subscription from its opening to its end.
    async fn listen_once(&self) -> Again {
        let _own = self.server.own_subscription(self.generation);
        let (server, generation) = (&self.server.name, self.generation);
        match self.session.subscribe(all_lists(), SubscribeOptions::default()).await {
            Ok(mut subscription) => {
                self.tell_degraded(false);
                // What has changed since the lists were fetched was told to nobody.
                kinds(subscription.honoured()).for_each(|kind| self.changes.note(kind));
                // The changes themselves come as events of the session.
                while let Some(event) = subscription.next().await {
                    if let SubscriptionEvent::Ended(end) = event {
                        tracing::debug!(%server, generation, %end, "no longer told of changed lists; asking again");
                    }
                }
                // Until it is open again nothing is told.
                self.tell_degraded(true);
                Again::Later
            }
            Err(CallError::Unsupported { .. }) => Again::Never,
            Err(CallError::Peer(error)) if error.code == code::METHOD_NOT_FOUND => {
                tracing::debug!(%server, generation, "changed lists are declared, but cannot be subscribed to");
                self.tell_degraded(true);
                Again::Never
            }
            Err(error) => {
                tracing::debug!(%server, generation, %error, "no subscription to changed lists; asking again");
                self.tell_degraded(true);
                self.tell_unauthorized(&error);
                Again::Later
            }
        }
    }

    /// Fetches one list whenever it has changed.
    async fn keep(&self, kind: ListKind) {
        let Some(changed) = self.changes.of(kind).filter(|_| Lists::are_declared(self.session, kind)) else {
            return;
        };
        changed.notified().await;
        // Boxed, so that a list that never changes takes no room for it.
        Box::pin(self.keep_on(kind, changed)).await;
    }

    /// The same for a list that has changed just now. Returns when the session has gone.
    async fn keep_on(&self, kind: ListKind, changed: &Notify) {
        let mut refresh = Refresh::new(self.server.options.refresh.clone());
        let mut is_failing = false;
        self.told(kind, refresh.on_change(Instant::now()));
        loop {
            let is_due = tokio::select! {
                biased;
                () = changed.notified() => false,
                () = timer::until(refresh.next_deadline()) => true,
            };
            if !is_due {
                self.told(kind, refresh.on_change(Instant::now()));
                continue;
            }
            refresh.on_begin();
            let outcome = {
                // Boxed, as most of the time there is none.
                let mut fetching = Box::pin(self.fetch(kind));
                loop {
                    tokio::select! {
                        biased;
                        () = changed.notified() => self.told(kind, refresh.on_change(Instant::now())),
                        outcome = &mut fetching => break outcome,
                    }
                }
            };
            let weather = refresh.on_end(outcome.is_err(), Instant::now());
            match outcome {
                Ok(part) => {
                    is_failing = false;
                    self.server.update_list(self.generation, kind, part);
                    self.told(kind, weather);
                }
                Err(error) if error.is_session_gone() => return,
                Err(error) => {
                    self.on_failure(kind, Arc::new(error), is_failing);
                    is_failing = true;
                }
            }
        }
    }

    fn told(&self, kind: ListKind, weather: Weather) {
        if weather == Weather::Storm {
            let every = self.server.options.refresh.cap;
            tracing::warn!(server = %self.server.name, generation = self.generation, list = kind.name(), ?every, "a list is said to change without end; it is fetched rarely from now on");
        }
    }

    /// The list that is known stays. Said aloud once for as many failures as come in a row.
    fn on_failure(&self, kind: ListKind, error: Arc<CallError>, is_known: bool) {
        let (server, generation) = (&self.server.name, self.generation);
        if is_known {
            tracing::debug!(%server, generation, list = kind.name(), %error, "a changed list could not be fetched again");
        } else {
            tracing::warn!(%server, generation, list = kind.name(), %error, "a changed list could not be fetched; the old one stays, and it is tried again");
        }
        if matches!(*error, CallError::Timeout { dispatch: Dispatch::MayHaveLeft, .. }) {
            self.server.orders.give(|wishes| Wishes::raise(&mut wishes.suspect, generation));
        }
        self.tell_unauthorized(&error);
        let server = Arc::clone(server);
        self.server.runtime.emit(ServerEvent::ListUpdateFailed { server, generation, kind, error });
    }

    async fn fetch(&self, kind: ListKind) -> Result<Part, CallError> {
        let began = Instant::now();
        let by = later(began, self.server.options.connect_limit);
        match kind {
            ListKind::Prompts => Ok(Part::Prompts(self.list::<ListPrompts>(by).await?)),
            ListKind::Resources => {
                let resources = self.list::<ListResources>(by).await?;
                Ok(Part::Resources(resources, self.list::<ListResourceTemplates>(by).await?))
            }
            _ => {
                // A call that nobody polls may have the turn.
                let turn = timeout_at(by, self.server.tool_refresh.turn())
                    .await
                    .map_err(|_| GateError::Timeout.into_call_error(began.elapsed()))?;
                let by = later(Instant::now(), self.server.options.connect_limit);
                let tools = self.list::<ListTools>(by).await?;
                turn.done();
                Ok(Part::Tools(tools, self.session.rejected_tools()))
            }
        }
    }

    /// Fetches a list as a call does: with a permit of the server.
    async fn list<R: Paginated>(&self, by: Instant) -> Result<Listed<R::Item>, CallError> {
        let began = Instant::now();
        let live =
            self.server.gate.enter(by).await.map_err(|error| error.into_call_error(began.elapsed()))?;
        if live.generation() != self.generation {
            // This connection is being wound down.
            return std::future::pending().await;
        }
        let options = CallOptions::default().with_deadline(by);
        let listed = live.list::<R>(options, self.server.options.lists).await;
        or_nothing::<R>(listed).and_then(|listed| keep_whole(listed, by - began))
    }
}

/// Whether a server is asked once more to tell of changed lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Later,
    Never,
}

fn all_lists() -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::default();
    filter.tools_list_changed = true;
    filter.prompts_list_changed = true;
    filter.resources_list_changed = true;
    filter
}

fn kinds(filter: &SubscriptionFilter) -> impl Iterator<Item = ListKind> {
    let kinds = [
        (filter.tools_list_changed, ListKind::Tools),
        (filter.resources_list_changed, ListKind::Resources),
        (filter.prompts_list_changed, ListKind::Prompts),
    ];
    kinds.into_iter().filter_map(|(is_told, kind)| is_told.then_some(kind))
}
