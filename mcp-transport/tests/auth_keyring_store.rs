//! Credentials in files that are sealed with the key of a keyring: what others can read, what is not opened,
//! and keyrings that are locked, slow or of another mind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(all(feature = "keyring", unix))]

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use keyring_core::api::{CredentialApi, CredentialStoreApi};
use keyring_core::{Credential, CredentialStore as Keyring, Entry, Error};
use mcp_transport::auth::*;
use tempfile::TempDir;
use tokio::time::Instant;

const SERVICE: &str = "a program";

/// A keyring in memory that can be locked, and that can be slow.
#[derive(Debug)]
struct Ring {
    slot: Arc<Slot>,
    asked: AtomicUsize,
    state: Mutex<State>,
}

/// Its only entry.
#[derive(Debug, Default)]
struct Slot {
    secret: Mutex<Option<Vec<u8>>>,
    /// How many have found it empty.
    disappointed: Mutex<usize>,
    another: Condvar,
}

impl CredentialApi for Slot {
    fn set_secret(&self, secret: &[u8]) -> Result<(), Error> {
        *self.secret.lock().unwrap() = Some(secret.to_vec());
        Ok(())
    }

    fn get_secret(&self) -> Result<Vec<u8>, Error> {
        if let Some(secret) = self.secret.lock().unwrap().clone() {
            return Ok(secret);
        }
        // Whoever may look at the same time has the time to come, and to find it empty, too.
        let mut count = self.disappointed.lock().unwrap();
        *count += 1;
        self.another.notify_all();
        drop(self.another.wait_timeout_while(count, Duration::from_millis(100), |count| *count < 2).unwrap());
        Err(Error::NoEntry)
    }

    fn delete_credential(&self) -> Result<(), Error> {
        *self.secret.lock().unwrap() = None;
        Ok(())
    }

    fn get_credential(&self) -> Result<Option<Arc<Credential>>, Error> {
        Ok(None)
    }

    fn get_specifiers(&self) -> Option<(String, String)> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug)]
enum State {
    Locked,
    Open,
    /// Waits until the other end is dropped.
    Slow(Arc<Mutex<mpsc::Receiver<()>>>),
}

impl Ring {
    fn new() -> Arc<Self> {
        let (slot, asked) = Default::default();
        Arc::new(Self { slot, asked, state: Mutex::new(State::Open) })
    }

    fn become_state(&self, state: State) {
        *self.state.lock().unwrap() = state;
    }

    /// What is in it.
    fn secret(&self) -> Option<Vec<u8>> {
        self.slot.secret.lock().unwrap().clone()
    }

    fn put(&self, secret: &[u8]) {
        self.slot.set_secret(secret).unwrap();
    }
}

impl CredentialStoreApi for Ring {
    fn vendor(&self) -> String {
        "a test".to_owned()
    }

    fn id(&self) -> String {
        "1".to_owned()
    }

    fn build(
        &self,
        service: &str,
        user: &str,
        _modifiers: Option<&HashMap<&str, &str>>,
    ) -> Result<Entry, Error> {
        assert_eq!((service, user), (SERVICE, "credential-key"));
        self.asked.fetch_add(1, Ordering::SeqCst);
        let slow = match &*self.state.lock().unwrap() {
            State::Locked => return Err(Error::NoStorageAccess("canary\u{1b}[2J".into())),
            State::Open => None,
            State::Slow(end) => Some(Arc::clone(end)),
        };
        if let Some(end) = slow {
            end.lock().unwrap().recv().unwrap_err();
        }
        Ok(Entry::new_with_credential(Arc::<Slot>::clone(&self.slot)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// As some show what is in them.
    fn debug_fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A folder and a keyring.
struct Stage {
    temporary: TempDir,
    ring: Arc<Ring>,
}

impl Stage {
    fn new() -> Self {
        Self { temporary: tempfile::tempdir().unwrap(), ring: Ring::new() }
    }

    fn folder(&self) -> PathBuf {
        self.temporary.path().join("oauth")
    }

    /// As another process would open it.
    fn store(&self) -> KeyringStore {
        self.store_with(&self.ring)
    }

    fn store_with(&self, ring: &Arc<Ring>) -> KeyringStore {
        let ring: Arc<Keyring> = Arc::<Ring>::clone(ring);
        KeyringStore::new(self.folder(), ring, SERVICE)
    }

    fn document(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{}.sealed", key(name).file_stem()))
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn key(name: &str) -> CredentialKey {
    CredentialKey::new(name, &WebUrl::parse("https://a.example/mcp").unwrap())
}

fn record(client: &str) -> CredentialRecord {
    let mut client = ClientRecord::new(ClientSource::Registered, client);
    client.client_secret = Some("canary-secret".into());
    CredentialRecord::new("https://a.example/mcp", "https://as.example", client)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

async fn save(store: &dyn CredentialStore, name: &str, record: &CredentialRecord) -> Result<u64, StoreError> {
    let locked = store.lock(&key(name), soon()).await?;
    locked.save(record).await.map(|saved| saved.revision)
}

async fn client(store: &dyn CredentialStore, name: &str) -> Result<Option<String>, StoreError> {
    Ok(store.load(&key(name)).await?.map(|record| record.client.client_id))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn what_one_process_seals_another_one_opens_and_nobody_else() {
    let stage = Stage::new();
    let (one, other) = (stage.store(), stage.store());
    assert_eq!(one.stamp(&key("a")), None);
    assert_eq!(client(&one, "a").await, Ok(None));
    assert_eq!(save(&one, "a", &record("c1")).await, Ok(1));
    assert_eq!(client(&other, "a").await, Ok(Some("c1".to_owned())));
    assert_eq!(one.stamp(&key("a")), other.stamp(&key("a")));
    assert!(one.stamp(&key("a")).is_some());
    let bytes = fs::read(stage.document("a")).unwrap();
    for plain in ["c1", "canary", "as.example"] {
        assert!(!bytes.windows(plain.len()).any(|window| window == plain.as_bytes()), "{plain}");
    }
    assert_eq!((mode(&stage.folder()), mode(&stage.document("a"))), (0o700, 0o600));
    assert_eq!(stage.ring.secret().unwrap().len(), SealingKey::BYTES);
    assert_eq!(stage.ring.asked.load(Ordering::SeqCst), 2, "each asks once");
    // A change of the one is seen by the other, and one that follows an old state is refused.
    let mut changed = record("c2");
    changed.revision = 1;
    assert_eq!(save(&other, "a", &changed).await, Ok(2));
    assert_eq!(client(&one, "a").await, Ok(Some("c2".to_owned())));
    assert_eq!(save(&one, "a", &record("c3")).await, Err(StoreError::Conflict));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f163_processes_that_need_the_first_key_at_once_have_one() {
    let stage = Stage::new();
    let stores: Vec<KeyringStore> = (0..8).map(|_| stage.store()).collect();
    let saves = stores.iter().enumerate().map(|(index, store)| async move {
        save(store, &format!("s{index}"), &record(&format!("c{index}"))).await
    });
    for saved in futures_util::future::join_all(saves).await {
        assert_eq!(saved, Ok(1));
    }
    let last = stage.store();
    for index in 0..stores.len() {
        assert_eq!(client(&last, &format!("s{index}")).await, Ok(Some(format!("c{index}"))));
    }
}

#[tokio::test]
async fn f05_what_was_sealed_with_another_key_stays_as_it_is_until_somebody_logs_out() {
    let stage = Stage::new();
    save(&stage.store(), "a", &record("c1")).await.unwrap();
    let before = fs::read(stage.document("a")).unwrap();
    let stranger = stage.store_with(&Ring::new());
    for end in [client(&stranger, "a").await.map(drop), save(&stranger, "a", &record("c2")).await.map(drop)] {
        let Err(StoreError::Sealed(file)) = &end else { panic!("{end:?}") };
        assert!(file.ends_with(".sealed") && end.unwrap_err().to_string().contains("log out"));
    }
    assert_eq!(fs::read(stage.document("a")).unwrap(), before);
    assert_eq!(client(&stage.store(), "a").await, Ok(Some("c1".to_owned())), "the right key opens it still");
    stranger.lock(&key("a"), soon()).await.unwrap().clear().await.unwrap();
    assert_eq!(save(&stranger, "a", &record("c2")).await, Ok(1));
    assert_eq!(client(&stranger, "a").await, Ok(Some("c2".to_owned())));
}

#[tokio::test]
async fn f05_what_is_cut_changed_swapped_or_plain_is_not_opened() {
    let stage = Stage::new();
    let store = stage.store();
    for name in ["a", "b"] {
        save(&store, name, &record(name)).await.unwrap();
    }
    let path = stage.document("a");
    let good = fs::read(&path).unwrap();
    let mut spoilt: Vec<Vec<u8>> =
        [0, 1, 12, 13, 30, good.len() / 2, good.len() - 1].map(|length| good[..length].to_vec()).to_vec();
    for index in (0..good.len()).step_by(17).chain([good.len() - 1]) {
        let mut changed = good.clone();
        changed[index] ^= 0x40;
        spoilt.push(changed);
    }
    spoilt.push(fs::read(stage.document("b")).unwrap());
    spoilt.push([&good[..], b"\n"].concat());
    // What a plain store has written, under the name of a sealed file.
    let plain = FileStore::new(stage.folder());
    save(&plain, "a", &record("planted")).await.unwrap();
    let planted = stage.folder().join(format!("{}.json", key("a").file_stem()));
    spoilt.push(fs::read(&planted).unwrap());
    for bytes in spoilt {
        fs::write(&path, &bytes).unwrap();
        let end = client(&store, "a").await;
        assert!(matches!(end, Err(StoreError::Sealed(_))), "{} bytes: {end:?}", bytes.len());
        let end = save(&store, "a", &record("c2")).await;
        assert!(matches!(end, Err(StoreError::Sealed(_))), "{} bytes: {end:?}", bytes.len());
        assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it is");
    }
    // A plain file beside it is none of its own.
    fs::remove_file(&path).unwrap();
    assert_eq!(client(&store, "a").await, Ok(None));
    assert_eq!(client(&plain, "a").await, Ok(Some("planted".to_owned())));
}

#[tokio::test]
async fn a_keyring_that_is_locked_is_told_and_nothing_is_kept_without_it() {
    let stage = Stage::new();
    stage.ring.become_state(State::Locked);
    let store = stage.store();
    for end in [client(&store, "a").await.map(drop), save(&store, "a", &record("c1")).await.map(drop)] {
        let Err(error @ StoreError::Keyring(_)) = end else { panic!("{end:?}") };
        let shown = error.to_string();
        assert!(shown.contains("locked") && !shown.contains('\u{1b}'), "{shown}");
        assert!(AuthError::from(error).is_transient(), "somebody may unlock it");
    }
    assert_eq!(stage.names(), ["keyring.lock"], "neither plain nor sealed");
    stage.ring.become_state(State::Open);
    assert_eq!(save(&store, "a", &record("c1")).await, Ok(1));
    // Whoever has the key does not need the keyring any more.
    stage.ring.become_state(State::Locked);
    assert_eq!(client(&store, "a").await, Ok(Some("c1".to_owned())));
}

#[tokio::test]
async fn a_keyring_that_does_not_answer_is_waited_for_within_a_limit_and_not_asked_again() {
    let stage = Stage::new();
    let (release, end) = mpsc::sync_channel(1);
    stage.ring.become_state(State::Slow(Arc::new(Mutex::new(end))));
    let store = stage.store().with_limit(Duration::from_millis(50));
    for _ in 0..3 {
        let end = client(&store, "a").await;
        assert!(matches!(end, Err(StoreError::Keyring(_))), "{end:?}");
    }
    assert_eq!(stage.ring.asked.load(Ordering::SeqCst), 1, "one thread waits for it");
    drop(release);
    let patient = store.clone().with_limit(Duration::from_secs(20));
    assert_eq!(client(&patient, "a").await, Ok(None), "its answer was waited for by the next one");
    assert_eq!(stage.ring.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_keyring_with_something_else_under_the_name_is_left_as_it_is() {
    for secret in [&b""[..], b"hunter2", &[7; 33]] {
        let stage = Stage::new();
        stage.ring.put(secret);
        let end = client(&stage.store(), "a").await;
        assert!(matches!(end, Err(StoreError::Keyring(_))), "{end:?}");
        assert!(!end.unwrap_err().to_string().contains("hunter2"));
        assert_eq!(stage.ring.secret(), Some(secret.to_vec()));
    }
}

#[tokio::test]
async fn z01_neither_the_key_nor_the_keyring_is_shown() {
    let stage = Stage::new();
    stage.ring.put(&[42; 32]);
    let store = stage.store();
    save(&store, "a", &record("c1")).await.unwrap();
    let shown = format!("{store:?}");
    assert!(shown.contains("oauth") && shown.contains(SERVICE), "{shown}");
    assert!(!shown.contains("42"), "{shown}");
}
