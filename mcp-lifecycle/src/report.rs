use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_transport::{CloseReport, Ending};
use serde::{Serialize, Serializer};

/// How a whole supervisor came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Every server, in the order in which they were added.
    pub servers: Vec<ServerReport>,
    /// [Last work](crate::SupervisorOptions::with_last_work) that had not ended when the time was up.
    pub unfinished: Vec<Exceeded>,
    /// From the first step to the last.
    #[serde(rename = "elapsed_ms", serialize_with = "millis")]
    pub elapsed: Duration,
}

/// How one server came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServerReport {
    /// Its name.
    pub name: Arc<str>,
    /// The strongest means that was needed; `Clean` also if there was no connection to end.
    #[serde(serialize_with = "ending")]
    pub ending: Ending,
    /// Calls that were cancelled because they did not finish in time.
    pub calls_cancelled: usize,
    /// Tasks that did not end when asked to.
    pub tasks_aborted: usize,
    /// Every step that failed or took too long.
    pub exceeded: Vec<Exceeded>,
}

/// A step of stopping that failed or took too long; the steps after it ran all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exceeded {
    /// Which step.
    pub step: StopStep,
    /// How long it had, or took.
    #[serde(rename = "elapsed_ms", serialize_with = "millis")]
    pub elapsed: Duration,
    /// What did not end, by name.
    pub what: String,
}

/// The steps in which a server is stopped, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopStep {
    /// Running calls finish.
    Drain,
    /// The connection is closed, its process ended.
    Close,
    /// Every task has ended.
    Join,
    /// Work that must not be cut off has ended.
    Finish,
    /// The steps could be taken at all: whoever has to take them got to run, and did not fail.
    Schedule,
}

impl ShutdownReport {
    /// Whether every server ended by itself, in time, with no call cancelled, and no work was left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unfinished.is_empty() && self.servers.iter().all(ServerReport::is_clean)
    }
}

impl ServerReport {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self { name, ending: Ending::Clean, calls_cancelled: 0, tasks_aborted: 0, exceeded: Vec::new() }
    }

    /// Its steps were not taken; whatever it still had is left to the transport.
    pub(crate) fn abandoned(name: Arc<str>, elapsed: Duration, why: &str) -> Self {
        let mut report = Self::new(name);
        report.ending = Ending::Abandoned;
        report.exceeded.push(Exceeded { step: StopStep::Schedule, elapsed, what: why.to_owned() });
        report
    }

    /// Whether the server ended by itself, in time, with no call cancelled.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.ending == Ending::Clean
            && self.calls_cancelled == 0
            && self.tasks_aborted == 0
            && self.exceeded.is_empty()
    }

    /// A step failed or took too long: into the report, and one warning.
    pub(crate) fn exceed(&mut self, step: StopStep, elapsed: Duration, what: String) {
        tracing::warn!(server = %self.name, %step, elapsed_ms = elapsed.as_millis(), %what, "stopping exceeds a bound");
        self.exceeded.push(Exceeded { step, elapsed, what });
    }

    /// The connection has been closed like this.
    pub(crate) fn on_close(&mut self, report: &CloseReport) {
        self.ending = self.ending.max(report.ending);
        let what = match report.ending {
            Ending::Clean | Ending::Terminated => return,
            Ending::Killed => "the process had to be killed",
            _ => "the process was not seen to end",
        };
        self.exceed(StopStep::Close, report.elapsed, what.to_owned());
    }
}

impl fmt::Display for StopStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drain => "drain",
            Self::Close => "close",
            Self::Join => "join",
            Self::Finish => "finish",
            Self::Schedule => "schedule",
        })
    }
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn ending<S: Serializer>(ending: &Ending, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match ending {
        Ending::Clean => "clean",
        Ending::Terminated => "terminated",
        Ending::Killed => "killed",
        _ => "abandoned",
    })
}
