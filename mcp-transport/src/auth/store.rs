use std::fmt;
#[cfg(unix)]
use std::fs::Metadata;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use async_trait::async_trait;
use ring::digest;
use tokio::time::Instant;

use super::record::CredentialRecord;
use super::resource::canonical_resource;
use super::web_url::WebUrl;

/// How long is waited for somebody else who works on the same record, in this process or another one.
///
/// That is a little longer than they may take: one request for a token, and keeping what it brings.
pub const FENCE_LIMIT: Duration = Duration::from_secs(35);

/// Keeps credentials, for several processes at once.
///
/// Whoever wants to change a record locks it first; what is behind the lock can read and write. So a
/// refresh token is presented by one process at a time, and nothing is lost between reading and
/// writing.
#[async_trait]
pub trait CredentialStore: Send + Sync + fmt::Debug {
    /// Reads a record, normalised; `None` if there is none that can be used.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    async fn load(&self, key: &CredentialKey) -> Result<Option<CredentialRecord>, StoreError>;

    /// Tells one state of a record from another, cheaply and without waiting; `None` if there is no record.
    ///
    /// Asked for before requests, so it has to look no further than at the attributes of a file.
    fn stamp(&self, key: &CredentialKey) -> Option<Stamp>;

    /// Waits for the only right to change a record, at the latest until `by`.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no lock behind.
    async fn lock(&self, key: &CredentialKey, by: Instant) -> Result<Box<dyn LockedCredentials>, StoreError>;
}

/// The only right to change one record. Dropping it gives the right back.
#[async_trait]
pub trait LockedCredentials: Send + Sync + fmt::Debug {
    /// Reads the record as it is now, normalised.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    async fn load(&self) -> Result<Option<CredentialRecord>, StoreError>;

    /// Replaces the record, normalised, if the one that is kept has the revision of `record` (0: none).
    ///
    /// # Errors
    ///
    /// See [`StoreError`]. The record is the old or the new one, never a part.
    ///
    /// # Cancel safety
    ///
    /// A write that has begun goes on, and keeps the lock until its end.
    async fn save(&self, record: &CredentialRecord) -> Result<Saved, StoreError>;

    /// Removes the record.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// As [`save`](Self::save).
    async fn clear(&self) -> Result<(), StoreError>;
}

/// Which record: the name of a server and where it is. Another URL is another record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CredentialKey {
    name: String,
    server: String,
    digest: String,
}

/// One state of a record or of a token, of no meaning beyond being equal to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp([u64; 3]);

/// What saving has made of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Its revision from now on.
    pub revision: u64,
    /// Its state from now on.
    pub stamp: Option<Stamp>,
}

/// Credentials cannot be read or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process works on the record and does not finish. Trying again may help.
    #[error("another process has held the credentials for more than {} s", FENCE_LIMIT.as_secs())]
    Busy,
    /// Somebody else has changed the record in between.
    #[error("the credentials were changed by somebody else meanwhile")]
    Conflict,
    /// The medium failed; the text names the file and what failed.
    #[error("the credentials cannot be kept: {0}")]
    Io(String),
    /// The keyring that has the key cannot be used now; the text says why. Unlocking it may help.
    #[error("the keyring cannot be used: {0}")]
    Keyring(String),
    /// A later version of this program has written the record; it is left alone.
    #[error("the credentials were written by a later version of this program (form {0})")]
    Newer(u64),
    /// A sealed record cannot be opened: it was sealed with another key, or somebody has changed it. It is left
    /// as it is; the text names the file.
    #[error(
        "the credentials in {0} were changed by somebody else, or sealed with another key; log out to forget them"
    )]
    Sealed(String),
    /// Somebody else could read or replace the record; the text names the file and why.
    #[error("the credentials are not safe: {0}")]
    Unsafe(String),
}

impl CredentialKey {
    /// The record of the server that is called `name` and is at `url`.
    #[must_use]
    pub fn new(name: impl Into<String>, url: &WebUrl) -> Self {
        let (name, server) = (name.into(), canonical_resource(url));
        let mut context = digest::Context::new(&digest::SHA256);
        for part in [name.as_str(), &server, url.query().unwrap_or_default()] {
            context.update(part.as_bytes());
            context.update(&[0]);
        }
        let digest = context.finish();
        let digest = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { name, server, digest }
    }

    /// What the server is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The canonical URL of the server, without its query.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// A name for a file: what is safe of the server's name, and 32 digits of a hash of name and URL.
    #[must_use]
    pub fn file_stem(&self) -> String {
        let safe = self.name.chars().map(|character| match character {
            character if character.is_ascii_alphanumeric() || character == '-' => character,
            _ => '_',
        });
        format!("{}-{}", safe.take(64).collect::<String>(), self.digest)
    }
}

impl Stamp {
    /// Puts a stamp together from what changes with each write.
    #[must_use]
    pub fn new(parts: [u64; 3]) -> Self {
        Self(parts)
    }

    /// The state of a file, as its attributes tell it.
    #[cfg(unix)]
    pub(super) fn of_file(found: &Metadata) -> Self {
        let seconds = found.mtime().cast_unsigned().wrapping_mul(1_000_000_000);
        Self([seconds.wrapping_add(found.mtime_nsec().cast_unsigned()), found.len(), found.ino()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn f04_every_server_has_a_file_of_its_own() {
        let (one, other) = ("https://a.example/mcp", "https://b.example/mcp");
        let long = "x".repeat(300);
        let keys = [
            ("a b", one),
            ("a_b", one),
            ("a_b", other),
            ("a_b", "https://a.example/mcp?tenant=1"),
            ("../x", one),
            ("..", one),
            ("/etc/passwd", one),
            ("nul\0", one),
            ("", one),
            ("ä", one),
            (&long, one),
        ];
        let stems: HashSet<String> = keys
            .iter()
            .map(|(name, url)| CredentialKey::new(*name, &WebUrl::parse(url).unwrap()).file_stem())
            .collect();
        assert_eq!(stems.len(), keys.len());
        for stem in stems {
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            assert!(stem.len() <= 97 && stem.bytes().all(is_safe), "{stem}");
        }
    }

    #[test]
    fn b03_one_server_in_two_spellings_is_one_record() {
        let key = |url| CredentialKey::new("a", &WebUrl::parse(url).unwrap());
        assert_eq!(key("https://A.example:443/"), key("https://a.example"));
        assert_ne!(key("https://a.example/x"), key("https://a.example/X"));
        assert_ne!(key("https://a.example"), key("http://a.example"));
    }
}
