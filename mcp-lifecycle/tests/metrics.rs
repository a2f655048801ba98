//! What a collector gets through the facade `metrics`.
#![cfg(feature = "metrics")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mcp_session::CallOptions;
use mcp_transport::testing::ServerScript;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use support::{Bench, echo, in_seconds, plain, tool};

/// Keeps each counter under its name and labels.
#[derive(Default)]
struct Collector(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder for Collector {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        let mut counters = self.0.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn calls_and_moves_are_counted_for_whoever_collects_them() {
    let collector = Collector::default();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&collector, || {
        runtime.block_on(async {
            let mut bench = Bench::new();
            let server = bench.add("one", &ServerScript::legacy(), plain());
            for _ in 0..3 {
                server.call(echo(), CallOptions::default()).await.unwrap();
            }
            server.call(tool("error"), CallOptions::default()).await.unwrap_err();
            let short = CallOptions::default().with_deadline(in_seconds(1));
            server.call(tool("hang"), short).await.unwrap_err();
            bench.end().await;
        });
    });
    let counters = collector.0.lock().unwrap();
    let counted: Vec<_> =
        counters.iter().map(|(name, count)| format!("{name}: {}", count.load(Ordering::Relaxed))).collect();
    assert_eq!(
        counted,
        [
            "mcp_calls_total server=one outcome=failed: 1",
            "mcp_calls_total server=one outcome=succeeded: 3",
            "mcp_calls_total server=one outcome=timed_out: 1",
            "mcp_server_moves_total server=one state=connecting: 1",
            "mcp_server_moves_total server=one state=draining: 1",
            "mcp_server_moves_total server=one state=ready: 1",
            "mcp_server_moves_total server=one state=stopped: 1",
        ]
    );
}
