use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::stream::{FuturesUnordered, SelectAll};
use tokio::time::timeout;

use super::exchange;
use super::link::{Link, PostGuard};
use super::stream::EventStream;
use crate::error::{CloseReason, Closed};
use crate::transport::{Inbound, Outbound, Receive, Sent};

/// Entries that one poll hands up at most.
const MAX_ENTRIES: usize = 256;

/// Messages without a waiter that are under way at the same time.
const MAX_POSTS: usize = 16;

type Post = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The receiving half of an HTTP connection: reads every stream of events, and sends the messages
/// that nobody waits for.
pub(super) struct HttpReceive {
    link: Arc<Link>,
    streams: SelectAll<EventStream>,
    posts: FuturesUnordered<Post>,
}

impl HttpReceive {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link, streams: SelectAll::new(), posts: FuturesUnordered::new() }
    }

    /// Takes over what the sending half has left to do.
    fn take_work(&mut self, cx: &Context<'_>) -> Result<(), Closed> {
        let work = self.link.take_work(MAX_POSTS.saturating_sub(self.posts.len()), cx);
        for stream in work.streams {
            self.streams.push(EventStream::new(Arc::clone(&self.link), stream));
        }
        for message in work.posts {
            self.posts.push(Box::pin(deliver(Arc::clone(&self.link), message)));
        }
        work.closed.map_or(Ok(()), Err)
    }
}

/// Sends one message that nobody waits for; if that fails, a log line is all there is to do.
pub(super) async fn deliver(link: Arc<Link>, message: Outbound) {
    let _done = PostGuard(&link);
    match timeout(link.limits.post_limit, exchange::tell(&link, message)).await {
        Ok(Ok(Sent::Queued)) => {}
        Ok(Ok(Sent::Rejected(rejection))) => {
            tracing::debug!(%rejection, endpoint = %link.endpoint, "the server refused a notice");
        }
        Ok(Ok(other)) => tracing::debug!(?other, endpoint = %link.endpoint, "a notice may not have arrived"),
        Ok(Err(error)) => tracing::debug!(%error, endpoint = %link.endpoint, "a notice was not sent"),
        Err(_) => tracing::warn!(endpoint = %link.endpoint, "a notice was not taken in time"),
    }
}

impl Receive for HttpReceive {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        self.take_work(cx)?;
        while let Poll::Ready(Some(())) = self.posts.poll_next_unpin(cx) {
            // There is room for another one.
            self.take_work(cx)?;
        }
        let before = into.len();
        while into.len() < before + MAX_ENTRIES
            && let Poll::Ready(Some(inbound)) = self.streams.poll_next_unpin(cx)
        {
            into.push(inbound);
        }
        if into.len() > before { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl Drop for HttpReceive {
    /// Nobody will read a stream any more.
    fn drop(&mut self) {
        self.link.shut(CloseReason::Local);
        self.link.end_lanes();
    }
}

impl fmt::Debug for HttpReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpReceive")
            .field("link", &self.link)
            .field("streams", &self.streams.len())
            .field("posts", &self.posts.len())
            .finish()
    }
}
