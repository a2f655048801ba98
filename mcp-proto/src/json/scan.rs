use std::borrow::Cow;

use crate::json::plain::{has_controls, is_plain_ascii};
use crate::json::value;

/// Why a text is no JSON, and where: so many bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanFault {
    Malformed(usize),
    TooDeep,
}

/// Bytes that are known to be UTF-8.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    bytes: &'a [u8],
    /// Whether there may be any character that must not be inside of a text. Most frames have none, and
    /// are then not looked through for them text by text.
    has_controls: bool,
}

impl<'a> Text<'a> {
    /// Looks at all bytes; the error is how many of them are UTF-8.
    pub(crate) fn check(bytes: &'a [u8]) -> Result<Self, usize> {
        if is_plain_ascii(bytes) {
            return Ok(Self { bytes, has_controls: false });
        }
        std::str::from_utf8(bytes).map_err(|error| error.valid_up_to())?;
        Ok(Self { bytes, has_controls: has_controls(bytes) })
    }

    /// A value that was found in it.
    pub(crate) fn part(self, bytes: &'a [u8]) -> Self {
        Self { bytes, ..self }
    }
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
    text: Text<'a>,
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: Text<'a>) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The value that comes next, without the blanks around it.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], ScanFault> {
        self.peek();
        let start = self.at;
        let end_of_value =
            if self.text.has_controls { value::end_of_value::<true> } else { value::end_of_value::<false> };
        self.at = end_of_value(self.text.bytes, start, self.depth)?;
        Ok(self.since(start))
    }

    /// Enters an object; `false` when it is empty, and left at once.
    pub(crate) fn open_object(&mut self) -> Result<bool, ScanFault> {
        self.take(b'{')?;
        self.depth += 1;
        Ok(!self.is_closed_by(b'}'))
    }

    /// Enters an array; `false` when it is empty, and left at once.
    pub(crate) fn open_array(&mut self) -> Result<bool, ScanFault> {
        self.take(b'[')?;
        self.depth += 1;
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
    pub(crate) fn name(&mut self) -> Result<Cow<'a, [u8]>, ScanFault> {
        let name = self.quoted()?;
        self.take(b':')?;
        name.ok_or(self.malformed())
    }

    /// What the text that comes next means; `None` if it has a lone surrogate.
    pub(crate) fn quoted(&mut self) -> Result<Option<Cow<'a, [u8]>>, ScanFault> {
        self.peek();
        let start = self.at;
        if let Some(plain) = value::plain_text(self.text.bytes, start, self.text.has_controls) {
            self.at += plain.len() + 2;
            return Ok(Some(Cow::Borrowed(plain)));
        }
        let end_of_text =
            if self.text.has_controls { value::end_of_text::<true> } else { value::end_of_text::<false> };
        self.at = end_of_text(self.text.bytes, start)?;
        let meaning = serde_json::from_slice::<String>(self.since(start));
        Ok(meaning.ok().map(|text| Cow::Owned(text.into_bytes())))
    }

    /// Goes behind `expected` if exactly that comes next.
    #[inline]
    pub(crate) fn passes(&mut self, expected: &[u8]) -> bool {
        let comes_next = self.rest().starts_with(expected);
        if comes_next {
            self.at += expected.len();
        }
        comes_next
    }

    /// Goes as far behind what comes next as `find` says, and answers what it has found.
    #[inline]
    pub(crate) fn pass<T>(&mut self, find: impl FnOnce(&[u8]) -> Option<(T, usize)>) -> Option<T> {
        let (found, length) = find(self.rest())?;
        self.at += length;
        Some(found)
    }

    /// Whether nothing but blanks is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// The next byte that is no blank, without taking it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.at = value::skip_blanks(self.text.bytes, self.at);
        self.text.bytes.get(self.at).copied()
    }

    pub(crate) fn malformed(&self) -> ScanFault {
        ScanFault::Malformed(self.at)
    }

    fn is_closed_by(&mut self, bracket: u8) -> bool {
        let is_closed = self.peek() == Some(bracket);
        if is_closed {
            self.at += 1;
            self.depth -= 1;
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

    fn since(&self, start: usize) -> &'a [u8] {
        self.text.bytes.get(start..self.at).unwrap_or_default()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.bytes.get(self.at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// The one value that `text` is, if it is one.
    fn whole(text: &str) -> Result<&str, ScanFault> {
        let mut scanner = Scanner::new(Text::check(text.as_bytes()).unwrap());
        let value = scanner.value()?;
        if scanner.is_at_end() { Ok(std::str::from_utf8(value).unwrap()) } else { Err(scanner.malformed()) }
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
