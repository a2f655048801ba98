use std::collections::HashMap;

use crate::payload::MAX_DEPTH;

/// Rewrites a well-formed JSON text so that of each repeated member the last one alone remains.
///
/// `None` when nothing is repeated, so that there is nothing to be gained by reading it again.
pub(crate) fn keep_last(text: &str) -> Option<String> {
    let mut rewriter = Rewriter { text, at: 0, depth: 0, has_repeated: false };
    let mut out = String::with_capacity(text.len());
    rewriter.value(&mut out)?;
    rewriter.has_repeated.then_some(out)
}

/// Reads forward through one text. Each method gives `None` where the text is not as promised.
struct Rewriter<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    has_repeated: bool,
}

impl<'a> Rewriter<'a> {
    fn value(&mut self, out: &mut String) -> Option<()> {
        match self.peek()? {
            b'{' => self.nested(|this| this.object(out)),
            b'[' => self.nested(|this| this.array(out)),
            b'"' => self.string().map(|text| out.push_str(text)),
            _ => self.scalar().map(|text| out.push_str(text)),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        read(self)?;
        self.depth -= 1;
        Some(())
    }

    fn object(&mut self, out: &mut String) -> Option<()> {
        let mut members: Vec<Option<(&str, String)>> = Vec::new();
        let mut latest: HashMap<String, usize> = HashMap::new();
        self.take(b'{')?;
        while self.peek()? != b'}' {
            let name = self.string()?;
            self.take(b':')?;
            let mut value = String::new();
            self.value(&mut value)?;
            let repeated = latest.insert(serde_json::from_str(name).ok()?, members.len());
            if let Some(earlier) = repeated.and_then(|index| members.get_mut(index)) {
                *earlier = None;
                self.has_repeated = true;
            }
            members.push(Some((name, value)));
            if self.peek()? == b',' {
                self.take(b',')?;
            }
        }
        self.take(b'}')?;
        out.push('{');
        for (index, (name, value)) in members.into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(name);
            out.push(':');
            out.push_str(&value);
        }
        out.push('}');
        Some(())
    }

    fn array(&mut self, out: &mut String) -> Option<()> {
        self.take(b'[')?;
        out.push('[');
        while self.peek()? != b']' {
            self.value(out)?;
            if self.peek()? == b',' {
                self.take(b',')?;
                out.push(',');
            }
        }
        self.take(b']')?;
        out.push(']');
        Some(())
    }

    /// The text that begins here, with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.peek()?;
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        loop {
            match bytes.get(end)? {
                b'\\' => end += 2,
                b'"' => break,
                _ => end += 1,
            }
        }
        let text = self.text.get(self.at..=end);
        self.at = end + 1;
        text
    }

    fn scalar(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let is_end = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}');
        let length = rest.bytes().position(is_end).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).filter(|text| !text.is_empty())
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !byte.is_ascii_whitespace() {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        let is_there = self.peek()? == expected;
        self.at += 1;
        is_there.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_of_repeated_members_remains() {
        for (text, expected) in [
            (r#"{"a":1,"a":2}"#, Some(r#"{"a":2}"#)),
            (
                r#" { "a" : [ {"b":1e400, "b" : -0 } , 2 ] , "c":"x\"}" } "#,
                Some(r#"{"a":[{"b":-0},2],"c":"x\"}"}"#),
            ),
            (r#"{"a":1,"\u0061":2,"b":{},"a":[]}"#, Some(r#"{"b":{},"a":[]}"#)),
            (r#"{"a":{"a":{"a":1}},"b":["a","a"]}"#, None),
            ("[]", None),
            ("7", None),
            ("", None),
            (r#"{"a":1,"a""#, None),
        ] {
            assert_eq!(keep_last(text).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in r#"[{}\[\]",:\\ a1]{0,40}"#) {
            let rewritten = keep_last(&text);
            if let (Some(rewritten), Ok(value)) = (rewritten, serde_json::from_str::<serde_json::Value>(&text)) {
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&rewritten).unwrap(), value);
            }
        }
    }
}
