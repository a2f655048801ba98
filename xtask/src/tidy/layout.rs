use super::{Finding, SourceFile};
use crate::workspace::{CRATES, Workspace};

/// What may lie at the top of the repository, folders of crates apart.
const TOP_FILES: [&str; 14] = [
    ".gitignore",
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "deny.toml",
    "rustfmt.toml",
    ".gitattributes",
    "rust-toolchain.toml",
];

/// Folders at the top that are not crates.
const TOP_FOLDERS: [&str; 3] = [".cargo", ".ci", "xtask"];

/// Names that say nothing about what a file holds.
const EMPTY_NAMES: [&str; 9] =
    ["common", "helper", "helpers", "misc", "stuff", "types", "util", "utilities", "utils"];

/// A table of contents stays short.
const LIB_LINES: usize = 150;

/// What every crate has.
const IN_EVERY_CRATE: [&str; 6] =
    ["CHANGELOG.md", "Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];

/// Files lie where they belong, are named after what they hold, and `lib.rs` is a table of contents.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    match file.top_folder() {
        None if !TOP_FILES.contains(&file.name()) => {
            findings.push(Finding::new(1, "does not belong at the top level"))
        }
        Some(folder) if !CRATES.contains(&folder) && !TOP_FOLDERS.contains(&folder) => {
            findings.push(Finding::new(1, format!("`{folder}` does not belong at the top level")));
        }
        _ => {}
    }
    if !file.has_extension("rs") {
        return findings;
    }
    let names = file.path.iter().filter_map(|part| part.to_str());
    for name in names.map(|name| name.trim_end_matches(".rs")).filter(|name| EMPTY_NAMES.contains(name)) {
        findings.push(Finding::new(1, format!("`{name}` does not say what is inside")));
    }
    if file.name() == "lib.rs" {
        findings.extend(contents_only(file));
    }
    findings
}

fn contents_only(file: &SourceFile) -> Vec<Finding> {
    let mut findings: Vec<Finding> = file
        .lines()
        .filter(|(_, line)| {
            ["fn ", "pub fn ", "impl ", "struct ", "pub struct ", "enum ", "pub enum "]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .map(|(number, _)| Finding::new(number, "lib.rs is a table of contents, without logic"))
        .collect();
    let lines = file.text.lines().count();
    if lines > LIB_LINES {
        findings.push(Finding::new(lines, format!("lib.rs has {lines} lines, {LIB_LINES} are enough")));
    }
    findings
}

/// Files that must exist and do not.
pub(super) fn missing(workspace: &Workspace) -> Vec<String> {
    let of_crates = CRATES.iter().flat_map(|package| IN_EVERY_CRATE.map(|file| format!("{package}/{file}")));
    let at_the_top = TOP_FILES.iter().filter(|name| !name.starts_with(".git") && !name.starts_with("rust-"));
    of_crates
        .chain(at_the_top.map(|name| (*name).to_owned()))
        .filter(|file| !workspace.path(file).is_file())
        .map(|file| format!("{file}:0: is missing"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    #[test]
    fn strays_at_the_top_are_found() {
        assert_eq!(lines(check, "notes.txt", ""), [1]);
        assert_eq!(lines(check, "scripts/run.sh", ""), [1]);
        assert_eq!(lines(check, "README.md", ""), [] as [usize; 0]);
        assert_eq!(lines(check, ".ci/run", ""), [] as [usize; 0]);
        assert_eq!(lines(check, "mcp-proto/src/id.rs", ""), [] as [usize; 0]);
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        assert_eq!(lines(check, "mcp-proto/src/utils.rs", ""), [1]);
        assert_eq!(lines(check, "mcp-proto/tests/common/mod.rs", ""), [1]);
    }

    #[test]
    fn logic_and_length_of_a_lib_are_found() {
        let long = "mod a;\n".repeat(LIB_LINES + 1);
        assert_eq!(lines(check, "mcp-proto/src/lib.rs", &long), [LIB_LINES + 1]);
        assert_eq!(lines(check, "mcp-proto/src/lib.rs", "mod a;\n\npub fn b() {}\n"), [3]);
        assert_eq!(lines(check, "mcp-proto/src/a.rs", &long), [] as [usize; 0]);
    }
}
