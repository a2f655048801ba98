use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::prove::defect::Defect;
use crate::shell;
use crate::workspace::{Workspace, files_below};

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
