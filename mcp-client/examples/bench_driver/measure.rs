use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

/// The figures of a scenario, by name. One that this system cannot tell is left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Metrics(Map<String, Value>);

impl Metrics {
    pub(crate) fn with(mut self, name: &str, figure: impl Into<Option<f64>>) -> Self {
        if let Some(figure) = figure.into() {
            self.0.insert(name.to_owned(), figure.into());
        }
        self
    }

    /// Adds `NAME_p50` and `NAME_p99` of the durations, in units of which a second has `per_second`.
    pub(crate) fn with_percentiles(self, name: &str, durations: Vec<Duration>, per_second: f64) -> Self {
        let mut sorted = durations;
        sorted.sort_unstable();
        let figure = |percent| Some(nearest_rank(&sorted, percent)?.as_secs_f64() * per_second);
        let (median, high) = (figure(50), figure(99));
        self.with(&format!("{name}_p50"), median).with(&format!("{name}_p99"), high)
    }
}

fn nearest_rank(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// A stretch of work that is being measured.
#[derive(Debug)]
pub(crate) struct Stretch {
    began: Instant,
    cpu: Duration,
    switches: Option<f64>,
}

/// What a stretch has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) seconds: f64,
    /// User and system time of this process alone.
    pub(crate) cpu_seconds: f64,
    /// Voluntary and involuntary context switches.
    pub(crate) switches: Option<f64>,
}

impl Stretch {
    pub(crate) fn begin() -> Self {
        let switches = switches();
        Self { switches, cpu: cpu(), began: Instant::now() }
    }

    pub(crate) fn end(self) -> Taken {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu_seconds = cpu().saturating_sub(self.cpu).as_secs_f64();
        let switches = switches().zip(self.switches).map(|(after, before)| after - before);
        Taken { seconds, cpu_seconds, switches }
    }
}

/// Resident memory of this process, in kB.
pub(crate) fn rss_kb() -> Option<f64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS")
}

/// The most resident memory this process has had, in kB.
pub(crate) fn peak_rss_kb() -> Option<f64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// Open descriptors of this process.
pub(crate) fn open_descriptors() -> Option<f64> {
    Some(number(fs::read_dir("/proc/self/fd").ok()?.count()))
}

/// A count as a figure; none that is measured here comes near the limit.
pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

/// User and system time of all threads of this process, as `getrusage` sums them up.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Context switches of all threads that there are. Those that end inside a stretch are missed; the
/// threads of the runtime and of the process factory do not.
fn switches() -> Option<f64> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let statuses = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let of = |status: String| {
        Some(field(&status, "voluntary_ctxt_switches")? + field(&status, "nonvoluntary_ctxt_switches")?)
    };
    statuses.map(of).sum()
}

/// The number that stands after `key:`.
fn field(status: &str, key: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}
