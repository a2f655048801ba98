//! The command `mcpctl`.

mod args;
mod browser;
mod commands;
mod config_path;
mod credentials;
mod demo;
mod exit;
mod host;
mod interrupts;
mod keyboard;
mod log;
mod output;
mod problem;
mod running;
mod source;
mod words;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mcp_transport::testing::fixture;

use self::args::{Cli, Command, ConfigCommand};
use self::commands::Context;
use self::exit::Exit;
use self::host::Host;
use self::output::{Output, Secrets};
use self::problem::Problem;

/// How long the end of the runtime may take once everything has been shut down.
const RUNTIME_END: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for, everything else is a wrong command line. Without an
            // output there is nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Success.into() };
        }
    };
    if let Command::Fixture(arguments) = cli.command {
        return fixture::run(arguments.script.into_iter().map(Into::into));
    }
    let host = Host::look();
    let secrets = Secrets::default();
    log::start(cli.global.verbose, secrets.clone());
    let is_plain = host.variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let output = Output::new(cli.global.json, is_plain, secrets);
    match run(cli, host, output.clone()) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            output.problem(&problem);
            problem.exit.into()
        }
    }
}

fn run(cli: Cli, host: Host, output: Output) -> Result<Exit, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Problem::new(Exit::Failed, format!("no async runtime: {error}")))?;
    let context = Context { global: cli.global, host, output };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Call(target) => commands::call::run(&context, &target).await,
            Command::Config(ConfigCommand::Check) => commands::config_check::run(&context),
            Command::Demo(arguments) => demo::run(&context.output, &arguments).await,
            Command::Fixture(_) => Ok(Exit::Success),
            Command::List(target) => commands::list::run(&context, &target).await,
            Command::Login(arguments) => commands::login::run(&context, &arguments).await,
            Command::Logout(arguments) => commands::logout::run(&context, &arguments).await,
            Command::Prompt(target) => commands::prompt::run(&context, &target).await,
            Command::Read(target) => commands::read::run(&context, &target).await,
            Command::Status(arguments) => commands::status::run(&context, &arguments).await,
        }
    });
    runtime.shutdown_timeout(RUNTIME_END);
    outcome
}
