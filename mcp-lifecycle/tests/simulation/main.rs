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
mod random;
mod world;

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Seeds that have failed once.
const REGRESSIONS: &[u64] = &[];
/// How many seeds are run if the environment does not say.
const SEEDS: u64 = 500;

#[test]
fn promises_hold_for_every_seed() {
    let first = from_environment("MCP_SIM_FIRST").unwrap_or(0);
    let seeds = from_environment("MCP_SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(first);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<u64> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mine = std::iter::from_fn(|| {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        (seed < first.saturating_add(seeds)).then_some(seed)
                    });
                    mine.filter(|seed| !holds(*seed)).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[test]
fn seeds_that_failed_once_hold() {
    assert!(REGRESSIONS.iter().all(|seed| holds(*seed)));
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..5 {
        assert_eq!(world::run(seed), world::run(seed), "seed {seed}");
    }
}

/// Runs one seed; a panic in it is its failure.
fn holds(seed: u64) -> bool {
    let holds = catch_unwind(|| drop(world::run(seed))).is_ok();
    if !holds {
        eprintln!("seed {seed} failed; replay it with: cargo xtask simulate --seeds 1 --first {seed}");
    }
    holds
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number of seeds"))
}
