use super::{Finding, SourceFile};

/// Texts that must not be committed, and why. Written in pieces: this file is checked too.
const FORBIDDEN: [(&[&str], &str); 13] = [
    (&["#[", "ignore"], "a test that does not run proves nothing: fix it or remove it"),
    (&["todo", "!("], "what is committed is finished"),
    (&["unimplemented", "!("], "what is committed is finished"),
    (&["FIX", "ME"], "what is committed is finished"),
    (&["<<<<", "<<< "], "a conflict was left unresolved"),
    (&[">>>>", ">>> "], "a conflict was left unresolved"),
    (&["/wo", "rk/"], "a path of one machine"),
    (&["/ro", "ot/"], "a path of one machine"),
    (&["index.", "crates", ".io"], "the host of a registry"),
    (&["static.", "crates", ".io"], "the host of a registry"),
    (&["registry.", "npmjs", ".org"], "the host of a registry"),
    (&["pypi", ".org"], "the host of a registry"),
    (&["files.", "pythonhosted", ".org"], "the host of a registry"),
];

/// Nothing is left unfinished, switched off, or tied to one machine.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    if file.name() == "Cargo.lock" || file.has_extension("patch") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (pieces, why) in FORBIDDEN {
        let text = pieces.concat();
        let places = file.lines().filter(|(_, line)| line.contains(&text));
        findings.extend(places.map(|(number, _)| Finding::new(number, format!("`{text}`: {why}"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    #[test]
    fn every_forbidden_text_is_found() {
        for (pieces, _) in FORBIDDEN {
            let text = format!("fine\nlet x = \"{}\";\n", pieces.concat());
            assert_eq!(lines(check, "x.rs", &text), [2], "{pieces:?}");
        }
        assert_eq!(lines(check, "x.rs", "fine\n"), [] as [usize; 0]);
    }
}
