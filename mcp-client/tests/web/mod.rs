//! Servers over HTTP beside a test, and the browser of a person.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use mcp_transport::testing::{AuthSite, HttpAnswers, HttpEvent, HttpHost, ServerScript};
use serde_json::Value;

/// A server over HTTP, in a thread of its own until it is dropped.
pub(crate) struct Web {
    pub(crate) url: String,
    /// Every message that has passed the door, in order.
    pub(crate) messages: Arc<Mutex<Vec<Value>>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Web {
    pub(crate) fn start(script: ServerScript) -> Self {
        Self::serve(script, None)
    }

    /// A server that asks for authorization.
    pub(crate) fn guarded(script: ServerScript, site: &Arc<AuthSite>) -> Self {
        Self::serve(script, Some(Arc::clone(site)))
    }

    fn serve(script: ServerScript, site: Option<Arc<AuthSite>>) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (url_sender, url) = std::sync::mpsc::sync_channel(1);
        let messages: Arc<Mutex<Vec<Value>>> = Arc::default();
        let log = Arc::clone(&messages);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let host = HttpHost::bind(script, HttpAnswers::Events).await.watched_by(move |event| {
                    if let HttpEvent::Received { message } = event {
                        log.lock().unwrap().push(message.clone());
                    }
                });
                let host = match site {
                    Some(site) => host.guarded_by(site),
                    None => host,
                };
                url_sender.send(host.url()).unwrap();
                // It is told to, or its owner has gone.
                let _ = host.beside(stopped).await;
            });
        });
        Self { url: url.recv().unwrap(), messages, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.take();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// What a browser gets at a URL of this machine, head and all.
pub(crate) fn page(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = Vec::new();
    let mut some = [0; 1024];
    // The scripted host keeps connections open: its answers here have no body to wait for.
    while !page.ends_with(b"\r\n\r\nnull") {
        match stream.read(&mut some).unwrap() {
            0 => break,
            length => page.extend_from_slice(&some[..length]),
        }
    }
    String::from_utf8(page).unwrap()
}

/// Grants access at the URL of an authorization; answers with the URL at which the browser ends.
pub(crate) fn grant(url: &str) -> String {
    let page = page(url);
    let location = page.lines().find_map(|line| line.strip_prefix("location: "));
    location.unwrap_or_else(|| panic!("no redirect: {page}")).to_owned()
}
