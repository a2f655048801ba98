//! The client for threads that have no async runtime.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use mcp_lifecycle::{ServerStatus, ShutdownReport, StillDraining};
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::{ClientBuilder, StartError};

/// How much longer than a call itself a thread waits for its answer: the runtime may be busy.
const SLACK: Duration = Duration::from_secs(1);

/// How long the end of the runtime waits for its last tasks.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// A runtime in a thread of its own, for callers that have none.
///
/// It is made inside its thread and has reported that it runs before anything can be given to it, so
/// a start that fails is an error of [`start`](Self::start) and leaves nothing behind.
///
/// Dropping it asks the runtime to end and does not wait for it.
#[derive(Debug)]
#[must_use = "dropping the runtime ends everything on it"]
pub struct BackgroundRuntime {
    handle: Handle,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The runtime could not be started; nothing was left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The system gave no thread.
    #[error("no thread for the background runtime: {0}")]
    Thread(#[source] std::io::Error),
    /// The system gave no descriptors or timers.
    #[error("the background runtime cannot be made: {0}")]
    Runtime(#[source] std::io::Error),
    /// The thread ended before the runtime stood.
    #[error("the thread of the background runtime ended before it was ready")]
    Lost,
}

/// A thread stopped waiting. What it waited for goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GaveUp {
    /// The work has not come to its end in time.
    #[error("not finished within {} ms; it goes on in the background", .0.as_millis())]
    StillRunning(Duration),
    /// The runtime has ended, and the work with it.
    #[error("the background runtime has ended")]
    RuntimeGone,
}

impl BackgroundRuntime {
    /// Starts the thread and waits until the runtime in it runs.
    ///
    /// # Errors
    ///
    /// The system refused a thread or what a runtime needs.
    pub fn start() -> Result<Self, RuntimeError> {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (report, ready) = sync_channel(1);
        let (tasks_inside, stop_inside) = (tasks.clone(), stop.clone());
        let main = move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(report.send(Err(RuntimeError::Runtime(error)))),
            };
            runtime.block_on(async {
                // From in here: the runtime is being driven when the caller hears of it.
                if report.send(Ok(Handle::current())).is_err() {
                    return;
                }
                stop_inside.cancelled().await;
                tasks_inside.close();
                if tokio::time::timeout(LAST_TASKS, tasks_inside.wait()).await.is_err() {
                    tracing::warn!(tasks = tasks_inside.len(), "tasks outlived the background runtime");
                }
            });
            runtime.shutdown_timeout(LAST_TASKS);
        };
        thread::Builder::new().name("mcp-runtime".to_owned()).spawn(main).map_err(RuntimeError::Thread)?;
        let handle = ready.recv().map_err(|_| RuntimeError::Lost)??;
        Ok(Self { handle, tasks, stop })
    }

    /// Runs `work` on the runtime and waits for it, at most `limit`.
    ///
    /// The waiting is the thread's own and needs no help of the runtime: it ends on time even if the
    /// runtime's thread is blocked.
    ///
    /// # Errors
    ///
    /// [`GaveUp`]: the work is not finished. It is not cancelled by that.
    pub fn run<T, W>(&self, limit: Duration, work: W) -> Result<T, GaveUp>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let (done, finished) = sync_channel(1);
        let work = async move {
            // Nobody listens any more if the thread gave up.
            let _ = done.try_send(work.await);
        };
        self.tasks.spawn_on(work, &self.handle);
        finished.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => GaveUp::StillRunning(limit),
            RecvTimeoutError::Disconnected => GaveUp::RuntimeGone,
        })
    }

    /// The runtime, to give to [`ClientBuilder::start`].
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The client with a runtime of its own, for ordinary threads.
///
/// Never use it inside an async runtime: its methods block the thread.
#[derive(Debug)]
#[must_use = "dropping the client kills its servers"]
pub struct Client {
    // Dropped first: it kills children by itself and needs no runtime for that.
    client: crate::Client,
    runtime: BackgroundRuntime,
}

impl Client {
    /// Starts a runtime, and the servers of `builder` on it.
    ///
    /// # Errors
    ///
    /// The runtime or the client could not be started; nothing was left behind.
    pub fn start(builder: ClientBuilder) -> Result<Self, StartError> {
        let runtime = BackgroundRuntime::start()?;
        let client = builder.start(runtime.handle())?;
        Ok(Self { client, runtime })
    }

    /// The async client, for everything that does not wait.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    /// The runtime that everything runs on.
    pub fn runtime(&self) -> &BackgroundRuntime {
        &self.runtime
    }

    /// The state of every server.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.client.status()
    }

    /// Waits until `server` has settled, at most `limit`; `None` if there is no such server.
    ///
    /// # Errors
    ///
    /// [`GaveUp`]: the runtime does not answer.
    pub fn settled(&self, server: &str, limit: Duration) -> Result<Option<ServerStatus>, GaveUp> {
        let Some(handle) = self.client.server(server) else { return Ok(None) };
        let settled = async move { handle.settled(tokio::time::Instant::now() + limit).await };
        self.runtime.run(limit + SLACK, settled).map(Some)
    }

    /// Shuts down and waits for the report, at most `limit`.
    ///
    /// # Errors
    ///
    /// The sequence is not over; it goes on, and calling again waits for it.
    pub fn shutdown(&self, limit: Duration) -> Result<Arc<ShutdownReport>, StillDraining> {
        // The waiting is the thread's own: a blocked runtime delays the report, never the caller.
        self.client.shutdown().wait(limit)
    }
}

/// The five operations; see [`Handlers`](crate::Handlers) for what goes in and comes out.
///
/// Each waits at most `limit` for the answer, whatever the runtime does.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            ///
            /// [`GaveUp`]: no answer within `limit`. The call itself ends at its own deadline.
            pub fn $name(&self, arguments: impl Into<String>, limit: Duration) -> Result<String, GaveUp> {
                let (handlers, arguments) = (self.client.handlers(), arguments.into());
                self.runtime.run(limit, async move { handlers.$name(&arguments).await })
            })*
        }
    };
}

operations! {
    /// Calls a tool.
    call_tool;
    /// Fills a prompt in.
    get_prompt;
    /// Lists prompts.
    list_prompts;
    /// Lists resources.
    list_resources;
    /// Reads a resource.
    read_resource;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_runs_work_as_soon_as_it_has_started() {
        let runtime = BackgroundRuntime::start().unwrap();
        assert_eq!(runtime.run(Duration::from_secs(10), async { 7 }), Ok(7));
    }

    #[test]
    fn a_thread_gives_up_on_time_although_the_runtime_is_blocked() {
        let runtime = BackgroundRuntime::start().unwrap();
        let (open, gate) = sync_channel::<()>(0);
        let (entered, inside) = sync_channel::<()>(0);
        // Blocks the thread that drives the runtime, timers and all.
        let blocker = async move {
            entered.send(()).unwrap();
            gate.recv().unwrap();
        };
        runtime.tasks.spawn_on(blocker, &runtime.handle);
        inside.recv().unwrap();
        let limit = Duration::from_millis(20);
        assert_eq!(runtime.run(limit, async { 1 }), Err(GaveUp::StillRunning(limit)));
        open.send(()).unwrap();
        assert_eq!(runtime.run(Duration::from_secs(10), async { 2 }), Ok(2));
    }

    #[test]
    fn dropping_a_runtime_ends_its_tasks() {
        let runtime = BackgroundRuntime::start().unwrap();
        let (guard, ended) = sync_channel::<()>(0);
        let task = async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        };
        runtime.tasks.spawn_on(task, &runtime.handle);
        drop(runtime);
        // The guard goes when the task is dropped.
        assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Err(RecvTimeoutError::Disconnected));
    }
}
