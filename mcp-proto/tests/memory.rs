//! What a frame can make us allocate at one time: at most eight times its length, and a constant.
//!
//! Alone in its process for the sake of its allocator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code,
    reason = "test code; a counting allocator cannot be written without unsafe"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;

use bytes::Bytes;
use mcp_proto::{
    CallToolResult, CompleteResult, DecodeError, Elicit, Frame, GetPromptResult, ListToolsResult, Message,
    Payload, SievedTools, parse_frame, sniff_id,
};
use serde::Deserialize;

/// What is allowed beside a multiple of the frame: error texts, stacks, a batch's list.
const CONSTANT: usize = 16 * 1024;

/// The length of the frames: enough for a wrong factor to show beside the constant.
const FRAME: usize = 256 * 1024;

#[derive(Clone, Copy, Default)]
struct Held {
    now: usize,
    peak: usize,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { now: 0, peak: 0 }) };
}

struct Counting;

fn count(more: usize, less: usize) {
    HELD.with(|held| {
        let Held { now, peak } = held.get();
        // A block may be freed by another thread than the one that it was counted for.
        let now = (now + more).saturating_sub(less);
        held.set(Held { now, peak: peak.max(now) });
    });
}

// SAFETY: each call is passed on unchanged to the system's allocator; counting touches one
// thread-local cell that needs no allocation and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`; the block came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new block exist together while one is copied to the other.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`; the block came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that `work` held at one time beside what was there before, its result included.
fn peak_of<T>(work: impl FnOnce() -> T) -> usize {
    let before = HELD.with(Cell::get).now;
    HELD.with(|held| held.set(Held { now: before, peak: before }));
    let result = work();
    let peak = HELD.with(Cell::get).peak;
    drop(result);
    peak - before
}

/// `opening`, as many of `part` as fill a frame, and `closing`.
fn filled(opening: &str, part: impl Fn(&mut String, usize), closing: &str) -> Bytes {
    let mut text = String::with_capacity(FRAME + 1024);
    text.push_str(opening);
    let mut index = 0;
    while text.len() < FRAME {
        part(&mut text, index);
        index += 1;
    }
    if !closing.starts_with('"') {
        text.truncate(text.trim_end_matches(',').len());
    }
    text.push_str(closing);
    text.into()
}

fn repeated(opening: &str, part: &'static str, closing: &str) -> Bytes {
    filled(opening, |text, _| text.push_str(part), closing)
}

/// Frames that are dense in whatever could cost more than it weighs.
fn frames() -> Vec<(&'static str, Bytes)> {
    let result = r#"{"jsonrpc":"2.0","id":1,"result":"#;
    let error = r#"{"jsonrpc":"2.0","id":1,"error":"#;
    let entry = r#"{"jsonrpc":"2.0","id":1,"result":1},"#;
    let numbered = |text: &mut String, index: usize| write!(text, r#""{index:x}":1,"#).unwrap();
    vec![
        ("numbers", repeated(&format!("{result}["), "0,", "]}")),
        ("empty objects", repeated(&format!("{result}["), "{},", "]}")),
        ("equal members", repeated(&format!("{result}{{"), r#""":1,"#, "}}")),
        ("different members", filled(&format!("{result}{{"), numbered, "}}")),
        ("different members but two", filled(&format!("{result}{{"), numbered, r#""":1,"":2}}"#)),
        ("members that are nothing", filled(r#"{"jsonrpc":"2.0","id":1,"result":1,"#, numbered, "}")),
        ("an id", repeated(r#"{"jsonrpc":"2.0","id":""#, "x", r#"","result":1}"#)),
        ("an id in escapes", repeated(r#"{"jsonrpc":"2.0","id":""#, r"\u0001", r#"","result":1}"#)),
        ("a method", repeated(r#"{"jsonrpc":"2.0","method":""#, r"\u0001", r#""}"#)),
        ("a message", repeated(&format!(r#"{error}{{"code":1,"message":""#), r"\u0001", r#""}}"#)),
        ("a message that is a list", repeated(&format!(r#"{error}{{"code":1,"message":["#), "0,", "]}}")),
        ("a code that is a list", repeated(&format!(r#"{error}{{"code":["#), "[],", "]}}")),
        ("data", repeated(&format!(r#"{error}{{"code":1,"message":"","data":["#), "0,", "]}}")),
        ("an error of equal members", repeated(&format!("{error}{{"), r#""code":1,"#, "}}")),
        ("an error of different members", filled(&format!("{error}{{"), numbered, r#""code":1,"code":2}}"#)),
        ("a batch", repeated("[", entry, "]")),
        ("a batch of numbers", repeated("[", "0,", "]")),
        (
            "a batch of a few",
            filled(
                "[",
                |text, _| {
                    write!(text, r#"{{"jsonrpc":"2.0","id":"{}","result":1}},"#, "x".repeat(FRAME / 90))
                        .unwrap()
                },
                "]",
            ),
        ),
        ("brackets", repeated("", "[", "")),
        ("objects", repeated("", r#"{"a":"#, "")),
        ("an open text", repeated(r#"{"jsonrpc":"2.0","id":1,"result":""#, r#"\""#, "")),
        ("names in escapes", repeated("{", r#""\u0061\u0061\u0061":0,"#, r#""jsonrpc":"#)),
        ("noise", repeated("", "\u{1b}", "")),
    ]
}

/// What is asked of payloads here: to be read, and to be read again where members are repeated.
#[derive(Deserialize)]
struct Asked {
    #[serde(default, rename = "")]
    _nameless: u8,
}

/// What a message may take beside eight times its text.
const FREE: usize = 4 * 1024 * 1024;

/// A payload of 2 MiB: enough for lists to show beside what they may take in any case.
fn long_payload(opening: &str, part: &str, closing: &str) -> Payload {
    let count = 2 * 1024 * 1024 / part.len();
    let parts = part.repeat(count);
    let text = format!("{opening}{}{closing}", parts.trim_end_matches(','));
    payload(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#).into()).unwrap()
}

/// How a payload was decoded, and how many bytes that took for each of its own beyond what is free.
type Cost = (Result<(), DecodeError>, usize);

/// What is decoded as which message.
type Case = (&'static str, fn(&Payload) -> Cost, Payload);

fn factor<T: serde::de::DeserializeOwned>(payload: &Payload) -> Cost {
    let mut result = Ok(());
    let peak = peak_of(|| result = payload.decode::<T>().map(drop));
    (result, peak.saturating_sub(FREE + CONSTANT).div_ceil(payload.as_bytes().len()))
}

fn payload(frame: &Bytes) -> Option<Payload> {
    match parse_frame(frame) {
        Ok(Frame::Single(Message::Response { outcome: Ok(payload), .. })) => Some(payload),
        _ => None,
    }
}

#[test]
fn a_frame_costs_at_most_eight_times_its_length() {
    for (name, frame) in frames() {
        let limit = 8 * frame.len() + CONSTANT;
        let parsing = peak_of(|| parse_frame(&frame));
        assert!(parsing <= limit, "reading {name}: {parsing} bytes for {}", frame.len());
        let sniffing = peak_of(|| sniff_id(&frame));
        assert!(sniffing <= limit, "sniffing {name}: {sniffing} bytes for {}", frame.len());
        if let Some(payload) = payload(&frame) {
            let decoding = peak_of(|| payload.decode::<Asked>().is_ok());
            assert!(decoding <= limit, "decoding {name}: {decoding} bytes for {}", frame.len());
        }
    }
}

#[test]
fn a_payload_costs_nothing_as_long_as_it_is_raw() {
    let (_, frame) = frames().into_iter().find(|(name, _)| *name == "different members").unwrap();
    let parsing = peak_of(|| parse_frame(&frame));
    assert!(parsing < 1024, "{parsing} bytes");
    assert!(payload(&frame).is_some());
}

#[test]
fn repeated_members_are_sorted_out_within_the_limit() {
    for costly in ["equal members", "different members but two"] {
        let (_, frame) = frames().into_iter().find(|(name, _)| *name == costly).unwrap();
        let payload = payload(&frame).unwrap();
        let peak = peak_of(|| payload.decode::<Asked>().expect("the last one counts"));
        // The copy without them takes as much as this, and the table of names its part.
        assert!((2 * frame.len()..=6 * frame.len() + CONSTANT).contains(&peak), "{costly}: {peak} bytes");
    }
}

#[test]
fn lists_that_say_almost_nothing_are_refused_before_they_take_more_than_eight_times_their_text() {
    let tool = r#"{"name":"a","icons":["#;
    let link = r#"{"type":"resource_link","uri":"","name":""},"#;
    let results: [Case; 6] = [
        ("blocks", factor::<CallToolResult>, long_payload(r#"{"content":["#, "{},", "]}")),
        ("tools", factor::<ListToolsResult>, long_payload(r#"{"tools":["#, r#"{"name":""},"#, "]}")),
        ("links", factor::<CallToolResult>, long_payload(r#"{"content":["#, link, "]}")),
        ("texts", factor::<CompleteResult>, long_payload(r#"{"completion":{"values":["#, r#""","#, "]}}")),
        ("messages", factor::<GetPromptResult>, {
            let message = r#"{"role":"","content":{"type":"text","text":""}},"#;
            long_payload(r#"{"messages":["#, message, "]}")
        }),
        ("fields", factor::<Elicit>, {
            let opening = r#"{"message":"","requestedSchema":{"type":"object","properties":{"#;
            long_payload(opening, r#""":{"type":"boolean"},"#, "}}}")
        }),
    ];
    for (name, factor, payload) in results {
        let (result, factor) = factor(&payload);
        assert!(factor <= 8, "{name}: {factor} times the text");
        assert!(result.is_err() || name == "links" || name == "messages", "{name}: {result:?}");
    }
    // As a hint, such a list counts as absent, like any other that cannot be read.
    let icons = long_payload(&format!(r#"{{"tools":[{tool}"#), r#"{"src":""},"#, "]}]}");
    let (result, factor) = factor::<ListToolsResult>(&icons);
    assert!(factor <= 8, "icons: {factor} times the text");
    assert!(result.is_err() || icons.decode::<ListToolsResult>().unwrap().tools[0].icons.is_none());
}

#[test]
fn annotations_are_looked_for_within_the_same_limit() {
    let in_schema = |part| {
        long_payload(r#"{"tools":[{"name":"a","inputSchema":{"x":"x-mcp-header","enum":["#, part, "]}}]}")
    };
    let annotated = r#"{"name":"","inputSchema":{"type":"object","x-mcp-header":"A"}},"#;
    let pages = [
        ("no tools", long_payload(r#"{"x":"x-mcp-header","tools":["#, "0,", "]}"), 0),
        ("no members", long_payload(r#"{"x":"x-mcp-header","#, r#""":0,"#, r#","tools":[]}"#), 0),
        ("a schema of lists", in_schema("[0],"), 1),
        ("a schema of objects", in_schema(r#"{"":0},"#), 1),
        ("a schema of texts", in_schema(r#""","#), 1),
        ("empty tools", long_payload(r#"{"x":"x-mcp-header","tools":["#, r#"{"name":""},"#, "]}"), 0),
        ("invalid tools", long_payload(r#"{"tools":["#, annotated, "]}"), (2 << 20) / annotated.len()),
    ];
    for (name, page, rejected) in pages {
        assert!(SievedTools::is_needed(&page), "{name}");
        let mut sieved = None;
        let peak = peak_of(|| sieved = Some(SievedTools::of_page(page.clone())));
        let factor = peak.saturating_sub(FREE + CONSTANT).div_ceil(page.as_bytes().len());
        assert!(factor <= 8, "{name}: {factor} times the text");
        assert_eq!(sieved.unwrap().rejected.len(), rejected, "{name}");
    }
}

#[test]
fn lists_of_ordinary_entries_are_read_however_long() {
    let block = format!(r#"{{"type":"text","text":"{}"}},"#, "x".repeat(80));
    let (result, factor) = factor::<CallToolResult>(&long_payload(r#"{"content":["#, &block, "]}"));
    assert_eq!((result, factor <= 8), (Ok(()), true), "{factor} times the text");
    let (result, _) = self::factor::<CallToolResult>(&long_payload(
        r#"{"structuredContent":["#,
        "0,",
        r#"],"content":[]}"#,
    ));
    assert_eq!(result, Ok(()), "what stays raw is no list");
}
