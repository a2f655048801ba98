use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::testing::fixture::{MARK, machine_time};

/// Makes the marks of one test process different.
static MARKS: AtomicU64 = AtomicU64::new(0);

/// A process as the system sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its group's id.
    pub group: i32,
    /// Its session's id; 0 if the session is of another namespace.
    pub session: i32,
    /// The letter of the system for its state; `Z`: ended, not yet reaped.
    pub state: char,
    /// Its name.
    pub name: String,
}

/// A value for the variable [`MARK`] that no other process has.
///
/// Environments are inherited, so the mark finds whatever a server has started, also without a parent.
#[must_use]
pub fn new_mark() -> String {
    let number = MARKS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{}", std::process::id(), machine_time().as_nanos())
}

/// The processes of which this process is the parent; ended ones that were not reaped among them.
#[must_use]
pub fn children() -> Vec<Process> {
    let own = std::process::id();
    all().filter(|process| u32::try_from(process.parent) == Ok(own)).collect()
}

/// The processes that carry a mark, wherever they belong now. An ended process carries none.
#[must_use]
pub fn marked(mark: &str) -> Vec<Process> {
    all().filter(|process| process.mark().as_deref() == Some(mark)).collect()
}

/// The processes that carry any mark made by this process.
#[must_use]
pub fn marked_by_this_process() -> Vec<Process> {
    marked_by(std::process::id())
}

/// The processes that carry any mark made by the process with the id `maker`.
#[must_use]
pub fn marked_by(maker: u32) -> Vec<Process> {
    let prefix = format!("{maker}-");
    all().filter(|process| process.mark().is_some_and(|mark| mark.starts_with(&prefix))).collect()
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").expect("there is /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read)
}

impl Process {
    /// Looks a process up; `None` if there is none (any more).
    #[must_use]
    pub fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // 12 (name) S 1 12 …: the name may hold spaces and brackets.
        let (head, tail) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = tail.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse().ok();
        Some(Self {
            pid,
            parent: number()?,
            group: number()?,
            session: number()?,
            state,
            name: name.to_owned(),
        })
    }

    /// Whether it has ended and only waits to be reaped.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }

    fn mark(&self) -> Option<String> {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let prefix = format!("{MARK}=");
        let variables = environment.split(|byte| *byte == 0);
        let mark = variables.filter_map(|variable| variable.strip_prefix(prefix.as_bytes())).next()?;
        Some(String::from_utf8_lossy(mark).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_marked_child_is_found_until_it_is_reaped() {
        let mark = new_mark();
        let mut child = Command::new("cat").env(MARK, &mark).stdin(Stdio::piped()).spawn().unwrap();
        let pid: i32 = child.id().try_into().unwrap();
        // The environment is that of the parent until the child has become another program.
        let found = loop {
            if let [found] = &marked(&mark)[..] {
                break found.clone();
            }
        };
        assert_eq!((found.pid, found.is_zombie()), (pid, false));
        assert!(marked_by_this_process().iter().any(|process| process.pid == pid));
        drop(child.stdin.take());
        while !Process::read(pid).unwrap().is_zombie() {}
        assert!(marked(&mark).is_empty());
        assert!(children().iter().any(|process| process.pid == pid && process.is_zombie()));
        child.wait().unwrap();
        assert!(!children().iter().any(|process| process.pid == pid));
    }
}
