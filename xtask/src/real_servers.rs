use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::workspace::Workspace;
use crate::{npm, shell};

/// The variable that tells tests where the servers are.
const VARIABLE: &str = "MCP_REAL_SERVERS";

/// Where the pins are committed.
const PINS: &str = "xtask/real-servers";

/// Installs the pinned servers, compares what is installed with the pins, and runs the tests.
///
/// # Errors
///
/// `npm` or `python3` is missing, something cannot be installed, another version than the pinned one
/// is there, or a test fails.
pub(crate) fn run(workspace: &Workspace, install_only: bool) -> Result<(), Failure> {
    let folder = folder(workspace);
    npm::install(&workspace.path(PINS), &folder.join("node"))?;
    install_python(&workspace.path(PINS), &folder.join("python"))?;
    if install_only {
        return Ok(());
    }
    // Of the whole workspace, so that what they need is built with the features that all tests are built with.
    let tests = ["real_servers", "real_servers_http", "real_servers_login"];
    let mut cargo = workspace.cargo(["test", "--workspace"]);
    cargo.args(tests.iter().flat_map(|test| ["--test", test]));
    shell::run(cargo.args(["--", "--nocapture"]).env(VARIABLE, &folder).env("CI", "true"))
}

/// Tells tests where the servers are, if they are installed; otherwise the tests skip themselves.
pub(crate) fn offer(workspace: &Workspace, command: &mut Command) {
    let folder = folder(workspace);
    if folder.join("node/node_modules").is_dir() && folder.join("python/bin").is_dir() {
        command.env(VARIABLE, folder);
    }
}

/// Where the servers are installed: `node/node_modules/.bin` and `python/bin` below it.
fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("real-servers")
}

fn install_python(pins: &Path, folder: &Path) -> Result<(), Failure> {
    let requirements = pins.join("requirements.txt");
    let pinned = read(&requirements)?;
    let python = folder.join("bin/python");
    let freeze =
        || shell::capture(Command::new(&python).args(["-m", "pip", "freeze", "--disable-pip-version-check"]));
    if freeze().and_then(|installed| verify_python(&pinned, &installed)).is_ok() {
        return Ok(());
    }
    shell::capture(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]);
    shell::capture(pip.arg("--requirement").arg(&requirements))?;
    verify_python(&pinned, &freeze()?)
}

/// Compares the lines of a `requirements.txt` with those of `pip freeze`.
fn verify_python(pinned: &str, installed: &str) -> Result<(), Failure> {
    let lines = |text: &str| -> Vec<String> {
        let pins = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        // Names are equal whatever their case and separators.
        pins.map(|line| line.to_lowercase().replace('_', "-")).collect()
    };
    let installed = lines(installed);
    match lines(pinned).into_iter().find(|pin| !installed.contains(pin)) {
        None => Ok(()),
        Some(pin) => Err(Failure::new(format!("{pin} is pinned and not installed"))),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(Failure::io("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_from_pip_is_named() {
        let pins = "# Servers.\nMcp_Server==2.0\n\nmcp==1.0\n";
        assert!(verify_python(pins, "mcp==1.0\nmcp-server==2.0\nextra==3\n").is_ok());
        assert!(
            verify_python(pins, "mcp==1.1\nmcp-server==2.0\n").unwrap_err().to_string().contains("mcp==1.0")
        );
    }
}
