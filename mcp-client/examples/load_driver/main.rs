//! Holds this client to the load that it has to stand; `cargo xtask load` runs it.
//!
//! ```text
//! cargo run --release --example load_driver -- crowd|neighbours|soak [--quick]
//! ```
//!
//! Each file is one load: [`crowd`] is many servers and many calls at once, [`neighbours`] is healthy
//! servers beside bad ones, [`soak`] is a million calls with faults. [`stage`] is the client and its
//! servers, which are this program again, as real child processes; [`table`] judges the figures and
//! prints them; [`memory`] and [`chance`] are what their names say.
//! Everything goes through the public API, and what the servers did is read from what they wrote.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command: its table is its result")]

mod chance;
mod crowd;
mod memory;
mod neighbours;
mod soak;
mod stage;
mod table;

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use mcp_transport::testing::fixture;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::table::Table;

const USAGE: &str = "Usage: load_driver crowd|neighbours|soak [--quick]";

/// The word that makes this program a server.
const SERVER: &str = "fixture";

/// A result whose error is only shown.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// Enough to see that nothing is lost or left behind; too little to judge times and memory.
    Quick,
    /// What the bounds are about.
    Whole,
}

impl Size {
    fn pick<T>(self, quick: T, whole: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Whole => whole,
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some((SERVER, arguments)) =
        words.split_first().and_then(|(word, rest)| Some((word.to_str()?, rest)))
    {
        return fixture::run_with_prefix(vec![SERVER.into()], arguments.iter().cloned());
    }
    let quick = words.iter().filter(|word| *word == "--quick").count();
    let mut loads = words.iter().filter(|word| *word != "--quick").filter_map(|word| word.to_str());
    let (Some(load), None, true) = (loads.next(), loads.next(), words.len() == quick + 1) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let size = if quick > 0 { Size::Quick } else { Size::Whole };
    match run(load.to_owned(), size) {
        Ok(table) => {
            println!("{table}");
            if table.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("load_driver: {load}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(load: String, size: Size) -> Outcome<Table> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // As a task of its own: there application code runs, not on the thread that blocks.
        let mut body = JoinSet::new();
        body.spawn(async move {
            let mut table = Table::new(&load, size);
            match load.as_str() {
                "crowd" => crowd::run(size, &mut table).await?,
                "neighbours" => neighbours::run(size, &mut table).await?,
                "soak" => soak::run(size, &mut table).await?,
                _ => return Err(USAGE.into()),
            }
            Ok(table)
        });
        body.join_next().await.ok_or("there is no body")??
    })
}
