//! A handler that does what the request tells it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mcp_proto::{
    ClientCapabilities, CreateMessage, CreateMessageResult, Elicit, ElicitResult, ElicitationCapability,
    Entries, ErrorObject, FieldValue, ListRootsResult, Root, RootsCapability, SamplingCapability,
    SamplingContent,
};
use mcp_session::{Asker, ClientHandler};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Notes who asks for what; what an elicitation says decides what becomes of it.
///
/// `panic` panics, `fail` fails, `hang` never ends, `wait` waits for [`Desk::let_go`], `large` is
/// answered with a megabyte, `several` with two texts; anything else is accepted at once.
pub struct Desk {
    pub capabilities: ClientCapabilities,
    asked: Mutex<Vec<String>>,
    running: Arc<AtomicUsize>,
    most_running: AtomicUsize,
    released: Semaphore,
}

/// Counts one request as running while it lives.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Desk {
    /// Serves everything but URLs.
    pub fn new() -> Arc<Self> {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::form());
        capabilities.roots = Some(RootsCapability::default());
        capabilities.sampling = Some(SamplingCapability::default());
        Self::serving(capabilities)
    }

    pub fn serving(capabilities: ClientCapabilities) -> Arc<Self> {
        Arc::new(Self {
            capabilities,
            asked: Mutex::default(),
            running: Arc::default(),
            most_running: AtomicUsize::new(0),
            released: Semaphore::new(0),
        })
    }

    /// Lets so many requests that wait go on.
    pub fn let_go(&self, requests: usize) {
        self.released.add_permits(requests);
    }

    /// What was asked so far: by whom, what.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// How many futures of this handler live.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// How many futures of this handler have lived at once.
    pub fn most_running(&self) -> usize {
        self.most_running.load(Ordering::SeqCst)
    }

    fn note(&self, asker: &Asker, what: &str) -> Running {
        self.asked.lock().unwrap().push(format!("{} {what}", asker.server));
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        Running(Arc::clone(&self.running))
    }
}

#[async_trait]
impl ClientHandler for Desk {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities.clone()
    }

    async fn list_roots(&self, asker: &Asker) -> Result<ListRootsResult, ErrorObject> {
        let _running = self.note(asker, "roots");
        Ok(ListRootsResult::new(vec![Root::new("file:///work")]))
    }

    async fn create_message(
        &self,
        asker: &Asker,
        request: CreateMessage,
    ) -> Result<CreateMessageResult, ErrorObject> {
        let _running = self.note(asker, "sampling");
        if request.max_tokens == 0 {
            std::future::pending::<()>().await;
        }
        Ok(CreateMessageResult::new("model", SamplingContent::text("said")))
    }

    async fn elicit(&self, asker: &Asker, request: Elicit) -> Result<ElicitResult, ErrorObject> {
        let message = request.message().unwrap_or_default().to_owned();
        let _running = self.note(asker, &message);
        let mut text = message.clone();
        if message == "several" {
            let several = FieldValue::Many(vec!["a".to_owned(), "b".to_owned()]);
            return Ok(ElicitResult::accept(Entries::from_iter([("said".to_owned(), several)])));
        }
        match message.as_str() {
            "fail" => return Err(ErrorObject::new(-1, "a person said no")),
            "hang" => std::future::pending().await,
            "large" => text = "x".repeat(1_000_000),
            "panic" => panic!("a bug in a handler"),
            "wait" => self.released.acquire().await.unwrap().forget(),
            _ => {}
        }
        Ok(ElicitResult::accept(Entries::from_iter([("said".to_owned(), FieldValue::Text(text))])))
    }
}

/// The parameters of an elicitation that says `message`.
pub fn form(message: &str) -> Value {
    json!({"message": message, "requestedSchema": {"type": "object", "properties": {"said": {"type": "string"}}}})
}

/// The parameters of a sampling request; it is never answered with no tokens at all.
pub fn sampling(tokens: u32) -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": tokens})
}

/// What the handler answers to an elicitation that says `message`.
pub fn accepted(message: &str) -> Value {
    json!({"action": "accept", "content": {"said": message}})
}
