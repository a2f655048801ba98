use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::descriptors::open_descriptors;
use super::processes::{Process, children, marked_by_this_process};

/// How long the counts of the system and the runtime may lag behind.
const LAG: Duration = Duration::from_millis(100);

/// What there was before a test: descriptors, child processes, marked processes, tasks.
///
/// The process must do nothing else meanwhile, see [`isolated`](super::isolated()).
/// Dropped by a panic, it kills the marked processes that came later, so that a failed test leaves
/// none behind.
#[derive(Debug)]
pub struct Baseline {
    descriptors: BTreeMap<i32, String>,
    children: Vec<i32>,
    marked: Vec<i32>,
    tasks: usize,
}

impl Baseline {
    /// Looks at everything now.
    ///
    /// # Panics
    ///
    /// There is no tokio runtime, or no `/proc`.
    #[must_use]
    pub fn take() -> Self {
        Self {
            descriptors: open_descriptors(),
            children: children().into_iter().map(|process| process.pid).collect(),
            marked: marked_by_this_process().into_iter().map(|process| process.pid).collect(),
            tasks: Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// Checks that nothing is there that was not there before. Waits up to 100 ms for it.
    ///
    /// # Panics
    ///
    /// Something is; the text lists it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn assert_quiescent(&self) {
        let by = Instant::now() + LAG;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < by, "left behind:\n{}", left.join("\n"));
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// One line for each thing that is there now and was not there before.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (number, target) in open_descriptors() {
            match self.descriptors.get(&number) {
                Some(before) if *before == target => {}
                Some(before) => left.push(format!("descriptor {number}: {target}, was {before}")),
                None => left.push(format!("descriptor {number}: {target}")),
            }
        }
        let is_new = |known: &[i32], process: &Process| !known.contains(&process.pid);
        let new_children = children().into_iter().filter(|process| is_new(&self.children, process));
        left.extend(new_children.map(|process| format!("child: {process:?}")));
        left.extend(self.new_marked().map(|process| format!("marked process: {process:?}")));
        let tasks = Handle::current().metrics().num_alive_tasks();
        if tasks > self.tasks {
            left.push(format!("tasks: {tasks}, were {}", self.tasks));
        }
        left
    }

    fn new_marked(&self) -> impl Iterator<Item = Process> {
        marked_by_this_process().into_iter().filter(|process| !self.marked.contains(&process.pid))
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for process in self.new_marked() {
                if let Some(pid) = Pid::from_raw(process.pid) {
                    // It may have ended by itself meanwhile.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }
}
