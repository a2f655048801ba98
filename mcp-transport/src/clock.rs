use std::fmt;
use std::time::SystemTime;

/// Tells the date, where a date that a server names must be understood, or where it shows that the machine
/// has slept.
///
/// Deadlines and pauses never come from here: they are counted on the runtime's own clock.
pub trait WallClock: Send + Sync + fmt::Debug {
    /// The time of day.
    fn now(&self) -> SystemTime;
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place from which the date is injected")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
