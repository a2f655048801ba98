use std::fmt::Write;

use crate::json::plain::{is_plain, plain_length};

/// Appends `text` in quotes.
pub(super) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    write_inside_quotes(out, text);
    out.push('"');
}

/// Appends `text` as it is written between quotes.
#[inline]
pub(super) fn write_inside_quotes(out: &mut String, text: &str) {
    if is_plain(text.as_bytes()) {
        out.push_str(text);
    } else {
        write_escaped(out, text);
    }
}

/// Appends what is plain as a whole, and each letter that is not as it has to be written.
#[inline(never)]
fn write_escaped(out: &mut String, text: &str) {
    let mut rest = text;
    loop {
        // What is special is ASCII, so that nothing is ever cut inside of a character.
        let (plain, special) = rest.split_at_checked(plain_length(rest.as_bytes())).unwrap_or((rest, ""));
        out.push_str(plain);
        let mut behind = special.chars();
        let Some(letter) = behind.next() else { break };
        write_escape(out, letter);
        rest = behind.as_str();
    }
}

fn write_escape(out: &mut String, letter: char) {
    match letter {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        control => {
            // A `String` takes whatever is written to it.
            let _ = write!(out, "\\u{:04x}", u32::from(control));
        }
    }
}
