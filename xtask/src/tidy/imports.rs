use super::{Finding, SourceFile};

/// Imports stand in at most three blocks, in this order: std, external, crate.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    if !file.has_extension("rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut run = Run::default();
    let mut inside_statement = false;
    for (number, line) in file.lines() {
        let code = line.trim();
        if inside_statement {
            inside_statement = !code.ends_with(';');
        } else if let Some(path) = code.strip_prefix("use ") {
            findings.extend(run.on_import(Origin::of(path)).map(|rule| Finding::new(number, rule)));
            inside_statement = !code.ends_with(';');
        } else if code.is_empty() {
            run.on_blank();
        } else if !code.starts_with("//") && !code.starts_with("#[") {
            run = Run::default();
        }
    }
    findings
}

/// Where an imported item comes from; ordered as the blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Std,
    External,
    Crate,
}

impl Origin {
    fn of(path: &str) -> Self {
        let first = path.trim_start_matches("::").split([':', ' ', ';', '{']).next().unwrap_or_default();
        match first {
            "alloc" | "core" | "std" => Self::Std,
            "crate" | "self" | "super" => Self::Crate,
            _ => Self::External,
        }
    }
}

/// Imports that follow one another, with nothing but blank lines between.
#[derive(Debug, Default)]
struct Run {
    block: Option<Origin>,
    blank_since: bool,
}

impl Run {
    fn on_blank(&mut self) {
        self.blank_since = true;
    }

    fn on_import(&mut self, origin: Origin) -> Option<&'static str> {
        let before = self.block.replace(origin);
        let apart = std::mem::take(&mut self.blank_since);
        match before {
            Some(before) if origin < before => Some("imports stand in the order std, external, crate"),
            Some(before) if origin == before && apart => Some("a block of imports must not be split"),
            Some(before) if origin != before && !apart => {
                Some("a blank line belongs between blocks of imports")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    const GOOD: &str = "//! Docs.\n\nuse std::fmt;\nuse std::{\n    io,\n    mem,\n};\n\nuse bytes::Bytes;\n\nuse crate::error::X;\nuse super::Y;\n\npub use a::B;\n";

    #[test]
    fn three_blocks_in_order_pass() {
        assert_eq!(lines(check, "a/src/x.rs", GOOD), [] as [usize; 0]);
    }

    #[test]
    fn each_way_to_break_the_order_is_found() {
        let out_of_order = "use crate::a::B;\n\nuse std::fmt;\n";
        let split = "use std::fmt;\n\nuse std::io;\n";
        let joined = "use std::fmt;\nuse bytes::Bytes;\n";
        assert_eq!(lines(check, "x.rs", out_of_order), [3]);
        assert_eq!(lines(check, "x.rs", split), [3]);
        assert_eq!(lines(check, "x.rs", joined), [2]);
        assert_eq!(lines(check, "x.md", joined), [] as [usize; 0]);
    }

    #[test]
    fn imports_of_an_inner_module_are_a_run_of_their_own() {
        let text = "use crate::a::B;\n\nmod tests {\n    use std::fmt;\n\n    use super::*;\n}\n";
        assert_eq!(lines(check, "x.rs", text), [] as [usize; 0]);
    }
}
