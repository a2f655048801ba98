use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::{ErrorObject, Method, code};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::depth::{self, MAX_DEPTH};
use crate::handler::HandlerLimits;
use crate::pace::Pace;

/// What one server may have served at once and in a minute, over all its sessions.
///
/// Clones count together. Share one among the sessions of one server, so that a server which connects
/// again does not begin with a clean slate.
#[derive(Debug, Clone)]
pub struct HandlerQuota {
    /// For handlers of each depth, from 1 on. A handler waits, if at all, for deeper ones, which have places of
    /// their own: so none ever waits for the handler that it is asked inside of.
    places: [Arc<Semaphore>; MAX_DEPTH as usize],
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
            places: std::array::from_fn(|_| Arc::new(Semaphore::new(at_once))),
            pace: Arc::new(Mutex::new(Pace::new(limits.per_minute))),
        }
    }

    /// Takes a place for a request of `method` at once, or says why there is none. `depth` is that of its handler.
    pub(crate) fn admit(&self, method: &Method, depth: u8) -> Result<Place, ErrorObject> {
        let permit = self.places(depth)?.try_acquire_owned();
        let permit = permit.map_err(|_| refused("too many requests of this server are being served"))?;
        self.keep_pace(usize::from(disturbs(method)))?;
        Ok(Place { _permit: permit })
    }

    /// Waits for a place for one request, whose handler is so deep; the pace must have been kept before.
    pub(crate) async fn enter(&self, depth: u8) -> Result<Place, ErrorObject> {
        let permit = self.places(depth)?.acquire_owned().await;
        let permit = permit.map_err(|_| refused("nothing is served any more"))?;
        Ok(Place { _permit: permit })
    }

    fn places(&self, depth: u8) -> Result<Arc<Semaphore>, ErrorObject> {
        let places = self.places.get(usize::from(depth).saturating_sub(1));
        places.cloned().ok_or_else(depth::too_deep)
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
