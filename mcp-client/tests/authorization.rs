//! A client whose server asks for authorization: who is asked, once for everybody, and what is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod web;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use mcp_client::{Authorization, Client, ConfigFile, Insist, LoginError};
use mcp_lifecycle::State;
use mcp_transport::auth::{AuthorizationRequest, CallbackHub, LoginEnd, LoopbackUi, Pasted, Presenter};
use mcp_transport::testing::{AuthSite, ServerScript};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use web::{Web, grant};

/// A person who grants whatever is asked, and pastes the answer.
#[derive(Debug, Default)]
struct Person {
    asked: AtomicUsize,
    answer: Mutex<Option<String>>,
}

impl Person {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Presenter for Person {
    async fn show(&self, request: &AuthorizationRequest) -> Result<(), LoginEnd> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        *self.answer.lock().unwrap() = Some(grant(request.url().expose()));
        Ok(())
    }

    async fn pasted(&self) -> Pasted {
        let answer = self.answer.lock().unwrap().take();
        match answer {
            Some(answer) => Pasted::read(&answer),
            None => std::future::pending().await,
        }
    }
}

fn ui(person: &Arc<Person>) -> Arc<LoopbackUi> {
    Arc::new(LoopbackUi::new(CallbackHub::default(), Arc::<Person>::clone(person)))
}

fn file(url: &str, more: &Value) -> ConfigFile {
    let mut servers = json!({"guarded": {"url": url}});
    if let (Some(servers), Some(more)) = (servers.as_object_mut(), more.as_object()) {
        servers.extend(more.clone());
    }
    let text = json!({"mcpServers": servers}).to_string();
    ConfigFile::parse("mcp.json", None, &text, &|_| None).unwrap()
}

async fn call(client: &Client) -> Value {
    let arguments = json!({"server": "guarded", "tool": "echo", "arguments": {"message": "hello"}});
    serde_json::from_str(&client.handlers().call_tool(&arguments.to_string()).await).unwrap()
}

async fn settled(client: &Client) -> State {
    client.server("guarded").unwrap().settled(Instant::now() + Duration::from_secs(20)).await.state
}

#[tokio::test]
async fn f060_calls_of_handlers_wait_for_one_login_and_a_reload_keeps_it() {
    let site = Arc::new(AuthSite::default());
    let web = Web::guarded(ServerScript::modern(), &site);
    let person = Arc::new(Person::default());
    let authorization = Authorization::in_memory().with_ui(ui(&person));
    let client = Client::builder()
        .authorization(authorization)
        .config(file(&web.url, &json!({})))
        .start(&Handle::current())
        .unwrap();
    assert_eq!((settled(&client).await, person.asked()), (State::NeedsAuth, 0), "by itself it asks nobody");
    for answer in join_all((0..20).map(|_| call(&client))).await {
        assert_eq!(answer["result"], "hello", "{answer}");
    }
    assert_eq!((person.asked(), site.registered(), site.issued()), (1, 1, 1));
    // An unchanged server keeps what it is authorized with, although that is nowhere but in memory.
    let reload = client.reload(file(&web.url, &json!({"other": {"command": "true", "disabled": true}})));
    assert_eq!(reload.unchanged, ["guarded"]);
    assert_eq!(call(&client).await["result"], "hello");
    assert_eq!(person.asked(), 1);
    assert!(client.shutdown().await.is_clean());
}

#[tokio::test]
async fn l07_where_nobody_may_be_asked_a_handler_says_what_to_do() {
    let site = Arc::new(AuthSite::default());
    let web = Web::guarded(ServerScript::legacy(), &site);
    let client = Client::builder().config(file(&web.url, &json!({}))).start(&Handle::current()).unwrap();
    settled(&client).await;
    let answer = call(&client).await;
    assert_eq!(answer["needs_reauth"], true, "{answer}");
    assert_eq!((&answer["outcome"], &answer["retryable"]), (&json!("not_sent"), &json!(false)));
    assert!(answer["error"].as_str().unwrap().contains("log in"), "{answer}");
    assert_eq!((site.registered(), site.issued()), (0, 0));
    // A login that somebody begins wakes it, and a logout ends it.
    let person = Arc::new(Person::default());
    client.login("guarded", ui(&person), Insist::IfNeeded).await.unwrap();
    assert_eq!(call(&client).await["result"], "hello");
    client.logout("guarded").await.unwrap();
    assert_eq!(settled(&client).await, State::NeedsAuth);
    assert_eq!(call(&client).await["needs_reauth"], true);
    let unknown = client.logout("nobody").await.unwrap_err();
    assert!(matches!(unknown, LoginError::UnknownServer { .. }), "{unknown:?}");
    assert!(client.shutdown().await.is_clean());
}

#[tokio::test]
async fn a_login_in_another_process_wakes_a_server_that_waits() {
    let site = Arc::new(AuthSite::default());
    let web = Web::guarded(ServerScript::legacy(), &site);
    let folder = tempfile::tempdir().unwrap();
    // As two processes, each with a store of its own in one folder.
    let start = || {
        Client::builder()
            .authorization(Authorization::in_folder(folder.path().join("credentials")))
            .config(file(&web.url, &json!({})))
            .start(&Handle::current())
            .unwrap()
    };
    let (waiting, other) = (start(), start());
    assert_eq!((settled(&waiting).await, settled(&other).await), (State::NeedsAuth, State::NeedsAuth));
    other.login("guarded", ui(&Arc::default()), Insist::IfNeeded).await.unwrap();
    let server = waiting.server("guarded").unwrap();
    let mut watch = server.watch();
    let ready = watch.wait_for(|status| status.state.is_ready());
    timeout(Duration::from_secs(20), ready).await.expect("it is woken").unwrap();
    assert_eq!(call(&waiting).await["result"], "hello");
    assert_eq!(site.issued(), 1);
    drop(waiting.shutdown().await);
    drop(other.shutdown().await);
}
