use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use crate::payload::MAX_DEPTH;

/// Rewrites a well-formed JSON text so that of each repeated member the last one alone remains; the
/// others become blanks.
///
/// `None` when nothing is repeated, so that there is nothing to be gained by reading it again. Takes
/// at most six times the length of the text: the copy, and 12 bytes for each member of the objects
/// that are open at one time.
pub(crate) fn keep_last(text: &str) -> Option<String> {
    let mut search =
        Search { text, at: 0, depth: 0, members: Vec::new(), hasher: RandomState::new(), rewritten: None };
    search.value()?;
    String::from_utf8(search.rewritten?).ok()
}

/// One member of an object, without its name: that is read again where two may be the same.
struct Member {
    hash: u32,
    /// Where its name begins.
    start: u32,
    /// Where the next member begins.
    end: u32,
}

/// Reads forward through one text. Each method gives `None` where the text is not as promised.
struct Search<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// The members of all objects that are open, the outermost first.
    members: Vec<Member>,
    hasher: RandomState,
    /// The text with blanks, as soon as there is something to blank.
    rewritten: Option<Vec<u8>>,
}

impl<'a> Search<'a> {
    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => self.string().map(drop),
            _ => self.scalar(),
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

    fn object(&mut self) -> Option<()> {
        let first = self.members.len();
        self.take(b'{')?;
        while self.peek()? != b'}' {
            let start = u32::try_from(self.at).ok()?;
            let name = meaning(self.string()?)?;
            #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
            let hash = self.hasher.hash_one(name) as u32;
            if let Some(before) = self.members.get_mut(first..).and_then(<[_]>::last_mut) {
                before.end = start;
            }
            self.members.push(Member { hash, start, end: start });
            self.take(b':')?;
            self.value()?;
            if self.peek()? == b',' {
                self.take(b',')?;
            }
        }
        self.take(b'}')?;
        self.blank_repeated(first)?;
        self.members.truncate(first);
        Some(())
    }

    fn array(&mut self) -> Option<()> {
        self.take(b'[')?;
        while self.peek()? != b']' {
            self.value()?;
            if self.peek()? == b',' {
                self.take(b',')?;
            }
        }
        self.take(b']')
    }

    /// Blanks each member from `first` on that is repeated further on.
    fn blank_repeated(&mut self, first: usize) -> Option<()> {
        let members = self.members.get_mut(first..)?;
        members.sort_unstable_by_key(|member| (member.hash, member.start));
        for (index, member) in members.iter().enumerate() {
            let later = members.get(index + 1..)?.iter().take_while(|later| later.hash == member.hash);
            let name = name_at(self.text, member.start);
            if later.map(|later| name_at(self.text, later.start)).any(|later| later == name) {
                let rewritten = self.rewritten.get_or_insert_with(|| self.text.as_bytes().to_vec());
                let (start, end) = (usize::try_from(member.start).ok()?, usize::try_from(member.end).ok()?);
                rewritten.get_mut(start..end)?.fill(b' ');
            }
        }
        Some(())
    }

    /// The text that begins here, with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.peek()?;
        let text = quoted(self.text.get(self.at..)?)?;
        self.at += text.len();
        Some(text)
    }

    fn scalar(&mut self) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}');
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then_some(())
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

/// The text in quotes that `rest` begins with.
fn quoted(rest: &str) -> Option<&str> {
    let bytes = rest.as_bytes();
    let mut end = 1;
    loop {
        match bytes.get(end)? {
            b'\\' => end += 2,
            b'"' => return rest.get(..=end),
            _ => end += 1,
        }
    }
}

/// What a text in quotes means.
fn meaning(quoted: &str) -> Option<Cow<'_, str>> {
    if quoted.contains('\\') {
        return serde_json::from_str(quoted).ok().map(Cow::Owned);
    }
    quoted.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
}

fn name_at(text: &str, start: u32) -> Option<Cow<'_, str>> {
    text.get(usize::try_from(start).ok()?..).and_then(quoted).and_then(meaning)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_of_repeated_members_remains() {
        for (text, expected) in [
            (r#"{"a":1,"a":2}"#, Some(r#"{      "a":2}"#)),
            (
                r#" { "a" : [ {"b":1e400, "b" : -0 } , 2 ] , "c":"x\"}" } "#,
                Some(r#" { "a" : [ {           "b" : -0 } , 2 ] , "c":"x\"}" } "#),
            ),
            (r#"{"a":1,"\u0061":2,"b":{},"a":[]}"#, Some(r#"{                 "b":{},"a":[]}"#)),
            (r#"{"é":"ü","é":{"x":1,"x":2}}"#, Some(r#"{          "é":{      "x":2}}"#)),
            (r#"{"a":{"b":1,"b":2},"b":3,"a":4}"#, Some(r#"{                  "b":3,"a":4}"#)),
            (r#"{"a":{"a":{"a":1}},"b":["a","a"]}"#, None),
            ("[]", None),
            ("7", None),
            ("", None),
            (r#"{"a":1,"a""#, None),
        ] {
            assert_eq!(keep_last(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn many_members_are_told_apart() {
        let members =
            |range: std::ops::Range<u32>| range.map(|n| format!(r#""{n}":{n}"#)).collect::<Vec<_>>();
        assert_eq!(keep_last(&format!("{{{}}}", members(0..100_000).join(","))), None);
        let twice = format!("{{{},{}}}", members(0..50_000).join(","), members(0..50_000).join(","));
        let once: std::collections::BTreeMap<String, u32> =
            serde_json::from_str(&keep_last(&twice).unwrap()).unwrap();
        assert_eq!(once.len(), 50_000);
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
