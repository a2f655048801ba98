//! How much is allocated to read a message: a call's speed depends on it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code,
    reason = "test code; a counting allocator cannot be written without unsafe"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::{Bytes, BytesMut};
use mcp_proto::{
    CallTool, CallToolResult, Frame, Message, MetaMembers, RawJson, Request, encode_request, parse_frame,
};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: each call is passed on unchanged to the system's allocator; counting touches one
// thread-local cell that needs no allocation and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; the block came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATIONS.with(Cell::get);
    let result = work();
    (ALLOCATIONS.with(Cell::get) - before, result)
}

/// A frame as a framer cuts it: a slice of a shared buffer.
fn framed(text: &str) -> Bytes {
    let mut buffer = BytesMut::from(text.as_bytes());
    buffer.extend_from_slice(b"\nthe next frame");
    buffer.split_to(text.len()).freeze()
}

fn response(id: &str) -> Bytes {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{}"}}],"isError":false}}}}"#,
        "x".repeat(110)
    );
    assert!((190..=220).contains(&text.len()), "{} bytes", text.len());
    framed(&text)
}

fn parse(frame: &Bytes) -> Message {
    match parse_frame(frame).unwrap() {
        Frame::Single(message) => message,
        Frame::Batch(_) => panic!("a batch"),
    }
}

#[test]
fn a_response_with_a_number_as_id_costs_no_allocation() {
    let frame = response("17");
    let (count, message) = allocations_of(|| parse(&frame));
    assert!(matches!(message, Message::Response { id: Some(_), outcome: Ok(_) }));
    assert_eq!(count, 0);
    let flat = framed(r#"{"jsonrpc":"2.0","id":17,"result":{"text":"flat","isError":false}}"#);
    assert_eq!(allocations_of(|| parse(&flat)).0, 0);
}

#[test]
fn a_response_with_a_text_as_id_costs_one_allocation_for_the_id() {
    let frame = response(r#""seventeen""#);
    assert_eq!(allocations_of(|| parse(&frame)).0, 1);
}

#[test]
fn a_method_costs_an_allocation_only_when_it_is_unknown() {
    let frame = framed(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}"#,
    );
    assert_eq!(allocations_of(|| parse(&frame)).0, 0);
    let unknown = framed(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#);
    assert_eq!(allocations_of(|| parse(&unknown)).0, 1);
}

#[test]
fn the_allocations_of_a_decoded_tool_result_do_not_creep_up() {
    let Message::Response { outcome: Ok(result), .. } = parse(&response("17")) else {
        panic!("not a result");
    };
    let (count, decoded) = allocations_of(|| result.decode::<CallToolResult>().unwrap());
    assert_eq!(decoded.content.len(), 1);
    // The list, and the text of its block.
    assert_eq!(count, 2);
}

#[test]
fn a_small_call_is_written_with_two_allocations() {
    let call = CallTool::new("search").with_arguments(RawJson::from_text(r#"{"query":"a"}"#).unwrap());
    let meta = MetaMembers::new().with_progress_token(&17.into()).unwrap();
    let (count, frame) =
        allocations_of(|| encode_request(&17.into(), &CallTool::METHOD, &call, &meta).unwrap());
    assert!(frame.len() < 192, "{} bytes", frame.len());
    // The bytes, and the counter of those who share them.
    assert_eq!(count, 2);
}
