//! The main job on eight servers of our own, which crash, hang, forget and resist.
//!
//! Every line is decided from what the servers have recorded themselves and from a look at the
//! process table: what the client says of itself is only what is being judged. It is shown all the same,
//! as it happens (`live`).

mod board;
mod checks;
mod live;
mod sabotage;
mod scan;
mod stage;
mod web;

use std::sync::Arc;
use std::time::Duration;

use mcp_client::Client;
use mcp_lifecycle::ShutdownReport;
use serde_json::{Value, json};

use self::board::Board;
use self::live::Live;
use self::sabotage::Sabotage;
use self::stage::Stage;
use self::web::WebServers;
use crate::args::DemoArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::Output;
use crate::problem::{Problem, concluded};

/// Runs the demo. The exit code is 0 only if every check holds.
pub(crate) async fn run(output: &Output, args: &DemoArgs) -> Result<Exit, Problem> {
    if args.broken.iter().any(|name| name == "list") {
        for sabotage in Sabotage::ALL {
            concluded(output.line(sabotage.name()), Exit::Success)?;
        }
        return Ok(Exit::Success);
    }
    let sabotages = args.broken.iter().map(|name| Sabotage::parse(name)).collect::<Result<Vec<_>, _>>()?;
    let mut interrupts =
        Interrupts::listen().map_err(|error| Problem::new(Exit::Failed, error.to_string()))?;
    let stage = Stage::build(sabotages)?;
    let outcome = tokio::select! {
        biased;
        () = interrupts.next() => Err(Problem::interrupted()),
        outcome = play(&stage, output) => outcome,
    };
    stage.clear_up();
    outcome
}

async fn play(stage: &Stage, output: &Output) -> Result<Exit, Problem> {
    let web = WebServers::start(stage).await?;
    let client = stage.start(&web)?;
    let mut board = Board::new(output);
    board.headline("eight servers, one client; every line is judged from outside")?;
    let actor = Actor { client: &client, stage, web: &web };
    let mut live = Live::new(&client, output);

    let report = {
        let judged = judge(&actor, &mut board);
        tokio::select! {
            biased;
            // First, so that whatever has led to a verdict stands before it.
            error = live.show() => return Err(error.into()),
            report = judged => report?,
        }
    };
    live.catch_up()?;
    // Before the client is dropped, which would kill what the shutdown had left.
    board.add(checks::nothing_left(stage, web).await)?;
    drop(client);
    board.finish(&report)
}

/// Plays and judges, up to the end of the shutdown, which it reports.
async fn judge(actor: &Actor<'_>, board: &mut Board) -> Result<Option<Arc<ShutdownReport>>, Problem> {
    board.add(checks::together(actor).await)?;
    board.add(checks::call(actor).await)?;
    board.add(checks::eras(actor).await)?;
    let parked = checks::begin_park(actor).await;
    board.add(checks::cancel(actor).await)?;
    board.add(checks::stream(actor).await)?;
    board.add(checks::outcome(actor).await)?;
    board.add(checks::breaker(actor).await)?;
    board.add(checks::recovery(actor).await)?;
    board.add(checks::session(actor).await)?;
    board.add(checks::park(actor, parked).await)?;
    board.add(checks::revive(actor).await)?;
    let (drain, shutdown, report) = checks::shutdown(actor).await;
    board.add(drain)?;
    board.add(shutdown)?;
    Ok(report)
}

/// Who acts: the client through its public operations, on the servers of the stage.
#[derive(Clone, Copy)]
struct Actor<'a> {
    client: &'a Client,
    stage: &'a Stage,
    web: &'a WebServers,
}

impl Actor<'_> {
    /// Calls a tool through the public handler.
    async fn call(&self, server: &str, tool: &str, arguments: Value, limit: Duration) -> Value {
        let request = json!({
            "server": server, "tool": tool, "arguments": arguments,
            "timeout_ms": u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        });
        let answer = self.client.handlers().call_tool(&request.to_string()).await;
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// Calls the tool that answers its message.
    async fn echo(&self, server: &str, message: &str, limit: Duration) -> Value {
        self.call(server, "echo", json!({"message": message}), limit).await
    }
}
