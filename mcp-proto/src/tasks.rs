//! Tasks: work that outlives the request that began it, in the form of 2025-11-25 and in that of the
//! extension tasks (with 2026-07-28).
//!
//! # Source
//!
//! MCP 2025-11-25, basic/utilities/tasks; SEP-2663.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::entries::Entries;
use crate::error::ErrorObject;
use crate::input_required::InputRequest;
use crate::message::message;
use crate::method::Method;
use crate::open_enum::open_enum;
use crate::other_members::OtherMembers;
use crate::payload::{DecodeError, Payload};
use crate::ping::EmptyResult;
use crate::raw_json::RawJson;
use crate::request::{Notification, Paginated, Request};
use crate::result_type::ResultType;
use crate::version::ProtocolVersion;
use crate::versioned::{NotInVersion, Versioned};

message! {
    /// Asks for a task instead of an answer (2025-11-25 only).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    TaskRequest {
        /// How long the task is to be kept, in milliseconds.
        ttl_ms: Option<u64> = "ttl", Hint;
    }
}

message! {
    /// Work that outlives the request that began it (2025-11-25, and the extension tasks).
    ///
    /// Both forms are read into one type: times have a member for each of their two names, and what has
    /// come of the task is told by the extension alone.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    Task {
        /// What kind of result it came as.
        result_type: Option<ResultType> = "resultType", Hint, since V2026_07_28;
        /// Names the task.
        task_id: String = "taskId", Required;
        /// How far it is.
        status: TaskStatus = "status", Required;
        /// What is going on, for people; untrusted.
        status_message: Option<String> = "statusMessage", Hint;
        /// When it began, in ISO 8601 by the specification, unchecked.
        created_at: Option<String> = "createdAt", Hint;
        /// When it last changed, in ISO 8601 by the specification, unchecked.
        last_updated_at: Option<String> = "lastUpdatedAt", Hint;
        /// How long it is kept from its beginning, in milliseconds; see [`Task::time_to_live`].
        ttl: Option<u64> = "ttl", Hint, until V2025_11_25;
        /// As [`Task::ttl`], by the name of the extension.
        ttl_ms: Option<u64> = "ttlMs", Hint, since V2026_07_28;
        /// How long to wait between two questions, in milliseconds; see [`Task::poll_pause`].
        poll_interval: Option<u64> = "pollInterval", Hint, until V2025_11_25;
        /// As [`Task::poll_interval`], by the name of the extension.
        poll_interval_ms: Option<u64> = "pollIntervalMs", Hint, since V2026_07_28;
        /// What it asks for while it is [`TaskStatus::InputRequired`], under keys that it never uses twice.
        input_requests: Option<Entries<InputRequest>> = "inputRequests", Optional, since V2026_07_28;
        /// What has come of it once it is [`TaskStatus::Completed`]: what the request would have been
        /// answered with.
        result: Option<RawJson> = "result", Present, since V2026_07_28;
        /// Why it is [`TaskStatus::Failed`].
        error: Option<ErrorObject> = "error", Optional, since V2026_07_28;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

open_enum! {
    /// How far a task is.
    #[derive(Default)]
    TaskStatus {
        /// It is at work.
        #[default]
        Working = "working",
        /// It waits for an answer.
        InputRequired = "input_required",
        /// It has come to a result, which may say that a tool has failed.
        Completed = "completed",
        /// The request has failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

message! {
    /// Says that a request has become a task (2025-11-25 only; see [`Task::of_created`]).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    CreateTaskResult {
        /// The task.
        task: Task = "task", Required;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// Asks how a task is getting on (2025-11-25, and the extension tasks).
    #[derive(Debug, Clone, PartialEq, Eq)]
    GetTask skipping "_meta" {
        /// Which task.
        task_id: String = "taskId", Required;
    }
}

message! {
    /// Asks for the result of a task, which waits for it (2025-11-25 only).
    #[derive(Debug, Clone, PartialEq, Eq)]
    GetTaskPayload skipping "_meta" {
        /// Which task.
        task_id: String = "taskId", Required;
    }
}

message! {
    /// Cancels a task, which may end in another way all the same (2025-11-25, and the extension tasks).
    #[derive(Debug, Clone, PartialEq, Eq)]
    CancelTask skipping "_meta" {
        /// Which task.
        task_id: String = "taskId", Required;
    }
}

message! {
    /// The answer to [`CancelTask`]: the task (2025-11-25), or nothing (the extension).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    CancelTaskResult {
        /// Which task.
        task_id: Option<String> = "taskId", Hint, until V2025_11_25;
        /// How far it is.
        status: Option<TaskStatus> = "status", Hint, until V2025_11_25;
    }
}

message! {
    /// Gives a task the answers it waits for (the extension tasks).
    #[derive(Debug, Clone, PartialEq, Eq)]
    UpdateTask skipping "_meta" {
        /// Which task.
        task_id: String = "taskId", Required;
        /// The answers, by the keys of [`Task::input_requests`].
        input_responses: Entries<RawJson> = "inputResponses", Required;
    }
}

message! {
    /// Lists tasks, one page at a time (2025-11-25 only).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ListTasks skipping "_meta" {
        /// Which page, as given by the page before; `None` is the first.
        cursor: Option<String> = "cursor", Optional;
    }
}

message! {
    /// One page of [`ListTasks`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ListTasksResult {
        /// The tasks.
        tasks: Vec<Task> = "tasks", List;
        /// Where the next page is; `None` ends the list, the empty text does not.
        next_cursor: Option<String> = "nextCursor", Optional;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

/// A task has changed (2025-11-25 only); the parameters are the task itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskStatusChanged(pub Task);

/// A task has changed (the extension tasks); the parameters are the task itself.
///
/// It comes on a subscription that names the task, see
/// [`SubscriptionFilter::task_ids`](crate::SubscriptionFilter::task_ids).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskChanged(pub Task);

impl Task {
    /// Reads the task out of a result that says that the request has become one, in the form of either
    /// version.
    ///
    /// # Errors
    ///
    /// The result has neither form.
    pub fn of_created(result: &Payload) -> Result<Self, DecodeError> {
        match result.decode::<CreateTaskResult>() {
            Ok(created) => Ok(created.task),
            Err(_) => result.decode(),
        }
    }

    /// How long the task is kept from its beginning; `None` where that is not limited or not told.
    #[must_use]
    pub fn time_to_live(&self) -> Option<Duration> {
        self.ttl_ms.or(self.ttl).map(Duration::from_millis)
    }

    /// How long to wait between two questions, where the server wishes for something; it may change.
    #[must_use]
    pub fn poll_pause(&self) -> Option<Duration> {
        self.poll_interval_ms.or(self.poll_interval).map(Duration::from_millis)
    }
}

impl TaskStatus {
    /// Whether the task will not change any more.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Completed | Self::Failed)
    }
}

macro_rules! about_a_task {
    ($($request:ident),*) => {
        $(impl $request {
            /// Asks it of the task `task_id`.
            pub fn new(task_id: impl Into<String>) -> Self {
                Self { task_id: task_id.into(), other: OtherMembers::default() }
            }
        })*
    };
}

about_a_task!(GetTask, GetTaskPayload, CancelTask);

impl UpdateTask {
    /// Gives the task `task_id` the answers `input_responses`.
    pub fn new(task_id: impl Into<String>, input_responses: Entries<RawJson>) -> Self {
        Self { task_id: task_id.into(), input_responses, other: OtherMembers::default() }
    }
}

impl Request for GetTask {
    const METHOD: Method = Method::TASKS_GET;
    type Result = Task;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.task_id)
    }
}

impl Request for GetTaskPayload {
    const METHOD: Method = Method::TASKS_RESULT;
    type Result = RawJson;
}

impl Request for CancelTask {
    const METHOD: Method = Method::TASKS_CANCEL;
    type Result = CancelTaskResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.task_id)
    }
}

impl Request for UpdateTask {
    const METHOD: Method = Method::TASKS_UPDATE;
    type Result = EmptyResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.task_id)
    }
}

impl Request for ListTasks {
    const METHOD: Method = Method::TASKS_LIST;
    type Result = ListTasksResult;
}

impl Paginated for ListTasks {
    type Item = Task;

    fn page(cursor: Option<String>) -> Self {
        Self { cursor, ..Self::default() }
    }

    fn split(result: ListTasksResult) -> (Vec<Task>, Option<String>) {
        (result.tasks, result.next_cursor)
    }
}

macro_rules! as_its_task {
    ($($notification:ident),*) => {
        $(impl Versioned for $notification {
            fn fits(&self, version: ProtocolVersion) -> bool {
                self.0.fits(version)
            }

            fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
                self.0.fit(version)
            }
        })*
    };
}

as_its_task!(TaskStatusChanged, TaskChanged);

impl Notification for TaskStatusChanged {
    const METHOD: Method = Method::TASKS_STATUS;
}

impl Notification for TaskChanged {
    const METHOD: Method = Method::TASKS_CHANGED;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(text: &'static str) -> Task {
        Task::of_created(&Payload::from_checked(text.into())).unwrap()
    }

    #[test]
    fn a_task_is_the_same_in_both_forms() {
        let old = created(
            r#"{"task":{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":60000,"pollInterval":5}}"#,
        );
        let new = created(
            r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":60000,"pollIntervalMs":5}"#,
        );
        for task in [&old, &new] {
            assert_eq!((task.task_id.as_str(), &task.status), ("t", &TaskStatus::Working));
            assert_eq!(task.time_to_live(), Some(Duration::from_secs(60)));
            assert_eq!(task.poll_pause(), Some(Duration::from_millis(5)));
        }
        assert_eq!(created(r#"{"taskId":"t","status":"working","ttlMs":null}"#).time_to_live(), None);
        assert!(Task::of_created(&Payload::from_checked(r#"{"content":[]}"#.into())).is_err());
    }

    #[test]
    fn what_has_come_of_a_task_is_kept_as_received() {
        for text in [
            r#"{"taskId":"t","status":"completed","result":{"content":[],"n":1.0}}"#,
            r#"{"taskId":"t","status":"failed","error":{"code":-32603,"message":"m"}}"#,
            r#"{"taskId":"t","status":"input_required","inputRequests":{"k":{"method":"roots/list"}}}"#,
            r#"{"taskId":"t","status":"paused"}"#,
        ] {
            let task: Task = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&task).unwrap(), text);
            assert_eq!(task.status.is_final(), matches!(task.status.as_str(), "completed" | "failed"));
            let TaskChanged(told) = serde_json::from_str(text).unwrap();
            assert_eq!(told, task);
        }
    }

    #[test]
    fn cancelling_is_answered_with_the_task_or_with_nothing() {
        let old: CancelTaskResult =
            serde_json::from_str(r#"{"taskId":"t","status":"cancelled","ttl":null}"#).unwrap();
        assert_eq!(old.status, Some(TaskStatus::Cancelled));
        let new: CancelTaskResult = serde_json::from_str(r#"{"resultType":"complete"}"#).unwrap();
        assert_eq!(new.status, None);
    }

    #[test]
    fn requests_about_a_task_name_it() {
        let update = UpdateTask::new("t", Entries::from_iter([("k".to_owned(), RawJson::null())]));
        let text = serde_json::to_string(&update).unwrap();
        assert_eq!(text, r#"{"taskId":"t","inputResponses":{"k":null}}"#);
        assert_eq!(update.mirrored_name(), Some("t"));
        assert_eq!(serde_json::to_string(&GetTask::new("t")).unwrap(), r#"{"taskId":"t"}"#);
        assert_eq!(CancelTask::new("t").mirrored_name(), Some("t"));
        assert_eq!(GetTaskPayload::new("t").mirrored_name(), None);
    }

    #[test]
    fn tasks_are_listed_by_pages() {
        let page: ListTasksResult =
            serde_json::from_str(r#"{"tasks":[{"taskId":"t","status":"working"}],"nextCursor":""}"#).unwrap();
        let (tasks, next) = ListTasks::split(page);
        assert_eq!((tasks.len(), next.as_deref()), (1, Some("")));
        assert_eq!(serde_json::to_string(&ListTasks::page(next)).unwrap(), r#"{"cursor":""}"#);
    }
}
