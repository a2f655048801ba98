//! Results that are larger than anybody wants to keep. Alone in its process, since it measures all of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::alloc::System;
use std::sync::Arc;

use mcp_proto::CallTool;
use mcp_session::{CallError, CallOptions, CallOutcome, SessionOptions, open};
use mcp_transport::Connector as _;
use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend};
use mcp_transport::testing::checks::isolated;
use mcp_transport::testing::{NetRequest, NetServer};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::{discover_result, said, soon};
use tracing::Level;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1024 * 1024;

/// How a server may send a long answer.
#[derive(Debug, Clone, Copy)]
enum Form {
    Chunks,
    Events,
    KnownLength,
}

/// The answer to a request, with the type that a modern result has.
fn result(request: &NetRequest, result: &Value) -> Value {
    let request = request.json();
    let mut result = result.clone();
    if request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28" {
        let members = result.as_object_mut().unwrap();
        members.entry("resultType").or_insert("complete".into());
    }
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

fn live_bytes(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// Sends a result of 50 MiB, as far as the client takes it; answers the most bytes that lived meanwhile.
async fn send_fifty_mebibytes(server: &NetServer, form: Form) -> usize {
    let (mut connection, request) = server.exchange().await;
    let head = match form {
        Form::Chunks => "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
        Form::Events => "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
        Form::KnownLength => {
            format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", 50 * MIB)
        }
    };
    let text = "x".repeat(MIB / 4);
    let region = Region::new(ALLOCATOR);
    connection.write(format!("HTTP/1.1 200 OK\r\n{head}")).await;
    let begin =
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"text":""#, request.json()["id"]);
    let begin = if matches!(form, Form::Events) { format!("data: {begin}") } else { begin };
    let mut most = 0;
    for piece in std::iter::once(&begin).chain(std::iter::repeat_n(&text, 200)) {
        match form {
            Form::KnownLength => connection.write(piece).await,
            Form::Chunks | Form::Events => connection.chunk(piece).await,
        }
        most = most.max(live_bytes(&region));
    }
    if matches!(form, Form::Events) {
        // The end of an event is waited for: others may follow it.
        connection.chunk("\"}]}}\n\n").await;
    }
    most
}

#[test]
fn f126_a_result_of_fifty_mebibytes_ends_its_call_and_is_never_kept_whole() {
    isolated(async |test| {
        for (form, limit) in [
            (Form::KnownLength, 16 * MIB),
            (Form::Chunks, 16 * MIB),
            (Form::Events, 16 * MIB),
            (Form::Chunks, MIB),
            (Form::Events, MIB),
        ] {
            let server = NetServer::bind().await;
            let endpoint = Endpoint::parse(&server.url()).unwrap();
            let limits = HttpLimits::default().with_max_message_bytes(limit);
            assert_eq!(HttpLimits::default().max_message_bytes, 16 * MIB);
            let connector = HttpConnector::new(Arc::new(HyperBackend::default()), endpoint, limits);
            let (opening, driver) = open(connector.connect(soon()).await.unwrap(), SessionOptions::default());
            let driver = tokio::spawn(driver.run());
            let (session, ()) = tokio::join!(opening.handshake(soon()), async {
                let (mut connection, request) = server.exchange().await;
                connection
                    .json("200 OK", "connection: close\r\n", &result(&request, &discover_result()))
                    .await;
            });
            let session = session.unwrap();
            let call = || session.call(CallTool::new("any"), CallOptions::default());
            let region = Region::new(ALLOCATOR);
            let (called, most) = tokio::join!(call(), send_fifty_mebibytes(&server, form));
            let error = called.unwrap_err();
            let CallError::FrameTooLarge { limit: told, .. } = error else { panic!("{form:?}: {error:?}") };
            assert_eq!((told, error.outcome()), (limit, CallOutcome::Unknown), "{form:?}");
            // What is read grows by doubling, and once more while it is moved.
            assert!(most < 3 * limit + 4 * MIB, "{form:?}: {most} bytes lived at once");
            let kept = live_bytes(&region);
            assert!(kept < MIB, "{form:?}: {kept} bytes are kept");
            let (called, ()) = tokio::join!(call(), async {
                let (mut connection, request) = server.exchange().await;
                connection.json("200 OK", "connection: close\r\n", &result(&request, &said("x"))).await;
            });
            called.unwrap();
            if matches!(form, Form::Events) {
                test.expect_log(Level::WARN, "the server sent a broken message");
            }
            assert_eq!(session.in_flight(), 0);
            drop((session, server));
            driver.await.unwrap();
        }
    });
}
