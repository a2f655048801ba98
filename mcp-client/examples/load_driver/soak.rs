//! A million calls, one in a hundred of which meets a fault. Every call must end once, in time, and as
//! the servers' own record of what they ran says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_lifecycle::{BackoffOptions, BreakerOptions, CallError, ServerHandle, ServerOptions};
use mcp_proto::CallToolResult;
use mcp_session::{CallOptions, CallOutcome};
use mcp_transport::testing::checks::children;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::chance::draw;
use crate::memory::resident_mib;
use crate::stage::{Stage, call_of, ready};
use crate::table::{Table, number, p99_ms};
use crate::{Outcome, Size};

const SEED: u64 = 1;
const SERVERS: usize = 16;
const CALLERS: usize = 128;

/// What a call may take.
const LIMIT: Duration = Duration::from_millis(2000);
/// What a call may take that is known not to be answered in time.
const SHORT: Duration = Duration::from_millis(100);
/// A call ends no later than this after its deadline, unless the system itself was busy elsewhere.
const SLACK_MS: f64 = 50.0;

/// Memory is looked at every so many calls.
const STRETCH: u64 = 100_000;

/// One in so many calls meets a fault.
const RARITY: u64 = 100;

/// The faults. A word is a tool that misbehaves, see [`FLAGS`].
const FAULTS: [Fault; 14] = [
    Fault::Tool("crash"),
    Fault::Tool("error"),
    Fault::Tool("fail"),
    Fault::Tool("flood"),
    Fault::Tool("half"),
    Fault::Tool("noise"),
    Fault::Tool("stderr"),
    Fault::Tool("twice"),
    Fault::Drop,
    Fault::Hang,
    Fault::Kill,
    Fault::Late,
    Fault::Reconnect,
    Fault::Unknown,
];

/// What makes the tools of the servers misbehave.
const FLAGS: [&str; 18] = [
    "--tool",
    "flood=echo",
    "--tool",
    "half=echo",
    "--tool",
    "stderr=echo",
    "--tool",
    "twice=echo",
    "--on",
    "tools/call:flood: flood 300; respond",
    "--on",
    "tools/call:half: write-bytes 40; exit 1",
    "--on",
    "tools/call:noise: noise 30; ignore; line {\"jsonrpc\"\\x3a\"2.0\"; noise 1",
    "--on",
    "tools/call:stderr: stderr-flood 100000; respond",
    "--on",
    "tools/call:twice: respond; respond",
];

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The caller goes away at some moment.
    Drop,
    /// No answer ever comes.
    Hang,
    /// Some server is killed from outside.
    Kill,
    /// The answer comes after the time is up.
    Late,
    /// Somebody wants another connection.
    Reconnect,
    /// The tool itself does it.
    Tool(&'static str),
    /// There is no such tool.
    Unknown,
}

/// How a call ended, as far as its caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum End {
    Open = 0,
    Dropped,
    NotSent,
    Rejected,
    Succeeded,
    Uncertain,
}

/// What all callers share.
struct Soak {
    servers: Vec<ServerHandle>,
    calls: u64,
    next: AtomicU64,
    /// By the number of the call.
    ends: Vec<AtomicU8>,
    ended_twice: AtomicUsize,
    faults: AtomicUsize,
    /// How late calls ended whose deadline had come.
    late: Mutex<Vec<Duration>>,
}

pub(crate) async fn run(size: Size, table: &mut Table) -> Outcome<()> {
    let calls: u64 = size.pick(20_000, 1_000_000);
    let folder = tempfile::tempdir()?;
    let stage = Stage::start(impatient)?;
    let servers = (0..SERVERS).map(|number| {
        let file = folder.path().join(format!("runs-{number}"));
        let file = file.to_str().ok_or("the folder for temporary files has a path that is no text")?;
        let era = if number % 2 == 0 { "legacy" } else { "modern" };
        let flags: Vec<&str> = ["--runs", file, "--era", era].into_iter().chain(FLAGS).collect();
        stage.add(&format!("server {number}"), &flags)
    });
    let servers = servers.collect::<Outcome<Vec<_>>>()?;
    for server in &servers {
        ready(server).await?;
    }
    let soak = Arc::new(Soak {
        servers,
        calls,
        next: AtomicU64::new(0),
        ends: (0..calls).map(|_| AtomicU8::new(End::Open as u8)).collect(),
        ended_twice: AtomicUsize::new(0),
        faults: AtomicUsize::new(0),
        late: Mutex::default(),
    });
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(Arc::clone(&soak).keep_calling());
    }
    let memory = soak.watch_memory(&mut callers).await?;
    let elapsed = began.elapsed().as_secs_f64();
    table.figure(format!("{calls} calls"), elapsed, "s", 600.0);
    table.at_least("faults", soak.faults.load(Ordering::Relaxed), usize::try_from(calls / RARITY * 9 / 10)?);
    if let [first, .., last] = memory[..] {
        let growth = (last - first).max(0.0) / number(memory.len() - 1);
        table.figure("growth of memory per 100 000 calls", growth, "MiB", 1.0);
    }
    let late = soak.late().clone();
    table.note(
        "latest end after a deadline",
        late.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3,
        "ms",
    );
    table.figure("ends after a deadline: p99", p99_ms(late), "ms", SLACK_MS);
    stage.end(table).await?;
    soak.compare(&folder, table)
}

/// Recovers at once, whatever happens: a soak is about calls, not about waiting for servers.
fn impatient(_: &str, options: ServerOptions) -> ServerOptions {
    let backoff = BackoffOptions::default().with_cap(Duration::from_millis(20));
    let breaker = BreakerOptions::default().with_open_for(Duration::from_millis(20));
    options.with_backoff(backoff).with_breaker(breaker).with_park_after(u32::MAX)
}

impl Soak {
    async fn keep_calling(self: Arc<Self>) -> Outcome<()> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.calls {
                return Ok(());
            }
            let end = self.call(number).await?;
            let slot = self.ends.get(usize::try_from(number)?).ok_or("there is a place for each call")?;
            if slot.swap(end as u8, Ordering::Relaxed) != End::Open as u8 {
                self.ended_twice.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn call(&self, number: u64) -> Outcome<End> {
        let chance = draw(SEED, number);
        let server = usize::try_from(chance >> 32)? % self.servers.len();
        let server = self.servers.get(server).ok_or("there are servers")?;
        let fault = chance.is_multiple_of(RARITY).then(|| pick(&FAULTS, chance / RARITY)).flatten();
        self.faults.fetch_add(usize::from(fault.is_some()), Ordering::Relaxed);
        let (tool, limit, delay) = match fault {
            None | Some(Fault::Drop | Fault::Kill | Fault::Reconnect) => ("echo", LIMIT, Duration::ZERO),
            Some(Fault::Hang) => ("hang", SHORT, Duration::ZERO),
            Some(Fault::Late) => ("echo", SHORT, SHORT * 2),
            Some(Fault::Tool(tool @ "noise")) => (tool, SHORT, Duration::ZERO),
            Some(Fault::Tool(tool)) => (tool, LIMIT, Duration::ZERO),
            Some(Fault::Unknown) => ("no such tool", LIMIT, Duration::ZERO),
        };
        match fault {
            Some(Fault::Kill) => kill_one_of(chance / RARITY)?,
            Some(Fault::Reconnect) => server.reconnect(server.status().generation),
            _ => {}
        }
        let deadline = Instant::now() + limit;
        let options = CallOptions::default().with_timeout(limit).with_deadline(deadline);
        let call = server.call(call_of(tool, &number.to_string(), delay)?, options);
        let end = if matches!(fault, Some(Fault::Drop)) {
            let patience = Duration::from_micros(chance / RARITY % 1000);
            timeout(patience, call).await.map_or(End::Dropped, |result| end_of(&result))
        } else {
            end_of(&call.await)
        };
        if let Some(late) = Instant::now().checked_duration_since(deadline) {
            self.late().push(late);
        }
        Ok(end)
    }

    fn late(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the callers; returns the resident memory after each stretch of calls, from the first on.
    async fn watch_memory(&self, callers: &mut JoinSet<Outcome<()>>) -> Outcome<Vec<f64>> {
        let mut memory = Vec::new();
        while !callers.is_empty() {
            while let Some(caller) = callers.try_join_next() {
                caller??;
            }
            let stretches = self.next.load(Ordering::Relaxed).min(self.calls) / STRETCH;
            if usize::try_from(stretches)? > memory.len() {
                memory.push(resident_mib()?);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(memory)
    }

    /// Holds what the callers know against what the servers ran.
    fn compare(&self, folder: &TempDir, table: &mut Table) -> Outcome<()> {
        let mut runs = vec![0_u8; self.ends.len()];
        let mut unreadable = 0;
        for number in 0..SERVERS {
            unreadable += count_runs(&folder.path().join(format!("runs-{number}")), &mut runs)?;
        }
        let mut ends: BTreeMap<u8, usize> = BTreeMap::new();
        let (mut twice, mut false_successes, mut false_refusals) = (0, 0, 0);
        for (end, runs) in self.ends.iter().map(|end| end.load(Ordering::Relaxed)).zip(runs) {
            *ends.entry(end).or_default() += 1;
            twice += usize::from(runs > 1);
            false_successes += usize::from(end == End::Succeeded as u8 && runs == 0);
            false_refusals += usize::from(end == End::NotSent as u8 && runs > 0);
        }
        let of = |end: End| ends.get(&(end as u8)).copied().unwrap_or_default();
        table.count("calls lost", of(End::Open), 0);
        table.count("calls that ended twice", self.ended_twice.load(Ordering::Relaxed), 0);
        table.count("calls run twice", twice, 0);
        table.count("calls that succeeded and never ran", false_successes, 0);
        table.count("calls that were not sent and ran", false_refusals, 0);
        table.count("lines of the servers that are no runs", unreadable, 0);
        table.at_least("calls that succeeded", of(End::Succeeded), self.ends.len() * 95 / 100);
        table.note("calls that the server refused", number(of(End::Rejected)), "");
        table.note("calls that were not sent", number(of(End::NotSent)), "");
        table.note("calls of which nobody knows", number(of(End::Uncertain)), "");
        table.note("calls whose caller went away", number(of(End::Dropped)), "");
        Ok(())
    }
}

/// Counts the runs that a server has written down, by the number of the call; how many lines name none.
fn count_runs(file: &Path, runs: &mut [u8]) -> Outcome<usize> {
    let mut unreadable = 0;
    for line in BufReader::new(File::open(file)?).lines() {
        let number = line?.parse::<usize>().ok();
        match number.and_then(|number| runs.get_mut(number)) {
            Some(count) => *count = count.saturating_add(1),
            None => unreadable += 1,
        }
    }
    Ok(unreadable)
}

fn end_of(result: &Result<CallToolResult, CallError>) -> End {
    match result {
        Ok(_) => End::Succeeded,
        Err(error) => match error.outcome() {
            CallOutcome::NotSent => End::NotSent,
            CallOutcome::Rejected => End::Rejected,
            _ => End::Uncertain,
        },
    }
}

/// Kills some server without a warning; one that is gone already is no error.
fn kill_one_of(chance: u64) -> Outcome<()> {
    let children: Vec<_> = children().into_iter().filter_map(|child| Pid::from_raw(child.pid)).collect();
    if let Some(pid) = pick(&children, chance) {
        // Its parent is this very process, which may reap it in this moment: then the system knows no
        // such process, and ids are not given out again that fast.
        let _ = kill_process(pid, Signal::KILL);
    }
    Ok(())
}

fn pick<T: Copy>(from: &[T], chance: u64) -> Option<T> {
    let count = u64::try_from(from.len()).ok()?;
    from.get(usize::try_from(chance.checked_rem(count)?).ok()?).copied()
}
