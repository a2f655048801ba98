use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::process::Pid;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

use super::command::Command;
use super::error::SpawnError;
use super::exit_watch::ExitWatch;
use super::factory::{Child, Process, ProcessEnd, ProcessFactory};
use super::ladder::Graces;
use super::launch::os_error;
use super::stderr::StderrLog;
use super::table::{Key, Request, Table};
use super::watcher::{Token, Watcher};

/// Starts that may wait in line; more callers wait in front of the line.
const MAX_REQUESTS: usize = 64;

/// The processes that this program starts itself.
///
/// Owns them all: one table, and one thread that is made with the first start and ends after the
/// factory was closed and its last child reaped. A child leads its own process group, is killed by
/// the kernel if this program dies, and takes four descriptors here: three pipes and a pidfd. Where
/// there is no pidfd (kernels before 5.3, some sandboxes), a thread for each child waits in its place.
///
/// Containment is the process group: what leaves it by `setsid` or `setpgid` is out of reach.
///
/// Dropping the factory closes it: everything is killed, without waiting and without a runtime.
///
/// # Examples
///
/// ```
/// use mcp_transport::process::{Command, Graces, LocalProcesses, ProcessFactory};
/// use tokio::time::{Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_transport::process::SpawnError> {
/// let processes = LocalProcesses::new();
/// let child = processes.spawn(&Command::new("cat")).await?;
/// drop(child.stdin);
/// child.process.begin_stop(Graces::default(), Instant::now() + Duration::from_secs(5));
/// let mut end = child.process.end();
/// let ended = *end.wait_for(Option::is_some).await.expect("the factory lives");
/// println!("{ended:?}");
/// # Ok(()) }
/// ```
pub struct LocalProcesses {
    places: Arc<Semaphore>,
    runner: Mutex<Runner>,
}

/// The thread, as far as there is or was one.
#[derive(Default)]
struct Runner {
    is_closed: bool,
    shared: Option<Arc<Shared>>,
    thread: Option<JoinHandle<()>>,
    /// What is used; `None`: what the system offers.
    exit_watch: Option<ExitWatch>,
}

/// What the factory, its handles and its thread share.
pub(super) struct Shared {
    table: Mutex<Table>,
    pub(super) epoll: OwnedFd,
    wake: OwnedFd,
    pub(super) exit_watch: ExitWatch,
}

impl LocalProcesses {
    /// Makes a factory. Nothing is started yet, not even its thread.
    #[must_use]
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_REQUESTS)), runner: Mutex::default() }
    }

    /// Closes the factory and waits until its thread has reaped everything and has ended.
    ///
    /// Blocks for as long as killed processes take to die. For the end of a program or a test.
    pub fn join(&self) {
        self.close();
        let thread = self.runner().thread.take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread of the process factory has panicked");
        }
    }

    fn runner(&self) -> MutexGuard<'_, Runner> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a start to the thread, which is made now if there is none.
    fn submit(&self, request: Request) -> Result<(), SpawnError> {
        let shared = self.running().map_err(|error| os_error(&error, &request.command))?;
        let mut table = shared.table();
        if table.is_closed {
            return Err(SpawnError::FactoryClosed);
        }
        table.requests.push_back(request);
        drop(table);
        shared.wake();
        Ok(())
    }

    /// What is shared with the thread, which is made now if there is none.
    fn running(&self) -> io::Result<Arc<Shared>> {
        let mut runner = self.runner();
        if let Some(shared) = &runner.shared {
            return Ok(Arc::clone(shared));
        }
        let exit_watch = runner.exit_watch.unwrap_or_else(ExitWatch::probe);
        let shared = Arc::new(Shared::new(exit_watch)?);
        shared.table().is_closed = runner.is_closed;
        let watcher = Watcher::new(Arc::clone(&shared));
        runner.thread =
            Some(thread::Builder::new().name("mcp-processes".to_owned()).spawn(|| watcher.run())?);
        runner.shared = Some(Arc::clone(&shared));
        Ok(shared)
    }
}

#[async_trait]
impl ProcessFactory for LocalProcesses {
    async fn spawn(&self, command: &Command) -> Result<Child, SpawnError> {
        command.validate()?;
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| SpawnError::FactoryClosed)?;
        let (reply, answer) = oneshot::channel();
        let command = command.clone();
        self.submit(Request { command, reply, retries: 0, not_before: None, _place: place })?;
        answer.await.unwrap_or(Err(SpawnError::FactoryClosed))
    }

    fn kill_all(&self) {
        if let Some(shared) = &self.runner().shared {
            shared.table().kill_all(Instant::now());
            shared.wake();
        }
    }

    fn close(&self) {
        self.places.close();
        let mut runner = self.runner();
        runner.is_closed = true;
        if let Some(shared) = &runner.shared {
            let mut table = shared.table();
            table.is_closed = true;
            table.kill_all(Instant::now());
            drop(table);
            shared.wake();
        }
    }

    fn live(&self) -> usize {
        self.runner().shared.as_ref().map_or(0, |shared| shared.table().children.len())
    }
}

impl Default for LocalProcesses {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LocalProcesses {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for LocalProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalProcesses").field("live", &self.live()).finish_non_exhaustive()
    }
}

impl Shared {
    fn new(exit_watch: ExitWatch) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Self { table: Mutex::default(), epoll, wake, exit_watch };
        shared.watch(&shared.wake, Token::Wake)?;
        Ok(shared)
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watch(&self, fd: impl AsFd, token: Token) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, token.into_data(), epoll::EventFlags::IN)
    }

    /// Said explicitly before a descriptor is closed: a child between fork and exec may still hold a
    /// copy, and events would go on coming for it.
    pub(super) fn unwatch(&self, fd: impl AsFd) {
        // Fails only for a descriptor that is not watched.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Makes the thread look at the table.
    pub(super) fn wake(&self) {
        // Fails only if the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(super) fn clear_wake(&self) {
        // Fails only if the counter is empty, which is what is wanted.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

/// A handle to an entry of the table.
pub(super) struct LocalProcess {
    shared: Arc<Shared>,
    key: Key,
    pid: Pid,
    end: watch::Receiver<Option<ProcessEnd>>,
    log: Arc<StderrLog>,
}

impl LocalProcess {
    pub(super) fn new(
        shared: Arc<Shared>,
        key: Key,
        pid: Pid,
        end: watch::Receiver<Option<ProcessEnd>>,
        log: Arc<StderrLog>,
    ) -> Self {
        Self { shared, key, pid, end, log }
    }
}

impl Process for LocalProcess {
    fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    fn end(&self) -> watch::Receiver<Option<ProcessEnd>> {
        self.end.clone()
    }

    fn begin_stop(&self, graces: Graces, by: Instant) {
        if let Some(entry) = self.shared.table().children.get_mut(&self.key) {
            entry.ladder.begin(Instant::now(), graces, by);
        }
        self.shared.wake();
    }

    fn kill(&self) {
        if let Some(entry) = self.shared.table().children.get_mut(&self.key) {
            entry.kill(Instant::now());
        }
        self.shared.wake();
    }

    fn discard_output(&self, stdout: OwnedFd) {
        // The thread must never wait on it; one that cannot be switched is closed.
        if rustix::io::ioctl_fionbio(&stdout, true).is_err() {
            return;
        }
        let mut table = self.shared.table();
        if table.children.contains_key(&self.key) {
            table.outputs.push((self.key, stdout));
        }
        drop(table);
        self.shared.wake();
    }

    fn stderr_tail(&self) -> String {
        self.log.tail()
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        if let Some(entry) = table.children.get_mut(&self.key)
            && !entry.ladder.is_stopping()
        {
            entry.kill(Instant::now());
            drop(table);
            self.shared.wake();
        }
    }
}

impl fmt::Debug for LocalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalProcess").field("pid", &self.pid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Ending, Exit};

    fn without_pidfd() -> LocalProcesses {
        let factory = LocalProcesses::new();
        factory.runner().exit_watch = Some(ExitWatch::Thread);
        factory
    }

    async fn ended(child: &Child) -> ProcessEnd {
        let mut end = child.process.end();
        end.wait_for(Option::is_some).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn exits_are_seen_where_there_is_no_pidfd() {
        let factory = without_pidfd();
        let shell = |script: &str| Command::new("/bin/sh").args(["-c", script]);
        let child = factory.spawn(&shell("echo words >&2; exit 3")).await.unwrap();
        assert_eq!(ended(&child).await, ProcessEnd::new(Ending::Clean, Some(Exit::Code(3))));
        assert_eq!(child.process.stderr_tail(), "words");
        let child = factory.spawn(&shell("sleep 600 & sleep 600")).await.unwrap();
        let graces = Graces::default().with_stdin_close(std::time::Duration::ZERO);
        child.process.begin_stop(graces, Instant::now() + graces.total());
        assert_eq!(ended(&child).await, ProcessEnd::new(Ending::Terminated, Some(Exit::Signal(15))));
        let child = factory.spawn(&shell("trap '' TERM; sleep 600")).await.unwrap();
        factory.kill_all();
        assert_eq!(ended(&child).await, ProcessEnd::new(Ending::Killed, Some(Exit::Signal(9))));
        factory.join();
        assert_eq!(factory.live(), 0);
    }
}
