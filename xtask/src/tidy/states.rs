use std::fs;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Where the states of a server are declared.
const STATES: &str = "mcp-lifecycle/src/state.rs";

/// Where a diagram of them must name each, and what stands before it.
const DIAGRAMS: [(&str, &str); 2] =
    [("ARCHITECTURE.md", "## The life of a server\n"), ("mcp-lifecycle/src/machine.rs", "//! ```text\n")];

/// The states that a diagram does not draw.
///
/// # Errors
///
/// A file cannot be read.
pub(super) fn missing(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let read = |path: &str| {
        let path = workspace.path(path);
        fs::read_to_string(&path).map_err(Failure::io("read", &path))
    };
    let states = read(STATES)?;
    let mut findings = Vec::new();
    for (path, before) in DIAGRAMS {
        let text = read(path)?;
        findings.extend(undrawn(&states, &text, before).into_iter().map(|what| format!("{path}: {what}")));
    }
    Ok(findings)
}

fn undrawn(states: &str, text: &str, before: &str) -> Vec<String> {
    let Some((_, diagram)) = text.split_once(before) else {
        return vec![format!("no diagram after {:?}", before.trim_end())];
    };
    // Up to the end of its code block.
    let diagram = diagram.strip_prefix("\n```text\n").unwrap_or(diagram);
    let diagram = diagram.split("```").next().unwrap_or_default();
    let words: Vec<&str> = diagram.split(|c: char| !c.is_alphanumeric()).collect();
    let variants = variants(states);
    if variants.is_empty() {
        return vec![format!("no states in {STATES}")];
    }
    variants
        .into_iter()
        .filter(|state| !words.contains(state))
        .map(|state| format!("the diagram lacks the state {state}"))
        .collect()
}

/// The variants of `pub enum State`, as rustfmt lays them out.
fn variants(text: &str) -> Vec<&str> {
    let body = text.split_once("pub enum State {\n").map_or("", |(_, rest)| rest);
    let lines = body.lines().take_while(|line| *line != "}");
    let names = lines
        .filter_map(|line| line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase)));
    names.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: &str = "pub enum State {\n    /// Docs.\n    Backoff {\n        /// More.\n        attempt: u32,\n    \
                          },\n    Ready,\n}\n\nenum Other {\n    Third,\n}\n";

    #[test]
    fn every_state_must_stand_in_the_diagram() {
        let text = "# A\n\n## The life\n\n```text\nBackoff{n} ──▶ Ready{g}\n```\n\nNothing else.\n";
        assert_eq!(undrawn(STATES, text, "## The life\n"), [""; 0]);
        let text = text.replace("Ready{g}", "Readyish");
        assert_eq!(undrawn(STATES, &text, "## The life\n"), ["the diagram lacks the state Ready"]);
    }

    #[test]
    fn what_stands_below_the_diagram_does_not_count() {
        let text = "//! ```text\n//! Backoff\n//! ```\n//! Ready\n";
        assert_eq!(undrawn(STATES, text, "//! ```text\n"), ["the diagram lacks the state Ready"]);
        assert_eq!(undrawn(STATES, "", "//! ```text\n"), ["no diagram after \"//! ```text\""]);
        assert_eq!(undrawn("", text, "//! ```text\n").len(), 1);
    }
}
