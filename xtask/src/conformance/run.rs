use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::checks::{self, Check};
use super::suite::{Row, Suites};
use crate::failure::Failure;
use crate::shell::{self, Ended};
use crate::workspace::files_below;

/// How long a scenario may take: the suite gives its client 30 s.
const LIMIT: Duration = Duration::from_secs(60);

/// What could be seen of one run of a scenario.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) suite: Ended,
    /// How the client has ended, as a shell tells it: more than 128 is a signal.
    pub(super) client: Option<i32>,
    /// What the client has written to standard error.
    pub(super) stderr: String,
    /// What the suite has looked at, or why there is nothing of it.
    pub(super) checks: Result<Vec<Check>, String>,
}

/// Runs scenarios, and keeps what they leave.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    suites: &'a Suites,
    results: PathBuf,
}

impl<'a> Runner<'a> {
    pub(super) fn new(suites: &'a Suites, results: PathBuf) -> Self {
        Self { suites, results }
    }

    /// Where the results are.
    pub(super) fn results(&self) -> &Path {
        &self.results
    }

    /// Runs `row` with `client`, a program that takes a URL as its argument.
    ///
    /// # Errors
    ///
    /// The suite cannot be started, or its results cannot be read.
    pub(super) fn run(&self, row: &Row, client: &Path) -> Result<Observed, Failure> {
        let folder = self.results.join(&row.column).join(&row.scenario);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::io("empty", &folder)(error));
            }
            _ => fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?,
        }
        let exit = folder.join("exit.txt");
        let mut command = self.suites.scenario(row, &noting_exit(client, &exit), &folder);
        let suite = shell::run_group_within(&mut command, LIMIT, &folder.join("suite.txt"))?;
        let client = fs::read_to_string(exit).ok().and_then(|code| code.trim().parse().ok());
        let files = files_below(&folder)?;
        let read = |name: &str| {
            let path = files.iter().find(|path| path.ends_with(name));
            path.map(|path| fs::read_to_string(path).map_err(Failure::io("read", path))).transpose()
        };
        let stderr = read("stderr.txt")?.unwrap_or_default();
        let checks = match read("checks.json")? {
            Some(text) => checks::parse(&text).map_err(|failure| failure.to_string()),
            None => Err("the suite has left no checks".to_owned()),
        };
        Ok(Observed { suite, client, stderr, checks })
    }
}

/// A line for the shell that runs `client` and notes how it ended: the suite takes one that a signal has
/// ended for one that succeeded.
fn noting_exit(client: &Path, exit: &Path) -> String {
    let (client, exit) = (client.display(), exit.display());
    format!("run() {{ '{client}' \"$@\"; code=$?; echo $code >'{exit}'; exit $code; }}; run")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_exit_of_the_client_is_noted_and_handed_on() {
        let folder = std::env::temp_dir().join(format!("xtask-conformance-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (client, exit) = (folder.join("a client"), folder.join("exit"));
        fs::write(&client, "#!/bin/sh\nif [ \"$1\" = 9 ]; then kill -9 $$; fi\nexit \"$1\"\n").unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&client).status().unwrap().success());
        for (argument, expected) in [("0", 0), ("3", 3), ("9", 137)] {
            let line = format!("{} {argument}", noting_exit(&client, &exit));
            let status = Command::new("sh").args(["-c", &line]).output().unwrap().status;
            assert_eq!(status.code(), Some(expected));
            assert_eq!(fs::read_to_string(&exit).unwrap().trim(), expected.to_string());
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
