use serde::Serialize;

use crate::error::CallError;

/// What became of the calls to one server since it was added, over all its connections.
///
/// Each call is counted once, when it has ended, however often it was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallCounters {
    /// Given up by their callers.
    pub cancelled: u64,
    /// Answered with an error, or with nothing that can be taken.
    pub failed: u64,
    /// Ended because their connection broke; they may have run.
    pub lost: u64,
    /// Never sent: refused because of the state of the server, its breaker or a limit.
    pub refused: u64,
    /// Sent once more after an earlier attempt, each time.
    pub repeated: u64,
    /// Answered with a result; also one that says that its tool has failed.
    pub succeeded: u64,
    /// Not answered in time.
    pub timed_out: u64,
}

impl CallCounters {
    /// How many calls have ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.cancelled + self.failed + self.lost + self.refused + self.succeeded + self.timed_out
    }

    /// Counts a call that has ended like this.
    pub(crate) fn count(&mut self, end: CallEnd) {
        *match end {
            CallEnd::Cancelled => &mut self.cancelled,
            CallEnd::Failed => &mut self.failed,
            CallEnd::Lost => &mut self.lost,
            CallEnd::Refused => &mut self.refused,
            CallEnd::Succeeded => &mut self.succeeded,
            CallEnd::TimedOut => &mut self.timed_out,
        } += 1;
    }
}

/// What became of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Cancelled,
    Failed,
    Lost,
    Refused,
    Succeeded,
    TimedOut,
}

impl CallEnd {
    /// What a call that has ended with this error is counted as.
    pub(crate) fn of(error: &CallError) -> Self {
        use mcp_session::{CallError as Error, CallOutcome};
        match error {
            _ if error.is_timeout() => Self::TimedOut,
            CallError::Session { error, .. } => match error {
                Error::Lost | Error::SessionGone { .. } => Self::Lost,
                error if error.outcome() == CallOutcome::NotSent => Self::Refused,
                _ => Self::Failed,
            },
            error if error.outcome() == CallOutcome::Unknown => Self::Lost,
            _ => Self::Refused,
        }
    }

    /// As a word, as its counter is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::Succeeded => "succeeded",
            Self::TimedOut => "timed_out",
        }
    }
}
