//! The rules of layout and text that no compiler checks.

mod changelogs;
mod evidence;
mod examples;
mod imports;
mod layout;
mod manifests;
mod prose;
mod states;
mod words;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Every rule; each looks at one file at a time.
const RULES: [fn(&SourceFile) -> Vec<Finding>; 6] =
    [changelogs::check, imports::check, layout::check, manifests::check, prose::check, words::check];

/// Checks every file of the checkout against every rule.
///
/// # Errors
///
/// A file cannot be read, or a rule is broken: each place has been printed.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let mut findings = layout::missing(workspace);
    findings.extend(evidence::missing(workspace)?);
    findings.extend(examples::uncompiled(workspace)?);
    findings.extend(states::missing(workspace)?);
    for path in workspace.files()? {
        let bytes = fs::read(workspace.path(&path)).map_err(Failure::io("read", &path))?;
        // Test data may be anything; rules are about text.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let file = SourceFile { path, text };
        for rule in RULES {
            findings
                .extend(rule(&file).into_iter().map(|finding| format!("{}:{finding}", file.path.display())));
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("{} untidy places\n{}", findings.len(), findings.join("\n"))))
}

/// A text file of the checkout.
#[derive(Debug)]
struct SourceFile {
    /// Relative to the root.
    path: PathBuf,
    text: String,
}

impl SourceFile {
    #[cfg(test)]
    fn of(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.to_owned() }
    }

    /// Lines with their numbers, counted from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }

    /// The first folder of its path; `None` at the top level.
    fn top_folder(&self) -> Option<&str> {
        let parent = self.path.parent().filter(|parent| *parent != Path::new(""))?;
        parent.components().next()?.as_os_str().to_str()
    }
}

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    rule: String,
}

impl Finding {
    fn new(line: usize, rule: impl Into<String>) -> Self {
        Self { line, rule: rule.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the lines that `rule` objects to.
    #[track_caller]
    pub(super) fn lines(rule: fn(&SourceFile) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        rule(&SourceFile::of(path, text)).into_iter().map(|finding| finding.line).collect()
    }
}
