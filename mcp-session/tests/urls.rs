//! Requests that a server serves only after a person has opened URLs (2025-11-25).
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
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mcp_proto::{
    CallTool, CallToolResult, ClientCapabilities, Elicit, ElicitResult, ElicitationCapability, ErrorObject,
    ListTools,
};
use mcp_session::{
    Asker, CallError, CallOptions, CallOutcome, ClientHandler, Gate, ListLimits, Session, SessionOptions,
    Truncated, UrlsUnopened,
};
use mcp_transport::testing::{MemoryOptions, Received, ScriptedPeer};
use mcp_transport::{CloseReason, Dispatch};
use serde_json::{Value, json};
use support::*;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A person: shown URLs, does what the message of each says.
struct Person {
    shown: Mutex<Vec<String>>,
    thinking: Semaphore,
}

impl Person {
    fn new() -> Arc<Self> {
        Arc::new(Self { shown: Mutex::default(), thinking: Semaphore::new(0) })
    }

    fn shown(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }
}

#[async_trait]
impl ClientHandler for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::form_and_url());
        capabilities
    }

    async fn elicit(&self, _: &Asker, request: Elicit) -> Result<ElicitResult, ErrorObject> {
        let Elicit::Url(asked) = request else { panic!("not a URL") };
        self.shown.lock().unwrap().push(asked.url);
        match asked.message.as_str() {
            "decline" => Ok(ElicitResult::decline()),
            "fail" => Err(ErrorObject::new(-1, "no browser")),
            "think" => {
                self.thinking.acquire().await.unwrap().forget();
                Ok(ElicitResult::accept_url())
            }
            _ => Ok(ElicitResult::accept_url()),
        }
    }
}

async fn legacy_served_by(person: &Arc<Person>, version: &str) -> Fixture {
    let options = SessionOptions::default().with_handler(Arc::clone(person) as _);
    legacy_in(version, options, MemoryOptions::default()).await
}

fn spawn(session: &Session, options: CallOptions) -> JoinHandle<Result<CallToolResult, CallError>> {
    tokio::spawn(session.call(CallTool::new("t"), options))
}

fn url(message: &str, id: &str) -> Value {
    json!({"mode": "url", "message": message, "url": format!("https://{id}"), "elicitationId": id})
}

/// Refuses a request until these were opened.
async fn refuse(peer: &ScriptedPeer, request: &Received, urls: &[Value]) {
    let error = json!({"code": -32042, "message": "open it", "data": {"elicitations": urls}});
    peer.send(json!({"jsonrpc": "2.0", "id": request.id(), "error": error})).await;
}

async fn complete(peer: &ScriptedPeer, id: &str) {
    let params = json!({"elicitationId": id});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params}))
        .await;
}

fn unopened_why(error: &CallError) -> &UrlsUnopened {
    let CallError::UrlsRequired(required) = error else { panic!("{error:?}") };
    &required.why
}

#[tokio::test(start_paused = true)]
async fn f178_urls_are_opened_and_the_request_is_repeated_once_it_is_done() {
    let person = Person::new();
    let it = legacy_served_by(&person, "2025-11-25").await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let live = gate.enter(soon()).await.unwrap();
    let options =
        CallOptions::default().with_timeout(seconds(5)).with_deadline(Instant::now() + seconds(1000));
    let calling = tokio::spawn(live.call(CallTool::new("t"), options));
    let first = it.peer.expect("tools/call").await;
    refuse(&it.peer, &first, &[url("think", "a"), url("now", "b")]).await;
    settle().await;
    assert_eq!(person.shown(), ["https://a", "https://b"]);
    // The server is done with one of them while the person still thinks about the other.
    complete(&it.peer, "b").await;
    complete(&it.peer, "unknown").await;
    tokio::time::sleep(seconds(100)).await;
    assert_eq!(gate.in_flight(), 1, "the permit is kept meanwhile");
    person.thinking.add_permits(1);
    tokio::time::sleep(seconds(100)).await;
    assert_eq!(
        methods(&it.peer).iter().filter(|method| *method == "tools/call").count(),
        1,
        "it is not done"
    );
    complete(&it.peer, "a").await;
    let second = it.peer.expect("tools/call").await;
    assert_ne!(first.value["id"], second.value["id"]);
    let mut expected = first.params().clone();
    expected["_meta"]["progressToken"] = second.value["id"].clone();
    assert_eq!(second.params(), &expected, "the same request");
    // None of the time that the person took is the server's.
    tokio::time::sleep(seconds(4)).await;
    it.peer.respond(second.id(), said("done")).await;
    assert_eq!(calling.await.unwrap().unwrap().content.len(), 1);
    assert_gate_quiescent(&gate);
    assert!(cancelled_ids(&it.peer).is_empty());
    assert_eq!(it.session.counters().ignored_notifications, 1, "f179: an unknown one is ignored");
}

/// A page of tools, and perhaps where the next one is.
fn page(name: &str, cursor: Option<&str>) -> Value {
    let mut page = json!({"tools": [{"name": name, "inputSchema": {}}]});
    if let Some(cursor) = cursor {
        page["nextCursor"] = json!(cursor);
    }
    page
}

#[tokio::test(start_paused = true)]
async fn f178_a_list_goes_on_under_its_permit_when_urls_were_opened_for_a_page() {
    let person = Person::new();
    let it = legacy_served_by(&person, "2025-11-25").await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let live = gate.enter(soon()).await.unwrap();
    let options = CallOptions::default().with_deadline(Instant::now() + seconds(1000));
    let listing = tokio::spawn(live.list::<ListTools>(options, ListLimits::default()));
    for (asked, name, next) in [(None, "a", Some("2")), (Some("2"), "b", Some("3")), (Some("3"), "c", None)] {
        let first = it.peer.expect("tools/list").await;
        refuse(&it.peer, &first, &[url("now", name)]).await;
        settle().await;
        assert_eq!(gate.in_flight(), 1, "the permit is kept meanwhile");
        complete(&it.peer, name).await;
        let second = it.peer.expect("tools/list").await;
        assert_ne!(first.value["id"], second.value["id"]);
        for request in [&first, &second] {
            assert_eq!(request.params().get("cursor").map(|cursor| cursor.as_str().unwrap()), asked);
        }
        it.peer.respond(second.id(), page(name, next)).await;
    }
    let listed = listing.await.unwrap().unwrap();
    let names: Vec<_> = listed.items.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names, listed.truncated), (vec!["a", "b", "c"], None));
    assert_eq!(person.shown(), ["https://a", "https://b", "https://c"]);
    assert_gate_quiescent(&gate);
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn f178_a_list_whose_person_is_asked_ends_in_time_and_frees_its_permit_though_nobody_polls_it() {
    let person = Person::new();
    let it = legacy_served_by(&person, "2025-11-25").await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let live = gate.enter(soon()).await.unwrap();
    let options = CallOptions::default().with_deadline(Instant::now() + seconds(10));
    let mut listing = ByHand::new(live.list::<ListTools>(options, ListLimits::default()));
    assert!(listing.poll().is_pending());
    let request = it.peer.expect("tools/list").await;
    it.peer.respond(request.id(), page("a", Some("2"))).await;
    settle().await;
    assert!(listing.poll().is_pending());
    let request = it.peer.expect("tools/list").await;
    refuse(&it.peer, &request, &[url("think", "a")]).await;
    settle().await;
    assert!(listing.poll().is_pending());
    assert_eq!(person.shown().len(), 1);
    tokio::time::sleep(seconds(11)).await;
    assert_gate_quiescent(&gate);
    assert_quiescent(&it.session);
    let std::task::Poll::Ready(Ok(listed)) = listing.poll() else { panic!("not over") };
    assert_eq!((listed.items.len(), listed.truncated), (1, Some(Truncated::Deadline)));
    assert!(cancelled_ids(&it.peer).is_empty(), "there is nothing to cancel");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_tells_that_it_is_done_is_asked_again_with_half_the_time_left() {
    let person = Person::new();
    let it = legacy_served_by(&person, "2025-11-25").await;
    let began = Instant::now();
    let calling = spawn(&it.session, CallOptions::default().with_deadline(began + seconds(100)));
    let first = it.peer.expect("tools/call").await;
    refuse(&it.peer, &first, &[url("now", "a")]).await;
    let second = it.peer.expect("tools/call").await;
    assert_eq!(began.elapsed(), seconds(50));
    // And not a third time.
    refuse(&it.peer, &second, &[url("now", "a")]).await;
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!(unopened_why(&error), &UrlsUnopened::Repeated);
    assert_eq!((error.outcome(), error.is_retryable()), (CallOutcome::Rejected, false));
    assert_eq!(person.shown().len(), 1);
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn a_person_who_does_not_agree_ends_the_call_and_nothing_is_repeated() {
    let javascript =
        json!({"mode": "url", "message": "now", "url": "javascript:alert(1)", "elicitationId": "a"});
    let many: Vec<Value> = (0..65).map(|id| url("now", &id.to_string())).collect();
    let refused = |error: &CallError| matches!(unopened_why(error), UrlsUnopened::Refused(_));
    for (urls, is_refused, shown) in [
        (vec![url("now", "a"), url("decline", "b")], false, 2),
        (vec![url("fail", "a")], true, 1),
        (vec![javascript], true, 0),
        (many, false, 0),
    ] {
        let person = Person::new();
        let it = legacy_served_by(&person, "2025-11-25").await;
        let calling = spawn(&it.session, CallOptions::default());
        let first = it.peer.expect("tools/call").await;
        refuse(&it.peer, &first, &urls).await;
        let error = calling.await.unwrap().unwrap_err();
        assert_eq!((refused(&error), error.outcome()), (is_refused, CallOutcome::Rejected), "{error}");
        assert_eq!(person.shown().len(), shown, "{error}");
        settle().await;
        assert_eq!(methods(&it.peer).iter().filter(|method| *method == "tools/call").count(), 1);
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn without_somebody_to_ask_the_error_is_typed_and_names_the_urls() {
    let unserved = legacy().await;
    let by_hand = legacy_served_by(&Person::new(), "2025-11-25").await;
    for (it, options) in
        [(unserved, CallOptions::default()), (by_hand, CallOptions::default().with_rounds_by_hand())]
    {
        let calling = spawn(&it.session, options);
        let first = it.peer.expect("tools/call").await;
        refuse(&it.peer, &first, &[url("now", "a")]).await;
        let error = calling.await.unwrap().unwrap_err();
        assert_eq!(unopened_why(&error), &UrlsUnopened::Unserved);
        let CallError::UrlsRequired(required) = error else { panic!() };
        assert_eq!(required.elicitations[0].url, "https://a");
    }
    // The code means nothing in other versions, nor without URLs.
    let older = legacy_served_by(&Person::new(), "2025-06-18").await;
    let newer =
        modern_with(SessionOptions::default().with_handler(Person::new()), MemoryOptions::default()).await;
    let empty = legacy_served_by(&Person::new(), "2025-11-25").await;
    for (it, urls) in [(older, Some(url("now", "a"))), (newer, Some(url("now", "a"))), (empty, None)] {
        let calling = spawn(&it.session, CallOptions::default());
        let first = it.peer.expect("tools/call").await;
        match urls {
            Some(url) => refuse(&it.peer, &first, &[url]).await,
            None => it.peer.respond_error(first.id(), -32042, "open what?").await,
        }
        let error = calling.await.unwrap().unwrap_err();
        assert!(matches!(&error, CallError::Peer(error) if error.code == -32042), "{error}");
        assert_quiescent(&it.session);
    }
}

#[tokio::test(start_paused = true)]
async fn p2_a_call_that_ends_while_a_person_is_asked_was_refused_and_sends_nothing_more() {
    for how in ["deadline", "drop", "close"] {
        let person = Person::new();
        let it = legacy_served_by(&person, "2025-11-25").await;
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
        let live = gate.enter(soon()).await.unwrap();
        let options = CallOptions::default().with_deadline(Instant::now() + seconds(10));
        let mut calling = ByHand::new(live.call(CallTool::new("t"), options));
        assert!(calling.poll().is_pending());
        let first = it.peer.expect("tools/call").await;
        refuse(&it.peer, &first, &[url("think", "a")]).await;
        settle().await;
        assert!(calling.poll().is_pending());
        assert_eq!(person.shown().len(), 1);
        match how {
            // Nobody polls it.
            "deadline" => tokio::time::sleep(seconds(11)).await,
            "drop" => drop(std::mem::replace(
                &mut calling,
                ByHand::new(it.session.call(CallTool::new("u"), CallOptions::default())),
            )),
            _ => it.peer.close(CloseReason::EndOfStream),
        }
        settle().await;
        assert!(gate.idle(), "{how}");
        if how != "drop" {
            let std::task::Poll::Ready(Err(error)) = calling.poll() else { panic!("not over: {how}") };
            assert_eq!(error.outcome(), CallOutcome::Rejected, "{how}: {error}");
            let refused = Dispatch::Refused;
            assert!(
                matches!(&error, CallError::Timeout { dispatch, .. } | CallError::SessionGone { dispatch, .. } if *dispatch == refused),
                "{error:?}"
            );
        }
        complete(&it.peer, "a").await;
        person.thinking.add_permits(1);
        settle().await;
        assert_eq!(methods(&it.peer).iter().filter(|method| *method == "tools/call").count(), 1, "{how}");
        assert!(cancelled_ids(&it.peer).is_empty(), "{how}: there is nothing to cancel");
        assert_quiescent(&it.session);
    }
}
