//! Starting a server: what fails is named exactly and leaves nothing behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mcp_transport::process::{Command, ProcessFactory as _, SpawnError};
use mcp_transport::stdio::StdioLimits;
use mcp_transport::testing::checks::isolated;
use mcp_transport::{CloseReason, ConnectError, Connector as _, Exit};
use serde_json::json;
use tracing::Level;

use crate::harness::{AT_ONCE, Host, assert_within, command, fixture, since_exit, soon};

/// Why a command cannot be started; the factory must own nothing afterwards.
async fn refused(command: Command) -> SpawnError {
    let host = Host::new();
    let result = host.connector(command, StdioLimits::default()).connect(soon()).await;
    let Err(error) = result else { panic!("it was started") };
    assert_eq!((error.is_permanent(), host.processes.live()), (true, 0));
    match error {
        ConnectError::Spawn(error) => error,
        error => panic!("{error}"),
    }
}

fn file(path: &Path, content: &[u8], mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn f001_a_command_that_is_not_there_is_named() {
    isolated(async |_| {
        let name = "no-such-command-7f3a";
        let error = refused(Command::new(name).inherit([("PATH", "/usr/bin:/bin")])).await;
        assert_eq!(error, SpawnError::NotFound { command: name.to_owned() });
        assert!(error.to_string().contains(name), "{error}");
    });
}

#[test]
fn f002_a_missing_folder_is_named_and_not_the_command() {
    isolated(async |_| {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let error = refused(Command::new("/bin/cat").cwd(&gone)).await;
        assert_eq!(error, SpawnError::BadCwd(gone));
    });
}

#[test]
fn f003_a_file_that_is_no_program_may_not_be_executed() {
    isolated(async |_| {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        file(&plain, b"#!/bin/sh\n", 0o644);
        for path in [plain.as_path(), folder.path()] {
            let error = refused(Command::new(path)).await;
            assert_eq!(error, SpawnError::NotExecutable { command: path.to_str().unwrap().to_owned() });
        }
    });
}

#[test]
fn f004_garbage_is_not_given_to_a_shell() {
    isolated(async |_| {
        let folder = tempfile::tempdir().unwrap();
        let (garbage, trace) = (folder.path().join("garbage"), folder.path().join("trace"));
        // A shell would run the second line.
        let content = [&[7; 64][..], b"\n: > ", trace.to_str().unwrap().as_bytes(), b"\n"].concat();
        file(&garbage, &content, 0o755);
        let error = refused(Command::new(&garbage)).await;
        assert_eq!(error, SpawnError::BadFormat { command: garbage.to_str().unwrap().to_owned() });
        assert!(!trace.exists());
    });
}

#[test]
fn f010_an_exit_before_the_handshake_tells_status_and_reason_at_once() {
    isolated(async |_| {
        assert_within(AT_ONCE, async || {
            let (host, (fixture, _folder)) = (Host::new(), fixture());
            let fixture = fixture.on("start", "stderr-flood 100000; stderr \\x1b[31mboom; exit 1");
            let mut client = host.open(&fixture).await;
            let closed = client.closed().await;
            let time = since_exit(&fixture.transcript());
            assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(1)));
            let tail = closed.stderr_tail();
            assert!(tail.contains("boom") && tail.len() <= 4096 && !tail.contains('\u{1b}'), "{tail:?}");
            time
        })
        .await;
    });
}

#[test]
fn f011_a_signal_before_the_handshake_is_named() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let mut client = host.open(&fixture.on("start", "raise SEGV")).await;
        assert_eq!(client.closed().await.reason(), &CloseReason::Exited(Exit::Signal(11)));
    });
}

#[test]
fn f013_a_prelude_is_skipped() {
    isolated(async |test| {
        test.expect_log(Level::WARN, "are no messages");
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.flag("--crlf");
        let fixture =
            fixture.on("start", "write \\xef\\xbb\\xbf; line ; line Welcome to the server!; write \\r\\n");
        let mut client = host.open(&fixture).await;
        client.echo(1).await;
        client.close().await;
    });
}

#[test]
fn f157_only_listed_and_configured_variables_arrive() {
    isolated(async |_| {
        let (host, (fixture, _folder)) = (Host::new(), fixture());
        let fixture = fixture.on("start", "record-environment");
        let canary = [("AWS_SECRET_ACCESS_KEY", "canary"), ("LD_PRELOAD", "canary.so"), ("MCP_X", "canary")];
        let own = [("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere")];
        let command = command(&fixture).inherit(own).inherit(canary).env("CONFIGURED", "yes");
        // The host has more of them, whatever it is started from.
        assert!(std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CARGO")));
        let mut client = host.open_command(command, StdioLimits::default()).await;
        client.echo(1).await;
        client.close().await;
        let transcript = fixture.transcript();
        let variables = &transcript.events("environment").next().unwrap().value["variables"];
        let (name, mark) = fixture.mark();
        let expected = json!({"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "CONFIGURED": "yes", name: mark});
        assert_eq!(*variables, expected);
    });
}
