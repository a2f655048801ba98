use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use mcp_proto::RequestId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::connection::Connection;
use crate::error::{CloseReason, CloseReport, Closed, Full, SendError};
use crate::testing::peer::ScriptedPeer;
use crate::testing::wire::Wire;
use crate::transport::{Abandoned, Inbound, Outbound, Receive, Sent, Streams, Transport};

/// How many messages one poll of the receiving half hands up.
const BATCH: usize = 64;

/// Sizes of a connection in memory.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    pub(super) queue: usize,
    pub(super) reserve: usize,
    pub(super) window: usize,
    pub(super) inbound: usize,
    pub(super) max_frame_bytes: usize,
    pub(super) flush_grace: Duration,
}

impl Default for MemoryOptions {
    /// A queue of 64 frames with 16 more in reserve, a window of 64 frames, 256 frames on the way back,
    /// frames of 16 MiB, two seconds to write what is queued when the connection is closed.
    fn default() -> Self {
        Self {
            queue: 64,
            reserve: 16,
            window: 64,
            inbound: 256,
            max_frame_bytes: 16 * 1024 * 1024,
            flush_grace: Duration::from_secs(2),
        }
    }
}

impl MemoryOptions {
    /// How many frames `send` takes before they begin to leave; at the limit it waits.
    #[must_use]
    pub fn with_queue(mut self, frames: usize) -> Self {
        self.queue = frames;
        self
    }

    /// How many frames more than the queue `post` and cancel notices may use.
    #[must_use]
    pub fn with_reserve(mut self, frames: usize) -> Self {
        self.reserve = frames;
        self
    }

    /// How many frames leave although the peer does not read: the buffer of a pipe, in frames.
    ///
    /// With 0 a frame leaves only into a [`ScriptedPeer::receive`] that waits for it.
    #[must_use]
    pub fn with_window(mut self, frames: usize) -> Self {
        self.window = frames;
        self
    }

    /// How many messages the peer can send before anybody receives them; at the limit it waits.
    #[must_use]
    pub fn with_inbound(mut self, messages: usize) -> Self {
        self.inbound = messages;
        self
    }

    /// The largest frame that `send` takes, in bytes.
    #[must_use]
    pub fn with_max_frame_bytes(mut self, bytes: usize) -> Self {
        self.max_frame_bytes = bytes;
        self
    }

    /// How long closing waits for queued frames to leave.
    #[must_use]
    pub fn with_flush_grace(mut self, grace: Duration) -> Self {
        self.flush_grace = grace;
        self
    }
}

/// Opens a connection in memory with default sizes, see [`memory_with`].
#[must_use]
pub fn memory() -> (Connection, ScriptedPeer) {
    memory_with(MemoryOptions::default())
}

/// Opens a connection in memory: all frames share one stream, as over a pipe.
///
/// Nothing is spawned. Frames leave inside `send` and inside [`ScriptedPeer::receive`]; the timer of a
/// cancel notice runs while the receiving half is polled, as the traits allow.
/// Dropping either half of the connection, or the peer, ends it.
#[must_use]
pub fn memory_with(options: MemoryOptions) -> (Connection, ScriptedPeer) {
    let shared = Arc::new(Shared::new(options));
    let transport = MemoryTransport { shared: Arc::clone(&shared) };
    let receive = MemoryReceive { shared: Arc::clone(&shared), timer: None };
    (Connection::new(Arc::new(transport), Box::new(receive)), ScriptedPeer::new(shared))
}

/// The wire with everybody who waits for it.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Places in the outgoing queue; closed when nothing more is taken.
    slots: Arc<Semaphore>,
    /// Places in the incoming queue; closed with the connection.
    inbound_slots: Arc<Semaphore>,
    /// Wakes the peer and everybody who waits for the end.
    changed: Notify,
    max_frame_bytes: usize,
}

struct State {
    wire: Wire,
    /// The driver that polls the receiving half.
    receiver: Option<Waker>,
}

impl Shared {
    fn new(options: MemoryOptions) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(options.queue)),
            inbound_slots: Arc::new(Semaphore::new(options.inbound)),
            changed: Notify::new(),
            max_frame_bytes: options.max_frame_bytes,
            state: Mutex::new(State { wire: Wire::new(options), receiver: None }),
        }
    }

    /// Changes the wire, then wakes whom it may concern, outside the lock.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Wire) -> R) -> R {
        self.change_if(|wire| Some(change(wire))).expect("the change is always made")
    }

    /// As [`change`](Self::change), but a look that finds nothing changes nothing and wakes nobody.
    fn change_if<R>(&self, change: impl FnOnce(&mut Wire) -> Option<R>) -> Option<R> {
        let mut state = self.lock();
        let deadline = state.wire.next_deadline();
        let result = change(&mut state.wire)?;
        let (is_open, is_closed) = (state.wire.is_open(), state.wire.closed().is_some());
        let concerns_receiver =
            is_closed || state.wire.has_inbound() || state.wire.next_deadline() != deadline;
        let receiver = if concerns_receiver { state.receiver.take() } else { None };
        drop(state);
        if !is_open {
            self.slots.close();
        }
        if is_closed {
            self.inbound_slots.close();
        }
        self.changed.notify_waiters();
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        Some(result)
    }

    pub(super) fn look<R>(&self, look: impl FnOnce(&Wire) -> R) -> R {
        look(&self.lock().wire)
    }

    /// Looks at the wire again after each change until `look` finds what it wants.
    pub(super) async fn until<R>(&self, mut look: impl FnMut(&mut Wire) -> Option<R>) -> R {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = self.change_if(&mut look) {
                return found;
            }
            changed.await;
        }
    }

    /// Waits for a place in the incoming queue; `None` when the connection has ended.
    pub(super) async fn inbound_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.inbound_slots).acquire_owned().await.ok()
    }

    fn closed(&self) -> Closed {
        // A connection that is still closing refuses frames already.
        self.lock().wire.closed().cloned().unwrap_or_else(|| Closed::new(CloseReason::Local, ""))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must not turn into a second panic inside a `Drop`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().wire.fmt(f)
    }
}

struct MemoryTransport {
    shared: Arc<Shared>,
}

#[async_trait]
impl Transport for MemoryTransport {
    fn streams(&self) -> Streams {
        Streams::Shared
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        if message.frame.len() > self.shared.max_frame_bytes {
            return Err(SendError::TooLarge { limit: self.shared.max_frame_bytes });
        }
        let refused = |_| SendError::Closed(self.shared.closed());
        let slot = Arc::clone(&self.shared.slots).acquire_owned().await.map_err(refused)?;
        let accepted = self.shared.change(|wire| wire.send(message, slot, Instant::now()));
        accepted.map(|()| Sent::Queued).ok_or_else(|| SendError::Closed(self.shared.closed()))
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        if message.frame.len() > self.shared.max_frame_bytes {
            return Err(Full);
        }
        self.shared.change(|wire| wire.post(message, Instant::now()))
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        self.shared.change(|wire| wire.abandon(id, notice, Instant::now()))
    }

    fn insist(&self, message: Outbound) -> Result<(), Full> {
        self.shared.change(|wire| wire.insist(message, Instant::now()))
    }

    async fn close(&self, by: Instant) -> CloseReport {
        self.shared.change(|wire| wire.begin_closing(Instant::now()));
        loop {
            let deadline = self.shared.look(Wire::next_deadline).map_or(by, |next| next.min(by));
            let ended = self.shared.until(|wire| wire.report().cloned());
            if let Ok(report) = timeout_at(deadline, ended).await {
                return report;
            }
            self.shared.change(|wire| {
                let now = Instant::now();
                wire.on_time(now);
                if now >= by {
                    wire.abandon_closing(now);
                }
            });
        }
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        self.shared.change(|wire| wire.end_locally(Instant::now()));
    }
}

impl fmt::Debug for MemoryTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTransport").finish_non_exhaustive()
    }
}

struct MemoryReceive {
    shared: Arc<Shared>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl MemoryReceive {
    /// Polls the timer of the wire; `Ready` when its deadline has passed and was acted upon.
    fn poll_timer(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else {
            self.timer = None;
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        std::task::ready!(timer.as_mut().poll(cx));
        self.timer = None;
        self.shared.change(|wire| wire.on_time(Instant::now()));
        Poll::Ready(())
    }
}

impl Receive for MemoryReceive {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut Vec<Inbound>) -> Poll<Result<(), Closed>> {
        loop {
            let mut state = self.shared.lock();
            let before = into.len();
            into.extend(std::iter::from_fn(|| state.wire.take_inbound()).take(BATCH));
            if into.len() > before {
                return Poll::Ready(Ok(()));
            }
            if let Some(closed) = state.wire.closed() {
                return Poll::Ready(Err(closed.clone()));
            }
            state.receiver = Some(cx.waker().clone());
            let deadline = state.wire.next_deadline();
            drop(state);
            std::task::ready!(self.poll_timer(deadline, cx));
        }
    }
}

impl Drop for MemoryReceive {
    fn drop(&mut self) {
        self.shared.change(|wire| wire.end_locally(Instant::now()));
    }
}

impl fmt::Debug for MemoryReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReceive").finish_non_exhaustive()
    }
}
