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

    /// Counts a call that has ended with this error.
    pub(crate) fn on_error(&mut self, error: &CallError) {
        *self.of(error) += 1;
    }

    fn of(&mut self, error: &CallError) -> &mut u64 {
        use mcp_session::{CallError as Error, CallOutcome};
        match error {
            _ if error.is_timeout() => &mut self.timed_out,
            CallError::Session { error, .. } => match error {
                Error::Lost | Error::SessionGone { .. } => &mut self.lost,
                error if error.outcome() == CallOutcome::NotSent => &mut self.refused,
                _ => &mut self.failed,
            },
            error if error.outcome() == CallOutcome::Unknown => &mut self.lost,
            _ => &mut self.refused,
        }
    }
}
