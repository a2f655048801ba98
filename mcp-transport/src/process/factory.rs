use std::fmt;
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use super::command::Command;
use super::error::SpawnError;
use super::ladder::Graces;
use crate::error::{Ending, Exit};

/// Starts child processes and owns them to their end.
///
/// The seam between the transports and the operating system: a containment with a guardian process,
/// or a test that counts, is another implementation.
#[async_trait]
pub trait ProcessFactory: Send + Sync + fmt::Debug {
    /// Starts a process. Waits in line while many are being started.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`]; nothing was left behind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind: a child that is being made then is killed and
    /// reaped by the factory.
    async fn spawn(&self, command: &Command) -> Result<Child, SpawnError>;

    /// Sends SIGKILL to every living process group, at once. Needs no runtime and does not wait for
    /// the ends; starts that are under way fail.
    fn kill_all(&self);

    /// Refuses starts from now on, and kills everything that lives.
    fn close(&self);

    /// How many processes have been started and not yet been reaped.
    fn live(&self) -> usize;
}

/// A process that has just been started: its pipes, and a handle to it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Child {
    /// Write end of the child's standard input.
    pub stdin: OwnedFd,
    /// Read end of the child's standard output.
    pub stdout: OwnedFd,
    /// The process itself. Standard error is read by the factory.
    pub process: Box<dyn Process>,
}

impl Child {
    /// Puts a child together.
    #[must_use]
    pub fn new(stdin: OwnedFd, stdout: OwnedFd, process: Box<dyn Process>) -> Self {
        Self { stdin, stdout, process }
    }
}

/// A handle to one process, which belongs to its factory.
///
/// Dropping the handle kills the process group, unless a stop has begun: then that goes on.
/// No method waits, and none needs a runtime.
pub trait Process: Send + Sync + fmt::Debug {
    /// The process id, for people to read. It may belong to somebody else once the process has ended.
    fn id(&self) -> u32;

    /// Where the end will be announced: the value is `Some` from then on.
    ///
    /// If the channel closes without a value, the factory was lost together with its thread.
    fn end(&self) -> watch::Receiver<Option<ProcessEnd>>;

    /// Starts the stop ladder; to be called at the moment at which standard input was closed.
    ///
    /// SIGTERM and SIGKILL follow as `graces` say, all of it compressed so that it is over `by` then.
    /// A second call can only make it faster.
    fn begin_stop(&self, graces: Graces, by: Instant);

    /// Sends SIGKILL to the process group, now.
    fn kill(&self);

    /// Takes over the read end of standard output: reads it and throws away what comes, so that a
    /// process that flushes its output while it stops is not held up.
    fn discard_output(&self, stdout: OwnedFd);

    /// What the process wrote last to standard error: one escaped line of at most 4 KiB, or empty.
    fn stderr_tail(&self) -> String;
}

/// How a process came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// The strongest means that was needed. [`Ending::Abandoned`]: it has not ended, but SIGKILL was
    /// sent and the time to wait is over.
    pub ending: Ending,
    /// What it returned; `None` if it was abandoned, or if somebody else has reaped it.
    pub exit: Option<Exit>,
}

impl ProcessEnd {
    /// Describes an end.
    #[must_use]
    pub fn new(ending: Ending, exit: Option<Exit>) -> Self {
        Self { ending, exit }
    }
}
