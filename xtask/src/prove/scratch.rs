use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::prove::defect::Defect;
use crate::shell;
use crate::workspace::Workspace;

/// A copy of the checkout that defects are put into, with a build folder that all of them share.
///
/// Files are only written when their content differs: cargo rebuilds what a defect touched, no more.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    copy: Workspace,
    folder: PathBuf,
    original: &'a Workspace,
}

impl<'a> Scratch<'a> {
    pub(super) fn copy(original: &'a Workspace) -> Result<Self, Failure> {
        let folder = original.target().join("prove");
        let copy = Workspace::at(folder.join("tree"), folder.join("build"));
        let scratch = Self { copy, folder, original };
        scratch.restore()?;
        Ok(scratch)
    }

    pub(super) fn workspace(&self) -> &Workspace {
        &self.copy
    }

    /// Where the output of a test goes.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("test.log")
    }

    /// Puts a defect into the copy.
    ///
    /// # Errors
    ///
    /// The patch does not fit the code, or changes nothing.
    pub(super) fn apply(&self, defect: &Defect) -> Result<(), Failure> {
        let mut git = self.copy.git(["apply", "--whitespace=nowarn"]);
        // Inside a repository, git would silently skip what lies outside the folder it is run in.
        git.env("GIT_CEILING_DIRECTORIES", &self.folder).arg(&defect.patch);
        shell::capture(&mut git)?;
        if self.differences()?.is_empty() {
            return Err(Failure::new(format!("{} changes nothing", defect.patch.display())));
        }
        Ok(())
    }

    /// Makes the copy equal to the original again.
    pub(super) fn restore(&self) -> Result<(), Failure> {
        for path in self.differences()? {
            let (from, to) = (self.original.path(&path), self.copy.path(&path));
            if from.is_file() {
                let folder = to.parent().unwrap_or(self.copy.root());
                fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
                let content = fs::read(&from).map_err(Failure::io("read", &from))?;
                // Not a copy of the file: cargo must see that this one is new.
                fs::write(&to, content).map_err(Failure::io("write", &to))?;
            } else {
                fs::remove_file(&to).map_err(Failure::io("remove", &to))?;
            }
        }
        Ok(())
    }

    /// Whether the crate of the test has a function of its name.
    pub(super) fn has_test(&self, defect: &Defect) -> Result<bool, Failure> {
        let signature = format!("fn {}(", defect.function());
        for file in files_below(&self.copy.path(&defect.package))? {
            if fs::read(&file)
                .map_err(Failure::io("read", &file))?
                .windows(signature.len())
                .any(|w| w == signature.as_bytes())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The files that are not the same in both, relative to the root.
    fn differences(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut paths: BTreeSet<PathBuf> = self.original.files()?.into_iter().collect();
        let root = self.copy.root();
        let copied = if root.is_dir() { files_below(root)? } else { Vec::new() };
        paths.extend(copied.iter().filter_map(|path| path.strip_prefix(root).ok()).map(Path::to_owned));
        let content = |workspace: &Workspace, path: &PathBuf| fs::read(workspace.path(path)).ok();
        Ok(paths
            .into_iter()
            .filter(|path| content(self.original, path) != content(&self.copy, path))
            .collect())
    }
}

/// Every file below `folder`.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Failure::io("read", &folder))? {
            let path = entry.map_err(Failure::io("read", &folder))?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}
