//! The outside checks see what they are there to see.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_transport::testing::checks::{Isolated, Process, isolated, isolated_on, new_mark, until, until_some};
use mcp_transport::testing::fixture::MARK;
use tracing::Level;

/// Held for a whole test: what one keeps on purpose must not go while another one is checked.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test that must fail, and returns what it says.
#[track_caller]
fn failure(test: impl AsyncFnOnce(&Isolated)) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| isolated(test))).expect_err("the test passes");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).to_owned(),
    }
}

fn marked_child() -> Child {
    Command::new("cat").env(MARK, new_mark()).stdin(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_test_that_leaves_nothing_passes() {
    let _turn = turn();
    for workers in [1, 2] {
        isolated_on(workers, async |test| {
            let mut child = marked_child();
            until(Duration::from_secs(5), "the child is there", || test.baseline().left().len() >= 3).await;
            drop(child.stdin.take());
            child.wait().unwrap();
            tokio::spawn(async {}).await.unwrap();
            tracing::info!("small talk");
        });
    }
}

#[test]
fn a_descriptor_left_open_is_named() {
    let _turn = turn();
    let mut kept = None;
    let failure = failure(async |_| kept = Some(File::open("/dev/null").unwrap()));
    assert!(failure.contains(": /dev/null"), "{failure}");
}

#[test]
fn a_child_left_behind_is_named_and_killed() {
    let _turn = turn();
    let mut kept = None;
    let failure = failure(async |_| {
        let child = kept.insert(marked_child());
        let pid = child.id().try_into().unwrap();
        // Before it has become `cat`, it looks like this process.
        let look = || Process::read(pid).filter(|process| process.name == "cat");
        until_some(Duration::from_secs(5), "the child is another program", look).await;
    });
    assert!(failure.contains("child: Process") && failure.contains("marked process: Process"), "{failure}");
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(kept.unwrap().wait().unwrap().signal(), Some(9));
}

#[test]
fn an_unreaped_child_is_named() {
    let _turn = turn();
    let mut kept = None;
    let failure = failure(async |_| {
        let child = kept.insert(Command::new("true").spawn().unwrap());
        let pid = child.id().try_into().unwrap();
        let ended = || Process::read(pid).is_some_and(|process| process.is_zombie());
        until(Duration::from_secs(5), "the child has ended", ended).await;
    });
    assert!(failure.contains("state: 'Z'"), "{failure}");
    kept.unwrap().wait().unwrap();
}

#[test]
fn a_task_left_running_is_counted() {
    let _turn = turn();
    let failure = failure(async |_| drop(tokio::spawn(std::future::pending::<()>())));
    assert!(failure.contains("tasks: 1, were 0"), "{failure}");
}

#[test]
fn an_unexpected_warning_is_quoted_and_an_expected_one_must_come() {
    let _turn = turn();
    let unexpected = failure(async |_| tracing::warn!(server = "a", "lost"));
    assert!(unexpected.contains("WARN") && unexpected.contains("lost server=a"), "{unexpected}");
    let missing = failure(async |test| test.expect_log(Level::WARN, "lost"));
    assert!(missing.contains("not there"), "{missing}");
    isolated(async |test| {
        test.expect_log(Level::WARN, "lost server=a");
        tracing::warn!(server = "a", "lost");
    });
    let twice = failure(async |test| {
        test.expect_log(Level::WARN, "lost");
        tracing::warn!("lost");
        tracing::warn!("lost");
    });
    assert!(twice.contains("unexpectedly"), "{twice}");
}

#[test]
fn a_condition_that_never_holds_fails_with_its_name() {
    let _turn = turn();
    let failure = failure(async |_| until(Duration::from_millis(20), "rain", || false).await);
    assert!(failure.contains("rain: not within 20ms"), "{failure}");
}
