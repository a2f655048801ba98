//! What is plain: how far a text goes on without anything that JSON has to write in another way, found by
//! the block and by the word, not byte by byte; and integers that are nothing but a few digits.

use memchr::memchr2;

/// How many bytes are looked at as one.
const BLOCK: usize = 16;

/// In how many bytes a text is expected to end. Only a longer one is worth a search that has to begin first.
const NEAR: usize = 16;

/// Integers of so many digits are read here: none of them is too large for 64 bits.
const PLAIN_DIGITS: usize = 18;

/// How many bytes from the start of `text` are in a JSON text what they are: neither its end nor an
/// escape nor a control character.
#[inline]
pub(crate) fn plain_length(text: &[u8]) -> usize {
    let blocks = text.as_chunks::<BLOCK>().0.iter();
    let plain = BLOCK * blocks.take_while(|block| !has_special(block)).count();
    let rest = text.get(plain..).unwrap_or_default();
    plain + first_by_words(rest, |word| controls(word) | quotes_and_escapes(word), is_special)
}

/// As [`plain_length`], of a text that has no control characters.
///
/// A short one, as names are, ends in its first word.
#[inline(always)]
pub(crate) fn length_without_controls(text: &[u8]) -> usize {
    if let Some(word) = text.first_chunk() {
        let found = quotes_and_escapes(u64::from_le_bytes(*word));
        if found != 0 {
            return first_byte(found);
        }
    }
    long_length_without_controls(text)
}

#[inline(never)]
fn long_length_without_controls(text: &[u8]) -> usize {
    let (near, far) = text.split_at_checked(NEAR).unwrap_or((text, &[]));
    let length = first_by_words(near, quotes_and_escapes, |byte| matches!(byte, b'"' | b'\\'));
    if length < near.len() {
        return length;
    }
    near.len() + memchr2(b'"', b'\\', far).unwrap_or(far.len())
}

/// Whether a text is plain as a whole, as almost all are that are written.
///
/// Of whatever length, its last bytes are looked at together with some of those before.
#[inline]
pub(crate) fn is_plain(text: &[u8]) -> bool {
    let is_plain = |word: u64| controls(word) | quotes_and_escapes(word) == 0;
    if let Some(last) = text.last_chunk() {
        let mut blocks = text.as_chunks::<BLOCK>().0.iter();
        return blocks.all(|block| !has_special(block)) && !has_special(last);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return is_plain(u64::from_le_bytes(*first)) && is_plain(u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
        return is_plain(first | last << 32);
    }
    !text.iter().any(|byte| is_special(*byte))
}

/// The integer that `text` begins with, and its length, if it is nothing but a few digits.
#[inline]
pub(crate) fn plain_integer(text: &[u8]) -> Option<(i64, usize)> {
    let mut number = 0;
    let mut length = 0;
    while let Some(byte @ b'0'..=b'9') = text.get(length) {
        if length == PLAIN_DIGITS {
            return None;
        }
        number = number * 10 + i64::from(byte - b'0');
        length += 1;
    }
    let is_other = matches!(text.get(length), Some(b'.' | b'e' | b'E'));
    let has_idle_zero = length > 1 && text.first() == Some(&b'0');
    if length == 0 || is_other || has_idle_zero { None } else { Some((number, length)) }
}

/// Whether a text has control characters, be it between its values or inside of them.
pub(crate) fn has_controls(text: &[u8]) -> bool {
    largest(text, |byte| !byte) > !0x20
}

/// Whether a text is ASCII and has no control characters, but for the one that may be inside of a text.
pub(crate) fn is_plain_ascii(text: &[u8]) -> bool {
    largest(text, |byte| byte.wrapping_sub(0x20)) < 0x60
}

/// The largest of what `of` makes of each byte, which is found faster than the first that is too large.
#[inline(always)]
fn largest(text: &[u8], of: impl Fn(u8) -> u8) -> u8 {
    let Some(last) = text.last_chunk::<BLOCK>() else {
        return text.iter().fold(0, |largest, byte| largest.max(of(*byte)));
    };
    // The last block overlaps the one before it.
    let mut found = last.map(&of);
    for block in text.as_chunks::<BLOCK>().0 {
        for (largest, byte) in found.iter_mut().zip(block) {
            *largest = of(*byte).max(*largest);
        }
    }
    found.into_iter().fold(0, u8::max)
}

/// Where the first byte is that `is` is true of; `in_word` finds it in a word.
#[inline(always)]
fn first_by_words(text: &[u8], in_word: impl Fn(u64) -> u64, is: impl Fn(u8) -> bool) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk() {
        let found = in_word(u64::from_le_bytes(*word));
        if found != 0 {
            return text.len() - rest.len() + first_byte(found);
        }
        rest = behind;
    }
    let in_tail = rest.iter().position(|byte| is(*byte));
    text.len() - rest.len() + in_tail.unwrap_or(rest.len())
}

/// Looks at every byte, which is cheaper than asking after each whether to go on.
#[inline(always)]
fn has_special(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(false, |found, byte| found | is_special(*byte))
}

#[expect(clippy::needless_bitwise_bool, reason = "without branches, so that a block is looked at as one")]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

const ONES: u64 = u64::MAX / 255;

/// A word whose lowest bit that is set lies in the first byte of `word` that is a control character; 0 if
/// none is.
///
/// Subtracting borrows from the bytes above one that is, never from those below.
fn controls(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & (ONES << 7)
}

/// As [`controls`], of the bytes that are a quote or begin an escape.
fn quotes_and_escapes(word: u64) -> u64 {
    let differs = |byte: u8| (word ^ (ONES * u64::from(byte))).wrapping_sub(ONES);
    // Both are ASCII, so that a byte beyond it is neither.
    (differs(b'"') | differs(b'\\')) & !word & (ONES << 7)
}

/// In which byte the lowest bit lies that is set.
fn first_byte(found: u64) -> usize {
    usize::try_from(found.trailing_zeros() / 8).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_special_byte_is_found_wherever_it_stands() {
        for length in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 25, 33, 64, 70] {
            let mut text = vec![b'x'; length];
            assert_eq!(plain_length(&text), length);
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    text[at] = byte;
                    let expected = if is_special(byte) { at } else { length };
                    assert_eq!(plain_length(&text), expected, "{byte} at {at} of {length}");
                    assert_eq!(is_plain(&text), expected == length, "{byte} at {at} of {length}");
                    let expected = if byte < 0x20 { length } else { expected };
                    assert_eq!(length_without_controls(&text), expected, "{byte} at {at} of {length}");
                }
                text[at] = b'x';
            }
        }
    }

    #[test]
    fn the_first_of_several_counts() {
        for (at, later) in [(0, 1), (3, 4), (60, 64), (64, 70), (127, 128), (150, 199)] {
            for (first, second) in [(b'"', b'\\'), (b'\n', b'"'), (b'\\', 0)] {
                let mut text = [b'x'; 200];
                (text[at], text[later]) = (first, second);
                assert_eq!(plain_length(&text), at);
            }
        }
    }

    #[test]
    fn what_is_not_plain_ascii_is_seen_wherever_it_stands() {
        for length in [1, 2, 8, 15, 16, 17, 31, 32, 33, 50] {
            assert!(is_plain_ascii(&vec![b'x'; length]));
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'x'; length];
                    text[at] = byte;
                    let expected = (0x20..0x80).contains(&byte);
                    assert_eq!(is_plain_ascii(&text), expected, "{byte} at {at} of {length}");
                }
            }
        }
        assert!(is_plain_ascii(b""));
    }

    #[test]
    fn only_a_few_digits_are_a_plain_integer() {
        let table: &[(&str, Option<(i64, usize)>)] = &[
            ("0", Some((0, 1))),
            ("7,", Some((7, 1))),
            ("4711}", Some((4711, 4))),
            ("123456789012345678 ", Some((123_456_789_012_345_678, 18))),
            ("1234567890123456789", None),
            ("9999999999999999999", None),
            ("01", None),
            ("-1", None),
            ("1.0", None),
            ("1e3", None),
            ("1E3", None),
            ("", None),
            ("x", None),
        ];
        for (text, expected) in table {
            assert_eq!(plain_integer(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn a_control_character_is_seen_wherever_it_stands() {
        for length in [1, 8, 15, 16, 17, 31, 32, 33, 64, 200] {
            for at in 0..length {
                let text =
                    |byte: char| format!("{}{byte}{}", "x".repeat(at), "y".repeat(length - at)).into_bytes();
                assert!(
                    has_controls(&text('\n')) && has_controls(&text('\0')) && has_controls(&text('\u{1f}'))
                );
                assert!(
                    !has_controls(&text(' ')) && !has_controls(&text('\u{7f}')) && !has_controls(&text('é'))
                );
            }
        }
        assert!(!has_controls(b""));
    }
}
