use std::fs;

use crate::failure::Failure;
use crate::workspace::{CRATES, Workspace};

/// Where the table stands that names a test for each promise of each crate.
const TABLE: &str = "ARCHITECTURE.md";

/// Tests that the table names and that its crate does not have.
pub(super) fn missing(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let path = workspace.path(TABLE);
    let table = fs::read_to_string(&path).map_err(Failure::io("read", &path))?;
    let named = named(&table);
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
fn named(table: &str) -> Vec<(usize, &str, &str)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_begin_with_a_crate_name_tests() {
        let table = "| crate | leak |\n|---|---|\n| `mcp-proto` | `a_test` and `another` |\n`mcp-proto` has `x`.\n| `x` | `y` |\n";
        assert_eq!(named(table), [(3, "mcp-proto", "a_test"), (3, "mcp-proto", "another")]);
    }
}
