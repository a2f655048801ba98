//! What the HTTP tests share: a client connection beside a scripted server.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_docs,
    reason = "test code; each test file uses a part of it"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::ProtocolVersion;
use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend};
use mcp_transport::testing::{NetConnection, NetServer};
use mcp_transport::{
    Closed, Connection, Connector as _, Ending, HttpProfile, Inbound, Outbound, Receive, SendError, Sent,
    Transport,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

pub const LIMIT: Duration = Duration::from_secs(20);

pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Both halves of a client connection.
pub struct Client {
    pub transport: Arc<dyn Transport>,
    pub half: Box<dyn Receive>,
}

pub fn limits() -> HttpLimits {
    HttpLimits::default().with_resume_pause(Duration::from_millis(100))
}

pub fn connector(url: &str, limits: HttpLimits) -> HttpConnector {
    HttpConnector::new(Arc::new(HyperBackend::default()), Endpoint::parse(url).unwrap(), limits)
}

impl Client {
    /// A client, and the connection it has opened.
    pub async fn connect(server: &NetServer) -> (Self, NetConnection) {
        Self::connect_with(server, limits()).await
    }

    pub async fn connect_with(server: &NetServer, limits: HttpLimits) -> (Self, NetConnection) {
        Self::connect_by(connector(&server.url(), limits), server).await
    }

    pub async fn connect_by(connector: HttpConnector, server: &NetServer) -> (Self, NetConnection) {
        let (client, connection) = tokio::join!(connector.connect(soon()), server.accept());
        let Connection { transport, receive, .. } = client.unwrap();
        (Self { transport, half: receive }, connection)
    }

    /// A client after a handshake without a session, in this version.
    pub async fn agreed(server: &NetServer, version: ProtocolVersion) -> (Self, NetConnection) {
        Self::agreed_over(HyperBackend::default(), server, version).await
    }

    /// As [`agreed`](Self::agreed), over a backend of the test's own.
    pub async fn agreed_over(
        backend: HyperBackend,
        server: &NetServer,
        version: ProtocolVersion,
    ) -> (Self, NetConnection) {
        let endpoint = Endpoint::parse(&server.url()).unwrap();
        let connector = HttpConnector::new(Arc::new(backend), endpoint, limits());
        let (client, connection) = Self::connect_by(connector, server).await;
        client.transport.set_profile(HttpProfile::new(version));
        (client, connection)
    }

    /// A legacy client in the session `canary`.
    pub async fn in_session(server: &NetServer) -> (Self, NetConnection) {
        let (client, mut connection) = Self::connect(server).await;
        let (sent, ()) = tokio::join!(client.send(0, "initialize"), async {
            connection.request().await;
            connection.json("200 OK", "mcp-session-id: canary\r\n", &answer(0, "hello")).await;
        });
        assert!(matches!(sent, Ok(Sent::Answered(_))), "{sent:?}");
        client.transport.set_profile(HttpProfile::new(ProtocolVersion::V2025_11_25));
        (client, connection)
    }

    pub async fn send(&self, id: i64, method: &str) -> Result<Sent, SendError> {
        self.transport.send(request(id, method)).await
    }

    pub async fn receive(&mut self) -> Result<Vec<Inbound>, Closed> {
        let mut into = Vec::new();
        let received = poll_fn(|cx| self.half.poll_receive(cx, &mut into));
        timeout(LIMIT, received).await.expect("something comes")?;
        assert!(!into.is_empty());
        Ok(into)
    }

    /// The next entry, which comes alone.
    pub async fn next(&mut self) -> Inbound {
        let mut entries = self.receive().await.unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// Closes it; everything must end well.
    pub async fn close(mut self) {
        let closing = self.transport.close(soon());
        let driving =
            async { while poll_fn(|cx| self.half.poll_receive(cx, &mut Vec::new())).await.is_ok() {} };
        let (report, ()) = timeout(LIMIT, async { tokio::join!(closing, driving) }).await.expect("it closes");
        assert_eq!(report.ending, Ending::Clean);
    }
}

pub fn request(id: i64, method: &str) -> Outbound {
    let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
    Outbound::request(id.into(), frame.to_string().into())
}

pub fn notification(method: &str) -> Outbound {
    Outbound::notification(json!({"jsonrpc": "2.0", "method": method}).to_string().into())
}

/// An answer to a request of the server.
pub fn reply(id: i64) -> Outbound {
    Outbound::response(json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string().into())
}

pub fn answer(id: i64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"said": text}})
}

#[track_caller]
pub fn answered(sent: Result<Sent, SendError>) -> Value {
    let Ok(Sent::Answered(frame)) = sent else { panic!("no answer inline: {sent:?}") };
    serde_json::from_slice(&frame).unwrap()
}

#[track_caller]
pub fn message(inbound: &Inbound) -> Value {
    let Inbound::Message { frame, .. } = inbound else { panic!("no message: {inbound:?}") };
    serde_json::from_slice(frame).unwrap()
}
