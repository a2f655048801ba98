//! Healthy servers beside as many good ones, and beside as many that do everything wrong.

use std::time::Duration;

use mcp_lifecycle::ServerHandle;
use mcp_session::CallOptions;
use mcp_transport::testing::checks::children;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::stage::{Stage, call_of, ready};
use crate::table::{Table, p99_ms};
use crate::{Outcome, Size};

/// Servers of which every fifth misbehaves.
const HEALTHY: usize = 40;

/// How a bad server misbehaves, by the flags of the fixture server. Two of each make ten.
const BAD: [&[&str]; 5] = [
    // Reads nothing any more from its first call on.
    &["--on", "tools/call: hang"],
    // Ends with every call.
    &["--on", "tools/call: exit 3"],
    // Writes what no message is.
    &["--on", "tools/call: noise 2000; write-bytes 9; noise 1; respond"],
    // Takes longer than anybody waits.
    &["--tool", "echo=slow:1500"],
    // Says ten thousand things before each answer, on both streams.
    &["--flood-notifications", "10000", "--on", "tools/call: stderr-flood 1000000; respond"],
];

/// How often each healthy server is called.
const PACE: Duration = Duration::from_millis(20);

/// How long a caller of a bad server waits.
const PATIENCE: Duration = Duration::from_millis(1000);

/// How long bad servers that are switched off may take to end: running calls have 5 s, a stop 6 s.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Callers of each bad server.
const CALLERS: usize = 2;

pub(crate) async fn run(size: Size, table: &mut Table) -> Outcome<()> {
    let (rounds, time) = size.pick((1, Duration::from_secs(1)), (5, Duration::from_secs(4)));
    let stage = Stage::start(|_, options| options)?;
    let healthy = (0..HEALTHY).map(|number| stage.add(&format!("healthy {number}"), &[]));
    let healthy = healthy.collect::<Outcome<Vec<_>>>()?;
    for server in &healthy {
        ready(server).await?;
    }
    let bad =
        BAD.iter().chain(&BAD).enumerate().map(|(number, flags)| stage.add(&format!("bad {number}"), flags));
    let bad = bad.collect::<Outcome<Vec<_>>>()?;
    let (mut calls, mut failed, mut rises, mut calm_p99s, mut stormy_p99s) = (0, 0, vec![], vec![], vec![]);
    let mut suffered = 0;
    for _ in 0..rounds {
        for server in &bad {
            server.disable();
        }
        gone().await?;
        let calm = call_all(&healthy, time).await?;
        let mut callers = JoinSet::new();
        for server in &bad {
            server.enable();
            for _ in 0..CALLERS {
                callers.spawn(bother(server.clone(), Instant::now() + time + PATIENCE));
            }
        }
        let stormy = call_all(&healthy, time).await?;
        while let Some(caller) = callers.join_next().await {
            suffered += caller??;
        }
        calls += calm.0.len() + stormy.0.len();
        failed += calm.1 + stormy.1;
        let (calm, stormy) = (p99_ms(calm.0), p99_ms(stormy.0));
        rises.push(stormy - calm);
        calm_p99s.push(calm);
        stormy_p99s.push(stormy);
    }
    stage.end(table).await?;
    table.at_least("calls to healthy servers", calls, HEALTHY * rounds * size.pick(20, 200));
    table.at_least("calls to bad servers that failed", suffered, rounds * 10);
    table.count("calls to healthy servers that failed", failed, 0);
    table.note("healthy servers alone: p99", median(calm_p99s), "ms");
    table.note("healthy servers beside bad ones: p99", median(stormy_p99s), "ms");
    table.figure("rise of the p99", median(rises), "ms", 5.0);
    Ok(())
}

/// Waits until the bad servers have ended; the last of them takes its time.
async fn gone() -> Outcome<()> {
    let by = Instant::now() + GONE_WITHIN;
    while children().len() > HEALTHY {
        if Instant::now() > by {
            let left = children().len();
            return Err(format!("{left} children are left of servers that were switched off").into());
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Calls every server at a pace; how long the calls took, and how many failed.
async fn call_all(servers: &[ServerHandle], time: Duration) -> Outcome<(Vec<Duration>, usize)> {
    let mut callers: JoinSet<Outcome<(Vec<Duration>, usize)>> = JoinSet::new();
    for server in servers {
        let server = server.clone();
        callers.spawn(async move {
            let (mut durations, mut failed) = (Vec::new(), 0);
            let mut pace = interval(PACE);
            pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let by = Instant::now() + time;
            while Instant::now() < by {
                pace.tick().await;
                let began = Instant::now();
                let call = call_of("echo", "healthy", Duration::ZERO)?;
                match server.call(call, CallOptions::default()).await {
                    Ok(_) => durations.push(began.elapsed()),
                    Err(error) => {
                        failed += 1;
                        eprintln!("a call to a healthy server failed: {error}");
                    }
                }
            }
            Ok((durations, failed))
        });
    }
    let (mut durations, mut failed) = (Vec::new(), 0);
    while let Some(caller) = callers.join_next().await {
        let (mut more, fewer) = caller??;
        durations.append(&mut more);
        failed += fewer;
    }
    Ok((durations, failed))
}

/// Calls a bad server again and again; how often that failed.
async fn bother(server: ServerHandle, by: Instant) -> Outcome<usize> {
    let mut failed = 0;
    while Instant::now() < by {
        let call = call_of("echo", "bad", Duration::ZERO)?;
        if server.call(call, CallOptions::default().with_timeout(PATIENCE)).await.is_err() {
            failed += 1;
            // What is refused is refused at once.
            sleep(PACE).await;
        }
    }
    Ok(failed)
}

/// The middle of the values: one round in which the machine did something else decides nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
