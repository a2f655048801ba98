use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::actor::Actor;
use crate::registry::Registry;
use crate::report::{Exceeded, ServerReport, ShutdownReport, StopStep};
use crate::server::Server;
use crate::sleep_watch::SleepWatch;
use crate::stop_plan::{MOMENT, StopPlan, standstill};
use crate::timer;

/// How long after its limit an actor is still waited for.
const ACTOR_SLACK: Duration = Duration::from_millis(50);

/// The task at the root: owns the actors of all servers, starts them, joins them, and runs the
/// shutdown as one sequence on its own runtime.
#[derive(Debug)]
pub(crate) struct Root {
    registry: Arc<Registry>,
    actors: JoinSet<()>,
    /// Whose task is which, so that every one can be named.
    owners: HashMap<Id, Arc<Server>>,
}

impl Root {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, actors: JoinSet::new(), owners: HashMap::new() }
    }

    pub(crate) async fn run(mut self) {
        let clock = Arc::clone(&self.registry.runtime.options.wall_clock);
        let mut sleep = SleepWatch::new(clock.now(), Instant::now());
        while !self.registry.is_stopping() {
            self.start_new();
            tokio::select! {
                biased;
                Some(joined) = self.actors.join_next_with_id() => self.on_joined(joined),
                () = self.registry.changed.notified() => {}
                () = timer::until(Some(sleep.next_look())) => {
                    if let Some(slept) = sleep.look(clock.now(), Instant::now()) {
                        self.on_resumed(slept);
                    }
                }
            }
        }
        self.start_new();
        self.shut_down().await;
    }

    fn on_resumed(&self, slept: Duration) {
        let servers = self.registry.servers();
        tracing::info!(
            slept_s = slept.as_secs(),
            servers = servers.len(),
            "the machine has slept, or its date was set; connections are probed"
        );
        for server in servers {
            server.orders.give(|wishes| wishes.resumed = true);
        }
    }

    /// Takes over the servers that were added.
    fn start_new(&mut self) {
        for new in self.registry.take_new() {
            let server = Arc::clone(&new.server);
            if server.is_over() && new.predecessor.is_none() {
                // Never started, so there is nothing to stop.
                server.ended.set(ServerReport::new(Arc::clone(&server.name)));
                self.end(&server);
                continue;
            }
            let mut actor = Actor::new(new);
            let task = self.actors.spawn(async move { actor.run().await });
            self.owners.insert(task.id(), server);
        }
    }

    /// Stops all servers at once and waits for them, no longer than the limit.
    ///
    /// New servers and calls are refused already. Each actor goes through its own steps; their
    /// deadlines are fixed here, now, on the runtime that has to meet them.
    async fn shut_down(&mut self) {
        let options = &self.registry.runtime.options;
        let servers = self.registry.everybody();
        let plan = StopPlan::new(Instant::now(), options.drain, options.total);
        let plan = *self.registry.runtime.plan.get_or_init(|| plan);
        tracing::info!(servers = servers.len(), "shutting down");
        for server in &servers {
            server.orders.give(|wishes| wishes.stop = true);
        }
        let limit = self.join_all(plan).await;
        let unfinished = self.finish_last_work(plan.began, limit).await;
        // Those that did not end in time have been dropped by now: their reports say so.
        let reports = servers.iter().map(|server| server.ended.get());
        let servers = reports.flatten().map(|report| (*report).clone()).collect();
        let report = ShutdownReport { servers, unfinished, elapsed: plan.began.elapsed() };
        tracing::info!(elapsed_ms = report.elapsed.as_millis(), is_clean = report.is_clean(), "shut down");
        self.registry.report.set(report);
    }

    /// Joins the actors. They keep their limits themselves; the one here is for an actor that does not
    /// get to run, and it comes after theirs, also when a standstill of the runtime has moved those.
    /// Returns until when they had.
    async fn join_all(&mut self, plan: StopPlan) -> Instant {
        let mut limit = self.limit(plan);
        let mut until = limit;
        while !self.actors.is_empty() {
            tokio::select! {
                biased;
                Some(joined) = self.actors.join_next_with_id() => self.on_joined(joined),
                () = timer::until(Some(until)) => {
                    let (now, moved) = (Instant::now(), self.limit(plan));
                    if moved > limit {
                        limit = moved;
                        until = moved.max(now + MOMENT);
                    } else if until == limit && standstill(limit, now).is_some() {
                        // The actors slept as long, and may not have looked at their own limits yet.
                        until = now + MOMENT;
                    } else {
                        break;
                    }
                }
            }
        }
        for server in std::mem::take(&mut self.owners).into_values() {
            tracing::warn!(server = %server.name, "a server did not stop in time; it is abandoned");
            server.retire("its owner did not get to run in time");
        }
        self.actors.abort_all();
        limit
    }

    /// Gives work that must not be cut off what is left of the time; returns what has not ended then.
    ///
    /// It has gone on beside everything else. Whoever does it goes on after that as well, or does not.
    async fn finish_last_work(&self, began: Instant, limit: Instant) -> Vec<Exceeded> {
        let mut unfinished = Vec::new();
        for (name, work) in self.registry.runtime.options.last_work() {
            work.close();
            if timeout_at(limit, work.wait()).await.is_err() {
                let (tasks, elapsed) = (work.len(), began.elapsed());
                tracing::warn!(work = %name, tasks, elapsed_ms = elapsed.as_millis(), "work that must not be cut off did not end in time");
                let what = format!("{tasks} tasks of {name}");
                unfinished.push(Exceeded { step: StopStep::Finish, elapsed, what });
            }
        }
        unfinished
    }

    /// When every actor that is left must have ended.
    fn limit(&self, plan: StopPlan) -> Instant {
        let ends = self.owners.values().filter_map(|server| server.end_by());
        ends.fold(plan.end_by, Instant::max) + ACTOR_SLACK
    }

    fn on_joined(&mut self, joined: Result<(Id, ()), JoinError>) {
        let id = match &joined {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some(server) = self.owners.remove(&id) else { return };
        if let Err(error) = joined {
            tracing::error!(server = %server.name, %error, "the owner of a server panicked");
        }
        self.end(&server);
    }

    /// Nothing of the server lives any more.
    fn end(&self, server: &Arc<Server>) {
        server.retire("its owner failed");
        if server.is_removed() || server.is_replaced() {
            self.registry.forget(server);
        }
    }
}

/// The runtime ended, or the supervisor was dropped: nobody may wait for what will not come.
impl Drop for Root {
    fn drop(&mut self) {
        self.registry.close();
        let servers = self.registry.everybody();
        servers.iter().for_each(|server| server.retire("the runtime or the supervisor ended before it"));
        if self.registry.report.get().is_none() {
            let reports = servers.iter().filter_map(|server| server.ended.get());
            let servers = reports.map(|report| (*report).clone()).collect();
            let unfinished = Vec::new();
            self.registry.report.set(ShutdownReport { servers, unfinished, elapsed: Duration::ZERO });
        }
    }
}
