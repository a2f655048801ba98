//! What follows when a server says that a list has changed.
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
use std::time::Duration;

use mcp_lifecycle::{RecessOptions, ServerEvent, ServerHandle, ServerOptions};
use mcp_proto::SubscriptionFilter;
use mcp_session::{CallOptions, EraPolicy, ListKind, SessionOptions, SubscribeOptions};
use mcp_transport::CloseReason;
use mcp_transport::testing::checks::LogCapture;
use mcp_transport::testing::{Action, Behaviour, MemoryConnector, Received, ScriptedPeer};
use serde_json::{Value, json};
use support::{Bench, echo, milliseconds, plain, ready, seconds, told, until};
use tokio::time::{Instant, advance, sleep, timeout};
use tracing::Level;

fn modern() -> ServerOptions {
    plain().with_session(SessionOptions::default().with_era(EraPolicy::Modern))
}

fn tools(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    json!({"resultType": "complete", "tools": names.iter().map(tool).collect::<Vec<_>>()})
}

/// Plays a legacy handshake with these capabilities and answers no list.
async fn shake_hands(peer: &ScriptedPeer, capabilities: Value) {
    let request = peer.expect("initialize").await;
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "serverInfo": {"name": "scripted", "version": "1"},
    });
    peer.respond(request.id(), result).await;
    peer.expect("notifications/initialized").await;
}

/// The same in the modern era.
async fn discover(peer: &ScriptedPeer, capabilities: Value) {
    let request = peer.expect("server/discover").await;
    let result = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities,
    });
    peer.respond(request.id(), result).await;
}

async fn answer(peer: &ScriptedPeer, method: &str, result: Value) {
    let request = peer.expect(method).await;
    peer.respond(request.id(), result).await;
}

/// A legacy server that is ready, with the tool `old`.
async fn legacy(bench: &Bench, options: ServerOptions) -> (ServerHandle, ScriptedPeer) {
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, options);
    let peer = connector.next_peer().await;
    shake_hands(&peer, json!({"tools": {"listChanged": true}})).await;
    answer(&peer, "tools/list", tools(&["old"])).await;
    ready(&server).await;
    (server, peer)
}

async fn tell(peer: &ScriptedPeer, kind: &str) {
    peer.send(json!({"jsonrpc": "2.0", "method": format!("notifications/{kind}/list_changed")})).await;
}

/// Tells of a list on the subscription that `listen` has asked for.
async fn tell_on(peer: &ScriptedPeer, listen: &Received, method: &str) {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.value["id"]});
    let params = json!({"notifications": listen.params()["notifications"], "_meta": meta});
    peer.send(json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})).await;
}

fn names(server: &ServerHandle) -> Vec<String> {
    let lists = server.lists().expect("it offers something");
    lists.tools.items.iter().map(|tool| tool.name.clone()).collect()
}

fn count(peer: &ScriptedPeer, method: &str) -> usize {
    peer.transcript().iter().filter(|frame| frame.method() == Some(method)).count()
}

/// The next event about a list, other than that it has changed.
async fn next_update(bench: &mut Bench) -> ServerEvent {
    let is_update = |event: &ServerEvent| {
        matches!(event, ServerEvent::ListUpdated { .. } | ServerEvent::ListUpdateFailed { .. })
    };
    told(&mut bench.events, |event| Some(event).filter(is_update)).await
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_fetched_and_stands_before_it_is_told() {
    let mut bench = Bench::new();
    let (server, peer) = legacy(&bench, plain()).await;
    let before = server.lists().unwrap();
    tell(&peer, "tools").await;
    answer(&peer, "tools/list", tools(&["old", "new"])).await;
    let is_move = |event: &ServerEvent| matches!(event, ServerEvent::StateChanged { .. });
    let first = told(&mut bench.events, |event| Some(event).filter(|event| !is_move(event))).await;
    assert!(matches!(first, ServerEvent::ListChanged { kind: ListKind::Tools, .. }), "{first:?}");
    let event = next_update(&mut bench).await;
    let ServerEvent::ListUpdated { server: name, generation: 1, kind: ListKind::Tools } = event else {
        panic!("{event:?}")
    };
    assert_eq!((&*name, names(&server)), ("one", vec!["old".to_owned(), "new".to_owned()]));
    assert_eq!(before.tools.items.len(), 1, "who has the old lists keeps them");
    // The same list once more is no news.
    sleep(seconds(10)).await;
    let known = server.lists().unwrap();
    tell(&peer, "tools").await;
    answer(&peer, "tools/list", tools(&["old", "new"])).await;
    sleep(seconds(10)).await;
    assert!(Arc::ptr_eq(&known, &server.lists().unwrap()));
    // Of the other lists nothing is asked: the server has none.
    tell(&peer, "prompts").await;
    sleep(seconds(10)).await;
    assert_eq!((count(&peer, "tools/list"), count(&peer, "prompts/list")), (3, 0));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_list_that_has_changed_is_fetched() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let peer = connector.next_peer().await;
    shake_hands(&peer, json!({"tools": {}, "prompts": {}, "resources": {}})).await;
    answer(&peer, "tools/list", tools(&["old"])).await;
    answer(&peer, "resources/list", json!({"resources": []})).await;
    answer(&peer, "resources/templates/list", json!({"resourceTemplates": []})).await;
    answer(&peer, "prompts/list", json!({"prompts": []})).await;
    ready(&server).await;
    tell(&peer, "resources").await;
    answer(&peer, "resources/list", json!({"resources": [{"uri": "a:", "name": "a"}]})).await;
    answer(&peer, "resources/templates/list", json!({"resourceTemplates": []})).await;
    let event = next_update(&mut bench).await;
    assert!(matches!(event, ServerEvent::ListUpdated { kind: ListKind::Resources, .. }), "{event:?}");
    let lists = server.lists().unwrap();
    assert_eq!((lists.resources.items.len(), lists.tools.items.len()), (1, 1));
    sleep(seconds(10)).await;
    let counts = ["tools/list", "resources/list", "prompts/list"].map(|method| count(&peer, method));
    assert_eq!(counts, [1, 2, 1]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f110_i38_a_storm_of_changes_leads_to_two_fetches_a_second_apart_and_the_last_state_wins() {
    let bench = Bench::new();
    let (server, peer) = legacy(&bench, plain()).await;
    tell(&peer, "tools").await;
    let first = peer.expect("tools/list").await;
    for _ in 0..10_000 {
        tell(&peer, "tools").await;
    }
    advance(milliseconds(500)).await;
    peer.respond(first.id(), tools(&["half"])).await;
    let ended = Instant::now();
    let second = peer.expect("tools/list").await;
    assert!((seconds(1)..milliseconds(1_010)).contains(&ended.elapsed()), "{:?}", ended.elapsed());
    assert_eq!(names(&server), ["half"]);
    peer.respond(second.id(), tools(&["last"])).await;
    sleep(seconds(60)).await;
    assert_eq!((names(&server), count(&peer, "tools/list")), (vec!["last".to_owned()], 3));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f111_a_server_whose_list_changes_with_every_call_is_asked_ever_more_rarely_and_warned_of_once() {
    let (log, _guard) = LogCapture::on_this_thread();
    let bench = Bench::new();
    let (_server, peer) = legacy(&bench, plain()).await;
    let mut asked = Vec::new();
    tell(&peer, "tools").await;
    let endless = async {
        loop {
            let request = peer.expect("tools/list").await;
            asked.push(Instant::now());
            tell(&peer, "tools").await;
            let name = format!("tool {}", asked.len());
            peer.respond(request.id(), tools(&[&name])).await;
            tell(&peer, "tools").await;
        }
    };
    assert!(timeout(seconds(600), endless).await.is_err());
    let gaps: Vec<_> = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_millis() / 1000).collect();
    assert_eq!(gaps[..6], [1, 2, 4, 8, 16, 30]);
    assert!(gaps[5..].iter().all(|gap| *gap == 30) && asked.len() < 30, "{gaps:?}");
    let warnings = log.at(Level::WARN);
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert_eq!((&*warnings[0].fields["server"], &*warnings[0].fields["list"]), ("one", "tools"));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_fails_keeps_the_old_list_says_so_and_is_tried_again() {
    let (log, _guard) = LogCapture::on_this_thread();
    let mut bench = Bench::new();
    let (server, peer) = legacy(&bench, plain()).await;
    tell(&peer, "tools").await;
    for _ in 0..3 {
        let request = peer.expect("tools/list").await;
        peer.respond_error(request.id(), -32603, "\u{1b}[2Jno").await;
        let event = next_update(&mut bench).await;
        let ServerEvent::ListUpdateFailed { kind: ListKind::Tools, error, .. } = event else {
            panic!("{event:?}")
        };
        assert!(matches!(*error, mcp_session::CallError::Peer(_)), "{error}");
        assert_eq!(names(&server), ["old"]);
    }
    answer(&peer, "tools/list", tools(&["new"])).await;
    assert!(matches!(next_update(&mut bench).await, ServerEvent::ListUpdated { .. }));
    assert_eq!(names(&server), ["new"]);
    sleep(seconds(60)).await;
    assert_eq!(count(&peer, "tools/list"), 5);
    let warnings = log.at(Level::WARN);
    assert_eq!(warnings.len(), 1, "once for all three: {warnings:#?}");
    assert!(!warnings[0].to_string().contains('\u{1b}'), "{warnings:#?}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_comes_too_slowly_does_not_replace_a_whole_one() {
    let bench = Bench::new();
    let (server, peer) = legacy(&bench, plain().with_connect_limit(seconds(5))).await;
    tell(&peer, "tools").await;
    let mut page = tools(&["part"]);
    page["nextCursor"] = json!("more");
    answer(&peer, "tools/list", page).await;
    peer.expect("tools/list").await;
    peer.expect("notifications/cancelled").await;
    answer(&peer, "ping", json!({})).await;
    sleep(milliseconds(100)).await;
    assert_eq!(names(&server), ["old"]);
    answer(&peer, "tools/list", tools(&["whole"])).await;
    sleep(milliseconds(100)).await;
    assert_eq!(names(&server), ["whole"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn i24_nothing_that_was_being_fetched_comes_back_after_the_server_is_gone() {
    for how in ["disable", "lose"] {
        let bench = Bench::new();
        let (server, peer) = legacy(&bench, plain()).await;
        tell(&peer, "tools").await;
        let request = peer.expect("tools/list").await;
        if how == "disable" {
            server.disable();
            until(&server, |status| (!status.state.is_ready()).then_some(())).await;
            assert!(server.lists().is_none());
            // Too late.
            peer.respond(request.id(), tools(&["ghost"])).await;
            sleep(seconds(10)).await;
            assert!(server.lists().is_none());
        } else {
            peer.respond(request.id(), tools(&["ghost"])).await;
            peer.close(CloseReason::EndOfStream);
            until(&server, |status| (!status.state.is_ready()).then_some(())).await;
        }
        bench.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_takes_a_permit_like_any_call_and_holds_up_no_shutdown() {
    let mut bench = Bench::new();
    let (server, peer) = legacy(&bench, plain().with_in_flight(NonZeroUsize::MIN)).await;
    let (called, ()) = tokio::join!(server.call(echo(), CallOptions::default()), async {
        let request = peer.expect("tools/call").await;
        tell(&peer, "tools").await;
        sleep(seconds(5)).await;
        assert_eq!(count(&peer, "tools/list"), 1, "one at a time");
        peer.respond(request.id(), json!({"content": []})).await;
    });
    called.unwrap();
    answer(&peer, "tools/list", tools(&["new"])).await;
    next_update(&mut bench).await;

    tell(&peer, "tools").await;
    peer.expect("tools/list").await;
    let report = bench.end().await;
    assert_eq!((report.elapsed, report.servers[0].calls_cancelled), (Duration::ZERO, 0), "{report:?}");
    assert_eq!(count(&peer, "notifications/cancelled"), 1, "given up, and said so");
}

#[tokio::test(start_paused = true)]
async fn u125_u126_the_modern_subscription_is_opened_again_after_each_end_and_what_was_missed_is_fetched() {
    let mut bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let mut peer = connector.next_peer().await;
    discover(&peer, json!({"tools": {"listChanged": true}, "prompts": {}})).await;
    answer(&peer, "tools/list", tools(&["0"])).await;
    answer(&peer, "prompts/list", json!({"resultType": "complete", "prompts": []})).await;
    ready(&server).await;
    for (round, end) in ["complete", "cancel", "error", "loss"].into_iter().enumerate() {
        let listen = peer.expect("subscriptions/listen").await;
        assert_eq!(listen.params()["notifications"], json!({"toolsListChanged": true}), "only what it tells");
        tell_on(&peer, &listen, "subscriptions/acknowledged").await;
        // What has changed before that was told to nobody.
        let missed = format!("missed {round}");
        answer(&peer, "tools/list", tools(&[&missed])).await;
        assert!(matches!(next_update(&mut bench).await, ServerEvent::ListUpdated { .. }));
        assert_eq!(names(&server), [missed]);
        assert!(!server.status().degraded);
        tell_on(&peer, &listen, "tools/list_changed").await;
        let told = format!("told {round}");
        answer(&peer, "tools/list", tools(&[&told])).await;
        next_update(&mut bench).await;
        assert_eq!(names(&server), [told]);
        let began = Instant::now();
        match end {
            "complete" => peer.respond(listen.id(), json!({"resultType": "complete"})).await,
            "cancel" => {
                let params = json!({"requestId": listen.value["id"]});
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                peer.send(cancel).await;
            }
            "error" => peer.respond_error(listen.id(), -32603, "no more").await,
            _ => {
                peer.close(CloseReason::EndOfStream);
                peer = connector.next_peer().await;
                discover(&peer, json!({"tools": {"listChanged": true}, "prompts": {}})).await;
                answer(&peer, "tools/list", tools(&["1"])).await;
                answer(&peer, "prompts/list", json!({"resultType": "complete", "prompts": []})).await;
                peer.expect("subscriptions/listen").await;
                continue;
            }
        }
        // Nothing is told until it is open again.
        until(&server, |status| status.degraded.then_some(())).await;
        assert!(server.status().state.is_ready(), "the connection stays");
        let waited = timeout(seconds(3), async {
            while count(&peer, "subscriptions/listen") <= round + 1 {
                sleep(milliseconds(1)).await;
            }
        });
        waited.await.unwrap();
        assert!(began.elapsed() > Duration::ZERO, "not at once");
    }
    assert_eq!(count(&peer, "prompts/list"), 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_supervisor_follows_itself_keeps_no_server_awake() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let recess = RecessOptions::default().with_idle(Some(seconds(60)));
    let server = bench.add_by_hand("one", &connector, modern().with_recess(recess));
    let peer = connector.next_peer().await;
    let play = async {
        discover(&peer, json!({"tools": {"listChanged": true}})).await;
        answer(&peer, "tools/list", tools(&["old"])).await;
        let own = peer.expect("subscriptions/listen").await;
        tell_on(&peer, &own, "subscriptions/acknowledged").await;
        answer(&peer, "tools/list", tools(&["old"])).await;
    };
    play.await;
    let mut wanted = SubscriptionFilter::default();
    wanted.tools_list_changed = true;
    let (theirs, ()) = tokio::join!(server.subscribe(wanted, SubscribeOptions::default()), async {
        let listen = peer.expect("subscriptions/listen").await;
        tell_on(&peer, &listen, "subscriptions/acknowledged").await;
    });
    let theirs = theirs.unwrap();
    sleep(seconds(600)).await;
    assert!(server.status().state.is_ready(), "somebody is told of changes");
    drop(theirs);
    sleep(seconds(121)).await;
    assert_eq!(server.status().state.name(), "dormant");
    assert_eq!(names(&server), ["old"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_declares_changes_and_knows_no_subscription_is_asked_once() {
    let bench = Bench::new();
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, modern());
    let peer = connector.next_peer().await;
    discover(&peer, json!({"tools": {"listChanged": true}})).await;
    answer(&peer, "tools/list", tools(&["old"])).await;
    let listen = peer.expect("subscriptions/listen").await;
    peer.respond_error(listen.id(), -32601, "what?").await;
    sleep(seconds(600)).await;
    assert_eq!(count(&peer, "subscriptions/listen"), 1);
    assert!(server.status().state.is_ready());
    bench.end().await;
}

/// When each server was asked to tell of changes.
type Asked = Arc<Mutex<Vec<Instant>>>;

/// A modern server that ends every subscription at one instant.
struct Restarting {
    at: Instant,
    listening: Option<Value>,
    asked: Asked,
}

impl Behaviour for Restarting {
    fn on_frame(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        let respond = |result: Value| {
            vec![Action::Send(json!({"jsonrpc": "2.0", "id": frame.value["id"], "result": result}))]
        };
        match frame.method() {
            Some("server/discover") => respond(json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}},
            })),
            Some("tools/list") => respond(tools(&["old"])),
            Some("subscriptions/listen") => {
                let id = frame.value["id"].clone();
                self.asked.lock().unwrap().push(now);
                let params = json!({
                    "notifications": frame.params()["notifications"],
                    "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                });
                self.listening = Some(id);
                let method = "notifications/subscriptions/acknowledged";
                vec![Action::Send(json!({"jsonrpc": "2.0", "method": method, "params": params}))]
            }
            _ => Vec::new(),
        }
    }

    fn on_deadline(&mut self, now: Instant) -> Vec<Action> {
        self.at = now + seconds(1_000_000);
        let id = self.listening.take().expect("it has subscribed");
        vec![Action::Send(json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}}))]
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.at)
    }
}

#[tokio::test(start_paused = true)]
async fn f092_when_all_streams_drop_at_once_at_most_a_tenth_is_opened_again_in_any_second() {
    let mut bench = Bench::new();
    let asked = Asked::default();
    let at = Instant::now() + seconds(300);
    for server in 0..500 {
        let asked = Arc::clone(&asked);
        bench.add_with(&format!("server {server}"), modern(), move |_| Restarting {
            at,
            listening: None,
            asked: Arc::clone(&asked),
        });
    }
    sleep(seconds(400)).await;
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    assert_eq!(asked.len(), 1000, "each twice");
    let again: Vec<_> = asked.iter().copied().filter(|asked| *asked >= at).collect();
    assert_eq!(again.len(), 500);
    let second_from =
        |first: Instant| again.iter().filter(|at| (first..first + seconds(1)).contains(*at)).count();
    let busiest = again.iter().map(|first| second_from(*first)).max().unwrap();
    assert!(busiest <= 50, "{busiest} in one second");
    bench.end().await;
}
