//! Running other programs.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::failure::Failure;

/// How often [`run_within`] looks whether a program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How a program with a time limit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this status, inside the limit.
    Exited(ExitStatus),
    /// It was killed at the limit.
    TimedOut,
}

/// Runs `command` with its output shown.
///
/// # Errors
///
/// It cannot be started, or ends with another status than 0.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{}` failed: {status}", line(command)))) }
}

/// Runs `command` silently and returns what it wrote to standard output.
///
/// # Errors
///
/// It cannot be started, or ends with another status than 0: then the failure carries its output.
pub(crate) fn capture(command: &mut Command) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_start(command, &error))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("`{}` failed: {}\n{stdout}{stderr}", line(command), output.status)))
}

/// As [`run_within`], for a program that starts others: at the end, and at the limit, everything that is
/// left of its process group is killed.
///
/// # Errors
///
/// The file cannot be written, or the program cannot be started.
pub(crate) fn run_group_within(command: &mut Command, limit: Duration, log: &Path) -> Result<Ended, Failure> {
    let mut child = spawn_into(command.process_group(0), log)?;
    let group = Pid::from_child(&child);
    // The end is seen without taking notice of it: until then nobody else can get the group's id.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let ended = poll_within(limit, || Ok(waitid(WaitId::Pid(group), look)?));
    let killed = kill_process_group(group, Signal::KILL);
    let status = child.wait();
    match (ended, killed, status) {
        (Ok(Some(_)), Ok(()), Ok(status)) => Ok(Ended::Exited(status)),
        (Ok(None), Ok(()), Ok(_)) => Ok(Ended::TimedOut),
        (Err(error), ..) | (_, _, Err(error)) => Err(cannot_start(command, &error)),
        (_, Err(error), _) => Err(cannot_start(command, &error.into())),
    }
}

/// Runs `command` with both outputs in the file `log`, and kills it after `limit`.
///
/// # Errors
///
/// The file cannot be written, or the program cannot be started.
pub(crate) fn run_within(command: &mut Command, limit: Duration, log: &Path) -> Result<Ended, Failure> {
    let mut child = spawn_into(command, log)?;
    let failed = |error| cannot_start(command, &error);
    match poll_within(limit, || child.try_wait()).map_err(failed)? {
        Some(status) => Ok(Ended::Exited(status)),
        None => {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            Ok(Ended::TimedOut)
        }
    }
}

/// As [`run_group_within`], and returns what the program has written.
///
/// # Errors
///
/// As there; or it ends with another status than 0, or not in time: then the failure carries its output.
pub(crate) fn capture_within(command: &mut Command, limit: Duration, log: &Path) -> Result<String, Failure> {
    let ended = run_group_within(command, limit, log)?;
    let output = fs::read(log).map_err(Failure::io("read", log))?;
    let output = String::from_utf8_lossy(&output).into_owned();
    let why = match ended {
        Ended::Exited(status) if status.success() => return Ok(output),
        Ended::Exited(status) => status.to_string(),
        Ended::TimedOut => format!("no end within {} s", limit.as_secs()),
    };
    Err(Failure::new(format!("`{}` failed: {why}\n{output}", line(command))))
}

fn spawn_into(command: &mut Command, log: &Path) -> Result<Child, Failure> {
    let output = File::create(log).map_err(Failure::io("create", log))?;
    let errors = output.try_clone().map_err(Failure::io("open", log))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().map_err(|error| cannot_start(command, &error))
}

/// Looks again and again until something is there; `None` after `limit`.
fn poll_within<T>(limit: Duration, mut look: impl FnMut() -> io::Result<Option<T>>) -> io::Result<Option<T>> {
    let began = Instant::now();
    loop {
        let found = look()?;
        if found.is_some() || began.elapsed() >= limit {
            return Ok(found);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn cannot_start(command: &Command, error: &io::Error) -> Failure {
    Failure::new(format!("cannot run `{}`: {error}", line(command)))
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("xtask-shell-{}-{name}.log", std::process::id()))
    }

    #[test]
    fn a_program_over_its_limit_is_killed() {
        let log = log("limit");
        let ended = run_within(Command::new("sleep").arg("60"), Duration::from_millis(50), &log).unwrap();
        fs::remove_file(log).unwrap();
        assert_eq!(ended, Ended::TimedOut);
    }

    #[test]
    fn what_a_program_has_started_ends_with_it_or_at_its_limit() {
        for (script, expected) in [("sleep 60 & echo $!", true), ("sleep 60 & echo $!; wait", false)] {
            let log = log(if expected { "group" } else { "group-limit" });
            let limit = Duration::from_millis(if expected { 60_000 } else { 1000 });
            let ended = run_group_within(Command::new("sh").args(["-c", script]), limit, &log).unwrap();
            assert_eq!(matches!(ended, Ended::Exited(status) if status.success()), expected);
            let started = fs::read_to_string(&log).unwrap();
            fs::remove_file(log).unwrap();
            assert!(started.trim().parse::<u32>().is_ok(), "{started:?}");
            // A zombie has ended, whether or not somebody takes notice of it.
            let stat = format!("/proc/{}/stat", started.trim());
            let ended = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
            let seen = poll_within(Duration::from_secs(10), || Ok(ended().then_some(())));
            assert!(seen.unwrap().is_some(), "{script}");
        }
    }

    #[test]
    fn what_a_program_has_written_is_returned_or_told_with_its_failure() {
        let log = log("capture");
        let capture = |script: &str, limit| {
            capture_within(Command::new("sh").args(["-c", script]), Duration::from_secs(limit), &log)
        };
        assert_eq!(capture("echo one", 60).unwrap(), "one\n");
        let failed = capture("echo reason; exit 3", 60).unwrap_err().to_string();
        assert!(failed.contains("reason") && failed.contains('3'), "{failed}");
        let late = capture("echo begun; sleep 60", 1).unwrap_err().to_string();
        assert!(late.contains("begun") && late.contains("within 1 s"), "{late}");
        fs::remove_file(&log).unwrap();
    }

    #[test]
    fn both_outputs_reach_the_log() {
        let log = log("both");
        let ended = run_within(
            Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"]),
            Duration::from_secs(60),
            &log,
        )
        .unwrap();
        let text = fs::read_to_string(&log).unwrap();
        fs::remove_file(log).unwrap();
        assert!(matches!(ended, Ended::Exited(status) if status.code() == Some(3)));
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn a_failure_names_the_command_and_carries_its_output() {
        let failure =
            capture(Command::new("sh").args(["-c", "echo reason >&2; exit 1"])).unwrap_err().to_string();
        assert!(failure.contains("sh -c") && failure.contains("reason"), "{failure}");
    }
}
