//! The process factory with real children: starts, exits, stops, and signals that reach nobody else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "stdio")]

use std::fs;
use std::future::{Future, poll_fn};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::pin::pin;
use std::process::{Command as Plain, Stdio};
use std::task::Poll;
use std::time::Duration;

use mcp_transport::process::{
    Child, Command, Graces, LocalProcesses, ProcessEnd, ProcessFactory, SpawnError,
};
use mcp_transport::{Ending, Exit};
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script]).inherit([("PATH", "/usr/local/bin:/usr/bin:/bin")])
}

async fn ended(child: &Child) -> ProcessEnd {
    let mut end = child.process.end();
    timeout(LIMIT, end.wait_for(Option::is_some)).await.expect("ends in time").unwrap().unwrap()
}

/// Waits for one line of the child's output.
fn line(child: &mut Child) -> String {
    let mut text = Vec::new();
    let mut stdout = fs::File::from(child.stdout.try_clone().unwrap());
    let mut byte = [0];
    while stdout.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

async fn poll_once(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
}

fn far() -> Instant {
    Instant::now() + LIMIT
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X']))
}

/// Waits for a process that is not our child to go; it has been killed, but the kernel takes a moment.
async fn gone(pid: &str) {
    let by = Instant::now() + Duration::from_secs(5);
    while is_alive(pid) {
        assert!(Instant::now() < by, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn f010_f011_the_exit_is_told_with_the_last_words() {
    let factory = LocalProcesses::new();
    let child = factory.spawn(&shell("echo boom >&2; printf 'no \\033end' >&2; exit 7")).await.unwrap();
    assert_eq!(ended(&child).await, ProcessEnd::new(Ending::Clean, Some(Exit::Code(7))));
    assert_eq!(child.process.stderr_tail(), "boom\\nno \\u{1b}end");
    let child = factory.spawn(&shell("kill -SEGV $$")).await.unwrap();
    assert_eq!(ended(&child).await.exit, Some(Exit::Signal(11)));
    assert_eq!(factory.live(), 0);
}

#[tokio::test]
async fn f037_a_child_that_goes_on_stdin_close_gets_no_signal() {
    let factory = LocalProcesses::new();
    let script = "trap 'echo TERM >&2' TERM; echo ready; while read -r l; do :; done; echo done >&2";
    let mut child = factory.spawn(&shell(script)).await.unwrap();
    line(&mut child);
    let Child { stdin, process, .. } = child;
    let began = Instant::now();
    drop(stdin);
    process.begin_stop(Graces::default(), far());
    let mut end = process.end();
    let end = end.wait_for(Option::is_some).await.unwrap().unwrap();
    assert_eq!(end, ProcessEnd::new(Ending::Clean, Some(Exit::Code(0))));
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(process.stderr_tail(), "done");
}

#[tokio::test]
async fn f038_f040_a_child_that_ignores_stdin_close_is_terminated_and_may_take_its_time() {
    let factory = LocalProcesses::new();
    let script = "trap 'sleep 0.4; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let mut child = factory.spawn(&shell(script)).await.unwrap();
    line(&mut child);
    let began = Instant::now();
    let graces = Graces::default().with_stdin_close(Duration::from_millis(200));
    child.process.begin_stop(graces, far());
    assert_eq!(ended(&child).await, ProcessEnd::new(Ending::Terminated, Some(Exit::Code(5))));
    assert!(began.elapsed() >= Duration::from_millis(600));
}

#[tokio::test]
async fn f039_f042_i31_a_stubborn_tree_is_dead_within_the_graces() {
    let factory = LocalProcesses::new();
    let script = "trap '' TERM; (trap '' TERM; exec sleep 600) & echo $!; while :; do sleep 600; done";
    let mut child = factory.spawn(&shell(script)).await.unwrap();
    let grandchild = line(&mut child);
    assert!(is_alive(&grandchild));
    let began = Instant::now();
    child.process.begin_stop(Graces::default(), far());
    assert_eq!(ended(&child).await, ProcessEnd::new(Ending::Killed, Some(Exit::Signal(9))));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_millis(4500), "{took:?}");
    gone(&grandchild).await;
}

#[tokio::test]
async fn f042_i29_what_a_wrapper_leaves_in_its_group_is_swept() {
    let factory = LocalProcesses::new();
    let mut child = factory.spawn(&shell("sleep 600 & echo $!; exit 0")).await.unwrap();
    let worker = line(&mut child);
    assert_eq!(ended(&child).await.exit, Some(Exit::Code(0)));
    gone(&worker).await;
}

#[tokio::test]
async fn f031_a_stopped_child_is_woken_to_be_terminated() {
    let factory = LocalProcesses::new();
    let script = "trap 'exit 3' TERM; echo ready; kill -STOP $$; sleep 600";
    let mut child = factory.spawn(&shell(script)).await.unwrap();
    line(&mut child);
    let graces = Graces::default().with_stdin_close(Duration::from_millis(50));
    child.process.begin_stop(graces, far());
    let end = ended(&child).await;
    assert_eq!(end.ending, Ending::Terminated, "{end:?}");
}

#[tokio::test]
async fn f041_output_is_drained_while_a_child_stops() {
    let factory = LocalProcesses::new();
    let script =
        "echo ready; while read -r l; do :; done; dd if=/dev/zero bs=65536 count=160 2>/dev/null; exit 4";
    let mut child = factory.spawn(&shell(script)).await.unwrap();
    line(&mut child);
    let Child { stdin, stdout, process, .. } = child;
    drop(stdin);
    process.discard_output(stdout);
    process.begin_stop(Graces::default(), far());
    let mut end = process.end();
    let end = end.wait_for(Option::is_some).await.unwrap().unwrap();
    assert_eq!(end, ProcessEnd::new(Ending::Clean, Some(Exit::Code(4))));
}

#[tokio::test]
async fn f029_a_flood_on_stderr_never_blocks_the_child() {
    let factory = LocalProcesses::new();
    let script = "dd if=/dev/zero bs=65536 count=320 status=none >&2; echo last >&2";
    let child = factory.spawn(&shell(script)).await.unwrap();
    assert_eq!(ended(&child).await.exit, Some(Exit::Code(0)));
    assert!(child.process.stderr_tail().len() <= 4096);
}

#[tokio::test]
async fn f046_a_child_that_nobody_waits_for_is_reaped() {
    let factory = LocalProcesses::new();
    let child = factory.spawn(&shell("exit 0")).await.unwrap();
    let pid = child.process.id();
    let by = far();
    while fs::exists(format!("/proc/{pid}")).unwrap() {
        assert!(Instant::now() < by, "still a zombie");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(factory.live(), 0);
}

#[tokio::test]
async fn i33_one_child_is_stopped_and_the_other_feels_nothing() {
    let factory = LocalProcesses::new();
    let (first, second) = (shell("cat"), shell("trap 'echo hit' TERM; echo ready; cat; echo end"));
    let (first, second) = tokio::join!(factory.spawn(&first), factory.spawn(&second));
    let (first, mut second) = (first.unwrap(), second.unwrap());
    line(&mut second);
    first.process.kill();
    assert_eq!(ended(&first).await.ending, Ending::Killed);
    fs::File::from(second.stdin.try_clone().unwrap()).write_all(b"alive\n").unwrap();
    assert_eq!(line(&mut second), "alive");
}

#[tokio::test]
async fn i30_a_child_that_joins_our_group_is_stopped_alone() {
    let factory = LocalProcesses::new();
    let joins = "import os, time; os.setpgid(0, os.getpgid(os.getppid())); print('ready', flush=True); time.sleep(600)";
    let command = Command::new("python3").args(["-c", joins]).inherit(std::env::vars_os());
    let mut child = match factory.spawn(&command).await {
        Err(SpawnError::NotFound { .. }) => return eprintln!("SKIPPED: no python3"),
        other => other.unwrap(),
    };
    assert_eq!(line(&mut child), "ready");
    let mut bystander = Plain::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let graces = Graces::default().with_stdin_close(Duration::from_millis(10));
    child.process.begin_stop(graces, far());
    assert_eq!(ended(&child).await.exit, Some(Exit::Signal(15)));
    // It is in our group, and so are we.
    assert_eq!(bystander.try_wait().unwrap(), None);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn f005_a_program_that_is_being_written_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tool");
    fs::copy("/bin/sh", &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let factory = LocalProcesses::new();
    let command = Command::new(&path).args(["-c", "exit 0"]);
    let began = Instant::now();
    let error = factory.spawn(&command).await.unwrap_err();
    assert_eq!(error, SpawnError::Busy { command: path.to_str().unwrap().into() });
    assert!(!error.is_permanent());
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(150) && took < Duration::from_secs(1), "{took:?}");
    drop(writer);
    assert_eq!(ended(&factory.spawn(&command).await.unwrap()).await.exit, Some(Exit::Code(0)));
}

#[tokio::test]
async fn f157_a_child_sees_its_own_environment_alone() {
    let factory = LocalProcesses::new();
    let command = shell("tr '\\0' '\\n' </proc/$$/environ | sort | tr '\\n' ' '; echo").env("MINE", "1");
    let mut child = factory.spawn(&command).await.unwrap();
    assert_eq!(line(&mut child), "MINE=1 PATH=/usr/local/bin:/usr/bin:/bin ");
}

#[tokio::test]
async fn a_dropped_start_leaves_no_child() {
    let factory = LocalProcesses::new();
    let blocker = factory.spawn(&shell("cat")).await.unwrap();
    for _ in 0..20 {
        // One poll hands the start over; then its caller goes away.
        poll_once(factory.spawn(&shell("sleep 600"))).await;
    }
    // Starts are served in order: once this one is there, all before it have been dealt with.
    let last = factory.spawn(&shell("cat")).await.unwrap();
    let by = far();
    while factory.live() > 2 {
        assert!(Instant::now() < by, "{} children", factory.live());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop((blocker, last));
}

#[tokio::test]
async fn a_closed_factory_refuses() {
    let factory = LocalProcesses::new();
    let child = factory.spawn(&shell("sleep 600")).await.unwrap();
    factory.close();
    assert_eq!(ended(&child).await.ending, Ending::Killed);
    assert_eq!(factory.spawn(&shell("cat")).await.unwrap_err(), SpawnError::FactoryClosed);
    assert_eq!(LocalProcesses::new().live(), 0);
}

#[test]
fn f142_kill_all_needs_no_runtime() {
    let factory = LocalProcesses::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let children: Vec<_> =
        (0..3).map(|_| runtime.block_on(factory.spawn(&shell("trap '' TERM; sleep 600"))).unwrap()).collect();
    drop(runtime);
    std::thread::scope(|scope| {
        scope.spawn(|| factory.kill_all()).join().unwrap();
    });
    factory.join();
    assert_eq!(factory.live(), 0);
    for child in children {
        let end = *child.process.end().borrow();
        assert_eq!(end, Some(ProcessEnd::new(Ending::Killed, Some(Exit::Signal(9)))));
    }
}

#[test]
fn a_stop_completes_without_a_runtime() {
    let factory = LocalProcesses::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let child = runtime.block_on(factory.spawn(&shell("exec sleep 600"))).unwrap();
    child.process.begin_stop(Graces::default().with_stdin_close(Duration::ZERO), far());
    drop(runtime);
    let end = child.process.end();
    let by = far();
    while end.borrow().is_none() {
        assert!(Instant::now() < by);
        std::thread::yield_now();
    }
    assert_eq!(*end.borrow(), Some(ProcessEnd::new(Ending::Terminated, Some(Exit::Signal(15)))));
}
