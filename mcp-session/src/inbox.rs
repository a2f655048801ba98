use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::LogMessage;
use tokio::sync::Notify;

/// Something the server tells unasked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A list has changed: fetch it again. Announced once, however often the server said so before
    /// this event was taken.
    ListChanged(ListKind),
    /// A log line of the server, untrusted.
    Log(LogMessage),
}

/// A list that a server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ListKind {
    /// Prompts.
    Prompts,
    /// Resources and their templates.
    Resources,
    /// Tools.
    Tools,
}

/// The events of a session that nobody has taken yet: one lane, in order, bounded.
///
/// Putting never waits. A full inbox drops the oldest log line; announcements of changed lists are
/// never dropped, as there are at most three of them.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<SessionEvent>,
    is_closed: bool,
}

/// Whether an event displaced another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Displaced,
    Kept,
}

impl Inbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), arrived: Notify::new(), limit: limit.max(1) }
    }

    pub(crate) fn put(&self, event: SessionEvent) -> Put {
        let mut state = self.lock();
        if state.is_closed {
            return Put::Displaced;
        }
        let mut put = Put::Kept;
        match &event {
            // Whoever takes the waiting announcement fetches a list that is newer than this change.
            SessionEvent::ListChanged(_) if state.events.contains(&event) => return Put::Kept,
            SessionEvent::Log(_) if state.events.len() >= self.limit => {
                put = Put::Displaced;
                if let Some(oldest) = state.events.iter().position(|e| matches!(e, SessionEvent::Log(_))) {
                    state.events.remove(oldest);
                }
            }
            SessionEvent::ListChanged(_) | SessionEvent::Log(_) => {}
        }
        state.events.push_back(event);
        drop(state);
        self.arrived.notify_one();
        put
    }

    /// The next event, or `None` once the inbox is closed and empty.
    pub(crate) async fn next(&self) -> Option<SessionEvent> {
        loop {
            {
                let mut state = self.lock();
                if let Some(event) = state.events.pop_front() {
                    return Some(event);
                }
                if state.is_closed {
                    // Passed on, so that every other waiter sees the end as well.
                    self.arrived.notify_one();
                    return None;
                }
            }
            self.arrived.notified().await;
        }
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
