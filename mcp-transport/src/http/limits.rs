use std::time::Duration;

/// Limits of one HTTP connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Largest message in either direction, in bytes; 16 MiB.
    pub max_message_bytes: usize,
    /// Largest body that is read for the sake of an error or of nothing, in bytes; 64 KiB.
    pub max_error_bytes: usize,
    /// Messages that nobody waits for (answers to the server) and that may wait to be sent; 64. Beyond that
    /// they are dropped.
    pub queued_posts: usize,
    /// Cancels that may wait to be sent, beside those; 1024, as many as a session has calls by default, since
    /// all of them may be given up at once. Beyond that the connection is closed.
    pub queued_cancels: usize,
    /// How long one such message, or any answer to the server, may take in all; 10 s.
    pub post_limit: Duration,
    /// How long such messages may still take when the connection is closed; 1 s.
    pub flush_grace: Duration,
    /// How long telling the server that the session has ended may take; 2 s.
    pub delete_limit: Duration,
    /// How long a stream may stay open after it has brought the answer; 1 s.
    pub linger: Duration,
    /// How long a legacy handshake waits for the server's own stream to be open; 500 ms. What such a
    /// server says that takes longer is heard as soon as the stream is open.
    pub listen_limit: Duration,
    /// Redirects followed for one request, all on the same origin; 5.
    pub max_redirects: usize,
    /// Attempts in a row, without an event in between, to go on with a stream; 5.
    pub max_resumptions: u32,
    /// First pause before a stream is opened again if the server has not asked for one; 1 s. Doubles
    /// with each attempt, up to 30 s.
    pub resume_pause: Duration,
    /// Pause before the server's own stream is tried again after it was given up; 60 s.
    pub relisten_pause: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_message_bytes: 16 * 1024 * 1024,
            max_error_bytes: 64 * 1024,
            queued_posts: 64,
            queued_cancels: 1024,
            post_limit: Duration::from_secs(10),
            flush_grace: Duration::from_secs(1),
            delete_limit: Duration::from_secs(2),
            linger: Duration::from_secs(1),
            listen_limit: Duration::from_millis(500),
            max_redirects: 5,
            max_resumptions: 5,
            resume_pause: Duration::from_secs(1),
            relisten_pause: Duration::from_secs(60),
        }
    }
}

impl HttpLimits {
    /// Sets the largest message in either direction, in bytes.
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets how many cancels may wait to be sent.
    #[must_use]
    pub fn with_queued_cancels(mut self, cancels: usize) -> Self {
        self.queued_cancels = cancels;
        self
    }

    /// Sets the first pause before a stream is opened again.
    #[must_use]
    pub fn with_resume_pause(mut self, pause: Duration) -> Self {
        self.resume_pause = pause;
        self
    }

    /// Sets the pause before the server's own stream is tried again after it was given up.
    #[must_use]
    pub fn with_relisten_pause(mut self, pause: Duration) -> Self {
        self.relisten_pause = pause;
        self
    }

    /// Sets how long a stream may stay open after it has brought the answer.
    #[must_use]
    pub fn with_linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Sets how long a legacy handshake waits for the server's own stream to be open.
    #[must_use]
    pub fn with_listen_limit(mut self, limit: Duration) -> Self {
        self.listen_limit = limit;
        self
    }
}
