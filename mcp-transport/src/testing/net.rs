use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A listener on loopback whose answers are written byte by byte by a test.
///
/// It parses what it is sent, strictly, and writes exactly what it is told: no server library would
/// produce the traffic that these tests are about. Nothing runs in the background; the test plays the
/// server beside the client, with `tokio::join!`.
///
/// ```no_run
/// # use mcp_transport::testing::NetServer;
/// # async fn test() {
/// let server = NetServer::bind().await;
/// // … have a client connect to server.url() …
/// let mut connection = server.accept().await;
/// let request = connection.request().await;
/// assert_eq!(request.method, "POST");
/// connection.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
/// connection.reset();
/// # }
/// ```
#[derive(Debug)]
pub struct NetServer {
    listener: TcpListener,
}

/// One accepted connection.
#[derive(Debug)]
pub struct NetConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct NetRequest {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl NetServer {
    /// Listens on a free port of 127.0.0.1.
    pub async fn bind() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback") }
    }

    /// The URL of its endpoint, with the path `/mcp`.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.listener.local_addr().expect("the listener is bound"))
    }

    /// The next connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no connection.
    pub async fn accept(&self) -> NetConnection {
        let (stream, _) = self.listener.accept().await.expect("a connection can be accepted");
        stream.set_nodelay(true).expect("the socket is open");
        NetConnection { stream, buffer: Vec::new() }
    }

    /// The next connection on which something was asked, with its first request.
    ///
    /// Clients connect before they have anything to ask.
    pub async fn exchange(&self) -> (NetConnection, NetRequest) {
        let mut connection = self.accept().await;
        let request = connection.request().await;
        (connection, request)
    }
}

impl NetConnection {
    /// The next request; the client must make one.
    #[track_caller]
    pub fn request(&mut self) -> impl Future<Output = NetRequest> {
        let next = self.next_request();
        async move { next.await.expect("the client makes a request") }
    }

    /// The next request, or `None` if the client closes the connection first.
    ///
    /// # Panics
    ///
    /// What came is not a request with a known length.
    pub async fn next_request(&mut self) -> Option<NetRequest> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            if !self.fill().await {
                assert!(self.buffer.is_empty(), "closed in the middle of a head: {:?}", self.buffer);
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).expect("a head is text");
        let mut lines = head.trim_end().split("\r\n");
        let first: Vec<&str> = lines.next().expect("a first line").split(' ').collect();
        let [method, target, "HTTP/1.1"] = first[..] else { panic!("no request line: {first:?}") };
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").expect("a header has a colon and a space"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut request =
            NetRequest { method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() };
        let length = request.header("content-length").map_or(0, |length| length.parse().expect("a number"));
        while self.buffer.len() < length {
            assert!(self.fill().await, "closed in the middle of a body");
        }
        request.body = self.buffer.drain(..length).collect();
        Some(request)
    }

    /// Writes exactly these bytes. The client may have closed the connection; then they are lost.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        match self.stream.write_all(bytes.as_ref()).await {
            Ok(()) => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
            Err(error) => panic!("writing failed: {error}"),
        }
    }

    /// Writes a whole answer with a JSON body; `headers` are further lines, each with its line end.
    pub async fn json(&mut self, status: &str, headers: &str, body: &Value) {
        let body = body.to_string();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        self.write(head + &body).await;
    }

    /// Writes an answer without a body.
    pub async fn empty(&mut self, status: &str) {
        self.write(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
    }

    /// Begins an answer that is a stream of events, in chunks; `headers` are further lines.
    pub async fn events(&mut self, headers: &str) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
        self.write(format!("{head}{headers}\r\n")).await;
    }

    /// Writes one chunk.
    pub async fn chunk(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.write(format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Writes one event with this message, in a chunk.
    pub async fn event(&mut self, message: &Value) {
        self.chunk(format!("event: message\ndata: {message}\n\n")).await;
    }

    /// Ends an answer in chunks; the connection stays.
    pub async fn end(&mut self) {
        self.write("0\r\n\r\n").await;
    }

    /// Waits until the client has closed the connection.
    ///
    /// # Panics
    ///
    /// It sends something instead.
    pub async fn closed(&mut self) {
        let has_more = self.fill().await;
        assert!(!has_more, "the client should close, but sends {:?}", String::from_utf8_lossy(&self.buffer));
    }

    /// Waits until the client has closed the connection; what it sends meanwhile is kept.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn hung_up(&mut self) {
        while self.fill().await {}
    }

    /// Closes the connection by a reset, so that the client loses what it has not read.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("the socket is open");
    }

    async fn fill(&mut self) -> bool {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(length) => length > 0,
            // A client that gives a stream up may leave bytes unread, which resets the connection.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("reading failed: {error}"),
        }
    }
}

impl NetRequest {
    /// The value of a header that may be there once.
    ///
    /// # Panics
    ///
    /// It is there more than once.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(other, _)| other == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} is there more than once");
        value
    }

    /// The body as JSON.
    ///
    /// # Panics
    ///
    /// It is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}
