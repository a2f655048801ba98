use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use mcp_proto::Progress;
use tokio::sync::Notify;

use crate::options::ProgressHandler;
use crate::progress::ProgressLane;

/// The tasks whose progress is told under the token of the request that has become the task (2025-11-25;
/// the extension tells of none). One lives as long as somebody has a [`TaskToken`] of it.
///
/// ```text
///             report: the newest waits, what is under way is prolonged
///               ┌───┐
///               ▼   │
///   begin ──▶ told ─┴──▶ over ──▶ forgotten    with the last one who has its token
///               └─────────────────────▲
/// ```
#[derive(Debug, Default)]
pub(crate) struct TaskTokens(Mutex<Vec<Told>>);

#[derive(Debug)]
struct Told {
    token: i64,
    task_id: String,
    is_over: bool,
    holders: usize,
    /// The value of the newest progress, seen or not, since the request was sent.
    reached: Option<f64>,
    /// The newest progress that nobody has seen.
    unseen: Option<Progress>,
    /// Wakes whoever follows the task.
    arrived: Arc<Notify>,
    /// The requests about the task that are under way.
    questions: Vec<i64>,
}

/// Has the progress of a task told while it lives.
#[derive(Debug)]
pub(crate) struct TaskToken {
    tokens: Arc<TaskTokens>,
    token: i64,
    arrived: Arc<Notify>,
}

/// A question about a task is under way while this lives: progress of the task prolongs it.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    token: &'a TaskToken,
    question: i64,
}

impl TaskTokens {
    /// The request `token` has become the task `task_id`, after it had come as far as `reached`.
    pub(crate) fn begin(self: &Arc<Self>, token: i64, task_id: &str, reached: Option<f64>) -> Arc<TaskToken> {
        let arrived = Arc::new(Notify::new());
        self.lock().push(Told {
            token,
            task_id: task_id.to_owned(),
            is_over: false,
            holders: 1,
            reached,
            unseen: None,
            arrived: Arc::clone(&arrived),
            questions: Vec::new(),
        });
        Arc::new(TaskToken { tokens: Arc::clone(self), token, arrived })
    }

    /// One more token of a task that is told of, by the name that the server has given it.
    pub(crate) fn of(self: &Arc<Self>, task_id: &str) -> Option<Arc<TaskToken>> {
        let mut told = self.lock();
        let told = told.iter_mut().find(|told| told.task_id == task_id && !told.is_over)?;
        told.holders += 1;
        let (token, arrived) = (told.token, Arc::clone(&told.arrived));
        Some(Arc::new(TaskToken { tokens: Arc::clone(self), token, arrived }))
    }

    /// Notes progress, unless it does not grow, or is that of no task: the requests that it prolongs.
    pub(crate) fn report(&self, token: i64, progress: Progress) -> Option<Vec<i64>> {
        let mut told = self.lock();
        let told = told.iter_mut().find(|told| told.token == token)?;
        if told.is_over || told.reached.is_some_and(|reached| progress.progress <= reached) {
            return None;
        }
        told.reached = Some(progress.progress);
        told.unseen = Some(progress);
        told.arrived.notify_one();
        Some(told.questions.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Told>> {
        // Nothing is left half-done inside these locks, so a panic elsewhere does not matter here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskToken {
    /// The task is over, and so is its progress.
    pub(crate) fn end(&self) {
        self.change(|told| told.is_over = true);
    }

    /// The request `question` about the task is about to be sent.
    pub(crate) fn asking(&self, question: i64) -> Asking<'_> {
        self.change(|told| told.questions.push(question));
        Asking { token: self, question }
    }

    /// Does `work`, and shows meanwhile what progress the task makes, as that of a call is shown.
    pub(crate) async fn shown<T>(&self, handler: ProgressHandler, work: impl Future<Output = T>) -> T {
        let mut showing = pin!(self.show(Arc::clone(&handler)));
        let mut work = pin!(work);
        let done = poll_fn(|cx| {
            // First: progress that comes together with the end is shown before it.
            let Poll::Pending = showing.as_mut().poll(cx);
            work.as_mut().poll(cx)
        })
        .await;
        // What was held back for its pace: nothing comes after it.
        if let Some(progress) = self.unseen() {
            handler(progress);
        }
        done
    }

    async fn show(&self, handler: ProgressHandler) -> Infallible {
        let mut lane = ProgressLane::new(handler);
        loop {
            if let Some(progress) = self.unseen() {
                lane.deliver(progress);
            }
            self.arrived.notified().await;
            poll_fn(|cx| lane.poll_rest(cx)).await;
        }
    }

    fn unseen(&self) -> Option<Progress> {
        self.change(|told| told.unseen.take()).flatten()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Told) -> T) -> Option<T> {
        let mut told = self.tokens.lock();
        told.iter_mut().find(|told| told.token == self.token).map(change)
    }
}

impl Drop for TaskToken {
    fn drop(&mut self) {
        self.tokens.lock().retain_mut(|told| {
            told.holders -= usize::from(told.token == self.token);
            told.holders > 0
        });
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.token.change(|told| told.questions.retain(|question| *question != self.question));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(value: f64) -> Progress {
        Progress::new(7.into(), value)
    }

    #[test]
    fn a_token_is_told_of_until_the_last_one_who_has_it_is_gone() {
        let tokens = Arc::new(TaskTokens::default());
        let one = tokens.begin(7, "x", None);
        let other = tokens.of("x").unwrap();
        assert!(tokens.of("y").is_none());
        drop(one);
        assert_eq!(tokens.report(7, progress(1.0)), Some(Vec::new()));
        assert_eq!(tokens.report(8, progress(2.0)), None, "of no task");
        drop(other);
        assert_eq!(tokens.report(7, progress(2.0)), None);
        assert!(tokens.of("x").is_none() && tokens.lock().is_empty());
    }

    #[test]
    fn a_task_that_is_over_is_told_of_no_more_whoever_has_its_token() {
        let tokens = Arc::new(TaskTokens::default());
        let (ended, other) = (tokens.begin(7, "x", None), tokens.begin(8, "y", None));
        let asking = ended.asking(9);
        ended.end();
        assert_eq!(tokens.report(7, progress(1.0)), None);
        drop(asking);
        drop(ended);
        assert_eq!(tokens.report(8, progress(1.0)), Some(Vec::new()), "the other one is");
        drop(other);
        assert!(tokens.lock().is_empty());
    }

    #[test]
    fn progress_goes_on_where_the_request_has_come_to_and_prolongs_what_is_under_way() {
        let tokens = Arc::new(TaskTokens::default());
        let token = tokens.begin(7, "x", Some(2.0));
        let (one, other) = (token.asking(10), token.asking(11));
        assert_eq!(tokens.report(7, progress(2.0)), None, "it does not grow");
        assert_eq!(tokens.report(7, progress(3.0)), Some(vec![10, 11]));
        drop(one);
        assert_eq!(tokens.report(7, progress(4.0)), Some(vec![11]));
        drop(other);
        assert_eq!(tokens.report(7, progress(5.0)), Some(Vec::new()));
        assert_eq!(token.unseen().map(|progress| progress.progress), Some(5.0), "the newest alone waits");
    }
}
