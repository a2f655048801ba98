use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, WaitIdOptions, WaitIdStatus, getpgid, kill_process_group};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::time::Instant;

use super::command::Command;
use super::error::SpawnError;
use super::exit_watch::ExitHandle;
use super::factory::{Child, ProcessEnd};
use super::ladder::{Ladder, Step};
use crate::error::{Ending, Exit};

/// Names a child in the table; never used twice.
pub(super) type Key = u64;

/// The children that have not been reaped, and what is asked of the thread.
///
/// Always behind the factory's lock. That a child is in here *is* the proof that its number, and
/// its group's, still belong to it: signals are sent by methods of this type alone.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) children: BTreeMap<Key, Entry>,
    pub(super) requests: VecDeque<Request>,
    /// Children that have ended, as far as threads have noticed it.
    pub(super) exits: Vec<Key>,
    /// Standard outputs to be read and thrown away.
    pub(super) outputs: Vec<(Key, OwnedFd)>,
    /// No more starts; the thread ends with the last child.
    pub(super) is_closed: bool,
    /// How often everything was killed: a start that finds this changed was under way then.
    pub(super) kills: u64,
    last_key: Key,
}

/// A start that somebody waits for.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) command: Command,
    pub(super) reply: oneshot::Sender<Result<Child, SpawnError>>,
    pub(super) retries: u32,
    pub(super) not_before: Option<Instant>,
    /// Keeps the number of requests bounded; freed with the request.
    pub(super) _place: OwnedSemaphorePermit,
}

/// What a look at all ladders has brought.
#[derive(Debug, Default)]
pub(super) struct Tick {
    /// When the next rung is due.
    pub(super) next: Option<Instant>,
    /// Children that do not end after SIGKILL; to be logged outside the lock.
    pub(super) abandoned: Vec<Pid>,
}

/// One unreaped child.
#[derive(Debug)]
pub(super) struct Entry {
    /// Also the id of its group.
    pub(super) pid: Pid,
    watch: ExitHandle,
    pub(super) ladder: Ladder,
    pub(super) end: watch::Sender<Option<ProcessEnd>>,
}

impl Table {
    /// Whether nobody has killed everything, or closed the factory, since `kills` was read.
    pub(super) fn is_undisturbed_since(&self, kills: u64) -> bool {
        !self.is_closed && self.kills == kills
    }

    pub(super) fn next_key(&mut self) -> Key {
        self.last_key += 1;
        self.last_key
    }

    /// Sends SIGKILL to every group, and forgets the starts that have not begun.
    pub(super) fn kill_all(&mut self, now: Instant) {
        self.kills += 1;
        self.requests.clear();
        for child in self.children.values_mut() {
            child.kill(now);
        }
    }

    /// Climbs the ladders whose time has come.
    pub(super) fn tick(&mut self, now: Instant) -> Tick {
        let mut tick = Tick::default();
        for child in self.children.values_mut() {
            while let Some(step) = child.ladder.on_tick(now) {
                child.take_step(step);
                if step == Step::Abandon {
                    tick.abandoned.push(child.pid);
                }
            }
            tick.next = child.ladder.next_deadline().into_iter().chain(tick.next).min();
        }
        tick
    }
}

impl Entry {
    pub(super) fn new(pid: Pid, watch: ExitHandle) -> Self {
        Self { pid, watch, ladder: Ladder::new(), end: watch::Sender::new(None) }
    }

    /// Sends SIGKILL at once.
    pub(super) fn kill(&mut self, now: Instant) {
        self.ladder.kill(now);
        self.signal(Signal::KILL);
    }

    /// How the child has ended, if it has. It stays unreaped.
    pub(super) fn peek(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        let unreaped = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.watch.wait(self.pid, unreaped)
    }

    /// Kills what is left of the group of a child that has ended and has not been reaped.
    pub(super) fn sweep(&self) {
        // Fails only if nothing is left.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// Lets the child go. Its number is not to be used from now on, hence `self`.
    pub(super) fn reap(self) -> (ExitHandle, watch::Sender<Option<ProcessEnd>>) {
        // The exit was seen before, so this neither waits nor fails.
        let reaped = self.watch.wait(self.pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        debug_assert!(matches!(reaped, Ok(Some(_))), "{reaped:?}");
        self.forget()
    }

    /// Lets a child go that somebody else has reaped.
    pub(super) fn forget(self) -> (ExitHandle, watch::Sender<Option<ProcessEnd>>) {
        (self.watch, self.end)
    }

    fn take_step(&mut self, step: Step) {
        match step {
            Step::Terminate => {
                self.signal(Signal::TERM);
                // A stopped process acts on SIGTERM only once it goes on.
                self.signal(Signal::CONT);
            }
            Step::Kill => self.signal(Signal::KILL),
            Step::Abandon => {
                self.end.send_replace(Some(ProcessEnd::new(Ending::Abandoned, None)));
            }
        }
    }

    /// Signals the group, and the child itself if it has left the group.
    ///
    /// Not both to a child in its group: a second SIGTERM kills what cleans up after the first one.
    fn signal(&self, signal: Signal) {
        // Failure means that there is nobody left to signal.
        let _ = kill_process_group(self.pid, signal);
        if getpgid(Some(self.pid)) != Ok(self.pid) {
            let _ = self.watch.signal(self.pid, signal);
        }
    }
}

/// Reads a status that came from waiting for an exit.
pub(super) fn exit_of(status: &WaitIdStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}
