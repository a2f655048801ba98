//! What is logged of a misbehaving server: once, escaped, without its secrets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use mcp_proto::CallTool;
use mcp_session::CallOptions;
use serde_json::json;
use support::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps every event as a line of text with its level.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Lines {
    fn at(&self, level: Level) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.0 == level).map(|line| line.1.clone()).collect()
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mcp_session")
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push((*event.metadata().level(), text.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn f098_f021_each_kind_of_fault_is_warned_of_once_and_nothing_received_is_shown_raw() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let it = modern().await;
    for round in 0..100 {
        it.peer.send_raw(&b"\x1b[2J\xff secret"[..]).await;
        it.peer.send_raw(r#"{"jsonrpc":"2.0","id":18446744073709551616,"result":{}}"#).await;
        it.peer.respond(format!("\u{1b}[2J{round}").as_str(), json!({})).await;
        it.peer.send(json!({"jsonrpc": "2.0", "id": round, "method": "\u{1b}[2J"})).await;
        it.peer.send(json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "\u{1b}[2J\nline"}})).await;
        it.peer.send(json!({"jsonrpc": "2.0", "method": "\u{1b}[2J", "params": {"secret": 1}})).await;
    }
    settle().await;
    let warned = lines.at(Level::WARN);
    assert_eq!(warned.len(), 3, "{warned:#?}");
    assert!(warned[0].contains("broken"), "{warned:#?}");
    assert!(warned[1].contains("never made"), "{warned:#?}");
    assert!(warned[2].contains("has none"), "{warned:#?}");
    assert_eq!(lines.at(Level::ERROR), [] as [&str; 0]);
    for (_, line) in lines.0.lock().unwrap().iter() {
        assert!(!line.contains(char::is_control) && !line.contains("secret"), "{line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn r108_a_modern_server_that_leaves_out_the_type_of_its_results_is_warned_of_once() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    for (it, warnings) in [(legacy().await, 0), (modern().await, 1)] {
        for _ in 0..3 {
            let answer = async {
                let request = it.peer.expect("tools/call").await;
                it.peer.respond(request.id(), said("done")).await;
            };
            let call = it.session.call(CallTool::new("t"), CallOptions::default());
            tokio::join!(call, answer).0.unwrap();
        }
        let warned = lines.at(Level::WARN);
        assert_eq!(warned.len(), warnings, "{warned:#?}");
        assert!(warned.iter().all(|line| line.contains("count as complete")), "{warned:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_goes_well_warns_of_nothing() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let it = legacy().await;
    it.session.close(soon()).await;
    it.driver.await.unwrap();
    assert_eq!(lines.at(Level::WARN), [] as [&str; 0]);
    assert_eq!(lines.at(Level::ERROR), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn s99_why_a_request_is_cancelled_is_told_to_the_server_and_logged() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let it = legacy().await;
    let call = |timeout| {
        let options = CallOptions::default().with_timeout(seconds(timeout));
        ByHand::new(it.session.call(CallTool::new("t"), options))
    };
    let (mut timed_out, mut dropped, mut closed) = (call(1), call(9), call(9));
    let mut ids = Vec::new();
    for call in [&mut timed_out, &mut dropped, &mut closed] {
        assert!(call.poll().is_pending());
        ids.push(it.peer.expect("tools/call").await.value["id"].clone());
    }
    tokio::time::sleep(seconds(2)).await;
    drop(dropped);
    it.session.close(soon()).await;
    let cancels: Vec<_> = it
        .peer
        .transcript()
        .into_iter()
        .filter(|frame| frame.method() == Some("notifications/cancelled"))
        .collect();
    let reasons = ["no answer in time", "the caller is gone", "the session is closing"];
    assert_eq!(cancels.len(), reasons.len());
    let logged = lines.at(Level::DEBUG);
    for ((cancel, id), reason) in cancels.iter().zip(&ids).zip(reasons) {
        assert_eq!((&cancel.params()["requestId"], &cancel.params()["reason"]), (id, &json!(reason)));
        let is_told = |line: &&String| line.contains(&format!("request_id={id} ")) && line.contains(reason);
        assert_eq!(logged.iter().filter(is_told).count(), 1, "{reason}: {logged:#?}");
    }
}
