use std::borrow::Cow;

use crate::id::RequestId;

/// How far into a frame its id is looked for.
const SNIFF_BYTES: usize = 64 * 1024;

/// Finds which request a frame answers that may be cut, broken or too large: its top-level `id`, in
/// the first 64 KiB.
///
/// Used where a frame cannot be parsed, to fail the call it answers at once. A frame with a top-level
/// `method` is no answer and has no such id: requests of the server count their own ids. Nor has one
/// with two different ids. The answer is a guess in so far as the rest of the frame is not looked at;
/// it is never used to deliver a result.
#[must_use]
pub fn sniff_id(frame: &[u8]) -> Option<RequestId> {
    let mut members = Members::of(frame.get(..SNIFF_BYTES).unwrap_or(frame));
    let mut found = None;
    while let Some((name, value)) = members.next_member() {
        match name.as_ref() {
            b"id" => {
                let id = scalar(value).and_then(|text| serde_json::from_slice(text).ok());
                if found.is_some() && found != id {
                    return None;
                }
                found = id;
            }
            b"method" if !value.starts_with(b"null") => return None,
            b"error" | b"result" if found.is_some() => return found,
            _ => {}
        }
    }
    found
}

/// Walks through the top-level members of an object, as far as it can be read.
struct Members<'a> {
    rest: &'a [u8],
    depth: usize,
    expects_name: bool,
}

impl<'a> Members<'a> {
    fn of(rest: &'a [u8]) -> Self {
        Self { rest, depth: 0, expects_name: false }
    }

    /// The next name, and all that follows its colon.
    fn next_member(&mut self) -> Option<(Cow<'a, [u8]>, &'a [u8])> {
        while let Some((&byte, tail)) = self.rest.split_first() {
            self.rest = tail;
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.expects_name = self.depth == 1 && byte == b'{';
                }
                b'}' | b']' => self.depth = self.depth.checked_sub(1)?,
                b',' => self.expects_name = self.depth == 1,
                b'"' => {
                    let (text, tail) = split_text(self.rest)?;
                    self.rest = tail;
                    if std::mem::take(&mut self.expects_name) {
                        let value = tail.trim_ascii_start().strip_prefix(b":")?;
                        return Some((unescape(text), value.trim_ascii_start()));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Splits behind the closing quote of a text whose opening quote is already taken.
fn split_text(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = 0;
    loop {
        match rest.get(end)? {
            b'\\' => end += 2,
            b'"' => return Some((rest.get(..end)?, rest.get(end + 1..)?)),
            _ => end += 1,
        }
    }
}

/// A name as it is meant; only odd ones are written with escapes.
fn unescape(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).map_or(Cow::Borrowed(name), |read| read.into_bytes().into())
}

/// The text or number that `rest` begins with; `None` if it is cut or something else.
fn scalar(rest: &[u8]) -> Option<&[u8]> {
    let length = match rest.first()? {
        b'"' => split_text(rest.get(1..)?)?.0.len() + 2,
        b'-' | b'0'..=b'9' => {
            rest.iter().position(|byte| matches!(byte, b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t'))?
        }
        _ => return None,
    };
    rest.get(..length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_top_level_id_alone() {
        let table: &[(&str, Option<RequestId>)] = &[
            (r#"{"jsonrpc":"2.0","id":17,"result":{"id":3"#, Some(17.into())),
            (r#"{"result":{"id":3,"deep":[{"id":4}]}, "id" : "x\"y" }"#, Some("x\"y".into())),
            (r#"{"result":{"id":3,"method":"x"},"id":5}"#, Some(5.into())),
            (r#"{"result":{"id":3}}"#, None),
            (r#"{"\u0069d":17,"result":"#, Some(17.into())),
            (r#"{"\"id":17,"result":"#, None),
            (r#"{"id":12"#, None),
            (r#"{"id":null}"#, None),
            (r#"{"id":1,"id":2,"result":1}"#, None),
            (r#"{"id":1,"\u0069d":"1","result":1}"#, None),
            (r#"{"id":1,"id":1,"result":1}"#, Some(1.into())),
            (r#"{"id":1,"method":null,"result":1}"#, Some(1.into())),
            (r#"{"id":1e999,"result":1}"#, None),
            (r#"[{"id":1}]"#, None),
            (r#"{"a":"id","id":2,"#, Some(2.into())),
            ("noise", None),
            ("}", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(sniff_id(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn f101_a_broken_request_of_the_server_names_no_call_of_ours() {
        for text in [
            r#"{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{"#,
            r#"{"method":"ping","id":5,"#,
            r#"{"id":5,"m\u0065thod":"ping"#,
        ] {
            assert_eq!(sniff_id(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn looks_no_further_than_its_limit() {
        let frame = format!("{{\"a\":\"{}\",\"id\":1}}", "x".repeat(SNIFF_BYTES));
        assert_eq!(sniff_id(frame.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = sniff_id(&bytes);
        }

        #[test]
        fn a_cut_answer_names_its_call_or_none(cut in 0..60_usize) {
            let frame = br#"{"jsonrpc":"2.0","id":4711,"result":{"id":1,"content":[]}}"#;
            let found = sniff_id(frame.get(..cut).unwrap_or(frame));
            prop_assert!(found.is_none() || found == Some(4711.into()), "{:?}", found);
        }
    }
}
