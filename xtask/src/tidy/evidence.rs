use std::fs;

use crate::failure::Failure;
use crate::workspace::{CRATES, Workspace};

/// Where the table stands that names a test for each promise of each crate.
const TABLE: &str = "ARCHITECTURE.md";

/// Tests and files that the page names and that do not exist.
pub(super) fn missing(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let path = workspace.path(TABLE);
    let page = fs::read_to_string(&path).map_err(Failure::io("read", &path))?;
    let mut missing = missing_tests(workspace, &page)?;
    let files = workspace.files()?;
    for (line, file) in named_files(&page) {
        if !files.iter().any(|known| known.ends_with(file)) {
            missing.push(format!("{TABLE}:{line}: there is no file `{file}`"));
        }
    }
    Ok(missing)
}

fn missing_tests(workspace: &Workspace, page: &str) -> Result<Vec<String>, Failure> {
    let named = named_tests(page);
    if named.is_empty() {
        return Ok(vec![format!("{TABLE}:1: the table of tests is missing")]);
    }
    let mut missing = Vec::new();
    for (line, package, test) in named {
        if !workspace.has_function(package, test)? {
            missing.push(format!("{TABLE}:{line}: {package} has no test `{test}`"));
        }
    }
    Ok(missing)
}

/// Line, crate and test for each cell of each row that begins with a crate.
fn named_tests(table: &str) -> Vec<(usize, &str, &str)> {
    let mut named = Vec::new();
    for (index, line) in table.lines().enumerate() {
        let mut words = line.split('`').skip(1).step_by(2);
        let Some(package) = words.next().filter(|word| line.starts_with("| `") && CRATES.contains(word))
        else {
            continue;
        };
        named.extend(words.map(|test| (index + 1, package, test)));
    }
    named
}

/// Source files in backticks, whole or as the end of their path, with the line each stands on.
fn named_files(page: &str) -> Vec<(usize, &str)> {
    let lines = page.lines().enumerate();
    let words =
        lines.flat_map(|(index, line)| line.split('`').skip(1).step_by(2).map(move |word| (index + 1, word)));
    words.filter(|(_, word)| word.ends_with(".rs")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_begin_with_a_crate_name_tests() {
        let table = "| crate | leak |\n|---|---|\n| `mcp-proto` | `a_test` and `another` |\n`mcp-proto` has `x`.\n| `x` | `y` |\n";
        assert_eq!(named_tests(table), [(3, "mcp-proto", "a_test"), (3, "mcp-proto", "another")]);
    }

    #[test]
    fn files_are_named_in_backticks() {
        assert_eq!(named_files("see `a/b.rs` and c.rs\n`d` in `e.rs`\n"), [(1, "a/b.rs"), (2, "e.rs")]);
    }
}
