//! Measures this client by the bench contract: one scenario, one JSON line.
//!
//! ```text
//! cargo run --release --example bench_driver -- --scenario seq --server PROGRAM
//! ```
//!
//! [`flags`] is the command line, [`scenarios`] is the work, [`stage`] is the client and the server it
//! is done with, [`measure`] takes the figures and [`process_table`] looks at processes from outside.
//! Everything goes through the public API, as in a program that embeds the client.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command: its line is its result")]

mod flags;
mod measure;
mod process_table;
mod scenarios;
mod stage;

use std::env;
use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::flags::{Flags, Params, Protocol, RuntimeKind, Scenario, Transport, USAGE};
use crate::measure::Metrics;

/// A result whose error is only shown.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What is printed.
#[derive(Serialize)]
struct Line {
    contract: u32,
    driver: &'static str,
    version: &'static str,
    scenario: Scenario,
    transport: Transport,
    protocol: Protocol,
    runtime: RuntimeKind,
    params: Params,
    ok: bool,
    error: Option<String>,
    metrics: Metrics,
}

fn main() -> ExitCode {
    let flags = match Flags::parse(env::args_os().skip(1)) {
        Ok(flags) => Arc::new(flags),
        Err(wrong) => {
            eprintln!("bench_driver: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (error, metrics) = match measure(&flags) {
        Ok(metrics) => (None, metrics),
        Err(error) => (Some(error.to_string()), Metrics::default()),
    };
    let line = Line {
        contract: 1,
        driver: "mcp-client",
        version: env!("CARGO_PKG_VERSION"),
        scenario: flags.scenario,
        transport: flags.transport(),
        protocol: flags.protocol,
        runtime: flags.runtime,
        params: flags.params,
        ok: error.is_none(),
        error,
        metrics,
    };
    match serde_json::to_string(&line) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("bench_driver: the line has no JSON form: {error}"),
    }
    if line.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(flags: &Arc<Flags>) -> Outcome<Metrics> {
    let flags = Arc::clone(flags);
    runtime(flags.runtime)?.block_on(async {
        // As a task of its own: there application code runs, not on the thread that blocks.
        let mut body = JoinSet::new();
        body.spawn(async move { scenarios::run(&flags).await });
        body.join_next().await.ok_or("there is no body")??
    })
}

fn runtime(kind: RuntimeKind) -> io::Result<Runtime> {
    match kind {
        RuntimeKind::CurrentThread => Builder::new_current_thread().enable_all().build(),
        RuntimeKind::MultiThread => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
    }
}
