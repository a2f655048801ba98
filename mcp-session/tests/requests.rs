//! What is refused before anything is sent, and the liveness probe.
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
use std::num::NonZeroUsize;

use mcp_proto::{
    CallTool, Complete, Discover, ErrorMeaning, GetPrompt, ListPrompts, ListResourceTemplates, ListResources,
    ListTools, Method, NotInVersion, Payload, Ping, ProtocolVersion, RawJson, ReadResource, Request,
    TraceContext, Versioned,
};
use mcp_session::{
    CallError, CallOptions, CallOutcome, EraPolicy, Gate, ListLimits, MetaError, Session, SessionOptions,
    UnsupportedWhy,
};
use mcp_transport::testing::MemoryOptions;
use serde_json::json;
use support::desk::Desk;
use support::*;
use tokio::time::Instant;

async fn without_capabilities() -> Fixture {
    let options = SessionOptions::default().with_era(EraPolicy::Legacy);
    let (opening, driver, peer) = unopened(options, MemoryOptions::default());
    let driver = tokio::spawn(driver.run());
    let server = async {
        let initialize = peer.expect("initialize").await;
        let mut result = initialize_result("2025-11-25");
        result["capabilities"] = json!({});
        peer.respond(initialize.id(), result).await;
        peer.expect("notifications/initialized").await;
    };
    let (session, ()) = tokio::join!(opening.handshake(soon()), server);
    Fixture { session: session.unwrap(), peer, driver }
}

async fn assert_unsupported<R: Request>(session: &Session, request: R, expected: UnsupportedWhy) {
    let error = session.call(request, CallOptions::default()).await.map(drop).unwrap_err();
    assert_eq!(error.outcome(), CallOutcome::NotSent);
    let CallError::Unsupported { method, why } = error else { panic!("{error:?}") };
    assert_eq!((method, why), (R::METHOD, expected));
}

#[tokio::test(start_paused = true)]
async fn f116_b13_nothing_is_asked_of_a_server_that_has_not_declared_it() {
    let it = without_capabilities().await;
    let why = UnsupportedWhy::Capability;
    assert_unsupported(&it.session, CallTool::new("x"), why).await;
    assert_unsupported(&it.session, ReadResource::new("file:///x"), why).await;
    assert_unsupported(&it.session, GetPrompt::new("x"), why).await;
    assert_unsupported(&it.session, ListTools::default(), why).await;
    assert_unsupported(&it.session, ListResourceTemplates::default(), why).await;
    let options = CallOptions::default;
    let lists = [
        it.session.list::<ListPrompts>(options(), ListLimits::default()).await.map(drop),
        it.session.list::<ListResources>(options(), ListLimits::default()).await.map(drop),
        it.session.call_raw(Method::TOOLS_CALL, Payload::EMPTY, options()).await.map(drop),
    ];
    for list in lists {
        assert!(matches!(list, Err(CallError::Unsupported { .. })), "{list:?}");
    }
    assert_eq!(methods(&it.peer), ["initialize", "notifications/initialized"]);
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn g144_a_completion_tells_the_earlier_arguments_where_the_version_has_them() {
    let known = BTreeMap::from([("owner".to_owned(), "a".to_owned())]);
    let asked = Complete::of_prompt("p", "lang", "r").with_known(known);
    for (version, expected) in [
        ("2025-03-26", json!(null)),
        ("2025-06-18", json!({"arguments": {"owner": "a"}})),
        ("2025-11-25", json!({"arguments": {"owner": "a"}})),
        ("2026-07-28", json!({"arguments": {"owner": "a"}})),
    ] {
        let it = match version {
            "2026-07-28" => modern().await,
            version => legacy_in(version, SessionOptions::default(), MemoryOptions::default()).await,
        };
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
        let server = async {
            for _ in 0..2 {
                let request = it.peer.expect("completion/complete").await;
                assert_eq!(request.params()["context"], expected, "{version}");
                assert_eq!(request.params()["ref"], json!({"type": "ref/prompt", "name": "p"}));
                it.peer.respond(request.id(), json!({"completion": {"values": ["rust"]}})).await;
            }
        };
        let client = async {
            let through_gate = gate.enter(soon()).await.unwrap().call_ref(&asked, CallOptions::default());
            assert_eq!(through_gate.await.unwrap().completion.values, ["rust"]);
            let direct = it.session.call(asked.clone(), CallOptions::default()).await.unwrap();
            assert_eq!(direct.completion.values, ["rust"]);
        };
        tokio::join!(server, client);
    }
}

/// A request of which no version before 2026-07-28 can say what it must.
#[derive(Debug, Clone, serde::Serialize)]
struct Unsayable {}

impl Versioned for Unsayable {
    fn fits(&self, version: ProtocolVersion) -> bool {
        version >= ProtocolVersion::V2026_07_28
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        if self.fits(version) { Ok(()) } else { Err(NotInVersion::new("this request", version)) }
    }
}

impl Request for Unsayable {
    const METHOD: Method = Method::TOOLS_CALL;
    type Result = RawJson;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_said_in_the_agreed_version_is_not_sent() {
    let it = legacy().await;
    let lack = NotInVersion::new("this request", ProtocolVersion::V2025_11_25);
    assert_unsupported(&it.session, Unsayable {}, UnsupportedWhy::Version(lack)).await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
    let refused = gate.enter(soon()).await.unwrap().call(Unsayable {}, CallOptions::default());
    assert_gate_quiescent(&gate);
    assert!(matches!(refused.await, Err(CallError::Unsupported { .. })));
    assert_eq!(methods(&it.peer), ["initialize", "notifications/initialized"]);
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn f116_a_call_that_is_refused_gives_its_permit_back_at_once() {
    let it = without_capabilities().await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 0);
    let refused = gate.enter(soon()).await.unwrap().call(CallTool::new("x"), CallOptions::default());
    assert_gate_quiescent(&gate);
    assert!(refused.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn b14_a_method_of_the_other_era_is_refused_without_a_byte() {
    let it = modern().await;
    assert_unsupported(&it.session, Ping::default(), UnsupportedWhy::Era).await;
    assert_eq!(methods(&it.peer), ["server/discover"]);
    let it = legacy().await;
    assert_unsupported(&it.session, Discover::default(), UnsupportedWhy::Era).await;
    assert_eq!(methods(&it.peer), ["initialize", "notifications/initialized"]);
}

#[tokio::test(start_paused = true)]
async fn f036_a_probe_is_a_ping_or_a_discovery_and_any_answer_is_life() {
    for (it, method) in [(legacy().await, "ping"), (modern().await, "server/discover")] {
        for (code, is_odd) in [(None, false), (None, true), (Some(-32601), false)] {
            let (alive, ()) = tokio::join!(it.session.probe(soon()), async {
                let probe = it.peer.expect(method).await;
                match code {
                    None if is_odd => it.peer.respond(probe.id(), json!("pong")).await,
                    None if method == "ping" => it.peer.respond(probe.id(), json!({})).await,
                    None => it.peer.respond(probe.id(), discover_result()).await,
                    Some(code) => it.peer.respond_error(probe.id(), code, "no").await,
                }
            });
            alive.unwrap();
        }
        let error = it.session.probe(Instant::now() + seconds(10)).await.unwrap_err();
        assert!(error.is_timeout());
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn a_raw_call_passes_parameters_and_result_on_as_they_are() {
    let it = legacy().await;
    let text = r#"{"b":1.50,"a":[0.10,"\u00e9"],"c":{ "d" : null}}"#;
    let params =
        Payload::encode(&serde_json::from_str::<&serde_json::value::RawValue>(text).unwrap()).unwrap();
    let method = Method::from_wire("x/custom");
    let options = CallOptions::default().with_meta("example.com/trace", "t1").unwrap();
    let (result, frame) = tokio::join!(it.session.call_raw(method, params, options), async {
        let request = it.peer.expect("x/custom").await;
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{text}}}"#, request.value["id"]);
        it.peer.send_raw(answer).await;
        request.frame
    });
    assert_eq!(result.unwrap().as_str(), text);
    let sent = String::from_utf8(frame.to_vec()).unwrap();
    let inner = text.strip_suffix('}').unwrap();
    let meta = r#""_meta":{"example.com/trace":"t1","progressToken":2}"#;
    assert!(sent.contains(&format!(r#""params":{inner},{meta}}}"#)), "{sent}");
}

/// As a proxy passes on what it was given.
#[tokio::test(start_paused = true)]
async fn a_raw_call_never_writes_a_member_twice() {
    const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    for it in [legacy().await, modern().await] {
        let params = json!({
            "_meta": {"traceparent": "t", "example.com/a": "theirs", "progressToken": "theirs", VERSION: "theirs"},
            "inputResponses": {"q": 1},
            "requestState": "s1",
            "name": "tool",
        });
        let options =
            CallOptions::default().with_meta("example.com/a", "ours").unwrap().with_rounds_by_hand();
        let params = Payload::encode(&params).unwrap();
        let _call = tokio::spawn(it.session.call_raw(Method::TOOLS_CALL, params, options));
        let request = it.peer.expect("tools/call").await;
        let text = String::from_utf8(request.frame.to_vec()).unwrap();
        for name in ["_meta", "traceparent", "example.com/a", "progressToken", VERSION, "inputResponses"] {
            assert_eq!(text.matches(&format!("\"{name}\":")).count(), 1, "{text}");
        }
        let (params, meta) = (request.params(), &request.params()["_meta"]);
        assert_eq!((&meta["traceparent"], &meta["example.com/a"]), (&json!("t"), &json!("ours")));
        assert_eq!(meta["progressToken"], request.value["id"], "ours");
        let is_modern = meta[VERSION] == "2026-07-28";
        assert!(is_modern || meta[VERSION] == "theirs", "{text}");
        assert_eq!((&params["inputResponses"]["q"], &params["requestState"]), (&json!(1), &json!("s1")));
    }
}

#[tokio::test(start_paused = true)]
async fn the_answers_in_a_raw_call_give_way_to_those_of_its_next_round() {
    let it =
        modern_with(SessionOptions::default().with_handler(Desk::new() as _), MemoryOptions::default()).await;
    let params = json!({"name": "tool", "inputResponses": {"a": 1}, "requestState": "s1"});
    let params = Payload::encode(&params).unwrap();
    let _call = tokio::spawn(it.session.call_raw(Method::TOOLS_CALL, params, CallOptions::default()));
    let first = it.peer.expect("tools/call").await;
    let asked = json!({"b": {"method": "roots/list"}});
    let more = json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s2"});
    it.peer.respond(first.id(), more).await;
    let second = it.peer.expect("tools/call").await;
    let text = String::from_utf8(second.frame.to_vec()).unwrap();
    for name in ["inputResponses", "requestState"] {
        assert_eq!(text.matches(name).count(), 1, "{text}");
    }
    assert_eq!(second.params()["requestState"], "s2");
    assert!(second.params()["inputResponses"]["b"]["roots"].is_array());
}

#[tokio::test(start_paused = true)]
async fn v28_what_a_request_should_have_declared_is_told_and_the_request_is_not_repeated() {
    let it = modern().await;
    let required = json!({"elicitation": {"url": {}}, "extensions": {"com.example/x": {"n": 1}}});
    let (result, ()) = tokio::join!(it.session.call(CallTool::new("t"), CallOptions::default()), async {
        let request = it.peer.expect("tools/call").await;
        let error = json!({"code": -32021, "message": "no", "data": {"requiredCapabilities": required}});
        it.peer.send(json!({"jsonrpc": "2.0", "id": request.id(), "error": error})).await;
    });
    let error = result.unwrap_err();
    assert_eq!((error.outcome(), error.is_retryable()), (CallOutcome::Rejected, false));
    let CallError::Peer(error) = error else { panic!("{error:?}") };
    let ErrorMeaning::MissingClientCapability(missing) = error.meaning(it.session.peer().version) else {
        panic!("{error:?}")
    };
    assert_eq!(serde_json::to_value(&missing.required_capabilities).unwrap(), required);
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(methods(&it.peer), ["server/discover", "tools/call"]);
}

/// Codes that other clients use for errors of their own.
#[tokio::test(start_paused = true)]
async fn b15_an_error_made_here_is_none_of_the_server_whatever_that_answers() {
    let it = legacy().await;
    for code in [-32000, -32001, -1, 408] {
        let (result, ()) = tokio::join!(it.session.call(CallTool::new("t"), CallOptions::default()), async {
            let request = it.peer.expect("tools/call").await;
            it.peer.respond_error(request.id(), code, "Request timed out").await;
        });
        let error = result.unwrap_err();
        assert!(matches!(&error, CallError::Peer(error) if error.code == code), "{error:?}");
        assert!(!error.is_timeout() && !error.is_session_gone(), "{error:?}");
    }
    let options = CallOptions::default().with_timeout(seconds(1));
    let error = it.session.call(CallTool::new("t"), options).await.unwrap_err();
    assert!(error.is_timeout() && !matches!(error, CallError::Peer(_)), "{error:?}");
    it.session.close(soon()).await;
    let error = it.session.call(CallTool::new("t"), CallOptions::default()).await.unwrap_err();
    assert!(error.is_session_gone() && !matches!(error, CallError::Peer(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn x195_a_call_says_where_it_belongs_in_a_trace_and_no_source_overrules_it() {
    const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const CURRENT: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let own = TraceContext::new(OWN).unwrap().with_tracestate("a=1").unwrap().with_baggage("b=2").unwrap();
    let sourced = SessionOptions::default().with_traces(|| TraceContext::new(CURRENT).ok());
    let silent = SessionOptions::default().with_traces(|| None);
    for (options, trace, expected) in [
        (SessionOptions::default(), None, None),
        (SessionOptions::default(), Some(own.clone()), Some(OWN)),
        (silent.clone(), None, None),
        (silent, Some(own.clone()), Some(OWN)),
        (sourced.clone(), None, Some(CURRENT)),
        (sourced, Some(own), Some(OWN)),
    ] {
        let modern = modern_with(options.clone(), MemoryOptions::default()).await;
        let legacy = legacy_with(options, MemoryOptions::default()).await;
        for it in [modern, legacy] {
            let mut options = CallOptions::default().with_meta("example.com/x", &1).unwrap();
            if let Some(trace) = &trace {
                options = options.with_trace(trace.clone());
            }
            let mut call = ByHand::new(it.session.call(CallTool::new("t"), options));
            assert!(call.poll().is_pending());
            let request = it.peer.expect("tools/call").await;
            let meta = &request.params()["_meta"];
            assert_eq!(meta.get("traceparent").map(|trace| trace.as_str().unwrap()), expected);
            let is_own = expected == Some(OWN);
            assert_eq!(meta.get("tracestate"), is_own.then_some(&json!("a=1")));
            assert_eq!(meta.get("baggage"), is_own.then_some(&json!("b=2")));
            assert_eq!((&meta["example.com/x"], &meta["progressToken"]), (&json!(1), &request.value["id"]));
        }
    }
    // What the parameters of a raw call say counts before the source, and what its options say before both.
    for (trace, expected) in [(None, "raw"), (TraceContext::new(OWN).ok(), OWN)] {
        let options = SessionOptions::default().with_traces(|| TraceContext::new(CURRENT).ok());
        let it = legacy_with(options, MemoryOptions::default()).await;
        let options = trace.into_iter().fold(CallOptions::default(), CallOptions::with_trace);
        let params = Payload::encode(&json!({"_meta": {"traceparent": "raw", "k": 1}})).unwrap();
        let mut call = ByHand::new(it.session.call_raw(Method::TOOLS_CALL, params, options));
        assert!(call.poll().is_pending());
        let request = it.peer.expect("tools/call").await;
        let text = std::str::from_utf8(&request.frame).unwrap();
        assert_eq!(text.matches("traceparent").count(), 1, "{text}");
        assert_eq!(request.params()["_meta"]["traceparent"], expected);
        assert_eq!(request.params()["_meta"]["k"], 1);
    }
    // Under these names there is nothing but what W3C gives a form.
    for key in ["traceparent", "tracestate", "baggage"] {
        let refused = CallOptions::default().with_meta(key, "anything").unwrap_err();
        assert_eq!(refused, MetaError::Reserved(key.to_owned()));
    }
    assert!(TraceContext::new("anything").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_written_is_an_error_of_its_own() {
    let it = legacy().await;
    let method = Method::from_wire("x/custom");
    let params = Payload::encode(&[1, 2]).unwrap();
    let error = it.session.call_raw(method, params, CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::Encode(_)), "{error:?}");
    assert_eq!(error.outcome(), CallOutcome::NotSent);
    assert_quiescent(&it.session);
}

#[test]
fn everything_public_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + std::fmt::Debug>() {}
    fn sent<T: Send + std::fmt::Debug>() {}
    shared::<Session>();
    shared::<mcp_session::Gate>();
    shared::<mcp_session::LiveSession>();
    shared::<mcp_session::Opening>();
    shared::<SessionOptions>();
    shared::<CallOptions>();
    shared::<CallError>();
    shared::<mcp_session::HandshakeError>();
    shared::<mcp_session::SessionEvent>();
    shared::<mcp_session::SubscribeOptions>();
    shared::<mcp_session::SubscriptionEvent>();
    shared::<mcp_session::Asker>();
    shared::<mcp_session::HandlerLimits>();
    sent::<mcp_session::Call<ListTools>>();
    sent::<mcp_session::RawCall>();
    sent::<mcp_session::Subscription>();
    sent::<mcp_session::Driver>();
}
