//! Seeded simulation: one seed is one run, on the paused clock, against servers that do everything
//! wrong. First any number of faults, while every call is held to its promises; then, for most seeds,
//! the faults stop and every server must come back by itself; then a shutdown that leaves nothing.
//!
//! A failing seed prints the command that replays it, and belongs into [`REGRESSIONS`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod chaos;
mod ledger;
mod log;
mod person;
mod random;
mod wire;
mod world;

use std::alloc::System;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts what is allocated, for P7.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A seed that takes longer than this, in real time, hangs or spins: P8. Most take some milliseconds.
const SEED_LIMIT: Duration = Duration::from_secs(60);

/// Seeds that have failed once.
const REGRESSIONS: &[u64] = &[1528, 1609];
/// How many seeds are run if the environment does not say.
const SEEDS: u64 = 500;

#[test]
fn promises_hold_for_every_seed() {
    let first = from_environment("MCP_SIM_FIRST").unwrap_or(0);
    let seeds = from_environment("MCP_SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(first);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let running: Vec<_> = (0..workers).map(|_| Mutex::new(None)).collect();
    let is_over = AtomicBool::new(false);
    let failed: Vec<u64> = thread::scope(|scope| {
        let workers: Vec<_> = running
            .iter()
            .map(|running| {
                let next = &next;
                scope.spawn(move || {
                    let mine = std::iter::from_fn(|| {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        (seed < first.saturating_add(seeds)).then_some(seed)
                    });
                    let fails = |seed: &u64| {
                        *running.lock().unwrap() = Some((*seed, Instant::now()));
                        let fails = !holds(*seed);
                        *running.lock().unwrap() = None;
                        fails
                    };
                    mine.filter(fails).collect::<Vec<_>>()
                })
            })
            .collect();
        scope.spawn(|| watch_for_hangs(&running, &is_over));
        let failed = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        failed
    });
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[test]
fn seeds_that_failed_once_hold() {
    assert!(REGRESSIONS.iter().all(|seed| holds(*seed)));
}

#[test]
fn one_seed_is_one_run_byte_for_byte() {
    for seed in 0..20 {
        let (first, second) = (world::run(seed), world::run(seed));
        let difference = first.lines().zip(second.lines()).find(|(first, second)| first != second);
        assert_eq!(difference, None, "seed {seed}");
        assert!(first == second && !first.is_empty(), "seed {seed}");
    }
    assert_ne!(world::run(0), world::run(1), "another seed is another run");
}

/// Runs one seed; a panic in it is its failure.
fn holds(seed: u64) -> bool {
    let holds = catch_unwind(|| drop(world::run(seed))).is_ok();
    if !holds {
        eprintln!("seed {seed} failed; {}", replay(seed));
    }
    holds
}

/// Ends the process when a seed does not end: nothing else could.
fn watch_for_hangs(running: &[Mutex<Option<(u64, Instant)>>], is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        for running in running {
            let running = *running.lock().unwrap();
            if let Some((seed, _)) = running.filter(|(_, began)| began.elapsed() > SEED_LIMIT) {
                eprintln!("seed {seed} does not end; {}", replay(seed));
                std::process::exit(101);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn replay(seed: u64) -> String {
    format!("replay it with: cargo xtask simulate --seeds 1 --first {seed}")
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number of seeds"))
}
