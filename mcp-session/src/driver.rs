use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use mcp_transport::{CloseReason, Closed, Inbound, Receive};
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::served::Serving;
use crate::shared::{Farewell, Shared};

/// How many messages are read before other tasks get a turn: well under a millisecond of work.
const MESSAGES_PER_TURN: usize = 256;

/// The engine of a session: reads what arrives, ends the calls whose time is up, and runs the
/// [handler](crate::ClientHandler) for what a legacy server asks.
///
/// It decides nothing. Nothing is spawned: the owner polls [`run`](Self::run), in a task of its own
/// or beside other work. Reading never waits for a writer, a handler or a slow consumer. Dropping it ends
/// the session: every waiting call ends with [`CallError::SessionGone`](crate::CallError::SessionGone),
/// and what is being served is dropped.
#[derive(Debug)]
#[must_use = "a session does nothing unless its driver runs"]
pub struct Driver {
    shared: Arc<Shared>,
    receive: Box<dyn Receive>,
    batch: Vec<Inbound>,
    alarm: Alarm,
    /// What the server has asked for; as many as the handler limits allow.
    serving: FuturesUnordered<Serving>,
    /// The server being asked to watch resources, or to stop that; one future at most.
    asking: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// What reading has come to.
enum Read {
    /// Nothing is left to read.
    All,
    /// The connection has ended.
    Closed(Closed),
    /// More may be waiting.
    Some,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, receive: Box<dyn Receive>) -> Self {
        Self {
            shared,
            receive,
            batch: Vec::new(),
            alarm: Alarm::default(),
            serving: FuturesUnordered::new(),
            asking: FuturesUnordered::new(),
        }
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
            return Poll::Ready(self.end(Closed::new(CloseReason::Local, ""), Farewell::Told, cx));
        }
        let has_rung = self.expire(cx);
        match self.read(cx) {
            Read::All if has_rung => self.trim(),
            Read::All => {}
            Read::Closed(closed) => return Poll::Ready(self.end(closed, Farewell::Silent, cx)),
            // Everybody else first.
            Read::Some => cx.waker().wake_by_ref(),
        }
        self.serve(cx);
        self.ask(cx);
        Poll::Pending
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Read {
        let mut taken = 0;
        while taken < MESSAGES_PER_TURN {
            let Poll::Ready(received) = self.receive.poll_receive(cx, &mut self.batch) else {
                return Read::All;
            };
            taken += self.batch.len().max(1);
            for inbound in self.batch.drain(..) {
                self.shared.route(inbound);
            }
            if let Err(closed) = received {
                return Read::Closed(closed);
            }
        }
        Read::Some
    }

    /// Begins what the server has asked for, and lets what was begun go on.
    fn serve(&mut self, cx: &mut Context<'_>) {
        self.serving.extend(self.shared.begin_serving());
        while let Poll::Ready(Some(_)) = self.serving.poll_next_unpin(cx) {}
    }

    /// Asks for the resources that subscriptions want to be told of, and takes back what none wants any more.
    fn ask(&mut self, cx: &mut Context<'_>) {
        loop {
            if self.asking.is_empty() {
                self.asking.extend(self.shared.begin_asking());
            }
            let Poll::Ready(Some(())) = self.asking.poll_next_unpin(cx) else { return };
        }
    }

    fn end(&mut self, closed: Closed, farewell: Farewell, cx: &mut Context<'_>) -> Closed {
        let closed = self.shared.shut(closed, farewell);
        // Whoever waits for what was asked is told how that has ended.
        self.ask(cx);
        closed
    }

    /// Ends the calls whose deadline has come and sets the timer to the next one. Answers whether the time
    /// that it was set to before is over, or was taken back.
    fn expire(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_rung = false;
        loop {
            let Some(armed) = self.shared.table().arm() else { return self.alarm.stop() || has_rung };
            if self.alarm.poll_until(armed, cx).is_pending() {
                return has_rung;
            }
            has_rung = true;
            self.shared.expire(Instant::now().max(armed));
        }
    }

    /// Gives back what is kept for the next calls, unless one waits for its answer.
    ///
    /// Looked at when the timer has rung, which an idle session sees once and a busy one rarely: so nothing
    /// that a busy one needs is made anew for each call.
    fn trim(&mut self) {
        if self.shared.trim() {
            self.batch = Vec::new();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let closed = self.shared.shut(Closed::new(CloseReason::Local, ""), Farewell::Silent);
        // Once more, should a transport have panicked before that was told.
        self.shared.ending.tell(closed);
    }
}
