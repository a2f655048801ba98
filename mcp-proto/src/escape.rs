use std::borrow::Cow;

/// Makes a text from outside safe to show: one line, no control or invisible characters, at most
/// `limit` bytes of the original.
///
/// Control characters (C0, DEL, C1), line and paragraph separators, bidirectional marks, zero-width
/// characters and Unicode tags become `\u{…}`; `\n`, `\r` and `\t` keep their short forms. A cut is
/// marked with `…`.
#[must_use]
pub fn escape(text: &str, limit: usize) -> Cow<'_, str> {
    let kept = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    if kept.len() == text.len() && !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(kept.len() + 16);
    for character in kept.chars() {
        if is_unsafe(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    if kept.len() < text.len() {
        out.push('…');
    }
    Cow::Owned(out)
}

fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
