//! A client whose servers live in memory, and a wire that can be held up at the moment of sending.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mcp_client::{Client, Handlers};
use mcp_lifecycle::{ServerHandle, ServerOptions, ServerStatus};
use mcp_proto::{Frame, Message, RequestId, Secret, parse_frame};
use mcp_transport::testing::{Behaviour, MemoryConnector, ServerLog, ServerScript, serve_all};
use mcp_transport::{
    Abandoned, CloseReport, ConnectError, Connection, Connector, Full, Outbound, SendError, Sent, Streams,
    Transport,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Duration, Instant};

/// The name of the one server.
pub const SERVER: &str = "s";

/// What the server was trusted with.
pub const SECRET: &str = "canary-7f3a-0001";

/// One of the five operations: its name, its method on the wire, and a good call of it.
pub const OPERATIONS: [(&str, &str); 5] = [
    ("call_tool", "tools/call"),
    ("list_resources", "resources/list"),
    ("read_resource", "resources/read"),
    ("list_prompts", "prompts/list"),
    ("get_prompt", "prompts/get"),
];

/// Calls an operation through its public handler.
pub async fn perform(handlers: &Handlers, operation: &str) -> Value {
    let answer = match operation {
        "call_tool" => {
            let arguments = json!({"server": SERVER, "tool": "echo", "arguments": {"message": "hello"}});
            handlers.call_tool(&arguments.to_string()).await
        }
        "list_resources" => handlers.list_resources(&json!({"server": SERVER}).to_string()).await,
        "read_resource" => {
            let arguments = json!({"server": SERVER, "uri": "fixture://text/1"});
            handlers.read_resource(&arguments.to_string()).await
        }
        "list_prompts" => handlers.list_prompts(&json!({"server": SERVER}).to_string()).await,
        "get_prompt" => {
            let arguments = json!({"server": SERVER, "name": "prompt-0", "arguments": {"topic": "rain"}});
            handlers.get_prompt(&arguments.to_string()).await
        }
        other => panic!("no operation {other}"),
    };
    serde_json::from_str(&answer).unwrap()
}

/// Whether the answer is what the scripted server says to [`perform`].
pub fn is_right(operation: &str, answer: &Value) -> bool {
    match operation {
        "call_tool" => answer["result"] == "hello",
        "list_resources" => answer["resources"][0]["uri"] == "fixture://text/0",
        "read_resource" => answer["result"] == "This is text 1.",
        "list_prompts" => answer["prompts"][0]["name"] == "prompt-0",
        "get_prompt" => answer["messages"][0]["content"] == "Say something about rain.",
        other => panic!("no operation {other}"),
    }
}

/// A client with one server in memory.
pub struct Stage {
    pub client: Client,
    pub handlers: Handlers,
    pub wire: Wire,
    pub log: ServerLog,
    pub memory: MemoryConnector,
    servers: JoinHandle<()>,
}

impl Stage {
    /// Starts the client and waits until its server is ready.
    pub async fn start(options: ServerOptions) -> Self {
        let stage = Self::begin(options, ServerScript::legacy());
        assert!(stage.settled().await.state.is_ready());
        stage
    }

    /// Starts the client with a server that plays `script`.
    pub fn begin(options: ServerOptions, script: ServerScript) -> Self {
        let log = script.log();
        Self { log, ..Self::playing(options, move |_| script.start()) }
    }

    /// Starts the client with a server that behaves as `make` says on each of its connections.
    pub fn playing<B: Behaviour + 'static>(
        options: ServerOptions,
        make: impl FnMut(usize) -> B + Send + 'static,
    ) -> Self {
        let memory = MemoryConnector::new();
        let wire = Wire::new(memory.clone());
        let connector = memory.clone();
        let servers = tokio::spawn(async move { serve_all(&connector, make).await });
        let client = Client::builder()
            .connector(SERVER, Arc::new(wire.clone()), options, [Secret::new(SECRET)])
            .start(&Handle::current())
            .unwrap();
        Self { handlers: client.handlers(), client, wire, log: ServerLog::default(), memory, servers }
    }

    pub fn server(&self) -> ServerHandle {
        self.client.server(SERVER).unwrap()
    }

    pub async fn settled(&self) -> ServerStatus {
        self.server().settled(Instant::now() + Duration::from_secs(3600)).await
    }

    /// Replaces the present connection.
    pub fn swap(&self) {
        let server = self.server();
        server.reconnect(server.status().generation);
    }

    /// Begins an operation in a task of its own.
    pub fn perform(&self, operation: &'static str) -> JoinHandle<Value> {
        let handlers = self.handlers.clone();
        tokio::spawn(async move { perform(&handlers, operation).await })
    }

    /// Ends everything and checks that nothing is left under way.
    pub async fn finish(self) {
        let status = self.server().status();
        assert_eq!((status.in_flight, status.waiting), (0, 0));
        let report = self.client.shutdown().await;
        assert!(report.is_clean(), "{report:?}");
        assert!(self.log.violations().is_empty(), "{:?}", self.log.violations());
        self.servers.abort();
    }
}

/// Lets other tasks run until `condition` holds. The clock stands still meanwhile.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        yield_now().await;
    }
    panic!("never: {what}");
}

/// A connector that counts what leaves on which connection, and can hold one frame up at the very moment
/// of sending.
#[derive(Debug, Clone)]
pub struct Wire {
    memory: MemoryConnector,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicUsize,
    /// Connection and method of every request that was handed to the real transport.
    left: Mutex<Vec<(usize, String)>>,
    /// The method whose next request waits, and where it waits.
    held: Mutex<Option<(String, Arc<Semaphore>)>>,
    arrived: AtomicUsize,
}

impl Wire {
    fn new(memory: MemoryConnector) -> Self {
        Self { memory, shared: Arc::default() }
    }

    /// Makes the next request of `method` wait before it is handed over; adds a permit to let it go.
    pub fn hold(&self, method: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.shared.held.lock().unwrap() = Some((method.to_owned(), Arc::clone(&gate)));
        gate
    }

    /// How many requests have come to a gate.
    pub fn arrived(&self) -> usize {
        self.shared.arrived.load(Ordering::SeqCst)
    }

    /// How many requests of `method` were handed over on the connection `number`, from 0.
    pub fn left(&self, number: usize, method: &str) -> usize {
        let left = self.shared.left.lock().unwrap();
        left.iter().filter(|(on, what)| *on == number && what == method).count()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Connector for Wire {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let connection = self.memory.connect(by).await?;
        let number = self.shared.connections.fetch_add(1, Ordering::SeqCst);
        let transport = Watched { number, inner: connection.transport, shared: Arc::clone(&self.shared) };
        Ok(Connection::new(Arc::new(transport), connection.receive))
    }
}

#[derive(Debug)]
struct Watched {
    number: usize,
    inner: Arc<dyn Transport>,
    shared: Arc<Shared>,
}

impl Watched {
    fn gate(&self, method: &str) -> Option<Arc<Semaphore>> {
        let mut held = self.shared.held.lock().unwrap();
        held.take_if(|(wanted, _)| wanted == method).map(|(_, gate)| gate)
    }
}

#[async_trait]
impl Transport for Watched {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        let method = method_of(&message);
        if let Some(gate) = self.gate(&method) {
            self.shared.arrived.fetch_add(1, Ordering::SeqCst);
            let _permit = gate.acquire().await.unwrap();
        }
        let sent = self.inner.send(message).await?;
        self.shared.left.lock().unwrap().push((self.number, method));
        Ok(sent)
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        self.inner.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        self.inner.abandon(id, notice)
    }

    async fn close(&self, by: Instant) -> CloseReport {
        self.inner.close(by).await
    }
}

fn method_of(message: &Outbound) -> String {
    match parse_frame(&message.frame) {
        Ok(Frame::Single(Message::Request { method, .. })) => method.to_string(),
        _ => String::new(),
    }
}
