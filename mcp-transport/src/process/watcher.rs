use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::Pid;
use tokio::time::Instant;

use super::command::Command;
use super::error::SpawnError;
use super::exit_watch::ExitHandle;
use super::factory::{Child, ProcessEnd};
use super::launch::{Launched, give_up, launch, os_error};
use super::local::{LocalProcess, Shared};
use super::stderr::StderrLog;
use super::table::{Entry, Key, Request, Tick, exit_of};

/// How often a start is tried again while the program's file is being written, and how far apart.
const BUSY_RETRIES: u32 = 3;
const BUSY_DELAY: Duration = Duration::from_millis(50);

/// Size of one read, in bytes.
const PIECE: usize = 64 * 1024;

/// How many pieces are read of what a process has left behind on standard error.
const MAX_LEFTOVER_PIECES: usize = 16;

/// Events that are taken from the kernel at once.
const MAX_EVENTS: usize = 64;

/// The thread of a factory: starts, watches, stops and reaps.
///
/// It is the only one that removes from the table, so what it finds there stays there while it works
/// without the lock. It waits in one place, for descriptors and for the next rung of a ladder.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    /// Standard error of each child.
    errors: BTreeMap<Key, (OwnedFd, Arc<StderrLog>)>,
    /// Standard outputs that nobody wants any more.
    outputs: BTreeMap<Key, OwnedFd>,
    piece: Vec<u8>,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Error(Key),
    Exit(Key),
    Output(Key),
    Wake,
}

impl Watcher {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, errors: BTreeMap::new(), outputs: BTreeMap::new(), piece: Vec::with_capacity(PIECE) }
    }

    /// Runs until the factory is closed and its last child reaped.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        while let Some(timeout) = self.take_stock() {
            match epoll::wait(&self.shared.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // The arguments are ours and right; there is no way on.
                Err(error) => return tracing::error!(%error, "waiting for child processes failed"),
            }
            for event in events.drain(..) {
                match Token::from_data(event.data) {
                    Token::Wake => self.shared.clear_wake(),
                    Token::Exit(key) => self.on_exit(key),
                    Token::Error(key) => self.on_error_output(key),
                    Token::Output(key) => self.on_unwanted_output(key),
                }
            }
            let exits = std::mem::take(&mut self.shared.table().exits);
            exits.into_iter().for_each(|key| self.on_exit(key));
            // One start a round, so that exits and stops never wait for more than one.
            if let Some(request) = self.next_request() {
                self.start(request);
            }
        }
    }

    /// Does what is due. Answers how long to wait (inner `None`: for ever); outer `None`: no more.
    fn take_stock(&mut self) -> Option<Option<Timespec>> {
        let now = Instant::now();
        let mut table = self.shared.table();
        let Tick { mut next, abandoned } = table.tick(now);
        for request in &table.requests {
            next = Some(request.not_before.unwrap_or(now)).into_iter().chain(next).min();
        }
        if table.is_closed && table.children.is_empty() {
            return None;
        }
        let outputs = std::mem::take(&mut table.outputs);
        let is_alive = |key: &Key| table.children.contains_key(key);
        let alive: Vec<_> = outputs.into_iter().filter(|(key, _)| is_alive(key)).collect();
        drop(table);
        for pid in abandoned {
            tracing::warn!(pid = %pid.as_raw_nonzero(), "process does not end after SIGKILL");
        }
        for (key, output) in alive {
            // An output that cannot be watched is closed: its writer then fails instead of waiting.
            if self.shared.watch(&output, Token::Output(key)).is_ok() {
                self.outputs.insert(key, output);
            }
        }
        let timeout = next.map(|at| at.saturating_duration_since(now));
        Some(timeout.and_then(|timeout| Timespec::try_from(timeout).ok()))
    }

    fn next_request(&self) -> Option<Request> {
        let now = Instant::now();
        let mut table = self.shared.table();
        let is_due = |request: &Request| request.not_before.is_none_or(|at| at <= now);
        let index = table.requests.iter().position(is_due)?;
        table.requests.remove(index)
    }

    fn start(&mut self, mut request: Request) {
        if request.reply.is_closed() {
            return;
        }
        let kills = self.shared.table().kills;
        let result = match launch(&request.command) {
            Err(SpawnError::Busy { .. }) if request.retries < BUSY_RETRIES => {
                request.retries += 1;
                request.not_before = Some(Instant::now() + BUSY_DELAY);
                let mut table = self.shared.table();
                if table.is_undisturbed_since(kills) {
                    table.requests.push_back(request);
                }
                return;
            }
            Err(error) => Err(error),
            Ok(launched) => self.adopt(launched, kills, &request.command),
        };
        // If nobody waits any more, the child comes back and is killed as it is dropped.
        drop(request.reply.send(result));
    }

    /// Enters a new child in the table, and kills it if everything was killed meanwhile.
    fn adopt(&mut self, launched: Launched, kills: u64, command: &Command) -> Result<Child, SpawnError> {
        let Launched { pid, stdin, stdout, stderr } = launched;
        let key = self.shared.table().next_key();
        let watch = match self.watch_child(key, pid, &stderr) {
            Ok(watch) => watch,
            Err(error) => {
                give_up(pid);
                return Err(os_error(&error, command));
            }
        };
        let mut entry = Entry::new(pid, watch);
        let end = entry.end.subscribe();
        let log = Arc::new(StderrLog::new(command.display_name(), command.secrets()));
        self.errors.insert(key, (stderr, Arc::clone(&log)));
        let mut table = self.shared.table();
        let is_wanted = table.is_undisturbed_since(kills);
        if !is_wanted {
            entry.kill(Instant::now());
        }
        table.children.insert(key, entry);
        drop(table);
        if !is_wanted {
            return Err(SpawnError::FactoryClosed);
        }
        let process = LocalProcess::new(Arc::clone(&self.shared), key, pid, end, log);
        Ok(Child::new(stdin, stdout, Box::new(process)))
    }

    fn watch_child(&self, key: Key, pid: Pid, stderr: &OwnedFd) -> io::Result<ExitHandle> {
        ioctl_fionbio(stderr, true)?;
        self.shared.watch(stderr, Token::Error(key))?;
        let watch = self.shared.exit_watch.begin(&self.shared, key, pid);
        if watch.is_err() {
            self.shared.unwatch(stderr);
        }
        watch
    }

    /// A child has ended: sweeps its group, reads its last words, reaps it, tells.
    fn on_exit(&mut self, key: Key) {
        let exit = {
            let table = self.shared.table();
            let Some(entry) = table.children.get(&key) else { return };
            match entry.peek() {
                Ok(Some(status)) => {
                    entry.sweep();
                    Some(exit_of(&status))
                }
                Ok(None) => return,
                // Somebody else has reaped it (a host that ignores SIGCHLD): its number is lost.
                Err(_) => None,
            }
        };
        self.finish_errors(key);
        self.finish_output(key);
        let mut table = self.shared.table();
        let Some(entry) = table.children.remove(&key) else { return };
        // All of it under the lock: whoever finds the child gone finds its descriptors closed as well.
        table.outputs.retain(|(owner, _)| *owner != key);
        let (pid, ended) = (entry.pid, ProcessEnd::new(entry.ladder.on_exit(), exit.flatten()));
        let (watch, end) = if exit.is_some() { entry.reap() } else { entry.forget() };
        watch.end(&self.shared);
        drop(table);
        tracing::debug!(pid = %pid.as_raw_nonzero(), exit = ?ended.exit, "process has ended");
        // Somebody who was told that it was abandoned keeps that answer.
        end.send_if_modified(|current| current.is_none().then(|| *current = Some(ended)).is_some());
    }

    fn on_error_output(&mut self, key: Key) {
        let Some((stderr, log)) = self.errors.get(&key) else { return };
        if read_piece(stderr, &mut self.piece) {
            log.push(&self.piece, Instant::now());
        } else {
            self.finish_errors(key);
        }
    }

    /// Reads what is left, as far as it is bounded, and closes.
    fn finish_errors(&mut self, key: Key) {
        let Some((stderr, log)) = self.errors.remove(&key) else { return };
        self.shared.unwatch(&stderr);
        for _ in 0..MAX_LEFTOVER_PIECES {
            if !read_piece(&stderr, &mut self.piece) || self.piece.is_empty() {
                break;
            }
            log.push(&self.piece, Instant::now());
        }
        log.finish(Instant::now());
    }

    fn on_unwanted_output(&mut self, key: Key) {
        let Some(output) = self.outputs.get(&key) else { return };
        if !read_piece(output, &mut self.piece) {
            self.finish_output(key);
        }
    }

    fn finish_output(&mut self, key: Key) {
        if let Some(output) = self.outputs.remove(&key) {
            self.shared.unwatch(&output);
        }
    }
}

/// However the thread ends, nobody is left waiting for it: dropping the entries closes their channels.
impl Drop for Watcher {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        table.is_closed = true;
        table.kill_all(Instant::now());
        table.children.clear();
        table.outputs.clear();
    }
}

impl Token {
    const KINDS: u64 = 4;

    pub(super) fn into_data(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Self::Wake => 0,
            Self::Exit(key) => key * Self::KINDS + 1,
            Self::Error(key) => key * Self::KINDS + 2,
            Self::Output(key) => key * Self::KINDS + 3,
        })
    }

    fn from_data(data: epoll::EventData) -> Self {
        let key = data.u64() / Self::KINDS;
        match data.u64() % Self::KINDS {
            1 => Self::Exit(key),
            2 => Self::Error(key),
            3 => Self::Output(key),
            _ => Self::Wake,
        }
    }
}

/// Reads once into `piece`, without waiting; empty if nothing is there. Answers `false` at the end.
fn read_piece(from: impl AsFd, piece: &mut Vec<u8>) -> bool {
    piece.clear();
    match rustix::io::read(from, spare_capacity(piece)) {
        Ok(length) => length > 0,
        Err(Errno::AGAIN | Errno::INTR) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        for token in [Token::Wake, Token::Exit(1), Token::Error(1), Token::Output(u64::MAX / 8)] {
            assert_eq!(Token::from_data(token.into_data()), token);
        }
    }
}
