use std::collections::BTreeSet;
use std::time::Duration;

use mcp_proto::tasks::{Task, TaskStatus};
use mcp_proto::{Entries, Era, InputRequest, InputRequired, Payload, RawJson, code, escape};
use tokio::time::Instant;

use crate::error::{CallError, ProtocolFault, TaskFault};
use crate::pending::later;
use crate::rounds::MAX_INPUTS;

/// How often a task is asked about at most: not before this long after the last question.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// How long to wait between two questions where the server wishes for nothing.
const USUAL_PAUSE: Duration = Duration::from_secs(1);

/// How long to wait at most, whatever the server wishes.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How many questions in a row may be lost before the task is given up.
const MOST_LOST: u32 = 3;

/// Longest text of a server that an error quotes, in bytes.
const QUOTED: usize = 512;

/// Decides when a task is asked about, and what the answers mean.
///
/// Pure: no I/O, no clock. In the legacy era the result is fetched with a request of its own, which also
/// waits for it; in the modern era it is part of the last answer, and what the task asks for is answered
/// by an update.
///
/// ```text
///            ┌──── wait ◀────┐  working, asked before, or a question was lost
///            ▼               │
///   task ─▶ on_task ─────────┼─▶ fetch           legacy: completed, failed, input required
///            ▲               │
///            └──── answer ◀──┼─  modern: input required
///                            └─▶ over, give up
/// ```
#[derive(Debug)]
pub(crate) struct TaskPoll {
    era: Era,
    /// When the server began to keep the task, as far as is known here.
    began: Instant,
    /// How long it keeps it.
    time_to_live: Option<Duration>,
    pause: Duration,
    lost: u32,
    /// What was asked for before, by its keys, which a task never uses twice.
    asked: BTreeSet<String>,
    updates: u32,
    max_updates: u32,
}

/// What is to be done about a task.
#[derive(Debug)]
pub(crate) enum Step {
    /// Give it what it asks for, then ask again.
    Answer(InputRequired),
    /// Fetch its result, which may take as long as the task does.
    Fetch,
    /// It will change no more: this has come of it.
    Over(Result<Payload, CallError>),
    /// It may still be at work, and is given up.
    GiveUp(CallError),
    /// Ask again after this time, or earlier if the server tells of a change.
    Wait(Duration),
}

impl TaskPoll {
    /// Follows a task of which was heard at `now`; what it asks for is given to it `max_updates` times
    /// at most.
    pub(crate) fn new(era: Era, max_updates: u32, now: Instant) -> Self {
        Self {
            era,
            began: now,
            time_to_live: None,
            pause: USUAL_PAUSE,
            lost: 0,
            asked: BTreeSet::new(),
            updates: 0,
            max_updates,
        }
    }

    /// The server has told how the task is.
    pub(crate) fn on_task(&mut self, task: Task, now: Instant) -> Step {
        self.lost = 0;
        // Both may change.
        self.time_to_live = task.time_to_live().or(self.time_to_live);
        self.pause = task.poll_pause().unwrap_or(self.pause).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let says = |task: &Task| escape(task.status_message.as_deref().unwrap_or(""), QUOTED).into_owned();
        match (&task.status, self.era) {
            (TaskStatus::Cancelled, _) => Step::Over(Err(CallError::Task(TaskFault::Cancelled(says(&task))))),
            (TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired, Era::Legacy) => {
                Step::Fetch
            }
            (TaskStatus::Completed, Era::Modern) => Step::Over(result_of(task.result.as_ref())),
            (TaskStatus::Failed, Era::Modern) => {
                let fault = TaskFault::Failed(says(&task));
                Step::Over(Err(task.error.map_or(CallError::Task(fault), CallError::Peer)))
            }
            (TaskStatus::InputRequired, Era::Modern) => self.on_input(task.input_requests, now),
            _ => self.wait(now),
        }
    }

    /// A question about the task has brought no answer to work with.
    pub(crate) fn on_error(&mut self, error: CallError, now: Instant) -> Step {
        match error {
            CallError::Peer(error) => {
                let is_unknown = matches!(error.code, code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND);
                let fault = CallError::Task(TaskFault::Untold(Box::new(error)));
                if is_unknown { Step::Over(Err(fault)) } else { Step::GiveUp(fault) }
            }
            CallError::Lost | CallError::Http(_) if self.lost < MOST_LOST && may_pass(&error) => {
                self.lost += 1;
                match self.wait(now) {
                    Step::Wait(pause) => Step::Wait(pause.max(error.retry_after().unwrap_or_default())),
                    step => step,
                }
            }
            error => Step::GiveUp(error),
        }
    }

    /// The task asks for something. The same may be seen again until its server has taken the answer.
    fn on_input(&mut self, requests: Option<Entries<InputRequest>>, now: Instant) -> Step {
        // One more than is answered is enough to be refused.
        let asked: Entries<InputRequest> = requests
            .iter()
            .flat_map(Entries::iter)
            .filter(|(key, _)| !self.asked.contains(*key))
            .take(MAX_INPUTS + 1)
            .map(|(key, request)| (key.to_owned(), request.clone()))
            .collect();
        if asked.is_empty() {
            return self.wait(now);
        }
        if self.updates == self.max_updates {
            return Step::GiveUp(CallError::Protocol(ProtocolFault::Rounds(self.updates)));
        }
        self.updates += 1;
        self.asked.extend(asked.iter().map(|(key, _)| key.to_owned()));
        let mut required = InputRequired::default();
        required.input_requests = Some(asked);
        Step::Answer(required)
    }

    /// Waits, but asks once more when the server is about to forget the task.
    pub(crate) fn wait(&self, now: Instant) -> Step {
        let Some(time_to_live) = self.time_to_live else { return Step::Wait(self.pause) };
        let left = later(self.began, time_to_live).saturating_duration_since(now);
        if left.is_zero() {
            return Step::GiveUp(CallError::Task(TaskFault::Expired { time_to_live }));
        }
        Step::Wait(self.pause.min(left).max(SHORTEST_PAUSE))
    }
}

/// Whether the next question may fare better.
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Http(rejection) => matches!(rejection.status, 429 | 502..=504),
        _ => true,
    }
}

fn result_of(result: Option<&RawJson>) -> Result<Payload, CallError> {
    let result = result.ok_or(CallError::Protocol(ProtocolFault::NoAnswer))?;
    Payload::encode(result).map_err(|error| CallError::Protocol(ProtocolFault::Result(error)))
}
