use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::event::ServerEvent;
use crate::openings::Openings;
use crate::options::SupervisorOptions;
use crate::pace::Pacer;
use crate::server::{Entry, Place};
use crate::stop_plan::StopPlan;

/// What all servers of one supervisor share. It knows none of them, so that handles may hold it.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) options: SupervisorOptions,
    pub(crate) seed: u64,
    /// The deadlines of the shutdown, once it has begun.
    pub(crate) plan: OnceLock<StopPlan>,
    /// How many servers there are.
    pub(crate) servers: AtomicUsize,
    is_closing: AtomicBool,
    calls: AtomicUsize,
    pub(crate) openings: Openings,
    reconnects: Mutex<Pacer>,
    /// Apart from the connections, which must not wait behind hundreds of subscriptions of one server.
    subscriptions: Mutex<Pacer>,
    events: broadcast::Sender<ServerEvent>,
}

impl Runtime {
    pub(crate) fn new(options: SupervisorOptions) -> Self {
        Self {
            // Hashing nothing with the standard hasher's random keys is a random number.
            seed: options.seed.unwrap_or_else(|| RandomState::new().hash_one(())),
            plan: OnceLock::new(),
            servers: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            openings: Openings::new(options.connects),
            reconnects: Mutex::default(),
            subscriptions: Mutex::default(),
            events: broadcast::Sender::new(options.events.max(1)),
            options,
        }
    }

    /// Refuses new servers and calls from now on.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Takes a place among the calls of all servers.
    pub(crate) fn take_call(&self, entry: Entry) -> Option<Place<'_>> {
        Place::take(&self.calls, self.options.in_flight, entry)
    }

    /// When a connection that follows a loss may begin.
    pub(crate) fn book_reconnect(&self, now: Instant) -> Instant {
        self.book(&self.reconnects, now)
    }

    /// When a subscription that has ended may be opened again.
    pub(crate) fn book_subscription(&self, now: Instant) -> Instant {
        self.book(&self.subscriptions, now)
    }

    fn book(&self, pacer: &Mutex<Pacer>, now: Instant) -> Instant {
        let servers = self.servers.load(Ordering::Relaxed);
        pacer.lock().unwrap_or_else(PoisonError::into_inner).book(servers, now)
    }

    pub(crate) fn emit(&self, event: ServerEvent) {
        // No subscriber is no error: the event is for whoever listens.
        let _ = self.events.send(event);
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.events.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_no_connection_waits_behind_subscriptions() {
        let (runtime, now) = (Runtime::new(SupervisorOptions::default()), Instant::now());
        let last = (0..200).map(|_| runtime.book_subscription(now)).last();
        assert!(last > Some(now), "they are spread");
        assert_eq!(runtime.book_reconnect(now), now);
    }
}
