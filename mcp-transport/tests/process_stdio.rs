//! The stdio transport with real children.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "stdio")]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_transport::process::{Child, Command, Graces, LocalProcesses, ProcessFactory, SpawnError};
use mcp_transport::stdio::{StdioConnector, StdioLimits};
use mcp_transport::{
    Broken, BrokenWhy, CloseReason, Closed, Connection, Connector, Dispatch, Ending, Exit, Inbound, Outbound,
    Receive, SendError, Transport,
};
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_secs(20);

fn far() -> Instant {
    Instant::now() + LIMIT
}

/// One connection, with the factory that its process belongs to.
struct Peer {
    transport: Arc<dyn Transport>,
    half: Box<dyn Receive>,
    _factory: Arc<LocalProcesses>,
}

fn shell(script: &str) -> Command {
    let inherited = [("PATH", "/usr/local/bin:/usr/bin:/bin")];
    Command::new("/bin/sh").args(["-c", script]).inherit(inherited).server("fixture")
}

async fn connect_with(script: &str, limits: StdioLimits) -> Peer {
    let (command, factory) = (shell(script), Arc::new(LocalProcesses::new()));
    let connector = StdioConnector::new(factory.clone(), command, limits);
    let Connection { transport, receive: half, .. } = connector.connect(far()).await.unwrap();
    Peer { transport, half, _factory: factory }
}

async fn connect(script: &str) -> Peer {
    connect_with(script, StdioLimits::default()).await
}

/// Messages of a kilobyte without end: what the pipe still holds at the end is few of them, so that
/// reading those takes no time worth mentioning, on a busy machine too.
const FLOOD: &str = r#"yes "{\"pad\":\"$(printf %01000d 0)\"}""#;

/// Connects to a server whose output is a pipe of a mebibyte, which it fills faster than anybody reads.
async fn flood(script: &str) -> Peer {
    let factory = Arc::new(LocalProcesses::new());
    let wide = Arc::new(WidePipes(Arc::clone(&factory)));
    let connector = StdioConnector::new(wide, shell(script), StdioLimits::default());
    let Connection { transport, receive: half, .. } = connector.connect(far()).await.unwrap();
    Peer { transport, half, _factory: factory }
}

/// Gives each child the widest output that an ordinary process can ask for, as the child itself may.
#[derive(Debug)]
struct WidePipes(Arc<LocalProcesses>);

#[async_trait::async_trait]
impl ProcessFactory for WidePipes {
    async fn spawn(&self, command: &Command) -> Result<Child, SpawnError> {
        let child = self.0.spawn(command).await?;
        rustix::pipe::fcntl_setpipe_size(&child.stdout, 1024 * 1024).unwrap();
        Ok(child)
    }

    fn kill_all(&self) {
        self.0.kill_all();
    }

    fn close(&self) {
        self.0.close();
    }

    fn live(&self) -> usize {
        self.0.live()
    }
}

impl Peer {
    async fn receive(&mut self) -> Result<Vec<Inbound>, Closed> {
        let mut into = Vec::new();
        let received = poll_fn(|cx| self.half.poll_receive(cx, &mut into));
        timeout(LIMIT, received).await.expect("something comes")?;
        assert!(!into.is_empty());
        Ok(into)
    }

    /// Reads until the end; answers what came and how it ended.
    async fn drain(&mut self) -> (Vec<Inbound>, Closed) {
        let mut all = Vec::new();
        loop {
            match self.receive().await {
                Ok(more) => all.extend(more),
                Err(closed) => return (all, closed),
            }
        }
    }

    /// Waits for the end of a flood, as a host that takes its time for what comes: there is always more.
    async fn closed(&mut self) -> Closed {
        let began = Instant::now();
        loop {
            if let Err(closed) = self.receive().await {
                return closed;
            }
            assert!(began.elapsed() < Duration::from_secs(2), "the connection does not end");
            #[expect(
                clippy::disallowed_methods,
                reason = "plays a host with work to do; the server writes on"
            )]
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Drives the connection for as long as nothing comes, so that queued frames move.
    async fn drive(&mut self, time: Duration) {
        assert!(timeout(time, self.receive()).await.is_err(), "nothing was to come");
    }
}

fn texts(inbound: &[Inbound]) -> Vec<String> {
    let text = |entry: &Inbound| match entry {
        Inbound::Message { frame, .. } => String::from_utf8(frame.to_vec()).unwrap(),
        other => format!("{other:?}"),
    };
    inbound.iter().map(text).collect()
}

fn request(id: i64, length: usize) -> Outbound {
    let frame = format!("{{\"id\":{id},\"a\":\"{}\"}}", "x".repeat(length));
    Outbound::request(id.into(), frame.into())
}

#[tokio::test]
async fn frames_go_out_and_come_back_in_order() {
    let mut peer = connect("cat").await;
    let mut expected = Vec::new();
    for id in 0..500 {
        let message = request(id, usize::try_from(id).unwrap() * 10);
        expected.push(String::from_utf8(message.frame.to_vec()).unwrap());
        peer.transport.send(message).await.unwrap();
        while id % 20 == 19 && !expected.is_empty() {
            let came = texts(&peer.receive().await.unwrap());
            let rest = expected.split_off(came.len());
            assert_eq!(came, expected);
            expected = rest;
        }
    }
    let report = peer.transport.close(far()).await;
    assert_eq!((report.ending, report.exit), (Ending::Clean, Some(Exit::Code(0))));
    assert_eq!(peer.transport.close(far()).await, report);
    assert_eq!(peer.receive().await.unwrap_err().reason(), &CloseReason::Local);
    assert!(matches!(peer.transport.send(request(1, 1)).await, Err(SendError::Closed(_))));
}

#[tokio::test]
async fn a_frame_stays_on_one_line_and_within_its_limit() {
    let mut peer = connect_with("cat", StdioLimits::default().with_max_frame_bytes(100)).await;
    let pretty = Outbound::notification(Bytes::from_static(b"{\"a\":\r\n 1}"));
    peer.transport.send(pretty).await.unwrap();
    assert_eq!(texts(&peer.receive().await.unwrap()), ["{\"a\":   1}"]);
    let error = peer.transport.send(request(1, 100)).await.unwrap_err();
    assert!(matches!(error, SendError::TooLarge { limit: 100 }));
}

#[tokio::test]
async fn f010_an_early_exit_is_told_at_once_with_its_reason() {
    let began = Instant::now();
    let mut peer = connect("echo 'no \u{1b}licence' >&2; exit 1").await;
    let closed = peer.receive().await.unwrap_err();
    assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(1)));
    assert_eq!(
        closed.to_string(),
        "the server process ended with status 1; it wrote last: no \\u{1b}licence"
    );
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn f017_f019_what_was_written_before_the_death_is_delivered() {
    let script = "for i in $(seq 2000); do echo \"{\\\"id\\\":$i}\"; done; printf '{\"id\":3'; kill -9 $$";
    let mut peer = connect(script).await;
    let (messages, closed) = peer.drain().await;
    let texts = texts(&messages);
    assert_eq!((texts.len(), texts[1999].as_str()), (2000, "{\"id\":2000}"));
    assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Signal(9)));
    assert_eq!(peer.receive().await.unwrap_err().reason(), closed.reason(), "the end is told again");
}

#[tokio::test]
async fn f018_a_death_without_traffic_is_seen_at_once() {
    let mut peer = connect("echo '{}'; read -r l; exit 3").await;
    peer.receive().await.unwrap();
    peer.transport.send(request(1, 1)).await.unwrap();
    let began = Instant::now();
    let closed = peer.receive().await.unwrap_err();
    assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(3)));
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert!(matches!(peer.transport.send(request(2, 1)).await, Err(SendError::Closed(_))));
}

#[tokio::test]
async fn f020_a_last_message_without_line_end_is_delivered() {
    let mut peer = connect("printf '{\"id\":1}'").await;
    assert_eq!(texts(&peer.receive().await.unwrap()), ["{\"id\":1}"]);
    peer.receive().await.unwrap_err();
}

#[tokio::test]
async fn f021_noise_is_skipped_and_endless_noise_is_the_end() {
    let mut peer = connect("echo hello; echo '{}'; exec yes").await;
    let (entries, closed) = peer.drain().await;
    let noise = Inbound::Broken(Broken::new(None, BrokenWhy::Noise));
    assert_eq!(texts(&entries[..2]), [format!("{noise:?}"), "{}".into()]);
    assert_eq!(entries.len(), 1002);
    assert_eq!(closed.reason(), &CloseReason::NotMcp);
}

#[tokio::test]
async fn f024_a_server_that_does_not_read_holds_nobody_up() {
    let limits = StdioLimits::default().with_queue(4, 1024 * 1024);
    let mut peer = connect_with("exec sleep 600", limits).await;
    // The first fills the pipe and is not quite through; then the queue is full.
    for id in 0..4 {
        peer.transport.send(request(id, 65_530)).await.unwrap();
        peer.drive(Duration::from_millis(10)).await;
    }
    let blocked = timeout(Duration::from_millis(20), peer.transport.send(request(9, 1))).await;
    assert!(blocked.is_err(), "the queue is full");
    let abandon = |id: i64| peer.transport.abandon(&id.into(), None).dispatch;
    // The sender that gave up is known never to have sent; so are those in the queue.
    assert_eq!(abandon(9), Dispatch::NotSent);
    assert_eq!(abandon(3), Dispatch::NotSent);
    assert_eq!(abandon(0), Dispatch::MayHaveLeft);
    let began = Instant::now();
    let report = peer.transport.close(far()).await;
    assert_eq!(report.ending, Ending::Terminated);
    let limit = Graces::default().stdin_close + Duration::from_millis(500);
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
    // Queued to the end, and never sent.
    assert_eq!(abandon(2), Dispatch::NotSent);
}

#[tokio::test]
async fn senders_wait_in_line_and_go_in_order() {
    let mut peer = connect_with("exec cat", StdioLimits::default().with_queue(1, 1024)).await;
    let mut senders = tokio::task::JoinSet::new();
    for id in 0..50 {
        let transport = Arc::clone(&peer.transport);
        senders.spawn(async move { transport.send(request(id, 50_000)).await.unwrap() });
    }
    let mut ids = Vec::new();
    while ids.len() < 50 {
        for text in texts(&peer.receive().await.unwrap()) {
            let id = text.trim_start_matches("{\"id\":").split(',').next().unwrap();
            ids.push(id.parse::<i64>().unwrap());
        }
    }
    assert_eq!(ids, (0..50).collect::<Vec<_>>());
    assert_eq!(senders.join_all().await.len(), 50);
}

#[tokio::test]
async fn senders_in_line_are_told_when_the_connection_ends() {
    let mut peer = connect_with("read -r l; exec sleep 600", StdioLimits::default().with_queue(1, 1)).await;
    peer.transport.send(request(0, 200_000)).await.unwrap();
    let mut senders = tokio::task::JoinSet::new();
    for id in 1..4 {
        let transport = Arc::clone(&peer.transport);
        senders.spawn(async move { transport.send(request(id, 1)).await });
    }
    peer.drive(Duration::from_millis(10)).await;
    drop(peer.half);
    for sent in senders.join_all().await {
        assert!(matches!(sent, Err(SendError::Closed(_))), "{sent:?}");
    }
    for id in 1..4 {
        assert_eq!(peer.transport.abandon(&id.into(), None).dispatch, Dispatch::NotSent);
    }
}

#[tokio::test]
async fn a_notice_that_cannot_be_written_in_time_ends_the_connection() {
    let mut peer = connect("exec sleep 600").await;
    peer.transport.send(request(0, 100_000)).await.unwrap();
    peer.drive(Duration::from_millis(10)).await;
    let notice = Outbound::notification(Bytes::from_static(b"{\"method\":\"notifications/cancelled\"}"));
    let began = Instant::now();
    assert_eq!(peer.transport.abandon(&0.into(), Some(notice)).dispatch, Dispatch::MayHaveLeft);
    let closed = peer.receive().await.unwrap_err();
    assert_eq!(closed.reason(), &CloseReason::Stuck);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(49) && took < Duration::from_millis(150), "{took:?}");
}

#[tokio::test]
async fn a_notice_without_need_to_wait_is_written_at_once() {
    let mut peer = connect("exec cat").await;
    peer.transport.send(request(0, 10)).await.unwrap();
    peer.receive().await.unwrap();
    let notice = Outbound::notification(Bytes::from_static(b"{\"method\":\"notifications/cancelled\"}"));
    assert_eq!(peer.transport.abandon(&0.into(), Some(notice)).dispatch, Dispatch::MayHaveLeft);
    assert_eq!(texts(&peer.receive().await.unwrap()), ["{\"method\":\"notifications/cancelled\"}"]);
    peer.drive(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn more_notices_in_one_turn_than_can_be_queued_are_written_without_the_driver() {
    let mut peer = connect("echo '{}'; exec cat").await;
    peer.receive().await.unwrap();
    let frame = "{\"method\":\"notifications/cancelled\"}";
    // All of them fit into the pipe.
    for id in 0..1500 {
        let notice = Outbound::notification(Bytes::from_static(frame.as_bytes()));
        assert_eq!(peer.transport.abandon(&id.into(), Some(notice)).dispatch, Dispatch::MayHaveLeft);
    }
    let mut came = 0;
    while came < 1500 {
        let more = texts(&peer.receive().await.unwrap());
        assert!(more.iter().all(|text| text == frame));
        came += more.len();
    }
}

#[tokio::test]
async fn f024_f026_a_flood_does_not_hide_that_nothing_is_read() {
    // Writes faster than anybody can read, and reads nothing.
    let mut peer = flood(&format!("exec {FLOOD}")).await;
    peer.receive().await.unwrap();
    peer.transport.send(request(1, 2 * 1024 * 1024)).await.unwrap();
    let notice = Outbound::notification(Bytes::from_static(b"{\"method\":\"notifications/cancelled\"}"));
    assert_eq!(peer.transport.abandon(&1.into(), Some(notice)).dispatch, Dispatch::MayHaveLeft);
    let closed = peer.closed().await;
    assert_eq!(closed.reason(), &CloseReason::Stuck);
}

#[tokio::test]
async fn f026_f028_a_flood_does_not_hide_a_closed_input() {
    let mut peer = flood(&format!("exec <&-; exec {FLOOD}")).await;
    peer.receive().await.unwrap();
    let refused = peer.transport.send(request(1, 10)).await;
    assert!(matches!(refused, Err(SendError::Closed(_))), "{refused:?}");
    let closed = peer.closed().await;
    assert_eq!(closed.reason(), &CloseReason::Broken("the server closed its input".into()));
}

#[tokio::test]
async fn f025_reader_and_writer_do_not_wait_for_each_other() {
    let script = "head -c 1048576 /dev/zero | tr '\\0' ' '; echo '{}'; exec cat";
    let mut peer = connect(script).await;
    peer.transport.send(request(1, 1024 * 1024)).await.unwrap();
    let mut seen = 0;
    while seen < 2 {
        seen += peer.receive().await.unwrap().len();
    }
}

#[tokio::test]
async fn f027_a_server_that_closes_its_output_is_lost_and_can_be_stopped() {
    let mut peer = connect("exec >&-; exec sleep 600").await;
    let began = Instant::now();
    let closed = peer.receive().await.unwrap_err();
    assert_eq!(closed.reason(), &CloseReason::EndOfStream);
    assert!(began.elapsed() < Duration::from_millis(300));
    drop(peer.half);
    let report = peer.transport.close(far()).await;
    assert_eq!((report.ending, report.exit), (Ending::Terminated, Some(Exit::Signal(15))));
}

#[tokio::test]
async fn f028_a_server_that_closes_its_input_is_lost() {
    let mut peer = connect("exec <&-; echo '{}'; exec sleep 600").await;
    peer.receive().await.unwrap();
    let sent = peer.transport.send(request(1, 10)).await;
    let closed = peer.receive().await.unwrap_err();
    assert_eq!(closed.reason(), &CloseReason::Broken("the server closed its input".into()));
    match sent {
        Err(SendError::Closed(_)) => {}
        Ok(_) => assert_eq!(peer.transport.abandon(&1.into(), None).dispatch, Dispatch::NotSent),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn f043_the_exit_counts_when_a_descendant_holds_the_output() {
    // The server waits for the descendant to have left its group: otherwise it would be swept, and the
    // output closed, before the exit is looked at.
    let script = r#"
        exec 3>&1
        { setsid sh -c 'echo >&4; exec 4>&-; exec sleep 5' 4>&1 >&3 & } | read left
        echo '{"id":1}'
    "#;
    let mut peer = connect(script).await;
    let began = Instant::now();
    let (messages, closed) = peer.drain().await;
    assert_eq!(texts(&messages), ["{\"id\":1}"]);
    assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(0)));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn f043_a_descendant_that_goes_on_writing_is_not_listened_to() {
    let script = "echo '{\"id\":1}'; setsid sh -c 'while echo \"{}\"; do :; done' & sleep 0.05; exit 0";
    let mut peer = connect(script).await;
    let (_, closed) = peer.drain().await;
    assert_eq!(closed.reason(), &CloseReason::Exited(Exit::Code(0)));
}

#[tokio::test]
async fn f041_closing_lets_the_server_flush() {
    let script = "while read -r l; do :; done; head -c 10485760 /dev/zero; exit 4";
    let peer = connect(script).await;
    // Nobody polls the receiving half any more, but it is still there.
    let report = peer.transport.close(far()).await;
    assert_eq!((report.ending, report.exit), (Ending::Clean, Some(Exit::Code(4))));
}

#[tokio::test]
async fn queued_frames_are_written_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("count");
    // More than the pipe holds, for a server that begins to read late.
    let script = format!("sleep 0.05; grep -c id >{}", path.display());
    let peer = connect_with(&script, StdioLimits::default().with_flush(LIMIT)).await;
    for id in 0..30 {
        peer.transport.send(request(id, 4000)).await.unwrap();
    }
    assert_eq!(peer.transport.close(far()).await.ending, Ending::Clean);
    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), "30");
}

#[tokio::test]
async fn close_returns_by_its_deadline_and_many_share_its_report() {
    let peer = connect("trap '' TERM; sleep 600 & wait; wait").await;
    let began = Instant::now();
    let by = began + Duration::from_millis(300);
    let (first, second) = tokio::join!(peer.transport.close(by), peer.transport.close(by + LIMIT));
    assert_eq!(first, second);
    assert!(first.ending >= Ending::Terminated);
    assert!(began.elapsed() < Duration::from_millis(350), "{:?}", began.elapsed());
}

#[tokio::test]
async fn f139_a_dropped_close_goes_on() {
    let graces = Graces::default().with_stdin_close(Duration::from_millis(20));
    let script = "trap 'exit 6' TERM; echo '{}'; while :; do sleep 0.01; done";
    let mut peer = connect_with(script, StdioLimits::default().with_graces(graces)).await;
    peer.receive().await.unwrap();
    assert!(timeout(Duration::from_millis(1), peer.transport.close(far())).await.is_err());
    drop(peer.half);
    let report = peer.transport.close(far()).await;
    assert_eq!((report.ending, report.exit), (Ending::Terminated, Some(Exit::Code(6))));
}
