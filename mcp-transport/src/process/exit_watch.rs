use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, pidfd_open,
    pidfd_send_signal, waitid,
};

use super::local::Shared;
use super::table::Key;
use super::watcher::Token;

/// Stack of a thread that only waits, in bytes.
const STACK: usize = 64 * 1024;

/// How exits are noticed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitWatch {
    /// By a descriptor for each child.
    Pidfd,
    /// By a waiting thread for each child: kernels before 5.3, some sandboxes, valgrind.
    Thread,
}

/// The means by which the exit of one child is noticed. Never reaps it.
#[derive(Debug)]
pub(super) enum ExitHandle {
    Pidfd(OwnedFd),
    /// Ends by itself when the child does; joined after that.
    Thread(JoinHandle<()>),
}

impl ExitWatch {
    /// Finds out what this system offers.
    pub(super) fn probe() -> Self {
        match pidfd_open(getpid(), PidfdFlags::empty()) {
            Ok(_) => Self::Pidfd,
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => Self::Thread,
            // Out of descriptors, say: a start will tell.
            Err(_) => Self::Pidfd,
        }
    }

    /// Begins to watch a child, which must not have been reaped.
    pub(super) fn begin(self, shared: &Arc<Shared>, key: Key, pid: Pid) -> io::Result<ExitHandle> {
        match self {
            Self::Pidfd => {
                let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
                shared.watch(&pidfd, Token::Exit(key))?;
                Ok(ExitHandle::Pidfd(pidfd))
            }
            Self::Thread => {
                let shared = Arc::clone(shared);
                let wait = move || {
                    // An error means that somebody else has reaped it: gone as well.
                    let unreaped = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                    let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), unreaped));
                    shared.table().exits.push(key);
                    shared.wake();
                };
                let thread = thread::Builder::new().name("mcp-exit".to_owned()).stack_size(STACK);
                thread.spawn(wait).map(ExitHandle::Thread)
            }
        }
    }
}

impl ExitHandle {
    pub(super) fn wait(&self, pid: Pid, options: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        let id = match self {
            Self::Pidfd(pidfd) => WaitId::PidFd(pidfd.as_fd()),
            Self::Thread(_) => WaitId::Pid(pid),
        };
        rustix::io::retry_on_intr(|| waitid(id.clone(), options))
    }

    pub(super) fn signal(&self, pid: Pid, signal: Signal) -> rustix::io::Result<()> {
        match self {
            Self::Pidfd(pidfd) => pidfd_send_signal(pidfd, signal),
            Self::Thread(_) => kill_process(pid, signal),
        }
    }

    /// Ends the watching of a child that has ended.
    pub(super) fn end(self, shared: &Shared) {
        match self {
            Self::Pidfd(pidfd) => shared.unwatch(&pidfd),
            Self::Thread(thread) => {
                // It has said that the child has ended, and needs no lock after that.
                let joined = thread.join();
                debug_assert!(joined.is_ok(), "waiting does not panic");
            }
        }
    }
}
