//! Tasks of a server: work that outlives the request that began it.

mod follow;
mod followed;
mod interest;
mod known;
mod poll;
mod ticket;
mod token;
mod wanted;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use mcp_proto::tasks::{CancelTask, GetTask, Task, TaskRequest, UpdateTask};
use mcp_proto::{CallTool, CallToolResult, Entries, Era, Method, Payload, RawJson, for_version};
use tokio::time::Instant;

use crate::depth;
use crate::error::{CallError, ProtocolFault, UnsupportedWhy};
use crate::gate::LiveSession;
use crate::options::{CallOptions, ProgressHandler, TaskMode};
use crate::session::Session;
use crate::slot::Kept;
use crate::start::Pass;
use crate::task::follow::FollowEnd;
use crate::task::interest::Interest;

pub(crate) use follow::follow;
pub(crate) use followed::FollowedTask;
pub(crate) use known::Tasks;
pub(crate) use ticket::{TaskPlace, Ticket};
pub(crate) use token::TaskToken;

/// What a server has made of a call that may become a task.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartedTask {
    /// It has answered at once, as it may in the modern era.
    Done(CallToolResult),
    /// A task, which goes on until it is done or cancelled.
    Running(TaskHandle),
}

/// One task of a server, seen through one session. Cheap to clone; dropping it changes nothing about the task.
///
/// The task belongs to the server and may outlive the session: keep its [`id`](Self::id), and look at it
/// through another session of the same server with [`Session::task`]. While the handle or a clone of it is
/// held and the task is not known to be over, it is one of the
/// [tasks that somebody wants](Session::wanted_tasks).
///
/// # Progress
///
/// On 2025-11-25 the progress of a task goes on until the task is over, as that of the call that has begun
/// it; the extension has none. It is shown to the handler of that call, or to that of
/// [`result`](Self::result), inside the polls of [`get`](Self::get) and `result`, and it prolongs what is
/// being asked about the task as it prolongs a call. It is told as long as a handle lives that has begun the
/// task, or one that [`Session::task`] has made of the same session meanwhile.
///
/// # Source
///
/// MCP 2025-11-25, basic/utilities/tasks; SEP-2663 (the extension, with 2026-07-28).
#[derive(Clone)]
pub struct TaskHandle {
    session: Session,
    id: String,
    created: Option<Box<Task>>,
    interest: Arc<Interest>,
    /// Has progress told; `None` where there is none.
    token: Option<Arc<TaskToken>>,
    /// Is shown progress.
    progress: Option<ProgressHandler>,
}

impl Session {
    /// Calls a tool, and takes the task that the server makes of it.
    ///
    /// On 2025-11-25 the server is asked for a task, with the time to live in `call.task` if it is given.
    /// In the modern era (extension tasks, see
    /// [`SessionOptions::with_tasks`](crate::SessionOptions::with_tasks)) the server decides whether it makes
    /// a task of the call. `options` hold until then, but for the progress handler, which goes along with the
    /// task; no permit is held after it.
    ///
    /// # Errors
    ///
    /// - [`CallError::Unsupported`]: the server, or the version, has no tasks; nothing was sent.
    /// - others: as for [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the call up. A task of which nobody knows yet is cancelled, also if the
    /// server tells of it later.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, basic/utilities/tasks; SEP-2663.
    pub async fn start_task(&self, call: CallTool, options: CallOptions) -> Result<StartedTask, CallError> {
        self.start_task_through(call, options, Pass::Session).await
    }

    /// Looks at a task that was begun before, through this session or another one of the same server.
    /// Nothing is sent by this. Progress is told if the task was begun through this very session and a
    /// handle of it is still there, see [`TaskHandle`].
    #[must_use]
    pub fn task(&self, task_id: impl Into<String>) -> TaskHandle {
        let id = task_id.into();
        let token = self.handle().shared.tasks.tokens.of(&id);
        let interest = Arc::new(Interest::begin(&self.handle().shared));
        TaskHandle { session: self.clone(), id, created: None, interest, token, progress: None }
    }

    /// Tasks that may still be at work while somebody holds a [`TaskHandle`] of them, or begins them with
    /// [`start_task`](Self::start_task). A task is known to be over when its
    /// [result](TaskHandle::result) was taken, when an [answer](TaskHandle::get) that says so contains it
    /// (modern era), or when it was [cancelled](TaskHandle::cancel). Handles that were begun or named apart
    /// count each, also if they are of one task.
    #[must_use]
    pub fn wanted_tasks(&self) -> usize {
        self.handle().shared.tasks.wanted.count()
    }

    /// Waits until there are no [wanted tasks](Self::wanted_tasks).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn no_task_wanted(&self) {
        self.handle().shared.tasks.wanted.none().await;
    }

    async fn start_task_through(
        &self,
        mut call: CallTool,
        mut options: CallOptions,
        pass: Pass,
    ) -> Result<StartedTask, CallError> {
        let refuse = |why| CallError::Unsupported { method: Method::TASKS_GET, why };
        if self.agreed().task_mode(&Method::TOOLS_CALL, true) == TaskMode::Refused {
            return Err(refuse(UnsupportedWhy::Capability));
        }
        match self.peer().era {
            Era::Legacy => {
                call.task.get_or_insert_with(TaskRequest::default);
            }
            Era::Modern => call.task = None,
        }
        options.takes_task = true;
        let progress = options.progress.clone();
        // From the beginning, so that there is no moment in which the task is nobody's.
        let interest = Arc::new(Interest::begin(&self.handle().shared));
        let call =
            for_version(&call, self.peer().version).map_err(|lack| refuse(UnsupportedWhy::Version(lack)))?;
        let mut call = self.clone().start(Method::TOOLS_CALL, &*call, Some(&call.name), options, pass);
        let (result, kept) = poll_fn(|cx| call.poll_answer(cx)).await?;
        if let Kept::Task(place) = &kept {
            place.hand_over(&self.handle().shared.transport).await?;
        }
        match self.agreed().task_in(&result) {
            Some(task) => Ok(StartedTask::Running(TaskHandle {
                session: self.clone(),
                id: task.task_id.clone(),
                created: Some(Box::new(task)),
                interest,
                token: kept.into_token(),
                progress,
            })),
            None => read(&result).map(StartedTask::Done),
        }
    }
}

impl LiveSession {
    /// Calls a tool, and takes the task that the server makes of it; the permit is free as soon as the
    /// server has answered. See [`Session::start_task`].
    ///
    /// # Errors
    ///
    /// As [`Session::start_task`].
    ///
    /// # Cancel safety
    ///
    /// As [`Session::start_task`].
    pub async fn start_task(self, call: CallTool, options: CallOptions) -> Result<StartedTask, CallError> {
        let (session, permit) = self.into_parts();
        session.start_task_through(call, options, Pass::Gate(permit)).await
    }
}

impl TaskHandle {
    /// What the server calls the task.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The task as the server has told of it at its beginning; `None` for one that was begun before.
    #[must_use]
    pub fn created(&self) -> Option<&Task> {
        self.created.as_deref()
    }

    /// Asks how the task is.
    ///
    /// # Errors
    ///
    /// As for [`Session::call`]. [`CallError::Peer`]: the server does not know the task, or not any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing about the task.
    pub async fn get(&self, options: CallOptions) -> Result<Task, CallError> {
        self.shown(self.progress.clone(), self.ask(options)).await
    }

    /// Follows the task to its end and takes its result, in the way of a [`Call`](crate::Call) whose answer
    /// is a task. What it asks for on the way is answered by the [`ClientHandler`](crate::ClientHandler).
    /// Progress is shown to the handler of `options`, or else to that of the call that has begun the task.
    ///
    /// Time with a person counts for the deadline, and not for the time-out, which is that of each question to the
    /// server. The deadline ends what is asked of the handler also if nobody polls the future.
    ///
    /// # Errors
    ///
    /// - [`CallError::Peer`]: the call has failed with this error.
    /// - [`CallError::Task`]: it came to no result, or the server does not tell.
    /// - others: as for [`Session::call`]. Whether the task goes on is not known then, and it is not
    ///   cancelled: ask again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing about the task; an answer that was being gathered is lost.
    pub async fn result(&self, mut options: CallOptions) -> Result<CallToolResult, CallError> {
        let handler = options.progress.take().or_else(|| self.progress.clone());
        self.shown(handler, self.follow(options)).await
    }

    /// Gives the task what it asks for, by the keys of [`Task::input_requests`] (modern era).
    ///
    /// # Errors
    ///
    /// As for [`Session::call`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request; the answers may have reached the server.
    pub async fn update(&self, answers: Entries<RawJson>, options: CallOptions) -> Result<(), CallError> {
        self.session.call(UpdateTask::new(self.id(), answers), options).await.map(drop)
    }

    /// Asks the server to cancel the task, which may come to another end all the same.
    ///
    /// # Errors
    ///
    /// As for [`Session::call`]. [`CallError::Peer`]: there is nothing to cancel.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the request up; it may have reached the server.
    pub async fn cancel(&self, options: CallOptions) -> Result<(), CallError> {
        let cancelled = self.session.call(CancelTask::new(self.id()), options).await?;
        if cancelled.status.is_some_and(|status| status.is_final()) {
            self.is_over();
            self.interest.end();
        }
        Ok(())
    }

    async fn ask(&self, options: CallOptions) -> Result<Task, CallError> {
        let call = self.session.call(GetTask::new(self.id()), options);
        let _asking = self.token.as_ref().map(|token| token.asking(call.id()));
        let task = call.await?;
        if task.status.is_final() {
            self.is_over();
            // In the legacy era the result is still to be fetched.
            if self.session.peer().era == Era::Modern {
                self.interest.end();
            }
        }
        Ok(task)
    }

    async fn follow(&self, options: CallOptions) -> Result<CallToolResult, CallError> {
        let patience = self.session.handle().patience(options.began.unwrap_or_else(Instant::now), &options);
        let rounds = options.rounds;
        let task = match &self.created {
            Some(task) => Task::clone(task),
            None => self.ask(options).await?,
        };
        let (session, token) = (self.session.clone(), self.token.clone());
        match follow(session, task, token, patience, rounds, depth::of_this_call()).await {
            FollowEnd::Over(result) => {
                self.is_over();
                self.interest.end();
                read(&result?)
            }
            FollowEnd::GivenUp(error) => Err(error),
        }
    }

    /// Shows the progress of the task while `work` goes on.
    async fn shown<T>(&self, handler: Option<ProgressHandler>, work: impl Future<Output = T>) -> T {
        match (&self.token, handler) {
            (Some(token), Some(handler)) => token.shown(handler, work).await,
            _ => work.await,
        }
    }

    /// Nothing is told of a task that is over.
    fn is_over(&self) {
        if let Some(token) = &self.token {
            token.end();
        }
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id()).finish_non_exhaustive()
    }
}

fn read(result: &Payload) -> Result<CallToolResult, CallError> {
    result.decode().map_err(|error| CallError::Protocol(ProtocolFault::Result(error)))
}
