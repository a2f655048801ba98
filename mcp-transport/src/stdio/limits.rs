use std::time::Duration;

use crate::process::Graces;

/// Limits of one stdio connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioLimits {
    /// Largest message in either direction, in bytes; 16 MiB.
    pub max_frame_bytes: usize,
    /// Messages that may wait to be written; 256. Beyond it, senders wait in line. Notices and
    /// answers to the server have 1024 more.
    pub queued_frames: usize,
    /// Bytes that may wait to be written; 4 MiB. One message is always taken, however long. Notices
    /// and answers to the server have 256 KiB more.
    pub queued_bytes: usize,
    /// How long frames that are still queued may take to be written when the connection closes, before
    /// standard input is closed; 100 ms.
    pub flush: Duration,
    /// How long each rung of the stop ladder lasts.
    pub graces: Graces,
}

impl Default for StdioLimits {
    fn default() -> Self {
        Self {
            max_frame_bytes: 16 * 1024 * 1024,
            queued_frames: 256,
            queued_bytes: 4 * 1024 * 1024,
            flush: Duration::from_millis(100),
            graces: Graces::default(),
        }
    }
}

impl StdioLimits {
    /// Sets the largest message in either direction, in bytes.
    #[must_use]
    pub fn with_max_frame_bytes(mut self, bytes: usize) -> Self {
        self.max_frame_bytes = bytes;
        self
    }

    /// Sets how many messages, and how many bytes of them, may wait to be written.
    #[must_use]
    pub fn with_queue(mut self, frames: usize, bytes: usize) -> Self {
        (self.queued_frames, self.queued_bytes) = (frames, bytes);
        self
    }

    /// Sets how long queued frames may take to be written when the connection closes.
    #[must_use]
    pub fn with_flush(mut self, grace: Duration) -> Self {
        self.flush = grace;
        self
    }

    /// Sets how long each rung of the stop ladder lasts.
    #[must_use]
    pub fn with_graces(mut self, graces: Graces) -> Self {
        self.graces = graces;
        self
    }
}
