use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_transport::testing::{Action, Received};
use serde_json::Value;
use tokio::time::Instant;

/// Everything that passes between the supervisor and its servers, as the servers see it. Clones share it.
///
/// It is both the evidence that calls are held against, and the trace by which two runs are compared.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    began: Instant,
    trace: String,
    connections: Vec<Connection>,
    /// What was received of each call.
    pub(crate) calls: BTreeMap<u64, Receipt>,
}

/// What the servers have received of one call.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    /// Every request, also one that was not acted on.
    pub(crate) requests: Vec<Request>,
    /// How often it was run.
    pub(crate) runs: usize,
}

/// A request that a server has received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) connection: usize,
    pub(crate) id: String,
}

#[derive(Debug, Default)]
struct Connection {
    closed: Option<Instant>,
    /// Requests that were answered or cancelled, and when.
    over: BTreeMap<String, Instant>,
    /// What this server has asked, and has got no answer to.
    asked: BTreeSet<String>,
    /// What it has given along with questions, by the call that it has asked for.
    states: BTreeMap<String, u64>,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            began: Instant::now(),
            trace: String::new(),
            connections: Vec::new(),
            calls: BTreeMap::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, line: &str) {
        self.lock().note(line);
    }

    /// The whole trace: two runs of a seed have the same, byte for byte.
    pub(crate) fn trace(&self) -> String {
        self.lock().trace.clone()
    }

    /// A connection was opened; its number.
    pub(crate) fn on_open(&self) -> usize {
        let mut inner = self.lock();
        inner.connections.push(Connection::default());
        let number = inner.connections.len() - 1;
        inner.note(&format!("#{number} opens"));
        number
    }

    pub(crate) fn on_close(&self, number: usize) {
        let mut inner = self.lock();
        inner.connections[number].closed = Some(Instant::now());
        inner.note(&format!("#{number} closes"));
    }

    /// The server has received a frame. P11: it is one message, and an answer only to what was asked.
    pub(crate) fn on_received(&self, number: usize, frame: &Received) {
        let mut inner = self.lock();
        inner.note(&format!("#{number} < {}", frame.frame.escape_ascii()));
        match (frame.method(), frame.request_id()) {
            (Some("tools/call"), Some(id)) => {
                let call = number_of(&frame.value);
                let request = Request { connection: number, id: id.to_string() };
                if let Some(state) = frame.params()["requestState"].as_str() {
                    let owner = inner.connections[number].states.remove(state);
                    assert_eq!(
                        owner,
                        Some(call),
                        "r112: a state that was not given, or not to this call: {state}"
                    );
                }
                inner.calls.entry(call).or_default().requests.push(request);
            }
            (Some("notifications/cancelled"), None) => {
                inner.end_request(number, &frame.value["params"]["requestId"].to_string());
            }
            (None, Some(id)) => {
                let was_asked = inner.connections[number].asked.remove(&id.to_string());
                assert!(was_asked, "p11: an answer to what nobody asked, or the second one: {frame:?}");
            }
            _ => {}
        }
    }

    /// The server acts on a call.
    pub(crate) fn on_run(&self, frame: &Received) {
        if frame.method() == Some("tools/call") {
            self.lock().calls.entry(number_of(&frame.value)).or_default().runs += 1;
        }
    }

    /// The server sends something.
    pub(crate) fn on_action(&self, number: usize, action: &Action) {
        let mut inner = self.lock();
        match action {
            Action::Send(message) => {
                inner.note(&format!("#{number} > {message}"));
                let id = message["id"].to_string();
                if message.get("method").is_none() {
                    if let Some(state) = message["result"]["requestState"].as_str() {
                        let owner = inner.owner_of(number, &id);
                        inner.connections[number].states.insert(state.to_owned(), owner);
                    }
                    inner.end_request(number, &id);
                } else if message.get("id").is_some() {
                    inner.connections[number].asked.insert(id);
                }
            }
            Action::SendRaw(frame) => inner.note(&format!("#{number} > {}", frame.escape_ascii())),
            other => inner.note(&format!("#{number} {other:?}")),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A broken promise must not turn into a second panic inside a `Drop`.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether the server knew at `by` that it need not answer the request any more.
    pub(crate) fn is_over_by(&self, request: &Request, by: Instant) -> bool {
        let connection = &self.connections[request.connection];
        let over = connection.over.get(&request.id).into_iter().chain(&connection.closed).min();
        over.is_some_and(|over| *over <= by)
    }

    /// The call that the request belongs to.
    fn owner_of(&self, number: usize, id: &str) -> u64 {
        let is_it = |request: &Request| request.connection == number && request.id == id;
        let mut owners = self.calls.iter().filter(|(_, receipt)| receipt.requests.iter().any(is_it));
        *owners.next().expect("only calls get a state").0
    }

    fn end_request(&mut self, number: usize, id: &str) {
        self.connections[number].over.entry(id.to_owned()).or_insert_with(Instant::now);
    }

    fn note(&mut self, line: &str) {
        let at = self.began.elapsed().as_micros();
        writeln!(self.trace, "{at:>12} {line}").unwrap();
    }
}

/// The number that every call carries as its message.
fn number_of(request: &Value) -> u64 {
    let message = request["params"]["arguments"]["message"].as_str();
    message.and_then(|text| text.parse().ok()).expect("every call has its number")
}
