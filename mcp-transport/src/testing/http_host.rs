use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::auth_site::AuthSite;
use super::behaviour::{Action, Behaviour as _};
use super::http_event::HttpEvent;
use super::net::{NetConnection, NetRequest, NetServer};
use super::server::{Server, ServerScript};

/// The name under which the server of modern requests is kept; they have no session.
const MODERN: &str = "";

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Plays a [`ServerScript`] over Streamable HTTP on loopback, with sessions where the era has them.
///
/// Nothing is spawned: it is polled beside the client.
///
/// ```no_run
/// # use mcp_transport::testing::{HttpAnswers, HttpHost, ServerScript};
/// # async fn test() {
/// let host = HttpHost::bind(ServerScript::modern(), HttpAnswers::Json).await;
/// let tools = host.beside(async { /* connect to host.url() … */ }).await;
/// # }
/// ```
pub struct HttpHost {
    server: NetServer,
    script: ServerScript,
    answers: HttpAnswers,
    state: Mutex<State>,
    /// Something is there for a connection that waits.
    changed: Notify,
    watch: Option<Watch>,
    site: Option<Arc<AuthSite>>,
}

type Watch = Box<dyn Fn(HttpEvent<'_>) + Send + Sync>;

/// In which form an [`HttpHost`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpAnswers {
    /// As a stream of events, with the notifications of the request before its answer.
    Events,
    /// As one JSON text; notifications are left out.
    Json,
}

#[derive(Default)]
struct State {
    servers: BTreeMap<String, Server>,
    /// What waits to be written, by session and request.
    outbox: BTreeMap<(String, String), Vec<Value>>,
    sessions: usize,
    requests: Vec<NetRequest>,
}

/// What came of a request.
enum Next {
    Answer(Vec<Value>),
    /// The server has ended the connection instead.
    Gone,
    Wait(Option<Instant>),
}

impl HttpHost {
    /// Listens on a free port of 127.0.0.1.
    pub async fn bind(script: ServerScript, answers: HttpAnswers) -> Self {
        let server = NetServer::bind().await;
        Self {
            server,
            script,
            answers,
            state: Mutex::default(),
            changed: Notify::new(),
            watch: None,
            site: None,
        }
    }

    /// Tells `watch` what happens, when it happens; it must not call the host.
    #[must_use]
    pub fn watched_by(mut self, watch: impl Fn(HttpEvent<'_>) + Send + Sync + 'static) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Has `site` judge every request before it is served, and answer those that are for itself.
    #[must_use]
    pub fn guarded_by(mut self, site: Arc<AuthSite>) -> Self {
        self.site = Some(site);
        self
    }

    /// The URL of its endpoint.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<NetRequest> {
        self.state().requests.clone()
    }

    /// How many sessions were begun.
    pub fn sessions(&self) -> usize {
        self.state().sessions
    }

    /// Forgets every session, as a server does that was started anew.
    pub fn forget_sessions(&self) {
        let sessions: Vec<String> = self.state().servers.keys().cloned().collect();
        sessions.iter().filter(|session| *session != MODERN).for_each(|session| self.end_session(session));
        self.changed.notify_waiters();
    }

    /// Serves until `client` has ended; answers with its value.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the client and closes every connection.
    pub async fn beside<T>(&self, client: impl Future<Output = T>) -> T {
        let (mut client, mut run) = (pin!(client), pin!(self.run()));
        poll_fn(|cx| {
            let client = client.as_mut().poll(cx);
            // It never ends.
            let _ = run.as_mut().poll(cx);
            client
        })
        .await
    }

    /// Serves, for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes every connection.
    pub async fn run(&self) {
        let mut connections: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = Vec::new();
        loop {
            let mut next = pin!(self.server.accept());
            let connection = poll_fn(|cx| {
                connections.retain_mut(|connection| connection.as_mut().poll(cx).is_pending());
                next.as_mut().poll(cx)
            })
            .await;
            connections.push(Box::pin(self.talk(connection)));
        }
    }

    async fn talk(&self, connection: NetConnection) {
        self.tell(HttpEvent::Connected);
        self.answer_all(connection).await;
        self.tell(HttpEvent::Disconnected);
    }

    async fn answer_all(&self, mut connection: NetConnection) {
        while let Some(request) = connection.next_request().await {
            self.state().requests.push(request.clone());
            let url = self.url();
            let origin = url.strip_suffix("/mcp").unwrap_or(&url);
            if let Some(reply) = self.site.as_ref().and_then(|site| site.answer(origin, &request)) {
                connection.json(reply.status, &reply.headers, &reply.body).await;
                continue;
            }
            let session = request.header("mcp-session-id").map(ToOwned::to_owned);
            match (request.method.as_str(), session) {
                ("POST", session) => {
                    if !self.post(&mut connection, &request.json(), session).await {
                        return;
                    }
                }
                ("DELETE", Some(session)) => {
                    self.end_session(&session);
                    connection.empty("200 OK").await;
                }
                _ => connection.empty("405 Method Not Allowed").await,
            }
        }
    }

    /// Answers one message; `false` if the connection is over.
    async fn post(&self, connection: &mut NetConnection, message: &Value, session: Option<String>) -> bool {
        self.tell(HttpEvent::Received { message });
        let is_modern = message["params"]["_meta"].get(META_VERSION).is_some();
        let (session, header) = match (message["method"].as_str(), session) {
            (Some("initialize"), _) => self.begin_session(),
            (_, Some(session)) => (session, String::new()),
            (_, None) if is_modern && self.script.speaks_modern() => (MODERN.to_owned(), String::new()),
            (_, None) => {
                let why = refusal(-32000, "Bad Request: Server not initialized");
                self.refuse(connection, message, "400 Bad Request", &why).await;
                return true;
            }
        };
        let id = message.get("id").filter(|_| message.get("method").is_some()).map(Value::to_string);
        if !self.take_in(&session, message, id.as_deref()) {
            self.refuse(connection, message, "404 Not Found", &refusal(-32001, "Session not found")).await;
            return true;
        }
        self.tell(HttpEvent::Taken { message });
        let Some(id) = id else {
            connection.empty("202 Accepted").await;
            return true;
        };
        let mut has_begun = false;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let deadline = match self.next(&session, &id) {
                Next::Answer(messages) => match self.answers {
                    HttpAnswers::Json => {
                        let answer = messages.into_iter().rfind(is_answer).unwrap_or_default();
                        connection.json("200 OK", &header, &answer).await;
                        return true;
                    }
                    HttpAnswers::Events => {
                        if !std::mem::replace(&mut has_begun, true) {
                            connection.events(&header).await;
                        }
                        for message in &messages {
                            connection.event(message).await;
                        }
                        if messages.iter().any(is_answer) {
                            connection.end().await;
                            return true;
                        }
                        continue;
                    }
                },
                Next::Gone => return false,
                Next::Wait(deadline) => deadline,
            };
            // As real servers do, it begins the stream before it has anything to say.
            if self.answers == HttpAnswers::Events && !std::mem::replace(&mut has_begun, true) {
                connection.events(&header).await;
            }
            let is_over = {
                let mut timer = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
                let mut hung_up = pin!(connection.hung_up());
                poll_fn(|cx| {
                    if hung_up.as_mut().poll(cx).is_ready() {
                        return std::task::Poll::Ready(true);
                    }
                    let is_due = timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
                    match is_due || changed.as_mut().poll(cx).is_ready() {
                        true => std::task::Poll::Ready(false),
                        false => std::task::Poll::Pending,
                    }
                })
                .await
            };
            if is_over {
                self.tell(HttpEvent::HungUp { message });
                self.on_hang_up(&session, message);
                return false;
            }
        }
    }

    async fn refuse(
        &self,
        connection: &mut NetConnection,
        message: &Value,
        status: &'static str,
        why: &Value,
    ) {
        self.tell(HttpEvent::Refused { message, status });
        connection.json(status, "", why).await;
    }

    fn begin_session(&self) -> (String, String) {
        let session = {
            let mut state = self.state();
            state.sessions += 1;
            let session = format!("session-{}", state.sessions);
            state.servers.insert(session.clone(), self.script.start());
            session
        };
        self.tell(HttpEvent::SessionBegun { session: &session });
        (session.clone(), format!("mcp-session-id: {session}\r\n"))
    }

    fn end_session(&self, session: &str) {
        if self.state().servers.remove(session).is_some() && session != MODERN {
            self.tell(HttpEvent::SessionEnded { session });
        }
    }

    /// Gives a message to the server of a session; `false` if there is no such session.
    fn take_in(&self, session: &str, message: &Value, id: Option<&str>) -> bool {
        let mut state = self.state();
        if session == MODERN && !state.servers.contains_key(MODERN) {
            state.servers.insert(MODERN.to_owned(), self.script.start());
        }
        let Some(server) = state.servers.get_mut(session) else { return false };
        let actions = server.on_message(message, Instant::now());
        let is_over = state.sort(session, id, actions);
        drop(state);
        if is_over {
            self.end_session(session);
        }
        self.changed.notify_waiters();
        true
    }

    fn next(&self, session: &str, id: &str) -> Next {
        let mut state = self.state();
        let now = Instant::now();
        let Some(server) = state.servers.get_mut(session) else { return Next::Gone };
        if server.next_deadline().is_some_and(|deadline| deadline <= now) {
            let actions = server.on_deadline(now);
            state.sort(session, None, actions);
            self.changed.notify_waiters();
        }
        let waiting = state.outbox.get_mut(&(session.to_owned(), id.to_owned()));
        let is_json = self.answers == HttpAnswers::Json;
        match waiting.filter(|messages| !messages.is_empty() && (!is_json || messages.iter().any(is_answer)))
        {
            Some(messages) => Next::Answer(std::mem::take(messages)),
            None => Next::Wait(state.servers.get(session).and_then(Server::next_deadline)),
        }
    }

    /// In the modern era the end of a request's connection is its cancel.
    fn on_hang_up(&self, session: &str, message: &Value) {
        if session == MODERN {
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                "params": {"requestId": message["id"]}});
            self.take_in(session, &cancel, None);
        }
    }

    fn tell(&self, event: HttpEvent<'_>) {
        if let Some(watch) = &self.watch {
            watch(event);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Puts what a server wants sent where the request that it belongs to finds it; whether it ends.
    fn sort(&mut self, session: &str, cause: Option<&str>, actions: Vec<Action>) -> bool {
        let mut is_over = false;
        for action in actions {
            match action {
                Action::Send(message) => {
                    let token = &message["params"]["progressToken"];
                    let id = match &message["id"] {
                        Value::Null if token.is_null() => cause.map(ToOwned::to_owned),
                        Value::Null => Some(token.to_string()),
                        id => Some(id.to_string()),
                    };
                    if let Some(id) = id {
                        self.outbox.entry((session.to_owned(), id)).or_default().push(message);
                    }
                }
                Action::Close(_) => is_over = true,
                // Nothing of the kind exists over HTTP.
                Action::PauseReading | Action::ResumeReading | Action::SendBroken(_) | Action::SendRaw(_) => {
                }
            }
        }
        is_over
    }
}

fn is_answer(message: &Value) -> bool {
    message.get("method").is_none()
}

fn refusal(code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}})
}

impl fmt::Debug for HttpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHost")
            .field("server", &self.server)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}
