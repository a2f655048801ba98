use serde::{Deserialize, Serialize};

use crate::id::RequestId;
use crate::lenient;
use crate::method::Method;
use crate::open_enum::open_enum;
use crate::raw_json::RawJson;
use crate::request::Notification;

/// Says that the answer to a request is no longer wanted.
///
/// On modern HTTP it is not sent at all: there the response stream is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cancelled {
    /// Which request, by the id its sender gave it.
    pub request_id: RequestId,
    /// Why, for a log; untrusted when received.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Says how far a request has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Progress {
    /// Which request, by the token that its `_meta` carried.
    pub progress_token: RequestId,
    /// How far it is; grows from notification to notification.
    pub progress: f64,
    /// How far it will be at the end, where that is known.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is going on (since 2025-03-26); untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A log line of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogMessage {
    /// How grave it is.
    pub level: LogLevel,
    /// Which part of the server speaks; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What it says: any JSON value, as received; untrusted.
    pub data: RawJson,
}

open_enum! {
    /// How grave a log line is, in the words of RFC 5424.
    LogLevel {
        /// For the author of the server.
        Debug = "debug",
        /// Normal events.
        Info = "info",
        /// Normal but notable events.
        Notice = "notice",
        /// Something may go wrong.
        Warning = "warning",
        /// Something went wrong.
        Error = "error",
        /// A part has failed.
        Critical = "critical",
        /// Someone must act at once.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}

/// The list of tools has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolListChanged {}

/// The list of prompts has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptListChanged {}

/// The list of resources has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceListChanged {}

impl Cancelled {
    /// Cancels `request_id`.
    #[must_use]
    pub fn new(request_id: RequestId) -> Self {
        Self { request_id, reason: None }
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

impl Notification for Progress {
    const METHOD: Method = Method::PROGRESS;
}

impl Notification for LogMessage {
    const METHOD: Method = Method::LOG_MESSAGE;
}

impl Notification for ToolListChanged {
    const METHOD: Method = Method::TOOLS_LIST_CHANGED;
}

impl Notification for PromptListChanged {
    const METHOD: Method = Method::PROMPTS_LIST_CHANGED;
}

impl Notification for ResourceListChanged {
    const METHOD: Method = Method::RESOURCES_LIST_CHANGED;
}
