use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// How long one run may take; the longest takes some ten seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// One kind of work, and how it is counted.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// What the bench driver is told, in words.
    pub(super) flags: &'static str,
    /// Its `--n`, in a short run and a long one.
    pub(super) repetitions: (u64, u64),
    /// How many of what the figure is about are in one repetition.
    pub(super) each: u64,
}

/// The bench driver under callgrind, against the fixture server of `mcpctl`.
#[derive(Debug)]
pub(super) struct Counter {
    driver: PathBuf,
    server: PathBuf,
    log: PathBuf,
}

/// Whether there is a valgrind to run.
///
/// # Errors
///
/// There is one, and it cannot be started.
pub(super) fn is_valgrind_there() -> Result<bool, Failure> {
    let status = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    match status {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot run `valgrind`: {error}"))),
    }
}

impl Counter {
    /// Builds what is run, optimised.
    pub(super) fn build(workspace: &Workspace) -> Result<Self, Failure> {
        let build = ["build", "--release", "--locked", "--package", "mcp-client"];
        let targets = ["--bin", "mcpctl", "--example", "bench_driver"];
        shell::run(workspace.cargo(build).args(targets))?;
        let built = workspace.target().join("release");
        let folder = workspace.target().join("instructions");
        fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?;
        Ok(Self {
            driver: built.join("examples/bench_driver"),
            server: built.join("mcpctl"),
            log: folder.join("callgrind.txt"),
        })
    }

    /// The instructions of one more: the start, the connection and the end are in both runs alike.
    ///
    /// # Errors
    ///
    /// A run fails, is not counted, or the longer one takes no more than the shorter.
    pub(super) fn count(&self, case: &Case) -> Result<u64, Failure> {
        let (short, long) = case.repetitions;
        let more = (long - short) * case.each;
        let figure = self.run(case, long)?.saturating_sub(self.run(case, short)?) / more;
        if figure == 0 {
            return Err(Failure::new(format!("{}: {long} take no more than {short}", case.name)));
        }
        Ok(figure)
    }

    /// The instructions of one run. The driver fails where an answer is not what it asked for.
    fn run(&self, case: &Case, n: u64) -> Result<u64, Failure> {
        let mut valgrind = Command::new("valgrind");
        // The server is another process, and is not counted.
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=no"]);
        valgrind.arg(&self.driver).args(case.flags.split_whitespace());
        valgrind.args(["--n", &n.to_string(), "--runtime", "ct", "--server"]).arg(&self.server);
        valgrind.args(["--server-arg", "fixture"]);
        let output = shell::capture_within(&mut valgrind, LIMIT, &self.log)?;
        collected(&output)
            .ok_or_else(|| Failure::new(format!("{}: callgrind gives no count:\n{output}", case.name)))
    }
}

/// The sum in callgrind's last words: `==PID== Collected : SUM`.
fn collected(output: &str) -> Option<u64> {
    let mut said = output.lines().filter_map(|line| line.strip_prefix("==")?.split_once("== Collected :"));
    said.next_back()?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_what_else_is_written() {
        let output = "==41== Callgrind, a call-graph generating cache profiler\n==41== \n\
                      {\"ok\":true,\"error\":null}\n==41== Events    : Ir\n==41== Collected : 69205123\n==41== \n";
        assert_eq!(collected(output), Some(69_205_123));
        for without in ["", "Collected : 5", "==41== Collected :", "==41== Collected : 1 2"] {
            assert_eq!(collected(without), None, "{without}");
        }
    }
}
