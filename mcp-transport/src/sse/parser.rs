use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcp_proto::{RequestId, sniff_id};
use memchr::memchr2;

/// Shortest and longest pause that a server can ask for before a reconnection.
const RETRY_RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// Longest id of an event that is kept, in bytes: it is sent back in a header.
const MAX_ID_BYTES: usize = 4096;

/// Data of an oversized event that is kept to find the id of the call it answers, in bytes.
const KEPT_BYTES: usize = 4096;

/// A parser for event streams: bytes in, events out.
///
/// It does no I/O and knows no time. The data of an event that lies in one chunk on one line is a
/// slice of that chunk; anything else is copied once. At most `limit` bytes of an event are held.
///
/// ```text
///   push(chunk) ──▶ lines ──▶ fields ──▶ blank line ──▶ next_item()
/// ```
///
/// An event that the end of the stream has cut off is dropped, as the rules say.
///
/// # Source
///
/// WHATWG HTML, "Server-sent events": parsing and interpreting an event stream.
///
/// # Examples
///
/// ```
/// use mcp_transport::sse::{SseItem, SseParser};
///
/// let mut parser = SseParser::new(1024);
/// parser.push("id: 7\ndata: {\"json\"".into());
/// assert_eq!(parser.next_item(), None);
/// parser.push(":1}\n\n".into());
/// let Some(SseItem::Event(event)) = parser.next_item() else { panic!("an event was complete") };
/// assert_eq!(event.data, "{\"json\":1}");
/// assert_eq!(parser.last_event_id(), Some("7"));
/// ```
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    /// What was pushed and not yet looked at.
    chunk: Bytes,
    /// The beginning of a line whose end is in no chunk yet.
    partial: BytesMut,
    /// The last line ended with CR at the end of a chunk: a LF that follows belongs to it.
    skips_line_feed: bool,
    is_first_line: bool,
    name: Option<String>,
    data: Data,
    /// The id that the next blank line makes the last one.
    id: Option<String>,
    last_event_id: Option<String>,
    retry: Option<Duration>,
}

/// What a parser brings forth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    /// A complete event.
    Event(SseEvent),
    /// An event over the limit, which was skipped.
    TooLarge {
        /// The id in its data, where it can be read: that call gets no other answer.
        id: Option<RequestId>,
    },
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent {
    /// Its type; `None` stands for `message`.
    pub name: Option<String>,
    /// Its data lines, joined by line feeds.
    pub data: Bytes,
}

/// The data of an event so far.
#[derive(Debug)]
enum Data {
    None,
    One(Bytes),
    Many(BytesMut),
    /// Over the limit; only the beginning is kept.
    TooLarge(Bytes),
}

impl SseParser {
    /// A parser at the beginning of a stream; `limit` is in bytes and holds for each event.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            chunk: Bytes::new(),
            partial: BytesMut::new(),
            skips_line_feed: false,
            is_first_line: true,
            name: None,
            data: Data::None,
            id: None,
            last_event_id: None,
            retry: None,
        }
    }

    /// A parser for the next stream of a series, which the server continues after the id and with the
    /// pause that are known already.
    #[must_use]
    pub fn resumed(&self) -> Self {
        let known = self.last_event_id.clone();
        Self { id: known.clone(), last_event_id: known, retry: self.retry, ..Self::new(self.limit) }
    }

    /// Takes the next bytes of the stream. Take all items out before pushing more.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [&*self.chunk, &*chunk].concat().into();
        }
    }

    /// The next item, or `None` if it takes more bytes.
    pub fn next_item(&mut self) -> Option<SseItem> {
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                if let Some(item) = self.dispatch() {
                    return Some(item);
                }
            } else {
                self.on_line(&line);
            }
        }
        None
    }

    /// The id after which the server can continue the stream; that of the last complete event.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref().filter(|id| !id.is_empty())
    }

    /// How long the server wants us to wait before a reconnection, between 100 ms and 60 s.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes one line out, without its end.
    fn next_line(&mut self) -> Option<Bytes> {
        if self.skips_line_feed && !self.chunk.is_empty() {
            self.skips_line_feed = false;
            if self.chunk.first() == Some(&b'\n') {
                self.chunk = self.chunk.slice(1..);
            }
        }
        let Some(end) = memchr2(b'\n', b'\r', &self.chunk) else {
            let rest = std::mem::take(&mut self.chunk);
            self.keep(&rest);
            return None;
        };
        let mut line = self.chunk.split_to(end);
        let ending = self.chunk.split_to(1);
        if *ending == *b"\r" {
            match self.chunk.first() {
                Some(b'\n') => self.chunk = self.chunk.slice(1..),
                Some(_) => {}
                None => self.skips_line_feed = true,
            }
        }
        if !self.partial.is_empty() {
            self.keep(&line);
            line = self.partial.split().freeze();
        }
        if std::mem::take(&mut self.is_first_line) && line.starts_with(b"\xef\xbb\xbf") {
            line = line.slice(3..);
        }
        Some(line)
    }

    /// Keeps the beginning of a line; of one that is too long, no more than tells that it is.
    fn keep(&mut self, rest: &[u8]) {
        // A field name and the space behind it come on top of the data.
        let longest = self.limit.max(MAX_ID_BYTES).saturating_add(16);
        let room = longest.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(rest.get(..room).unwrap_or(rest));
    }

    fn on_line(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let field = line.get(..colon).unwrap_or_default();
        let value = line.slice((colon + 1).min(line.len())..);
        let value = if value.first() == Some(&b' ') { value.slice(1..) } else { value };
        match field {
            b"data" => self.on_data(value),
            b"event" => {
                let name = value.get(..value.len().min(MAX_ID_BYTES)).unwrap_or_default();
                self.name = (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned());
            }
            b"id" if !value.contains(&0) && value.len() <= MAX_ID_BYTES => {
                self.id = Some(String::from_utf8_lossy(&value).into_owned());
            }
            b"retry" => self.on_retry(&value),
            // A comment, whose field name is empty, or a field that nobody knows.
            _ => {}
        }
    }

    fn on_data(&mut self, value: Bytes) {
        let data = std::mem::replace(&mut self.data, Data::None);
        let held = match &data {
            Data::None => None,
            Data::One(first) => Some(first.len()),
            Data::Many(lines) => Some(lines.len()),
            Data::TooLarge(_) => return self.data = data,
        };
        let length = held.map_or(0, |held| held.saturating_add(1)).saturating_add(value.len());
        if length > self.limit {
            let kept = match data {
                Data::One(first) => first,
                Data::Many(lines) => lines.freeze(),
                Data::None | Data::TooLarge(_) => value,
            };
            // A copy, so that the chunk it came in is free.
            self.data = Data::TooLarge(Bytes::copy_from_slice(kept.get(..KEPT_BYTES).unwrap_or(&kept)));
            return;
        }
        self.data = match data {
            Data::None | Data::TooLarge(_) => Data::One(value),
            Data::One(first) => Data::Many(joined(BytesMut::from(&*first), &value)),
            Data::Many(lines) => Data::Many(joined(lines, &value)),
        };
    }

    fn on_retry(&mut self, value: &[u8]) {
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return;
        }
        // Only a number too long for the type cannot be read, and that is over the limit anyway.
        let wanted = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        let wanted = wanted.map_or(Duration::MAX, Duration::from_millis);
        self.retry = Some(wanted.clamp(RETRY_RANGE.0, RETRY_RANGE.1));
    }

    /// A blank line: what was collected becomes an event, if there is any data.
    fn dispatch(&mut self) -> Option<SseItem> {
        if self.id.is_some() {
            self.last_event_id.clone_from(&self.id);
        }
        let name = self.name.take();
        let data = match std::mem::replace(&mut self.data, Data::None) {
            Data::None => return None,
            Data::One(data) => data,
            Data::Many(lines) => lines.freeze(),
            Data::TooLarge(kept) => return Some(SseItem::TooLarge { id: sniff_id(&kept) }),
        };
        Some(SseItem::Event(SseEvent { name, data }))
    }
}

impl SseEvent {
    /// Whether the event carries a message; an empty one only carries an id.
    #[must_use]
    pub fn is_message(&self) -> bool {
        !self.data.is_empty() && self.name.as_deref().is_none_or(|name| name == "message")
    }
}

fn joined(mut lines: BytesMut, next: &[u8]) -> BytesMut {
    lines.reserve(next.len() + 1);
    lines.extend_from_slice(b"\n");
    lines.extend_from_slice(next);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1000;

    /// What a stream has brought: events as (type, data), and what is known at its end.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct Told {
        events: Vec<(String, Vec<u8>)>,
        last_event_id: String,
        retry: Option<u64>,
    }

    fn parse(chunks: &[&[u8]]) -> Told {
        let mut parser = SseParser::new(LIMIT);
        let mut told = Told::default();
        for chunk in chunks {
            parser.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = parser.next_item() {
                let SseItem::Event(event) = item else { panic!("nothing here is too large") };
                told.events.push((event.name.unwrap_or_else(|| "message".into()), event.data.to_vec()));
            }
        }
        told.last_event_id = parser.last_event_id().unwrap_or_default().to_owned();
        told.retry = parser.retry().map(|retry| retry.as_millis().try_into().unwrap());
        told
    }

    /// The rules of the standard, word for word, over the whole stream at once.
    fn reference(stream: &[u8]) -> Told {
        let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
        let mut lines: Vec<Vec<u8>> = Vec::new();
        let mut line = Vec::new();
        let mut at = 0;
        while at < stream.len() {
            match stream[at] {
                b'\r' | b'\n' => {
                    if stream[at..].starts_with(b"\r\n") {
                        at += 1;
                    }
                    lines.push(std::mem::take(&mut line));
                }
                other => line.push(other),
            }
            at += 1;
        }
        let mut told = Told::default();
        let (mut data, mut kind, mut id): (Vec<u8>, String, String) = Default::default();
        for line in lines {
            if line.is_empty() {
                told.last_event_id.clone_from(&id);
                if !data.is_empty() {
                    data.pop();
                    let name = if kind.is_empty() { "message".to_owned() } else { kind.clone() };
                    told.events.push((name, std::mem::take(&mut data)));
                }
                kind.clear();
                continue;
            }
            let (field, value) = match line.iter().position(|byte| *byte == b':') {
                Some(colon) => (&line[..colon], &line[colon + 1..]),
                None => (&line[..], &b""[..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            let text = String::from_utf8_lossy(value).into_owned();
            match field {
                b"event" => kind = text,
                b"data" => {
                    data.extend_from_slice(value);
                    data.push(b'\n');
                }
                b"id" if !value.contains(&0) => id = text,
                b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                    told.retry = Some(text.parse::<u64>().map_or(60_000, |wanted| wanted.clamp(100, 60_000)));
                }
                _ => {}
            }
        }
        told
    }

    fn messages(events: &[&str]) -> Vec<(String, Vec<u8>)> {
        events.iter().map(|data| ("message".to_owned(), data.as_bytes().to_vec())).collect()
    }

    #[test]
    fn f082_the_grammar_of_the_standard() {
        let table: &[(&str, &[&str])] = &[
            ("data: a\n\n", &["a"]),
            ("data:a\n\n", &["a"]),
            ("data:  a\n\n", &[" a"]),
            ("data: a\r\rdata: b\r\n\r\ndata: c\n\n", &["a", "b", "c"]),
            ("data: a\r\ndata: b\rdata: c\n\r\n", &["a\nb\nc"]),
            ("\u{feff}data: a\n\n", &["a"]),
            ("\u{feff}\u{feff}data: a\n\n", &[]),
            ("data: a\n\n\u{feff}data: b\n\n", &["a"]),
            (": comment\ndata: a\n:\n\n:\n\n", &["a"]),
            ("data\n\n", &[""]),
            ("data\ndata\n\n", &["\n"]),
            ("data:\n\n", &[""]),
            ("data: a\nunknown: b\n other: c\ndata : d\n\n", &["a"]),
            ("data: a", &[]),
            ("data: a\n", &[]),
            ("data: a\n\ndata: b\n", &["a"]),
            ("\n\n\r\r", &[]),
            ("data: a:b\n\n", &["a:b"]),
            ("DATA: a\n\n", &[]),
        ];
        for (stream, expected) in table {
            let told = parse(&[stream.as_bytes()]);
            assert_eq!(told.events, messages(expected), "{stream:?}");
            assert_eq!(told, reference(stream.as_bytes()), "{stream:?}");
        }
    }

    #[test]
    fn f082_ids_and_types() {
        let table: &[(&str, &str)] = &[
            ("id: 1\ndata: a\n\n", "1"),
            ("id: 1\n\n", "1"),
            ("id: 1\ndata: a\n\ndata: b\n\n", "1"),
            ("id: 1\n\nid\n\n", ""),
            ("id: 1\n\nid: 2\0\n\n", "1"),
            ("id: 1\n\nid: 2\n", "1"),
            ("id: 1\nid: 2\ndata:\n\n", "2"),
        ];
        for (stream, expected) in table {
            assert_eq!(parse(&[stream.as_bytes()]).last_event_id, *expected, "{stream:?}");
        }
        let told = parse(&[b"event: ping\ndata: a\n\ndata: b\n\nevent: ping\n\ndata: c\n\n"]);
        let names: Vec<&str> = told.events.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["ping", "message", "message"]);
    }

    #[test]
    fn only_messages_with_data_are_messages() {
        let mut parser = SseParser::new(LIMIT);
        parser.push("id: 1\ndata:\n\nevent: endpoint\ndata: /x\n\nevent: message\ndata: {}\n\n".into());
        let mut kinds = Vec::new();
        while let Some(SseItem::Event(event)) = parser.next_item() {
            kinds.push(event.is_message());
        }
        assert_eq!(kinds, [false, false, true]);
    }

    #[test]
    fn f084_the_pause_is_clamped_or_ignored() {
        let table: &[(&str, Option<u64>)] = &[
            ("retry: 500\n", Some(500)),
            ("retry: 0\n", Some(100)),
            ("retry: 100000000000000000000\n", Some(60_000)),
            ("retry: 60001\n", Some(60_000)),
            ("retry: -1\n", None),
            ("retry: +1\n", None),
            ("retry: 1.5\n", None),
            ("retry: soon\n", None),
            ("retry:\n", None),
            ("retry: 500\nretry: x\n", Some(500)),
        ];
        for (stream, expected) in table {
            assert_eq!(parse(&[stream.as_bytes()]).retry, *expected, "{stream:?}");
        }
    }

    #[test]
    fn f085_an_oversized_event_is_skipped_and_named() {
        let answer = format!("data: {{\"id\":5,\"result\":\"{}\"}}\n\ndata: after\n\n", "x".repeat(LIMIT));
        let lines = format!("data: {{\"id\":5,\n{}\ndata: after\n\n", "data: \n".repeat(LIMIT));
        let late = format!("data: {{\"result\":\"{}\",\"id\":5}}\n\ndata: after\n\n", "x".repeat(KEPT_BYTES));
        for (stream, id) in [(answer, Some(5.into())), (lines, Some(5.into())), (late, None)] {
            for size in [1, 7, stream.len()] {
                let mut parser = SseParser::new(LIMIT);
                let mut items = Vec::new();
                for chunk in stream.as_bytes().chunks(size) {
                    parser.push(Bytes::copy_from_slice(chunk));
                    while let Some(item) = parser.next_item() {
                        items.push(item);
                    }
                    assert!(parser.partial.len() <= MAX_ID_BYTES + 16, "no more is held than the limit");
                }
                let after = SseItem::Event(SseEvent { name: None, data: "after".into() });
                assert_eq!(items, [SseItem::TooLarge { id: id.clone() }, after]);
            }
        }
    }

    #[test]
    fn an_event_in_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"event: message\ndata: {\"id\":1}\n\n");
        let mut parser = SseParser::new(LIMIT);
        parser.push(chunk.clone());
        let Some(SseItem::Event(event)) = parser.next_item() else { panic!("one event") };
        assert!(chunk.as_ptr_range().contains(&event.data.as_ptr()));
    }

    /// Streams made of what matters to the rules, rather than of any bytes.
    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let pieces: [&[u8]; 18] = [
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"data",
            b"data:",
            b"data: ",
            b"id:",
            b"id: 7",
            b"event: ping",
            b"retry: 250",
            b":",
            b" ",
            b"{}",
            b"\xef\xbb\xbf",
            b"\xff",
            b"\0",
            b"\xc3\xa9",
        ];
        let piece = prop::sample::select(pieces.to_vec());
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn f083_every_split_gives_the_same_events(stream in streams()) {
            let expected = reference(&stream);
            prop_assert_eq!(&parse(&[&stream]), &expected);
            for at in 0..=stream.len() {
                let (head, tail) = stream.split_at(at);
                prop_assert_eq!(&parse(&[head, tail]), &expected, "split at {}", at);
            }
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(&parse(&bytes), &expected);
        }

        #[test]
        fn f083_any_bytes_are_read_as_the_reference_reads_them(
            stream in prop::collection::vec(any::<u8>(), 0..200), size in 1..9_usize,
        ) {
            let chunks: Vec<&[u8]> = stream.chunks(size).collect();
            prop_assert_eq!(parse(&chunks), reference(&stream));
        }
    }
}
