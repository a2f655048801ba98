//! The load driver, small: nothing is lost, run twice or left behind. `cargo xtask load` judges times too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use mcp_transport::testing::fixture::sibling_example;

/// One load at a time: each is more than the machine has processors for.
static TURN: Mutex<()> = Mutex::new(());

#[track_caller]
fn assert_holds(load: &str, figures: &[&str]) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut driver = Command::new(sibling_example("load_driver"));
    let output = driver.args([load, "--quick"]).stdin(Stdio::null()).output().unwrap();
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{table}\n{}", String::from_utf8_lossy(&output.stderr));
    for figure in figures {
        assert!(table.contains(figure), "no {figure:?} in:\n{table}");
    }
}

#[test]
fn f016_a_crowd_of_servers_and_calls_leaves_nothing_behind() {
    assert_holds("crowd", &["40 servers ready", "calls in flight: failed", "left behind"]);
}

#[test]
fn p09_no_call_to_a_healthy_server_fails_beside_bad_ones() {
    assert_holds("neighbours", &["calls to healthy servers that failed", "left behind"]);
}

#[test]
fn p03_of_twenty_thousand_calls_with_faults_none_is_lost_or_run_twice() {
    assert_holds("soak", &["calls lost", "calls run twice", "left behind"]);
}

#[test]
fn a_load_that_there_is_not_is_refused() {
    for words in [&["storm"][..], &[], &["soak", "crowd"]] {
        let output = Command::new(sibling_example("load_driver")).args(words).output().unwrap();
        assert!(!output.status.success(), "{words:?}");
    }
}
