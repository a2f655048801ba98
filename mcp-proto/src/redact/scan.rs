//! One pass over a text that finds what looks like a credential.

use std::ops::Range;

use super::credentials::{follows_scheme, looks_random, private_key, vendor_key, web_token};
use super::names::{Telling, judge};
use crate::secret::Secret;

const SCHEMES: &[&str] = &["basic", "bearer", "digest", "token"];

/// The longest name that is judged; longer ones are no names.
const LONGEST_NAME: usize = 128;

/// Where `text` holds what looks like a credential, in ascending order.
pub(super) fn credentials_in(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut scanner = Scanner { text, at: 0 };
    while let Some(byte) = scanner.byte(0) {
        match scanner.credential(byte) {
            Some(span) => {
                scanner.at = span.end.max(scanner.at + 1);
                found.push(span);
            }
            None => scanner.at += 1,
        }
    }
    found
}

/// Stands at one byte of a text. Every span it makes begins and ends beside an ASCII byte, so that no
/// character is ever cut.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn before(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at.checked_sub(1)?).copied()
    }

    fn rest(&self, from: usize) -> &'a str {
        self.text.get(from..).unwrap_or_default()
    }

    fn credential(&self, byte: u8) -> Option<Range<usize>> {
        let span = match byte {
            b':' => self.user_of_url()?,
            b'-' => self.at..self.at + private_key(self.rest(self.at))?,
            _ if byte.is_ascii_alphanumeric() => self.word()?,
            _ => return None,
        };
        let is_done = self.rest(span.start).starts_with(Secret::MARKER);
        (!span.is_empty() && !is_done).then_some(span)
    }

    /// What can begin with a letter or digit that no other one stands before.
    fn word(&self) -> Option<Range<usize>> {
        if self.before().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let rest = self.rest(self.at).as_bytes();
        if let Some(length) = vendor_key(rest).or_else(|| web_token(rest)) {
            return Some(self.at..self.at + length);
        }
        if self.before().is_some_and(|byte| byte == b'_' || (byte == b'-' && self.is_inside_name())) {
            return None;
        }
        let name = self.name()?;
        self.behind_scheme(name).or_else(|| self.behind_name(name))
    }

    /// Whether a letter stands before the hyphens before this byte (`x-key`, not `--key`).
    fn is_inside_name(&self) -> bool {
        let before = self.text.as_bytes().get(..self.at).unwrap_or_default();
        let hyphens = before.iter().rev().take_while(|byte| **byte == b'-').count();
        let letter = before.len().checked_sub(hyphens + 1).and_then(|index| before.get(index));
        hyphens == 1 && letter.is_some_and(u8::is_ascii_alphanumeric)
    }

    fn name(&self) -> Option<&'a str> {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let rest = self.rest(self.at);
        let length = rest.bytes().take(LONGEST_NAME + 1).take_while(is_name).count();
        (length <= LONGEST_NAME).then(|| rest.get(..length)).flatten()
    }

    fn behind_scheme(&self, name: &str) -> Option<Range<usize>> {
        SCHEMES.iter().find(|scheme| scheme.eq_ignore_ascii_case(name))?;
        let blanks = self.blanks(self.at + name.len());
        if blanks == 0 {
            return None;
        }
        let start = self.at + name.len() + blanks;
        if name.eq_ignore_ascii_case("digest") && self.rest(start).starts_with("username=") {
            let rest = self.rest(start);
            return Some(start..start + rest.find(['\r', '\n']).unwrap_or(rest.len()));
        }
        let run = self.run(start);
        follows_scheme(name, run).then(|| start..start + run.len())
    }

    /// `name=value`, `name: value`, `"name": "value"` and the like.
    fn behind_name(&self, name: &str) -> Option<Range<usize>> {
        let telling = judge(name)?;
        let mut at = self.at + name.len();
        let name_quote = self.quote(at);
        at += name_quote.map_or(0, |quote| quote.length);
        at += self.blanks(at);
        let separator = self.text.as_bytes().get(at).copied().filter(|byte| matches!(byte, b'=' | b':'))?;
        at += 1;
        at += self.blanks(at);
        let tells = match telling {
            Telling::BehindEquals => separator == b'=',
            Telling::InQueries => separator == b'=' && matches!(self.before(), Some(b'?' | b'&')),
            _ => true,
        };
        if !tells {
            return None;
        }
        let is_prose = separator == b':' && name_quote.is_none();
        let is_likely = |value: &str| !is_prose || telling != Telling::InAssignments || looks_random(value);
        if let Some(quote) = self.quote(at) {
            let start = at + quote.length;
            let content = self.rest(start).get(..quote.content_length(self.rest(start)))?;
            return is_likely(content).then(|| start..start + content.len());
        }
        if separator == b':' && self.rest(at).starts_with(['{', '[']) {
            return None;
        }
        let length = match telling {
            Telling::WholeLine => self.line_length(at),
            _ => self.value_length(at),
        };
        let value = self.rest(at).get(..length)?;
        let is_literal = matches!(value, "null" | "true" | "false");
        (!is_literal && is_likely(value)).then(|| at..at + length)
    }

    /// Length of an unquoted value; the credential behind the name of a scheme belongs to it.
    fn value_length(&self, at: usize) -> usize {
        let run = self.run(at);
        if !SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(run)) {
            return run.len();
        }
        let blanks = self.blanks(at + run.len());
        run.len() + blanks + self.run(at + run.len() + blanks).len()
    }

    fn line_length(&self, from: usize) -> usize {
        let rest = self.rest(from);
        rest.find(['\r', '\n', '"', '\'']).unwrap_or(rest.len())
    }

    /// The user part of a URL whose `://` begins here.
    fn user_of_url(&self) -> Option<Range<usize>> {
        let authority = self.rest(self.at).strip_prefix("://")?;
        let is_end =
            |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'<>".contains(&byte);
        let length = authority.bytes().position(is_end).unwrap_or(authority.len());
        let user = authority.get(..length)?.rfind('@')?;
        if authority.get(..user) == Some("git") {
            return None;
        }
        let start = self.at + "://".len();
        Some(start..start + user)
    }

    fn blanks(&self, from: usize) -> usize {
        const MOST: usize = 16;
        self.rest(from).bytes().take(MOST).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }

    /// Everything up to a blank or to what separates values.
    fn run(&self, from: usize) -> &'a str {
        let is_end = |byte: u8| {
            byte.is_ascii_whitespace() || byte.is_ascii_control() || b"&,;\"'<>)}#".contains(&byte)
        };
        let rest = self.rest(from);
        rest.get(..rest.bytes().position(is_end).unwrap_or(rest.len())).unwrap_or_default()
    }

    /// The quote at `from`, with the backslashes before it when it stands inside another text.
    fn quote(&self, from: usize) -> Option<Quote> {
        const DEEPEST: usize = 8;
        let rest = self.rest(from).as_bytes();
        let backslashes = rest.iter().take(DEEPEST).take_while(|byte| **byte == b'\\').count();
        let mark = rest.get(backslashes).copied().filter(|byte| matches!(byte, b'"' | b'\''))?;
        Some(Quote { mark, backslashes, length: backslashes + 1 })
    }
}

#[derive(Clone, Copy)]
struct Quote {
    mark: u8,
    backslashes: usize,
    length: usize,
}

impl Quote {
    /// How long the text is that this quote opens; all of `rest` when it is cut.
    ///
    /// A text ends at its mark with as many backslashes before it as the opening mark has; with more
    /// it is a mark inside the text.
    fn content_length(self, rest: &str) -> usize {
        let mut backslashes = 0;
        for (index, byte) in rest.bytes().enumerate() {
            match byte {
                b'\\' => backslashes += 1,
                _ if byte == self.mark && self.closes(backslashes) => return index - self.backslashes,
                _ => backslashes = 0,
            }
        }
        rest.len()
    }

    fn closes(self, backslashes: usize) -> bool {
        if self.backslashes == 0 { backslashes.is_multiple_of(2) } else { backslashes == self.backslashes }
    }
}
