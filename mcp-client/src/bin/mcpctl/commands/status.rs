use mcp_client::Client;
use mcp_lifecycle::{ServerEvent, ServerStatus, State};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::Context;
use crate::args::StatusArgs;
use crate::exit::Exit;
use crate::output::{Output, Tone, safe};
use crate::problem::{Problem, concluded};
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
            return concluded(watch(client, output).await, Exit::Success);
        }
        for server in client.servers() {
            server.settled(limit.patience()).await;
        }
        let statuses = client.status();
        let exit = statuses.iter().map(exit_of).max().unwrap_or(Exit::Success);
        concluded(show(output, &statuses), exit)
    })
    .await?;
    Ok(if refused.is_empty() { exit } else { exit.max(Exit::Unreachable) })
}

fn exit_of(status: &ServerStatus) -> Exit {
    match &status.state {
        State::Ready { .. } | State::Disabled => Exit::Success,
        State::NeedsAuth => Exit::NeedsAuthorization,
        state if state.is_settled() => Exit::Unreachable,
        _ => Exit::TimedOut,
    }
}

/// Shows every change of state, and of a breaker, until interrupted.
async fn watch(client: &Client, output: &Output) -> Result<(), Problem> {
    let mut events = client.events();
    let mut news = Some(client.status());
    while let Some(statuses) = news {
        for status in &statuses {
            show_change(output, status)?;
        }
        news = changed(events.recv().await, client);
    }
    Ok(())
}

/// Which states are to be shown after an event; `None` if there will be no more.
fn changed(event: Result<ServerEvent, RecvError>, client: &Client) -> Option<Vec<ServerStatus>> {
    match event {
        Ok(ServerEvent::BreakerChanged { status } | ServerEvent::StateChanged { status }) => {
            Some(vec![ServerStatus::clone(&status)])
        }
        Ok(_) => Some(Vec::new()),
        // Some changes were missed, and the last of them is what counts.
        Err(RecvError::Lagged(_)) => Some(client.status()),
        Err(RecvError::Closed) => None,
    }
}

fn show(output: &Output, statuses: &[ServerStatus]) -> Result<(), Problem> {
    if output.is_json() {
        output.document(&json!({"servers": statuses}))?;
        return Ok(());
    }
    let header = [
        "SERVER",
        "STATE",
        "GENERATION",
        "ATTEMPT",
        "NEXT IN",
        "BREAKER",
        "IN FLIGHT",
        "LAST OK",
        "LAST ERROR",
    ];
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
    let until = |at: Instant| output.duration(at.saturating_duration_since(Instant::now()));
    let error = match status.state {
        State::Ready { .. } => None,
        _ => status.last_error.as_ref().map(|failure| failure.to_string()),
    };
    vec![
        safe(&status.name),
        status.state.name().to_owned(),
        status.generation.to_string(),
        or_dash(status.state.attempt().map(|attempt| attempt.to_string())),
        or_dash(status.state.until().map(until)),
        breaker(status),
        status.in_flight.to_string(),
        or_dash(status.last_ok.map(|at| format!("{} ago", output.duration(at.elapsed())))),
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

#[cfg(test)]
mod tests {
    use mcp_client::{ServerConfig, ServerSettings, StdioServer};

    use super::*;

    #[tokio::test]
    async fn whoever_missed_changes_is_shown_every_server_again() {
        let mut settings = ServerSettings::default();
        settings.enabled = false;
        let server = ServerConfig::new("off", StdioServer::new("none"), settings).unwrap();
        let client = Client::builder().server(server).start(&tokio::runtime::Handle::current()).unwrap();
        let shown = changed(Err(RecvError::Lagged(3)), &client).unwrap();
        assert_eq!(shown.iter().map(|status| &*status.name).collect::<Vec<_>>(), ["off"]);
        assert!(changed(Err(RecvError::Closed), &client).is_none());
        client.shutdown().await;
    }
}
