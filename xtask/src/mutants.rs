use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::args::Mutants;
use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// The program that changes the code, installed from the registry below the target folder.
const VERSION: &str = "27.1.0";

/// The files that only decide, by crate: tests beside the code must notice whatever changes there.
const FILES: [(&str, &str); 4] = [
    ("mcp-lifecycle", "src/backoff.rs"),
    ("mcp-lifecycle", "src/breaker.rs"),
    ("mcp-lifecycle", "src/machine.rs"),
    ("mcp-session", "src/pending.rs"),
];

/// So many of a hundred changes must be noticed.
const CAUGHT_PERCENT: u64 = 85;

/// A test that still runs after this long, in seconds, has noticed: the change makes it hang.
const LIMIT: &str = "60";

/// Changes the pure files in every way that cargo-mutants knows, one at a time, and runs the unit tests of
/// their crate; prints what no test has noticed.
///
/// # Errors
///
/// The program cannot be installed or run, or a file is below the bound.
pub(crate) fn run(workspace: &Workspace, options: &Mutants) -> Result<(), Failure> {
    let files = chosen(&options.names)?;
    let tools = workspace.target().join("tools");
    let install = ["install", "--quiet", "--locked", "--version", VERSION, "--root"];
    shell::run(workspace.cargo(install).arg(&tools).arg("cargo-mutants"))?;
    let mut below = Vec::new();
    for (package, file) in files {
        let output = workspace.target().join("mutants").join(package).join(file);
        fs::create_dir_all(&output).map_err(Failure::io("create", &output))?;
        let mut command = workspace.cargo(["mutants", "--no-shuffle", "--colors=never", "--timeout", LIMIT]);
        // Cargo finds its subcommands through the path.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [tools.join("bin")].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).map_err(|error| Failure::new(error.to_string()))?);
        command.args(["--package", package, "--file", &format!("{package}/{file}"), "--output"]).arg(&output);
        // Given to the builds as well, which would make every test program of the crate anew otherwise.
        command.arg("--cargo-arg=--lib");
        // It ends with a status of its own if something was missed; what counts is what it has written.
        if let Err(failure) = shell::run(&mut command) {
            eprintln!("xtask: {failure}");
        }
        let score = Score::read(&output.join("mutants.out/outcomes.json"))?;
        println!("mutants: {package}/{file}: {score}");
        if !score.is_good() {
            below.push(file);
        }
    }
    match below.len() {
        0 => Ok(()),
        _ => Err(Failure::new(format!("less than {CAUGHT_PERCENT} % noticed: {}", below.join(", ")))),
    }
}

fn chosen(names: &[String]) -> Result<Vec<(&'static str, &'static str)>, Failure> {
    let is_meant = |file: &str| names.is_empty() || names.iter().any(|name| file.contains(name.as_str()));
    let files: Vec<_> = FILES.into_iter().filter(|(_, file)| is_meant(file)).collect();
    if files.is_empty() {
        return Err(Failure::new(format!("no pure file's name contains {}", names.join(" or "))));
    }
    Ok(files)
}

/// What became of the changes of one file.
#[derive(Debug, PartialEq, Eq)]
struct Score {
    caught: u64,
    missed: u64,
    timeout: u64,
}

impl Score {
    fn read(outcomes: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(outcomes).map_err(Failure::io("read", outcomes))?;
        let outcomes: Value = serde_json::from_str(&text).map_err(|error| Failure::new(error.to_string()))?;
        let count = |name: &str| {
            outcomes[name].as_u64().ok_or_else(|| Failure::new(format!("the outcomes do not say `{name}`")))
        };
        Ok(Self { caught: count("caught")?, missed: count("missed")?, timeout: count("timeout")? })
    }

    /// A test that does not end has noticed, too.
    fn noticed(&self) -> u64 {
        self.caught + self.timeout
    }

    fn is_good(&self) -> bool {
        let all = self.noticed() + self.missed;
        all > 0 && self.noticed() * 100 >= all * CAUGHT_PERCENT
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { caught, missed, timeout } = self;
        write!(f, "{caught} caught, {timeout} made a test hang, {missed} missed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_chosen_by_a_part_of_its_name() {
        assert_eq!(chosen(&[]).unwrap().len(), FILES.len());
        assert_eq!(chosen(&["breaker".to_owned()]).unwrap(), [("mcp-lifecycle", "src/breaker.rs")]);
        assert!(chosen(&["actor".to_owned()]).is_err());
    }

    #[test]
    fn what_is_not_noticed_counts_against_the_file() {
        let score = |caught, missed, timeout| Score { caught, missed, timeout };
        assert!(score(84, 15, 1).is_good());
        assert!(!score(84, 16, 0).is_good());
        assert!(!score(0, 0, 0).is_good(), "nothing was tried");
    }

    #[test]
    fn outcomes_that_say_nothing_are_an_error() {
        let file = std::env::temp_dir().join(format!("xtask-mutants-{}.json", std::process::id()));
        fs::write(&file, r#"{"caught": 3, "missed": 1, "timeout": 0, "outcomes": []}"#).unwrap();
        assert_eq!(Score::read(&file).unwrap(), Score { caught: 3, missed: 1, timeout: 0 });
        fs::write(&file, r#"{"caught": 3}"#).unwrap();
        assert!(Score::read(&file).unwrap_err().to_string().contains("missed"));
        fs::remove_file(file).unwrap();
    }
}
