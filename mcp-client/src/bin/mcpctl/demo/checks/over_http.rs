use mcp_transport::testing::fixture::{Record, Transcript};
use serde_json::json;
use tokio::time::Instant;

use super::{Actor, CALL, PATIENCE, SHORT, all_of, says, seen_by, seen_in, text, times};
use crate::demo::board::Check;
use crate::demo::stage::{MODERN_WEB, OVER_HTTP, WEB};

/// So many calls over HTTP run into their limit, to each server.
const STREAMS: usize = 10;

/// Calls over HTTP run into their limit; the server sees the stream of each given up, and a notice where
/// its era has one.
pub(in crate::demo) async fn stream(actor: &Actor<'_>) -> Check {
    let calls = (0..STREAMS).flat_map(|number| OVER_HTTP.map(|server| (server, number)));
    all_of(calls.map(|(server, number)| {
        let actor = *actor;
        async move { actor.call(server, "hang", json!({"number": number}), SHORT).await }
    }))
    .await;
    let by = Instant::now() + PATIENCE;
    let legacy = given_up(actor, WEB, STREAMS, by).await;
    let modern = given_up(actor, MODERN_WEB, 0, by).await;
    let detail = format!(
        "{} of {} answer streams were closed at their time-outs, with {} notices in the legacy era and {} in \
         the modern one; {} of 2 next calls answered",
        legacy.streams + modern.streams,
        2 * STREAMS,
        legacy.notices,
        modern.notices,
        usize::from(legacy.answers) + usize::from(modern.answers)
    );
    Check::new("stream", legacy.ok && modern.ok, detail)
}

/// What a server over HTTP has seen of the end of calls.
struct GivenUp {
    streams: usize,
    notices: usize,
    /// Whether it is as good as new.
    answers: bool,
    ok: bool,
}

/// Waits until a server has seen the end of all calls that ran into their limit, and asks it once more.
async fn given_up(actor: &Actor<'_>, server: &str, notices: usize, by: Instant) -> GivenUp {
    seen_by(by, actor.stage, server, |seen| {
        seen.events("hung-up").count() >= STREAMS && seen.cancelled().len() >= notices
    })
    .await;
    let answer = actor.echo(server, "and now", CALL).await;
    let seen = actor.stage.transcript(server);
    let asked = ids(seen.events("executed").filter(|record| says(&record.value, "/tool", "hang")));
    let ended = ids(seen.events("hung-up"));
    let mut cancelled: Vec<String> = seen.cancelled().iter().map(|id| json!(id).to_string()).collect();
    cancelled.sort_unstable();
    let answers =
        says(&answer, "/result", "and now") && seen.runs_with("echo", &json!({"message": "and now"})) == 1;
    let is_told = if notices == 0 { cancelled.is_empty() } else { cancelled == asked };
    let ok = asked.len() == STREAMS && ended == asked && is_told && answers;
    GivenUp { streams: ended.len(), notices: cancelled.len(), answers, ok }
}

/// A server over HTTP forgets its session; the next call begins a new one, once, and runs once.
pub(in crate::demo) async fn session(actor: &Actor<'_>) -> Check {
    let handshakes = actor.stage.transcript(WEB).count("initialize");
    actor.web.forget_sessions(WEB);
    seen_in(actor.stage, WEB, |seen| seen.events("session-ended").count() > 0).await;
    let answer = actor.echo(WEB, "after the loss", CALL).await;
    let seen = actor.stage.transcript(WEB);
    let refused =
        seen.events("refused").filter(|record| text(&record.value, "/status").starts_with("404")).count();
    let handshakes = seen.count("initialize") - handshakes;
    let runs = seen.runs_with("echo", &json!({"message": "after the loss"}));
    let ok = refused == 1 && handshakes == 1 && runs == 1 && says(&answer, "/result", "after the loss");
    let detail = format!(
        "the server forgot its session; it refused the call {}, began another session {}, and the call ran {}",
        times(refused),
        times(handshakes),
        times(runs)
    );
    Check::new("session", ok, detail)
}

/// How many sessions and connections a server over HTTP holds.
pub(super) fn held(seen: &Transcript) -> usize {
    let count = |event| seen.events(event).count();
    let begun = count("session-begun") + count("connected");
    begun.saturating_sub(count("session-ended") + count("disconnected"))
}

/// The requests that records are about, in order.
fn ids<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<String> {
    let mut ids: Vec<String> =
        records.filter_map(|record| Some(record.value.get("id")?.to_string())).collect();
    ids.sort_unstable();
    ids
}
