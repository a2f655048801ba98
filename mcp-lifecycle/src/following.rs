use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use mcp_proto::SubscriptionFilter;
use mcp_proto::tasks::Task;
use mcp_session::{
    CallOutcome, ListKind, SubscribeOptions, Subscription, SubscriptionEnd, SubscriptionEvent,
};
use tokio::time::Instant;

use crate::call::{Ask, Target};
use crate::error::CallError;
use crate::failure::Failure;
use crate::interruption::{Fate, Interruption};
use crate::server::Server;
use crate::state::{DormantReason, State};

/// What a server tells of changes, over all its connections: made by
/// [`ServerHandle::follow`](crate::ServerHandle::follow).
///
/// Open as long as the server is; opened again on each new connection, and after the server has ended
/// it. There is no replay: [`FollowEvent::Reopened`] says that changes may have been missed. It runs in
/// [`next`](Self::next): while nobody waits there, nothing is opened again, and what is told meanwhile
/// waits as in a [`Subscription`].
///
/// ```text
///              first time: Opened, then: Reopened
///   opening ──────────────────────────────────────▶ open ──┐ ListChanged, ResourceUpdated,
///    │  ▲                                            │  ▲──┘ TaskChanged, Lagged
///    │  └── random pause ◀── Interrupted, and why ───┘
///    └── removed, shut down, unsupported, refused: Ended
/// ```
///
/// Dropping it ends the subscription; the server is told in the way of its era.
#[must_use = "dropping it ends the subscription"]
pub struct Following {
    server: Arc<Server>,
    filter: SubscriptionFilter,
    options: SubscribeOptions,
    step: Step,
    was_open: bool,
    /// Openings and ends in a row without a time of quiet.
    failures: u32,
}

enum Step {
    /// The subscription has ended, and why is about to be known.
    Ended {
        end: SubscriptionEnd,
        fate: Option<Fate>,
    },
    Open {
        subscription: Subscription,
        since: Instant,
        fate: Option<Fate>,
    },
    Opening(Pin<Box<dyn Future<Output = Result<Opened, CallError>> + Send>>),
    Over,
}

/// A subscription, and the fate of its connection where that is known.
type Opened = (Subscription, Option<Fate>);

/// What a followed server tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FollowEvent {
    /// It is over; nothing follows.
    Ended(FollowEnd),
    /// Nothing is told at present, until [`Reopened`](Self::Reopened), and why.
    Interrupted(Interruption),
    /// More resources or tasks have changed than can wait; see [`SubscriptionEvent::Lagged`].
    Lagged,
    /// A list has changed. The supervisor fetches it by itself.
    ListChanged(ListKind),
    /// Changes are told from now on.
    Opened {
        /// What the server has promised to tell of what was wanted.
        honoured: SubscriptionFilter,
    },
    /// Changes are told again. Some may have been missed: read anew what matters.
    Reopened {
        /// What the server has promised this time.
        honoured: SubscriptionFilter,
    },
    /// The resource of this address has changed, or one below it; see
    /// [`SubscriptionEvent::ResourceUpdated`]. Untrusted.
    ResourceUpdated(String),
    /// One of the tasks that were named has changed; see [`SubscriptionEvent::TaskChanged`]. Untrusted.
    TaskChanged(Box<Task>),
}

/// Why a server is followed no more.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FollowEnd {
    /// The server refuses the subscription with an error.
    #[error("the subscription was refused: {0}")]
    Refused(CallError),
    /// The server was removed.
    #[error("the server has been removed")]
    Removed,
    /// The supervisor is shutting down, or is gone.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// The server tells of none of these changes.
    #[error("the server does not tell of these changes: {0}")]
    Unsupported(CallError),
}

impl Following {
    pub(crate) fn new(server: Arc<Server>, filter: SubscriptionFilter, options: SubscribeOptions) -> Self {
        let opening = open(Arc::clone(&server), filter.clone(), options.clone(), Wake::IfAsleep);
        let step = Step::Opening(Box::pin(opening));
        Self { server, filter, options, step, was_open: false, failures: 0 }
    }

    /// The next event; `None` once [`FollowEvent::Ended`] was taken.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event, and no step of an opening.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        loop {
            match &mut self.step {
                Step::Over => return None,
                Step::Opening(opening) => {
                    let opened = opening.as_mut().await;
                    if let Some(event) = self.on_opening(opened) {
                        return Some(event);
                    }
                }
                Step::Ended { end, fate } => {
                    let why = why(end, fate.as_ref()).await;
                    self.open_again();
                    return Some(FollowEvent::Interrupted(why));
                }
                Step::Open { subscription, .. } => {
                    return match subscription.next().await {
                        Some(SubscriptionEvent::Ended(end)) => {
                            self.on_end(end);
                            continue;
                        }
                        Some(SubscriptionEvent::Lagged) => Some(FollowEvent::Lagged),
                        Some(SubscriptionEvent::ListChanged(kind)) => Some(FollowEvent::ListChanged(kind)),
                        Some(SubscriptionEvent::ResourceUpdated(uri)) => {
                            Some(FollowEvent::ResourceUpdated(uri))
                        }
                        Some(SubscriptionEvent::TaskChanged(task)) => Some(FollowEvent::TaskChanged(task)),
                        Some(_) => continue,
                        // Its end was told before.
                        None => None,
                    };
                }
            }
        }
    }

    fn on_opening(&mut self, opened: Result<Opened, CallError>) -> Option<FollowEvent> {
        match opened {
            Ok((subscription, fate)) => {
                let honoured = subscription.honoured().clone();
                self.step = Step::Open { subscription, since: Instant::now(), fate };
                let was_open = std::mem::replace(&mut self.was_open, true);
                Some(if was_open {
                    FollowEvent::Reopened { honoured }
                } else {
                    FollowEvent::Opened { honoured }
                })
            }
            Err(error) => match end_of(error) {
                Ok(end) => {
                    self.step = Step::Over;
                    Some(FollowEvent::Ended(end))
                }
                Err(error) => {
                    tracing::debug!(server = %self.server.name, %error, "a subscription could not be opened; trying again");
                    self.open_again();
                    None
                }
            },
        }
    }

    fn on_end(&mut self, end: SubscriptionEnd) {
        let Step::Open { since, fate, .. } = &mut self.step else { return };
        if since.elapsed() >= self.server.options.stable_for {
            self.failures = 0;
        }
        let fate = fate.take();
        self.step = Step::Ended { end, fate };
    }

    fn open_again(&mut self) {
        if let Some(newest) = self.server.successor() {
            self.server = newest;
        }
        self.failures = self.failures.saturating_add(1);
        let (server, failures) = (Arc::clone(&self.server), self.failures);
        let (filter, options) = (self.filter.clone(), self.options.clone());
        self.step = Step::Opening(Box::pin(async move {
            tokio::select! {
                biased;
                // Whatever it is that ends it: opening says so.
                () = server.until_state(is_over) => {}
                () = server.pause_before_subscribing(failures) => {}
            }
            open(server, filter, options, Wake::FromRest).await
        }));
    }
}

/// What a server that sleeps is woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// Nobody needed it: whoever follows it does, and what interrupted that was its going to rest.
    FromRest,
    IfAsleep,
}

/// Opens a subscription as soon as the server is ready, however long that takes.
async fn open(
    server: Arc<Server>,
    filter: SubscriptionFilter,
    options: SubscribeOptions,
    wake: Wake,
) -> Result<Opened, CallError> {
    loop {
        let seen = server.moves();
        match server.state() {
            State::Ready { .. } => break,
            State::Dormant { why } if wake == Wake::IfAsleep || why != DormantReason::NotNeededYet => {
                server.orders.give(|wishes| wishes.demand = true);
            }
            state if is_over(state) => return Err(server.over(CallOutcome::NotSent)),
            _ => {}
        }
        server.moved_since(seen).await;
    }
    crate::call::subscribe(&Target::new(&server, Ask::Never), filter, options).await
}

/// Why a subscription has ended. The owner of the connection is about to know it, if it does not yet.
///
/// Cancel safe: nothing is taken.
async fn why(end: &SubscriptionEnd, fate: Option<&Fate>) -> Interruption {
    match (end, fate) {
        (SubscriptionEnd::SessionGone(_), Some(fate)) => Interruption::clone(&*fate.wait().await),
        // Another connection stood before it was open.
        (SubscriptionEnd::SessionGone(closed), None) => {
            Interruption::Lost(Arc::new(Failure::Lost(closed.clone())))
        }
        (end, _) => Interruption::Subscription(end.clone()),
    }
}

fn is_over(state: State) -> bool {
    matches!(state, State::Draining | State::Stopped)
}

/// What an error means for good; the error itself if it may pass.
fn end_of(error: CallError) -> Result<FollowEnd, CallError> {
    use mcp_session::CallError as Error;
    match &error {
        CallError::Removed { .. } => Ok(FollowEnd::Removed),
        CallError::ShuttingDown { .. } => Ok(FollowEnd::ShuttingDown),
        CallError::Session { error: Error::Unsupported { .. }, .. } => Ok(FollowEnd::Unsupported(error)),
        CallError::Session { error: Error::Peer(_) | Error::Encode(_), .. } => Ok(FollowEnd::Refused(error)),
        CallError::Session { error: Error::Http(rejection), .. }
            if matches!(rejection.status, 400..500) && !matches!(rejection.status, 401 | 403 | 408 | 429) =>
        {
            Ok(FollowEnd::Refused(error))
        }
        _ => Err(error),
    }
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following")
            .field("server", &self.server.name)
            .field("is_open", &matches!(self.step, Step::Open { .. }))
            .finish_non_exhaustive()
    }
}
