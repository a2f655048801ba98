//! A look at the process table, past everything the client knows.

use mcp_transport::testing::checks;
use rustix::process::{Pid, Signal, kill_process};

/// The living processes that carry a mark, wherever they belong now.
pub(super) fn marked(mark: &str) -> Vec<i32> {
    checks::marked(mark).into_iter().map(|process| process.pid).collect()
}

/// The children of this process, ended ones that were not reaped among them.
pub(super) fn children() -> Vec<i32> {
    checks::children().into_iter().map(|process| process.pid).collect()
}

/// Sends SIGKILL to one process.
pub(super) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have gone by itself a moment ago.
        let _ = kill_process(pid, Signal::KILL);
    }
}
