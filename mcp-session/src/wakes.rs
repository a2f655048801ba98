use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Who waits for the server to tell of something that has a name: as many entries as wait.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Mutex<Vec<Awaited>>);

#[derive(Debug)]
struct Awaited {
    name: String,
    told: Arc<Notify>,
}

/// Is woken while it lives when the server tells of one name.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    wakes: &'a Wakes,
    told: Arc<Notify>,
}

impl Wakes {
    /// Begins to wait for what has this name.
    pub(crate) fn watch(&self, name: &str) -> Watch<'_> {
        let told = Arc::new(Notify::new());
        self.lock().push(Awaited { name: name.to_owned(), told: Arc::clone(&told) });
        Watch { wakes: self, told }
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Wakes whoever waits for what has this name; `false` if nobody does.
    pub(crate) fn wake(&self, name: &str) -> bool {
        let mut is_awaited = false;
        for awaited in self.lock().iter().filter(|awaited| awaited.name == name) {
            awaited.told.notify_one();
            is_awaited = true;
        }
        is_awaited
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Awaited>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch<'_> {
    /// Waits to be told, or notes that this has happened since the last wait.
    pub(crate) async fn told(&self) {
        self.told.notified().await;
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.wakes.lock().retain(|awaited| !Arc::ptr_eq(&awaited.told, &self.told));
    }
}
