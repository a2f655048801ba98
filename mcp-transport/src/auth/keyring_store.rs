use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use keyring_core::{CredentialStore as Keyring, Error};
use mcp_proto::escape;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::file_store::FileStore;
use super::random::{Randomness as _, SystemRandomness};
use super::record::CredentialRecord;
use super::sealing_key::SealingKey;
use super::store::{CredentialKey, CredentialStore, LockedCredentials, Stamp, StoreError};

/// How long a keyring may take to give the key out: a person may have to unlock it.
const KEYRING_LIMIT: Duration = Duration::from_secs(30);

/// What the key is called in the keyring.
const KEY_NAME: &str = "credential-key";

/// What the lock is called under which the key is made, beside the files.
const KEY_LOCK: &str = "keyring";

/// How much of an error of a keyring is shown, in bytes.
const SHOWN_ERROR_BYTES: usize = 200;

/// Keeps each record as a sealed file in one directory, as [`FileStore::sealed_with`] does, with a key that
/// a keyring keeps. Unix alone.
///
/// Any keyring will do that is a [`keyring_core::CredentialStore`]: those of the operating systems are in
/// crates of their own. It holds one entry for each `service`, of 32 random bytes, as some keyrings take no
/// more than a few hundred; it is made when it is first needed, by one process for all.
///
/// The keyring is asked once, on a short-lived thread, and never anew while it owes an answer; then the key
/// stays in memory. There is no other way: without the key nothing is kept, and nothing of a plain
/// [`FileStore`] in the same directory is read.
///
/// A keyring that has lost the key makes a new one, with which the old files cannot be opened
/// ([`StoreError::Sealed`]) until somebody logs out, which forgets them.
#[derive(Clone)]
pub struct KeyringStore {
    folder: FileStore,
    keyring: Arc<Keyring>,
    service: Arc<str>,
    limit: Duration,
    /// The files, as soon as the key is there.
    open: Arc<OnceLock<FileStore>>,
    /// The answer that the keyring owes, if it was asked. Whoever holds this waits for it.
    asked: Arc<Mutex<Option<Answer>>>,
}

type Answer = oneshot::Receiver<Result<SealingKey, StoreError>>;

impl KeyringStore {
    /// Keeps records in `folder`, which is made when it is first written to, with the key that `keyring` has
    /// for `service`: the name of the program.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, keyring: Arc<Keyring>, service: impl Into<Arc<str>>) -> Self {
        Self {
            folder: FileStore::new(folder),
            keyring,
            service: service.into(),
            limit: KEYRING_LIMIT,
            open: Arc::default(),
            asked: Arc::default(),
        }
    }

    /// How long the keyring may take to give the key out. Default: 30 s.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The files, which need the key.
    async fn files(&self, by: Instant) -> Result<FileStore, StoreError> {
        let late = || StoreError::Keyring(format!("no answer within {} s", self.limit.as_secs_f32()));
        let by = by.min(Instant::now() + self.limit);
        if let Some(files) = self.open.get() {
            return Ok(files.clone());
        }
        let mut asked = timeout_at(by, self.asked.lock()).await.map_err(|_| late())?;
        if let Some(files) = self.open.get() {
            return Ok(files.clone());
        }
        let answer = match &mut *asked {
            Some(answer) => answer,
            none => none.insert(self.ask(by).await?),
        };
        // Whoever gives up leaves the answer to the next one.
        let answer = timeout_at(by, answer).await.map_err(|_| late())?;
        *asked = None;
        let gone = |_| StoreError::Keyring("its thread is gone without a word".to_owned());
        let files = self.folder.clone().sealed_with(answer.map_err(gone)??);
        Ok(self.open.get_or_init(|| files).clone())
    }

    /// Asks the keyring; the lock that keeps others from making a key goes along.
    async fn ask(&self, by: Instant) -> Result<Answer, StoreError> {
        let lock = self.folder.lock_named(KEY_LOCK, by).await?;
        let (keyring, service) = (Arc::clone(&self.keyring), Arc::clone(&self.service));
        let (sender, answer) = oneshot::channel();
        let asking = move || {
            let answer = key(&*keyring, &service);
            drop(lock);
            // Whoever asked may be gone, with the store.
            let _ = sender.send(answer);
        };
        let thread = std::thread::Builder::new().name("mcp-keyring".to_owned()).spawn(asking);
        thread.map(|_| answer).map_err(|error| StoreError::Keyring(format!("no thread to ask it: {error}")))
    }
}

#[async_trait]
impl CredentialStore for KeyringStore {
    async fn load(&self, key: &CredentialKey) -> Result<Option<CredentialRecord>, StoreError> {
        self.files(Instant::now() + self.limit).await?.load(key).await
    }

    fn stamp(&self, key: &CredentialKey) -> Option<Stamp> {
        // Without the key nothing was read so far, so that no state is known that could change.
        self.open.get()?.stamp(key)
    }

    async fn lock(&self, key: &CredentialKey, by: Instant) -> Result<Box<dyn LockedCredentials>, StoreError> {
        self.files(by).await?.lock(key, by).await
    }
}

/// The key that the keyring has, or a new one that it has from now on.
fn key(keyring: &Keyring, service: &str) -> Result<SealingKey, StoreError> {
    let entry = keyring.build(service, KEY_NAME, None).map_err(|error| failed(&error))?;
    let kept = || entry.get_secret().map(Zeroizing::new);
    let bytes = match kept() {
        Err(Error::NoEntry) => {
            let mut bytes = Zeroizing::new([0; SealingKey::BYTES]);
            SystemRandomness.fill(&mut *bytes).map_err(|error| StoreError::Keyring(error.to_string()))?;
            entry.set_secret(&*bytes).map_err(|error| failed(&error))?;
            // What is sealed with a key that was not kept could never be opened again.
            kept().map_err(|error| failed(&error))?
        }
        kept => kept.map_err(|error| failed(&error))?,
    };
    let bytes = <&[u8; SealingKey::BYTES]>::try_from(bytes.as_slice());
    let bytes = bytes.map_err(|_| StoreError::Keyring("what it has is no key of 32 bytes".to_owned()))?;
    Ok(SealingKey::new(bytes))
}

/// Says what is wrong with the keyring, without what is in it.
fn failed(error: &Error) -> StoreError {
    StoreError::Keyring(match error {
        Error::NoStorageAccess(why) => {
            format!("it is locked or cannot be reached: {}", escape(&why.to_string(), SHOWN_ERROR_BYTES))
        }
        Error::PlatformFailure(why) => {
            format!("it has failed: {}", escape(&why.to_string(), SHOWN_ERROR_BYTES))
        }
        Error::NotSupportedByStore(why) => {
            format!("it cannot do that: {}", escape(why, SHOWN_ERROR_BYTES))
        }
        Error::Ambiguous(_) => "it has several entries of one name".to_owned(),
        Error::NoEntry => "it has not kept the key".to_owned(),
        _ => "its entry cannot be used".to_owned(),
    })
}

/// Shows nothing of the keyring, which may show what is in it.
impl fmt::Debug for KeyringStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyringStore")
            .field("folder", &self.folder)
            .field("service", &self.service)
            .field("is_open", &self.open.get().is_some())
            .finish_non_exhaustive()
    }
}
