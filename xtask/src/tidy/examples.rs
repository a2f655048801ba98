use std::fs;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Where examples are compiled: the README of the facade is part of its crate's documentation.
const COMPILED: &str = "mcp-client/README.md";

/// Examples of the root's README that no compiler sees, because [`COMPILED`] does not have them.
pub(super) fn uncompiled(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let read =
        |file| fs::read_to_string(workspace.path(file)).map_err(Failure::io("read", &workspace.path(file)));
    let compiled = read(COMPILED)?;
    let strangers =
        examples(&read("README.md")?).into_iter().filter(|(_, code)| !compiled.contains(code.as_str()));
    Ok(strangers
        .map(|(line, _)| format!("README.md:{line}: the example does not stand in {COMPILED}"))
        .collect())
}

/// The Rust code blocks of a Markdown text, with the line that each begins on.
fn examples(text: &str) -> Vec<(usize, String)> {
    let mut examples = Vec::new();
    let mut current: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match &mut current {
            Some(_) if line == "```" => examples.extend(current.take()),
            Some((_, code)) => {
                code.push_str(line);
                code.push('\n');
            }
            None if line.starts_with("```rust") => current = Some((index + 1, String::new())),
            None => {}
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rust_blocks_are_examples() {
        let text = "# A\n\n```sh\nls\n```\n\n```rust,no_run\nlet a = 1;\nlet b = 2;\n```\n";
        assert_eq!(examples(text), [(7, "let a = 1;\nlet b = 2;\n".to_owned())]);
    }
}
