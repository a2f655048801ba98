//! Answers over HTTP that come very slowly or never, on the paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mcp_proto::CallTool;
use mcp_session::{CallError, CallOptions, CallOutcome, EraPolicy, SessionOptions, open};
use mcp_transport::http::{
    Endpoint, HeaderMap, HeaderValue, HttpBackend, HttpBody, HttpConnectError, HttpConnector, HttpError,
    HttpLimits, HttpPool, HttpRequest, HttpResponse, Origin, StatusCode,
};
use mcp_transport::{CloseReason, Connector as _};
use serde_json::{Value, json};
use support::{discover_result, initialize_result, settle, soon};
use tokio::time::{Instant, Sleep, sleep};

/// How long one byte takes.
const DRIP: Duration = Duration::from_secs(20);

/// A legacy server that takes every call and answers none, and notes which are cancelled.
#[derive(Debug, Clone, Default)]
struct Holding {
    cancelled: Arc<Mutex<Vec<i64>>>,
}

impl HttpBackend for Holding {
    fn open_pool(&self, _: &Origin) -> Arc<dyn HttpPool> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl HttpPool for Holding {
    async fn connect(&self) -> Result<(), HttpConnectError> {
        Ok(())
    }

    async fn request(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.mark.set();
        let Ok(asked) = serde_json::from_slice::<Value>(&request.body) else {
            return Ok(HttpResponse::new(
                StatusCode::METHOD_NOT_ALLOWED,
                HeaderMap::new(),
                Box::new(Whole(None)),
            ));
        };
        match asked["method"].as_str().unwrap() {
            "initialize" => {
                let result = initialize_result("2025-11-25");
                let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
                return Ok(response("application/json", Box::new(Whole(Some(answer.to_string().into())))));
            }
            "tools/call" => std::future::pending().await,
            "notifications/cancelled" => {
                self.cancelled.lock().unwrap().push(asked["params"]["requestId"].as_i64().unwrap());
            }
            _ => {}
        }
        Ok(HttpResponse::new(StatusCode::ACCEPTED, HeaderMap::new(), Box::new(Whole(None))))
    }

    async fn close(&self, _: Instant) -> usize {
        0
    }
}

/// A backend without a network, whose answers to tool calls never end.
#[derive(Debug, Clone)]
struct Dripping {
    content_type: &'static str,
    /// What comes again and again, a byte at a time.
    text: &'static str,
}

impl HttpBackend for Dripping {
    fn open_pool(&self, _: &Origin) -> Arc<dyn HttpPool> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl HttpPool for Dripping {
    async fn connect(&self) -> Result<(), HttpConnectError> {
        Ok(())
    }

    async fn request(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.mark.set();
        let asked: Value = serde_json::from_slice(&request.body).unwrap();
        if asked["method"] == "server/discover" {
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": discover_result()});
            let body = Whole(Some(answer.to_string().into()));
            return Ok(response("application/json", Box::new(body)));
        }
        let body = Drip { text: self.text.as_bytes(), at: 0, next: Box::pin(sleep(DRIP)) };
        Ok(response(self.content_type, Box::new(body)))
    }

    async fn close(&self, _: Instant) -> usize {
        0
    }
}

fn response(content_type: &'static str, body: Box<dyn HttpBody>) -> HttpResponse {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(content_type));
    HttpResponse::new(StatusCode::OK, headers, body)
}

#[derive(Debug)]
struct Whole(Option<Bytes>);

impl HttpBody for Whole {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}

#[derive(Debug)]
struct Drip {
    text: &'static [u8],
    at: usize,
    next: Pin<Box<Sleep>>,
}

impl HttpBody for Drip {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        ready!(self.next.as_mut().poll(cx));
        self.next = Box::pin(sleep(DRIP));
        let byte = Bytes::from_static(self.text).slice(self.at..=self.at);
        self.at = (self.at + 1) % self.text.len();
        Poll::Ready(Some(Ok(byte)))
    }
}

#[tokio::test(start_paused = true)]
async fn f080_a_body_that_drips_for_ever_ends_with_the_time_of_its_call() {
    for (content_type, text) in [
        ("application/json", " "),
        ("text/event-stream", ": alive\n\n"),
        ("text/event-stream", "data: {}\n\n"),
        ("text/html", "<"),
    ] {
        let backend = Arc::new(Dripping { content_type, text });
        let endpoint = Endpoint::parse("http://nowhere.example/mcp").unwrap();
        let connector = HttpConnector::new(backend, endpoint, HttpLimits::default());
        let connection = connector.connect(soon()).await.unwrap();
        let (opening, driver) = open(connection, SessionOptions::default().with_era(EraPolicy::Modern));
        let driver = tokio::spawn(driver.run());
        let session = opening.handshake(soon()).await.unwrap();
        for (options, limit) in [
            (CallOptions::default(), 60),
            (CallOptions::default().with_timeout(Duration::from_secs(600)), 300),
        ] {
            let began = Instant::now();
            let error = session.call(CallTool::new("any"), options).await.unwrap_err();
            if content_type == "text/html" {
                // That it is no answer is known before its first byte.
                assert_eq!((error.is_timeout(), began.elapsed()), (false, Duration::ZERO), "{error:?}");
                continue;
            }
            assert!(error.is_timeout(), "{content_type}: {error:?}");
            assert_eq!(
                (error.outcome(), began.elapsed()),
                (CallOutcome::Unknown, Duration::from_secs(limit))
            );
            assert_eq!(session.in_flight(), 0);
        }
        session.close(soon()).await;
        drop(session);
        driver.await.unwrap();
    }
}

/// In the legacy era the end of a stream is no cancel: each of them has to be told.
#[tokio::test(start_paused = true)]
async fn f132_two_hundred_calls_with_one_deadline_are_all_cancelled_over_legacy_http() {
    for (room, told) in [(1024, 200), (100, 100)] {
        let backend = Holding::default();
        let endpoint = Endpoint::parse("http://nowhere.example/mcp").unwrap();
        let limits = HttpLimits::default().with_queued_cancels(room);
        let connector = HttpConnector::new(Arc::new(backend.clone()), endpoint, limits);
        let connection = connector.connect(soon()).await.unwrap();
        let (opening, driver) = open(connection, SessionOptions::default().with_era(EraPolicy::Legacy));
        let driver = tokio::spawn(driver.run());
        let session = opening.handshake(soon()).await.unwrap();
        let options = CallOptions::default().with_deadline(Instant::now() + Duration::from_secs(1));
        let calls = (0..200).map(|_| session.call(CallTool::new("held"), options.clone()));
        let outcomes = futures_util::future::join_all(calls).await;
        assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(CallError::is_timeout)));
        assert_eq!(session.counters().cancels_sent, told, "what was taken");
        if room < 200 {
            assert_eq!(*driver.await.unwrap().reason(), CloseReason::Stuck, "a cancel found no room");
            continue;
        }
        settle().await;
        let mut cancelled = std::mem::take(&mut *backend.cancelled.lock().unwrap());
        cancelled.sort_unstable();
        cancelled.dedup();
        assert_eq!(cancelled.len(), 200);
        session.close(soon()).await;
        driver.await.unwrap();
    }
}
