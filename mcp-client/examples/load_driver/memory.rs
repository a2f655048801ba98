use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// Resident memory of this process, in MiB; its servers are other processes.
pub(crate) fn resident_mib() -> Outcome<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.split_whitespace().next().ok_or("no number after VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}

/// Processor time of all threads of this process.
pub(crate) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
