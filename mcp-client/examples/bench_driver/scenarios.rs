use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mcp_lifecycle::ServerHandle;
use mcp_proto::{CallTool, ListTools, RawJson};
use mcp_session::{CallOptions, ListLimits};
use serde_json::{Value, json};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::flags::{Flags, Scenario, Transport};
use crate::measure::{Metrics, Stretch, Taken, number, open_descriptors, peak_rss_kb, rss_kb};
use crate::process_table::{kill, tagged, zombies};
use crate::stage::{Stage, check, echo, echo_of, options, ready, text, unended};

const MICROSECONDS: f64 = 1e6;
const MILLISECONDS: f64 = 1e3;

/// The name of the server where there is only one.
const ONE: &str = "one";

/// Notifications before each answer of a `flood`.
const BURST: u32 = 10_000;

/// Servers that are being connected at a time.
const OPENING: usize = 8;

/// How long a `reconnect` may take before it counts as failed.
const RECONNECTED_WITHIN: Duration = Duration::from_secs(60);

/// Runs the scenario that the flags name.
pub(crate) async fn run(flags: &Arc<Flags>) -> Outcome<Metrics> {
    let metrics = match flags.scenario {
        Scenario::Bulk => bulk(flags).await,
        Scenario::Cancel => cancel(flags).await,
        Scenario::Conc => conc(flags).await,
        Scenario::Connect => connect(flags).await,
        Scenario::Flood => flood(flags).await,
        Scenario::Idle => idle(flags).await,
        Scenario::List => list(flags).await,
        Scenario::Reconnect => reconnect(flags).await,
        Scenario::Seq => seq(flags).await,
        Scenario::Shutdown => shutdown(flags).await,
    }?;
    Ok(metrics.with("peak_rss_kb", peak_rss_kb()))
}

async fn connect(flags: &Flags) -> Outcome<Metrics> {
    let stage = Stage::start(flags)?;
    let mut opening = Vec::new();
    let stretch = Stretch::begin();
    for _ in 0..flags.params.n {
        let began = Instant::now();
        stage.open(ONE, &[]).await?;
        opening.push(began.elapsed());
        stage.client.remove(ONE).ok_or("the server is not there any more")?.await;
    }
    let taken = stretch.end();
    stage.end().await?;
    Ok(Metrics::default()
        .with_percentiles("connect_ms", opening, MILLISECONDS)
        .with("cpu_ms_per_connect", taken.cpu_seconds * MILLISECONDS / f64::from(flags.params.n)))
}

async fn seq(flags: &Flags) -> Outcome<Metrics> {
    let (stage, message) = (Stage::start(flags)?, message(flags));
    let server = stage.open(ONE, &[]).await?;
    for _ in 0..flags.params.warmup {
        echo(&server, &message, flags).await?;
    }
    let mut latencies = Vec::new();
    let stretch = Stretch::begin();
    for _ in 0..flags.params.n {
        let began = Instant::now();
        echo(&server, &message, flags).await?;
        latencies.push(began.elapsed());
    }
    let taken = stretch.end();
    stage.end().await?;
    Ok(of_calls(flags, taken, latencies))
}

async fn conc(flags: &Arc<Flags>) -> Outcome<Metrics> {
    let stage = Stage::start(flags)?;
    let server = stage.open(ONE, &[]).await?;
    let params = flags.params;
    share(&server, flags, params.warmup.max(params.concurrency.saturating_mul(2))).await?;
    let stretch = Stretch::begin();
    let latencies = share(&server, flags, params.n).await?;
    let taken = stretch.end();
    stage.end().await?;
    Ok(of_calls(flags, taken, latencies))
}

/// Makes `calls` calls, shared by as many callers as the flags say; returns how long each took.
async fn share(server: &ServerHandle, flags: &Arc<Flags>, calls: u32) -> Outcome<Vec<Duration>> {
    let left = Arc::new(AtomicU32::new(calls));
    let message: Arc<str> = message(flags).into();
    let mut callers = JoinSet::new();
    for _ in 0..flags.params.concurrency {
        let (server, flags) = (server.clone(), Arc::clone(flags));
        let (left, message) = (Arc::clone(&left), Arc::clone(&message));
        callers.spawn(async move {
            let mut latencies = Vec::new();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let began = Instant::now();
                echo(&server, &message, &flags).await?;
                latencies.push(began.elapsed());
            }
            Outcome::Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(latencies) = callers.join_next().await {
        all.append(&mut latencies??);
    }
    Ok(all)
}

async fn bulk(flags: &Flags) -> Outcome<Metrics> {
    let (stage, message) = (Stage::start(flags)?, message(flags));
    let server = stage.open(ONE, &[]).await?;
    for _ in 0..3 {
        echo(&server, &message, flags).await?;
    }
    let stretch = Stretch::begin();
    for _ in 0..flags.params.n {
        echo(&server, &message, flags).await?;
    }
    let taken = stretch.end();
    stage.end().await?;
    let calls = f64::from(flags.params.n);
    // Out and back.
    let megabytes = 2.0 * f64::from(flags.params.payload) * calls / 1e6;
    Ok(Metrics::default()
        .with("mb_per_s", megabytes / taken.seconds)
        .with("cpu_ms_per_mb", taken.cpu_seconds * MILLISECONDS / megabytes)
        .with("switches_per_call", taken.switches.map(|switches| switches / calls)))
}

async fn list(flags: &Flags) -> Outcome<Metrics> {
    let stage = Stage::start(flags)?;
    let server = stage.open(ONE, &["--tools", &flags.params.tools.to_string()]).await?;
    // The client listed once to become ready; the figure is about the listings from here on.
    let before = rss_kb();
    let mut tools = listed(&server).await?;
    let mut durations = Vec::new();
    let stretch = Stretch::begin();
    for _ in 0..flags.params.n {
        let began = Instant::now();
        tools = listed(&server).await?;
        durations.push(began.elapsed());
    }
    let taken = stretch.end();
    stage.end().await?;
    if number(tools) < f64::from(flags.params.tools) {
        return Err(format!("only {tools} tools were listed").into());
    }
    let growth = peak_rss_kb().zip(before).map(|(peak, before)| peak - before);
    Ok(Metrics::default()
        .with_percentiles("list_ms", durations, MILLISECONDS)
        .with("cpu_ms_per_list", taken.cpu_seconds * MILLISECONDS / f64::from(flags.params.n))
        .with("tools", number(tools))
        .with("rss_growth_kb", growth))
}

/// Lists every tool anew and says how many there are.
async fn listed(server: &ServerHandle) -> Outcome<usize> {
    let limits = ListLimits::default().with_max_items(usize::MAX);
    let listed = server.list::<ListTools>(CallOptions::default(), limits).await?;
    match listed.truncated {
        None => Ok(listed.items.len()),
        Some(why) => Err(why.into()),
    }
}

async fn idle(flags: &Flags) -> Outcome<Metrics> {
    let before = rss_kb();
    let stage = Stage::start(flags)?;
    let began = Instant::now();
    open_all(&stage, flags.params.servers, 0, &[]).await?;
    let connected = began.elapsed();
    sleep(Duration::from_millis(500)).await;
    let stretch = Stretch::begin();
    sleep(Duration::from_secs_f64(flags.params.seconds)).await;
    let taken = stretch.end();
    let (resident, descriptors) = (rss_kb(), open_descriptors());
    stage.end().await?;
    let servers = f64::from(flags.params.servers);
    Ok(Metrics::default()
        .with("rss_kb", resident)
        .with("rss_kb_per_server", resident.zip(before).map(|(after, before)| (after - before) / servers))
        .with("cpu_ms", taken.cpu_seconds * MILLISECONDS)
        .with("wakeups", taken.switches)
        .with("fds_per_server", descriptors.map(|descriptors| descriptors / servers))
        .with("connect_all_ms", connected.as_secs_f64() * MILLISECONDS))
}

async fn cancel(flags: &Flags) -> Outcome<Metrics> {
    let stage = Stage::start(flags)?;
    let server = stage.open(ONE, &[]).await?;
    for _ in 0..3 {
        echo(&server, "warm", flags).await?;
    }
    let before = cancelled(&server).await?;
    let timeout = Duration::from_millis(flags.params.timeout_ms.into());
    let late = RawJson::encode(&json!({"message": "late", "delay_ms": 60_000}))?;
    let mut overruns = Vec::new();
    for _ in 0..flags.params.n {
        let request = CallTool::new("echo").with_arguments(late.clone());
        let began = Instant::now();
        match server.call(request, CallOptions::default().with_timeout(timeout)).await {
            Err(error) if error.is_timeout() => overruns.push(began.elapsed().saturating_sub(timeout)),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("an answer came before its time".into()),
        }
    }
    let began = Instant::now();
    echo(&server, "after", flags).await?;
    let next_call = began.elapsed();
    sleep(Duration::from_millis(100)).await;
    let seen = cancelled(&server).await? - before;
    stage.end().await?;
    Ok(Metrics::default()
        .with_percentiles("overrun_us", overruns, MICROSECONDS)
        .with("next_call_us", next_call.as_secs_f64() * MICROSECONDS)
        .with("cancelled_seen", seen / f64::from(flags.params.n)))
}

/// How many requests the server has seen cancelled.
async fn cancelled(server: &ServerHandle) -> Outcome<f64> {
    let answer = server.call(CallTool::new("stats"), CallOptions::default()).await?;
    let stats: Value = serde_json::from_str(text(&answer)?)?;
    Ok(stats.get("cancelled").and_then(Value::as_f64).ok_or("the server does not count what is cancelled")?)
}

async fn shutdown(flags: &Flags) -> Outcome<Metrics> {
    stdio_only(flags)?;
    let how: &[&str] = match flags.params.hard {
        true => &["--ignore-stdin-close", "--ignore-sigterm", "--fork-grandchild"],
        false => &["--ignore-stdin-close"],
    };
    let alive = || tagged(&flags.tag).map(|processes| number(processes.len()));
    let stage = Stage::start(flags)?;
    let began = Instant::now();
    open_all(&stage, flags.params.servers, flags.params.stubborn, how).await?;
    let connected = began.elapsed();
    let before = alive();
    let stretch = Stretch::begin();
    let report = stage.client.shutdown().await;
    let taken = stretch.end();
    let (left, zombies) = (alive(), zombies().map(number));
    sleep(Duration::from_secs(1)).await;
    let later = tagged(&flags.tag);
    later.iter().flatten().try_for_each(|pid| kill(*pid))?;
    Ok(Metrics::default()
        .with("shutdown_ms", taken.seconds * MILLISECONDS)
        .with("cpu_ms", taken.cpu_seconds * MILLISECONDS)
        .with("connect_all_ms", connected.as_secs_f64() * MILLISECONDS)
        .with("processes_before", before)
        .with("left_at_return", left)
        .with("left_after_1s", later.map(|processes| number(processes.len())))
        .with("zombies_at_return", zombies)
        .with("close_errors", number(unended(&report))))
}

async fn reconnect(flags: &Flags) -> Outcome<Metrics> {
    stdio_only(flags)?;
    let stage = Stage::start(flags)?;
    let server = stage.open(ONE, &[]).await?;
    let mut durations = Vec::new();
    for _ in 0..flags.params.n {
        echo(&server, "before", flags).await?;
        let processes = tagged(&flags.tag).ok_or("processes cannot be found without /proc")?;
        let began = Instant::now();
        processes.into_iter().try_for_each(kill)?;
        let answer = loop {
            match server.call(echo_of("again")?, options(flags)).await {
                Ok(answer) => break answer,
                Err(error) if began.elapsed() > RECONNECTED_WITHIN => return Err(error.into()),
                // The connection repairs itself; the caller only asks again.
                Err(_) => yield_now().await,
            }
        };
        durations.push(began.elapsed());
        check(&answer, "again")?;
    }
    stage.end().await?;
    Ok(Metrics::default().with_percentiles("reconnect_ms", durations, MILLISECONDS))
}

async fn flood(flags: &Flags) -> Outcome<Metrics> {
    let (stage, message) = (Stage::start(flags)?, message(flags));
    let server = stage.open(ONE, &["--flood-notifications", &BURST.to_string()]).await?;
    echo(&server, &message, flags).await?;
    let stretch = Stretch::begin();
    for _ in 0..flags.params.n {
        echo(&server, &message, flags).await?;
    }
    let taken = stretch.end();
    stage.end().await?;
    let notifications = f64::from(flags.params.n) * f64::from(BURST);
    Ok(Metrics::default()
        .with("notifications_per_s", notifications / taken.seconds)
        .with("cpu_s_per_100k", taken.cpu_seconds * 1e5 / notifications))
}

/// Connects `servers` servers, some at a time; the first `stubborn` of them get `more` arguments.
async fn open_all(stage: &Stage<'_>, servers: u32, stubborn: u32, more: &[&str]) -> Outcome<()> {
    let mut opening = JoinSet::new();
    for number in 0..servers {
        if opening.len() == OPENING {
            opening.join_next().await.ok_or("nothing is being opened")???;
        }
        let more = if number < stubborn { more } else { &[] };
        let server = stage.add(&format!("server-{number}"), more)?;
        opening.spawn(async move { ready(&server).await });
    }
    while let Some(opened) = opening.join_next().await {
        opened??;
    }
    Ok(())
}

fn stdio_only(flags: &Flags) -> Outcome<()> {
    match flags.transport() {
        Transport::Stdio => Ok(()),
        Transport::Http => Err("this scenario is about processes: --transport stdio".into()),
    }
}

fn of_calls(flags: &Flags, taken: Taken, latencies: Vec<Duration>) -> Metrics {
    let calls = f64::from(flags.params.n);
    Metrics::default()
        .with_percentiles("lat_us", latencies, MICROSECONDS)
        .with("calls_per_s", calls / taken.seconds)
        .with("cpu_s_per_100k", taken.cpu_seconds * 1e5 / calls)
        .with("switches_per_call", taken.switches.map(|switches| switches / calls))
}

fn message(flags: &Flags) -> String {
    (0..flags.params.payload).map(|_| 'm').collect()
}
