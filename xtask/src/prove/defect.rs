use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A patch that puts a defect back, and one test that must notice.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// With the defect the test does not end: that is how it notices.
    pub(super) hangs: bool,
}

impl Defect {
    /// Reads every `*.patch` of `folder`, in the order of their names; one entry for each of its tests.
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
        Ok(patches.into_iter().map(Self::read).collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn read(patch: PathBuf) -> Result<Vec<Self>, Failure> {
        let text = fs::read_to_string(&patch).map_err(Failure::io("read", &patch))?;
        Self::parse(&patch, &text)
    }

    fn parse(patch: &Path, text: &str) -> Result<Vec<Self>, Failure> {
        let headers = |key: &'static str| {
            let lines = text.lines().take_while(|line| line.starts_with('#'));
            let values = lines.filter_map(move |line| line.strip_prefix(key)).map(str::trim);
            values.filter(|value| !value.is_empty())
        };
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let lacks = |what: &str| Failure::new(format!("{name}.patch does not begin with `# {what}`"));
        let guarantee = headers("# guarantee:").next().ok_or_else(|| lacks("guarantee: …"))?;
        let hangs = headers("# hangs:").next().is_some();
        let mut defects = Vec::new();
        for test in headers("# test:") {
            let (package, test) = test.split_once(' ').ok_or_else(|| lacks("test: CRATE NAME"))?;
            defects.push(Self {
                guarantee: guarantee.to_owned(),
                name: name.clone(),
                package: package.to_owned(),
                patch: patch.to_owned(),
                test: test.trim().to_owned(),
                hangs,
            });
        }
        if defects.is_empty() { Err(lacks("test: CRATE NAME")) } else { Ok(defects) }
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
        let [defect] = &Defect::parse(Path::new("d/late-reply.patch"), PATCH).unwrap()[..] else { panic!() };
        assert_eq!(defect.name, "late-reply");
        assert_eq!(defect.guarantee, "A late reply is dropped.");
        assert_eq!((defect.package.as_str(), defect.test.as_str()), ("mcp-session", "pending::tests::late"));
        assert_eq!((defect.function(), defect.hangs), ("late", false));
    }

    #[test]
    fn every_test_is_an_entry_and_a_hang_must_be_announced() {
        let text = format!("# test: mcp-client another\n# hangs: nobody wakes it\n{PATCH}");
        let defects = Defect::parse(Path::new("x.patch"), &text).unwrap();
        let tests: Vec<_> =
            defects.iter().map(|defect| (defect.package.as_str(), defect.function())).collect();
        assert_eq!(tests, [("mcp-client", "another"), ("mcp-session", "late")]);
        assert!(defects.iter().all(|defect| defect.hangs && defect.guarantee == "A late reply is dropped."));
    }

    #[test]
    fn a_patch_without_its_header_is_refused() {
        for (from, part) in
            [("# guarantee: A late reply is dropped.\n", "guarantee"), ("# test: mcp-session", "test")]
        {
            let failure =
                Defect::parse(Path::new("x.patch"), &PATCH.replace(from, "")).unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }

    #[test]
    fn a_test_is_found_by_whole_names_only() {
        let defects = Defect::parse(Path::new("x.patch"), &PATCH.replace("pending::tests::", "")).unwrap();
        let [defect] = &defects[..] else { panic!() };
        assert!(defect.is_test("late") && defect.is_test("pending::tests::late"));
        assert!(!defect.is_test("too_late") && !defect.is_test("late_again"));
    }
}
