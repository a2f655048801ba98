use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_lifecycle::{
    BreakerState, CallError, ServerEvent, ServerHandle, ServerOptions, ServerSpec, State, Supervisor,
    SupervisorOptions,
};
use mcp_proto::{CallTool, ListTools, RawJson};
use mcp_session::{CallOptions, ListLimits};
use mcp_transport::testing::{MemoryConnector, ServerEra, ServerLog, ServerScript, ToolBehaviour, serve_all};
use serde_json::json;
use tokio::runtime::{Builder, Handle};
use tokio::sync::broadcast;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::chaos::{Chaos, ChaosConnector, Climate};
use crate::ledger::Ledger;
use crate::random::Random;

const SECOND: Duration = Duration::from_secs(1);
/// P10: one backoff cap and one connect limit; before that an attempt that the last fault has stalled
/// may use up its own limit and be closed.
const RECOVERY: Duration = Duration::from_secs(60 + 60 + 60 + 10);
/// Fetching a changed list may take this long.
const FETCH: Duration = Duration::from_secs(60);
/// A parked server is left alone for up to this long.
const PARKED: Duration = Duration::from_secs(360);
/// The breaker is open for up to this long.
const BROKEN: Duration = Duration::from_secs(300);
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Runs one seed and returns its trace: two runs of a seed have the same.
pub(crate) fn run(seed: u64) -> Vec<String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(Random::new(seed));
        world.do_everything_wrong().await;
        if world.random.percent(75) {
            world.recover().await;
        }
        world.end().await
    })
}

/// One supervisor, its servers, and everybody who uses them.
struct World {
    random: Random,
    supervisor: Supervisor,
    events: broadcast::Receiver<ServerEvent>,
    servers: Vec<Site>,
    logs: Vec<ServerLog>,
    ledger: Ledger,
    callers: JoinSet<()>,
    /// Callers that can be made to go away.
    running: BTreeMap<u64, AbortHandle>,
    peers: JoinSet<()>,
    calls: u64,
    trace: Vec<String>,
    generations: BTreeMap<String, u64>,
}

/// A server as the world sees it.
struct Site {
    handle: ServerHandle,
    climate: Arc<Climate>,
    is_enabled: bool,
}

impl World {
    fn new(mut random: Random) -> Self {
        let options = SupervisorOptions::default().with_seed(random.next()).with_events(1 << 16);
        let supervisor = Supervisor::start(&Handle::current(), options);
        let mut world = Self {
            events: supervisor.events(),
            supervisor,
            servers: Vec::new(),
            logs: Vec::new(),
            ledger: Ledger::default(),
            callers: JoinSet::new(),
            running: BTreeMap::new(),
            peers: JoinSet::new(),
            calls: 0,
            trace: Vec::new(),
            generations: BTreeMap::new(),
            random,
        };
        for _ in 0..world.random.in_range(1..4) {
            world.add();
        }
        world
    }

    fn add(&mut self) {
        let era = self.random.pick(&[ServerEra::Both, ServerEra::Legacy, ServerEra::Modern]);
        let script = ServerScript::new(era)
            .with_page_size(usize::try_from(self.random.in_range(0..4)).unwrap())
            .with_tool("slow", ToolBehaviour::Slow(3 * SECOND));
        self.logs.push(script.log());
        let climate = Arc::new(Climate::default());
        let inner = MemoryConnector::new();
        let (served, weather) = (inner.clone(), Arc::clone(&climate));
        let mut fates = self.random.fork();
        self.peers.spawn(async move {
            serve_all(&served, |_| Chaos::new(script.start(), Arc::clone(&weather), fates.fork())).await;
        });
        let random = Mutex::new(self.random.fork());
        let connector = ChaosConnector { inner, climate: Arc::clone(&climate), random };
        let options = ServerOptions::default()
            .with_in_flight(self.random.pick(&[1, 2, 64]).try_into().unwrap())
            .with_queued(self.random.pick(&[1, 256]))
            .with_idempotent_tools(["fail".to_owned()].into());
        let name = format!("server {}", self.logs.len());
        let spec = ServerSpec::new(name, Arc::new(connector)).with_options(options);
        let handle = self.supervisor.add(spec).unwrap();
        self.servers.push(Site { handle, climate, is_enabled: true });
    }

    /// The safety phase: any number of faults.
    async fn do_everything_wrong(&mut self) {
        for _ in 0..self.random.in_range(10..60) {
            self.step().await;
            self.look().await;
        }
    }

    async fn step(&mut self) {
        let index = usize::try_from(self.random.in_range(0..self.servers.len() as u64)).unwrap();
        match self.random.in_range(0..100) {
            0..50 => self.call(index),
            50..55 => self.list(index),
            55..60 => {
                let number = self.random.in_range(0..self.calls + 1);
                if let Some(caller) = self.running.remove(&number).filter(|caller| !caller.is_finished()) {
                    caller.abort();
                    self.ledger.give_up(number);
                }
            }
            60..64 => {
                let behind = self.random.in_range(0..2);
                let handle = &self.servers[index].handle;
                handle.reconnect(handle.status().generation.saturating_sub(behind));
            }
            64..67 => self.servers[index].handle.wake(),
            67..70 => {
                let site = &mut self.servers[index];
                site.is_enabled = !site.is_enabled;
                if site.is_enabled { site.handle.enable() } else { site.handle.disable() }
            }
            70..72 if self.servers.len() > 1 => {
                let site = self.servers.remove(index);
                // The removal goes on without its future.
                drop(self.supervisor.remove(site.handle.name()));
                self.add();
            }
            72..85 => sleep(self.random.time(SECOND)).await,
            _ => sleep(self.random.time(60 * SECOND)).await,
        }
    }

    fn call(&mut self, index: usize) {
        let tool = self.random.pick(&["echo", "echo", "echo", "slow", "hang", "fail", "error", "crash"]);
        let limit = Duration::from_millis(1) + self.random.time(30 * SECOND);
        // Servers report progress now and then: only the deadline holds whatever they do.
        let by = Instant::now() + limit;
        let number = self.calls;
        self.calls += 1;
        self.ledger.begin(number, limit, tool == "fail");
        let (handle, ledger) = (self.servers[index].handle.clone(), self.ledger.clone());
        let caller = self.callers.spawn(async move {
            let arguments = RawJson::encode(&json!({"message": number.to_string()})).unwrap();
            let call = CallTool::new(tool).with_arguments(arguments);
            let options = CallOptions::default().with_timeout(limit).with_deadline(by);
            let result = handle.call(call, options).await;
            ledger.end(number, result.as_ref().map(drop));
        });
        self.running.insert(number, caller);
    }

    fn list(&mut self, index: usize) {
        let handle = self.servers[index].handle.clone();
        let limit = Duration::from_millis(1) + self.random.time(30 * SECOND);
        let by = Instant::now() + limit;
        self.callers.spawn(async move {
            let options = CallOptions::default().with_deadline(by);
            drop(handle.list::<ListTools>(options, ListLimits::default()).await);
            assert!(Instant::now() <= by, "a list ends too late");
        });
    }

    /// Checks what has been told since the last look.
    async fn look(&mut self) {
        while let Some(ended) = self.callers.try_join_next() {
            if let Err(error) = ended {
                assert!(error.is_cancelled(), "a caller panicked: {error}");
            }
        }
        loop {
            match self.events.try_recv() {
                Ok(ServerEvent::StateChanged { status }) => self.on_state(&status.name, status.state),
                Ok(_) => {}
                Err(broadcast::error::TryRecvError::Empty) => break,
                Err(error) => panic!("events are lost: {error}"),
            }
        }
    }

    /// Generations only grow; what is told of the past lies in the past.
    fn on_state(&mut self, name: &str, state: State) {
        self.trace.push(format!("{:?} {name}: {}", Instant::now().elapsed(), state.name()));
        let newest = self.generations.entry(name.to_owned()).or_default();
        match state {
            State::Connecting { generation, .. } => {
                assert!(generation > *newest, "{name}: {generation} after {newest}");
                *newest = generation;
            }
            State::Ready { generation } => {
                assert_eq!(generation, *newest, "{name} is ready with another one")
            }
            _ => {}
        }
    }

    /// The liveness phase: the faults stop, and every server comes back by itself.
    async fn recover(&mut self) {
        for site in &self.servers {
            site.climate.is_calm.store(true, Ordering::Relaxed);
        }
        // Every caller comes to an end by itself.
        while let Some(ended) = self.callers.join_next().await {
            assert!(ended.is_ok() || ended.unwrap_err().is_cancelled());
        }
        for index in 0..self.servers.len() {
            let site = &self.servers[index];
            if !site.is_enabled {
                site.handle.enable();
            }
            let handle = site.handle.clone();
            let back = async {
                // What was ordered in the last moment is carried out first.
                handle.settled(Instant::now() + RECOVERY).await;
                let mut status = handle.watch();
                status.wait_for(|status| status.state.is_ready()).await.map(drop).unwrap();
            };
            let back = timeout(RECOVERY + PARKED, back).await;
            assert!(back.is_ok(), "p10: {} does not come back: {:?}", handle.name(), handle.status());
            self.serve_again(&handle).await;
            // A changed list may still be on its way, whose answer the last fault has swallowed.
            let by = Instant::now() + FETCH;
            while handle.status().in_flight > 0 && Instant::now() < by {
                sleep(SECOND).await;
            }
            let status = handle.status();
            assert_eq!((status.in_flight, status.waiting), (0, 0), "nothing is left behind: {status:?}");
            assert_eq!(status.breaker, BreakerState::Closed);
        }
        self.look().await;
    }

    /// A call succeeds; an open breaker may hold it up for as long as it says.
    async fn serve_again(&mut self, handle: &ServerHandle) {
        let by = Instant::now() + BROKEN + 10 * SECOND;
        loop {
            let number = self.calls;
            self.calls += 1;
            self.ledger.begin(number, 60 * SECOND, false);
            let arguments = RawJson::encode(&json!({"message": number.to_string()})).unwrap();
            let call = CallTool::new("echo").with_arguments(arguments);
            let result = handle.call(call, CallOptions::default()).await;
            self.ledger.end(number, result.as_ref().map(drop));
            match result {
                Ok(_) => return,
                Err(CallError::CircuitOpen { retry_in, .. }) if Instant::now() + retry_in <= by => {
                    sleep(retry_in.max(Duration::from_millis(1))).await;
                }
                Err(error) => panic!("p10: {error}"),
            }
        }
    }

    /// A shutdown in whatever state everything is: in time, and nothing is left.
    async fn end(mut self) -> Vec<String> {
        let began = Instant::now();
        let report = self.supervisor.shutdown().await;
        assert!(began.elapsed() <= SHUTDOWN, "i36: {:?}: {report:?}", began.elapsed());
        // Every call has ended with the shutdown; their tasks only have to notice.
        while let Some(ended) = self.callers.join_next().await {
            assert!(ended.is_ok() || ended.unwrap_err().is_cancelled());
        }
        assert_eq!(began.elapsed(), report.elapsed, "a call outlives the shutdown");
        self.look().await;
        let executions: Vec<_> = self.logs.iter().flat_map(ServerLog::executions).collect();
        self.ledger.check(&executions);
        for log in &self.logs {
            // A modern server whose probe fails by chaos is rightly taken for a legacy one.
            let mut violations = log.violations();
            violations.retain(|violation| !violation.contains("initialize without _meta"));
            assert_eq!(violations, [""; 0], "p11");
        }
        for server in &report.servers {
            assert!(server.exceeded.len() <= 1, "i35: {server:?}");
            self.trace.push(format!("{server:?}"));
        }
        self.trace.extend(self.ledger.ends());
        let Self { supervisor, callers, peers, trace, .. } = self;
        drop((supervisor, callers, peers));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "p05: tasks are left");
        trace
    }
}
