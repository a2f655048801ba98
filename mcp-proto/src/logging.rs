use crate::message::message;
use crate::method::Method;
use crate::open_enum::open_enum;
use crate::other_members::OtherMembers;
use crate::ping::EmptyResult;
use crate::raw_json::RawJson;
use crate::request::{Notification, Request};

message! {
    /// Sets the lowest level of log messages that are wanted (until 2025-11-25).
    ///
    /// A modern request says it in its own `_meta`, as
    /// [`meta_key::LOG_LEVEL`](crate::meta_key::LOG_LEVEL).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, server/utilities/logging.
    #[derive(Debug, Clone, PartialEq, Eq)]
    SetLogLevel skipping "_meta" {
        /// The lowest level that is wanted.
        level: LogLevel = "level", Required;
    }
}

message! {
    /// A log line of the server; in all versions.
    ///
    /// Since 2026-07-28 only about a request that asked for it, on that request's stream.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/utilities/logging.
    #[derive(Debug, Clone, PartialEq, Eq)]
    LogMessage {
        /// How grave it is.
        level: LogLevel = "level", Required;
        /// Which part of the server speaks; untrusted.
        logger: Option<String> = "logger", Hint;
        /// What it says: any JSON value, as received; untrusted. `null` where the server wrote none.
        data: RawJson = "data", OrNull;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
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

impl SetLogLevel {
    /// Asks for messages of `level` and graver.
    #[must_use]
    pub fn new(level: LogLevel) -> Self {
        Self { level, other: OtherMembers::default() }
    }
}

impl LogLevel {
    /// The number of RFC 5424, from 0 (emergency) to 7 (debug); `None` for an unknown level.
    #[must_use]
    pub fn severity(&self) -> Option<u8> {
        match self {
            Self::Emergency => Some(0),
            Self::Alert => Some(1),
            Self::Critical => Some(2),
            Self::Error => Some(3),
            Self::Warning => Some(4),
            Self::Notice => Some(5),
            Self::Info => Some(6),
            Self::Debug => Some(7),
            Self::Other(_) => None,
        }
    }
}

impl Request for SetLogLevel {
    const METHOD: Method = Method::LOGGING_SET_LEVEL;
    type Result = EmptyResult;
}

impl Notification for LogMessage {
    const METHOD: Method = Method::LOG_MESSAGE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_written_as_rfc_5424_names_them() {
        let names = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];
        for (severity, name) in (0..).zip(names) {
            let level = LogLevel::from(name);
            assert_eq!(level.severity(), Some(severity));
            let written = serde_json::to_string(&SetLogLevel::new(level)).unwrap();
            assert_eq!(written, format!(r#"{{"level":"{name}"}}"#));
        }
        assert_eq!(LogLevel::from("loud").severity(), None);
    }

    #[test]
    fn a_message_without_data_is_kept() {
        let read: LogMessage = serde_json::from_str(r#"{"level":"info","logger":7}"#).unwrap();
        assert_eq!((read.logger, read.data), (None, RawJson::null()));
        assert!(serde_json::from_str::<LogMessage>(r#"{"data":1}"#).is_err());
    }
}
