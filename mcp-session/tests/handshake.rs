//! How a connection is agreed on, in both eras.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::num::NonZeroUsize;

use mcp_proto::probe::ProbeFailure;
use mcp_proto::{CallTool, Era, Implementation, ProtocolVersion};
use mcp_session::{
    CallOptions, EraPolicy, Gate, GateError, HandshakeError, IdSource, Session, SessionOptions, open,
};
use mcp_transport::testing::{FaultTransport, MemoryOptions, ScriptedPeer, memory};
use mcp_transport::{CloseReason, Closed, Exit};
use serde_json::{Value, json};
use support::*;
use tokio::task::JoinHandle;
use tokio::time::Instant;

type Opened = Result<Session, HandshakeError>;

/// A handshake in progress.
struct Running {
    handshake: JoinHandle<Opened>,
    peer: ScriptedPeer,
    driver: JoinHandle<Closed>,
}

fn begin(era: EraPolicy) -> Running {
    let options = SessionOptions::default().with_era(era);
    let (opening, driver, peer) = unopened(options, MemoryOptions::default());
    let driver = tokio::spawn(driver.run());
    let handshake = tokio::spawn(opening.handshake(Instant::now() + seconds(60)));
    Running { handshake, peer, driver }
}

impl Running {
    async fn finished(self) -> (Opened, ScriptedPeer) {
        (self.handshake.await.unwrap(), self.peer)
    }

    /// Answers the probe with an error.
    async fn reject_probe(&self, code: i64, data: Option<Value>) {
        let probe = self.peer.expect("server/discover").await;
        let mut error = json!({"code": code, "message": "no"});
        if let Some(data) = data {
            error["data"] = data;
        }
        self.peer.send(json!({"jsonrpc": "2.0", "id": probe.id(), "error": error})).await;
    }

    async fn assert_becomes_legacy(self) {
        accept_initialize(&self.peer, "2025-11-25").await;
        let (session, peer) = self.finished().await;
        let session = session.unwrap();
        assert_eq!(session.peer().era, Era::Legacy);
        assert_eq!(cancelled_ids(&peer), Vec::<i64>::new(), "no request of the handshake is cancelled");
        assert_quiescent(&session);
    }
}

#[tokio::test(start_paused = true)]
async fn v17_v18_a_legacy_handshake_is_initialize_then_initialized() {
    let it = begin(EraPolicy::Legacy);
    let initialize = it.peer.expect("initialize").await;
    assert_eq!(initialize.params()["protocolVersion"], "2025-11-25", "V-18: the newest legacy version");
    assert_eq!(initialize.params()["capabilities"], json!({}));
    assert_eq!(initialize.params()["clientInfo"]["name"], "mcp-session");
    assert_eq!(initialize.params().get("_meta"), None, "no modern metadata on legacy traffic");
    it.peer.respond(initialize.id(), initialize_result("2024-11-05")).await;
    let initialized = it.peer.expect("notifications/initialized").await;
    assert_eq!(initialized.request_id(), None);
    let (session, peer) = it.finished().await;
    let session = session.unwrap();
    assert_eq!(session.peer().version, ProtocolVersion::V2024_11_05);
    assert_eq!(session.peer().server, Implementation::new("scripted", "1"));
    assert_eq!(methods(&peer), ["initialize", "notifications/initialized"]);
}

#[tokio::test(start_paused = true)]
async fn f115_v19_a_version_nobody_here_speaks_ends_the_handshake_and_names_both_sides() {
    for version in ["1999-01-01", "2031-01-01", "2026-07-28", "\u{1b}[2J"] {
        let it = begin(EraPolicy::Legacy);
        let initialize = it.peer.expect("initialize").await;
        it.peer.respond(initialize.id(), initialize_result(version)).await;
        let (opened, peer) = it.finished().await;
        let error = opened.unwrap_err();
        assert!(error.is_permanent());
        let HandshakeError::Version(versions) = &error else { panic!("{error:?}") };
        assert_eq!(versions.offered, [version]);
        assert!(versions.supported.contains(&ProtocolVersion::V2025_11_25));
        assert!(!error.to_string().contains('\u{1b}'));
        assert_eq!(methods(&peer), ["initialize"], "nothing is confirmed");
    }
}

#[tokio::test(start_paused = true)]
async fn f115_another_version_than_offered_is_fine_if_it_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let it = legacy_in(version, SessionOptions::default(), MemoryOptions::default()).await;
        assert_eq!(it.session.peer().version.as_str(), version);
    }
}

#[tokio::test(start_paused = true)]
async fn v21_pings_and_log_lines_are_served_before_the_handshake_is_over() {
    let it = begin(EraPolicy::Legacy);
    let initialize = it.peer.expect("initialize").await;
    it.peer
        .send(json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "starting"}}))
        .await;
    it.peer.send(json!({"jsonrpc": "2.0", "id": "early", "method": "ping"})).await;
    it.peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "roots/list"})).await;
    let pong = it.peer.receive().await;
    assert_eq!(pong.value, json!({"jsonrpc": "2.0", "id": "early", "result": {}}));
    assert_eq!(it.peer.receive().await.value["error"]["code"], -32601);
    it.peer.respond(initialize.id(), initialize_result("2025-11-25")).await;
    let session = it.handshake.await.unwrap().unwrap();
    assert!(session.next_event().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn v22_a_handshake_that_times_out_is_not_cancelled_on_the_wire() {
    let it = begin(EraPolicy::Legacy);
    it.peer.expect("initialize").await;
    let driver = it.driver;
    let error = it.handshake.await.unwrap().unwrap_err();
    assert!(matches!(error, HandshakeError::Timeout), "{error:?}");
    assert!(!error.is_permanent());
    driver.await.unwrap();
    it.peer.closed().await;
    assert_eq!(methods(&it.peer), ["initialize"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handshake_ends_the_session_and_cancels_nothing_on_the_wire() {
    let it = begin(EraPolicy::Legacy);
    it.peer.expect("initialize").await;
    it.handshake.abort();
    assert_eq!(*it.driver.await.unwrap().reason(), CloseReason::Local);
    it.peer.closed().await;
    assert_eq!(methods(&it.peer), ["initialize"]);
}

#[tokio::test(start_paused = true)]
async fn v24_v25_every_modern_request_carries_version_capabilities_and_client() {
    let it = modern().await;
    let (_, request) = tokio::join!(
        it.session.call(CallTool::new("x"), CallOptions::default().with_timeout(seconds(1))),
        it.peer.expect("tools/call")
    );
    for frame in it.peer.transcript().iter().filter(|frame| frame.request_id().is_some()) {
        let meta = &frame.params()["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "mcp-session");
    }
    assert_eq!(request.params()["name"], "x");
    assert_eq!(methods(&it.peer), ["server/discover", "tools/call", "notifications/cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn v20_nothing_but_answers_is_sent_before_initialize_is_answered() {
    let it = begin(EraPolicy::Legacy);
    let gate = Gate::new(NonZeroUsize::MIN, 8);
    let initialize = it.peer.expect("initialize").await;
    // Whatever the server says, and however long it takes: there is no session yet to call on.
    for method in ["notifications/tools/list_changed", "notifications/initialized"] {
        it.peer.send(json!({"jsonrpc": "2.0", "method": method})).await;
    }
    it.peer.send(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
    assert_eq!(gate.enter(soon()).await.unwrap_err(), GateError::NotLive);
    tokio::time::sleep(seconds(50)).await;
    assert_eq!(methods(&it.peer), ["initialize", "response"]);
    assert_eq!(it.peer.receive().await.value["id"], "p");
    it.peer.respond(initialize.id(), initialize_result("2025-11-25")).await;
    it.peer.expect("notifications/initialized").await;
    gate.publish(1, it.handshake.await.unwrap().unwrap());
    let live = gate.enter(soon()).await.unwrap();
    let mut call = ByHand::new(live.call(CallTool::new("x"), CallOptions::default()));
    assert!(call.poll().is_pending());
    it.peer.expect("tools/call").await;
    let sent = ["initialize", "response", "notifications/initialized", "tools/call"];
    assert_eq!(methods(&it.peer), sent);
}

#[tokio::test(start_paused = true)]
async fn v25_who_we_are_is_left_out_of_modern_requests_where_that_is_configured() {
    let anonymous = SessionOptions::default().without_client_info();
    let it = modern_with(anonymous.clone(), MemoryOptions::default()).await;
    let mut call = ByHand::new(it.session.call(CallTool::new("x"), CallOptions::default()));
    assert!(call.poll().is_pending());
    it.peer.expect("tools/call").await;
    for frame in it.peer.transcript() {
        let meta = &frame.params()["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta.get("io.modelcontextprotocol/clientInfo"), None);
    }
    assert_eq!(methods(&it.peer), ["server/discover", "tools/call"]);
    // A legacy handshake cannot do without.
    let it = legacy_with(anonymous, MemoryOptions::default()).await;
    assert_eq!(it.peer.transcript()[0].params()["clientInfo"]["name"], "mcp-session");
}

#[tokio::test(start_paused = true)]
async fn v30_of_the_versions_that_a_discovery_lists_one_that_both_speak_is_used_from_then_on() {
    let it = begin(EraPolicy::Auto);
    let probe = it.peer.expect("server/discover").await;
    let mut result = discover_result();
    result["supportedVersions"] = json!(["2031-01-01", "2025-11-25", "2026-07-28", "x"]);
    it.peer.respond(probe.id(), result).await;
    let session = it.handshake.await.unwrap().unwrap();
    assert_eq!(session.peer().version, ProtocolVersion::V2026_07_28);
    let mut call = ByHand::new(session.call(CallTool::new("x"), CallOptions::default()));
    assert!(call.poll().is_pending());
    let request = it.peer.expect("tools/call").await;
    assert_eq!(request.params()["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

// V-31: one test for each row of the table in SPEC-CLIENT §3, named after it; here and in mcp-proto (probe).
#[tokio::test(start_paused = true)]
async fn row_01_v29_a_discovery_opens_a_modern_session_without_any_further_message() {
    let it = modern().await;
    let peer = it.session.peer();
    assert_eq!((peer.era, peer.version), (Era::Modern, ProtocolVersion::V2026_07_28));
    assert_eq!(peer.server.name, "scripted");
    assert_eq!(methods(&it.peer), ["server/discover"]);
}

#[tokio::test(start_paused = true)]
async fn row_02_a_discovery_of_legacy_versions_alone_leads_to_initialize() {
    let it = begin(EraPolicy::Auto);
    let probe = it.peer.expect("server/discover").await;
    let mut result = discover_result();
    result["supportedVersions"] = json!(["2025-06-18"]);
    it.peer.respond(probe.id(), result).await;
    it.assert_becomes_legacy().await;
}

#[tokio::test(start_paused = true)]
async fn row_03_f115_a_discovery_without_a_common_version_names_both_sides() {
    let it = begin(EraPolicy::Auto);
    let probe = it.peer.expect("server/discover").await;
    let mut result = discover_result();
    result["supportedVersions"] = json!(["2031-01-01"]);
    it.peer.respond(probe.id(), result).await;
    let error = it.handshake.await.unwrap().unwrap_err();
    assert!(matches!(&error, HandshakeError::Version(versions) if versions.offered == ["2031-01-01"]));
    assert!(error.is_permanent());
}

#[tokio::test(start_paused = true)]
async fn row_04_an_unreadable_discovery_leads_to_initialize() {
    let unreadable = [
        json!({}),
        json!([]),
        json!({"supportedVersions": 7}),
        json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "input_required"}),
    ];
    for result in unreadable {
        let it = begin(EraPolicy::Auto);
        let probe = it.peer.expect("server/discover").await;
        it.peer.respond(probe.id(), result).await;
        it.assert_becomes_legacy().await;
    }
}

#[tokio::test(start_paused = true)]
async fn row_05_v27_a_listed_version_is_tried_once_and_not_for_ever() {
    let it = begin(EraPolicy::Auto);
    let listed = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
    it.reject_probe(-32022, Some(listed.clone())).await;
    it.reject_probe(-32022, Some(listed)).await;
    let (opened, peer) = it.finished().await;
    let error = opened.unwrap_err();
    assert!(matches!(error, HandshakeError::Probe(ProbeFailure::Refused(_))), "{error:?}");
    assert_eq!(methods(&peer), ["server/discover", "server/discover"]);
    assert_ne!(peer.transcript()[0].id(), peer.transcript()[1].id(), "a repeat has an id of its own");
}

#[tokio::test(start_paused = true)]
async fn row_05_a_repeat_that_succeeds_is_modern() {
    let it = begin(EraPolicy::Auto);
    it.reject_probe(-32022, Some(json!({"supported": ["2026-07-28"]}))).await;
    accept_discover(&it.peer).await;
    assert_eq!(it.handshake.await.unwrap().unwrap().peer().era, Era::Modern);
}

#[tokio::test(start_paused = true)]
async fn rows_06_08_10_v32_a_probe_that_is_refused_leads_to_initialize() {
    let refusals = [
        (-32022, Some(json!({"supported": ["2025-11-25"]}))),
        (-32022, None),
        (-32601, None),
        (-32602, None),
        (-32000, None),
        (0, None),
    ];
    for (code, data) in refusals {
        let it = begin(EraPolicy::Auto);
        it.reject_probe(code, data).await;
        it.assert_becomes_legacy().await;
    }
}

#[tokio::test(start_paused = true)]
async fn row_07_foreign_modern_versions_end_the_handshake() {
    let it = begin(EraPolicy::Auto);
    it.reject_probe(-32022, Some(json!({"supported": ["2031-01-01"]}))).await;
    let error = it.handshake.await.unwrap().unwrap_err();
    assert!(matches!(&error, HandshakeError::Version(versions) if versions.offered == ["2031-01-01"]));
}

#[tokio::test(start_paused = true)]
async fn row_09_other_modern_errors_end_the_handshake_without_initialize() {
    for code in [-32020, -32021] {
        let it = begin(EraPolicy::Auto);
        it.reject_probe(code, None).await;
        let (opened, peer) = it.finished().await;
        let error = opened.unwrap_err();
        assert!(matches!(&error, HandshakeError::Probe(ProbeFailure::Refused(e)) if e.code == code));
        assert!(error.is_permanent());
        assert_eq!(methods(&peer), ["server/discover"]);
    }
}

#[tokio::test(start_paused = true)]
async fn row_11_f014_s94_silence_leads_to_initialize_after_the_probe_limit() {
    let it = begin(EraPolicy::Auto);
    let probe = it.peer.expect("server/discover").await;
    let initialize = it.peer.expect("initialize").await;
    assert_eq!(initialize.at - probe.at, seconds(5));
    it.peer.respond(initialize.id(), initialize_result("2025-11-25")).await;
    let (session, peer) = it.finished().await;
    assert_eq!(session.unwrap().peer().era, Era::Legacy);
    assert_eq!(cancelled_ids(&peer), Vec::<i64>::new(), "S-94: the probe is never cancelled");
}

#[tokio::test(start_paused = true)]
async fn row_12_f015_a_server_that_dies_of_the_probe_is_told_apart_from_one_that_dies() {
    let it = begin(EraPolicy::Auto);
    it.peer.expect("server/discover").await;
    it.peer.close(CloseReason::Exited(Exit::Code(3)));
    let error = it.handshake.await.unwrap().unwrap_err();
    assert!(error.is_probe_killed() && !error.is_permanent());
    let HandshakeError::ProbeKilled(closed) = error else { panic!("{error:?}") };
    assert_eq!(*closed.reason(), CloseReason::Exited(Exit::Code(3)));

    for era in [EraPolicy::Legacy, EraPolicy::Modern] {
        let it = begin(era);
        it.peer.receive().await;
        it.peer.close(CloseReason::EndOfStream);
        let error = it.handshake.await.unwrap().unwrap_err();
        assert!(matches!(error, HandshakeError::Closed(_)), "{error:?}");
        assert!(!error.is_permanent(), "a crash is no verdict");
    }
}

#[tokio::test(start_paused = true)]
async fn row_18_a_late_answer_to_the_probe_is_ignored() {
    let it = begin(EraPolicy::Auto);
    let probe = it.peer.expect("server/discover").await;
    let initialize = it.peer.expect("initialize").await;
    it.peer.respond(probe.id(), discover_result()).await;
    it.peer.respond(initialize.id(), initialize_result("2025-11-25")).await;
    it.peer.expect("notifications/initialized").await;
    let session = it.handshake.await.unwrap().unwrap();
    assert_eq!(session.peer().era, Era::Legacy);
    assert_eq!(session.counters().late_replies, 1);
}

#[tokio::test(start_paused = true)]
async fn row_19_a_server_that_was_locked_modern_by_the_probe_is_opened_modern() {
    let it = begin(EraPolicy::Auto);
    it.peer.expect("server/discover").await;
    let initialize = it.peer.expect("initialize").await;
    let data = json!({"supported": ["2026-07-28"]});
    let error = json!({"code": -32022, "message": "modern only", "data": data});
    it.peer.send(json!({"jsonrpc": "2.0", "id": initialize.id(), "error": error})).await;
    accept_discover(&it.peer).await;
    assert_eq!(it.handshake.await.unwrap().unwrap().peer().era, Era::Modern);
}

#[tokio::test(start_paused = true)]
async fn row_19_a_server_that_refuses_whatever_it_is_sent_does_not_keep_us_going() {
    let it = begin(EraPolicy::Auto);
    let refusal =
        json!({"code": -32022, "message": "no", "data": {"supported": ["2025-11-25", "2026-07-28"]}});
    let server = async {
        while let Some(request) = it.peer.next().await {
            it.peer.send(json!({"jsonrpc": "2.0", "id": request.id(), "error": refusal})).await;
        }
    };
    let (opened, ()) = tokio::join!(it.handshake, server);
    assert!(opened.unwrap().is_err());
    assert!(it.peer.transcript().len() <= 4, "{:?}", methods(&it.peer));
}

#[tokio::test(start_paused = true)]
async fn v29_a_legacy_policy_does_not_probe_and_a_modern_one_does_not_fall_back() {
    let it = begin(EraPolicy::Legacy);
    it.peer.expect("initialize").await;

    let it = begin(EraPolicy::Modern);
    it.reject_probe(-32601, None).await;
    let (opened, peer) = it.finished().await;
    let error = opened.unwrap_err();
    assert!(matches!(error, HandshakeError::Probe(ProbeFailure::LegacyOnly)), "{error:?}");
    assert!(error.is_permanent());
    assert_eq!(methods(&peer), ["server/discover"]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_handshake_holds_for_the_probe_too() {
    let (opening, driver, peer) = unopened(SessionOptions::default(), MemoryOptions::default());
    let _driver = tokio::spawn(driver.run());
    let began = Instant::now();
    let error = opening.handshake(began + seconds(2)).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Timeout), "{error:?}");
    assert_eq!(began.elapsed(), seconds(2));
    assert_eq!(methods(&peer), ["server/discover"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_initialize_is_handed_up() {
    let it = begin(EraPolicy::Legacy);
    let initialize = it.peer.expect("initialize").await;
    it.peer.respond_error(initialize.id(), -32603, "no licence").await;
    let error = it.handshake.await.unwrap().unwrap_err();
    assert!(matches!(&error, HandshakeError::Rpc(e) if e.message == "no licence"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn b3_ids_go_on_counting_over_the_connections_of_one_server() {
    let ids = IdSource::default();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let options = SessionOptions::default().with_ids(ids.clone());
        let it = legacy_with(options, MemoryOptions::default()).await;
        let call = it.session.call(CallTool::new("x"), CallOptions::default().with_timeout(seconds(1)));
        assert!(call.await.unwrap_err().is_timeout());
        seen.extend(it.peer.transcript().iter().filter_map(|frame| frame.value["id"].as_i64()));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test(start_paused = true)]
async fn f010_a_failed_write_is_explained_by_the_end_of_the_server() {
    for (era, is_killed_by_probe) in [(EraPolicy::Legacy, false), (EraPolicy::Auto, true)] {
        let (connection, peer) = memory();
        let (connection, faults) = FaultTransport::wrap(connection);
        faults.fail_sends(Some(CloseReason::Broken("the server closed its input".into())));
        let (opening, driver) = open(connection, SessionOptions::default().with_era(era));
        tokio::spawn(driver.run());
        let handshake = tokio::spawn(opening.handshake(Instant::now() + seconds(60)));
        tokio::task::yield_now().await;
        peer.close(CloseReason::Exited(Exit::Code(7)));
        let error = handshake.await.unwrap().unwrap_err();
        assert_eq!(error.is_probe_killed(), is_killed_by_probe);
        let (HandshakeError::Closed(closed) | HandshakeError::ProbeKilled(closed)) = error else {
            panic!("not an end: {error}");
        };
        assert_eq!(*closed.reason(), CloseReason::Exited(Exit::Code(7)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_that_nobody_explains_is_told_as_it_is() {
    let (connection, _peer) = memory();
    let (connection, faults) = FaultTransport::wrap(connection);
    faults.fail_sends(Some(CloseReason::Broken("the server closed its input".into())));
    let (opening, driver) = open(connection, SessionOptions::default().with_era(EraPolicy::Legacy));
    tokio::spawn(driver.run());
    let began = Instant::now();
    let error = opening.handshake(began + seconds(60)).await.unwrap_err();
    assert!(error.to_string().contains("the server closed its input"), "{error}");
    assert_eq!(began.elapsed(), seconds(1), "the wait for an explanation is bounded");
}
