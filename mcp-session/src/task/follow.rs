use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mcp_proto::tasks::{GetTask, GetTaskPayload, Task, UpdateTask};
use mcp_proto::{InputAnswers, InputRequired, Method, Payload, Request};
use tokio::time::{Instant, sleep_until};

use crate::error::{CallError, ProtocolFault, TaskFault, UnsupportedWhy};
use crate::options::{CallOptions, RoundMode};
use crate::pending::{Patience, later};
use crate::rounds::{Gathering, gather, questions};
use crate::session::Session;
use crate::shared::{Origin, Shared};
use crate::slot::{Found, Show};
use crate::start::Pass;
use crate::task::TaskToken;
use crate::task::poll::{SHORTEST_PAUSE, Step, TaskPoll};
use crate::wakes::Watch;

/// A task on its way to its result.
pub(crate) type Following = Pin<Box<dyn Future<Output = FollowEnd> + Send>>;

/// How following a task has ended.
#[derive(Debug)]
pub(crate) enum FollowEnd {
    /// The task may still be at work.
    GivenUp(CallError),
    /// The task is over.
    Over(Result<Payload, CallError>),
}

/// Follows a task to its result, within `patience`: the hard limit is that of the whole, the soft one that
/// of each question, which progress under `token` prolongs; `depth` is that of the call.
pub(crate) async fn follow(
    session: Session,
    task: Task,
    token: Option<Arc<TaskToken>>,
    patience: Patience,
    mode: RoundMode,
    depth: u8,
) -> FollowEnd {
    let shared = &session.handle().shared;
    let task_id = task.task_id.clone();
    let watch = shared.tasks.followed.watch(&task_id);
    let now = Instant::now();
    let token = token.as_deref();
    let mut poll = TaskPoll::new(session.peer().era, session.handle().max_rounds, now);
    let mut step = poll.on_task(shared.discreet_task(task), now);
    loop {
        step = match step {
            Step::Over(end) => return FollowEnd::Over(end),
            Step::GiveUp(error) => return FollowEnd::GivenUp(error),
            Step::Fetch => {
                // It answers when the task is done, however long that takes.
                let options = CallOptions::default().with_deadline(patience.hard_end);
                return match ask(&session, token, &GetTaskPayload::new(task_id.as_str()), options).await {
                    Err(error @ CallError::Peer(_)) => FollowEnd::Over(Err(error)),
                    Err(error) => FollowEnd::GivenUp(error),
                    Ok(result) => FollowEnd::Over(Ok(result)),
                };
            }
            Step::Wait(pause) => {
                rest(&watch, pause, patience.hard_end).await;
                let question = GetTask::new(task_id.as_str());
                match ask(&session, token, &question, each(patience)).await.and_then(read) {
                    Ok(task) => poll.on_task(shared.discreet_task(task), Instant::now()),
                    Err(error) => poll.on_error(error, Instant::now()),
                }
            }
            Step::Answer(_) if mode == RoundMode::ByHand => Step::GiveUp(unanswered()),
            Step::Answer(required) => match answer(&session, &task_id, required, patience, depth).await {
                Ok(()) => poll.wait(Instant::now()),
                Err(error) => Step::GiveUp(error),
            },
        };
    }
}

/// Gives a task what it asks for.
async fn answer(
    session: &Session,
    task_id: &str,
    required: InputRequired,
    patience: Patience,
    depth: u8,
) -> Result<(), CallError> {
    let handle = session.handle();
    let questions = questions(handle.shared.service.as_ref(), &Method::TOOLS_CALL, &required)?;
    let gathering = Box::pin(gather(Arc::clone(handle), required, questions, depth));
    let answers = in_time(&handle.shared, gathering, patience, depth).await?.into_responses();
    match ask(session, None, &UpdateTask::new(task_id, answers), each(patience)).await {
        Ok(_) => Ok(()),
        Err(CallError::Peer(error)) => Err(CallError::Task(TaskFault::Untold(Box::new(error)))),
        Err(error) => Err(error),
    }
}

/// Gathers in a place of its own: the deadline ends that, and the handlers with it, also if nobody polls, and so
/// does the end of the session.
async fn in_time(
    shared: &Shared,
    gathering: Gathering,
    patience: Patience,
    depth: u8,
) -> Result<InputAnswers, CallError> {
    let origin = Origin { started: Instant::now(), depth, wants_progress: false };
    let place = shared.place_of_question(patience, origin);
    place.slot.gather(gathering);
    poll_fn(|cx| match place.slot.poll(&shared.transport, cx, Show::Nothing) {
        Poll::Ready(Found::Ended(ended)) => {
            // Nothing was sent that an answer could belong to, but the task is at work.
            let error = ended.result.err().unwrap_or(CallError::Protocol(ProtocolFault::NoAnswer));
            Poll::Ready(Err(error.of_later_round()))
        }
        _ => place.slot.poll_gathering(cx),
    })
    .await
}

/// Asks one thing about a task; it belongs to a call that was let in before.
async fn ask<R: Request>(
    session: &Session,
    token: Option<&TaskToken>,
    request: &R,
    options: CallOptions,
) -> Result<Payload, CallError> {
    let call = session.clone().start(R::METHOD, request, request.mirrored_name(), options, Pass::Again);
    let _asking = token.map(|token| token.asking(call.id()));
    call.await
}

/// The limits of one question.
fn each(patience: Patience) -> CallOptions {
    CallOptions::default().with_timeout(patience.soft).with_deadline(patience.hard_end)
}

fn read(task: Payload) -> Result<Task, CallError> {
    task.decode().map_err(|error| CallError::Protocol(ProtocolFault::Result(error)))
}

/// Waits, but not to the end once the server tells of a change, and not beyond the deadline.
async fn rest(watch: &Watch<'_>, pause: Duration, deadline: Instant) {
    let now = Instant::now();
    let told = async {
        watch.told().await;
        sleep_until(later(now, SHORTEST_PAUSE)).await;
    };
    tokio::select! {
        biased;
        // The end first: it needs no look at what was told.
        () = sleep_until(later(now, pause).min(deadline)) => {}
        () = told => {}
    }
}

fn unanswered() -> CallError {
    CallError::Unsupported { method: Method::TOOLS_CALL, why: UnsupportedWhy::InputRequired }
}
