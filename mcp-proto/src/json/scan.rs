use std::borrow::Cow;

use memchr::memchr;

use crate::json::plain::{has_controls, length_without_controls, plain_length};
use crate::payload::MAX_DEPTH;

/// Why a text is no JSON, and where: so many bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanFault {
    Malformed(usize),
    TooDeep,
}

/// Reads forward through one JSON text, and checks each byte it passes.
///
/// Values are found, not read: numbers may be beyond every type and texts may hold lone surrogates, as
/// long as they follow the grammar. Nothing is allocated, and nothing nests deeper than the limit.
///
/// # Source
///
/// RFC 8259.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// One bit for each open level, the innermost last: whether it is an object.
    objects: u128,
    /// Whether there is any character that must not be inside of a text. Most frames have none, and are
    /// then not looked through for them text by text.
    has_controls: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0, objects: 0, has_controls: has_controls(text) }
    }

    /// The value that comes next, without the blanks around it.
    pub(crate) fn value(&mut self) -> Result<&'a str, ScanFault> {
        self.skip_blanks();
        let (start, outside) = (self.at, self.depth);
        loop {
            self.skip_blanks();
            let is_open = match self.peek() {
                Some(b'{') => self.open_object()? && self.skip_name().map(|()| true)?,
                Some(b'[') => self.open_array()?,
                Some(b'"') => self.string().map(|_| false)?,
                Some(b'-' | b'0'..=b'9') => self.number().map(|()| false)?,
                Some(b't') => self.word("true").map(|()| false)?,
                Some(b'f') => self.word("false").map(|()| false)?,
                Some(b'n') => self.word("null").map(|()| false)?,
                _ => return Err(self.malformed()),
            };
            if !is_open && !self.go_on(outside)? {
                return self.text.get(start..self.at).ok_or_else(|| self.malformed());
            }
        }
    }

    /// Goes to the next value inside what was opened beyond the level `outside`; `false` when all of it
    /// has been closed.
    fn go_on(&mut self, outside: usize) -> Result<bool, ScanFault> {
        while self.depth > outside {
            if self.is_in_object() {
                if self.next_member()? {
                    self.skip_name()?;
                    return Ok(true);
                }
            } else if self.next_entry()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Enters an object; `false` when it is empty, and left at once.
    pub(crate) fn open_object(&mut self) -> Result<bool, ScanFault> {
        self.open(b'{', 1)?;
        Ok(!self.is_closed_by(b'}'))
    }

    /// Enters an array; `false` when it is empty, and left at once.
    pub(crate) fn open_array(&mut self) -> Result<bool, ScanFault> {
        self.open(b'[', 0)?;
        Ok(!self.is_closed_by(b']'))
    }

    /// Goes behind the comma after a member; `false` when the object is left instead.
    pub(crate) fn next_member(&mut self) -> Result<bool, ScanFault> {
        self.next(b'}')
    }

    /// Goes behind the comma after an entry; `false` when the array is left instead.
    pub(crate) fn next_entry(&mut self) -> Result<bool, ScanFault> {
        self.next(b']')
    }

    /// The name of a member; the value comes next.
    pub(crate) fn name(&mut self) -> Result<Quoted<'a>, ScanFault> {
        self.skip_blanks();
        let start = self.at;
        let is_plain = self.string()?;
        let name = Quoted { text: self.since(start)?, is_plain };
        self.skip_blanks();
        self.take(b':')?;
        Ok(name)
    }

    /// Whether nothing but blanks is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.text.len()
    }

    /// The byte that comes next.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    pub(crate) fn malformed(&self) -> ScanFault {
        ScanFault::Malformed(self.at)
    }

    fn open(&mut self, bracket: u8, object: u128) -> Result<(), ScanFault> {
        self.take(bracket)?;
        self.depth += 1;
        self.objects = self.objects << 1 | object;
        if self.depth > MAX_DEPTH { Err(ScanFault::TooDeep) } else { Ok(()) }
    }

    fn is_in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn is_closed_by(&mut self, bracket: u8) -> bool {
        self.skip_blanks();
        let is_closed = self.peek() == Some(bracket);
        if is_closed {
            self.at += 1;
            self.depth -= 1;
            self.objects >>= 1;
        }
        is_closed
    }

    fn next(&mut self, bracket: u8) -> Result<bool, ScanFault> {
        if self.is_closed_by(bracket) {
            return Ok(false);
        }
        self.take(b',').map(|()| true)
    }

    fn take(&mut self, expected: u8) -> Result<(), ScanFault> {
        if self.peek() != Some(expected) {
            return Err(self.malformed());
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), ScanFault> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.malformed());
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), ScanFault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), ScanFault> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.malformed()) } else { Ok(()) }
    }

    fn skip_name(&mut self) -> Result<(), ScanFault> {
        self.skip_blanks();
        self.string()?;
        self.skip_blanks();
        self.take(b':')
    }

    /// A text with its quotes; answers whether it has no escapes.
    fn string(&mut self) -> Result<bool, ScanFault> {
        self.take(b'"')?;
        let mut is_plain = true;
        loop {
            let rest = self.rest();
            self.at += if self.has_controls { plain_length(rest) } else { length_without_controls(rest) };
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(is_plain);
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.malformed()),
            }
            is_plain = false;
        }
    }

    fn escape(&mut self) -> Result<(), ScanFault> {
        let length = match self.rest() {
            [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [_, b'u', digits @ ..]
                if digits.get(..4).is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)) =>
            {
                6
            }
            _ => return Err(self.malformed()),
        };
        self.at += length;
        Ok(())
    }

    fn since(&self, start: usize) -> Result<&'a str, ScanFault> {
        self.text.get(start..self.at).ok_or_else(|| self.malformed())
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

/// A text as it stands, with its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'a> {
    text: &'a str,
    is_plain: bool,
}

impl<'a> Quoted<'a> {
    /// What is in quotes; `None` if `value` is no text.
    pub(crate) fn of(value: &'a str) -> Option<Self> {
        let is_plain = memchr(b'\\', value.as_bytes()).is_none();
        value.starts_with('"').then_some(Self { text: value, is_plain })
    }

    /// What it means; `None` if it has a lone surrogate.
    pub(crate) fn meaning(self) -> Option<Cow<'a, str>> {
        if self.is_plain {
            return self.text.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed);
        }
        serde_json::from_str(self.text).ok().map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// The one value that `text` is, if it is one.
    fn whole(text: &str) -> Result<&str, ScanFault> {
        let mut scanner = Scanner::new(text);
        let value = scanner.value()?;
        if scanner.is_at_end() { Ok(value) } else { Err(scanner.malformed()) }
    }

    #[track_caller]
    fn assert_as_serde(text: &str) {
        let expected = serde_json::from_str::<&RawValue>(text).map(RawValue::get).ok();
        assert_eq!(whole(text).ok(), expected, "{text:?}");
    }

    #[test]
    fn the_grammar_is_that_of_json() {
        for text in [
            "",
            " ",
            "null",
            "nul",
            "nulls",
            "true",
            "false",
            "0",
            "-0",
            "-",
            "00",
            "01",
            "1.",
            ".1",
            "1.0",
            "1e",
            "1e+",
            "1e-9",
            "1E400",
            "+1",
            "1 ",
            "\t1\r\n",
            "1 2",
            "\"\"",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\n\\u12aF\"",
            "\"\\u12g4\"",
            "\"\\u12\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"a\tb\"",
            "\"\u{7f}é\"",
            "[]",
            "[ ]",
            "[,]",
            "[1,]",
            "[1 2]",
            "[1,2]",
            "[[],{}]",
            "[}",
            "{]",
            "{}",
            "{ }",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{ \"a\" : [ 1 , {} ] , \"a\" : null }",
            "{1:2}",
            "{\"a\":1}}",
            "[[1]",
            "nan",
            "'a'",
            "\u{feff}1",
            "// 1",
        ] {
            assert_as_serde(text);
        }
    }

    #[test]
    fn texts_of_any_length_end_where_they_end() {
        for length in (0..40).chain(110..220) {
            for special in ["", "\\\"", "\\\\", "\\u0041", "é", "\u{1f}", "\n", "\\"] {
                for behind in [0, 1, 40] {
                    let text = format!("[\"{}{special}{}\",0]", "x".repeat(length), "y".repeat(behind));
                    assert_as_serde(&text);
                }
            }
        }
    }

    #[test]
    fn f103_nesting_is_limited() {
        let nested = |levels: usize| format!("{}0{}", "[{\"a\":".repeat(levels), "}]".repeat(levels));
        assert!(whole(&nested(63)).is_ok());
        assert_eq!(whole(&nested(64)), Err(ScanFault::TooDeep));
        let arrays = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(whole(&arrays(127)).is_ok());
        assert_eq!(whole(&arrays(128)), Err(ScanFault::TooDeep));
        assert_eq!(whole(&"[".repeat(1_000_000)), Err(ScanFault::TooDeep));
    }

    proptest! {
        #[test]
        fn any_text_is_judged_as_serde_judges_it(text in r#"[{}\[\]",:\\ \n0-9eE+.a-fntrulsé-]{0,30}"#) {
            assert_as_serde(&text);
        }

        #[test]
        fn what_is_nearly_json_is_judged_as_serde_judges_it(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ":", ",", "\"a\"", "\"\\n\"", "\"", "\\u00e9", "1", "-0.5e3", "null", "true", " ", "{\"a\":", "[1,",
            ]), 0..16),
        ) {
            assert_as_serde(&pieces.concat());
        }
    }
}
