//! Processes as they are seen from outside: by their tag, whoever started them.

use std::fs;
use std::process;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;

/// Live processes whose arguments hold `--tag TAG`, drivers apart. `None` where there is no `/proc`.
pub(crate) fn tagged(tag: &str) -> Option<Vec<Pid>> {
    Some(processes()?.filter(|pid| is_tagged(*pid, tag)).collect())
}

/// Children of this process that have ended and were not waited for.
pub(crate) fn zombies() -> Option<usize> {
    Some(processes()?.filter(|pid| is_zombie_of_ours(*pid)).count())
}

/// Ends a process at once; one that is gone already is no error.
pub(crate) fn kill(pid: Pid) -> Outcome<()> {
    match kill_process(pid, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn processes() -> Option<impl Iterator<Item = Pid>> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    Some(entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)))
}

fn is_tagged(pid: Pid, tag: &str) -> bool {
    // A zombie has no arguments any more, and a process may be gone since it was listed.
    let Ok(line) = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())) else { return false };
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    // A driver, or a program around it, has the tag too.
    words.windows(2).any(|pair| *pair == [b"--tag", tag.as_bytes()])
        && !words.contains(&b"--scenario".as_slice())
}

fn is_zombie_of_ours(pid: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else { return false };
    // `PID (NAME) STATE PARENT …`, and a name may hold anything.
    let mut words = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    words.next() == Some("Z") && words.next().and_then(|word| word.parse().ok()) == Some(process::id())
}
