use std::fmt;
use std::sync::Arc;

use mcp_proto::{CallTool, CallToolResult, Method, Paginated, PeerInfo, Request, SubscriptionFilter};
use mcp_session::{
    CallOptions, CallOutcome, ListLimits, Listed, StartedTask, SubscribeOptions, Subscription,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::call::{Ask, Target, needs_auth};
use crate::error::CallError;
use crate::following::Following;
use crate::lists::Lists;
use crate::server::Server;
use crate::state::State;
use crate::status::ServerStatus;

/// One supervised server: makes calls and gives orders. Cheap to clone; owns nothing.
///
/// It stays valid when its server is replaced, and then stands for the one that has taken its place. When
/// that is removed or the supervisor is gone, calls end with [`CallError::Removed`] or
/// [`CallError::ShuttingDown`].
#[derive(Clone)]
pub struct ServerHandle {
    server: Arc<Server>,
}

impl ServerHandle {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self { server }
    }

    /// The server that has the name now.
    fn newest(&self) -> Arc<Server> {
        self.server.successor().unwrap_or_else(|| Arc::clone(&self.server))
    }

    fn target(&self) -> Target<'_> {
        Target::newest(&self.server, Ask::IfAllowed)
    }

    /// The name of the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Makes a call.
    ///
    /// The call waits for a server that is connecting or backing off, wakes one that sleeps, then waits
    /// for its turn, all inside its own time: `timeout` of the options (default 60 s, progress extends
    /// it once the request is sent) and `deadline` (default 300 s). A request that was not sent because
    /// the connection went is sent on the next one; one that may have run is sent again only if its
    /// method is idempotent by protocol, or its tool is declared so.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. A server that is parked, disabled or without credentials refuses at once. Where the
    /// [`Authorizer`](crate::Authorizer) of the server may ask a person, a call that needs credentials waits
    /// for a login, which is one for all that do; its own time stands still meanwhile, but for a `deadline`
    /// of the options. A request that was refused is sent once more then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call: what it holds is free at once, and if the request may have
    /// left, the server is told.
    pub async fn call<R: Request>(&self, request: R, options: CallOptions) -> Result<R::Result, CallError> {
        let mut target = self.target();
        loop {
            match crate::call::call(&target, &request, &options).await {
                Err(error) => target.go_on(error)?,
                done => return done,
            }
        }
    }

    /// Fetches all pages of a list now, in the way of [`call`](Self::call); see [`lists`](Self::lists)
    /// for what is known already.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the page that is being fetched.
    pub async fn list<R: Paginated>(
        &self,
        options: CallOptions,
        limits: ListLimits,
    ) -> Result<Listed<R::Item>, CallError> {
        let mut target = self.target();
        loop {
            match crate::call::list::<R>(&target, &options, limits).await {
                Err(error) => target.go_on(error)?,
                done => return done,
            }
        }
    }

    /// Asks to be told of the changes that `filter` names, on the connection of this moment.
    ///
    /// Waits for the server and for its turn as a [`call`](Self::call) does, 60 s by default, then as long
    /// as `options` say; once it is open it is no call, and takes the place of none. It ends with its
    /// connection ([`SubscriptionEnd::SessionGone`](mcp_session::SubscriptionEnd::SessionGone)); whether that
    /// was the end of the server, and why, a [`watch`](Self::watch) of it tells. While it
    /// is open it keeps the server awake; see [`RecessOptions`](crate::RecessOptions). Nobody opens it
    /// again; [`follow`](Self::follow) is for that.
    ///
    /// # Errors
    ///
    /// See [`CallError`]; [`Session::subscribe`](mcp_session::Session::subscribe) names what is its own.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends what has begun of the subscription.
    pub async fn subscribe(
        &self,
        filter: SubscriptionFilter,
        options: SubscribeOptions,
    ) -> Result<Subscription, CallError> {
        let mut target = self.target();
        loop {
            match crate::call::subscribe(&target, filter.clone(), options.clone()).await {
                Err(error) => target.go_on(error)?,
                Ok((subscription, _)) => return Ok(subscription),
            }
        }
    }

    /// Follows the changes that `filter` names, over all connections of the server.
    ///
    /// The first opening waits for the server as long as it takes, and wakes one that sleeps; later ones wake
    /// one that has gone to rest, not one that has yet to be needed. While it is open it keeps the server awake, as any subscription does. What the server does
    /// not tell is told by [`Following::next`], as everything is.
    pub fn follow(&self, filter: SubscriptionFilter, options: SubscribeOptions) -> Following {
        Following::new(self.newest(), filter, options)
    }

    /// Calls a tool in the way of [`call`](Self::call), and takes the task that the server makes of it; see
    /// [`Session::start_task`](mcp_session::Session::start_task). No place of a call is taken after that.
    ///
    /// The handle of the task is of that connection alone. While it is held, and the task not known to be
    /// over, it keeps the server awake as a subscription does, and a connection that is left because it is old,
    /// or lacks credentials, waits for it as for a call
    /// ([`leave_limit`](crate::ServerOptions::leave_limit)); a stop, a removal and a replacement do not. Drop it
    /// when nobody wants the task any more. Keep the id of the task: it is what
    /// [`task_result`](Self::task_result), and the requests of [`mcp_proto::tasks`] by way of `call`, want.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// As [`Session::start_task`](mcp_session::Session::start_task).
    pub async fn start_task(&self, call: CallTool, options: CallOptions) -> Result<StartedTask, CallError> {
        let mut target = self.target();
        loop {
            match crate::call::start_task(&target, call.clone(), &options).await {
                Err(error) => target.go_on(error)?,
                done => return done,
            }
        }
    }

    /// Follows a task to its end and takes its result, see
    /// [`TaskHandle::result`](mcp_session::TaskHandle::result); on the next connection if one goes
    /// meanwhile, as far as the server still knows the task there.
    ///
    /// Waits for the server as a [`call`](Self::call) does, and takes the place of none while the task is
    /// at work. The `timeout` of the options holds for each question, the `deadline` (default 300 s) for
    /// the whole. Progress is shown, where a task goes on making any (2025-11-25), as long as the handle of
    /// [`start_task`](Self::start_task) is there and its connection lasts.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call). Whatever the error is, the task is not cancelled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing about the task.
    pub async fn task_result(
        &self,
        task_id: &str,
        options: CallOptions,
    ) -> Result<CallToolResult, CallError> {
        let mut target = self.target();
        loop {
            match crate::call::task_result(&target, task_id, &options).await {
                Err(error) => target.go_on(error)?,
                done => return done,
            }
        }
    }

    /// Tells the server that the roots have changed, if it is connected; see
    /// [`Session::roots_changed`](mcp_session::Session::roots_changed). One that connects later asks anew.
    ///
    /// # Errors
    ///
    /// As [`Session::roots_changed`](mcp_session::Session::roots_changed).
    ///
    /// # Cancel safety
    ///
    /// As [`Session::roots_changed`](mcp_session::Session::roots_changed).
    pub async fn roots_changed(&self, by: Instant) -> Result<(), CallError> {
        let Some(session) = self.server.gate.session() else { return Ok(()) };
        session.roots_changed(by).await.map_err(|error| CallError::Session {
            server: Arc::clone(&self.server.name),
            method: Method::ROOTS_LIST_CHANGED,
            error,
        })
    }

    /// What the server offers, also while it sleeps; `None` before it was first ready, and while it is
    /// parked, disabled or stopped.
    ///
    /// Fetched when it becomes ready. A list that it says to have changed is fetched anew, and so are its
    /// tools when it refuses a call because its headers do not fit (MCP 2026-07-28, HTTP);
    /// [`ServerEvent::ListUpdated`](crate::ServerEvent::ListUpdated) tells of the new one.
    #[must_use]
    pub fn lists(&self) -> Option<Arc<Lists>> {
        self.newest().offer().map(|offer| offer.lists)
    }

    /// How the server introduced itself when it last became ready; `None` as for [`lists`](Self::lists).
    #[must_use]
    pub fn peer(&self) -> Option<Arc<PeerInfo>> {
        self.newest().offer().map(|offer| offer.peer)
    }

    /// Where the server stands, with the figures of this moment.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        self.newest().status_now()
    }

    /// Follows the status: one value for each change of its state, of its breaker, or from or to
    /// [`degraded`](ServerStatus::degraded); who is slow sees the last. The figures in a value are those of
    /// the change; [`status`](Self::status) has those of now.
    ///
    /// It follows the server that has the name now. When that is replaced, it ends with
    /// [`Stopped`](crate::State::Stopped) and [`Replaced`](crate::EndReason::Replaced): ask again for its
    /// successor.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<ServerStatus>> {
        self.newest().status.subscribe()
    }

    /// Waits until every order given before this call is carried out and the state is
    /// [settled](crate::State::is_settled), at most until `by`; returns where the server stands then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn settled(&self, by: Instant) -> ServerStatus {
        loop {
            let server = self.newest();
            server.catch_up(server.state(), by).await;
            let settled = server.until_state(|state| state.is_settled());
            let is_late = timeout_at(by, settled).await.is_err();
            // One that was replaced meanwhile has settled for good: what counts is its successor.
            if is_late || Arc::ptr_eq(&server, &self.newest()) {
                return self.status();
            }
        }
    }

    /// Replaces the connection `unwanted`; if another one has taken its place already, does nothing.
    ///
    /// From a state without a connection it tries at once. Calls on the old connection end with
    /// [`SessionGone`](mcp_session::CallError::SessionGone).
    pub fn reconnect(&self, unwanted: u64) {
        self.newest().orders.give(|wishes| wishes.reconnect = wishes.reconnect.max(Some(unwanted)));
    }

    /// Tries at once if the server is parked, backs off, sleeps or waits for credentials. Calls that still
    /// run on a connection that takes no more get the time of a [drain](crate::SupervisorOptions::drain).
    ///
    /// For new credentials, new configuration, or a person who does not want to wait.
    pub fn wake(&self) {
        self.newest().orders.give(|wishes| wishes.wake = true);
    }

    /// Has a person log in through the [`Authorizer`](crate::Authorizer) of the server, also if that may not
    /// ask because of a call; joins a login that is going on. The server is woken with the new credentials.
    ///
    /// # Errors
    ///
    /// [`CallError::NeedsAuth`] if there are none, or nobody who brings them about; otherwise the server is
    /// switched off or stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the login, unless somebody else waits for it.
    pub async fn login(&self) -> Result<(), CallError> {
        let server = self.newest();
        if server.authorizer.is_none() {
            return Err(needs_auth(&server, Some("nobody can be asked to log in".to_owned())));
        }
        match server.log_in(server.desk.ended()).await {
            Some(Ok(())) => Ok(()),
            Some(Err(failed)) => Err(needs_auth(&server, Some(failed.0))),
            None if server.state() == State::Disabled && !server.is_over() => {
                Err(CallError::Disabled { server: Arc::clone(&server.name), outcome: CallOutcome::NotSent })
            }
            None => Err(server.over(CallOutcome::NotSent)),
        }
    }

    /// Switches the server on.
    pub fn enable(&self) {
        self.newest().orders.give(|wishes| wishes.enabled = Some(true));
    }

    /// Switches the server off: calls are refused until it is switched on, running ones get the time of a
    /// [drain](crate::SupervisorOptions::drain), then its connection is closed. A call that has not ended by
    /// then ends with [`CallError::Disabled`], which says whether it may have run.
    pub fn disable(&self) {
        self.newest().orders.give(|wishes| wishes.enabled = Some(false));
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle")
            .field("name", &self.server.name)
            .field("state", &self.newest().state())
            .finish_non_exhaustive()
    }
}
