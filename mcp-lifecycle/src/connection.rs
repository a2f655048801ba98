//! One connection from its first step to its last: a task of its own, owned by the server's actor.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use mcp_proto::Era;
use mcp_session::{CallError, Driver, EraPolicy, HandshakeError, Opening, Session, SessionOptions};
use mcp_transport::{CloseReport, Closed, ConnectError, Connection, Connector, Ending, Streams, Transport};
use tokio::time::{Instant, timeout_at};

use crate::aside::Aside;
use crate::failure::{Failure, Stage};
use crate::follow::follow;
use crate::keepalive::{Due, Keepalive, Verdict};
use crate::lists::Lists;
use crate::machine::{Haste, Standing};
use crate::server::Server;
use crate::stop_plan::later;
use crate::timer;
use crate::wire::{News, Wire};

/// How long past its deadline a transport may take to say that it has closed.
const CLOSE_SLACK: std::time::Duration = std::time::Duration::from_millis(50);

/// What the owner of a connection holds of it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) generation: u64,
    pub(crate) wire: Arc<Wire>,
    /// Once it is up.
    pub(crate) session: Option<Session>,
}

/// When a connection is opened, among all that are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) haste: Haste,
    pub(crate) standing: Standing,
}

/// The task of one connection, before it runs.
#[derive(Debug)]
pub(crate) struct Task {
    server: Arc<Server>,
    connector: Arc<dyn Connector>,
    generation: u64,
    era: Option<Era>,
    turn: Turn,
    wire: Arc<Wire>,
}

/// Makes a task and what its owner holds of it.
pub(crate) fn prepare(
    server: &Arc<Server>,
    connector: &Arc<dyn Connector>,
    generation: u64,
    era: Option<Era>,
    turn: Turn,
) -> (Link, Task) {
    let wire = Arc::new(Wire::default());
    let task = Task {
        server: Arc::clone(server),
        connector: Arc::clone(connector),
        generation,
        era,
        turn,
        wire: Arc::clone(&wire),
    };
    (Link { generation, wire, session: None }, task)
}

impl Task {
    /// Opens, serves and closes one connection. Returns how it was closed, `None` if it never stood.
    ///
    /// Every wait stands beside the order to close. What is done once is boxed, so that a connection that
    /// stands keeps no room for it.
    pub(crate) async fn run(&self) -> Option<CloseReport> {
        let opening = Box::pin(open(&self.server, &*self.connector, self.turn));
        let (connection, by) = match self.wire.unless_closed(opening).await? {
            Ok(opened) => opened,
            Err(failure) => {
                self.wire.tell(News::Lost(failure));
                return None;
            }
        };
        let transport = Arc::clone(&connection.transport);
        let (opening, driver) = mcp_session::open(connection, self.session_options());
        let established = Box::pin(establish(&self.server, opening, self.lists_at_once(&*transport), by));
        let mut engine = Engine::new(driver);
        let mut session = None;
        let life = Life { task: self, engine: &mut engine, session: &mut session };
        // Boxed, because a future that is handed on takes its room a second time.
        if let Some(failure) = self.wire.unless_closed(Box::pin(life.live(established))).await {
            // At once, before the rest of the connection is wound down.
            self.wire.tell(News::Lost(failure));
        }
        Some(Box::pin(self.wind_down(transport, session, engine)).await)
    }

    fn session_options(&self) -> SessionOptions {
        let mut options = self.server.options.session.clone().with_server_name(Arc::clone(&self.server.name));
        options.handler_quota.get_or_insert_with(|| self.server.handler_quota.clone());
        if let (EraPolicy::Auto, Some(era)) = (options.era, self.era) {
            options.era = match era {
                Era::Legacy => EraPolicy::Legacy,
                Era::Modern => EraPolicy::Modern,
            };
        }
        options
    }

    fn lists_at_once(&self, transport: &dyn Transport) -> NonZeroUsize {
        match transport.streams() {
            // A stream of its own for each would mean a new connection for each.
            Streams::PerRequest => NonZeroUsize::MIN,
            Streams::Shared => self.server.options.in_flight,
        }
    }

    /// Closes what is left of a connection, also one that broke by itself: its process may still run.
    async fn wind_down(
        &self,
        transport: Arc<dyn Transport>,
        session: Option<Session>,
        mut engine: Engine,
    ) -> CloseReport {
        let began = Instant::now();
        let mut by = self.wire.closes_by().unwrap_or_else(|| later(began, self.server.options.close_limit));
        loop {
            let closing = async {
                match &session {
                    Some(session) => session.close(by).await,
                    None => transport.close(by).await,
                }
            };
            tokio::select! {
                biased;
                report = timeout_at(by + CLOSE_SLACK, engine.beside(closing)) => {
                    return report.unwrap_or_else(|_| CloseReport::new(Ending::Abandoned, None, began.elapsed()));
                }
                earlier = self.wire.closes_before(by) => by = earlier,
            }
        }
    }
}

/// The engine of a session, run beside whatever is done with the session.
struct Engine {
    driver: Pin<Box<dyn Future<Output = Closed> + Send>>,
    ended: Option<Closed>,
}

impl Engine {
    fn new(driver: Driver) -> Self {
        Self { driver: Box::pin(driver.run()), ended: None }
    }

    /// Does `work` while the session runs. If that ends first, the work goes on: it knows best what
    /// the end means for it.
    async fn beside<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return output,
                closed = &mut self.driver, if self.ended.is_none() => self.ended = Some(closed),
            }
        }
    }

    /// Waits for the end of the session.
    async fn ended(&mut self) -> Closed {
        if let Some(closed) = &self.ended {
            return closed.clone();
        }
        let closed = (&mut self.driver).await;
        self.ended.insert(closed).clone()
    }
}

/// A connection between its opening and its loss.
struct Life<'a> {
    task: &'a Task,
    engine: &'a mut Engine,
    session: &'a mut Option<Session>,
}

impl Life<'_> {
    /// Makes the session ready, announces it, and keeps it until it is lost.
    async fn live(self, established: impl Future<Output = Result<(Session, Lists), Failure>>) -> Failure {
        let Task { server, wire, generation, .. } = self.task;
        let (session, lists) = match self.engine.beside(established).await {
            Ok(established) => established,
            Err(failure) => return failure,
        };
        *self.session = Some(session.clone());
        wire.tell(News::Up(session.clone(), lists));
        session.trim();
        let mut trouble = Aside::new(async {
            tokio::select! {
                biased;
                failure = watch_health(server, &session, wire) => failure,
                failure = follow(server, *generation, &session) => failure,
            }
        });
        // The end of the session explains everything else, so it is looked at first.
        tokio::select! {
            biased;
            closed = self.engine.ended() => Failure::Lost(closed),
            failure = trouble.output() => failure,
        }
    }
}

/// Opens a connection, when its turn has come. The time limit begins with the turn.
async fn open(
    server: &Server,
    connector: &dyn Connector,
    turn: Turn,
) -> Result<(Connection, Instant), Failure> {
    if turn.haste == Haste::Paced {
        let begin = server.runtime.book_reconnect(Instant::now());
        timer::until(Some(begin)).await;
    }
    let limit = server.options.connect_limit;
    let connect = || async {
        let by = later(Instant::now(), limit);
        match timeout_at(by, connector.connect(by)).await {
            Ok(Ok(connection)) => Ok((connection, by)),
            Ok(Err(ConnectError::Timeout)) | Err(_) => Err(Failure::Timeout { stage: Stage::Opening, limit }),
            Ok(Err(error)) => Err(Failure::Connect(error)),
        }
    };
    server.runtime.openings.open(turn.standing, connect).await
}

/// Handshake and lists, under the deadline that the opening began with.
async fn establish(
    server: &Server,
    opening: Opening,
    lists_at_once: NonZeroUsize,
    by: Instant,
) -> Result<(Session, Lists), Failure> {
    let limit = server.options.connect_limit;
    let too_late = |stage| Failure::Timeout { stage, limit };
    let session = match timeout_at(by, opening.handshake(by)).await {
        Ok(Ok(session)) => session,
        Ok(Err(HandshakeError::Timeout)) | Err(_) => return Err(too_late(Stage::Handshake)),
        Ok(Err(error)) => return Err(Failure::Handshake(error)),
    };
    match Lists::fetch(&session, server.options.lists, lists_at_once, by).await {
        Ok(lists) => Ok((session, lists)),
        Err(Failure::List { error, .. }) if error.is_timeout() => Err(too_late(Stage::Lists)),
        Err(Failure::List { error: CallError::SessionGone { closed, .. }, .. }) => Err(Failure::Lost(closed)),
        Err(failure) => Err(failure),
    }
}

/// Probes the connection when it is idle or under suspicion; returns when it counts as dead.
async fn watch_health(server: &Server, session: &Session, wire: &Wire) -> Failure {
    let mut keepalive = Keepalive::new(server.options.keepalive.clone(), Instant::now());
    loop {
        let due = tokio::select! {
            biased;
            () = wire.slept.notified() => keepalive.on_resumed(Instant::now()),
            () = wire.timed_out.notified() => keepalive.on_suspicion(Instant::now()),
            () = timer::until(keepalive.next_deadline()) => {
                keepalive.on_due(Instant::now(), session.in_flight())
            }
        };
        let Due::Probe { by } = due else { continue };
        let frames = session.counters().frames;
        // Boxed, so that a connection takes no room for it between two probes.
        match Box::pin(session.probe(by)).await {
            Ok(()) => keepalive.on_answer(Instant::now()),
            // The end of the session is not ours to report.
            Err(error) if error.is_session_gone() => return std::future::pending().await,
            Err(CallError::Http(rejection)) if rejection.wants_authorization() => {
                return rejection.auth.map_or(Failure::Unauthorized, Failure::Authorization);
            }
            Err(error) => {
                let heard = session.counters().frames != frames;
                tracing::debug!(server = %server.name, %error, heard, "no answer to a probe");
                if let Verdict::Dead { misses } = keepalive.on_miss(heard, Instant::now()) {
                    return Failure::Unresponsive { misses };
                }
            }
        }
    }
}
