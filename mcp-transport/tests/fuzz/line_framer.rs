//! Any bytes as a stream of lines, in pieces of any size.

use mcp_proto::sniff_id;
use mcp_transport::{Broken, BrokenWhy, FrameError, Framer, Inbound};
use serde::de::IgnoredAny;

/// Room that a framer may take beyond the longest frame, in bytes.
const ROOM: usize = 64 * 1024;

/// Fails if splitting a stream breaks a promise. The first byte chooses the limit, the second one how the
/// rest is cut into pieces.
pub(crate) fn run(data: &[u8]) {
    let [limit, cut, stream @ ..] = data else { return };
    let limit = [8, 17, 64, 1000][usize::from(limit % 4)];
    let expected = split(limit, stream);
    assert_eq!(frames(limit, [stream], Feed::Push), expected, "in one piece");
    assert_eq!(frames(limit, pieces(stream, *cut), Feed::Push), expected, "in pieces");
    assert_eq!(frames(limit, pieces(stream, *cut), Feed::Buffer), expected, "into its own buffer");
}

/// What comes out of a stream.
#[derive(Debug, PartialEq)]
enum Seen {
    Broken(Broken),
    Frame(Vec<u8>),
    Over(FrameError),
}

#[derive(Clone, Copy, PartialEq)]
enum Feed {
    Buffer,
    Push,
}

/// Cuts a stream into pieces of 1 to 32 bytes whose lengths follow from `seed`.
fn pieces(mut stream: &[u8], seed: u8) -> Vec<&[u8]> {
    let (mut state, mut pieces) = (u32::from(seed), Vec::new());
    while !stream.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (piece, rest) = stream.split_at(((state >> 24) as usize % 32 + 1).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

fn frames<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>, feed: Feed) -> Vec<Seen> {
    let (mut framer, mut seen) = (Framer::new(limit), Vec::new());
    for piece in pieces {
        match feed {
            Feed::Push => framer.push(piece),
            Feed::Buffer => {
                let room = framer.buffer();
                room.extend_from_slice(piece);
                assert!(room.capacity() <= limit + ROOM, "{} bytes of room", room.capacity());
            }
        }
        if !take(limit, &mut seen, || framer.next_frame()) {
            assert!(framer.next_frame().is_err(), "once over, over for good");
            return seen;
        }
    }
    take(limit, &mut seen, || framer.finish());
    seen
}

/// Takes what there is; answers whether more may come.
fn take(
    limit: usize,
    seen: &mut Vec<Seen>,
    mut next: impl FnMut() -> Result<Option<Inbound>, FrameError>,
) -> bool {
    loop {
        match next() {
            Ok(None) => return true,
            Ok(Some(Inbound::Message { frame, stream: None })) => {
                assert!(frame.len() <= limit && !frame.contains(&b'\n'));
                seen.push(Seen::Frame(frame.to_vec()));
            }
            Ok(Some(Inbound::Broken(broken))) => seen.push(Seen::Broken(broken)),
            Ok(Some(other)) => panic!("not of a framer: {other:?}"),
            Err(error) => {
                seen.push(Seen::Over(error));
                return false;
            }
        }
    }
}

/// The same rules written down as plainly as possible, over the whole stream at once.
fn split(limit: usize, stream: &[u8]) -> Vec<Seen> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let (mut seen, mut bad) = (Vec::new(), Bad::default());
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let unfinished = lines.pop().unwrap_or_default();
    for line in lines {
        if let Err(error) = on_line(limit, line, &mut seen, &mut bad) {
            seen.push(Seen::Over(error));
            return seen;
        }
    }
    let content = unfinished.strip_suffix(b"\r").unwrap_or(unfinished);
    if unfinished.len() > limit + 1 {
        seen.push(oversize(limit, unfinished));
        if unfinished.len() > 4 * limit {
            seen.push(Seen::Over(FrameError::Endless { limit }));
        }
    } else if kind(content) == Kind::Whole && serde_json::from_slice::<IgnoredAny>(content).is_ok() {
        match content.len() > limit {
            true => seen.push(oversize(limit, unfinished)),
            false => seen.push(Seen::Frame(content.to_vec())),
        }
    }
    seen
}

fn on_line(limit: usize, line: &[u8], seen: &mut Vec<Seen>, bad: &mut Bad) -> Result<(), FrameError> {
    let content = line.strip_suffix(b"\r").unwrap_or(line);
    if content.len() > limit {
        seen.push(oversize(limit, line));
        if line.len() > 4 * limit {
            return Err(FrameError::Endless { limit });
        }
        return match kind(&line[..limit]) {
            Kind::Blank => bad.add(0, line.len()),
            Kind::Noise => bad.add(1, line.len()),
            Kind::Torn | Kind::Whole => Ok(()),
        };
    }
    match kind(content) {
        Kind::Blank => return bad.add(0, content.len()),
        Kind::Noise => {
            bad.add(1, content.len())?;
            seen.push(Seen::Broken(Broken::new(None, BrokenWhy::Noise)));
            return Ok(());
        }
        // Handed up also if it is the last that may be bad, and its length is no matter.
        Kind::Torn => bad.lines += 1,
        Kind::Whole => *bad = Bad::default(),
    }
    seen.push(Seen::Frame(content.to_vec()));
    bad.check()
}

fn oversize(limit: usize, line: &[u8]) -> Seen {
    let front = &line[..limit];
    match kind(front) {
        Kind::Noise => Seen::Broken(Broken::new(None, BrokenWhy::Noise)),
        _ => Seen::Broken(Broken::new(sniff_id(front), BrokenWhy::TooLarge { limit })),
    }
}

/// Lines without a message since the last one with a message.
#[derive(Default)]
struct Bad {
    lines: usize,
    bytes: usize,
}

impl Bad {
    fn add(&mut self, lines: usize, length: usize) -> Result<(), FrameError> {
        self.lines += lines;
        self.bytes += length + 1;
        self.check()
    }

    fn check(&self) -> Result<(), FrameError> {
        if self.lines > 1000 || self.bytes > 1024 * 1024 { Err(FrameError::NotMcp) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Blank,
    Noise,
    Torn,
    Whole,
}

/// What a line is, by what is neither blank nor a line end in it.
fn kind(line: &[u8]) -> Kind {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace();
    let mut inked = line.iter().filter(|byte| !is_blank(byte)).copied();
    let (first, second) = (inked.next(), inked.next());
    let last = line.iter().rev().find(|byte| !is_blank(byte)).copied();
    match (first, second, last) {
        (None, ..) => Kind::Blank,
        (Some(b'{'), _, Some(b'}')) | (Some(b'['), Some(b'{'), Some(b']')) => Kind::Whole,
        (Some(b'{'), ..) | (Some(b'['), Some(b'{'), _) => Kind::Torn,
        _ => Kind::Noise,
    }
}
