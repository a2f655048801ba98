//! What a call costs: allocations and wake-ups. A guard against regressions, no benchmark.
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
use std::task::Poll;

use mcp_proto::{CallTool, Method, Payload};
use mcp_session::{CallOptions, EraPolicy};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::echo::opened;
use support::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The most allocations of one call, from its request to its undecoded answer.
///
/// One is the frame, one is the slot, one is made by the parser, and two are the answer of the echo; what
/// is sent without a wait costs none. In the modern era one more reads the type of the result, and two
/// keep what a further round would need.
const MOST_ALLOCATIONS: [(EraPolicy, usize); 2] = [(EraPolicy::Legacy, 5), (EraPolicy::Modern, 8)];

#[test]
fn a_call_costs_few_allocations_and_wakes_its_caller_once() {
    for (era, most) in MOST_ALLOCATIONS {
        measure(era, most);
    }
}

fn measure(era: EraPolicy, most: usize) {
    const CALLS: usize = 1000;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let session = opened(era).await;
        let params = Payload::encode(&CallTool::new("x")).unwrap();
        let options = CallOptions::default().with_timeout(seconds(30));
        let call = || session.call_raw(Method::TOOLS_CALL, params.clone(), options.clone());
        for _ in 0..100 {
            call().await.unwrap();
        }
        let region = Region::new(ALLOCATOR);
        for _ in 0..CALLS {
            call().await.unwrap();
        }
        let change = region.change();
        // The threads of the test harness allocate a little now and then.
        let kept = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
        assert!(kept < 4 * CALLS, "{era:?}: {kept} bytes are kept of {CALLS} calls");
        let each = change.allocations / CALLS;
        assert!(each <= most, "{era:?}: {each} allocations a call");

        let mut counted = ByHand::new(call());
        assert!(counted.poll().is_pending());
        settle().await;
        assert_eq!(counted.wakes(), 1);
        let Poll::Ready(Ok(answer)) = counted.poll() else { panic!("no answer") };
        assert_eq!(serde_json::from_str::<Value>(answer.as_str()).unwrap(), said("x"));
    });
}
