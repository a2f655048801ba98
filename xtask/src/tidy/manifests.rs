use super::{Finding, SourceFile};
use crate::workspace::CRATES;

/// What a published crate takes from the workspace.
const INHERITED: [&str; 6] = ["categories", "edition", "keywords", "license", "repository", "rust-version"];

/// What `xtask`, which is not published, takes from the workspace.
const INHERITED_UNPUBLISHED: [&str; 3] = ["edition", "license", "rust-version"];

/// Manifests take everything from the workspace but their version, and say what each feature is.
///
/// Reads a manifest line by line: ours are plain enough, and a line that this cannot read is found.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    if file.name() != "Cargo.toml" || file.top_folder().is_none() || is_outside(file) {
        return Vec::new();
    }
    let published = file.top_folder().is_some_and(|folder| CRATES.contains(&folder));
    let mut findings: Vec<Finding> = Manifest::default().read(file);
    let inherited = if published { &INHERITED[..] } else { &INHERITED_UNPUBLISHED };
    for key in inherited {
        let line = format!("{key}.workspace = true");
        if !file.text.lines().any(|found| found == line) {
            findings.push(Finding::new(1, format!("`{line}` is missing")));
        }
    }
    if !file.text.contains("\n[lints]\nworkspace = true") {
        findings.push(Finding::new(1, "`[lints] workspace = true` is missing"));
    }
    if published && !file.text.contains("\nreadme = \"README.md\"\n") {
        findings.push(Finding::new(1, "`readme = \"README.md\"` is missing"));
    }
    findings
}

/// Whether the package is none of the workspace, which it then cannot inherit from.
fn is_outside(file: &SourceFile) -> bool {
    file.path.parent().is_some_and(|folder| folder.ends_with("fuzz"))
}

/// Where in a manifest the reader is.
#[derive(Debug, Default)]
struct Manifest {
    section: String,
    documented: bool,
}

impl Manifest {
    fn read(mut self, file: &SourceFile) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (number, line) in file.lines() {
            if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                self.section = section.to_owned();
            } else if let Some((key, value)) = line.split_once('=') {
                findings
                    .extend(self.on_entry(key.trim(), value.trim()).map(|rule| Finding::new(number, rule)));
            }
            self.documented = line.starts_with("## ");
        }
        findings
    }

    fn on_entry(&self, key: &str, value: &str) -> Option<&'static str> {
        let internal = CRATES.contains(&key.trim_end_matches(".workspace"));
        let inherits = key.ends_with(".workspace") || value.contains("workspace = true");
        match self.section.as_str() {
            "package" if key == "version" && !value.starts_with('"') => {
                Some("each crate states its own version")
            }
            "package" if key == "version.workspace" => Some("each crate states its own version"),
            "features" if key != "default" && !self.documented && !key.starts_with(['"', ']']) => {
                Some("a feature is documented by a line `## …` right above it")
            }
            "dev-dependencies" if internal && (inherits || value.contains("version")) => {
                Some("an internal dev-dependency is a path without a version")
            }
            "dev-dependencies" if internal => None,
            section if section.ends_with("dependencies") && !inherits => {
                Some("versions of dependencies stand in the workspace's manifest")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    const GOOD: &str = r#"[package]
name = "mcp-proto"
version = "0.1.0"
readme = "README.md"
edition.workspace = true
rust-version.workspace = true
license.workspace = true
repository.workspace = true
categories.workspace = true
keywords.workspace = true

[features]
default = ["a"]
## Does things.
a = []

[dependencies]
bytes.workspace = true
serde = { workspace = true, optional = true }

[dev-dependencies]
mcp-transport = { path = "../mcp-transport" }

[lints]
workspace = true
"#;

    #[test]
    fn a_manifest_that_inherits_passes() {
        assert_eq!(lines(check, "mcp-proto/Cargo.toml", GOOD), [] as [usize; 0]);
    }

    #[test]
    fn each_departure_is_found() {
        for (from, to, line) in [
            ("version = \"0.1.0\"", "version.workspace = true", 3),
            ("edition.workspace = true", "edition = \"2024\"", 1),
            ("readme = \"README.md\"\n", "", 1),
            ("## Does things.", "# Does things.", 15),
            ("bytes.workspace = true", "bytes = \"1\"", 18),
            ("{ path = \"../mcp-transport\" }", "{ path = \"../mcp-transport\", version = \"1\" }", 22),
            ("[lints]\nworkspace = true\n", "", 1),
        ] {
            assert_eq!(
                lines(check, "mcp-proto/Cargo.toml", &GOOD.replace(from, to)),
                [line],
                "{from} -> {to}"
            );
        }
    }

    #[test]
    fn a_package_outside_the_workspace_inherits_nothing() {
        assert_eq!(lines(check, "mcp-proto/fuzz/Cargo.toml", "[package]\n"), [] as [usize; 0]);
    }

    #[test]
    fn the_workspaces_own_manifest_is_left_alone() {
        assert_eq!(lines(check, "Cargo.toml", "[workspace]\n"), [] as [usize; 0]);
    }
}
