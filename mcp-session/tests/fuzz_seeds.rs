//! The fuzz targets over their seeds, with the stable toolchain: whole, cut, and spoilt.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod fuzz;

use std::path::PathBuf;

use proptest::prelude::*;

/// Bytes that break most often what they are put into.
const SPOILERS: &[u8] = b"\"\\{}[],:0-e\n\0\xff";

/// At how many places a seed is cut and spoilt, at most.
const PLACES: usize = 80;

/// The seeds of `target`, of which none is large.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds").join(target);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let seeds: Vec<Vec<u8>> = files.map(|file| std::fs::read(file).unwrap()).collect();
    assert!(seeds.len() >= 10, "only {} seeds for {target}", seeds.len());
    seeds
}

fn run(target: &str, body: fn(&[u8])) {
    for seed in seeds(target) {
        body(&seed);
        for end in (0..seed.len()).step_by(seed.len().div_ceil(PLACES).max(1)) {
            body(&seed[..end]);
            let mut spoilt = seed.clone();
            spoilt[end] = SPOILERS[end % SPOILERS.len()];
            body(&spoilt);
        }
    }
}

#[test]
fn core_machine_holds_over_its_seeds() {
    run("core_machine", fuzz::core_machine::run);
}

proptest! {
    /// Any order of up to 200 events: each call ends exactly once, at the right moment, and the timer never
    /// fires too late for it.
    #[test]
    fn the_table_of_pending_calls_agrees_with_a_plain_model(events in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz::core_machine::run(&events);
    }
}
