use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use super::atomic_write::{AtomicWrite, Step};
use super::on_thread::on_thread;
use super::record::{CredentialRecord, Unreadable};
use super::sealing_key::SealingKey;
use super::store::{CredentialKey, CredentialStore, LockedCredentials, Saved, Stamp, StoreError};

/// Longest document that is read, in bytes: more than the answers, of 1 MiB each, that one can be made of.
const MAX_DOCUMENT_BYTES: u64 = 8 * 1024 * 1024;

/// How often a lock that another process holds is tried again.
const LOCK_POLL: Duration = Duration::from_millis(25);

/// Keeps each record as a file in one directory: files 0600, the directory 0700. Unix alone.
///
/// A file is replaced as a whole, so whoever reads sees the old or the new one. Changes are made under a
/// lock of the operating system on a file beside it, which ends with the process that holds it. What
/// others could read is tightened; a symbolic link, a second name or another owner is refused. A file
/// that is no record, or that of another server, is put aside, with `.corrupt` behind its name; one of a
/// later version is left alone.
///
/// Files are read and written on short-lived threads.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: Arc<Path>,
    seal: Option<Arc<SealingKey>>,
}

/// One record and its lock, by path.
#[derive(Debug, Clone)]
struct Place {
    folder: Arc<Path>,
    stem: String,
    /// The server that a record must be of, whatever the name of its file says.
    server: String,
    seal: Option<Arc<SealingKey>>,
}

/// Holds the lock on one record; a write that goes on holds it too.
#[derive(Debug)]
struct LockedFile {
    place: Place,
    lock: Arc<File>,
}

impl FileStore {
    /// Keeps records in `folder`, which is made when it is first written to.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into().into(), seal: None }
    }

    /// Seals each file with `key`, and reads none that was not: neither a plain one nor one that somebody has
    /// changed, cut or put in the place of another. Sealed files have names of their own, and stay as they
    /// are when they cannot be opened, until they are cleared.
    #[must_use]
    pub fn sealed_with(mut self, key: SealingKey) -> Self {
        self.seal = Some(Arc::new(key));
        self
    }

    fn place(&self, key: &CredentialKey) -> Place {
        self.named(key.file_stem(), key.server())
    }

    fn named(&self, stem: String, server: &str) -> Place {
        Place { folder: Arc::clone(&self.folder), stem, server: server.to_owned(), seal: self.seal.clone() }
    }

    /// Waits until `by` for a lock that no record has.
    #[cfg(feature = "keyring")]
    pub(super) async fn lock_named(&self, stem: &str, by: Instant) -> Result<File, StoreError> {
        self.named(stem.to_owned(), "").lock(by).await
    }
}

#[async_trait]
impl CredentialStore for FileStore {
    async fn load(&self, key: &CredentialKey) -> Result<Option<CredentialRecord>, StoreError> {
        let place = self.place(key);
        on_thread(move || match place.read()? {
            // Normalising is worth a write, but not worth waiting for one.
            Some((record, true)) => match place.try_lock()? {
                Some(_lock) => place.read_and_settle(),
                None => Ok(Some(record)),
            },
            other => Ok(other.map(|(record, _)| record)),
        })
        .await
        .map_err(|error| StoreError::Io(error.to_string()))?
    }

    fn stamp(&self, key: &CredentialKey) -> Option<Stamp> {
        self.place(key).stamp()
    }

    async fn lock(&self, key: &CredentialKey, by: Instant) -> Result<Box<dyn LockedCredentials>, StoreError> {
        let place = self.place(key);
        let lock = Arc::new(place.lock(by).await?);
        Ok(Box::new(LockedFile { place, lock }))
    }
}

impl LockedFile {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (place, lock) = (self.place.clone(), Arc::clone(&self.lock));
        let done = on_thread(move || {
            let done = work(&place);
            drop(lock);
            done
        });
        done.await.map_err(|error| StoreError::Io(error.to_string()))?
    }
}

#[async_trait]
impl LockedCredentials for LockedFile {
    async fn load(&self) -> Result<Option<CredentialRecord>, StoreError> {
        self.run(Place::read_and_settle).await
    }

    async fn save(&self, record: &CredentialRecord) -> Result<Saved, StoreError> {
        let record = record.clone();
        self.run(move |place| place.replace(record)).await
    }

    async fn clear(&self) -> Result<(), StoreError> {
        self.run(|place| match fs::remove_file(place.document()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(place.failed("remove", &error)),
            _ => Ok(()),
        })
        .await
    }
}

impl Place {
    fn document(&self) -> PathBuf {
        let kind = if self.seal.is_some() { "sealed" } else { "json" };
        self.folder.join(format!("{}.{kind}", self.stem))
    }

    /// What a sealed file is of: another one in its place is not opened.
    fn context(&self) -> String {
        format!("{}\n{}", self.stem, self.server)
    }

    /// Waits until `by` for the lock.
    async fn lock(&self, by: Instant) -> Result<File, StoreError> {
        loop {
            let place = self.clone();
            let tried = on_thread(move || place.try_lock()).await;
            if let Some(lock) = tried.map_err(|error| StoreError::Io(error.to_string()))?? {
                return Ok(lock);
            }
            if Instant::now() >= by {
                return Err(StoreError::Busy);
            }
            // Another process holds it: there is no event to wait for that could be given up.
            sleep(LOCK_POLL).await;
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        let found = fs::symlink_metadata(self.document()).ok()?;
        Some(Stamp::of_file(&found))
    }

    /// Reads the document; also answers whether normalising has changed it.
    fn read(&self) -> Result<Option<(CredentialRecord, bool)>, StoreError> {
        let Some(bytes) = self.bytes()? else { return Ok(None) };
        let bytes = match &self.seal {
            Some(key) => key.open(&bytes, &self.context()).map_err(|_| self.not_opened())?,
            None => bytes,
        };
        match CredentialRecord::read(&bytes) {
            Ok((record, _)) if record.server != self.server => {
                tracing::warn!(file = %self.document().display(), "a credential file of another server is not used");
                Ok(None)
            }
            Ok(read) => Ok(Some(read)),
            Err(Unreadable::Newer(schema)) => Err(StoreError::Newer(schema)),
            Err(why @ Unreadable::Corrupt) => {
                tracing::warn!(file = %self.document().display(), %why, "a credential file is not used");
                Ok(None)
            }
        }
    }

    /// Reads the document under its lock: what is no record is put aside, what was normalised is written.
    fn read_and_settle(&self) -> Result<Option<CredentialRecord>, StoreError> {
        match self.read()? {
            None => {
                self.put_aside();
                Ok(None)
            }
            Some((record, true)) => {
                self.write(&record)?;
                Ok(Some(record))
            }
            Some((record, false)) => Ok(Some(record)),
        }
    }

    fn replace(&self, mut record: CredentialRecord) -> Result<Saved, StoreError> {
        let kept = self.read()?.map_or(0, |(kept, _)| kept.revision);
        if kept != record.revision {
            return Err(StoreError::Conflict);
        }
        record.revision += 1;
        self.write(&record)?;
        Ok(Saved { revision: record.revision, stamp: self.stamp() })
    }

    fn write(&self, record: &CredentialRecord) -> Result<(), StoreError> {
        let write = AtomicWrite { folder: &self.folder, stem: &self.stem, target: &self.document() };
        let mut bytes = record.write();
        if let Some(key) = &self.seal {
            let sealed = key.seal(&bytes, &self.context());
            bytes = Zeroizing::new(sealed.map_err(|error| self.failed("write", &io::Error::other(error)))?);
        }
        write.run(&bytes, &mut |_: Step, _: &Path| Ok(())).map_err(|error| self.failed("write", &error))
    }

    fn put_aside(&self) {
        let document = self.document();
        let mut aside = document.clone().into_os_string();
        aside.push(".corrupt");
        if fs::symlink_metadata(&document).is_ok()
            && let Err(error) = fs::rename(&document, aside)
        {
            tracing::warn!(file = %document.display(), %error, "a corrupt credential file cannot be put aside");
        }
    }

    fn bytes(&self) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let path = self.document();
        match fs::symlink_metadata(&self.folder) {
            Ok(found) => self.check_folder(&found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("look at the folder of", &error)),
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unsafe_or_failed(&path, &error)),
        };
        self.read_open(file, &path).map(Some)
    }

    /// Reads a document that is open: the old one whole, if somebody replaces it meanwhile.
    fn read_open(&self, file: File, path: &Path) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        check_file(&file, path)?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(32 * 1024));
        file.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes).map_err(|error| self.failed("read", &error))?;
        Ok(bytes)
    }

    /// Takes the lock if nobody has it.
    fn try_lock(&self) -> Result<Option<File>, StoreError> {
        self.make_folder()?;
        let path = self.folder.join(format!("{}.lock", self.stem));
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags)
            .open(&path)
            .map_err(|error| self.unsafe_or_failed(&path, &error))?;
        check_file(&file, &path)?;
        match file.try_lock() {
            // Whoever opens the name of a lock that was removed gets another one.
            Ok(()) => Ok(file.metadata().is_ok_and(|found| found.nlink() == 1).then_some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.failed("lock", &error)),
        }
    }

    /// Makes the folder, or makes sure that it is ours alone.
    fn make_folder(&self) -> Result<(), StoreError> {
        let folder = &self.folder;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| self.failed("make the folder of", &error))?;
        let found =
            fs::symlink_metadata(folder).map_err(|error| self.failed("look at the folder of", &error))?;
        self.check_folder(&found)?;
        if found.mode() & 0o077 != 0 {
            // A folder at the root of the file system is not ours to close, whoever owns it.
            if folder.components().count() <= 2 {
                return Err(self.refused_folder("is open to others, and is no folder to be closed"));
            }
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
                .map_err(|error| self.failed("close the folder of", &error))?;
        }
        Ok(())
    }

    /// Makes sure that what the folder's name stands for is a folder, and ours.
    fn check_folder(&self, found: &fs::Metadata) -> Result<(), StoreError> {
        if !found.is_dir() {
            return Err(self.refused_folder("is no directory"));
        }
        if found.uid() != geteuid().as_raw() {
            return Err(self.refused_folder("belongs to somebody else"));
        }
        Ok(())
    }

    fn refused_folder(&self, why: &str) -> StoreError {
        StoreError::Unsafe(format!("{} {why}", self.folder.display()))
    }

    fn unsafe_or_failed(&self, path: &Path, error: &io::Error) -> StoreError {
        // What O_NOFOLLOW says to a link.
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return StoreError::Unsafe(format!("{} is a symbolic link", path.display()));
        }
        self.failed("open", error)
    }

    fn not_opened(&self) -> StoreError {
        StoreError::Sealed(self.document().display().to_string())
    }

    fn failed(&self, what: &str, error: &io::Error) -> StoreError {
        StoreError::Io(format!("cannot {what} {}: {error}", self.document().display()))
    }
}

/// Makes sure that an open file is a plain one, ours alone and under no second name.
fn check_file(file: &File, path: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::Io(format!("cannot look at {}: {error}", path.display()));
    let refused = |why: &str| StoreError::Unsafe(format!("{} {why}", path.display()));
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(refused("is no file"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(refused("belongs to somebody else"));
    }
    // None at all is that of a file which was replaced since it was opened.
    if found.nlink() > 1 {
        return Err(refused("has a second name"));
    }
    if found.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{ClientRecord, ClientSource};

    #[test]
    fn f163_a_reader_that_meets_a_writer_reads_the_old_document_whole() {
        let temporary = tempfile::tempdir().unwrap();
        let folder: Arc<Path> = temporary.path().join("oauth").into();
        let server = "https://a.example/mcp".to_owned();
        let place = Place { folder, stem: "files".to_owned(), server, seal: None };
        let record = |client: &str, revision| {
            let client = ClientRecord::new(ClientSource::Registered, client);
            let mut record = CredentialRecord::new("https://a.example/mcp", "https://b.example", client);
            record.revision = revision;
            record
        };
        place.make_folder().unwrap();
        place.replace(record("old", 0)).unwrap();
        let open = File::open(place.document()).unwrap();
        place.replace(record("new", 1)).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0, "it has no name any more");
        let bytes = place.read_open(open, &place.document()).unwrap();
        assert_eq!(CredentialRecord::read(&bytes).unwrap().0.client.client_id, "old");
        assert_eq!(place.read().unwrap().unwrap().0.client.client_id, "new");
    }
}
