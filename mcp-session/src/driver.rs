use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mcp_transport::{CloseReason, Closed, Inbound, Receive};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::shared::{Farewell, Shared};

/// How many messages are read before other tasks get a turn: well under a millisecond of work.
const MESSAGES_PER_TURN: usize = 256;

/// The engine of a session: reads what arrives and ends the calls whose time is up.
///
/// It decides nothing. Nothing is spawned: the owner polls [`run`](Self::run), in a task of its own
/// or beside other work. It never waits for a writer, a handler or a slow consumer. Dropping it ends
/// the session: every waiting call ends with [`CallError::SessionGone`](crate::CallError::SessionGone).
#[derive(Debug)]
#[must_use = "a session does nothing unless its driver runs"]
pub struct Driver {
    shared: Arc<Shared>,
    receive: Box<dyn Receive>,
    batch: Vec<Inbound>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, receive: Box<dyn Receive>) -> Self {
        Self { shared, receive, batch: Vec::new(), timer: None }
    }

    /// Runs until the connection has ended; returns how.
    ///
    /// Ends as well when the last handle of the session is gone. After
    /// [`Session::close`](crate::Session::close) it reads on until the receiving half of the transport
    /// ends, which may be at once (stdio): what a server still writes is then the transport's to discard.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the session.
    pub async fn run(mut self) -> Closed {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Closed> {
        self.shared.driver.register(cx.waker());
        // Stop first, then what frees memory, then what brings new work.
        if self.shared.is_stopping() {
            return Poll::Ready(self.shared.shut(Closed::new(CloseReason::Local, ""), Farewell::Told));
        }
        self.expire(cx);
        let mut taken = 0;
        while taken < MESSAGES_PER_TURN {
            let received = ready!(self.receive.poll_receive(cx, &mut self.batch));
            taken += self.batch.len().max(1);
            for inbound in self.batch.drain(..) {
                self.shared.route(inbound);
            }
            if let Err(closed) = received {
                return Poll::Ready(self.shared.shut(closed, Farewell::Silent));
            }
        }
        // More may be waiting; everybody else first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends the calls whose deadline has come and sets the timer to the next one.
    fn expire(&mut self, cx: &mut Context<'_>) {
        loop {
            let Some(armed) = self.shared.table().arm() else {
                self.timer = None;
                return;
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(armed)));
            if timer.deadline() != armed {
                timer.as_mut().reset(armed);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            self.shared.expire(Instant::now().max(armed));
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.shut(Closed::new(CloseReason::Local, ""), Farewell::Silent);
    }
}
