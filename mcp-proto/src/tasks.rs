use crate::message::message;

message! {
    /// Asks for a task instead of an answer (2025-11-25 only).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    TaskRequest {
        /// How long the task is to be kept, in milliseconds.
        ttl_ms: Option<u64> = "ttl", Hint;
    }
}
