use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use super::exchange;
use super::link::Link;
use super::receive::deliver;
use crate::error::{CloseReason, CloseReport, Ending};
use crate::profile::HttpProfile;

/// Closes the connection; see [`Transport::close`](crate::Transport::close).
///
/// The work is a task of the connection's own, so that it goes on when a caller goes away.
pub(super) async fn close(link: &Arc<Link>, by: Instant) -> CloseReport {
    let (began, is_first) = link.begin_close();
    if is_first {
        link.jobs.spawn(run(Arc::clone(link), began, by));
    }
    let mut report = link.report.subscribe();
    let told = timeout_at(by, report.wait_for(Option::is_some)).await;
    if let Ok(Ok(report)) = told
        && let Some(report) = &*report
    {
        return report.clone();
    }
    link.shut(CloseReason::Local);
    CloseReport::new(Ending::Abandoned, None, began.elapsed())
}

/// What was queued is sent, streams end, the server is told, connections end.
async fn run(link: Arc<Link>, began: Instant, by: Instant) {
    let flush_by = by.min(began + link.limits.flush_grace);
    if timeout_at(flush_by, flush(&link)).await.is_err() {
        tracing::debug!(endpoint = %link.endpoint, "messages were still waiting when the connection was closed");
    }
    link.end_lanes();
    if link.profile().is_none_or(HttpProfile::has_sessions) && link.has_session() {
        let delete_by = by.min(Instant::now() + link.limits.delete_limit);
        if timeout_at(delete_by, exchange::delete_session(&link)).await.is_err() {
            tracing::debug!(endpoint = %link.endpoint, "the end of the session was not answered in time");
        }
    }
    link.shut(CloseReason::Local);
    let left = link.pool.close(by).await;
    let ending = if left == 0 { Ending::Clean } else { Ending::Abandoned };
    link.report.send_replace(Some(CloseReport::new(ending, None, began.elapsed())));
}

/// Sends what is queued, and waits for what the receiving half has under way.
async fn flush(link: &Arc<Link>) {
    let mut posts: FuturesUnordered<_> =
        link.take_posts(usize::MAX).into_iter().map(|message| deliver(Arc::clone(link), message)).collect();
    while posts.next().await.is_some() {}
    let mut waiting = link.posts.subscribe();
    // Fails only if the sender is gone, and that is ours.
    let _ = waiting.wait_for(|posts| *posts == 0).await;
}
