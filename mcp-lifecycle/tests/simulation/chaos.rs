use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mcp_transport::testing::{Action, Behaviour, MemoryConnector, Received, Server};
use mcp_transport::{CloseReason, Closed, ConnectError, Connection, Connector, Exit};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::random::Random;
use crate::wire::Wire;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What all connections of one server share.
#[derive(Debug, Default)]
pub(crate) struct Climate {
    /// The faults are over.
    pub(crate) is_calm: AtomicBool,
    /// Connections that exist at this moment: one at most, ever.
    open: AtomicUsize,
    /// The number of the newest connection.
    pub(crate) connection: AtomicUsize,
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
    wire: Wire,
    /// The number of this connection among all of the world.
    connection: usize,
    random: Random,
    /// It reads, but does nothing any more.
    is_mute: bool,
    /// What it will do later than it should.
    late: BTreeMap<(Instant, u64), Vec<Action>>,
    number: u64,
    /// Ids of the subscriptions that it has agreed to.
    subscriptions: Vec<Value>,
}

impl Chaos {
    pub(crate) fn new(server: Server, climate: Arc<Climate>, wire: Wire, random: Random) -> Self {
        let before = climate.open.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "i03: two connections to one server");
        let connection = wire.on_open();
        climate.connection.store(connection, Ordering::Relaxed);
        Self {
            server,
            climate,
            wire,
            connection,
            random,
            is_mute: false,
            late: BTreeMap::new(),
            number: 0,
            subscriptions: Vec::new(),
        }
    }

    fn distort(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        match self.random.in_range(0..100) {
            // Ends before it has done anything, or after that.
            0..3 => vec![self.end()],
            3..6 => {
                self.serve(frame, now);
                vec![self.end()]
            }
            6..8 => {
                self.is_mute = true;
                Vec::new()
            }
            8..14 => {
                let actions = self.serve(frame, now);
                self.later(actions, now);
                Vec::new()
            }
            14..20 => {
                let actions = self.serve(frame, now);
                actions.iter().flat_map(|action| [action.clone(), action.clone()]).collect()
            }
            20..26 => {
                let mut actions = vec![self.noise(frame)];
                actions.extend(self.serve(frame, now));
                actions
            }
            26..29 => {
                self.serve(frame, now);
                Vec::new()
            }
            29..31 if frame.request_id().is_some() && frame.method().is_some() => vec![Action::Send(json!({
                "jsonrpc": "2.0", "id": frame.id(), "error": {"code": -32603, "message": "chaos"},
            }))],
            31..36 if is_modern(frame) => self.ask_for_input(frame, now),
            36..41 if !is_modern(frame) => {
                let mut actions = vec![self.question()];
                actions.extend(self.serve(frame, now));
                actions
            }
            _ => self.serve(frame, now),
        }
    }

    /// What a well-behaved server does, with lists that differ from connection to connection.
    fn serve(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        if frame.method() == Some("subscriptions/listen") && is_modern(frame) {
            return self.agree(frame);
        }
        self.wire.on_run(frame);
        let mut actions = self.server.on_frame(frame, now);
        for action in &mut actions {
            if let Action::Send(message) = action {
                self.change(message);
            }
        }
        actions
    }

    /// Tells of changes, and has a tool that tells the connections apart.
    fn change(&self, message: &mut Value) {
        let result = &mut message["result"];
        if result["capabilities"].is_object() {
            result["capabilities"]["tools"] = json!({"listChanged": true});
        } else if result["tools"].is_array() && result["nextCursor"].is_null() {
            let tool = json!({"name": of_connection(self.connection), "inputSchema": {"type": "object"}});
            result["tools"].as_array_mut().unwrap().push(tool);
        }
    }

    /// Opens a subscription; it lives until the connection ends, or it is cancelled.
    fn agree(&mut self, frame: &Received) -> Vec<Action> {
        let id = &frame.value["id"];
        self.subscriptions.push(id.clone());
        let params = json!({"notifications": frame.params()["notifications"], "_meta": {SUBSCRIPTION: id}});
        let method = "notifications/subscriptions/acknowledged";
        vec![Action::Send(json!({"jsonrpc": "2.0", "method": method, "params": params}))]
    }

    /// Lets a call come again with an answer before it runs.
    fn ask_for_input(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        if frame.method() != Some("tools/call") || !frame.params()["requestState"].is_null() {
            return self.serve(frame, now);
        }
        let asked = json!({"where": {"method": "roots/list", "params": {}}});
        let state = format!("{} \u{e9} of #{}", frame.id(), self.connection);
        let result = json!({"resultType": "input_required", "inputRequests": asked, "requestState": state});
        vec![Action::Send(json!({"jsonrpc": "2.0", "id": frame.id(), "result": result}))]
    }

    /// A request of the server: what is served, and what is not.
    fn question(&mut self) -> Action {
        self.number += 1;
        let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
        let (method, params) = match self.random.in_range(0..4) {
            0 => ("ping", json!({})),
            1 => ("roots/list", json!({})),
            2 => ("elicitation/create", form),
            _ => ("sampling/createMessage", json!({"messages": [], "maxTokens": 1})),
        };
        let id = format!("q{}", self.number);
        Action::Send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
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
        match self.random.in_range(0..7) {
            0 => Action::SendRaw("not a message".into()),
            1 => Action::SendRaw(r#"{"jsonrpc":"2.0","id":1,"result":"#.into()),
            2 => Action::Send(json!({"jsonrpc": "2.0", "id": 1_000_000, "result": {}})),
            3 => Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/unheard-of"})),
            4 => Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})),
            5 => {
                let meta = json!({SUBSCRIPTION: self.subscriptions.last()});
                Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
                    "params": {"_meta": meta}}))
            }
            _ => Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": frame.request_id(), "progress": 1}})),
        }
    }

    /// Lets the world see what is done; what follows the end of the connection is not.
    fn perform(&self, actions: Vec<Action>) -> Vec<Action> {
        for action in &actions {
            self.wire.on_action(self.connection, action);
            if let Action::Close(_) = action {
                break;
            }
        }
        actions
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.wire.on_close(self.connection);
        self.climate.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Behaviour for Chaos {
    fn on_open(&mut self, now: Instant) -> Vec<Action> {
        if !self.climate.is_calm() && self.random.percent(5) {
            let end = self.end();
            return self.perform(vec![end]);
        }
        let actions = self.server.on_open(now);
        self.perform(actions)
    }

    fn on_frame(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        self.wire.on_received(self.connection, frame);
        let actions = if self.climate.is_calm() {
            self.serve(frame, now)
        } else if self.is_mute {
            Vec::new()
        } else {
            self.distort(frame, now)
        };
        self.perform(actions)
    }

    fn on_deadline(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= now) {
            actions.extend(entry.remove());
        }
        if self.server.next_deadline().is_some_and(|deadline| deadline <= now) {
            actions.extend(self.server.on_deadline(now));
        }
        if self.is_mute && !self.climate.is_calm() { Vec::new() } else { self.perform(actions) }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let late = self.late.first_key_value().map(|((at, _), _)| *at);
        self.server.next_deadline().into_iter().chain(late).min()
    }
}

/// The name of the tool that only this connection offers.
pub(crate) fn of_connection(number: usize) -> String {
    format!("of-{number}")
}

fn is_modern(frame: &Received) -> bool {
    frame.params()["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some()
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
