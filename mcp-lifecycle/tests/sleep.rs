//! A machine that sleeps and wakes up.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mcp_lifecycle::{Failure, KeepaliveOptions, State, SupervisorOptions};
use mcp_session::CallOptions;
use mcp_transport::testing::{MemoryConnector, ServerScript};
use mcp_transport::{ConnectError, WallClock};
use serde_json::json;
use support::{Bench, accept, echo, plain, ready, seconds, tool, until};
use tokio::time::{Instant, sleep};

/// A date that follows the runtime's clock, and runs ahead of it while the machine sleeps.
#[derive(Debug, Clone)]
struct Date {
    began: Instant,
    slept: Arc<Mutex<Duration>>,
}

impl Date {
    fn new() -> Self {
        Self { began: Instant::now(), slept: Arc::default() }
    }

    fn sleep(&self, time: Duration) {
        *self.slept.lock().unwrap() += time;
    }
}

impl WallClock for Date {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.began.elapsed() + *self.slept.lock().unwrap()
    }
}

fn bench(date: &Date) -> Bench {
    Bench::with(SupervisorOptions::default().with_wall_clock(Arc::new(date.clone())))
}

#[tokio::test(start_paused = true)]
async fn after_a_sleep_a_dead_connection_is_found_out_without_waiting_for_a_call() {
    let date = Date::new();
    let bench = bench(&date);
    let connector = MemoryConnector::new();
    // Its interval is long, and it has just answered.
    let keepalive = KeepaliveOptions::default().with_interval(Some(seconds(3600)));
    let server = bench.add_by_hand("one", &connector, plain().with_keepalive(keepalive));
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    sleep(seconds(60)).await; // nothing happens
    assert!(peer.transcript().iter().all(|frame| frame.method() != Some("ping")));

    date.sleep(seconds(8 * 3600));
    let woken = Instant::now();
    for _ in 0..2 {
        peer.expect("ping").await;
        peer.expect("notifications/cancelled").await;
    }
    until(&server, |status| (!status.state.is_ready()).then_some(())).await;
    assert!(woken.elapsed() <= seconds(5 + 2 * 10), "{:?}", woken.elapsed());
    assert!(matches!(server.status().last_error.as_deref(), Some(Failure::Unresponsive { .. })));
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f154_a_date_that_jumps_costs_a_living_server_one_probe_and_no_call_its_time() {
    let date = Date::new();
    let bench = bench(&date);
    let connector = MemoryConnector::new();
    let server = bench.add_by_hand("one", &connector, plain());
    let peer = connector.next_peer().await;
    accept(&peer).await;
    ready(&server).await;
    let began = Instant::now();
    let options = CallOptions::default().with_timeout(seconds(30));
    let (result, ()) = tokio::join!(server.call(tool("slow"), options), async {
        let call = peer.expect("tools/call").await;
        date.sleep(seconds(10 * 365 * 24 * 3600));
        let ping = peer.expect("ping").await;
        peer.respond(ping.id(), json!({})).await;
        sleep(seconds(20)).await; // the call takes its time
        peer.respond(call.id(), json!({"content": []})).await;
    });
    result.unwrap();
    assert!(began.elapsed() >= seconds(20) && began.elapsed() < seconds(30));
    assert_eq!(server.status().state, State::Ready { generation: 1 });
    let pings = peer.transcript().iter().filter(|frame| frame.method() == Some("ping")).count();
    assert_eq!(pings, 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn f153_servers_that_a_sleep_has_parked_come_back_spread_and_soon() {
    const SERVERS: u32 = 200;
    let date = Date::new();
    let mut bench = bench(&date);
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        let script = ServerScript::legacy();
        let (server, connector) =
            bench.add_with(&format!("server {number}"), plain().with_park_after(1), move |_| script.start());
        connector.fail_next(ConnectError::Timeout);
        servers.push(server);
    }
    for server in &servers {
        until(server, |status| matches!(status.state, State::Parked { .. }).then_some(())).await;
    }
    date.sleep(seconds(3600));
    let woken = Instant::now();
    let mut returns = Vec::new();
    for server in &servers {
        ready(server).await;
        returns.push(woken.elapsed());
        server.call(echo(), CallOptions::default()).await.unwrap();
    }
    assert!(*returns.last().unwrap() <= seconds(5 + 21), "{:?}", returns.last());
    assert!(*returns.last().unwrap() >= seconds(10), "not in one burst: {:?}", returns.last());
    bench.end().await;
}
