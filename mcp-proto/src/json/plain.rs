//! How far a text goes on without anything that JSON has to write in another way: found by the block
//! and by the word, not byte by byte.

use memchr::memchr2;

/// From how many bytes on a text is looked at in blocks, which pay off only then.
const LONG: usize = 64;

/// How many bytes from the start of `text` are in a JSON text what they are: neither its end nor an
/// escape nor a control character.
#[inline]
pub(crate) fn plain_length(text: &[u8]) -> usize {
    let near = plain_words(text.get(..LONG).unwrap_or(text));
    if near < LONG {
        return near;
    }
    let blocks = text.as_chunks::<LONG>().0;
    let plain = LONG * blocks.iter().take_while(|block| is_plain(block)).count();
    plain + plain_words(text.get(plain..).unwrap_or_default())
}

/// As [`plain_length`], of a text that has no control characters.
///
/// A short one, as names are, ends before a search has begun.
#[inline]
pub(crate) fn length_without_controls(text: &[u8]) -> usize {
    if let Some(word) = text.first_chunk() {
        let found = quote_or_escape(u64::from_le_bytes(*word));
        if found != 0 {
            return first_byte(found);
        }
    }
    memchr2(b'"', b'\\', text).unwrap_or(text.len())
}

/// Whether a text has control characters, be it between its values or inside of them.
pub(crate) fn has_controls(text: &str) -> bool {
    // The smallest byte of all is found faster than the first that is small enough.
    text.bytes().fold(u8::MAX, u8::min) < 0x20
}

/// Looks at every byte, which is cheaper than asking after each whether to go on.
fn is_plain(block: &[u8; LONG]) -> bool {
    !block.iter().fold(false, |found, byte| found | is_special(*byte))
}

/// As [`plain_length`], eight bytes at a time.
#[inline]
fn plain_words(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*word);
        let special = below(word, 0x20) | quote_or_escape(word);
        if special != 0 {
            return text.len() - rest.len() + first_byte(special);
        }
        rest = behind;
    }
    let in_tail = rest.iter().position(|byte| is_special(*byte));
    text.len() - rest.len() + in_tail.unwrap_or(rest.len())
}

#[expect(clippy::needless_bitwise_bool, reason = "without branches, so that a block is looked at as one")]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

const ONES: u64 = u64::MAX / 255;

/// A word whose lowest bit that is set lies in the first byte of `word` that is below `limit`; 0 if none
/// is.
///
/// Subtracting borrows from the bytes above one that is, never from those below.
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & (ONES << 7)
}

/// As [`below`], of the bytes that are a quote or begin an escape.
fn quote_or_escape(word: u64) -> u64 {
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    is(b'"') | is(b'\\')
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
        for length in [0, 1, 7, 8, 9, 63, 64, 65, 130, 200] {
            let mut text = vec![b'x'; length];
            assert_eq!(plain_length(&text), length);
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    text[at] = byte;
                    let expected = if is_special(byte) { at } else { length };
                    assert_eq!(plain_length(&text), expected, "{byte} at {at} of {length}");
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
    fn a_control_character_is_seen_wherever_it_stands() {
        for length in [1, 8, 31, 32, 33, 64, 200] {
            for at in 0..length {
                let text = |byte: char| format!("{}{byte}{}", "x".repeat(at), "y".repeat(length - at));
                assert!(
                    has_controls(&text('\n')) && has_controls(&text('\0')) && has_controls(&text('\u{1f}'))
                );
                assert!(
                    !has_controls(&text(' ')) && !has_controls(&text('\u{7f}')) && !has_controls(&text('é'))
                );
            }
        }
        assert!(!has_controls(""));
    }
}
