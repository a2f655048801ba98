use super::{Finding, SourceFile};

/// The headings that entries may stand under, from *Keep a Changelog*.
const KINDS: [&str; 6] = ["Added", "Changed", "Deprecated", "Fixed", "Removed", "Security"];

/// A changelog has a section for what is not released yet, and entries stand under known headings.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    if file.name() != "CHANGELOG.md" {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = file
        .lines()
        .filter_map(|(number, line)| Some((number, line.strip_prefix("### ")?)))
        .filter(|(_, kind)| !KINDS.contains(kind))
        .map(|(number, kind)| Finding::new(number, format!("`{kind}` is none of {}", KINDS.join(", "))))
        .collect();
    if !file.text.contains("\n## [Unreleased]\n") {
        findings.push(Finding::new(1, "the section `## [Unreleased]` is missing"));
    }
    if !file.lines().any(|(_, line)| line.starts_with("- ")) {
        findings.push(Finding::new(1, "there is no entry"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    #[test]
    fn sections_headings_and_entries_are_required() {
        let good = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n";
        assert_eq!(lines(check, "mcp-proto/CHANGELOG.md", good), [] as [usize; 0]);
        assert_eq!(lines(check, "mcp-proto/CHANGELOG.md", &good.replace("Unreleased", "0.1.0")), [1]);
        assert_eq!(lines(check, "mcp-proto/CHANGELOG.md", &good.replace("Added", "News")), [5]);
        assert_eq!(lines(check, "mcp-proto/CHANGELOG.md", &good.replace("- A thing.", "")), [1]);
    }
}
