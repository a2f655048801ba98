use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mcp_proto::RequestId;
use memchr::memchr2;
use tokio::time::{Instant, timeout_at};

use super::link::Link;
use crate::error::{CloseReport, Ending, Full, SendError};
use crate::transport::{Abandoned, Outbound, Sent, Streams, Transport};

/// The sending half of a stdio connection.
pub(super) struct StdioTransport {
    link: Arc<Link>,
}

impl StdioTransport {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    /// Refuses what is too long, and keeps a frame on one line.
    fn check(&self, mut message: Outbound) -> Result<Outbound, SendError> {
        let limit = self.link.limits.max_frame_bytes;
        if message.frame.len() > limit {
            return Err(SendError::TooLarge { limit });
        }
        if memchr2(b'\n', b'\r', &message.frame).is_some() {
            message.frame = on_one_line(&message.frame);
        }
        Ok(message)
    }

    /// Starts the closing, or makes one that is under way faster.
    async fn begin_stop(&self, by: Instant) {
        let now = Instant::now();
        let is_first = {
            let mut closing = self.link.closing();
            let is_first = closing.began.is_none();
            closing.began.get_or_insert(now);
            is_first
        };
        if !is_first {
            if self.link.closing().is_stopping {
                self.link.process.begin_stop(self.link.limits.graces, by);
            }
            return;
        }
        let stop = Stop { link: &self.link, by };
        self.link.begin_close();
        // From here on nobody reads for a session; the server must be able to write all the same.
        self.link.discard_output();
        let flush_by = now.checked_add(self.link.limits.flush).map_or(by, |end| end.min(by));
        // Running out of time means that the server does not read: then it loses what is queued.
        let _ = timeout_at(flush_by, poll_fn(|cx| self.link.poll_flush(cx))).await;
        drop(stop);
    }
}

#[async_trait]
impl Transport for StdioTransport {
    fn streams(&self) -> Streams {
        Streams::Shared
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        if let Some(message) = self.try_send(message)? {
            self.link.send_in_turn(message).await?;
        }
        Ok(Sent::Queued)
    }

    fn try_send(&self, message: Outbound) -> Result<Option<Outbound>, SendError> {
        self.link.try_send(self.check(message)?)
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        let message = self.check(message).map_err(|_| Full)?;
        self.link.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        self.link.abandon(id, notice)
    }

    fn insist(&self, message: Outbound) -> Result<(), Full> {
        self.link.insist(message)
    }

    async fn close(&self, by: Instant) -> CloseReport {
        self.begin_stop(by).await;
        let mut end = self.link.process.end();
        let ended = timeout_at(by, end.wait_for(Option::is_some)).await;
        let ended = ended.ok().and_then(Result::ok).and_then(|end| *end);
        if ended.is_none() {
            self.link.process.kill();
        }
        let mut closing = self.link.closing();
        let elapsed = closing.began.map_or(Duration::ZERO, |began| began.elapsed());
        let report = closing.report.get_or_insert_with(|| match ended {
            Some(end) => CloseReport::new(end.ending, end.exit, elapsed),
            None => CloseReport::new(Ending::Abandoned, None, elapsed),
        });
        report.clone()
    }
}

impl fmt::Debug for StdioTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioTransport").field("process", &self.link.process).finish_non_exhaustive()
    }
}

/// Closes standard input and starts the ladder when it is dropped: at the end of the flush, or when
/// whoever closes goes away in the middle of it.
struct Stop<'a> {
    link: &'a Link,
    by: Instant,
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.link.closing().is_stopping = true;
        self.link.stop(self.by);
    }
}

/// Line ends in JSON can only be white space between tokens.
fn on_one_line(frame: &Bytes) -> Bytes {
    let without = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    frame.iter().map(without).collect()
}
