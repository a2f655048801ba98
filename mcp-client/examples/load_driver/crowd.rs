//! Many servers at once, then very many calls at once on all of them.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle::ServerHandle;
use mcp_session::CallOptions;
use mcp_transport::testing::checks::open_descriptors;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::memory::{processor_time, resident_mib};
use crate::stage::{Stage, call_of, ready};
use crate::table::{Table, number, p99_ms};
use crate::{Outcome, Size};

/// One server in so many hears neither the end of its input nor SIGTERM.
const STUBBORN: usize = 10;

/// How often each caller calls.
const ROUNDS: u32 = 3;

/// Bytes of each message.
const PAYLOAD: usize = 1024;

pub(crate) async fn run(size: Size, table: &mut Table) -> Outcome<()> {
    let (servers, calls) = size.pick((40, 400), (500, 10_000));
    let stage = Stage::start(|_, options| options)?;
    let began = Instant::now();
    let handles = (0..servers).map(|number| {
        let flags: &[&str] =
            if number % STUBBORN == 0 { &["--ignore-stdin-close", "--ignore-sigterm"] } else { &[] };
        stage.add(&format!("server {number}"), flags)
    });
    let handles = handles.collect::<Outcome<Vec<_>>>()?;
    for handle in &handles {
        ready(handle).await?;
    }
    table.figure(format!("{servers} servers ready"), began.elapsed().as_secs_f64(), "s", 10.0);
    be_idle(servers, size, table).await?;
    be_busy(&handles, calls, size, table).await?;
    let began = Instant::now();
    stage.end(table).await?;
    let stubborn = servers.div_ceil(STUBBORN);
    let what = format!("{servers} servers stopped, {stubborn} of them stubborn");
    table.figure(what, began.elapsed().as_secs_f64(), "s", 5.0);
    Ok(())
}

async fn be_idle(servers: usize, size: Size, table: &mut Table) -> Outcome<()> {
    let (began, before) = (Instant::now(), processor_time());
    sleep(size.pick(Duration::from_millis(500), Duration::from_secs(5))).await;
    let busy = (processor_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    table.figure(format!("{servers} idle servers: processor"), 100.0 * busy, "%", 1.0);
    table.figure(format!("{servers} idle servers: memory"), resident_mib()?, "MiB", 60.0);
    let spare = number(open_descriptors().len()) - 64.0;
    table.figure("descriptors per idle server, 64 apart", spare / number(servers), "fd", 4.0);
    Ok(())
}

/// Keeps `calls` calls in flight, each of which its server answers after `delay`. They begin one after
/// another, so that what is measured is how long a call takes, not how long so many take to begin.
async fn be_busy(handles: &[ServerHandle], calls: usize, size: Size, table: &mut Table) -> Outcome<()> {
    let delay = size.pick(Duration::from_millis(500), Duration::from_secs(5));
    let message: Arc<str> = (0..PAYLOAD).map(|_| 'm').collect::<String>().into();
    let began = Instant::now();
    let mut callers: JoinSet<Outcome<Vec<Duration>>> = JoinSet::new();
    for (number, handle) in handles.iter().cycle().take(calls).enumerate() {
        let (handle, message) = (handle.clone(), Arc::clone(&message));
        let begin = began + delay * u32::try_from(number)? / u32::try_from(calls)?;
        callers.spawn(async move {
            sleep_until(begin).await;
            let mut overheads = Vec::new();
            for _ in 0..ROUNDS {
                let began = Instant::now();
                handle.call(call_of("echo", &message, delay)?, CallOptions::default()).await?;
                overheads.push(began.elapsed().saturating_sub(delay));
            }
            Ok(overheads)
        });
    }
    let (mut most, mut memory) = (0, 0.0_f64);
    for part in 5..10 {
        sleep_until(began + delay * part / 4).await;
        most = most.max(handles.iter().map(|handle| handle.status().in_flight).sum());
        memory = memory.max(resident_mib()?);
    }
    let (mut overheads, mut failed) = (Vec::new(), 0);
    while let Some(caller) = callers.join_next().await {
        match caller? {
            Ok(mut durations) => overheads.append(&mut durations),
            Err(error) => {
                failed += 1;
                eprintln!("a call failed: {error}");
            }
        }
    }
    // A caller between two calls has none in flight.
    table.at_least("calls in flight", most, calls * 99 / 100);
    table.count("calls in flight: failed", failed, 0);
    table.figure("calls in flight: memory", memory, "MiB", 120.0);
    table.figure("calls in flight: p99 of the overhead", p99_ms(overheads), "ms", 20.0);
    Ok(())
}
