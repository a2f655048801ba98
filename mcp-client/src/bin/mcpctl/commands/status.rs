use mcp_client::Client;
use mcp_lifecycle::{ServerEvent, ServerStatus, State};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::Context;
use crate::args::StatusArgs;
use crate::exit::Exit;
use crate::output::{Output, Tone, safe};
use crate::problem::Problem;
use crate::running::{Limit, Persistence, with_client};
use crate::source::Source;

/// Shows the state of every server.
pub(crate) async fn run(context: &Context, args: &StatusArgs) -> Result<Exit, Problem> {
    let Context { global, host, output } = context;
    let target = &args.target;
    let name = match target.words.as_slice() {
        [] => None,
        [name] => Some(name.as_str()),
        [_, extra, ..] => return Err(Problem::usage(format!("{extra:?} is one word too many"))),
    };
    let Source { servers, refused } = Source::all(global, host, output, &target.program, name)?;
    for error in &refused {
        output.message(error);
    }
    let persistence = if args.watch { Persistence::Supervised } else { Persistence::Once };
    let limit = Limit::begin(target.timeout);
    let exit = with_client(host, output, persistence, servers, async |client| {
        if args.watch {
            return watch(client, output).await;
        }
        for server in client.servers() {
            server.settled(limit.patience()).await;
        }
        let statuses = client.status();
        show(output, &statuses)?;
        let is_bad = |status: &ServerStatus| !matches!(status.state, State::Ready { .. } | State::Disabled);
        Ok(if statuses.iter().any(is_bad) { Exit::Unreachable } else { Exit::Success })
    })
    .await?;
    Ok(if refused.is_empty() { exit } else { exit.max(Exit::Unreachable) })
}

/// Shows every change of state until interrupted.
async fn watch(client: &Client, output: &Output) -> Result<Exit, Problem> {
    let mut events = client.events();
    for status in client.status() {
        show_change(output, &status)?;
    }
    loop {
        match events.recv().await {
            Ok(ServerEvent::StateChanged { status }) => show_change(output, &status)?,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return Ok(Exit::Success),
        }
    }
}

fn show(output: &Output, statuses: &[ServerStatus]) -> Result<(), Problem> {
    if output.is_json() {
        output.document(&json!({"servers": statuses}))?;
        return Ok(());
    }
    let header =
        ["SERVER", "STATE", "GENERATION", "ATTEMPT", "NEXT IN", "BREAKER", "IN FLIGHT", "LAST ERROR"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(statuses.iter().map(|status| row(output, status)));
    for (index, line) in output.rows(&rows).into_iter().enumerate() {
        output.line(if index == 0 { output.tone(Tone::Quiet, line) } else { line })?;
    }
    Ok(())
}

fn show_change(output: &Output, status: &ServerStatus) -> Result<(), Problem> {
    match output.is_json() {
        true => output.document(status)?,
        false => output.line(output.rows(&[row(output, status)]).join(""))?,
    }
    Ok(())
}

fn row(output: &Output, status: &ServerStatus) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (attempt, next) = match status.state {
        State::Backoff { attempt, until } => (Some(attempt), Some(until)),
        State::Connecting { attempt, .. } => (Some(attempt), None),
        State::Parked { next_probe, .. } => (None, Some(next_probe)),
        _ => (None, None),
    };
    let until = |at: Instant| output.duration(at.saturating_duration_since(Instant::now()));
    let error = match status.state {
        State::Ready { .. } => None,
        _ => status.last_error.as_ref().map(|failure| failure.to_string()),
    };
    vec![
        safe(&status.name),
        status.state.name().to_owned(),
        status.generation.to_string(),
        or_dash(attempt.map(|attempt| attempt.to_string())),
        or_dash(next.map(until)),
        breaker(status),
        status.in_flight.to_string(),
        or_dash(error),
    ]
}

/// The name of the breaker's state, as it is serialised.
fn breaker(status: &ServerStatus) -> String {
    match serde_json::to_value(status.breaker).unwrap_or_default() {
        Value::String(name) => name,
        Value::Object(state) => state.values().find_map(Value::as_str).unwrap_or("?").to_owned(),
        _ => "?".to_owned(),
    }
}
