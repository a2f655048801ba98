use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::shell::{self, Ended};
use crate::workspace::Workspace;

/// A compiled test program of one target of one crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestBinary {
    /// The crate's folder: tests run there, as under `cargo test`.
    directory: PathBuf,
    executable: PathBuf,
    target: Target,
}

/// What a test program was built from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) package: String,
    /// `lib`, `bin`, `test` or `example`.
    kind: String,
    name: String,
}

impl Target {
    /// The arguments that make cargo build this target and no other.
    pub(crate) fn selection(&self) -> Vec<String> {
        let mut selection = vec!["--package".to_owned(), self.package.clone()];
        match self.kind.as_str() {
            kind @ ("bin" | "test" | "example") => selection.extend([format!("--{kind}"), self.name.clone()]),
            _ => selection.push("--lib".to_owned()),
        }
        selection
    }
}

/// Builds the test programs that `selection` names and returns them in the order cargo built them.
///
/// # Errors
///
/// Something does not compile: cargo has printed what.
pub(crate) fn build(workspace: &Workspace, selection: &[String]) -> Result<Vec<TestBinary>, Failure> {
    let mut cargo = workspace.cargo(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    // The messages are ours to read; progress and diagnostics go where they always go.
    let output = cargo
        .args(selection)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("cannot run cargo: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(format!("the tests of {} do not compile", selection.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(read_artifact).collect())
}

impl TestBinary {
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The names of its tests, in the order it runs them.
    pub(crate) fn tests(&self) -> Result<Vec<String>, Failure> {
        let listing = shell::capture(self.command().args(["--list", "--format=terse"]))?;
        Ok(listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs one test in a process of its own, with everything random drawn from `seed`.
    pub(crate) fn run(&self, test: &str, seed: u64, limit: Duration, log: &Path) -> Result<Ended, Failure> {
        let mut command = self.command();
        command.args(["--exact", "--nocapture", test]);
        set_seed(&mut command, seed);
        shell::run_within(&mut command, limit, log)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }
}

/// Hands a seed to every source of randomness that a test may have.
fn set_seed(command: &mut Command, seed: u64) {
    let seed = seed.to_string();
    for variable in ["MCP_SIM_FIRST", "MCP_TEST_SEED", "PROPTEST_RNG_SEED"] {
        command.env(variable, &seed);
    }
}

/// Reads one line of cargo's messages; `None` when it is not about a test program.
fn read_artifact(line: &str) -> Option<TestBinary> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(TestBinary {
        executable: message["executable"].as_str()?.into(),
        target: Target {
            package: directory.file_name()?.to_str()?.to_owned(),
            kind: message["target"]["kind"][0].as_str()?.to_owned(),
            name: message["target"]["name"].as_str()?.to_owned(),
        },
        directory: directory.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARTIFACT: &str = r#"{"reason":"compiler-artifact","manifest_path":"/repo/mcp-session/Cargo.toml",
        "target":{"kind":["test"],"name":"cancel"},"profile":{"test":true},"executable":"/repo/target/cancel-1f"}"#;

    #[test]
    fn a_test_program_is_read_from_cargos_message() {
        let binary = read_artifact(ARTIFACT).unwrap();
        assert_eq!(binary.directory, Path::new("/repo/mcp-session"));
        assert_eq!(binary.executable, Path::new("/repo/target/cancel-1f"));
        assert_eq!(binary.target().selection(), ["--package", "mcp-session", "--test", "cancel"]);
    }

    #[test]
    fn other_messages_are_passed_over() {
        for line in [
            "warning: not json",
            r#"{"reason":"build-finished","success":true}"#,
            &ARTIFACT.replace(r#""test":true"#, r#""test":false"#),
            &ARTIFACT.replace(r#""/repo/target/cancel-1f""#, "null"),
        ] {
            assert_eq!(read_artifact(line), None, "{line}");
        }
    }

    #[test]
    fn the_tests_of_a_library_are_selected_without_a_name() {
        let binary = read_artifact(&ARTIFACT.replace(r#"["test"]"#, r#"["lib"]"#)).unwrap();
        assert_eq!(binary.target().selection(), ["--package", "mcp-session", "--lib"]);
    }
}
