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
    /// The stream on which a legacy server over HTTP tells things unasked has been given up for now, or is
    /// open again; what it told meanwhile is lost, so fetch what matters. Only the last of these waits.
    OwnStream {
        /// Whether it is open again.
        is_open: bool,
    },
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

impl ListKind {
    /// What it lists, as a word: `"tools"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Tools => "tools",
        }
    }
}

/// Most bytes of log lines that wait; a longer line is not kept at all.
const MAX_BYTES: usize = 1024 * 1024;

/// The events of a session that nobody has taken yet: one lane, in order, bounded in number and bytes.
///
/// Putting never waits. A full inbox drops the oldest log lines; announcements are never dropped,
/// as there are at most four of them.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the bytes it came in; announcements count as none.
    events: VecDeque<(SessionEvent, usize)>,
    logs: usize,
    bytes: usize,
    is_closed: bool,
}

impl Inbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), arrived: Notify::new(), limit: limit.max(1) }
    }

    /// Announces that a list has changed.
    pub(crate) fn announce(&self, kind: ListKind) {
        let event = SessionEvent::ListChanged(kind);
        let mut state = self.lock();
        // Whoever takes an announcement that waits fetches a list that is newer than this change.
        if state.is_closed || state.events.iter().any(|(waiting, _)| *waiting == event) {
            return;
        }
        state.events.push_back((event, 0));
        drop(state);
        self.arrived.notify_one();
    }

    /// Notes whether the server's own stream is open; what waits of that is not true any more.
    pub(crate) fn note_own_stream(&self, is_open: bool) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.events.retain(|(waiting, _)| !matches!(waiting, SessionEvent::OwnStream { .. }));
        state.events.push_back((SessionEvent::OwnStream { is_open }, 0));
        drop(state);
        self.arrived.notify_one();
    }

    /// Puts a log line that came in `bytes` bytes; returns how many lines were dropped for it.
    pub(crate) fn log(&self, message: LogMessage, bytes: usize) -> u64 {
        let mut state = self.lock();
        if state.is_closed || bytes > MAX_BYTES {
            return 1;
        }
        let mut dropped = 0;
        while state.logs >= self.limit || state.bytes + bytes > MAX_BYTES {
            state.drop_oldest_log();
            dropped += 1;
        }
        state.logs += 1;
        state.bytes += bytes;
        state.events.push_back((SessionEvent::Log(message), bytes));
        drop(state);
        self.arrived.notify_one();
        dropped
    }

    /// The next event, or `None` once the inbox is closed and empty.
    pub(crate) async fn next(&self) -> Option<SessionEvent> {
        loop {
            {
                let mut state = self.lock();
                if let Some(event) = state.take(0) {
                    if !state.events.is_empty() {
                        // Two that came at once may have woken one waiter.
                        self.arrived.notify_one();
                    }
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

impl State {
    fn take(&mut self, index: usize) -> Option<SessionEvent> {
        let (event, bytes) = self.events.remove(index)?;
        if matches!(event, SessionEvent::Log(_)) {
            self.logs -= 1;
            self.bytes -= bytes;
        }
        Some(event)
    }

    fn drop_oldest_log(&mut self) {
        // At most four announcements stand before it.
        if let Some(oldest) = self.events.iter().position(|(event, _)| matches!(event, SessionEvent::Log(_)))
        {
            self.take(oldest);
        }
    }
}
