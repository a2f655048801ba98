use super::{Finding, SourceFile};

/// Short forms whose full stop ends no sentence.
const SHORT_FORMS: [&str; 5] = ["e.g.", "i.e.", "cf.", "vs.", "etc."];

/// Markdown has one sentence per line, so that a change of one sentence is a change of one line.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    if !file.has_extension("md") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut in_code = false;
    let mut unfinished = false;
    for (number, line) in file.lines() {
        let text = line.trim();
        if text.starts_with("```") {
            in_code = !in_code;
            unfinished = false;
            continue;
        }
        if in_code {
            continue;
        }
        let kind = Kind::of(text);
        if kind == Kind::Prose && unfinished {
            findings.push(Finding::new(number, "a sentence stands on one line"));
        }
        if matches!(kind, Kind::Prose | Kind::Item) && holds_two_sentences(text) {
            findings.push(Finding::new(number, "one line holds one sentence"));
        }
        unfinished = matches!(kind, Kind::Prose | Kind::Item) && !is_finished(text);
    }
    findings
}

/// What a line of Markdown is, as far as sentences go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Blank, a heading, a row of a table, a comment, a quote, a link definition.
    Other,
    /// Begins an entry of a list.
    Item,
    Prose,
}

impl Kind {
    fn of(text: &str) -> Self {
        let numbered = text.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if text.starts_with("- ") || text.starts_with("* ") || numbered {
            Self::Item
        } else if text.is_empty() || text.starts_with(['#', '|', '<', '>', '[', '!']) {
            Self::Other
        } else {
            Self::Prose
        }
    }
}

/// Whether a new sentence begins inside the line; text in backticks does not count.
fn holds_two_sentences(text: &str) -> bool {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join("x");
    let words: Vec<&str> = prose.split(' ').collect();
    words.windows(2).skip(usize::from(Kind::of(text) == Kind::Item)).any(|pair| match pair {
        [word, next] => {
            word.len() > 2
                && word.trim_end_matches(['*', ')', '"']).ends_with(['.', '!', '?'])
                && !SHORT_FORMS.contains(word)
                && next.trim_start_matches(['*', '(', '"', '[']).starts_with(char::is_uppercase)
        }
        _ => false,
    })
}

fn is_finished(text: &str) -> bool {
    text.trim_end_matches(['*', '_', '`', ')', '"']).ends_with(['.', '!', '?', ':', ';', '…'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    #[test]
    fn one_sentence_on_one_line_passes() {
        let text = "# A heading. With two\n\nOne, e.g. `a. B` here.\nTwo (see MCP 2026-07-28).\n\n- An item\n- Another: so.\n  And more.\n\n| a. B | c |\n\n```sh\nOne. Two\nthree\n```\n\n1. First.\n2. Second.\n";
        assert_eq!(lines(check, "README.md", text), [] as [usize; 0]);
    }

    #[test]
    fn two_sentences_on_a_line_are_found() {
        assert_eq!(lines(check, "README.md", "One. Two.\n"), [1]);
        assert_eq!(lines(check, "README.md", "- **One.** Two.\n"), [1]);
        assert_eq!(lines(check, "src/x.rs", "One. Two.\n"), [] as [usize; 0]);
    }

    #[test]
    fn a_sentence_on_two_lines_is_found() {
        assert_eq!(lines(check, "README.md", "This goes\non here.\n"), [2]);
        assert_eq!(lines(check, "README.md", "- This goes\n  on here.\n"), [2]);
    }
}
