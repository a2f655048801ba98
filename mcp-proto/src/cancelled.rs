use crate::id::RequestId;
use crate::message::message;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::raw_json::RawJson;
use crate::request::Notification;

message! {
    /// Says that the answer to a request is no longer wanted; in all versions.
    ///
    /// On modern HTTP it is not sent at all: there the response stream is dropped. From a modern server it
    /// ends a subscription and nothing else.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/cancellation.
    #[derive(Debug, Clone, PartialEq, Eq)]
    Cancelled {
        /// Which request, by the id its sender gave it.
        request_id: RequestId = "requestId", Required;
        /// Why, for a log; untrusted when received.
        reason: Option<String> = "reason", Hint;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

impl Cancelled {
    /// Cancels `request_id`.
    #[must_use]
    pub fn new(request_id: RequestId) -> Self {
        Self { request_id, reason: None, meta: None, other: OtherMembers::default() }
    }

    /// Says why.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl Notification for Cancelled {
    const METHOD: Method = Method::CANCELLED;
}
