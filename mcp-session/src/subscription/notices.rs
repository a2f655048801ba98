//! Notices about changes, sent to the subscriptions that they belong to.

use std::sync::Arc;

use mcp_proto::tasks::Task;
use mcp_proto::{
    Era, Method, Payload, RequestId, ResourceUpdated, SubscriptionAcknowledged, subscription_id,
};

use crate::error::{CallError, ProtocolFault};
use crate::inbox::ListKind;
use crate::shared::{Entry, Role, Shared};
use crate::slot::Tried;
use crate::subscription::lane::Put;
use crate::subscription::{SubscriptionEnd, SubscriptionEvent, SubscriptionLane};

/// Whom a notice is for.
enum For {
    /// Everybody: it names no subscription.
    All,
    /// Nobody that is known here.
    Nobody,
    One(Arc<SubscriptionLane>),
}

impl Shared {
    /// The server has begun a subscription.
    pub(crate) fn on_acknowledged(&self, params: &Payload, stream: Option<&RequestId>) {
        let (Some(id), Ok(notice)) =
            (self.listen_id(params, stream), params.decode::<SubscriptionAcknowledged>())
        else {
            return self.count_stray(Put::Stray);
        };
        let Some(lane) = self.lane(id) else { return self.count_stray(Put::Stray) };
        // From here on it has no deadline; nobody is told before that.
        self.table().never_expire(id);
        self.count_stray(lane.acknowledge(&notice.notifications));
    }

    pub(crate) fn on_list_changed(&self, kind: ListKind, params: &Payload, stream: Option<&RequestId>) {
        let event = SubscriptionEvent::ListChanged(kind);
        match self.addressee(params, stream) {
            For::One(lane) => {
                let put = lane.put(event, 0);
                self.count_stray(put);
                if put == Put::Taken {
                    self.inbox.announce(kind);
                }
            }
            For::All => {
                for lane in self.unsolicited.lanes() {
                    lane.put(event.clone(), 0);
                }
                self.inbox.announce(kind);
            }
            For::Nobody => self.count_stray(Put::Stray),
        }
    }

    pub(crate) fn on_resource_updated(&self, params: &Payload, stream: Option<&RequestId>) {
        let Ok(ResourceUpdated { uri, .. }) = params.decode() else {
            self.counts.ignored_notifications.add();
            return;
        };
        let bytes = uri.len();
        match self.addressee(params, stream) {
            For::One(lane) => self.count_stray(lane.put(SubscriptionEvent::ResourceUpdated(uri), bytes)),
            For::All => {
                let mut put = Put::Stray;
                for lane in self.unsolicited.lanes() {
                    if lane.put(SubscriptionEvent::ResourceUpdated(uri.clone()), bytes) == Put::Taken {
                        put = Put::Taken;
                    }
                }
                self.count_stray(put);
            }
            For::Nobody => self.count_stray(Put::Stray),
        }
    }

    /// A task has changed: a hint to ask about it for whoever follows it, and news for the subscription that
    /// names the task.
    pub(crate) fn on_task_changed(&self, params: &Payload, stream: Option<&RequestId>) {
        let whom = self.addressee(params, stream);
        let followed = &self.tasks.followed;
        if matches!(whom, For::All) && followed.is_empty() {
            self.counts.ignored_notifications.add();
            return;
        }
        let Ok(task) = params.decode::<Task>() else {
            self.counts.ignored_notifications.add();
            return;
        };
        // What it says is not relied on: an older one may come late.
        let is_followed = followed.wake(&task.task_id);
        match whom {
            For::One(lane) => {
                let event = SubscriptionEvent::TaskChanged(Box::new(self.discreet_task(task)));
                self.count_stray(lane.put(event, params.as_bytes().len()));
            }
            For::Nobody if !is_followed => self.count_stray(Put::Stray),
            For::All if !is_followed => {
                self.counts.ignored_notifications.add();
            }
            For::All | For::Nobody => {}
        }
    }

    /// The server withdraws a subscription of the modern era; `false` if there is none of this id.
    pub(crate) fn withdraw_subscription(&self, id: &RequestId, stream: Option<&RequestId>) -> bool {
        let RequestId::Number(number) = *id else { return false };
        if stream.is_some_and(|stream| stream != id) || self.lane(number).is_none() {
            return false;
        }
        let taken = self.table().remove(number);
        let Some(entry) = taken else { return false };
        if let Entry { role: Role::Subscription(lane), slot, .. } = &entry {
            lane.end(SubscriptionEnd::Cancelled);
            // Where the request has a stream of its own, that goes; nothing is said to the server.
            if slot.stop_sending() == Tried::Yes {
                self.transport.abandon(id, None);
            }
        }
        self.answer(entry, Err(CallError::Protocol(ProtocolFault::NotAcknowledged)));
        true
    }

    /// What the answer to its request means for a subscription.
    pub(crate) fn end_of_subscription(&self, answer: Result<Payload, CallError>) -> SubscriptionEnd {
        let streams = self.transport.streams();
        let reply = answer.and_then(|result| match self.agreed.get() {
            Some(agreed) => agreed.reply(streams, &Method::SUBSCRIPTIONS_LISTEN, result).map(drop),
            None => Ok(()),
        });
        reply.map_or_else(SubscriptionEnd::from, |()| SubscriptionEnd::Completed)
    }

    fn addressee(&self, params: &Payload, stream: Option<&RequestId>) -> For {
        if self.agreed.get().is_none_or(|agreed| agreed.peer().era == Era::Legacy) {
            return For::All;
        }
        if stream.is_none() && subscription_id(params).is_none() {
            // A server that tells a change and forgets whom: harmless, and nobody's subscription.
            return For::All;
        }
        self.listen_id(params, stream).and_then(|id| self.lane(id)).map_or(For::Nobody, For::One)
    }

    /// The subscription that a notice names. On a stream of its own it need not name it, but must not
    /// name another.
    fn listen_id(&self, params: &Payload, stream: Option<&RequestId>) -> Option<i64> {
        let id = match (subscription_id(params), stream) {
            (Some(id), Some(stream)) if id != *stream => return None,
            (Some(id), _) => id,
            (None, stream) => stream?.clone(),
        };
        match id {
            RequestId::Number(id) => Some(id),
            RequestId::String(_) => None,
        }
    }

    /// The subscription whose request has this id.
    fn lane(&self, id: i64) -> Option<Arc<SubscriptionLane>> {
        match &self.table().get(id)?.role {
            Role::Subscription(lane) => Some(Arc::clone(lane)),
            Role::Call | Role::Question | Role::Task(_) => None,
        }
    }

    fn count_stray(&self, put: Put) {
        if put == Put::Stray && self.counts.stray_notices.add() {
            tracing::debug!("the server tells of a change that no subscription can have");
        }
    }
}
