use std::process::Command;

use crate::args::Load;
use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// The loads of the driver, in the order in which they are run.
const LOADS: [&str; 3] = ["crowd", "neighbours", "soak"];

/// Runs the load driver once for each load, optimised, each in a process of its own.
///
/// # Errors
///
/// There is no such load, the driver cannot be built, or a bound is exceeded: all loads are run first.
pub(crate) fn run(workspace: &Workspace, options: &Load) -> Result<(), Failure> {
    let loads = chosen(&options.names)?;
    let build = ["build", "--release", "--package", "mcp-client", "--example", "load_driver"];
    shell::run(&mut workspace.cargo(build))?;
    let driver = workspace.target().join("release/examples/load_driver");
    let mut exceeded = Vec::new();
    for load in loads {
        let mut command = Command::new(&driver);
        command.arg(load).args(options.quick.then_some("--quick"));
        if let Err(failure) = shell::run(&mut command) {
            eprintln!("xtask: {failure}");
            exceeded.push(load);
        }
    }
    match exceeded.len() {
        0 => Ok(()),
        _ => Err(Failure::new(format!("these loads exceed their bounds: {}", exceeded.join(", ")))),
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static str>, Failure> {
    if names.is_empty() {
        return Ok(LOADS.to_vec());
    }
    let known = |name: &String| LOADS.into_iter().find(|load| load == name);
    let chosen = names
        .iter()
        .map(|name| known(name).ok_or_else(|| Failure::new(format!("there is no load `{name}`"))));
    chosen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_there_is_not_is_named() {
        assert_eq!(chosen(&[]).unwrap(), LOADS);
        assert_eq!(chosen(&["soak".to_owned()]).unwrap(), ["soak"]);
        let failure = chosen(&["soak".to_owned(), "sock".to_owned()]).unwrap_err().to_string();
        assert!(failure.contains("`sock`"), "{failure}");
    }
}
