#[cfg(unix)]
use std::fs;
use std::path::PathBuf;

use async_trait::async_trait;
use mcp_proto::Secret;

use super::error::AuthError;
use super::identity::IdentitySource;
use super::on_thread::on_thread;
use super::secret_file::read_secret_file;
#[cfg(unix)]
use super::store::Stamp;

/// An identity whose token somebody else keeps fresh in a file, as platforms do for their workloads.
///
/// The file is read anew whenever a token is wanted, on a short-lived thread, as
/// [`read_secret_file`] reads it. One that cannot be read may be there again later, so that is
/// [`AuthError::Unavailable`]; one that has changed is tried at once where the old token was of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    path: PathBuf,
}

impl FileIdentity {
    /// The token is what the file at `path` holds.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

#[async_trait]
impl IdentitySource for FileIdentity {
    async fn identity(&self, _audience: &str) -> Result<Secret, AuthError> {
        let path = self.path.clone();
        let read = on_thread(move || read_secret_file(&path)).await.flatten();
        read.map_err(|error| {
            let path = self.path.display();
            AuthError::unavailable(format!("the token of the identity is not in {path}: {error}"))
        })
    }

    #[cfg(unix)]
    fn stamp(&self) -> Option<Stamp> {
        fs::metadata(&self.path).ok().map(|found| Stamp::of_file(&found))
    }

    fn fingerprint(&self) -> Option<String> {
        Some(format!("the file {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_read_anew_each_time_and_one_that_is_not_there_may_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let identity = FileIdentity::new(&path);
        let error = identity.identity("https://as.example").await.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("token"), "{error}");
        assert_eq!(identity.stamp(), None);
        let mut last = None;
        for token in ["canary-1", "canary-22"] {
            fs::write(&path, format!("{token}\n")).unwrap();
            assert_eq!(identity.identity("https://as.example").await.unwrap().expose(), token);
            assert!(identity.stamp().is_some() && identity.stamp() != last, "it is another one");
            last = identity.stamp();
        }
        assert_eq!(identity.stamp(), last);
        fs::write(&path, b"canary\xff").unwrap();
        let error = identity.identity("https://as.example").await.unwrap_err();
        assert!(error.is_transient() && !error.to_string().contains("canary"), "{error}");
        assert!(!format!("{identity:?}").contains("canary"));
    }
}
