//! The program that the official conformance suite runs: this client, by its public API alone.
//!
//! ```text
//! MCP_CONFORMANCE_SCENARIO=tools_call cargo run --example conformance_client -- URL
//! ```
//!
//! [`order`] is what the suite asks for, [`stage`] is the client and its one server. What is done with
//! the server is one of few flows, each in a file of its own; none knows more of a scenario than the
//! server and the suite's data tell: [`everything`], [`tool_calls`], [`schema_echo`]. [`arguments`]
//! makes arguments from schemas, [`questions`] answers what the server asks meanwhile. [`credentials`] are
//! what the suite gives a client to be authorized with, and [`person`] logs in where a server wants that.
//!
//! It ends by itself, at the latest after [`LIMIT`], and with the process that started it. It prints
//! nothing but the reason of a failure, and logs only what `RUST_LOG` (`warn`, `debug`, …) asks for.
//!
//! Exit status: 0 done, 1 failed, 2 not understood, 3 not possible yet (skills), 5 not authorized.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a command: the environment tells what to do, and it says why it failed"
)]

mod arguments;
mod credentials;
mod everything;
mod order;
mod person;
mod questions;
mod schema_echo;
mod stage;
mod tool_calls;

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use mcp_transport::auth::AuthError;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tracing_subscriber::filter::LevelFilter;

use crate::order::{Flow, Order, Refusal};
use crate::stage::Stage;

/// How long a scenario may take: a little less than the suite gives a client.
const LIMIT: Duration = Duration::from_secs(25);

/// A result whose error is only shown.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let order = match Order::read(env::args().nth(1), |name| env::var(name).ok()) {
        Ok(order) => order,
        Err(refusal) => {
            eprintln!("conformance_client: {refusal}");
            return ExitCode::from(match refusal {
                Refusal::NotUnderstood(_) => 2,
                Refusal::NotYet(_) => 3,
            });
        }
    };
    match follow(&order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance_client: {}: {error}", order.scenario);
            ExitCode::from(if error.is::<AuthError>() { 5 } else { 1 })
        }
    }
}

fn follow(order: &Order) -> Outcome<()> {
    end_with_parent()?;
    let level = env::var("RUST_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::OFF);
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(std::io::stderr).init();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let work = timeout(LIMIT, perform(order)).await;
        work.unwrap_or_else(|_| Err(format!("not done within {} s", LIMIT.as_secs()).into()))
    })
}

async fn perform(order: &Order) -> Outcome<()> {
    let stage = Stage::open(order).await?;
    let done = match &order.flow {
        Flow::Everything => everything::run(&stage).await,
        Flow::SchemaEcho => schema_echo::run(&stage).await,
        Flow::ToolCalls(calls) => tool_calls::run(&stage, calls).await,
    };
    // Whatever came of it, the server is left in order.
    let ended = stage.end().await;
    done.and(ended)
}

/// The suite ends the shell around this program when it takes too long, and then waits for the program.
#[cfg(target_os = "linux")]
fn end_with_parent() -> Outcome<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?)
}

/// Elsewhere the time limit has to do.
#[cfg(not(target_os = "linux"))]
fn end_with_parent() -> Outcome<()> {
    Ok(())
}
