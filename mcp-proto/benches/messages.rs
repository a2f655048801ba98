//! What reading and writing messages costs, beside the least work that serde_json can do for it: the
//! members of the envelope, the payload as it lies, and a plain struct for what is in it.
//!
//! `cargo bench -p mcp-proto`; the goal is 1.3 times the time of that least work.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a benchmark; criterion makes public functions without documentation"
)]

mod least;

use std::fmt::Write as _;
use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mcp_proto::{
    CallTool, CallToolResult, Frame, ListToolsResult, Message, MetaMembers, Payload, RawJson, Request,
    encode_request, parse_frame,
};

fn payload(frame: &Bytes) -> Payload {
    match parse_frame(frame) {
        Ok(Frame::Single(Message::Response { outcome: Ok(payload), .. })) => payload,
        other => panic!("{other:?}"),
    }
}

/// A tool's result with one text block, in a frame of about `length` bytes.
fn tool_result(length: usize) -> Bytes {
    let envelope =
        r#"{"jsonrpc":"2.0","id":4711,"result":{"content":[{"type":"text","text":""}],"isError":false}}"#;
    let text = "The quick brown fox. ".repeat(length / 21 + 1);
    let text = &text[..length - envelope.len()];
    envelope.replace(r#""text":"""#, &format!(r#""text":"{text}""#)).into()
}

/// A page of tools, each of some 400 bytes.
fn tools(count: usize) -> Bytes {
    let mut text = r#"{"jsonrpc":"2.0","id":4711,"result":{"tools":["#.to_owned();
    for index in 0..count {
        let comma = if index == 0 { "" } else { "," };
        write!(
            text,
            r#"{comma}{{"name":"tool_{index}","title":"Tool {index}","description":"Finds the records that match a query, newest first.","inputSchema":{{"type":"object","properties":{{"query":{{"type":"string","description":"What to look for"}},"limit":{{"type":"integer","minimum":1,"maximum":100}}}},"required":["query"]}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}}}}"#
        )
        .unwrap();
    }
    (text + "]}}").into()
}

fn decoding(criterion: &mut Criterion) {
    for (name, frame) in [("result_200_b", tool_result(200)), ("result_1_mib", tool_result(1 << 20))] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(frame.len().try_into().unwrap()));
        group.bench_function("mcp_proto", |bencher| {
            bencher.iter(|| payload(black_box(&frame)).decode::<CallToolResult>().unwrap());
        });
        group.bench_function("least", |bencher| bencher.iter(|| least::tool_result(black_box(&frame))));
        group.finish();
    }
    for (name, frame) in [("tools_100", tools(100)), ("tools_5000", tools(5000))] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(frame.len().try_into().unwrap()));
        group.bench_function("mcp_proto", |bencher| {
            bencher.iter(|| payload(black_box(&frame)).decode::<ListToolsResult>().unwrap());
        });
        group.bench_function("least", |bencher| bencher.iter(|| least::tools(black_box(&frame))));
        group.finish();
    }
}

fn encoding(criterion: &mut Criterion) {
    let arguments = RawJson::from_text(r#"{"query":"open invoices","limit":20}"#).unwrap();
    let call = CallTool::new("search").with_arguments(arguments.clone());
    let meta = MetaMembers::new().with_progress_token(&4711.into()).unwrap();
    let mut group = criterion.benchmark_group("call");
    group.bench_function("mcp_proto", |bencher| {
        bencher.iter(|| encode_request(&4711.into(), &CallTool::METHOD, black_box(&call), &meta).unwrap());
    });
    group.bench_function("least", |bencher| {
        bencher.iter(|| least::call(4711, "search", black_box(&arguments)));
    });
    group.finish();
}

criterion_group!(benches, decoding, encoding);
criterion_main!(benches);
