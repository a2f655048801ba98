//! Lists in pages.
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

use mcp_proto::{ListResources, ListTools, Tool};
use mcp_session::{CallError, CallOptions, CallOutcome, Gate, ListLimits, Listed, Session, Truncated};
use mcp_transport::testing::{Received, ScriptedPeer};
use serde_json::{Value, json};
use support::*;
use tokio::time::Instant;

type Answer = Result<Listed<Tool>, CallError>;

async fn list(session: &Session, limits: ListLimits) -> Answer {
    session.list::<ListTools>(CallOptions::default(), limits).await
}

fn page(names: &[&str], cursor: Option<&str>) -> Value {
    let tools: Vec<_> = names.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
    match cursor {
        Some(cursor) => json!({"tools": tools, "nextCursor": cursor}),
        None => json!({"tools": tools}),
    }
}

fn cursor(request: &Received) -> Option<&str> {
    request.params().get("cursor").map(|cursor| cursor.as_str().unwrap())
}

fn names(listed: &Listed<Tool>) -> Vec<&str> {
    listed.items.iter().map(|tool| tool.name.as_str()).collect()
}

/// Answers pages in this order; each comes with the cursor that must have asked for it.
async fn serve(peer: &ScriptedPeer, pages: &[(Option<&str>, Value)]) {
    for (asked, page) in pages {
        let request = peer.expect("tools/list").await;
        assert_eq!(cursor(&request), *asked);
        peer.respond(request.id(), page.clone()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn g141_pages_are_fetched_in_order_until_no_cursor_comes() {
    let it = legacy().await;
    let pages = [
        (None, page(&["a", "b"], Some("\u{0}opaque\"\\ \u{1f600}"))),
        (Some("\u{0}opaque\"\\ \u{1f600}"), page(&[], Some("2"))),
        (Some("2"), page(&["c"], None)),
    ];
    let (listed, ()) = tokio::join!(list(&it.session, ListLimits::default()), serve(&it.peer, &pages));
    let listed = listed.unwrap();
    assert_eq!(names(&listed), ["a", "b", "c"]);
    assert_eq!(listed.truncated, None);
    assert_eq!(listed.items.capacity(), 3, "no room for entries that do not come");
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn f113_an_empty_cursor_is_a_cursor_like_any_other() {
    let it = legacy().await;
    let pages = [(None, page(&["a"], Some(""))), (Some(""), page(&["b"], None))];
    let (listed, ()) = tokio::join!(list(&it.session, ListLimits::default()), serve(&it.peer, &pages));
    assert_eq!(names(&listed.unwrap()), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn f113_a_server_that_repeats_its_cursor_is_read_to_its_end() {
    let it = legacy().await;
    let pages = [
        (None, page(&["a"], Some("next"))),
        (Some("next"), page(&["b"], Some("next"))),
        (Some("next"), page(&["c"], Some("next"))),
        (Some("next"), page(&["d"], None)),
    ];
    let (listed, ()) = tokio::join!(list(&it.session, ListLimits::default()), serve(&it.peer, &pages));
    let listed = listed.unwrap();
    assert_eq!((names(&listed), listed.truncated), (vec!["a", "b", "c", "d"], None));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_round_in_circles_ends_where_nothing_new_comes() {
    let it = legacy().await;
    let pages = [
        (None, page(&["a"], Some("1"))),
        (Some("1"), page(&["b"], Some("2"))),
        (Some("2"), page(&["c"], Some("1"))),
        (Some("1"), page(&["b"], Some("2"))),
    ];
    let (listed, ()) = tokio::join!(list(&it.session, ListLimits::default()), serve(&it.peer, &pages));
    let listed = listed.unwrap();
    assert_eq!((names(&listed), listed.truncated), (vec!["a", "b", "c"], None));
    assert_eq!(it.peer.transcript().len(), 6, "nothing more is asked for");
}

/// A server whose list never ends: every page has `entries` new tools and a new cursor.
async fn endless(peer: &ScriptedPeer, entries: usize) {
    let mut next = 0;
    while let Some(request) = peer.next().await {
        let names: Vec<String> = (0..entries).map(|n| format!("{next}-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        next += 1;
        if request.method() == Some("tools/list") {
            peer.respond(request.id(), page(&names, Some(&next.to_string()))).await;
        }
    }
}

async fn list_endless(entries: usize, limits: ListLimits) -> (Listed<Tool>, usize) {
    let it = legacy().await;
    let listed = tokio::select! {
        biased;
        listed = list(&it.session, limits) => listed.unwrap(),
        () = endless(&it.peer, entries) => panic!("the connection has ended"),
    };
    assert_quiescent(&it.session);
    (listed, it.peer.transcript().len() - 2)
}

#[tokio::test(start_paused = true)]
async fn f112_a_list_without_end_stops_at_a_hundred_pages() {
    let (listed, pages) = list_endless(1, ListLimits::default()).await;
    assert_eq!((listed.items.len(), pages, listed.truncated), (100, 100, Some(Truncated::Pages)));
    let (listed, pages) = list_endless(1, ListLimits::default().with_max_pages(3)).await;
    assert_eq!((listed.items.len(), pages, listed.truncated), (3, 3, Some(Truncated::Pages)));
}

#[tokio::test(start_paused = true)]
async fn f112_a_list_without_end_stops_at_ten_thousand_entries() {
    let (listed, pages) = list_endless(150, ListLimits::default()).await;
    assert_eq!((listed.items.len(), pages, listed.truncated), (10_000, 67, Some(Truncated::Items)));
    let (listed, pages) = list_endless(5, ListLimits::default().with_max_items(10)).await;
    assert_eq!((listed.items.len(), pages, listed.truncated), (10, 2, Some(Truncated::Items)));
}

/// Neither their number nor that of their entries is over a limit: a hundred such pages hold 100 MiB.
#[tokio::test(start_paused = true)]
async fn f112_a_list_of_long_pages_stops_at_its_bytes() {
    const MIB: usize = 1024 * 1024;
    let it = legacy().await;
    let serving = async {
        for asked in 0.. {
            let request = it.peer.expect("tools/list").await;
            let tool = json!({"name": asked.to_string(), "inputSchema": {}, "description": "x".repeat(MIB)});
            it.peer.respond(request.id(), json!({"tools": [tool], "nextCursor": asked.to_string()})).await;
        }
    };
    let listed = tokio::select! {
        listed = list(&it.session, ListLimits::default()) => listed.unwrap(),
        () = serving => unreachable!(),
    };
    assert_eq!(listed.truncated, Some(Truncated::Bytes));
    assert_eq!(listed.items.len(), 31, "32 MiB hold 31 pages that are a little longer than 1 MiB");
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_exactly_the_limit_is_whole() {
    let it = legacy().await;
    let pages = [(None, page(&["a", "b"], Some("1"))), (Some("1"), page(&["c"], None))];
    let limits = ListLimits::default().with_max_items(3).with_max_pages(2);
    let (listed, ()) = tokio::join!(list(&it.session, limits), serve(&it.peer, &pages));
    let listed = listed.unwrap();
    assert_eq!((listed.items.len(), listed.truncated), (3, None));
}

#[tokio::test(start_paused = true)]
async fn f112_a_list_whose_time_is_up_says_so_and_keeps_what_it_has() {
    let it = legacy().await;
    let began = Instant::now();
    let options = CallOptions::default().with_deadline(began + seconds(10));
    let server = async {
        loop {
            let request = it.peer.receive().await;
            if request.method() != Some("tools/list") {
                return request;
            }
            tokio::time::sleep(seconds(4)).await;
            let cursor = it.peer.transcript().len().to_string();
            it.peer.respond(request.id(), page(&["x"], Some(&cursor))).await;
        }
    };
    let listing = it.session.list::<ListTools>(options, ListLimits::default());
    let (listed, last) = tokio::join!(listing, server);
    let listed = listed.unwrap();
    assert_eq!((listed.items.len(), listed.truncated), (2, Some(Truncated::Deadline)));
    assert_eq!(last.at, began + seconds(10));
    assert_eq!(last.method(), Some("notifications/cancelled"));
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_deadline_ends_at_the_hard_limit() {
    let it = legacy().await;
    let began = Instant::now();
    let server = async {
        while let Some(request) = it.peer.next().await {
            tokio::time::sleep(seconds(50)).await;
            let cursor = it.peer.transcript().len().to_string();
            it.peer.respond(request.id(), page(&["x"], Some(&cursor))).await;
        }
    };
    let listed = tokio::select! {
        biased;
        listed = list(&it.session, ListLimits::default()) => listed.unwrap(),
        () = server => panic!("the connection has ended"),
    };
    assert_eq!((listed.items.len(), listed.truncated), (5, Some(Truncated::Deadline)));
    assert_eq!(began.elapsed(), seconds(300));
}

#[tokio::test(start_paused = true)]
async fn a_first_page_that_never_comes_is_an_error_and_so_is_one_that_is_refused() {
    let it = legacy().await;
    let options = CallOptions::default().with_timeout(seconds(1));
    let error = it.session.list::<ListTools>(options, ListLimits::default()).await.unwrap_err();
    assert!(error.is_timeout());
    it.peer.expect("tools/list").await;
    it.peer.expect("notifications/cancelled").await;

    let server = async {
        serve(&it.peer, &[(None, page(&["a"], Some("1")))]).await;
        let request = it.peer.expect("tools/list").await;
        it.peer.respond_error(request.id(), -32602, "invalid cursor").await;
    };
    let (listed, ()) = tokio::join!(list(&it.session, ListLimits::default()), server);
    assert!(matches!(listed.unwrap_err(), CallError::Peer(error) if error.code == -32602));
    assert_quiescent(&it.session);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_list_cancels_the_page_it_waits_for() {
    let it = legacy().await;
    let mut listing =
        ByHand::new(it.session.list::<ListResources>(CallOptions::default(), ListLimits::default()));
    assert!(listing.poll().is_pending());
    let request = it.peer.expect("resources/list").await;
    drop(listing);
    assert_quiescent(&it.session);
    assert_eq!(cancelled_ids(&it.peer), [request.value["id"].as_i64().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn what_was_waited_before_the_list_counts_against_its_first_page_only() {
    let it = legacy().await;
    let began = Instant::now();
    tokio::time::sleep(seconds(55)).await; // for a connection, say
    let options = CallOptions::default().with_timeout(seconds(60)).with_began(began);
    let serve = async |first: u64, second: u64| {
        let request = it.peer.expect("tools/list").await;
        tokio::time::sleep(seconds(first)).await;
        it.peer.respond(request.id(), page(&["a"], Some("2"))).await;
        let request = it.peer.expect("tools/list").await;
        tokio::time::sleep(seconds(second)).await;
        it.peer.respond(request.id(), page(&["b"], None)).await;
    };
    let fetch = it.session.list::<ListTools>(options.clone(), ListLimits::default());
    let (listed, ()) = tokio::join!(fetch, serve(4, 50));
    let listed = listed.unwrap();
    assert_eq!((names(&listed), listed.truncated), (vec!["a", "b"], None));

    let late = it.session.list::<ListTools>(options, ListLimits::default()).await.unwrap_err();
    assert!(late.is_timeout() && late.outcome() == CallOutcome::NotSent, "{late}");
}

/// The next page would need somebody who polls; the permit does not.
#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_polls_between_two_pages_gives_its_permit_back_at_its_deadline() {
    for is_lost in [false, true] {
        let it = legacy().await;
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
        let live = gate.enter(soon()).await.unwrap();
        let options = CallOptions::default().with_deadline(Instant::now() + seconds(10));
        let mut listing = ByHand::new(live.list::<ListTools>(options, ListLimits::default()));
        assert!(listing.poll().is_pending());
        let request = it.peer.expect("tools/list").await;
        it.peer.respond(request.id(), page(&["a"], Some("2"))).await;
        tokio::time::sleep(seconds(9)).await;
        assert_eq!(gate.in_flight(), 1, "it may go on");
        if is_lost {
            it.peer.close(mcp_transport::CloseReason::EndOfStream);
        }
        tokio::time::sleep(seconds(1)).await;
        settle().await;
        assert_gate_quiescent(&gate);
        assert_quiescent(&it.session);
        let std::task::Poll::Ready(listed) = listing.poll() else { panic!("not over") };
        match listed {
            Ok(listed) => {
                assert_eq!((names(&listed), listed.truncated), (vec!["a"], Some(Truncated::Deadline)));
                assert!(!is_lost);
            }
            Err(error) => assert!(is_lost && error.is_session_gone(), "{error}"),
        }
        assert_eq!(methods(&it.peer).iter().filter(|method| *method == "tools/list").count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_goes_on_also_where_nobody_could_see_that_it_would() {
    let it = legacy().await;
    let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
    let live = gate.enter(soon()).await.unwrap();
    let listing = tokio::spawn(live.list::<ListTools>(CallOptions::default(), ListLimits::default()));
    let request = it.peer.expect("tools/list").await;
    let id = request.value["id"].as_i64().unwrap();
    // The name of the member is written with an escape.
    it.peer
        .send_raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[],"next\u0043ursor":"2"}}}}"#))
        .await;
    serve(&it.peer, &[(Some("2"), page(&["b"], Some("3"))), (Some("3"), page(&["c"], None))]).await;
    assert_eq!(names(&listing.await.unwrap().unwrap()), ["b", "c"]);
    assert_gate_quiescent(&gate);
}
