use crate::id::RequestId;
use crate::message::message;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::raw_json::RawJson;
use crate::request::Notification;

message! {
    /// Says how far a request has come; in all versions, since 2026-07-28 from servers alone.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/progress.
    #[derive(Debug, Clone, PartialEq)]
    Progress {
        /// Which request, by the token that its `_meta` carried.
        progress_token: RequestId = "progressToken", Required;
        /// How far it is; grows from notification to notification.
        progress: f64 = "progress", Required;
        /// How far it will be at the end, where that is known.
        total: Option<f64> = "total", Hint;
        /// What is going on; untrusted.
        message: Option<String> = "message", Hint, since V2025_03_26;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

impl Progress {
    /// Says of the request with the token `progress_token` that it is at `progress`.
    #[must_use]
    pub fn new(progress_token: RequestId, progress: f64) -> Self {
        Self {
            progress_token,
            progress,
            total: None,
            message: None,
            meta: None,
            other: OtherMembers::default(),
        }
    }

    /// Says how far it will be at the end.
    #[must_use]
    pub fn with_total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Says what is going on.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl Notification for Progress {
    const METHOD: Method = Method::PROGRESS;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProtocolVersion, for_version};

    #[test]
    fn the_first_version_knew_no_message() {
        let progress = Progress::new(7.into(), 0.5).with_total(2.0).with_message("half");
        let written = |version| serde_json::to_string(&*for_version(&progress, version).unwrap()).unwrap();
        assert_eq!(
            written(ProtocolVersion::V2025_03_26),
            r#"{"progressToken":7,"progress":0.5,"total":2.0,"message":"half"}"#
        );
        assert_eq!(
            written(ProtocolVersion::V2024_11_05),
            r#"{"progressToken":7,"progress":0.5,"total":2.0}"#
        );
    }
}
