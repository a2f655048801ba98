use crate::args::Simulate;
use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// Runs the simulation of `mcp-lifecycle`; a failing seed is printed with the command that replays it.
pub(crate) fn run(workspace: &Workspace, options: &Simulate) -> Result<(), Failure> {
    // Of the whole workspace, so that what it needs is built with the features that all tests are built with.
    let mut cargo = workspace.cargo(["test", "--workspace", "--test", "simulation"]);
    if options.release {
        cargo.arg("--release");
    }
    cargo.args(["--", "--nocapture"]);
    cargo.env("MCP_SIM_SEEDS", options.seeds.to_string()).env("MCP_SIM_FIRST", options.first.to_string());
    shell::run(&mut cargo)
}
