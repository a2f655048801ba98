use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mcp_transport::testing::{Action, Behaviour, MemoryConnector, Received, Server};
use mcp_transport::{CloseReason, Closed, ConnectError, Connection, Connector, Exit};
use serde_json::json;
use tokio::time::Instant;

use crate::random::Random;

/// What all connections of one server share.
#[derive(Debug, Default)]
pub(crate) struct Climate {
    /// The faults are over.
    pub(crate) is_calm: AtomicBool,
    /// Connections that exist at this moment: one at most, ever.
    open: AtomicUsize,
}

impl Climate {
    fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }
}

/// Opens connections, or does not, or takes its time.
#[derive(Debug)]
pub(crate) struct ChaosConnector {
    pub(crate) inner: MemoryConnector,
    pub(crate) climate: Arc<Climate>,
    pub(crate) random: Mutex<Random>,
}

#[async_trait]
impl Connector for ChaosConnector {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let (roll, delay) = {
            let mut random = self.random.lock().unwrap();
            (random.in_range(0..100), random.time(Duration::from_secs(90)))
        };
        if !self.climate.is_calm() {
            match roll {
                0..8 => return Err(ConnectError::Closed(exited())),
                8..12 => return Err(ConnectError::Timeout),
                12..18 => tokio::time::sleep(delay).await,
                _ => {}
            }
        }
        self.inner.connect(by).await
    }
}

/// A well-behaved server that fate gets in the way of.
pub(crate) struct Chaos {
    server: Server,
    climate: Arc<Climate>,
    random: Random,
    /// It reads, but does nothing any more.
    is_mute: bool,
    /// What it will do later than it should.
    late: BTreeMap<(Instant, u64), Vec<Action>>,
    number: u64,
}

impl Chaos {
    pub(crate) fn new(server: Server, climate: Arc<Climate>, random: Random) -> Self {
        let before = climate.open.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "i03: two connections to one server");
        Self { server, climate, random, is_mute: false, late: BTreeMap::new(), number: 0 }
    }

    fn distort(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        match self.random.in_range(0..100) {
            // Ends before it has done anything, or after that.
            0..3 => vec![self.end()],
            3..6 => {
                self.server.on_frame(frame, now);
                vec![self.end()]
            }
            6..8 => {
                self.is_mute = true;
                Vec::new()
            }
            8..14 => {
                let actions = self.server.on_frame(frame, now);
                self.later(actions, now);
                Vec::new()
            }
            14..20 => {
                let actions = self.server.on_frame(frame, now);
                actions.iter().flat_map(|action| [action.clone(), action.clone()]).collect()
            }
            20..26 => {
                let mut actions = vec![self.noise(frame)];
                actions.extend(self.server.on_frame(frame, now));
                actions
            }
            26..29 => {
                self.server.on_frame(frame, now);
                Vec::new()
            }
            29..31 if frame.request_id().is_some() => vec![Action::Send(json!({
                "jsonrpc": "2.0", "id": frame.id(), "error": {"code": -32603, "message": "chaos"},
            }))],
            _ => self.server.on_frame(frame, now),
        }
    }

    fn end(&mut self) -> Action {
        Action::Close(self.random.pick(&[0, 1, 2]).pick_reason())
    }

    fn later(&mut self, actions: Vec<Action>, now: Instant) {
        let at = now + self.random.time(Duration::from_secs(40));
        self.number += 1;
        self.late.insert((at, self.number), actions);
    }

    fn noise(&mut self, frame: &Received) -> Action {
        match self.random.in_range(0..6) {
            0 => Action::SendRaw("not a message".into()),
            1 => Action::SendRaw(r#"{"jsonrpc":"2.0","id":1,"result":"#.into()),
            2 => Action::Send(json!({"jsonrpc": "2.0", "id": 1_000_000, "result": {}})),
            3 => Action::Send(json!({"jsonrpc": "2.0", "id": "7", "method": "ping"})),
            4 => Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})),
            _ => Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": frame.request_id(), "progress": 1}})),
        }
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.climate.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Behaviour for Chaos {
    fn on_open(&mut self, now: Instant) -> Vec<Action> {
        if !self.climate.is_calm() && self.random.percent(5) {
            return vec![self.end()];
        }
        self.server.on_open(now)
    }

    fn on_frame(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        if self.climate.is_calm() {
            return self.server.on_frame(frame, now);
        }
        if self.is_mute { Vec::new() } else { self.distort(frame, now) }
    }

    fn on_deadline(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= now) {
            actions.extend(entry.remove());
        }
        if self.server.next_deadline().is_some_and(|deadline| deadline <= now) {
            actions.extend(self.server.on_deadline(now));
        }
        if self.is_mute && !self.climate.is_calm() { Vec::new() } else { actions }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let late = self.late.first_key_value().map(|((at, _), _)| *at);
        self.server.next_deadline().into_iter().chain(late).min()
    }
}

trait PickReason {
    fn pick_reason(self) -> CloseReason;
}

impl PickReason for i32 {
    fn pick_reason(self) -> CloseReason {
        match self {
            0 => CloseReason::EndOfStream,
            1 => CloseReason::Exited(Exit::Code(1)),
            _ => CloseReason::Broken("chaos".into()),
        }
    }
}

fn exited() -> Closed {
    Closed::new(CloseReason::Exited(Exit::Code(1)), "chaos")
}
