//! The promises, one function each. What is asked is what the servers and the system have seen.

mod over_http;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle::ShutdownReport;
use mcp_transport::testing::fixture::Transcript;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::over_http::held;
pub(super) use self::over_http::{session, stream};
use super::Actor;
use super::board::Check;
use super::scan;
use super::stage::{
    BREAKER_OPEN, BREAKER_STRIKES, BROKEN, BROKEN_REASON, CRASHING, HEALTHY, MODERN, MODERN_WEB, OVER_HTTP,
    OVER_STDIO, SHUTDOWN_BOUND, SILENT, STARTS, STUBBORN, Stage, WEB,
};
use super::web::WebServers;
use crate::output::human;

/// How long a server may take to settle, or to show in its transcript what was done to it.
const PATIENCE: Duration = Duration::from_secs(15);

/// How far apart the starts of servers may be that are started at once.
const APART: Duration = Duration::from_secs(5);

/// The limit of an ordinary call.
const CALL: Duration = Duration::from_secs(5);

/// The silent tool is called that often.
const TIMEOUTS: usize = 100;

/// So many calls try a breaker.
const TRYING: usize = 20;

/// How many of these calls are under way at once.
const AT_ONCE: usize = 50;

/// The limit of a call that is meant to run into it.
const SHORT: Duration = Duration::from_millis(250);

/// How soon a call must end whose server went away.
const AT_ONCE_LIMIT: Duration = Duration::from_secs(1);

/// How long a parked server is watched for another start.
const PARK_WATCH: Duration = Duration::from_millis(1500);

/// How long a process may be seen that has been killed.
const DYING: Duration = Duration::from_millis(100);

/// How long a connection may be seen that the client has closed.
const CLOSING: Duration = Duration::from_secs(1);

/// What a stop may take longer than its bound.
const STOP_SLACK: Duration = Duration::from_millis(100);

/// All were turned to side by side, over standard input and output and over HTTP, and those that can be
/// reached have ended their handshake.
pub(super) async fn together(actor: &Actor<'_>) -> Check {
    let by = Instant::now() + PATIENCE;
    for name in [HEALTHY, MODERN, SILENT, CRASHING, STUBBORN, WEB, MODERN_WEB] {
        if let Some(server) = actor.client.server(name) {
            server.settled(by).await;
        }
    }
    let (mut programs, mut listeners) = (Vec::new(), Vec::new());
    for (names, first, contacts) in
        [(&OVER_STDIO[..], "start", &mut programs), (&OVER_HTTP[..], "received", &mut listeners)]
    {
        for name in names {
            // Also the one that settles late, because it is tried again and again.
            seen_in(actor.stage, name, |seen| first_of(seen, first).is_some()).await;
            contacts.extend(first_of(&actor.stage.transcript(name), first));
        }
    }
    let contacts = || programs.iter().chain(&listeners);
    let apart = match (contacts().min(), contacts().max()) {
        (Some(first), Some(last)) => last.saturating_sub(*first),
        _ => Duration::MAX,
    };
    let legacy = [HEALTHY, SILENT, CRASHING, STUBBORN, WEB];
    let is_up = |name: &str| {
        actor.stage.transcript(name).count("notifications/initialized") == 1
            && !actor.stage.alive(name).is_empty()
    };
    let up = legacy.iter().filter(|name| is_up(name)).count();
    let all = (programs.len(), listeners.len()) == (OVER_STDIO.len(), OVER_HTTP.len());
    let ok = all && apart <= APART && up == legacy.len();
    let detail = format!(
        "{} of {} stdio and {} of {} HTTP servers met within {}; {up} of {} legacy handshakes done",
        programs.len(),
        OVER_STDIO.len(),
        listeners.len(),
        OVER_HTTP.len(),
        human(apart),
        legacy.len()
    );
    Check::new("together", ok, detail)
}

/// Lists are fetched, and a call runs exactly once with exactly its arguments.
pub(super) async fn call(actor: &Actor<'_>) -> Check {
    actor.stage.wiring.double_requests(true);
    let answer = actor.echo(HEALTHY, "hello", CALL).await;
    actor.stage.wiring.double_requests(false);
    // It reads in order: once it has run this, everything that was sent with the call has shown.
    actor.echo(HEALTHY, "no more", CALL).await;
    let seen = actor.stage.transcript(HEALTHY);
    let lists = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
    let listed = lists.iter().filter(|method| seen.count(method) > 0).count();
    let runs = seen.runs_with("echo", &json!({"message": "hello"}));
    let ok = listed == lists.len()
        && runs == 1
        && says(&answer, "/result", "hello")
        && seen.violations().is_empty();
    let detail =
        format!("{listed} of {} lists fetched; the tool ran {} with its arguments", lists.len(), times(runs));
    Check::new("call", ok, detail)
}

/// The modern server is spoken to in its own way, and never in the old one.
pub(super) async fn eras(actor: &Actor<'_>) -> Check {
    let answer = actor.echo(MODERN, "hello", CALL).await;
    let seen = actor.stage.transcript(MODERN);
    let (discovers, initializes) = (seen.count("server/discover"), seen.count("initialize"));
    let runs = seen.runs_with("echo", &json!({"message": "hello"}));
    let without_meta = seen
        .messages()
        .filter(|message| message.get("id").is_some() && message.pointer("/params/_meta").is_none())
        .count();
    let legacy = actor.stage.transcript(HEALTHY).count("initialize");
    let ok = discovers > 0
        && initializes == 0
        && without_meta == 0
        && runs == 1
        && legacy == 1
        && says(&answer, "/result", "hello");
    let detail = format!(
        "the modern server saw server/discover {}, initialize {}, and its tool ran {}",
        times(discovers),
        times(initializes),
        times(runs)
    );
    Check::new("eras", ok, detail)
}

/// When the broken server had used up its attempts, and how many neighbours answered then.
pub(super) struct Parked {
    at: Instant,
    neighbours: usize,
}

/// Waits until the broken server has been started as often as it may, and calls all its neighbours.
pub(super) async fn begin_park(actor: &Actor<'_>) -> Parked {
    seen_in(actor.stage, BROKEN, |seen| seen.servers().len() >= STARTS).await;
    let at = Instant::now();
    let mut neighbours = 0;
    for name in [HEALTHY, SILENT, CRASHING, STUBBORN] {
        actor.echo(name, "while parked", CALL).await;
        neighbours += actor.stage.transcript(name).runs_with("echo", &json!({"message": "while parked"}));
    }
    Parked { at, neighbours }
}

/// The broken server is left alone after its last attempt, its reason is known, and nobody else is hit.
pub(super) async fn park(actor: &Actor<'_>, parked: Parked) -> Check {
    // Not being started again is something that only time can show.
    sleep((parked.at + PARK_WATCH).saturating_duration_since(Instant::now())).await;
    let starts = actor.stage.transcript(BROKEN).servers().len();
    let answer = actor.echo(BROKEN, "hello", CALL).await;
    let knows_why = text(&answer, "/error").contains(BROKEN_REASON);
    let ok = starts == STARTS && knows_why && says(&answer, "/outcome", "not_sent") && parked.neighbours == 4;
    let detail = format!(
        "the broken server was started {} and a call {} its last words; meanwhile {} of 4 neighbours answered",
        times(starts),
        if knows_why { "quotes" } else { "does not quote" },
        parked.neighbours
    );
    Check::new("park", ok, detail)
}

/// The broken server, whose trouble is over, is revived by a request and works.
pub(super) async fn revive(actor: &Actor<'_>) -> Check {
    let began = Instant::now();
    if let Some(server) = actor.client.server(BROKEN) {
        server.wake();
    }
    let answer = actor.echo(BROKEN, "revived", CALL).await;
    let elapsed = began.elapsed();
    let seen = actor.stage.transcript(BROKEN);
    let newest = seen.servers().last().copied();
    let by: Vec<i32> = seen
        .events("executed")
        .filter(|record| says(&record.value, "/arguments/message", "revived"))
        .map(|record| record.pid)
        .collect();
    let ok = newest.is_some_and(|pid| by == [pid] && actor.stage.alive(BROKEN).contains(&pid))
        && seen.servers().len() == STARTS + 1
        && says(&answer, "/result", "revived");
    let detail = format!(
        "woken, the broken server was started {} in all, and a call ran {} after {}",
        times(seen.servers().len()),
        times(by.len()),
        human(elapsed)
    );
    Check::new("revive", ok, detail)
}

/// A hundred calls run into their limit; the server hears of each once, and is as good as new.
pub(super) async fn cancel(actor: &Actor<'_>) -> Check {
    for first in (0..TIMEOUTS).step_by(AT_ONCE) {
        let calls = (first..first + AT_ONCE).map(|number| {
            let actor = *actor;
            async move { actor.call(SILENT, "hang", json!({"number": number}), SHORT).await }
        });
        all_of(calls).await;
    }
    seen_in(actor.stage, SILENT, |seen| seen.cancelled().len() >= TIMEOUTS).await;
    let answer = actor.echo(SILENT, "and now", CALL).await;
    let seen = actor.stage.transcript(SILENT);
    let asked: BTreeSet<String> = seen
        .events("executed")
        .filter(|record| says(&record.value, "/tool", "hang"))
        .filter_map(|record| record.value.get("id").map(Value::to_string))
        .collect();
    let cancelled: Vec<String> = seen.cancelled().iter().map(|id| json!(id).to_string()).collect();
    let distinct: BTreeSet<String> = cancelled.iter().cloned().collect();
    let after = seen.runs_with("echo", &json!({"message": "and now"}));
    let ok = asked.len() == TIMEOUTS
        && cancelled.len() == TIMEOUTS
        && asked == distinct
        && after == 1
        && says(&answer, "/result", "and now");
    let detail = format!(
        "the silent tool was called {}, the server was told of {} time-outs, and the next call ran {}",
        times(asked.len()),
        cancelled.len(),
        times(after)
    );
    Check::new("cancel", ok, detail)
}

/// A call whose server goes away ends at once, says that it may have run, and ran once.
pub(super) async fn outcome(actor: &Actor<'_>) -> Check {
    let began = Instant::now();
    let answer = actor.call(CRASHING, "crash", json!({}), CALL).await;
    let elapsed = began.elapsed();
    let runs = actor.stage.transcript(CRASHING).runs("crash");
    let ok = runs == 1 && says(&answer, "/outcome", "unknown") && elapsed < AT_ONCE_LIMIT;
    let detail =
        format!("the call ended after {} with outcome {}", human(elapsed), text(&answer, "/outcome"));
    Check::new("outcome", ok, format!("{detail}; the tool ran {}", times(runs)))
}

/// A connection that keeps breaking opens the breaker: nothing more is sent, then exactly one call tries,
/// and then all are let through.
pub(super) async fn breaker(actor: &Actor<'_>) -> Check {
    // Whatever was before: from here on the strikes are counted anew.
    let by = Instant::now() + PATIENCE;
    while !says(&actor.echo(CRASHING, "well", CALL).await, "/result", "well") && Instant::now() < by {
        sleep(BREAKER_OPEN / 10).await;
    }
    let before = actor.stage.transcript(CRASHING).runs("crash");
    for _ in 0..BREAKER_STRIKES + 2 {
        actor.call(CRASHING, "crash", json!({}), CALL).await;
    }
    let crashes = actor.stage.transcript(CRASHING).runs("crash") - before;
    all_of((0..TRYING).map(|_| actor.echo(CRASHING, "while open", CALL))).await;
    sleep(BREAKER_OPEN).await;
    let slowly = json!({"message": "half open", "delay_ms": 200});
    all_of((0..TRYING).map(|_| actor.call(CRASHING, "echo", slowly.clone(), CALL))).await;
    let answer = actor.echo(CRASHING, "closed", CALL).await;
    let seen = actor.stage.transcript(CRASHING);
    let [open, closed] =
        ["while open", "closed"].map(|message| seen.runs_with("echo", &json!({"message": message})));
    let half_open = seen.runs_with("echo", &slowly);
    let ok = (crashes, open, half_open, closed) == (BREAKER_STRIKES, 0, 1, 1)
        && says(&answer, "/result", "closed");
    let detail = format!(
        "{crashes} crashes opened it; of {TRYING} calls {open} ran while it was open, and {half_open} of \
         {TRYING} when it was half open; then they ran again"
    );
    Check::new("breaker", ok, detail)
}

/// A server is killed from outside; the next call finds a new one.
pub(super) async fn recovery(actor: &Actor<'_>) -> Check {
    let first = actor.stage.transcript(HEALTHY).servers().last().copied().unwrap_or_default();
    let lost = actor.client.server(HEALTHY).map(|server| (server.status().generation, server.watch()));
    scan::kill(first);
    if let Some((generation, mut states)) = lost {
        // Once the loss is known, a call waits for the next connection instead of trying the dead one.
        let noticed = states.wait_for(|status| status.generation > generation || !status.state.is_ready());
        let _ = tokio::time::timeout(PATIENCE, noticed).await;
    }
    let began = Instant::now();
    let answer = actor.echo(HEALTHY, "after the kill", CALL).await;
    let elapsed = began.elapsed();
    let seen = actor.stage.transcript(HEALTHY);
    let by: Vec<i32> = seen
        .events("executed")
        .filter(|record| says(&record.value, "/arguments/message", "after the kill"))
        .map(|record| record.pid)
        .collect();
    let is_gone = !actor.stage.alive(HEALTHY).contains(&first);
    let ok = matches!(by.as_slice(), [pid] if *pid != first)
        && is_gone
        && says(&answer, "/result", "after the kill");
    let detail = match by.as_slice() {
        [] => format!("process {first} was killed, and the next call was never run"),
        by => {
            format!("process {first} was killed; process {by:?} ran the next call within {}", human(elapsed))
        }
    };
    Check::new("recovery", ok, detail)
}

/// A call that runs when stopping begins comes to its end. Stopping takes no longer than it may, although
/// one server resists; a server that does not is left to end by itself.
pub(super) async fn shutdown(actor: &Actor<'_>) -> (Check, Check, Option<Arc<ShutdownReport>>) {
    // Whether the healthy server came back after it was killed has been judged before.
    let is_healthy = !actor.stage.alive(HEALTHY).is_empty();
    let last = json!({"message": "the last one", "delay_ms": 400});
    let (answer, (report, elapsed)) = tokio::join!(actor.call(SILENT, "echo", last.clone(), CALL), async {
        seen_in(actor.stage, SILENT, |seen| seen.runs_with("echo", &last) > 0).await;
        let began = Instant::now();
        (actor.client.shutdown().await, began.elapsed())
    });
    let drain = drained(actor, &answer, &last);
    let stubborn = actor.stage.transcript(STUBBORN);
    let asked = stubborn.events("eof").count() > 0;
    let healthy = actor.stage.transcript(HEALTHY);
    let by_itself = healthy.servers().last().and_then(|pid| healthy.exit_code(*pid)) == Some(0);
    let ok = elapsed <= SHUTDOWN_BOUND + STOP_SLACK && asked && (by_itself || !is_healthy);
    let detail = format!(
        "it took {} of at most {}; the healthy server {} by itself, the stubborn one was {} first",
        human(elapsed),
        human(SHUTDOWN_BOUND),
        if by_itself { "ended" } else { "did not end" },
        if asked { "asked" } else { "not asked" }
    );
    (drain, Check::new("shutdown", ok, detail), Some(report))
}

/// Whether the call that ran when stopping began has ended by itself.
fn drained(actor: &Actor<'_>, answer: &Value, last: &Value) -> Check {
    let seen = actor.stage.transcript(SILENT);
    let runs = seen.runs_with("echo", last);
    let asked: Vec<String> = seen
        .events("executed")
        .filter(|record| record.value.get("arguments") == Some(last))
        .filter_map(|record| record.value.get("id").map(Value::to_string))
        .collect();
    let cancelled = seen.cancelled().iter().filter(|id| asked.contains(&json!(id).to_string())).count();
    let ok = runs == 1 && cancelled == 0 && says(answer, "/result", "the last one");
    let detail = format!(
        "a call under way when stopping began ran {}, was cancelled {}, and {} its answer",
        times(runs),
        times(cancelled),
        if says(answer, "/result", "the last one") { "got" } else { "did not get" }
    );
    Check::new("drain", ok, detail)
}

/// The servers over HTTP have neither a session nor a connection any more; no process of any server is
/// left, no grandchild and no zombie.
pub(super) async fn nothing_left(stage: &Stage, web: WebServers) -> Check {
    let by = Instant::now() + CLOSING;
    for name in OVER_HTTP {
        // They see the end of a connection a moment after the client has closed it.
        seen_by(by, stage, name, |seen| held(seen) == 0).await;
    }
    let held: usize = OVER_HTTP.iter().map(|name| held(&stage.transcript(name))).sum();
    web.stop().await;
    let by = Instant::now() + DYING;
    let (alive, children) = loop {
        let left = (stage.all_alive(), scan::children());
        if (left.0.is_empty() && left.1.is_empty()) || Instant::now() >= by {
            break left;
        }
        // The end of a grandchild, which somebody else reaps, cannot be waited for.
        sleep(Duration::from_millis(5)).await;
    };
    let grandchildren = stage.transcript(STUBBORN).grandchildren().len();
    let ok = alive.is_empty() && children.is_empty() && grandchildren == 1 && held == 0;
    let detail = format!(
        "{} processes, {} children, {held} HTTP sessions and connections left; the grandchild of the stubborn \
         server was {}",
        alive.len(),
        children.len(),
        if grandchildren == 1 { "started" } else { "never started" }
    );
    Check::new("nothing-left", ok, detail)
}

/// When a server recorded its first event of a kind.
fn first_of(seen: &Transcript, event: &str) -> Option<Duration> {
    seen.events(event).map(|record| record.at).min()
}

/// Waits until a server's transcript shows something, at most [`PATIENCE`].
async fn seen_in(stage: &Stage, server: &str, is_there: impl Fn(&Transcript) -> bool) {
    seen_by(Instant::now() + PATIENCE, stage, server, is_there).await;
}

async fn seen_by(by: Instant, stage: &Stage, server: &str, is_there: impl Fn(&Transcript) -> bool) {
    while !is_there(&stage.transcript(server)) && Instant::now() < by {
        // A file cannot be waited for.
        sleep(Duration::from_millis(10)).await;
    }
}

/// Runs futures side by side in this task.
async fn all_of<F: Future<Output = Value>>(futures: impl Iterator<Item = F>) -> Vec<Value> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in running.iter_mut().filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(cx) {
                *done = Some(value);
            }
        }
        match running.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}

/// The text at a place of a JSON value; empty if there is none.
fn text<'a>(value: &'a Value, place: &str) -> &'a str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

fn says(value: &Value, place: &str, expected: &str) -> bool {
    text(value, place) == expected
}

fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
