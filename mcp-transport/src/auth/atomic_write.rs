use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::random::{Randomness as _, SystemRandomness};

/// Replaces a file as a whole: whoever reads it, and whatever breaks, it is the old or the new one.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtomicWrite<'a> {
    /// Where file and draft are.
    pub(super) folder: &'a Path,
    /// How drafts of this file begin.
    pub(super) stem: &'a str,
    /// The file.
    pub(super) target: &'a Path,
}

/// What has just been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Created,
    Written,
    Synced,
    Renamed,
}

impl AtomicWrite<'_> {
    /// Writes `bytes`; to be called by whoever holds the lock of the file.
    ///
    /// `after` sees the path of the draft after each step, and an error of it stands for a crash there:
    /// nothing is cleaned up.
    pub(super) fn run(
        &self,
        bytes: &[u8],
        after: &mut dyn FnMut(Step, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        self.remove_drafts();
        let path = self.draft()?;
        let mut draft = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        // An umask can take the owner's rights away too.
        draft.set_permissions(fs::Permissions::from_mode(0o600))?;
        after(Step::Created, &path)?;
        draft.write_all(bytes)?;
        after(Step::Written, &path)?;
        draft.sync_all()?;
        after(Step::Synced, &path)?;
        fs::rename(&path, self.target)?;
        after(Step::Renamed, &path)?;
        File::open(self.folder)?.sync_all()
    }

    /// Takes away what a write has left that never finished.
    fn remove_drafts(&self) {
        let Ok(entries) = fs::read_dir(self.folder) else { return };
        let prefix = format!(".{}.", self.stem);
        for entry in entries.flatten() {
            let is_draft = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
            if is_draft && let Err(error) = fs::remove_file(entry.path()) {
                tracing::warn!(file = %entry.path().display(), %error, "a draft cannot be removed");
            }
        }
    }

    fn draft(&self) -> io::Result<PathBuf> {
        let mut suffix = [0; 8];
        SystemRandomness.fill(&mut suffix).map_err(io::Error::other)?;
        let suffix: String = suffix.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(self.folder.join(format!(".{}.{suffix}", self.stem)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f162_f02_a_crash_at_any_step_leaves_the_old_file_or_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.json");
        let write = AtomicWrite { folder: folder.path(), stem: "a", target: &target };
        write.run(b"old", &mut |_, _| Ok(())).unwrap();
        for (crash, expected) in
            [(Step::Created, "old"), (Step::Written, "old"), (Step::Synced, "old"), (Step::Renamed, "new")]
        {
            let crashed = write.run(b"new", &mut |step, _| match step {
                step if step == crash => Err(io::Error::other("crash")),
                _ => Ok(()),
            });
            assert_eq!(crashed.unwrap_err().to_string(), "crash");
            assert_eq!(fs::read_to_string(&target).unwrap(), expected, "{crash:?}");
        }
        write.run(b"later", &mut |_, _| Ok(())).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "later");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn f160_f01_a_draft_is_never_open_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.json");
        let write = AtomicWrite { folder: folder.path(), stem: "a", target: &target };
        let mut seen = Vec::new();
        let mut look = |step: Step, draft: &Path| {
            let path = if step == Step::Renamed { target.as_path() } else { draft };
            seen.push(fs::symlink_metadata(path)?.permissions().mode() & 0o7777);
            Ok(())
        };
        write.run(b"x", &mut look).unwrap();
        assert_eq!(seen, [0o600; 4]);
    }
}
