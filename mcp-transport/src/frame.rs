use bytes::{Bytes, BytesMut};
use mcp_proto::sniff_id;
use memchr::memchr;
use serde::de::IgnoredAny;

use crate::transport::{Broken, BrokenWhy, Inbound};

/// Largest piece that is read at once, in bytes: the usual capacity of a pipe.
const MAX_READ: usize = 64 * 1024;

/// First piece that is read, in bytes; doubled whenever a read fills it.
const MIN_READ: usize = 2 * 1024;

/// Largest part of a line, in bytes, that moves into memory of its own while nothing more comes.
#[cfg(feature = "stdio")]
const SHORT_PART: usize = 4 * 1024;

/// Frames from this size on, in bytes, leave together with their buffer. Smaller ones are copied, so
/// that a frame that somebody keeps never pins a buffer many times its size.
const HAND_OVER: usize = 16 * 1024;

/// Frames up to this size, in bytes, are copied into a block that they share: it is used again as soon
/// as nobody keeps any of them.
const SHORT_FRAME: usize = 512;

/// Size of such a block, in bytes: what a short frame that somebody keeps pins at most.
const BLOCK: usize = 2 * 1024;

/// A line longer than this many limits is taken for a stream that never sends a line end.
const ENDLESS_FACTOR: usize = 4;

/// Bad lines in a row, without any whole message between them, after which the peer is given up.
const MAX_BAD_LINES: u32 = 1000;

/// Bytes in bad lines in a row after which the peer is given up; a torn message is a bad line, but speaks
/// for a peer that means to send messages, however long it is.
const MAX_BAD_BYTES: usize = 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits a byte stream into frames: one message per line.
///
/// Knows no I/O: bytes go in, frames come out, and the same bytes give the same frames however they
/// are split. A frame has no line end. Blank lines, a carriage return before the line end and a byte
/// order mark at the start of the stream are dropped. A line that begins neither with `{` nor with
/// `[{` (a batch) is [`BrokenWhy::Noise`]; a line over the limit is [`BrokenWhy::TooLarge`], announced
/// as soon as it is over and then discarded up to its end. Memory stays within the limit + 64 KiB.
///
/// # Examples
///
/// ```
/// use mcp_transport::{Framer, Inbound};
///
/// let mut framer = Framer::new(1024);
/// framer.push(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"res");
/// assert!(framer.next_frame()?.is_none());
/// framer.push(b"ult\":{}}\r\n");
/// assert!(matches!(framer.next_frame()?, Some(Inbound::Message { frame, .. }) if frame.ends_with(b"}")));
/// # Ok::<(), mcp_transport::FrameError>(())
/// ```
#[derive(Debug)]
pub struct Framer {
    max_frame_bytes: usize,
    buffer: Vec<u8>,
    /// What is left of the block for short frames.
    block: BytesMut,
    /// Where the first byte lies that no frame has taken yet.
    start: usize,
    /// How far the search for a line end has come; never before `start`.
    scanned: usize,
    /// How much the next read may bring.
    read_size: usize,
    /// Set inside an oversize line that has been announced.
    discarding: Option<Discarding>,
    /// Whether a byte order mark may still come.
    is_fresh: bool,
    bad_lines: u32,
    bad_bytes: usize,
    counters: FrameCounters,
    /// Why there will be no more frames.
    fault: Option<FrameError>,
}

/// What a [`Framer`] has left out or let pass, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameCounters {
    /// Lines without content.
    pub blank_lines: u64,
    /// Lines that begin like no message.
    pub noise_lines: u64,
    /// Lines over the limit.
    pub oversize_lines: u64,
    /// Whole messages at the end of the stream that had no line end.
    pub unterminated: u64,
}

/// The stream holds no frames any more; there is no point in reading on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A line went on for more than four times the limit, which is in bytes.
    #[error("a line has no end within four times {limit} bytes")]
    Endless {
        /// Largest frame, in bytes.
        limit: usize,
    },
    /// More than 1000 lines in a row held no whole message, or 1 MiB of lines that do not even begin like one.
    #[error("the stream holds no messages")]
    NotMcp,
}

/// What a [`Framer`] reads into and copies short frames to.
#[cfg(feature = "stdio")]
#[derive(Debug)]
pub(crate) struct Room {
    buffer: Vec<u8>,
    block: BytesMut,
}

#[cfg(feature = "stdio")]
impl Room {
    /// Room for the largest piece.
    pub(crate) fn new() -> Self {
        Self { buffer: Vec::with_capacity(MAX_READ), block: BytesMut::new() }
    }

    /// Whether there is as much as in a new one, and no more.
    pub(crate) fn is_whole(&self) -> bool {
        self.buffer.capacity() == MAX_READ
    }
}

/// An oversize line on its way out.
#[derive(Debug)]
struct Discarding {
    /// How many of its bytes have gone.
    bytes: usize,
    looks: Looks,
}

/// What a line is, as far as its first and last bytes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    Blank,
    Noise,
    /// Begins like a message but does not end like one.
    Torn,
    Whole,
}

impl Framer {
    /// Makes a framer for one stream; frames may be up to `max_frame_bytes` long.
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        Self {
            max_frame_bytes,
            buffer: Vec::new(),
            block: BytesMut::new(),
            start: 0,
            scanned: 0,
            read_size: MIN_READ,
            discarding: None,
            is_fresh: true,
            bad_lines: 0,
            bad_bytes: 0,
            counters: FrameCounters::default(),
            fault: None,
        }
    }

    /// Takes `bytes` in by copying them. Call [`next_frame`](Self::next_frame) until it has no more
    /// before pushing again: memory is bounded only then.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if one is complete.
    ///
    /// # Errors
    ///
    /// See [`FrameError`]. Frames that were complete before have been returned by earlier calls; later
    /// calls return the same error.
    pub fn next_frame(&mut self) -> Result<Option<Inbound>, FrameError> {
        match self.fault {
            Some(fault) => Err(fault),
            None => self.search().inspect_err(|fault| self.fault = Some(*fault)),
        }
    }

    /// Ends the stream: a last line without a line end counts if it is one whole JSON text.
    ///
    /// # Errors
    ///
    /// As for [`next_frame`](Self::next_frame).
    pub fn finish(&mut self) -> Result<Option<Inbound>, FrameError> {
        if let Some(frame) = self.next_frame()? {
            return Ok(Some(frame));
        }
        let end = self.buffer.len();
        let line = self.line(end);
        if self.discarding.is_none() && look(line) == Looks::Whole && is_json(line) {
            self.counters.unterminated += 1;
            return self.take_line(end);
        }
        self.consume(end);
        Ok(None)
    }

    /// What was left out so far.
    #[must_use]
    pub fn counters(&self) -> FrameCounters {
        self.counters
    }

    /// The buffer with room for the next read, for appending only: saves the copy that
    /// [`push`](Self::push) makes.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        let was_filled = self.buffer.len() == self.buffer.capacity();
        if was_filled && self.buffer.len() >= self.read_size {
            self.read_size = (self.read_size * 2).min(MAX_READ);
        }
        self.compact();
        let (length, capacity) = (self.buffer.len(), self.buffer.capacity());
        if capacity < self.read_size || capacity - length < self.read_size / 2 {
            // A long line doubles its buffer, but never beyond what the longest frame needs.
            let room = (self.max_frame_bytes.saturating_add(MAX_READ)).saturating_sub(length);
            self.buffer.reserve_exact(length.max(self.read_size).min(room.max(MIN_READ)));
        }
        &mut self.buffer
    }

    /// Lends room to read into, where there is none.
    #[cfg(feature = "stdio")]
    pub(crate) fn lend(&mut self, room: impl FnOnce() -> Room) {
        if self.buffer.capacity() == 0 {
            Room { buffer: self.buffer, block: self.block } = room();
        }
    }

    /// Nothing more can be read for now: gives its room back, unless a long part of a line is in it.
    #[cfg(feature = "stdio")]
    pub(crate) fn give_back(&mut self) -> Option<Room> {
        let part = self.buffer.get(self.start..).unwrap_or_default();
        if part.len() > SHORT_PART {
            return None;
        }
        let part = part.to_vec();
        let mut buffer = std::mem::replace(&mut self.buffer, part);
        buffer.clear();
        self.scanned = self.scanned.saturating_sub(self.start);
        self.start = 0;
        Some(Room { buffer, block: std::mem::take(&mut self.block) })
    }

    /// Takes the next complete line that is not blank.
    fn search(&mut self) -> Result<Option<Inbound>, FrameError> {
        if self.is_fresh && !self.strip_byte_order_mark() {
            return Ok(None);
        }
        loop {
            let searched = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(found) = memchr(b'\n', searched) else {
                self.scanned = self.buffer.len();
                return self.check_unfinished();
            };
            let end = self.scanned + found;
            if let Some(discarding) = self.discarding.take() {
                let bytes = discarding.bytes + (end - self.start);
                self.consume(end + 1);
                self.end_oversize(Discarding { bytes, ..discarding })?;
            } else if let Some(frame) = self.take_line(end)? {
                return Ok(Some(frame));
            }
        }
    }

    /// Answers whether it is known by now if the stream begins with a mark.
    fn strip_byte_order_mark(&mut self) -> bool {
        let bytes = self.buffer.get(self.start..).unwrap_or_default();
        if bytes.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(bytes) {
            return false;
        }
        if bytes.starts_with(BYTE_ORDER_MARK) {
            self.consume(self.start + BYTE_ORDER_MARK.len());
        }
        self.is_fresh = false;
        true
    }

    /// Deals with a line whose end has not come, and that may be too long already.
    fn check_unfinished(&mut self) -> Result<Option<Inbound>, FrameError> {
        let bytes = self.buffer.len() - self.start;
        if let Some(discarding) = &mut self.discarding {
            discarding.bytes += bytes;
            let seen = discarding.bytes;
            self.consume(self.buffer.len());
            return self.check_endless(seen).map(|()| None);
        }
        // One byte more than the limit may still be a carriage return.
        if bytes <= self.max_frame_bytes.saturating_add(1) {
            return Ok(None);
        }
        let frame = self.begin_oversize(self.buffer.len());
        if let Some(discarding) = &mut self.discarding {
            discarding.bytes = bytes;
        }
        self.buffer = Vec::new();
        self.consume(0);
        Ok(Some(frame))
    }

    /// Takes the line that ends before `end` out of the buffer; `None` if it holds nothing.
    fn take_line(&mut self, end: usize) -> Result<Option<Inbound>, FrameError> {
        let line = self.line(end);
        let (length, looks) = (line.len(), look(line));
        if length > self.max_frame_bytes {
            return Ok(Some(self.begin_oversize(end)));
        }
        match looks {
            Looks::Whole => (self.bad_lines, self.bad_bytes) = (0, 0),
            Looks::Torn => {
                self.bad_lines += 1;
                // Handed up all the same: the call that it answers fails by it, not by the end.
                self.fault = self.check_hopeless().err();
            }
            Looks::Blank => {
                self.counters.blank_lines += 1;
                self.consume(end + 1);
                self.count_bad_bytes(length)?;
                return Ok(None);
            }
            Looks::Noise => {
                self.counters.noise_lines += 1;
                self.consume(end + 1);
                self.count_bad(length)?;
                return Ok(Some(noise()));
            }
        }
        Ok(Some(Inbound::Message { frame: self.take_frame(length, end), stream: None }))
    }

    /// Takes `length` bytes at the front of the line that ends before `end`: a copy of a short one,
    /// the whole buffer with a long one.
    fn take_frame(&mut self, length: usize, end: usize) -> Bytes {
        let (from, to) = (self.start, self.start + length);
        if length < HAND_OVER {
            let frame = copy_of(self.buffer.get(from..to).unwrap_or_default(), &mut self.block);
            self.consume(end + 1);
            return frame;
        }
        let rest = self.buffer.get(end + 1..).unwrap_or_default();
        let mut fresh = Vec::new();
        if !rest.is_empty() {
            fresh.reserve_exact(rest.len().max(self.read_size));
            fresh.extend_from_slice(rest);
        }
        let whole = Bytes::from(std::mem::replace(&mut self.buffer, fresh));
        self.consume(0);
        whole.slice(from..to)
    }

    /// Announces a line that is too long, and leaves it in place to be discarded.
    fn begin_oversize(&mut self, end: usize) -> Inbound {
        let limit = self.max_frame_bytes;
        let line = self.buffer.get(self.start..end).unwrap_or_default();
        // No more than the limit, so that the answer does not depend on how much has arrived.
        let front = line.get(..limit).unwrap_or(line);
        let looks = look(front);
        let id = sniff_id(front);
        self.counters.oversize_lines += 1;
        self.discarding = Some(Discarding { bytes: 0, looks });
        self.scanned = self.start;
        match looks {
            Looks::Noise => noise(),
            _ => Inbound::Broken(Broken::new(id, BrokenWhy::TooLarge { limit })),
        }
    }

    fn end_oversize(&mut self, line: Discarding) -> Result<(), FrameError> {
        self.check_endless(line.bytes)?;
        match line.looks {
            Looks::Noise => self.count_bad(line.bytes),
            Looks::Blank => self.count_bad_bytes(line.bytes),
            // A server with large answers speaks MCP well enough.
            Looks::Torn | Looks::Whole => Ok(()),
        }
    }

    fn check_endless(&self, bytes: usize) -> Result<(), FrameError> {
        let limit = self.max_frame_bytes;
        let is_endless = bytes > limit.saturating_mul(ENDLESS_FACTOR);
        if is_endless { Err(FrameError::Endless { limit }) } else { Ok(()) }
    }

    fn count_bad(&mut self, length: usize) -> Result<(), FrameError> {
        self.bad_lines += 1;
        self.count_bad_bytes(length)
    }

    fn count_bad_bytes(&mut self, length: usize) -> Result<(), FrameError> {
        self.bad_bytes += length + 1;
        self.check_hopeless()
    }

    fn check_hopeless(&self) -> Result<(), FrameError> {
        let is_hopeless = self.bad_lines > MAX_BAD_LINES || self.bad_bytes > MAX_BAD_BYTES;
        if is_hopeless { Err(FrameError::NotMcp) } else { Ok(()) }
    }

    /// The line that ends before `end`, without a carriage return.
    fn line(&self, end: usize) -> &[u8] {
        let line = self.buffer.get(self.start..end).unwrap_or_default();
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Gives up everything before `next`.
    fn consume(&mut self, next: usize) {
        self.start = next.min(self.buffer.len());
        self.scanned = self.start;
    }

    /// Moves an unfinished line to the front, so that its room is used again.
    fn compact(&mut self) {
        let start = self.start.min(self.buffer.len());
        self.buffer.drain(..start);
        self.scanned = self.scanned.saturating_sub(self.start);
        self.start = 0;
    }
}

/// A copy of a frame, in `block` if it is short.
fn copy_of(frame: &[u8], block: &mut BytesMut) -> Bytes {
    if frame.len() > SHORT_FRAME {
        return Bytes::copy_from_slice(frame);
    }
    if block.capacity() < frame.len() {
        block.reserve(BLOCK);
    }
    block.extend_from_slice(frame);
    block.split().freeze()
}

fn look(line: &[u8]) -> Looks {
    let line = line.trim_ascii();
    let begins_batch = || line.get(1..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"));
    match (line.first(), line.last()) {
        (None, _) => Looks::Blank,
        // Log lines often begin with a time or a level in brackets.
        (Some(b'['), _) if !begins_batch() => Looks::Noise,
        (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => Looks::Whole,
        (Some(b'{' | b'['), _) => Looks::Torn,
        _ => Looks::Noise,
    }
}

/// Walks the text without recursion and without building anything.
fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

fn noise() -> Inbound {
    Inbound::Broken(Broken::new(None, BrokenWhy::Noise))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `pieces` one after the other and writes down what comes out, errors included.
    fn frames<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut framer = Framer::new(limit);
        let mut seen = Vec::new();
        for piece in pieces {
            framer.push(piece);
            if !collect(&mut seen, || framer.next_frame()) {
                return seen;
            }
        }
        collect(&mut seen, || framer.finish());
        seen
    }

    fn collect(
        seen: &mut Vec<String>,
        mut next: impl FnMut() -> Result<Option<Inbound>, FrameError>,
    ) -> bool {
        loop {
            match next() {
                Ok(None) => return true,
                Ok(Some(Inbound::Message { frame, stream: None })) => {
                    seen.push(String::from_utf8_lossy(&frame).into_owned());
                }
                Ok(Some(other)) => seen.push(format!("{other:?}")),
                Err(error) => {
                    seen.push(error.to_string());
                    return false;
                }
            }
        }
    }

    const NOISE: &str = "Broken(Broken { id: None, why: Noise })";

    fn too_large(id: &str, limit: usize) -> String {
        format!("Broken(Broken {{ id: {id}, why: TooLarge {{ limit: {limit} }} }})")
    }

    #[test]
    fn f013_preludes_and_odd_line_ends_are_skipped() {
        let text = b"\xef\xbb\xbf\n\r\n  \t\nServer v1 ready\r\n{\"a\":1}\r\n [ {}]\n\xef\xbb\xbf{}\n";
        assert_eq!(frames(100, [&text[..]]), [NOISE, "{\"a\":1}", " [ {}]", NOISE]);
        let mut framer = Framer::new(100);
        framer.push(text);
        while framer.next_frame().unwrap().is_some() {}
        let counters = framer.counters();
        assert_eq!((counters.blank_lines, counters.noise_lines), (3, 2));
    }

    #[test]
    fn f019_a_partial_line_at_the_end_is_discarded() {
        assert_eq!(frames(100, [&b"{\"a\":1}\n{\"jsonrpc\":\"2."[..]]), ["{\"a\":1}"]);
        assert_eq!(frames(100, [&b"{\"a\":{}"[..]]), [""; 0]);
    }

    #[test]
    fn f020_a_whole_message_without_line_end_counts() {
        assert_eq!(frames(100, [&b"{\"a\":1}\n{\"b\":2}\r"[..]]), ["{\"a\":1}", "{\"b\":2}"]);
    }

    #[test]
    fn f021_log_lines_that_begin_with_a_bracket_are_noise() {
        let text = b"[INFO] ready\n[2026-01-01] up [ok]\n[]\n[\n[{\"a\":1}]\n";
        assert_eq!(frames(100, [&text[..]]), [NOISE, NOISE, NOISE, NOISE, "[{\"a\":1}]"]);
        let lines = "[INFO] [ok]\n".repeat(1001);
        assert_eq!(frames(100, [lines.as_bytes()]).last().unwrap(), "the stream holds no messages");
    }

    #[test]
    fn f022_a_long_torn_message_is_handed_up_and_ends_nothing() {
        let torn = format!("{{\"id\":7,\"a\":\"{}\"}}x", "a".repeat(2 * 1024 * 1024));
        let text = format!("{{\"id\":1}}\n{torn}\n{{\"id\":2}}\n");
        assert_eq!(frames(16 * 1024 * 1024, [text.as_bytes()]), ["{\"id\":1}", &torn, "{\"id\":2}"]);
    }

    #[test]
    fn f021_torn_messages_without_end_are_given_up() {
        let text = format!("{}{{}}\n", "{x\n".repeat(1001));
        let seen = frames(100, [text.as_bytes()]);
        assert_eq!((seen.len(), seen[1000].as_str()), (1002, "{x"), "the last one is handed up too");
        assert_eq!(seen[1001], "the stream holds no messages");
    }

    #[test]
    fn f021_noise_without_a_message_is_given_up() {
        let lines = "x\n".repeat(1000);
        let patient = format!("{lines}{{}}\n{lines}{{}}\n");
        assert_eq!(frames(100, [patient.as_bytes()]).len(), 2002);
        let hopeless = format!("{lines}x\n{{}}\n");
        assert_eq!(frames(100, [hopeless.as_bytes()]).last().unwrap(), "the stream holds no messages");
        let wide = format!("{}\n", "x".repeat(100)).repeat(11_000);
        assert_eq!(frames(100, [wide.as_bytes()]).last().unwrap(), "the stream holds no messages");
        // Torn messages are passed on, because their calls must fail, but they prove nothing.
        let torn = "{\"id\":1\n".repeat(1001);
        assert_eq!(frames(100, [torn.as_bytes()]).last().unwrap(), "the stream holds no messages");
    }

    #[test]
    fn f023_lines_around_the_limit() {
        let line = |length: usize| format!("{{\"id\":7,\"a\":\"{}\"}}", "x".repeat(length - 15));
        for length in [99, 100] {
            for ending in ["\n", "\r\n"] {
                let text = format!("{}{ending}{{}}\n", line(length));
                assert_eq!(frames(100, [text.as_bytes()]), [line(length), "{}".into()]);
            }
        }
        for length in [101, 102, 103, 399] {
            let text = format!("{}\n{{}}\n", line(length));
            assert_eq!(frames(100, [text.as_bytes()]), [too_large("Some(7)", 100), "{}".into()]);
        }
        let text = format!("{}\n{{}}\n", line(401));
        assert_eq!(
            frames(100, [text.as_bytes()]),
            [too_large("Some(7)", 100), "a line has no end within four times 100 bytes".into()]
        );
    }

    #[test]
    fn f023_an_endless_line_is_announced_at_once_and_bounded() {
        let limit = 1024 * 1024;
        let mut framer = Framer::new(limit);
        let piece = vec![b'x'; MAX_READ];
        framer.push(b"{\"id\":\"a\",\"b\":\"");
        let (mut total, mut announced_at) = (0, None);
        let error = loop {
            let room = framer.buffer();
            let taken = piece.len().min(room.capacity() - room.len());
            room.extend_from_slice(&piece[..taken]);
            total += taken;
            match framer.next_frame() {
                Ok(None) => {}
                Ok(Some(Inbound::Broken(broken))) => {
                    assert_eq!(broken.id, Some("a".into()));
                    announced_at = Some(total);
                }
                Ok(Some(other)) => panic!("{other:?}"),
                Err(error) => break error,
            }
            assert!(framer.buffer.capacity() <= limit + MAX_READ, "{}", framer.buffer.capacity());
        };
        assert_eq!(error, FrameError::Endless { limit });
        assert!(announced_at.unwrap() <= limit + 2 * MAX_READ);
        assert!(total <= 4 * limit + 2 * MAX_READ);
    }

    #[test]
    fn a_large_frame_is_not_copied_and_a_small_one_pins_nothing() {
        let mut framer = Framer::new(1024 * 1024);
        let large = format!("{{\"{}\"}}", "x".repeat(HAND_OVER));
        framer.push(b"{1}\n");
        framer.push(large.as_bytes());
        framer.push(b"\n{2}\n{3");
        let address = framer.buffer.as_ptr();
        let mut next = || match framer.next_frame().unwrap().unwrap() {
            Inbound::Message { frame, .. } => frame,
            other => panic!("{other:?}"),
        };
        let (first, second, third) = (next(), next(), next());
        assert!(!(address..address.wrapping_add(8)).contains(&first.as_ptr()));
        assert_eq!(second.as_ptr(), address.wrapping_add(4));
        assert_eq!((&first[..], &second[..], &third[..]), (&b"{1}"[..], large.as_bytes(), &b"{2}"[..]));
        framer.push(b"}\n");
        assert!(
            matches!(framer.next_frame(), Ok(Some(Inbound::Message { frame, .. })) if &frame[..] == b"{3}")
        );
    }

    #[cfg(feature = "stdio")]
    #[test]
    fn room_is_lent_and_given_back_with_nothing_lost() {
        let mut framer = Framer::new(1024 * 1024);
        framer.lend(Room::new);
        let address = framer.buffer().as_ptr();
        framer.push(b"{1}\n{\"two\":");
        let Some(Inbound::Message { frame, .. }) = framer.next_frame().unwrap() else { panic!("no frame") };
        assert!(framer.next_frame().unwrap().is_none());
        let room = framer.give_back().unwrap();
        assert!(room.is_whole() && room.buffer.is_empty());
        assert_eq!(framer.buffer.capacity(), 7, "what has come is kept, and no more");
        framer.push(b"2}\n{3}\n");
        for expected in ["{\"two\":2}", "{3}"] {
            let next = framer.next_frame().unwrap();
            assert!(matches!(next, Some(Inbound::Message { frame, .. }) if frame == expected));
        }
        assert!(!framer.give_back().unwrap().is_whole());
        assert_eq!((framer.buffer.capacity(), framer.block.capacity()), (0, 0));
        framer.lend(|| room);
        assert_eq!(framer.buffer().as_ptr(), address);
        assert_eq!(&frame[..], b"{1}", "what was copied out is nobody else's");
    }

    #[cfg(feature = "stdio")]
    #[test]
    fn a_long_part_of_a_line_keeps_its_room() {
        let mut framer = Framer::new(1024 * 1024);
        framer.lend(Room::new);
        let line = format!("{{\"{}\"}}", "x".repeat(SHORT_PART));
        framer.push(line.as_bytes());
        assert!(framer.next_frame().unwrap().is_none());
        assert!(framer.give_back().is_none());
        framer.lend(|| panic!("it has room"));
        framer.push(b"\n");
        let next = framer.next_frame().unwrap();
        assert!(matches!(next, Some(Inbound::Message { frame, .. }) if frame == line));
        assert!(framer.give_back().unwrap().is_whole());
    }

    fn line() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(b"{\"jsonrpc\":\"2.0\",\"id\":12,\"result\":{}}\n".to_vec()),
            Just(b"\xef\xbb\xbf".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"{\"id\":3,\"r".to_vec()),
            (1_usize..300).prop_map(|n| format!("{{\"id\":{n},\"a\":\"{}\"}}\n", "y".repeat(n)).into_bytes()),
            prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    proptest! {
        #[test]
        fn same_frames_for_every_split(
            lines in prop::collection::vec(line(), 0..12),
            cuts in prop::collection::vec(1_usize..40, 1..40),
        ) {
            let text = lines.concat();
            let whole = frames(64, [&text[..]]);
            let mut pieces = Vec::new();
            let mut rest = &text[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, tail) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            prop_assert_eq!(frames(64, pieces), whole);
        }
    }
}
