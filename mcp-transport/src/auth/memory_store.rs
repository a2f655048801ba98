use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};

use super::record::CredentialRecord;
use super::store::{CredentialKey, CredentialStore, LockedCredentials, Saved, Stamp, StoreError};

/// Keeps credentials as long as the program runs. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<HashMap<CredentialKey, Arc<Place>>>>);

/// The place of one record.
#[derive(Debug, Default)]
struct Place {
    record: Mutex<Kept>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Kept {
    record: Option<CredentialRecord>,
    /// Counts the writes.
    writes: u64,
}

/// Holds the lock of one place.
#[derive(Debug)]
struct LockedPlace {
    place: Arc<Place>,
    _guard: OwnedMutexGuard<()>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn place(&self, key: &CredentialKey) -> Arc<Place> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(key.clone()).or_default())
    }
}

impl Place {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn stamp(&self) -> Option<Stamp> {
        self.record.as_ref().map(|_| Stamp::new([self.writes, 0, 0]))
    }

    fn replace(&mut self, record: Option<CredentialRecord>) {
        self.record = record;
        self.writes += 1;
    }
}

#[async_trait]
impl CredentialStore for MemoryStore {
    async fn load(&self, key: &CredentialKey) -> Result<Option<CredentialRecord>, StoreError> {
        Ok(self.place(key).kept().record.clone())
    }

    fn stamp(&self, key: &CredentialKey) -> Option<Stamp> {
        self.place(key).kept().stamp()
    }

    async fn lock(&self, key: &CredentialKey, by: Instant) -> Result<Box<dyn LockedCredentials>, StoreError> {
        let place = self.place(key);
        let guard =
            timeout_at(by, Arc::clone(&place.lock).lock_owned()).await.map_err(|_| StoreError::Busy)?;
        Ok(Box::new(LockedPlace { place, _guard: guard }))
    }
}

#[async_trait]
impl LockedCredentials for LockedPlace {
    async fn load(&self) -> Result<Option<CredentialRecord>, StoreError> {
        Ok(self.place.kept().record.clone())
    }

    async fn save(&self, record: &CredentialRecord) -> Result<Saved, StoreError> {
        let mut kept = self.place.kept();
        if kept.record.as_ref().map_or(0, |kept| kept.revision) != record.revision {
            return Err(StoreError::Conflict);
        }
        let mut record = record.clone();
        record.normalise();
        record.revision += 1;
        let revision = record.revision;
        kept.replace(Some(record));
        Ok(Saved { revision, stamp: kept.stamp() })
    }

    async fn clear(&self) -> Result<(), StoreError> {
        self.place.kept().replace(None);
        Ok(())
    }
}
