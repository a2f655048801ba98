//! What a session keeps while nothing happens on it. Alone in its process, since it measures all of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::alloc::System;

use mcp_proto::{CallTool, Method, Payload};
use mcp_session::{CallOptions, EraPolicy, Session};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::echo::opened;
use support::*;
use tokio::time::advance;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Most bytes that a session may keep of the calls that have ended, beside what it had before the first: what
/// the allocator counts of the test harness, now and then.
const SLACK: isize = 200;

async fn call(session: &Session) {
    let params = Payload::encode(&CallTool::new("x")).unwrap();
    let options = CallOptions::default().with_timeout(seconds(30));
    session.call_raw(Method::TOOLS_CALL, params, options).await.unwrap();
}

fn growth(region: &Region<'_, System>) -> isize {
    let change = region.change();
    change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed()
}

#[test]
fn an_idle_session_keeps_nothing_of_its_calls() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let session = opened(EraPolicy::Legacy).await;
        session.trim();
        settle().await;
        let region = Region::new(ALLOCATOR);
        call(&session).await;
        settle().await;
        let busy = growth(&region);
        assert!(busy > 1000, "{busy} bytes are kept for the next call");
        session.trim();
        settle().await;
        assert!(growth(&region) < SLACK, "{} bytes after it was asked to", growth(&region));

        call(&session).await;
        settle().await;
        assert!(growth(&region) > 1000);
        advance(seconds(31)).await;
        settle().await;
        assert!(growth(&region) < SLACK, "{} bytes when the time of the call is over", growth(&region));

        let mut waiting = ByHand::new(Box::pin(call(&session)));
        assert!(waiting.poll().is_pending());
        let busy = growth(&region);
        session.trim();
        settle().await;
        assert!(waiting.poll().is_ready(), "a call that waits is left alone");
        assert!(growth(&region) > 1000 && busy > 1000);
    });
}
