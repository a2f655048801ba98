mod interests;
mod lane;
mod listen;
mod notices;
mod unsolicited;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use mcp_proto::tasks::Task;
use mcp_proto::{Era, SubscriptionFilter};
use mcp_transport::{BrokenWhy, Closed};

use crate::call::RawCall;
use crate::error::{CallError, ProtocolFault};
use crate::inbox::ListKind;
use crate::session::Session;

pub(crate) use lane::SubscriptionLane;
pub(crate) use unsolicited::Unsolicited;

use unsolicited::Member;

/// What a server tells of changes, until it ends: made by [`Session::subscribe`].
///
/// A stream of events, in the order in which they came. What waits is bounded: a list that changes
/// again before its event was taken is told once, and so are a resource, and a task as it was last. Its last event is
/// [`SubscriptionEvent::Ended`], always and once; then comes `None`.
///
/// There is no replay. What changed between two subscriptions is not told: fetch what depends on it
/// anew once a subscription is open.
///
/// Dropping it ends the subscription without waiting for the server, which is told in the way of its
/// era and transport.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    lane: Arc<SubscriptionLane>,
    honoured: SubscriptionFilter,
    /// What ends with the subscription; `None` once we have closed it.
    source: Option<Source>,
}

/// What keeps a subscription alive.
enum Source {
    /// The request that lives as long as it does (modern era).
    Listen(Box<RawCall>),
    /// A place among those that a legacy server tells unasked; the drop gives it up.
    Member { _place: Member },
}

/// What a subscription tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SubscriptionEvent {
    /// The subscription is over; nothing follows.
    Ended(SubscriptionEnd),
    /// More resources or tasks have changed than can wait, and which is not known: read those that matter
    /// anew, and ask about the tasks. It stands for all changes of both that came before it was taken; the
    /// subscription goes on.
    Lagged,
    /// A list has changed: fetch it again.
    ListChanged(ListKind),
    /// The resource of this address has changed: one of those that were subscribed to, or one that such
    /// a resource holds. Untrusted.
    ResourceUpdated(String),
    /// One of the tasks that were named has changed, and is as it says here (modern era, extension tasks).
    /// Untrusted.
    TaskChanged(Box<Task>),
}

/// Why a subscription is over.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionEnd {
    /// The server has withdrawn it with a notice (modern era).
    #[error("the server has cancelled the subscription")]
    Cancelled,
    /// We have closed it.
    #[error("the subscription was closed")]
    Closed,
    /// The server has ended it in good order, with a result (modern era).
    #[error("the server has ended the subscription")]
    Completed,
    /// The server has ended it with an error, or with something that is no answer (modern era).
    #[error("the subscription failed: {0}")]
    Failed(CallError),
    /// Its own connection has ended, and the server has not said why; the session stays usable (modern
    /// era over HTTP).
    #[error("the connection of the subscription was lost")]
    Lost,
    /// The session has ended.
    #[error("the session has ended: {0}")]
    SessionGone(Closed),
}

/// How a subscription opens and what its limits are.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SubscribeOptions {
    /// How long the server may take to agree to all of it; default 10 s.
    pub open_limit: Duration,
    /// How many changed resources may wait to be taken; default 256, 1 MiB of addresses in all. Beyond
    /// that they become one [`SubscriptionEvent::Lagged`]. Changed tasks share those bytes.
    pub max_resources: usize,
}

impl Session {
    /// Asks to be told of the changes that `filter` names.
    ///
    /// In the modern era this is one request that lives as long as the subscription; it is open once the
    /// server has acknowledged it. In the legacy era changed lists are told to every client unasked, and
    /// the driver asks the server to watch each resource, one after the other; subscriptions to the same
    /// resource share one such request, and one that nobody polls keeps no other one waiting. A legacy server
    /// does not say whom a changed resource concerns: every subscription to resources is told of it.
    ///
    /// What the server has not declared is not asked for; see [`Subscription::honoured`]. That holds for
    /// tasks (`task_ids`) too, which are told of where both sides have declared the extension
    /// ([`SessionOptions::with_tasks`](crate::SessionOptions::with_tasks)). A subscription holds no permit of a
    /// [`Gate`](crate::Gate), has no deadline once it is open, and is not counted by
    /// [`in_flight`](Self::in_flight); in the modern era it takes one of
    /// [`SessionOptions::max_pending`](crate::SessionOptions::max_pending) places.
    ///
    /// # Errors
    ///
    /// - [`CallError::Unsupported`]: nothing of the filter is declared; nothing was sent.
    /// - [`CallError::Timeout`]: the server has not agreed in time; what was sent has been cancelled.
    /// - [`CallError::Protocol`] with
    ///   [`NotAcknowledged`](crate::ProtocolFault::NotAcknowledged): it ended before it began.
    /// - others: as for [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends what has begun of the subscription.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/subscriptions; SEP-2663 (tasks); 2025-11-25, server/resources.
    pub async fn subscribe(
        &self,
        filter: SubscriptionFilter,
        options: SubscribeOptions,
    ) -> Result<Subscription, CallError> {
        let wanted = self.agreed().offered(filter)?;
        match self.peer().era {
            Era::Legacy => unsolicited::join(self, wanted, &options).await,
            Era::Modern => listen::open(self, wanted, &options).await,
        }
    }
}

impl Subscription {
    /// The next event; `None` once [`SubscriptionEvent::Ended`] was taken.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<SubscriptionEvent> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// What the server has promised to tell of what was wanted; with
    /// [`SubscriptionFilter::without`] what it has not.
    #[must_use]
    pub fn honoured(&self) -> &SubscriptionFilter {
        &self.honoured
    }

    /// Ends the subscription as dropping it does, unless it has ended before: the next event is
    /// [`SubscriptionEnd::Closed`] then, and what was not taken is not told.
    pub fn close(&mut self) {
        self.lane.close();
        self.source = None;
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        // The request may be on its way still. How it ends is told to the lane first.
        if let Some(Source::Listen(call)) = &mut self.source {
            let _ended = call.poll_answer(cx);
        }
        self.lane.poll_next(cx)
    }
}

impl Stream for Subscription {
    type Item = SubscriptionEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        self.poll_event(cx)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("honoured", &self.honoured)
            .field("is_closed", &self.source.is_none())
            .finish_non_exhaustive()
    }
}

impl SubscriptionEnd {
    /// Whether it was meant: we have closed it, or the server has, in one of its two ways. Even then wait
    /// a moment before subscribing anew.
    #[must_use]
    pub fn is_graceful(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Closed | Self::Completed)
    }
}

impl From<CallError> for SubscriptionEnd {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Lost | CallError::Protocol(ProtocolFault::Broken(BrokenWhy::NoReply)) => Self::Lost,
            CallError::SessionGone { closed, .. } => Self::SessionGone(closed),
            error => Self::Failed(error),
        }
    }
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self { open_limit: Duration::from_secs(10), max_resources: 256 }
    }
}

impl SubscribeOptions {
    /// Sets how long the server may take to agree.
    #[must_use]
    pub fn with_open_limit(mut self, limit: Duration) -> Self {
        self.open_limit = limit;
        self
    }

    /// Sets how many changed resources may wait to be taken.
    #[must_use]
    pub fn with_max_resources(mut self, resources: usize) -> Self {
        self.max_resources = resources;
        self
    }
}
