//! Credentials in files: who can read them, what a crash leaves, and two processes at once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(all(feature = "oauth", unix))]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use mcp_transport::auth::{
    ClientRecord, ClientSource, CredentialKey, CredentialRecord, CredentialStore as _, FileStore, StoreError,
    WebUrl,
};
use mcp_transport::testing::checks::isolated;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;
use tracing::Level;

struct Folder {
    temporary: TempDir,
    store: FileStore,
    key: CredentialKey,
}

impl Folder {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let key = CredentialKey::new("files", &WebUrl::parse("https://a.example/mcp").unwrap());
        Self { store: FileStore::new(temporary.path().join("oauth")), temporary, key }
    }

    fn path(&self) -> PathBuf {
        self.temporary.path().join("oauth")
    }

    fn document(&self) -> PathBuf {
        self.path().join(format!("{}.json", self.key.file_stem()))
    }

    fn lock_file(&self) -> PathBuf {
        self.path().join(format!("{}.lock", self.key.file_stem()))
    }

    async fn save(&self, record: &CredentialRecord) -> Result<u64, StoreError> {
        let locked = self.store.lock(&self.key, soon()).await?;
        locked.save(record).await.map(|saved| saved.revision)
    }

    async fn load(&self) -> Result<Option<CredentialRecord>, StoreError> {
        self.store.load(&self.key).await
    }

    async fn load_locked(&self) -> Result<Option<CredentialRecord>, StoreError> {
        self.store.lock(&self.key, soon()).await?.load().await
    }

    /// Writes by the hand of another program.
    fn plant(&self, text: &str) {
        fs::create_dir_all(self.path()).unwrap();
        fs::write(self.document(), text).unwrap();
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn record(client_id: &str) -> CredentialRecord {
    let mut client = ClientRecord::new(ClientSource::Registered, client_id);
    client.client_secret = Some("canary".into());
    CredentialRecord::new("https://a.example/mcp", "https://b.example", client)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Another process that holds the lock until its input ends or it is killed.
fn holder(lock_file: &Path) -> Child {
    let mut child = Command::new("flock")
        .args(["--no-fork", lock_file.to_str().unwrap(), "sh", "-c", "echo held; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux is installed");
    let mut said = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(&said, b"held\n");
    child
}

#[test]
fn f160_f01_files_are_ours_alone_under_any_umask() {
    isolated(async |_| {
        for mask in [0o000, 0o077, 0o777] {
            let folder = Folder::new();
            let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
            let saved = folder.save(&record("c")).await;
            rustix::process::umask(before);
            if mask == 0o777 {
                // Not even we may enter a folder that we make like that.
                assert!(matches!(saved, Ok(1) | Err(StoreError::Io(_))), "{saved:?}");
                continue;
            }
            assert_eq!(saved, Ok(1));
            let modes = [folder.path(), folder.document(), folder.lock_file()].map(|path| mode(&path));
            assert_eq!(modes, [0o700, 0o600, 0o600], "umask {mask:o}");
        }
    });
}

#[test]
fn f160_what_is_open_to_others_is_closed() {
    isolated(async |_| {
        let folder = Folder::new();
        folder.save(&record("c")).await.unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        open(&folder.document(), 0o644);
        assert!(folder.load().await.unwrap().is_some());
        assert_eq!(mode(&folder.document()), 0o600);
        open(&folder.path(), 0o755);
        folder.load_locked().await.unwrap();
        assert_eq!(mode(&folder.path()), 0o700);
    });
}

#[test]
fn f161_nothing_is_read_or_written_through_a_link() {
    isolated(async |_| {
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().join("target");
        for is_hard in [false, true] {
            let link = |path: &Path| {
                fs::write(&target, "untouched").unwrap();
                if is_hard { fs::hard_link(&target, path).unwrap() } else { symlink(&target, path).unwrap() }
            };
            let folder = Folder::new();
            folder.save(&record("c")).await.unwrap();
            fs::remove_file(folder.document()).unwrap();
            link(&folder.document());
            assert!(matches!(folder.load().await, Err(StoreError::Unsafe(_))), "document");
            assert!(matches!(folder.save(&record("c")).await, Err(StoreError::Unsafe(_))), "document");
            fs::remove_file(folder.document()).unwrap();
            fs::remove_file(folder.lock_file()).unwrap();
            link(&folder.lock_file());
            assert!(matches!(folder.save(&record("c")).await, Err(StoreError::Unsafe(_))), "lock");
            assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        }
        let folder = Folder::new();
        symlink(outside.path(), folder.path()).unwrap();
        assert!(matches!(folder.save(&record("c")).await, Err(StoreError::Unsafe(_))), "folder");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        // Nor is anything changed behind a folder that is a link.
        let behind = outside.path().join(folder.document().file_name().unwrap());
        fs::write(&behind, "{}").unwrap();
        fs::set_permissions(&behind, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(folder.load().await, Err(StoreError::Unsafe(_))), "folder");
        assert_eq!(mode(&behind), 0o644);
    });
}

#[test]
fn f173_b03_a_file_of_another_server_is_not_used_whatever_its_name_is() {
    isolated(async |test| {
        let folder = Folder::new();
        folder.save(&record("c")).await.unwrap();
        let moved = CredentialKey::new("files", &WebUrl::parse("https://evil.example/mcp").unwrap());
        let copy = folder.path().join(format!("{}.json", moved.file_stem()));
        fs::copy(folder.document(), &copy).unwrap();
        for _ in 0..2 {
            test.expect_log(Level::WARN, "a credential file of another server is not used");
        }
        assert_eq!(folder.store.load(&moved).await, Ok(None));
        let locked = folder.store.lock(&moved, soon()).await.unwrap();
        assert_eq!(locked.load().await, Ok(None));
        assert!(!copy.exists(), "it is put aside");
        assert!(folder.load().await.unwrap().is_some());
    });
}

#[test]
fn f05_whatever_a_server_has_said_about_a_client_can_be_read_again() {
    isolated(async |_| {
        let folder = Folder::new();
        let mut deep = Value::Null;
        for _ in 0..120 {
            deep = json!([deep]);
        }
        let registration =
            json!({"client_id": "c", "long": "x".repeat(1024 * 1024), "deep": deep, "flat": [[1]]});
        let Value::Object(registration) = registration else { unreachable!() };
        let client = ClientRecord::read(ClientSource::Registered, registration, None).unwrap();
        let record = CredentialRecord::new("https://a.example/mcp", "https://b.example", client);
        folder.save(&record).await.unwrap();
        let client = folder.load().await.unwrap().expect("it is a record").client;
        assert_eq!(client, record.client);
        assert_eq!(client.other.keys().collect::<Vec<_>>(), ["flat", "long"]);
    });
}

#[test]
fn f161_a_pipe_in_place_of_the_lock_is_refused_at_once() {
    isolated(async |_| {
        let folder = Folder::new();
        folder.save(&record("c")).await.unwrap();
        fs::remove_file(folder.lock_file()).unwrap();
        let made = Command::new("mkfifo").arg(folder.lock_file()).status().unwrap();
        assert!(made.success());
        let locked = folder.store.lock(&folder.key, soon());
        let locked = tokio::time::timeout(Duration::from_secs(20), locked).await.expect("it does not hang");
        assert!(locked.is_err(), "{locked:?}");
    });
}

#[test]
fn f166_n02_a_record_of_another_hand_is_rewritten_once() {
    isolated(async |_| {
        let folder = Folder::new();
        folder.plant(
            r#"{"server": "https://a.example/mcp", "issuer": "https://b.example", "client": {"source": "registered",
                "registration": {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": null}}}"#,
        );
        let method = |record: CredentialRecord| record.client.token_endpoint_auth_method.unwrap();
        assert_eq!(method(folder.load().await.unwrap().unwrap()), "client_secret_post");
        let stamp = folder.store.stamp(&folder.key);
        assert!(fs::read_to_string(folder.document()).unwrap().contains("client_secret_post"));
        assert_eq!(method(folder.load().await.unwrap().unwrap()), "client_secret_post");
        assert_eq!(method(folder.load_locked().await.unwrap().unwrap()), "client_secret_post");
        assert_eq!(folder.store.stamp(&folder.key), stamp, "no second write");
    });
}

#[test]
fn f03_a_change_of_others_is_seen_and_one_of_ours_is_not() {
    isolated(async |_| {
        let folder = Folder::new();
        assert_eq!(folder.store.stamp(&folder.key), None);
        let locked = folder.store.lock(&folder.key, soon()).await.unwrap();
        let saved = locked.save(&record("c")).await.unwrap();
        assert_eq!(folder.store.stamp(&folder.key), saved.stamp);
        // The same length and the same time, and yet another file.
        let (document, draft) = (folder.document(), folder.path().join("draft"));
        let time: SystemTime = fs::metadata(&document).unwrap().modified().unwrap();
        fs::copy(&document, &draft).unwrap();
        File::options().write(true).open(&draft).unwrap().set_modified(time).unwrap();
        fs::rename(&draft, &document).unwrap();
        assert_ne!(folder.store.stamp(&folder.key), saved.stamp);
    });
}

#[test]
fn f05_what_cannot_be_read_is_put_aside_and_what_is_newer_is_left_alone() {
    isolated(async |test| {
        let folder = Folder::new();
        for text in ["", "{\"schema\": 1", "\u{0}\u{1}", "[]"] {
            folder.plant(text);
            for _ in 0..2 {
                test.expect_log(Level::WARN, "a credential file is not used");
            }
            assert_eq!(folder.load().await, Ok(None));
            assert_eq!(fs::read_to_string(folder.document()).unwrap(), text, "only the lock allows a change");
            assert_eq!(folder.load_locked().await, Ok(None));
            let aside = folder.document().with_extension("json.corrupt");
            assert_eq!(fs::read_to_string(aside).unwrap(), text);
            assert_eq!(folder.save(&record("c")).await, Ok(1));
        }
        let newer = r#"{"schema": 2, "tokens": "elsewhere"}"#;
        folder.plant(newer);
        assert_eq!(folder.load().await, Err(StoreError::Newer(2)));
        assert_eq!(folder.load_locked().await, Err(StoreError::Newer(2)));
        assert_eq!(folder.save(&record("c")).await, Err(StoreError::Newer(2)));
        assert_eq!(fs::read_to_string(folder.document()).unwrap(), newer);
    });
}

#[test]
fn f163_only_the_latest_revision_can_be_replaced() {
    isolated(async |_| {
        let folder = Folder::new();
        folder.save(&record("first")).await.unwrap();
        assert_eq!(folder.save(&record("lost")).await, Err(StoreError::Conflict));
        let mut latest = folder.load().await.unwrap().unwrap();
        assert_eq!((latest.revision, latest.client.client_id.as_str()), (1, "first"));
        latest.client.client_id = "second".to_owned();
        assert_eq!(folder.save(&latest).await, Ok(2));
        folder.store.lock(&folder.key, soon()).await.unwrap().clear().await.unwrap();
        assert_eq!(folder.load().await, Ok(None));
        assert_eq!(folder.store.stamp(&folder.key), None);
    });
}

#[test]
fn f163_t06_another_process_holds_the_lock_until_it_is_killed() {
    isolated(async |_| {
        let folder = Folder::new();
        folder.save(&record("c")).await.unwrap();
        let mut other = holder(&folder.lock_file());
        let refused = folder.store.lock(&folder.key, Instant::now() + Duration::from_millis(100)).await;
        assert_eq!(refused.unwrap_err(), StoreError::Busy);
        assert!(folder.load().await.unwrap().is_some(), "reading needs no lock");
        other.kill().unwrap();
        other.wait().unwrap();
        folder.load_locked().await.unwrap().unwrap();

        let mut other = holder(&folder.lock_file());
        let waiting = folder.store.lock(&folder.key, soon());
        let release = async { other.stdin.take().unwrap().flush().unwrap() };
        let (locked, ()) = tokio::join!(waiting, release);
        locked.unwrap();
        other.wait().unwrap();
    });
}

#[test]
fn f163_a_lock_that_nobody_waits_for_any_more_is_free() {
    isolated(async |_| {
        let folder = Folder::new();
        let held = folder.store.lock(&folder.key, soon()).await.unwrap();
        let given_up =
            tokio::time::timeout(Duration::from_millis(60), folder.store.lock(&folder.key, soon())).await;
        assert!(given_up.is_err());
        drop(held);
        let at_once = folder.store.lock(&folder.key, Instant::now()).await;
        assert!(at_once.is_ok());
    });
}
