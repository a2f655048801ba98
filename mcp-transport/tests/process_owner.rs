//! Whoever goes, and however: no server stays behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod harness;

use std::io::{BufRead as _, BufReader, Write as _};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use mcp_transport::Connector as _;
use mcp_transport::process::ProcessFactory as _;
use mcp_transport::stdio::StdioLimits;
use mcp_transport::testing::checks::{children, isolated, marked, until};
use mcp_transport::testing::fixture::Fixture;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::harness::{Client, Host, call, command, fixture, soon};

/// How long a server may outlive its host or its owner.
const ORPHAN_LIMIT: Duration = Duration::from_secs(1);

/// A server that goes neither with its input nor by SIGTERM, and leaves a worker in its group.
fn stubborn() -> (Fixture, tempfile::TempDir) {
    let (fixture, folder) = fixture();
    let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
    (fixture.on("start", "fork stubborn silent"), folder)
}

async fn assert_gone(fixture: &Fixture) {
    until(ORPHAN_LIMIT, "all processes are gone", || marked(fixture.mark().1).is_empty()).await;
    until(ORPHAN_LIMIT, "all children are reaped", || children().is_empty()).await;
}

/// Starts the host program, marked like the server that it starts.
fn start_host(how: &str, fixture: &Fixture) -> Child {
    let (name, mark) = fixture.mark();
    let mut host = Command::new(env!("CARGO_BIN_EXE_mcp-fixture-host"));
    host.arg(how).arg(fixture.program()).args(fixture.arguments()).env(name, mark);
    host.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    host.spawn().unwrap()
}

#[track_caller]
fn read_line(host: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(host.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

#[test]
fn f048_i32_a_killed_host_takes_its_servers_along() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        let mut host = start_host("wait", &fixture);
        assert_eq!(read_line(&mut host), "ready\n");
        host.kill().unwrap();
        host.wait().unwrap();
        assert_gone(&fixture).await;
    });
}

#[test]
fn f048_a_host_killed_at_any_point_of_a_start_takes_its_server_along() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
        for round in 0..25 {
            let mut host = start_host("wait", &fixture);
            // What passes meanwhile is the start of the host and of its server, a little more each time.
            sleep(Duration::from_micros(800 * round)).await;
            host.kill().unwrap();
            host.wait().unwrap();
            assert_gone(&fixture).await;
        }
    });
}

#[test]
fn f049_a_host_that_aborts_or_panics_takes_its_servers_along() {
    for how in ["abort", "panic"] {
        isolated(async |_| {
            let (fixture, _folder) = fixture();
            let fixture = fixture.flag("--ignore-stdin-close").flag("--ignore-sigterm");
            let mut host = start_host(how, &fixture);
            assert_eq!(read_line(&mut host), "ready\n");
            host.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            host.wait().unwrap();
            assert_gone(&fixture).await;
        });
    }
}

/// Where the kernel says that this process may make namespaces (bit 21 is `CAP_SYS_ADMIN`), it has to
/// work. Others may be allowed to do it as a user; where not, nothing is run, and a line says so.
fn in_a_pid_namespace() -> Option<Command> {
    let with = |flags: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(flags).args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        unshare
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    if u64::from_str_radix(rights, 16).unwrap() & (1 << 21) != 0 {
        return Some(with(&[]));
    }
    let as_user = ["--user", "--map-root-user"];
    if with(&as_user).arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return Some(with(&as_user));
    }
    // Past the capture of the test harness, which keeps what passing tests print to itself.
    let line = "SKIPPED: f047 needs `unshare` and the right to make a PID namespace\n";
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

#[test]
fn f047_a_number_that_was_given_to_somebody_else_gets_no_signal() {
    isolated(async |_| {
        let (fixture, _folder) = fixture();
        let Some(mut host) = in_a_pid_namespace() else { return };
        let (name, mark) = fixture.mark();
        host.arg(env!("CARGO_BIN_EXE_mcp-fixture-host")).arg("recycle");
        host.arg(fixture.program()).args(fixture.arguments()).env(name, mark);
        let output = host.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&text), "recycled true, alive true\n");
        assert_gone(&fixture).await;
    });
}

#[test]
fn f141_dropping_everything_without_a_close_leaves_no_process() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), stubborn());
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        client.send(2, "hang", json!({})).await.unwrap();
        let began = tokio::time::Instant::now();
        drop(client);
        assert!(began.elapsed() < Duration::from_millis(20), "dropping does not wait");
        assert_gone(&fixture).await;
    });
}

#[test]
fn f141_dropping_the_factory_ends_what_is_still_connected() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), stubborn());
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        host.processes.close();
        client.closed().await;
        assert!(host.connector(command(&fixture), StdioLimits::default()).connect(soon()).await.is_err());
        assert_gone(&fixture).await;
    });
}

/// A runtime in a thread of its own, with a connection that has made a call.
fn on_a_thread(fixture: &Fixture, end: impl FnOnce(Runtime, Host, Client) + Send) {
    thread::scope(|scope| {
        let ended = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let host = Host::new();
            let client = runtime.block_on(async {
                let mut client = host.open(fixture).await;
                client.echo(1).await;
                client
            });
            end(runtime, host, client);
        });
        ended.join().unwrap();
    });
}

#[test]
fn f142_dropped_outside_a_runtime_a_server_is_killed_directly() {
    isolated(async |_| {
        let (fixture, _folder) = stubborn();
        on_a_thread(&fixture, |runtime, host, client| {
            let Client { transport, .. } = &client;
            // Abandoning needs no runtime either.
            transport.abandon(&1.into(), None);
            drop(client);
            host.processes.join();
            drop(runtime);
        });
        assert_gone(&fixture).await;
    });
}

#[test]
fn f142_dropped_after_its_runtime_has_ended_a_server_is_killed_directly() {
    isolated(async |_| {
        let (fixture, _folder) = stubborn();
        on_a_thread(&fixture, |runtime, host, client| {
            drop(runtime);
            drop(client);
            host.processes.join();
        });
        assert_gone(&fixture).await;
    });
}

#[test]
fn f143_a_runtime_that_ends_with_calls_under_way_ends_at_once() {
    isolated(async |_| {
        let (fixture, _folder) = stubborn();
        on_a_thread(&fixture, |runtime, host, mut client| {
            let transport = client.transport.clone();
            runtime.spawn(async move {
                transport.send(call(2, "hang", json!({}))).await.unwrap();
                client.closed().await;
            });
            runtime.block_on(tokio::task::yield_now());
            let began = tokio::time::Instant::now();
            drop(runtime);
            assert!(began.elapsed() < ORPHAN_LIMIT);
            host.processes.join();
        });
        assert_gone(&fixture).await;
    });
}

#[test]
fn f133_a_start_that_is_given_up_leaves_no_process() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), stubborn());
        for round in 0..25 {
            let connector = host.connector(command(&fixture), StdioLimits::default());
            let mut connect = pin!(connector.connect(soon()));
            // Whether it is made in one poll or still under way, it is dropped at the end of the round.
            let _ = std::future::poll_fn(|cx| Poll::Ready(connect.as_mut().poll(cx).is_ready())).await;
            // What passes meanwhile is the start, a little more each time.
            sleep(Duration::from_micros(200 * round)).await;
        }
        until(ORPHAN_LIMIT, "the factory owns nothing", || host.processes.live() == 0).await;
        assert_gone(&fixture).await;
    });
}
