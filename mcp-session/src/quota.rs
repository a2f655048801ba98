use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::{ErrorObject, Method, code};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::handler::HandlerLimits;
use crate::pace::Pace;

/// What one server may have served at once and in a minute, over all its sessions.
///
/// Clones count together. Share one among the sessions of one server, so that a server which connects
/// again does not begin with a clean slate.
#[derive(Debug, Clone)]
pub struct HandlerQuota {
    places: Arc<Semaphore>,
    pace: Arc<Mutex<Pace>>,
}

/// The right to be served; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl HandlerQuota {
    /// A quota that nothing was used of, with [`HandlerLimits::at_once`] and
    /// [`HandlerLimits::per_minute`] as its limits.
    #[must_use]
    pub fn new(limits: HandlerLimits) -> Self {
        let at_once = limits.at_once.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(at_once)),
            pace: Arc::new(Mutex::new(Pace::new(limits.per_minute))),
        }
    }

    /// Takes a place for a request of `method` at once, or says why there is none.
    pub(crate) fn admit(&self, method: &Method) -> Result<Place, ErrorObject> {
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let permit = permit.map_err(|_| refused("too many requests of this server are being served"))?;
        self.keep_pace(usize::from(disturbs(method)))?;
        Ok(Place { _permit: permit })
    }

    /// Waits for a place for one request; the pace must have been kept before.
    pub(crate) async fn enter(&self) -> Result<Place, ErrorObject> {
        let permit = Arc::clone(&self.places).acquire_owned().await;
        let permit = permit.map_err(|_| refused("nothing is served any more"))?;
        Ok(Place { _permit: permit })
    }

    /// Counts requests that disturb and are to be served, or refuses all of them if one were too many.
    pub(crate) fn keep_pace(&self, count: usize) -> Result<(), ErrorObject> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        if pace.admit(count, Instant::now()) { Ok(()) } else { Err(refused("this server asks too often")) }
    }
}

/// Naming folders disturbs nobody; models and people are asked so often only.
pub(crate) fn disturbs(method: &Method) -> bool {
    *method != Method::ROOTS_LIST
}

fn refused(why: &str) -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, why)
}
