//! A host that starts one server and then comes to a bad end, so that a test can see from outside what
//! is left: `mcp-fixture-host HOW PROGRAM ARGUMENT…`.
//!
//! It says `ready` when the server has answered, waits for a line, and ends as `HOW` says: `abort`,
//! `panic`, or `wait` (until it is killed). With `recycle` it finds out whether a process is signalled
//! because its number was that of a server before.

use std::ffi::OsString;
use std::future::poll_fn;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_transport::process::{self, Graces, LocalProcesses, ProcessFactory as _};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use mcp_transport::testing::fixture::MARK;
use mcp_transport::{Connector as _, Outbound};
use tokio::runtime::Builder;
use tokio::time::Instant;

type Failure = Box<dyn std::error::Error>;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn main() -> Result<ExitCode, Failure> {
    Builder::new_current_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let how = arguments.next().ok_or("no HOW")?.into_string().map_err(|_| "HOW is no text")?;
    let program = arguments.next().ok_or("no PROGRAM")?;
    let server: Vec<OsString> = arguments.collect();
    if how == "recycle" {
        return recycle(&program, &server).await;
    }
    let connector = StdioConnector::new(
        Arc::new(LocalProcesses::new()),
        command(&program, &server),
        StdioLimits::default(),
    );
    let mut connection = connector.connect(soon()).await?;
    connection.transport.send(Outbound::request(1.into(), PING.into())).await?;
    let answer = poll_fn(|cx| connection.receive.poll_receive(cx, &mut Vec::new())).await;
    answer.map_err(|closed| closed.to_string())?;
    say("ready")?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    match how.as_str() {
        "abort" => std::process::abort(),
        "panic" => Err(panicking()),
        _ => std::future::pending().await,
    }
}

/// To be run in a PID namespace of its own, where the next number can be chosen.
async fn recycle(program: &OsString, server: &[OsString]) -> Result<ExitCode, Failure> {
    let processes = LocalProcesses::new();
    let child = processes.spawn(&command(program, server)).await?;
    let number = child.process.id();
    drop(child.stdin);
    child.process.end().wait_for(Option::is_some).await?;
    // The number is free now, and goes to the next process.
    std::fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string())?;
    let mut bystander = Command::new(program).args(server).stdin(Stdio::piped()).process_group(0).spawn()?;
    let is_recycled = bystander.id() == number;
    // Everything that sends signals.
    child.process.begin_stop(Graces::default(), Instant::now());
    child.process.kill();
    processes.kill_all();
    drop(child.process);
    processes.join();
    let is_alive = bystander.try_wait()?.is_none();
    bystander.kill()?;
    bystander.wait()?;
    say(&format!("recycled {is_recycled}, alive {is_alive}"))?;
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::panic, reason = "a host that panics is what is looked at")]
fn panicking() -> Failure {
    panic!("as it was told to")
}

/// The server gets the mark of this process, by which the test finds it.
#[expect(clippy::disallowed_methods, reason = "this is a program, and its environment is its own")]
fn command(program: &OsString, server: &[OsString]) -> process::Command {
    let mark = std::env::var_os(MARK).unwrap_or_default();
    process::Command::new(program).args(server.to_vec()).env(MARK, mark)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
