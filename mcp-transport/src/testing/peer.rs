use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::RequestId;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::{CloseReason, Closed, Ending};
use crate::testing::memory::Shared;
use crate::testing::wire::Wire;
use crate::transport::{Broken, Inbound};

/// The far end of a connection in memory: a server, played by a test.
///
/// All methods take `&self`, so that one task can receive while another sends.
/// Dropping it is the end of the server's output.
pub struct ScriptedPeer {
    shared: Arc<Shared>,
}

impl ScriptedPeer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Waits for the next frame.
    ///
    /// # Panics
    ///
    /// The connection has ended and no frame is left. Use [`next`](Self::next) where that is expected.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no frame.
    pub async fn receive(&self) -> Received {
        self.next().await.expect("the peer waits for a frame, but the connection has ended")
    }

    /// Waits for the next frame; `None` when the other side has closed and no frame is left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no frame.
    pub async fn next(&self) -> Option<Received> {
        let _waiting = Waiting::new(&self.shared);
        self.shared.until(|wire| wire.peer_takes(Instant::now())).await
    }

    /// Waits for the next frame and checks its method.
    ///
    /// # Panics
    ///
    /// Another frame comes, or none.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no frame.
    pub async fn expect(&self, method: &str) -> Received {
        let frame = self.receive().await;
        assert_eq!(frame.method(), Some(method), "unexpected frame: {frame:?}");
        frame
    }

    /// Answers the request `id` with `result`. Waits while the way back is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future sends nothing.
    pub async fn respond(&self, id: impl Into<RequestId>, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id.into(), "result": result})).await;
    }

    /// Answers the request `id` with an error. Waits while the way back is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future sends nothing.
    pub async fn respond_error(&self, id: impl Into<RequestId>, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(json!({"jsonrpc": "2.0", "id": id.into(), "error": error})).await;
    }

    /// Sends one message. Waits while the way back is full; on an ended connection it goes nowhere.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future sends nothing.
    pub async fn send(&self, message: Value) {
        self.send_raw(message.to_string()).await;
    }

    /// Sends bytes as one frame, whatever they are: the session has to parse them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future sends nothing.
    pub async fn send_raw(&self, frame: impl Into<Bytes>) {
        self.deliver(Inbound::Message { frame: frame.into(), stream: None }).await;
    }

    /// Lets the receiving half report a frame that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future sends nothing.
    pub async fn send_broken(&self, broken: Broken) {
        self.deliver(Inbound::Broken(broken)).await;
    }

    /// Ends the connection from this side, at once: what was sent before still arrives.
    pub fn close(&self, reason: CloseReason) {
        self.shared.change(|wire| wire.peer_closes(reason, Instant::now()));
    }

    /// Waits until the connection has ended and tells how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn closed(&self) -> Closed {
        self.shared.until(|wire| wire.closed().cloned()).await
    }

    /// Makes the other side's closing take `linger` and report `ending`.
    ///
    /// A server that ignores the end of its input and goes on SIGTERM is
    /// `linger(2 s, Ending::Terminated)`. Longer than the closing may take: [`Ending::Abandoned`].
    pub fn linger(&self, linger: Duration, ending: Ending) {
        self.shared.change(|wire| wire.set_linger(linger, ending));
    }

    /// Lets no further frame leave, whatever the window, until [`resume`](Self::resume).
    pub fn pause_reading(&self) {
        self.shared.change(|wire| wire.set_paused(true, Instant::now()));
    }

    /// Undoes [`pause_reading`](Self::pause_reading).
    pub fn resume(&self) {
        self.shared.change(|wire| wire.set_paused(false, Instant::now()));
    }

    /// Every frame that has left for this peer, in order, also those it has not taken yet.
    #[must_use]
    pub fn transcript(&self) -> Vec<Received> {
        self.shared.look(|wire| wire.transcript().to_vec())
    }

    /// How many frames are handed over and have not begun to leave.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.shared.look(Wire::queued)
    }

    async fn deliver(&self, inbound: Inbound) {
        if let Some(slot) = self.shared.inbound_slot().await {
            self.shared.change(|wire| wire.peer_sends(inbound, slot));
        }
    }
}

impl Drop for ScriptedPeer {
    fn drop(&mut self) {
        self.shared.change(|wire| wire.peer_dropped(Instant::now()));
    }
}

impl fmt::Debug for ScriptedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScriptedPeer").field(&self.shared).finish()
    }
}

/// One frame that has left for a peer.
#[derive(Clone, PartialEq)]
pub struct Received {
    /// The bytes as they left.
    pub frame: Bytes,
    /// The frame as JSON.
    pub value: Value,
    /// When it left.
    pub at: Instant,
}

impl Received {
    /// Parses a frame; wire integrity is checked here, for every frame of every test.
    pub(super) fn new(frame: Bytes, at: Instant) -> Self {
        let value = serde_json::from_slice(&frame)
            .unwrap_or_else(|error| panic!("not one JSON value ({error}): {:?}", frame.escape_ascii()));
        assert!(!frame.contains(&b'\n'), "a frame with a line end: {:?}", frame.escape_ascii());
        Self { frame, value, at }
    }

    /// The method; `None` for a response.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        self.value.get("method").and_then(Value::as_str)
    }

    /// The id; `None` for a notification.
    #[must_use]
    pub fn request_id(&self) -> Option<RequestId> {
        self.value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok())
    }

    /// The id of a request or response.
    ///
    /// # Panics
    ///
    /// The frame has none.
    #[must_use]
    #[track_caller]
    pub fn id(&self) -> RequestId {
        self.request_id().unwrap_or_else(|| panic!("a frame without an id: {self:?}"))
    }

    /// The `params`, or null.
    #[must_use]
    pub fn params(&self) -> &Value {
        &self.value["params"]
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.value, f)
    }
}

/// A `receive` that waits: frames may leave into it beyond the window.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.change(|wire| wire.set_waiting(true, Instant::now()));
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|wire| wire.set_waiting(false, Instant::now()));
    }
}
