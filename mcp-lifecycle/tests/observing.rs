//! What is logged: each change of state and each fault once, with all that helps, and nothing that harms.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use mcp_lifecycle::{BreakerOptions, KeepaliveOptions, ServerEvent};
use mcp_proto::Redactor;
use mcp_session::CallOptions;
use mcp_transport::testing::MemoryConnector;
use mcp_transport::testing::checks::{LogCapture, LogRecord};
use mcp_transport::{CloseReason, ConnectError, Exit};
use serde_json::json;
use support::{Bench, accept, echo, in_seconds, plain, ready, seconds, until};
use tokio::time::sleep;
use tracing::Level;

fn field<'a>(record: &'a LogRecord, name: &str) -> &'a str {
    record.fields.get(name).map_or("", String::as_str)
}

/// The warnings and errors as their text and what comes next.
fn faults(log: &LogCapture) -> Vec<(String, String)> {
    let grave = log.records().into_iter().filter(|record| record.level <= Level::WARN);
    grave.map(|record| (record.message.clone(), field(&record, "next").to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn p13_each_change_of_state_is_one_event_and_one_line() {
    let (log, _guard) = LogCapture::on_this_thread();
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain().with_park_after(2));
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    (0..2).for_each(|_| connector.fail_next(ConnectError::Timeout));
    peer.close(CloseReason::Exited(Exit::Code(3)));
    until(&server, |status| (status.state.name() == "parked").then_some(())).await;
    server.disable();
    server.settled(in_seconds(60)).await;
    let report = bench.supervisor.shutdown().await;
    assert!(report.is_clean());

    let told = bench.states("one");
    let states: Vec<_> = told.iter().map(mcp_lifecycle::State::name).collect();
    let lines: Vec<_> = log.at(Level::INFO);
    let mut logged: Vec<_> = lines
        .iter()
        .filter(|line| line.message == "state changed")
        .map(|line| field(line, "state"))
        .collect();
    let ends = lines.iter().filter(|line| line.message == "server stopped").count();
    assert_eq!(ends, 1);
    logged.push("stopped");
    assert_eq!(logged, states);
    // With no connection there is nothing to drain.
    let expected = ["connecting", "ready", "backoff", "connecting", "parked", "disabled", "stopped"];
    assert_eq!(states, expected);
    for line in lines.iter().filter(|line| line.message == "state changed") {
        assert_eq!(field(line, "server"), "one");
        assert!(!field(line, "generation").is_empty(), "{line}");
        let has_attempt = matches!(field(line, "state"), "connecting" | "backoff");
        assert_eq!(!field(line, "attempt").is_empty(), has_attempt, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn p13_f033_each_fault_is_one_warning_with_server_cause_and_next_step() {
    let (log, _guard) = LogCapture::on_this_thread();
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    (0..5).for_each(|_| connector.fail_next(ConnectError::Timeout));
    let breaker = BreakerOptions::default().with_open_after(1);
    let keepalive = KeepaliveOptions::default().with_interval(Some(seconds(60)));
    let server =
        bench.add_by_hand("one", &connector, plain().with_breaker(breaker).with_keepalive(keepalive));
    until(&server, |status| (status.state.name() == "parked").then_some(())).await;
    let lost = |next: &str| ("connection lost".to_owned(), next.to_owned());
    // One line for each attempt, however long it goes on.
    let expected = [lost("backoff"), lost("backoff"), lost("backoff"), lost("backoff"), lost("parked")];
    assert_eq!(faults(&log), expected);
    for record in log.at(Level::WARN) {
        assert_eq!(field(&record, "server"), "one");
        assert!(field(&record, "error").contains("time"), "{record}");
        assert!(!field(&record, "next_in_ms").is_empty(), "{record}");
    }

    log.clear();
    server.wake();
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    // Silent from now on: two probes, then the loss and the strike.
    let silent = until(&server, |status| (!status.state.is_ready()).then_some(()));
    silent.await;
    assert_eq!(
        faults(&log),
        [("calls are refused: the connection keeps breaking".to_owned(), String::new()), lost("backoff")]
    );
    let refused = (0..100).map(|_| server.call(echo(), CallOptions::default()));
    for refused in refused {
        refused.await.unwrap_err();
    }
    assert_eq!(log.at(Level::WARN).len(), 2, "what follows from a fault is no further fault");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn p13_whatever_a_connection_logs_stands_in_its_span_and_repeats_are_counted_only() {
    let (log, _guard) = LogCapture::on_this_thread();
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    for generation in 1..=2 {
        let peer = connector.next_peer().await;
        accept(&peer).await;
        ready(&server).await;
        log.clear();
        for _ in 0..1000 {
            peer.send_raw(&b"\x1b[2J no message"[..]).await;
        }
        sleep(seconds(1)).await;
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert_eq!(warnings[0].spans, [format!("connection server=one generation={generation}")]);
        assert_eq!(server.status().received.broken_frames, 1000 * generation);
        peer.close(CloseReason::EndOfStream);
        until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    }
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn p13_a_call_is_a_span_and_one_line_for_each_way_to_end() {
    let (log, _guard) = LogCapture::on_this_thread();
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    log.clear();
    let (answered, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
        let request = peer.expect("tools/call").await;
        peer.respond(request.id(), json!({"content": []})).await;
    });
    answered.unwrap();
    server.call(echo(), CallOptions::default().with_deadline(in_seconds(1))).await.unwrap_err();
    {
        let mut given_up = Box::pin(server.call(echo(), CallOptions::default()));
        assert!(futures_util::poll!(given_up.as_mut()).is_pending());
    }
    let lines: Vec<_> =
        log.at(Level::DEBUG).into_iter().filter(|line| line.target.starts_with("mcp_lifecycle")).collect();
    let texts: Vec<_> = lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(texts, ["call answered", "call failed", "call given up by its caller"]);
    for line in &lines {
        assert!(line.spans.contains(&"call server=one method=tools/call".to_owned()), "{line}");
    }
    assert_eq!(log.at(Level::WARN), []);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn p13_f158_f176_no_line_at_any_level_has_a_secret_or_a_raw_byte_of_a_server() {
    let (log, _guard) = LogCapture::on_this_thread();
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let redactor = Redactor::new(["hunter2".into()]);
    let session = plain().session.with_redactor(redactor.into());
    let server = bench.add_by_hand("one", &connector, plain().with_session(session));
    let evil = "\u{1b}]52;c;hunter2\u{7}\r\n\u{202e}\u{9b}31m";

    // A refused handshake, then everything that a server can say.
    let peer = connector.next_peer().await;
    let request = peer.expect("initialize").await;
    peer.respond_error(request.id(), -32603, evil).await;
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let (failed, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
        let request = peer.expect("tools/call").await;
        let error = json!({"code": 1, "message": evil, "data": {"said": evil}});
        peer.send(json!({"jsonrpc": "2.0", "id": request.value["id"], "error": error})).await;
    });
    failed.unwrap_err();
    peer.send_raw(evil.as_bytes().to_vec()).await;
    peer.send(json!({"jsonrpc": "2.0", "method": evil, "params": {"x": evil}})).await;
    peer.send(json!({"jsonrpc": "2.0", "id": evil, "method": evil})).await;
    peer.respond(evil, json!({})).await;
    peer.send(json!({"jsonrpc": "2.0", "error": {"code": 1, "message": evil}})).await;
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    let request = loop {
        let frame = peer.receive().await;
        if frame.method() == Some("tools/list") {
            break frame;
        }
    };
    peer.respond_error(request.id(), -32603, evil).await;
    sleep(seconds(1)).await;
    peer.close(CloseReason::EndOfStream);
    until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    let failures = std::iter::from_fn(|| bench.events.try_recv().ok())
        .filter(|event| matches!(event, ServerEvent::ListUpdateFailed { .. }));
    assert_eq!(failures.count(), 1);

    let lines: Vec<_> = log.records().iter().map(ToString::to_string).collect();
    assert!(lines.iter().any(|line| line.contains("[secret]")), "{lines:#?}");
    for line in &lines {
        let is_raw = |character: char| character.is_control() || character == '\u{202e}';
        assert!(!line.contains(is_raw), "{line:?}");
        assert!(!line.contains("hunter2"), "{line}");
    }
    bench.end().await;
}
