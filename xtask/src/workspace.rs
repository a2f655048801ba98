use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::shell;

/// The crates that are published, in the order of their dependencies.
pub(crate) const CRATES: [&str; 5] =
    ["mcp-proto", "mcp-transport", "mcp-session", "mcp-lifecycle", "mcp-client"];

/// A checkout of the workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    /// Where cargo builds; `None` leaves that to cargo.
    builds_into: Option<PathBuf>,
}

impl Workspace {
    /// The checkout that this program was built from.
    pub(crate) fn here() -> Self {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { root: xtask.parent().unwrap_or(xtask).to_owned(), builds_into: None }
    }

    /// A checkout elsewhere, with a build folder of its own.
    pub(crate) fn at(root: PathBuf, builds_into: PathBuf) -> Self {
        Self { root, builds_into: Some(builds_into) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Where everything goes that is built or installed; never committed.
    pub(crate) fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.path("target"), |set| self.path(PathBuf::from(set)))
    }

    /// `cargo` with `args`, run at the root.
    pub(crate) fn cargo(&self, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).args(args);
        if let Some(folder) = &self.builds_into {
            command.env("CARGO_TARGET_DIR", folder);
        }
        command
    }

    /// `git` with `args`, run at the root.
    pub(crate) fn git(&self, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.root).args(args);
        command
    }

    /// Every file that is committed or would be, relative to the root, sorted.
    ///
    /// # Errors
    ///
    /// `git` is missing, or this is not a checkout.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let listing =
            shell::capture(&mut self.git(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
        let mut files: Vec<PathBuf> =
            listing.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
        // A file deleted but not yet staged is still listed.
        files.retain(|file| self.path(file).is_file());
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Whether a source file of `package` has a function of this name.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub(crate) fn has_function(&self, package: &str, name: &str) -> Result<bool, Failure> {
        // Property tests have arguments.
        let signature = format!("fn {name}(");
        for file in files_below(&self.path(package))? {
            if file.extension().is_some_and(|extension| extension == "rs")
                && fs::read_to_string(&file).map_err(Failure::io("read", &file))?.contains(&signature)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Every file below `folder`.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
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
