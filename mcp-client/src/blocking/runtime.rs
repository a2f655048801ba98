use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::wait::{Interrupt, Wait, Woken};

/// How long the end of the runtime waits for its last tasks.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// A runtime in a thread of its own, for callers that have none.
///
/// It is made inside its thread and has reported that it runs before anything can be given to it, so
/// a start that fails is an error of [`start`](Self::start) and leaves nothing behind. Any number of threads
/// may use it at once.
///
/// [`end`](Self::end) ends it and waits for that; dropping it asks it to end and does not wait.
#[derive(Debug)]
#[must_use = "dropping the runtime ends everything on it"]
pub struct BackgroundRuntime {
    handle: Handle,
    tasks: TaskTracker,
    /// Sequences with limits of their own, which the end of the runtime must not overtake.
    sequences: TaskTracker,
    stop: CancellationToken,
    thread: Option<Thread>,
}

/// The thread, and what it says last.
#[derive(Debug)]
struct Thread {
    handle: thread::JoinHandle<()>,
    /// Closed when the thread has nothing left to do. Only the one that ends it looks.
    ended: Mutex<Receiver<()>>,
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

/// A thread stopped waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GaveUp {
    /// The work has not come to its end in time, and was cancelled.
    #[error("not finished within {} ms; it was cancelled", .0.as_millis())]
    Cancelled(Duration),
    /// The wait was interrupted, and the work was cancelled.
    #[error("interrupted; what was waited for was cancelled")]
    Interrupted,
    /// The work has panicked.
    #[error("a task of the background runtime has panicked")]
    Panicked,
    /// The runtime has ended, and the work with it.
    #[error("the background runtime has ended")]
    RuntimeGone,
    /// The work has not come to its end in time. It goes on.
    #[error("not finished within {} ms; it goes on in the background", .0.as_millis())]
    StillRunning(Duration),
}

impl BackgroundRuntime {
    /// Starts the thread and waits until the runtime in it runs.
    ///
    /// # Errors
    ///
    /// The system refused a thread or what a runtime needs.
    pub fn start() -> Result<Self, RuntimeError> {
        let (tasks, sequences, stop) = (TaskTracker::new(), TaskTracker::new(), CancellationToken::new());
        let (report, ready) = sync_channel(1);
        let (running, ended) = sync_channel::<()>(1);
        let (tasks_inside, sequences_inside, stop_inside) = (tasks.clone(), sequences.clone(), stop.clone());
        let main = move || {
            let _running = running;
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
                sequences_inside.close();
                sequences_inside.wait().await;
                tasks_inside.close();
                if tokio::time::timeout(LAST_TASKS, tasks_inside.wait()).await.is_err() {
                    tracing::warn!(tasks = tasks_inside.len(), "tasks outlived the background runtime");
                }
            });
            runtime.shutdown_timeout(LAST_TASKS);
        };
        let thread = thread::Builder::new().name("mcp-runtime".to_owned()).spawn(main);
        let handle = thread.map_err(RuntimeError::Thread)?;
        let thread = Some(Thread { handle, ended: Mutex::new(ended) });
        let handle = ready.recv().map_err(|_| RuntimeError::Lost)??;
        Ok(Self { handle, tasks, sequences, stop, thread })
    }

    /// Runs `work` on the runtime and waits for it, at most `limit`.
    ///
    /// The waiting is the thread's own and needs no help of the runtime: it ends on time even if the
    /// runtime's thread is blocked.
    ///
    /// # Errors
    ///
    /// [`GaveUp::StillRunning`]: the work is not finished. It is not cancelled by that.
    /// [`GaveUp::RuntimeGone`] or [`GaveUp::Panicked`]: it never will be.
    pub fn run<T, W>(&self, limit: Duration, work: W) -> Result<T, GaveUp>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let (tell, woken) = sync_channel(1);
        let teller = Teller(tell);
        let work = async move {
            let teller = teller;
            teller.done(work.await);
        };
        self.tasks.spawn_on(work, &self.handle);
        outcome(woken.recv_timeout(limit), GaveUp::StillRunning(limit))
    }

    /// Runs `work` on the runtime and waits for it as `wait` says; when the thread gives up, the work is
    /// dropped.
    ///
    /// The waiting is the thread's own, as in [`run`](Self::run). On a runtime whose thread is blocked the
    /// work ends as soon as it is not any more; what was not begun by then never begins.
    ///
    /// # Errors
    ///
    /// [`GaveUp::Cancelled`] or [`GaveUp::Interrupted`]; if the interrupt has happened before, the work is not
    /// begun. [`GaveUp::RuntimeGone`] or [`GaveUp::Panicked`]: there is no work any more.
    pub fn run_or_cancel<T, W>(&self, wait: impl Into<Wait>, work: W) -> Result<T, GaveUp>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let Wait { limit, interrupt } = wait.into();
        if interrupt.as_ref().is_some_and(Interrupt::is_interrupted) {
            return Err(GaveUp::Interrupted);
        }
        let given_up = CancellationToken::new();
        // Whatever ends the wait, also a panic of this thread, ends the work.
        let _give_up = given_up.clone().drop_guard();
        let (tell, woken) = sync_channel(1);
        let teller = Teller(tell.clone());
        let work = async move {
            let teller = teller;
            let output = tokio::select! {
                biased;
                () = given_up.cancelled() => return,
                output = work => output,
            };
            teller.done(output);
        };
        let _waiting = interrupt.as_ref().map(|interrupt| {
            interrupt.on_interrupt(move || {
                let _ = tell.try_send(Woken::Interrupted);
            })
        });
        self.tasks.spawn_on(work, &self.handle);
        outcome(woken.recv_timeout(limit), GaveUp::Cancelled(limit))
    }

    /// Ends the runtime and waits for its thread, at most `limit`. A shutdown that is under way is not
    /// overtaken; other tasks have one second to end.
    ///
    /// # Errors
    ///
    /// [`GaveUp::StillRunning`]: it has not ended yet; it goes on ending.
    pub fn end(mut self, limit: Duration) -> Result<(), GaveUp> {
        self.stop.cancel();
        let Some(Thread { handle, ended }) = self.thread.take() else { return Ok(()) };
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => Err(GaveUp::StillRunning(limit)),
            // Its last act: it ends without waiting for anything any more.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                if handle.join().is_err() {
                    tracing::error!("the thread of the background runtime panicked");
                }
                Ok(())
            }
        }
    }

    /// Has the runtime go on until `sequence` has ended, which must have a limit of its own.
    pub(super) fn see_out(&self, sequence: impl Future<Output = ()> + Send + 'static) {
        self.sequences.spawn_on(sequence, &self.handle);
    }

    /// The runtime, to give to [`ClientBuilder::start`](crate::ClientBuilder::start).
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Tells a thread what became of its work, also if the work goes without having come to its end: an
/// interrupt keeps the channel open, so that its closing would tell nothing.
///
/// What is told first counts; nobody listens any more if the thread has given up.
struct Teller<T>(SyncSender<Woken<T>>);

impl<T> Teller<T> {
    fn done(&self, output: T) {
        let _ = self.0.try_send(Woken::Done(output));
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        let _ = self.0.try_send(if thread::panicking() { Woken::Panicked } else { Woken::Lost });
    }
}

/// What a thread tells its caller, who gets `late` if nothing has woken it.
fn outcome<T>(woken: Result<Woken<T>, RecvTimeoutError>, late: GaveUp) -> Result<T, GaveUp> {
    match woken {
        Ok(Woken::Done(output)) => Ok(output),
        Ok(Woken::Interrupted) => Err(GaveUp::Interrupted),
        Ok(Woken::Panicked) => Err(GaveUp::Panicked),
        Ok(Woken::Lost) | Err(RecvTimeoutError::Disconnected) => Err(GaveUp::RuntimeGone),
        Err(RecvTimeoutError::Timeout) => Err(late),
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What is left of `limit` since `began`.
pub(super) fn rest(limit: Duration, began: Instant) -> Duration {
    limit.saturating_sub(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

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
    fn a_thread_learns_at_once_that_its_work_is_gone_although_it_could_be_interrupted() {
        let wait = || Wait::at_most(LONG).until(&Interrupt::new());
        let runtime = BackgroundRuntime::start().unwrap();
        assert_eq!(
            runtime.run_or_cancel(wait(), async { panic!("on purpose") }),
            Err::<(), _>(GaveUp::Panicked)
        );
        assert_eq!(runtime.run(LONG, async { panic!("on purpose") }), Err::<(), _>(GaveUp::Panicked));
        let began = Instant::now();
        thread::scope(|scope| {
            let (entered, inside) = sync_channel::<()>(0);
            let waiting = scope.spawn(|| {
                let work = async move {
                    entered.send(()).unwrap();
                    std::future::pending::<()>().await
                };
                runtime.run_or_cancel(wait(), work)
            });
            inside.recv().unwrap();
            runtime.stop.cancel();
            assert_eq!(waiting.join().unwrap(), Err(GaveUp::RuntimeGone));
        });
        assert_eq!(runtime.run_or_cancel(wait(), async {}), Err(GaveUp::RuntimeGone));
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    }

    #[test]
    fn what_is_interrupted_already_is_not_begun() {
        let runtime = BackgroundRuntime::start().unwrap();
        let interrupt = Interrupt::new();
        interrupt.interrupt();
        let (begun, has_begun) = sync_channel(1);
        let work = async move { begun.send(()).unwrap() };
        let wait = Wait::at_most(LONG).until(&interrupt);
        assert_eq!(runtime.run_or_cancel(wait, work), Err(GaveUp::Interrupted));
        runtime.end(LONG).unwrap();
        assert!(has_begun.try_recv().is_err());
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

    #[test]
    fn what_a_thread_gave_up_never_begins_on_a_runtime_that_was_blocked() {
        let runtime = BackgroundRuntime::start().unwrap();
        let (open, gate) = sync_channel::<()>(0);
        let (entered, inside) = sync_channel::<()>(0);
        let blocker = async move {
            entered.send(()).unwrap();
            gate.recv().unwrap();
        };
        runtime.tasks.spawn_on(blocker, &runtime.handle);
        inside.recv().unwrap();
        let (begun, has_begun) = sync_channel::<()>(1);
        let limit = Duration::from_millis(20);
        let work = async move { begun.send(()).unwrap() };
        assert_eq!(runtime.run_or_cancel(limit, work), Err(GaveUp::Cancelled(limit)));
        open.send(()).unwrap();
        // The task is dropped, and with it the sender, without having run.
        assert_eq!(has_begun.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn an_interrupt_ends_the_waits_of_all_threads_and_what_they_waited_for() {
        let runtime = BackgroundRuntime::start().unwrap();
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let waiting = || {
                let wait = Wait::at_most(LONG).until(&interrupt);
                runtime.run_or_cancel(wait, std::future::pending::<()>())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(waiting)).collect();
            while runtime.tasks.len() < 4 {
                thread::yield_now();
            }
            interrupt.interrupt();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), Err(GaveUp::Interrupted));
            }
        });
        let late = Wait::at_most(LONG).until(&interrupt);
        assert_eq!(runtime.run_or_cancel(late, std::future::pending::<()>()), Err(GaveUp::Interrupted));
        runtime.end(LONG).unwrap();
    }

    #[test]
    fn the_end_of_a_runtime_is_waited_for_and_no_longer_than_the_limit() {
        let runtime = BackgroundRuntime::start().unwrap();
        let (open, gate) = sync_channel::<()>(0);
        let (entered, inside) = sync_channel::<()>(0);
        let blocker = async move {
            entered.send(()).unwrap();
            gate.recv().unwrap();
        };
        runtime.tasks.spawn_on(blocker, &runtime.handle);
        inside.recv().unwrap();
        let limit = Duration::from_millis(20);
        assert_eq!(runtime.end(limit), Err(GaveUp::StillRunning(limit)));
        open.send(()).unwrap();

        BackgroundRuntime::start().unwrap().end(LONG).unwrap();
    }

    #[test]
    fn the_end_of_a_runtime_does_not_overtake_a_sequence_that_takes_longer_than_tasks_may() {
        let runtime = BackgroundRuntime::start().unwrap();
        let (done, is_done) = sync_channel(1);
        runtime.see_out(async move {
            tokio::time::sleep(LAST_TASKS + Duration::from_millis(200)).await; // longer than other tasks may
            done.send(()).unwrap();
        });
        runtime.end(LONG).unwrap();
        assert_eq!(is_done.try_recv(), Ok(()));
    }
}
