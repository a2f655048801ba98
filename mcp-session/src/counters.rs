use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// What a session has seen since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Frames that are no messages.
    pub broken_frames: u64,
    /// Calls given up after their request may have left, and cancelled as era and transport ask for: the
    /// transport has taken the cancel. Tasks that were cancelled, because their calls were given up, count too.
    pub cancels_sent: u64,
    /// Log lines dropped because they are too long or nobody took them.
    pub dropped_events: u64,
    /// Frames that have arrived, of whatever kind: a sign of life. The end of a stream is none.
    pub frames: u64,
    /// Notifications that mean nothing here: unknown ones, cancel notices, malformed ones.
    pub ignored_notifications: u64,
    /// Progress of no running call, or that did not grow.
    pub ignored_progress: u64,
    /// Answers to calls that had ended: given up, or answered before.
    pub late_replies: u64,
    /// Requests of the server that were refused, or never answered because its era has none.
    pub refused_requests: u64,
    /// Notices of changes that no subscription could have: before it was acknowledged, after its end, for
    /// none that is known, or of what it did not want.
    pub stray_notices: u64,
    /// Answers that could not be handed to the transport because the server does not read.
    pub unsent_replies: u64,
    /// Answers to requests that were never made, and errors without an id.
    pub unknown_replies: u64,
}

/// The counters of two sessions together.
impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.broken_frames += other.broken_frames;
        self.cancels_sent += other.cancels_sent;
        self.dropped_events += other.dropped_events;
        self.frames += other.frames;
        self.ignored_notifications += other.ignored_notifications;
        self.ignored_progress += other.ignored_progress;
        self.late_replies += other.late_replies;
        self.refused_requests += other.refused_requests;
        self.stray_notices += other.stray_notices;
        self.unsent_replies += other.unsent_replies;
        self.unknown_replies += other.unknown_replies;
    }
}

/// One live counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

/// The live counters behind [`Counters`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) broken_frames: Count,
    pub(crate) cancels_sent: Count,
    pub(crate) dropped_events: Count,
    pub(crate) frames: Count,
    pub(crate) ignored_notifications: Count,
    pub(crate) ignored_progress: Count,
    pub(crate) late_replies: Count,
    pub(crate) refused_requests: Count,
    pub(crate) stray_notices: Count,
    pub(crate) unsent_replies: Count,
    pub(crate) unknown_replies: Count,
}

impl Count {
    /// Counts one more; `true` for the first.
    pub(crate) fn add(&self) -> bool {
        self.add_many(1)
    }

    /// Counts `many` more; `true` if they are the first.
    pub(crate) fn add_many(&self, many: u64) -> bool {
        self.0.fetch_add(many, Ordering::Relaxed) == 0
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    pub(crate) fn read(&self) -> Counters {
        Counters {
            broken_frames: self.broken_frames.read(),
            cancels_sent: self.cancels_sent.read(),
            dropped_events: self.dropped_events.read(),
            frames: self.frames.read(),
            ignored_notifications: self.ignored_notifications.read(),
            ignored_progress: self.ignored_progress.read(),
            late_replies: self.late_replies.read(),
            refused_requests: self.refused_requests.read(),
            stray_notices: self.stray_notices.read(),
            unsent_replies: self.unsent_replies.read(),
            unknown_replies: self.unknown_replies.read(),
        }
    }
}
