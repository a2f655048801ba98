use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_lifecycle::{
    BreakerState, CallError, RecessOptions, ServerEvent, ServerHandle, ServerOptions, ServerSpec,
    ServerStatus, Startup, State, Supervisor, SupervisorOptions,
};
use mcp_proto::{CallTool, ListTools, RawJson, SubscriptionFilter};
use mcp_session::{CallOptions, ListLimits, SubscribeOptions, SubscriptionEvent};
use mcp_transport::testing::{MemoryConnector, ServerEra, ServerLog, ServerScript, ToolBehaviour, serve_all};
use serde_json::json;
use tokio::runtime::{Builder, Handle};
use tokio::sync::broadcast;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, advance, sleep, sleep_until, timeout};

use crate::ALLOCATOR;
use crate::chaos::{Chaos, ChaosConnector, Climate, of_connection};
use crate::ledger::Ledger;
use crate::log::Errors;
use crate::person::Person;
use crate::random::Random;
use crate::wire::Wire;

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
/// What a runtime is given to catch up after it has stood still.
const MOMENT: Duration = Duration::from_millis(100);

/// Everything that is allocated in this process, over all worlds that run at once; see P7.
const MEMORY_BYTES: isize = 64 << 20;

/// Runs one seed and returns its trace: two runs of a seed have the same.
pub(crate) fn run(seed: u64) -> String {
    let errors = Errors::default();
    let _guard = tracing::subscriber::set_default(errors.clone());
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let trace = runtime.block_on(async {
        let mut world = World::new(Random::new(seed));
        world.do_everything_wrong().await;
        if world.random.percent(75) {
            world.recover().await;
        }
        world.end().await
    });
    errors.check();
    trace
}

/// One supervisor, its servers, and everybody who uses them.
struct World {
    random: Random,
    supervisor: Supervisor,
    events: broadcast::Receiver<ServerEvent>,
    servers: Vec<Site>,
    logs: Vec<ServerLog>,
    ledger: Ledger,
    wire: Wire,
    callers: JoinSet<()>,
    /// Callers that can be made to go away.
    running: BTreeMap<u64, AbortHandle>,
    peers: JoinSet<()>,
    calls: u64,
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
            wire: Wire::new(),
            callers: JoinSet::new(),
            running: BTreeMap::new(),
            peers: JoinSet::new(),
            calls: 0,
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
        let (served, weather, wire) = (inner.clone(), Arc::clone(&climate), self.wire.clone());
        let mut fates = self.random.fork();
        self.peers.spawn(async move {
            let make = |_| Chaos::new(script.start(), Arc::clone(&weather), wire.clone(), fates.fork());
            serve_all(&served, make).await;
        });
        let random = Mutex::new(self.random.fork());
        let connector = ChaosConnector { inner, climate: Arc::clone(&climate), random };
        let options = ServerOptions::default()
            .with_in_flight(self.random.pick(&[1, 2, 64]).try_into().unwrap())
            .with_queued(self.random.pick(&[1, 256]))
            .with_startup(self.random.pick(&[Startup::AtOnce, Startup::AtOnce, Startup::OnDemand]))
            .with_recess(self.recess())
            .with_handler(Arc::new(Person::new(self.random.fork())))
            .with_idempotent_tools(["fail".to_owned()].into());
        let name = format!("server {}", self.logs.len());
        let spec = ServerSpec::new(name, Arc::new(connector)).with_options(options);
        let handle = self.supervisor.add(spec).unwrap();
        self.servers.push(Site { handle, climate, is_enabled: true });
    }

    /// Half of the servers are let go when nobody uses them, or replaced when they are old.
    fn recess(&mut self) -> RecessOptions {
        let limit = |random: &mut Random| random.percent(30).then(|| 5 * SECOND + random.time(60 * SECOND));
        let (idle, age) = (limit(&mut self.random), limit(&mut self.random));
        RecessOptions::default().with_idle(idle).with_age(age)
    }

    /// The safety phase: any number of faults.
    async fn do_everything_wrong(&mut self) {
        for _ in 0..self.random.in_range(10..60) {
            self.step().await;
            self.look();
        }
    }

    async fn step(&mut self) {
        let index = usize::try_from(self.random.in_range(0..self.servers.len() as u64)).unwrap();
        match self.random.in_range(0..100) {
            0..47 => self.call(index),
            47..50 => self.list(index),
            50..54 => self.subscribe(index),
            54..59 => {
                self.running.retain(|_, caller| !caller.is_finished());
                let open: Vec<u64> = self.running.keys().copied().collect();
                if let Some(caller) = (!open.is_empty()).then(|| self.random.pick(&open)) {
                    self.running.remove(&caller).expect("it is open").abort();
                    self.ledger.give_up(caller);
                }
            }
            59..63 => {
                let behind = self.random.in_range(0..2);
                let handle = &self.servers[index].handle;
                handle.reconnect(handle.status().generation.saturating_sub(behind));
            }
            63..66 => self.servers[index].handle.wake(),
            66..69 => {
                let site = &mut self.servers[index];
                site.is_enabled = !site.is_enabled;
                if site.is_enabled { site.handle.enable() } else { site.handle.disable() }
            }
            69..71 if self.servers.len() > 1 => {
                let site = self.servers.remove(index);
                // The removal goes on without its future.
                drop(self.supervisor.remove(site.handle.name()));
                self.add();
            }
            71..73 => self.stand_still().await,
            73..86 => {
                let time = self.random.time(SECOND);
                self.wait(time).await;
            }
            _ => {
                let time = self.random.time(60 * SECOND);
                self.wait(time).await;
            }
        }
    }

    /// Time passes; after each thing that happens meanwhile the promises are checked.
    async fn wait(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            tokio::select! {
                biased;
                event = self.events.recv() => self.on_event(event.expect("no event is lost")),
                Some(ended) = self.callers.join_next() => check_caller(ended),
                () = sleep_until(until) => return,
            }
            self.look();
        }
    }

    /// The runtime does not get to run for a while: every timer is late.
    async fn stand_still(&mut self) {
        let time = self.random.time(20 * SECOND);
        self.wire.note("the runtime stands still");
        self.ledger.excuse(Instant::now() + time);
        advance(time).await;
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
        let (by, ledger) = (Instant::now() + limit, self.ledger.clone());
        self.callers.spawn(async move {
            let options = CallOptions::default().with_deadline(by);
            drop(handle.list::<ListTools>(options, ListLimits::default()).await);
            let excused = ledger.stood_still_until().max(Some(by));
            assert!(Some(Instant::now()) <= excused, "p01: a list ends too late");
        });
    }

    /// Opens a subscription, and keeps it until it ends or its caller goes away.
    fn subscribe(&mut self, index: usize) {
        let handle = self.servers[index].handle.clone();
        let patience = self.random.time(100 * SECOND);
        let mut wanted = SubscriptionFilter::default();
        wanted.tools_list_changed = true;
        let follows = self.random.percent(30);
        self.callers.spawn(async move {
            let following = async {
                if follows {
                    // Over all connections, until the server is stopped for good.
                    let mut following = handle.follow(wanted, SubscribeOptions::default());
                    while following.next().await.is_some() {}
                    return;
                }
                let Ok(mut subscription) = handle.subscribe(wanted, SubscribeOptions::default()).await else {
                    return;
                };
                while let Some(event) = subscription.next().await {
                    if let SubscriptionEvent::Ended(_) = event {
                        assert!(subscription.next().await.is_none(), "f125: an end is told once");
                        return;
                    }
                }
                panic!("f125: a subscription ends without its end");
            };
            // Going away is not an error.
            let _ = timeout(patience, following).await;
        });
    }

    /// Takes what has been told since the last look, and checks everything that must always hold.
    fn look(&mut self) {
        while let Some(ended) = self.callers.try_join_next() {
            check_caller(ended);
        }
        loop {
            match self.events.try_recv() {
                Ok(event) => self.on_event(event),
                Err(broadcast::error::TryRecvError::Empty) => break,
                Err(error) => panic!("events are lost: {error}"),
            }
        }
        self.check();
    }

    /// P1 to P4, P7, P8 and P11, at this very moment.
    fn check(&mut self) {
        if let Some(ended) = self.peers.try_join_next() {
            ended.expect("p11: every frame is one message");
        }
        self.ledger.check(&self.wire);
        for log in &self.logs {
            // A modern server whose probe fails by chaos is rightly taken for a legacy one.
            let mut violations = log.violations();
            violations.retain(|violation| !violation.contains("initialize without _meta"));
            assert_eq!(violations, [""; 0], "p11");
        }
        for site in &self.servers {
            let status = site.handle.status();
            assert!(status.in_flight <= 64 && status.waiting <= 2 * 256, "p07: {status:?}");
            if let (State::Ready { .. }, Some(lists)) = (status.state, site.handle.lists()) {
                let newest = of_connection(site.climate.connection.load(Ordering::Relaxed));
                let tools: Vec<_> = lists.tools.items.iter().map(|tool| tool.name.as_str()).collect();
                let telling: Vec<_> = tools.iter().filter(|tool| tool.starts_with("of-")).collect();
                assert!(telling.iter().all(|tool| **tool == newest), "i18: {telling:?}, not {newest}");
            }
        }
        let stats = ALLOCATOR.stats();
        let allocated = stats.bytes_allocated.cast_signed() - stats.bytes_deallocated.cast_signed();
        assert!(allocated < MEMORY_BYTES, "p07: {allocated} bytes");
    }

    fn on_event(&mut self, event: ServerEvent) {
        if let ServerEvent::StateChanged { status } = event {
            self.on_state(&status);
        }
    }

    /// Generations only grow; what is told of the past lies in the past.
    fn on_state(&mut self, status: &ServerStatus) {
        let (name, state) = (&*status.name, status.state);
        self.wire.note(&format!("{name}: {} {}", state.name(), status.generation));
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
            check_caller(ended);
            self.look();
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
                // A server that nobody needs sleeps; the call that follows wakes it.
                let is_back = |state: State| state.is_ready() || matches!(state, State::Dormant { .. });
                status.wait_for(|status| is_back(status.state)).await.map(drop).unwrap();
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
        self.look();
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
    async fn end(mut self) -> String {
        let began = Instant::now();
        let shutdown = self.supervisor.shutdown();
        let before = began.elapsed();
        if self.random.percent(20) {
            // Nothing can be done in that time: it delays the end, and changes nothing else.
            self.stand_still().await;
        }
        let stood_still = began.elapsed() - before;
        let excused = if stood_still.is_zero() { stood_still } else { stood_still + MOMENT };
        let report = shutdown.await;
        let over = began.elapsed();
        assert!(over <= SHUTDOWN + excused, "i36: {over:?}: {report:?}");
        // Every call has ended with the shutdown; their tasks only have to notice.
        while let Some(ended) = self.callers.join_next().await {
            check_caller(ended);
        }
        assert_eq!(began.elapsed(), over, "a call outlives the shutdown");
        self.look();
        for server in &report.servers {
            assert!(server.exceeded.len() <= 1, "i35: {server:?}");
            self.wire.note(&format!("{server:?}"));
        }
        // Whoever was to be told that a call is over has been told by now, or never will be.
        sleep(SECOND).await;
        self.check();
        self.ledger.check_all_ended();
        self.ledger.ends().iter().for_each(|end| self.wire.note(end));
        let Self { supervisor, callers, peers, wire, .. } = self;
        drop((supervisor, callers, peers));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "p05: tasks are left");
        wire.trace()
    }
}

/// A caller may have been told to go away; a panic in one is a broken promise.
fn check_caller(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        assert!(error.is_cancelled(), "{error}");
    }
}
