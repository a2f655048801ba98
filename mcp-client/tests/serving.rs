//! What a program answers when a server asks, set on the builder.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mcp_client::{Asker, Client, ClientBuilder, ClientHandler};
use mcp_lifecycle::ServerOptions;
use mcp_proto::{
    ClientCapabilities, CreateMessageResult, ElicitResult, ErrorObject, ListRootsResult, Root,
    RootsCapability, SamplingContent,
};
use mcp_session::SessionOptions;
use mcp_transport::testing::{Action, Behaviour, MemoryConnector, Received, Server, ServerScript, serve_all};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::{Duration, Instant};

/// A server that asks for all it can before it answers a call, and answers with what it was told.
struct Curious {
    server: Server,
    is_modern: bool,
    declared: Arc<Mutex<Vec<Value>>>,
    /// The call that waits, and the answers so far.
    call: Option<Received>,
    answers: serde_json::Map<String, Value>,
}

fn questions() -> Vec<(&'static str, &'static str, Value)> {
    let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
    let url = json!({"mode": "url", "message": "pay", "url": "https://pay", "elicitationId": "e"});
    let sampling = json!({"messages": [], "maxTokens": 9});
    vec![
        ("form", "elicitation/create", form),
        ("roots", "roots/list", json!({})),
        ("sampling", "sampling/createMessage", sampling),
        ("url", "elicitation/create", url),
    ]
}

impl Curious {
    fn new(script: &ServerScript, is_modern: bool, declared: &Arc<Mutex<Vec<Value>>>) -> Self {
        let (server, declared) = (script.start(), Arc::clone(declared));
        Self { server, is_modern, declared, call: None, answers: serde_json::Map::new() }
    }

    fn answer(id: &Value, told: &Value) -> Vec<Action> {
        let result = json!({"content": [{"type": "text", "text": told.to_string()}]});
        vec![Action::Send(json!({"jsonrpc": "2.0", "id": id, "result": result}))]
    }

    fn on_call(&mut self, call: &Received) -> Vec<Action> {
        let asked = questions();
        if !self.is_modern {
            self.call = Some(call.clone());
            let ask = |(id, method, params)| {
                Action::Send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            };
            return asked.into_iter().map(ask).collect();
        }
        match call.params().get("inputResponses") {
            Some(told) => Self::answer(&call.value["id"], told),
            None => {
                let ask = |(key, method, params): (&str, &str, Value)| {
                    (key.to_owned(), json!({"method": method, "params": params}))
                };
                let requests: serde_json::Map<String, Value> = asked.into_iter().map(ask).collect();
                let result = json!({"resultType": "input_required", "inputRequests": requests});
                vec![Action::Send(json!({"jsonrpc": "2.0", "id": call.value["id"], "result": result}))]
            }
        }
    }

    fn on_answer(&mut self, answer: &Received) -> Vec<Action> {
        let told = answer.value.get("result").unwrap_or(&answer.value["error"]["code"]);
        self.answers.insert(answer.value["id"].as_str().unwrap().to_owned(), told.clone());
        if self.answers.len() < questions().len() {
            return Vec::new();
        }
        let call = self.call.take().unwrap();
        Self::answer(&call.value["id"], &Value::Object(std::mem::take(&mut self.answers)))
    }
}

impl Behaviour for Curious {
    fn on_frame(&mut self, frame: &Received, now: Instant) -> Vec<Action> {
        match frame.method() {
            Some("tools/call") => self.on_call(frame),
            None => self.on_answer(frame),
            Some("notifications/roots/list_changed") => {
                self.declared.lock().unwrap().push(json!("changed"));
                Vec::new()
            }
            Some("initialize") => {
                self.declared.lock().unwrap().push(frame.params()["capabilities"].clone());
                self.server.on_frame(frame, now)
            }
            Some("server/discover") => {
                let meta = &frame.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"];
                self.declared.lock().unwrap().push(meta.clone());
                self.server.on_frame(frame, now)
            }
            Some(_) => self.server.on_frame(frame, now),
        }
    }

    fn on_deadline(&mut self, now: Instant) -> Vec<Action> {
        self.server.on_deadline(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.server.next_deadline()
    }
}

/// Calls a tool of a curious server; answers with what the model would see, and what was declared.
async fn call(is_modern: bool, options: ServerOptions, builder: ClientBuilder) -> (Value, Value) {
    let (answer, declared) = call_after(is_modern, options, builder, async |_| {}).await;
    (answer, declared.last().unwrap().clone())
}

/// As `call`, once `before` is done; answers with all that the server was told in the meantime.
async fn call_after(
    is_modern: bool,
    options: ServerOptions,
    builder: ClientBuilder,
    before: impl AsyncFnOnce(&Client),
) -> (Value, Vec<Value>) {
    let script = if is_modern { ServerScript::modern() } else { ServerScript::legacy() };
    let memory = MemoryConnector::new();
    let declared = Arc::new(Mutex::new(Vec::new()));
    let (connector, noted) = (memory.clone(), Arc::clone(&declared));
    let servers = tokio::spawn(async move {
        serve_all(&connector, move |_| Curious::new(&script, is_modern, &noted)).await;
    });
    let client = builder.connector("files", Arc::new(memory), options, []).start(&Handle::current()).unwrap();
    let status = client.server("files").unwrap().settled(Instant::now() + Duration::from_secs(60)).await;
    assert!(status.state.is_ready(), "{status:?}");
    before(&client).await;
    let asked = json!({"server": "files", "tool": "echo", "arguments": {"message": "x"}});
    let answer = client.handlers().call_tool(&asked.to_string()).await;
    let report = client.shutdown().await;
    assert!(report.is_clean(), "{report:?}");
    servers.abort();
    let declared = declared.lock().unwrap().clone();
    (serde_json::from_str(&answer).unwrap(), declared)
}

/// What the server was told, out of the result of its tool.
fn told(answer: &Value) -> Value {
    serde_json::from_str(answer["result"].as_str().unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_program_answers_what_servers_of_both_eras_ask() {
    for is_modern in [false, true] {
        let askers = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let askers = Arc::clone(&askers);
            move |asker: &Asker| askers.lock().unwrap().push(format!("{what} for {}", asker.server))
        };
        let (form, url, sampling) = (note("form"), note("url"), note("model"));
        let builder = Client::builder()
            .roots([Root::new("file:///work")])
            .on_sampling(move |asker, request| {
                sampling(&asker);
                async move {
                    assert_eq!(request.max_tokens, 9);
                    Ok(CreateMessageResult::new("m", SamplingContent::text("said")))
                }
            })
            .on_elicitation(move |asker, asked| {
                form(&asker);
                async move { Ok(ElicitResult::accept(asked.requested_schema.defaults())) }
            })
            .on_url_elicitation(move |asker, asked| {
                url(&asker);
                assert_eq!(asked.url, "https://pay");
                async { Ok(ElicitResult::decline()) }
            });
        let (answer, declared) = call(is_modern, ServerOptions::default(), builder).await;
        let told = told(&answer);
        let roots = if is_modern { json!({}) } else { json!({"listChanged": true}) };
        assert_eq!(told["form"], json!({"action": "accept", "content": {}}));
        assert_eq!(told["roots"], json!({"roots": [{"uri": "file:///work"}]}));
        assert_eq!(told["sampling"]["content"]["text"], "said");
        assert_eq!(told["url"], json!({"action": "decline"}));
        assert_eq!(
            declared,
            json!({"elicitation": {"form": {}, "url": {}}, "roots": roots, "sampling": {}}),
            "modern {is_modern}"
        );
        let mut askers = askers.lock().unwrap().clone();
        askers.sort_unstable();
        assert_eq!(askers, ["form for files", "model for files", "url for files"]);
    }
}

#[tokio::test(start_paused = true)]
async fn f186_a_program_that_answers_nothing_declares_nothing() {
    let (answer, declared) = call(false, ServerOptions::default(), Client::builder()).await;
    assert_eq!(declared, json!({}));
    let told = told(&answer);
    assert!(["form", "roots", "sampling", "url"].iter().all(|kind| told[kind] == -32601), "{told}");
    let (answer, declared) = call(true, ServerOptions::default(), Client::builder()).await;
    assert_eq!((declared, &answer["outcome"]), (json!({}), &json!("unknown")));
    assert!(answer["error"].as_str().unwrap().contains("input"), "{answer}");
}

/// Serves folders of its own.
struct Folders(&'static str);

#[async_trait]
impl ClientHandler for Folders {
    fn capabilities(&self) -> ClientCapabilities {
        let mut all = ClientCapabilities::default();
        all.roots = Some(RootsCapability::default());
        all
    }

    async fn list_roots(&self, _: &Asker) -> Result<ListRootsResult, ErrorObject> {
        Ok(ListRootsResult::new(vec![Root::new(self.0)]))
    }
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_server_comes_before_that_of_the_client() {
    let builder = || Client::builder().handler(Arc::new(Folders("file:///all")));
    let (answer, _) = call(false, ServerOptions::default(), builder()).await;
    assert_eq!(told(&answer)["roots"]["roots"][0]["uri"], "file:///all");
    let session = SessionOptions::default().with_handler(Arc::new(Folders("file:///own")));
    let (answer, declared) = call(false, ServerOptions::default().with_session(session), builder()).await;
    assert_eq!(told(&answer)["roots"]["roots"][0]["uri"], "file:///own");
    assert_eq!(declared, json!({"roots": {}}));
    // What is set by kind comes before the handler for the rest.
    let (answer, _) =
        call(false, ServerOptions::default(), builder().roots([Root::new("file:///set")])).await;
    assert_eq!(told(&answer)["roots"]["roots"][0]["uri"], "file:///set");
}

#[tokio::test(start_paused = true)]
async fn f167_new_roots_are_told_to_servers_that_have_a_notice_for_it_and_answered_to_all() {
    for is_modern in [true, false] {
        let builder = Client::builder()
            .roots([Root::new("file:///work")])
            .on_sampling(async |_, _| Ok(CreateMessageResult::new("m", SamplingContent::text("said"))))
            .on_elicitation(async |_, _| Ok(ElicitResult::decline()))
            .on_url_elicitation(async |_, _| Ok(ElicitResult::decline()));
        let (answer, declared) = call_after(is_modern, ServerOptions::default(), builder, async |client| {
            // Nobody has asked in between: what is told once covers all of it.
            client.set_roots([Root::new("file:///other")]).await.unwrap();
            client.set_roots([Root::new("file:///new")]).await.unwrap();
        })
        .await;
        assert_eq!(told(&answer)["roots"], json!({"roots": [{"uri": "file:///new"}]}));
        let changes = declared.iter().filter(|told| **told == json!("changed")).count();
        assert_eq!(changes, usize::from(!is_modern));
    }
    let (_, _) = call_after(false, ServerOptions::default(), Client::builder(), async |client| {
        assert_eq!(client.set_roots([]).await, Err(mcp_client::NoRoots));
    })
    .await;
}
