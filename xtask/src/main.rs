//! Builds, tests and checks the workspace: `cargo xtask`.
//!
//! One file per command; what several of them need lives in [`shell`], [`workspace`] and
//! [`test_binary`].

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command for developers, not part of the runtime: it prints, waits, reads the environment and indexes JSON"
)]

mod args;
mod bench;
mod ci;
mod conformance;
mod dependencies;
mod failure;
mod features;
mod fuzz;
mod instructions;
mod load;
mod mutants;
mod npm;
mod prove;
mod real_servers;
mod repeat;
mod shell;
mod simulate;
mod test;
mod test_binary;
mod tidy;
mod workspace;

use std::env;
use std::process::ExitCode;

use crate::args::{Task, USAGE};
use crate::failure::Failure;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    let task = match args::parse(env::args().skip(1)) {
        Ok(task) => task,
        Err(wrong) => {
            eprintln!("xtask: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(task, &Workspace::here()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task, workspace: &Workspace) -> Result<(), Failure> {
    match task {
        Task::Bench { extra } => bench::run(workspace, &extra),
        Task::Build { extra } => shell::run(workspace.cargo(["build", "--all-targets"]).args(extra)),
        Task::Ci => ci::run(workspace),
        Task::Conformance(options) => conformance::run(workspace, &options),
        Task::Dependencies => dependencies::run(workspace),
        Task::Features => features::run(workspace),
        Task::Fuzz(options) => fuzz::run(workspace, &options),
        Task::Help => {
            println!("{USAGE}");
            Ok(())
        }
        Task::Instructions { record } => instructions::run(workspace, record),
        Task::Load(options) => load::run(workspace, &options),
        Task::Mutants(options) => mutants::run(workspace, &options),
        Task::Prove(options) => prove::run(workspace, &options),
        Task::RealServers { install_only } => real_servers::run(workspace, install_only),
        Task::Repeat(options) => repeat::run(workspace, &options),
        Task::Simulate(options) => simulate::run(workspace, &options),
        Task::Test { extra } => test::run(workspace, &extra),
        Task::Tidy => tidy::run(workspace),
    }
}
