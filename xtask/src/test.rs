use std::time::Duration;

use crate::args::Repeat;
use crate::failure::Failure;
use crate::workspace::Workspace;
use crate::{real_servers, repeat, shell};

/// Runs the tests; unless `extra` chooses among them, the interleavings three times more, with another seed
/// each time.
///
/// # Errors
///
/// A test fails.
pub(crate) fn run(workspace: &Workspace, extra: &[String]) -> Result<(), Failure> {
    // Everything, unless the arguments choose: the root has no crate of its own.
    let mut cargo = workspace.cargo(["test", "--no-fail-fast"]);
    real_servers::offer(workspace, &mut cargo);
    shell::run(cargo.args(extra))?;
    if chooses(extra) { Ok(()) } else { interleavings(workspace) }
}

/// Whether the arguments leave anything out, or want something else than a run.
fn chooses(extra: &[String]) -> bool {
    extra.iter().any(|argument| !matches!(argument.as_str(), "--frozen" | "--locked" | "--offline"))
}

/// Every fault of the catalogue, a process each; one at a time, because some of them measure.
fn interleavings(workspace: &Workspace) -> Result<(), Failure> {
    let names = ["f0", "f1", "promise_"].map(str::to_owned).to_vec();
    let limit = Duration::from_secs(120);
    repeat::run(workspace, &Repeat { jobs: 1, limit, names, package: None, times: 3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_chooses_tests_gets_these_and_no_repetition() {
        for (arguments, expected) in
            [("", false), ("--locked", false), ("-p mcp-proto", true), ("f128", true)]
        {
            let extra: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(chooses(&extra), expected, "{arguments}");
        }
    }
}
