use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A patch that puts a defect back, and the test that must notice.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Defect {
    /// What holds without the defect, in one sentence.
    pub(super) guarantee: String,
    /// The file's name without its extension.
    pub(super) name: String,
    /// The crate of the test.
    pub(super) package: String,
    pub(super) patch: PathBuf,
    /// The test's name, with or without its modules.
    pub(super) test: String,
}

impl Defect {
    /// Reads every `*.patch` of `folder`, in the order of their names.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or a patch lacks its header.
    pub(super) fn read_all(folder: &Path) -> Result<Vec<Self>, Failure> {
        let entries = fs::read_dir(folder).map_err(Failure::io("read", folder))?;
        let mut patches = Vec::new();
        for entry in entries {
            let path = entry.map_err(Failure::io("read", folder))?.path();
            if path.extension().is_some_and(|extension| extension == "patch") {
                patches.push(path);
            }
        }
        patches.sort();
        patches.into_iter().map(Self::read).collect()
    }

    fn read(patch: PathBuf) -> Result<Self, Failure> {
        let text = fs::read_to_string(&patch).map_err(Failure::io("read", &patch))?;
        Self::parse(patch, &text)
    }

    fn parse(patch: PathBuf, text: &str) -> Result<Self, Failure> {
        let header = |key: &str| {
            let mut lines = text.lines().take_while(|line| line.starts_with('#'));
            lines.find_map(|line| line.strip_prefix(key)).map(str::trim).filter(|value| !value.is_empty())
        };
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let lacks = |what: &str| Failure::new(format!("{name}.patch does not begin with `# {what}`"));
        let guarantee = header("# guarantee:").ok_or_else(|| lacks("guarantee: …"))?.to_owned();
        let test = header("# test:").and_then(|test| test.split_once(' '));
        let (package, test) = test.ok_or_else(|| lacks("test: CRATE NAME"))?;
        Ok(Self { guarantee, package: package.to_owned(), test: test.trim().to_owned(), name, patch })
    }

    /// Whether a test of this full name is the one.
    pub(super) fn is_test(&self, full_name: &str) -> bool {
        full_name == self.test
            || full_name.strip_suffix(self.test.as_str()).is_some_and(|modules| modules.ends_with("::"))
    }

    /// The name of the test's function.
    pub(super) fn function(&self) -> &str {
        self.test.rsplit("::").next().unwrap_or(&self.test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "# guarantee: A late reply is dropped.\n# test: mcp-session pending::tests::late\n\ndiff --git a/x b/x\n";

    #[test]
    fn the_header_names_guarantee_and_test() {
        let defect = Defect::parse("d/late-reply.patch".into(), PATCH).unwrap();
        assert_eq!(defect.name, "late-reply");
        assert_eq!(defect.guarantee, "A late reply is dropped.");
        assert_eq!((defect.package.as_str(), defect.test.as_str()), ("mcp-session", "pending::tests::late"));
        assert_eq!(defect.function(), "late");
    }

    #[test]
    fn a_patch_without_its_header_is_refused() {
        for (from, part) in
            [("# guarantee: A late reply is dropped.\n", "guarantee"), ("# test: mcp-session", "test")]
        {
            let failure = Defect::parse("x.patch".into(), &PATCH.replace(from, "")).unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }

    #[test]
    fn a_test_is_found_by_whole_names_only() {
        let defect = Defect::parse("x.patch".into(), &PATCH.replace("pending::tests::", "")).unwrap();
        assert!(defect.is_test("late") && defect.is_test("pending::tests::late"));
        assert!(!defect.is_test("too_late") && !defect.is_test("late_again"));
    }
}
