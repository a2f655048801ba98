//! What a server can make us keep. Alone in its process, since it measures all of it.
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

use mcp_proto::CallTool;
use mcp_session::{CallOptions, SessionOptions};
use mcp_transport::testing::MemoryOptions;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// P7: whatever a server sends, what is kept of it stays within the documented limits.
#[test]
fn f026_a_flood_of_long_messages_keeps_a_bounded_amount() {
    const MIB: usize = 1024 * 1024;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let memory = MemoryOptions::default().with_inbound(2);
        let it = legacy_with(SessionOptions::default(), memory).await;
        let options = CallOptions::default().with_progress(drop);
        let mut call = ByHand::new(it.session.call(CallTool::new("x"), options));
        assert!(call.poll().is_pending());
        let token = it.peer.expect("tools/call").await.value["id"].clone();
        settle().await;
        let region = Region::new(ALLOCATOR);
        for round in 0..4 {
            let text = "x".repeat(if round % 2 == 0 { MIB / 3 } else { 2 * MIB });
            let log = json!({"level": "info", "logger": text, "data": text});
            let progress = json!({
                "progressToken": token, "progress": round, "message": text,
                "_meta": {"example.com/x": text}, "unknown": text,
            });
            for (method, params) in
                [("notifications/message", log), ("notifications/progress", progress), (&text, Value::Null)]
            {
                it.peer.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
            }
            let batch = format!("[{}]", vec!["7"; 1000].join(","));
            it.peer.send_raw(batch).await;
            it.peer.send(json!({"jsonrpc": "2.0", "id": round + 1000, "result": text})).await;
            drop(text);
            settle().await;
            let change = region.change();
            let kept = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
            assert!(kept < 2 * MIB, "{kept} bytes are kept after round {round}");
        }
    });
}
