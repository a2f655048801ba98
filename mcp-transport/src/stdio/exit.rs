use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::task::coop;

use crate::process::{Process, ProcessEnd};

/// Sees the process of a connection end.
pub(super) struct Exit {
    /// Tells without waiting.
    end: watch::Receiver<Option<ProcessEnd>>,
    /// The same, to be woken by.
    ended: Pin<Box<dyn Future<Output = Option<ProcessEnd>> + Send>>,
    /// Whom it wakes.
    waker: Option<Waker>,
}

impl Exit {
    pub(super) fn of(process: &dyn Process) -> Self {
        let end = process.end();
        let mut watched = end.clone();
        let ended = async move { watched.wait_for(Option::is_some).await.ok().and_then(|end| *end) };
        Self { end, ended: Box::pin(ended), waker: None }
    }

    /// Whether the end of the process is known.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.end.has_changed(), Ok(false))
    }

    /// How the process has ended, as far as that is known.
    pub(super) fn now(&self) -> Option<ProcessEnd> {
        *self.end.borrow()
    }

    /// Waits until the process has ended.
    ///
    /// Asked with every message that arrives, and a wait is dear: one that is registered already is left
    /// alone.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<ProcessEnd>> {
        let is_registered = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_registered && !self.is_known() {
            return Poll::Pending;
        }
        // Without budget nobody is registered.
        self.waker = coop::has_budget_remaining().then(|| cx.waker().clone());
        self.ended.as_mut().poll(cx)
    }
}
