//! Where a value ends, if it follows the grammar of JSON.
//!
//! Each function takes the whole text and where its part of it begins, and answers where that part ends.
//! Arrays and objects call themselves for what is inside of them, and nest no deeper than a message may.
//! With `CONTROLS` the text may have control characters, which must not be inside of its texts.

use crate::json::plain::{length_without_controls, plain_length};
use crate::json::scan::ScanFault;
use crate::payload::MAX_DEPTH;

/// Where the value ends that begins at `at`, inside of so many arrays and objects.
pub(crate) fn end_of_value<const CONTROLS: bool>(
    text: &[u8],
    at: usize,
    depth: usize,
) -> Result<usize, ScanFault> {
    end_of_any::<CONTROLS>(text, at, depth)
}

/// Where the text ends that begins with the quote at `at`.
#[inline]
pub(crate) fn end_of_text<const CONTROLS: bool>(text: &[u8], at: usize) -> Result<usize, ScanFault> {
    if text.get(at) != Some(&b'"') {
        return Err(ScanFault::Malformed(at));
    }
    let at = end_of_plain::<CONTROLS>(text, at + 1);
    if text.get(at) == Some(&b'"') { Ok(at + 1) } else { end_of_escaped::<CONTROLS>(text, at) }
}

/// What is in the quotes of the text that begins at `at`, if it has no escapes.
#[inline]
pub(crate) fn plain_text(text: &[u8], at: usize, has_controls: bool) -> Option<&[u8]> {
    let inside = rest(text, at).strip_prefix(b"\"")?;
    let length = if has_controls { plain_length(inside) } else { length_without_controls(inside) };
    let (plain, end) = inside.split_at_checked(length)?;
    (end.first() == Some(&b'"')).then_some(plain)
}

/// Where the next byte is that is no blank.
#[inline(always)]
pub(crate) fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// As [`end_of_value`], in the midst of what calls it.
#[inline(always)]
fn end_of_any<const CONTROLS: bool>(text: &[u8], at: usize, depth: usize) -> Result<usize, ScanFault> {
    match text.get(at) {
        Some(b'"') => end_of_text::<CONTROLS>(text, at),
        Some(b'{') => end_of_object::<CONTROLS>(text, at + 1, depth + 1),
        Some(b'[') => end_of_array::<CONTROLS>(text, at + 1, depth + 1),
        Some(b'-' | b'0'..=b'9') => end_of_number(text, at),
        Some(b't') => end_of_word(text, at, b"true"),
        Some(b'f') => end_of_word(text, at, b"false"),
        Some(b'n') => end_of_word(text, at, b"null"),
        _ => Err(ScanFault::Malformed(at)),
    }
}

fn end_of_object<const CONTROLS: bool>(text: &[u8], at: usize, depth: usize) -> Result<usize, ScanFault> {
    if depth > MAX_DEPTH {
        return Err(ScanFault::TooDeep);
    }
    let mut at = skip_blanks(text, at);
    if text.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        at = skip_blanks(text, end_of_text::<CONTROLS>(text, at)?);
        if text.get(at) != Some(&b':') {
            return Err(ScanFault::Malformed(at));
        }
        at = skip_blanks(text, at + 1);
        at = skip_blanks(text, end_of_any::<CONTROLS>(text, at, depth)?);
        match text.get(at) {
            Some(b',') => at = skip_blanks(text, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return Err(ScanFault::Malformed(at)),
        }
    }
}

fn end_of_array<const CONTROLS: bool>(text: &[u8], at: usize, depth: usize) -> Result<usize, ScanFault> {
    if depth > MAX_DEPTH {
        return Err(ScanFault::TooDeep);
    }
    let mut at = skip_blanks(text, at);
    if text.get(at) == Some(&b']') {
        return Ok(at + 1);
    }
    loop {
        at = skip_blanks(text, end_of_any::<CONTROLS>(text, at, depth)?);
        match text.get(at) {
            Some(b',') => at = skip_blanks(text, at + 1),
            Some(b']') => return Ok(at + 1),
            _ => return Err(ScanFault::Malformed(at)),
        }
    }
}

fn end_of_word(text: &[u8], at: usize, word: &[u8]) -> Result<usize, ScanFault> {
    let comes_next = rest(text, at).starts_with(word);
    if comes_next { Ok(at + word.len()) } else { Err(ScanFault::Malformed(at)) }
}

fn end_of_number(text: &[u8], mut at: usize) -> Result<usize, ScanFault> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if text.get(at) == Some(&b'0') { at + 1 } else { end_of_digits(text, at)? };
    if text.get(at) == Some(&b'.') {
        at = end_of_digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = end_of_digits(text, at)?;
    }
    Ok(at)
}

/// One digit or more.
fn end_of_digits(text: &[u8], start: usize) -> Result<usize, ScanFault> {
    let mut at = start;
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at == start { Err(ScanFault::Malformed(at)) } else { Ok(at) }
}

/// As [`end_of_text`], where at `at` is an escape, or something that must not be in a text.
#[inline(never)]
fn end_of_escaped<const CONTROLS: bool>(text: &[u8], mut at: usize) -> Result<usize, ScanFault> {
    loop {
        match rest(text, at) {
            [b'"', ..] => return Ok(at + 1),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => at += 2,
            [b'\\', b'u', digits @ ..]
                if digits.get(..4).is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)) =>
            {
                at += 6;
            }
            _ => return Err(ScanFault::Malformed(at)),
        }
        at = end_of_plain::<CONTROLS>(text, at);
    }
}

/// Where the next byte is that is not what it is.
#[inline(always)]
fn end_of_plain<const CONTROLS: bool>(text: &[u8], at: usize) -> usize {
    let rest = rest(text, at);
    at + if CONTROLS { plain_length(rest) } else { length_without_controls(rest) }
}

fn rest(text: &[u8], at: usize) -> &[u8] {
    text.get(at..).unwrap_or_default()
}
