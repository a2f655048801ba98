//! What a server writes to standard error, and a log that reacts to it. Alone in its program: the log
//! is that of the whole process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "stdio")]

use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;

use mcp_transport::process::{Command, LocalProcesses, Process, ProcessFactory};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Asks the process for its tail at each event of the thread that reads standard error.
struct Curious(Mutex<mpsc::SyncSender<String>>);

static PROCESS: OnceLock<Box<dyn Process>> = OnceLock::new();

impl Subscriber for Curious {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        if event.metadata().fields().field("line").is_some() {
            let tail = PROCESS.get().expect("it writes when it is asked to").stderr_tail();
            self.0.lock().unwrap().send(tail).unwrap();
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn the_tail_can_be_asked_for_while_a_line_is_logged() {
    let (sender, tails) = mpsc::sync_channel(2);
    tracing::subscriber::set_global_default(Curious(Mutex::new(sender))).unwrap();
    let factory = LocalProcesses::new();
    // Without a line end, the second line is logged when the process has ended.
    let command = Command::new("/bin/sh").args(["-c", "read -r l; echo one >&2; read -r l; printf two >&2"]);
    let child = factory.spawn(&command).await.unwrap();
    PROCESS.set(child.process).unwrap();
    let mut stdin = File::from(child.stdin);
    for expected in ["one", "one\\ntwo"] {
        stdin.write_all(b"go\n").unwrap();
        assert_eq!(tails.recv_timeout(Duration::from_secs(5)).expect("the line is logged"), expected);
    }
}
