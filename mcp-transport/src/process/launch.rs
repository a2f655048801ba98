use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::command::Command;
use super::error::SpawnError;
use super::exec;

/// Where a bare name is looked up for a child that has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A process that has just been made, and that nobody watches yet.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) pid: Pid,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Starts `command` on the calling thread, which must outlive the child.
///
/// # Errors
///
/// See [`SpawnError`]; nothing was left behind.
pub(super) fn launch(command: &Command) -> Result<Launched, SpawnError> {
    command.validate()?;
    if let Some(cwd) = command.directory()
        && !is_usable(cwd)
    {
        return Err(SpawnError::BadCwd(cwd.to_owned()));
    }
    let program = resolve(command)?;
    let environment = command
        .environment()
        .map(|(name, value)| {
            let mut entry = OsString::with_capacity(name.len() + value.len() + 1);
            entry.extend([name, "=".as_ref(), value]);
            entry
        })
        .collect();
    let child =
        exec::spawn(&program, command.program(), command.arguments(), environment, command.directory())
            .map_err(|error| classify(&error, command, &program))?;
    let pid = Pid::from_child(&child);
    match (child.stdin, child.stdout, child.stderr) {
        (Some(stdin), Some(stdout), Some(stderr)) => {
            Ok(Launched { pid, stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() })
        }
        // All three were asked for.
        _ => {
            give_up(pid);
            Err(os_error(&Errno::BADF.into(), command))
        }
    }
}

/// Ends a child that cannot be watched. It is ours and unreaped, so its number is safe to use. Waits
/// for it, but no longer than a process takes to die.
pub(super) fn give_up(pid: Pid) {
    // Both can only say that it has gone already.
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
}

/// Finds the file to run: a bare name on the child's own `PATH`.
///
/// Entries of `PATH` that are empty or relative are left out: what they mean depends on where the
/// child happens to stand, and is a well-known way to run somebody else's program.
fn resolve(command: &Command) -> Result<PathBuf, SpawnError> {
    let program = Path::new(command.program());
    if program.components().count() != 1 || program.is_absolute() || command.program() == "." {
        return Ok(program.to_owned());
    }
    let path = command.variable("PATH").unwrap_or(DEFAULT_PATH.as_ref());
    let mut found_unusable = false;
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        let candidate = folder.join(program);
        if is_runnable(&candidate) {
            return Ok(candidate);
        }
        found_unusable |= candidate.is_file();
    }
    let command = shown(command);
    Err(if found_unusable { SpawnError::NotExecutable { command } } else { SpawnError::NotFound { command } })
}

fn is_runnable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok()
}

fn is_usable(folder: &Path) -> bool {
    folder.is_dir() && rustix::fs::access(folder, Access::EXEC_OK).is_ok()
}

/// Says in our words what the system has said about a start.
fn classify(error: &io::Error, command: &Command, program: &Path) -> SpawnError {
    // The folder may have gone between the check and the start; the error codes are the same.
    if let Some(cwd) = command.directory()
        && !is_usable(cwd)
    {
        return SpawnError::BadCwd(cwd.to_owned());
    }
    let file = command.directory().map_or_else(|| program.to_owned(), |cwd| cwd.join(program));
    let shown = || shown(command);
    match Errno::from_io_error(error) {
        // The file is there but what its first line asks to run it with is not.
        Some(Errno::NOENT) if fs::exists(&file).unwrap_or(false) => {
            SpawnError::BadFormat { command: shown() }
        }
        Some(Errno::NOENT | Errno::NOTDIR) => SpawnError::NotFound { command: shown() },
        Some(Errno::ACCESS | Errno::PERM | Errno::ISDIR) => SpawnError::NotExecutable { command: shown() },
        Some(Errno::NOEXEC) => SpawnError::BadFormat { command: shown() },
        Some(Errno::TXTBSY) => SpawnError::Busy { command: shown() },
        _ => os_error(error, command),
    }
}

/// Says in our words what the system has refused.
pub(crate) fn os_error(error: &io::Error, command: &Command) -> SpawnError {
    let what = match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => "file descriptors",
        Some(Errno::AGAIN) => "processes or threads",
        Some(Errno::NOMEM) => "memory",
        Some(Errno::NOSPC) => "watches",
        _ => return SpawnError::Os { command: shown(command), reason: error.to_string() },
    };
    SpawnError::ResourceLimit { command: shown(command), what }
}

fn shown(command: &Command) -> String {
    command.program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(folder: &Path, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn refused(command: &Command) -> SpawnError {
        let launched = launch(command);
        launched.expect_err("must not start")
    }

    #[test]
    fn f001_a_command_that_is_not_there() {
        for name in ["no-such-command-7f3a", "/no/such/command", "./no-such-command"] {
            let error = refused(&Command::new(name));
            assert_eq!(error, SpawnError::NotFound { command: name.into() });
            assert!(error.is_permanent());
        }
    }

    #[test]
    fn f002_a_missing_folder_is_not_a_missing_command() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        assert_eq!(refused(&Command::new("/bin/cat").cwd(&gone)), SpawnError::BadCwd(gone));
        let plain = file(folder.path(), "plain", b"", 0o644);
        assert_eq!(refused(&Command::new("/bin/cat").cwd(&plain)), SpawnError::BadCwd(plain));
    }

    #[test]
    fn f003_what_may_not_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let plain = file(folder.path(), "plain", b"#!/bin/sh\n", 0o644);
        for path in [plain.to_str().unwrap(), folder.path().to_str().unwrap()] {
            assert_eq!(refused(&Command::new(path)), SpawnError::NotExecutable { command: path.into() });
        }
        let bare = Command::new("plain").env("PATH", folder.path());
        assert_eq!(refused(&bare), SpawnError::NotExecutable { command: "plain".into() });
    }

    #[test]
    fn f004_what_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let garbage = file(folder.path(), "garbage", &[7; 64], 0o755);
        let orphan = file(folder.path(), "orphan", b"#!/no/such/interpreter\n", 0o755);
        for path in [garbage.to_str().unwrap(), orphan.to_str().unwrap()] {
            assert_eq!(refused(&Command::new(path)), SpawnError::BadFormat { command: path.into() });
        }
    }

    #[test]
    fn a_bare_name_is_looked_up_on_the_childs_own_path() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        fs::create_dir_all(&first).unwrap();
        fs::create_dir_all(&second).unwrap();
        file(&first, "tool", b"", 0o644);
        let tool = file(&second, "tool", b"", 0o755);
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(resolve(&Command::new("tool").env("PATH", &path)), Ok(tool));
        assert!(resolve(&Command::new("tool").inherit([("PATH", "/bin")])).is_err());
        assert!(resolve(&Command::new("sh")).is_ok(), "the usual folders serve a child without PATH");
        // Neither the current folder nor an empty entry is ever searched.
        let here = Command::new("tool").cwd(&second).env("PATH", ".:");
        assert_eq!(resolve(&here), Err(SpawnError::NotFound { command: "tool".into() }));
    }

    #[test]
    fn a_relative_program_starts_at_the_childs_folder() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "plain", b"", 0o644);
        let error = refused(&Command::new("./plain").cwd(folder.path()));
        assert_eq!(error, SpawnError::NotExecutable { command: "./plain".into() });
        let error = refused(&Command::new("./other").cwd(folder.path()));
        assert_eq!(error, SpawnError::NotFound { command: "./other".into() });
    }
}
