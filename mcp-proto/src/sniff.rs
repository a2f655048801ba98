use crate::id::RequestId;

/// How far into a frame its id is looked for.
const SNIFF_BYTES: usize = 64 * 1024;

/// Finds the top-level `id` in the first 64 KiB of a frame that may be cut, broken or too large.
///
/// Used where a frame cannot be parsed, to fail the call it answers at once. The answer is a guess
/// in so far as the rest of the frame is not looked at; it is never used to deliver a result.
#[must_use]
pub fn sniff_id(frame: &[u8]) -> Option<RequestId> {
    let mut rest = frame.get(..SNIFF_BYTES).unwrap_or(frame);
    let mut depth = 0_usize;
    let mut expects_key = false;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                expects_key = depth == 1 && byte == b'{';
            }
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' => expects_key = depth == 1,
            b'"' => {
                let (text, tail) = split_text(rest)?;
                rest = tail;
                if std::mem::take(&mut expects_key) && text == b"id" {
                    let after_colon = trim(trim(rest).strip_prefix(b":")?);
                    let value = after_colon.get(..scalar_length(after_colon)?)?;
                    return serde_json::from_slice(value).ok();
                }
            }
            _ => {}
        }
    }
    None
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

/// Length of the text or number that `rest` begins with; `None` if it is cut or something else.
fn scalar_length(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' => split_text(rest.get(1..)?).map(|(text, _)| text.len() + 2),
        b'-' | b'0'..=b'9' => {
            rest.iter().position(|byte| matches!(byte, b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t'))
        }
        _ => None,
    }
}

fn trim(rest: &[u8]) -> &[u8] {
    rest.trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_top_level_id_alone() {
        let table: &[(&str, Option<RequestId>)] = &[
            (r#"{"jsonrpc":"2.0","id":17,"result":{"id":3"#, Some(17.into())),
            (r#"{"result":{"id":3,"deep":[{"id":4}]}, "id" : "x\"y" }"#, Some("x\"y".into())),
            (r#"{"result":{"id":3}}"#, None),
            (r#"{"id":12"#, None),
            (r#"{"id":null}"#, None),
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
    fn looks_no_further_than_its_limit() {
        let frame = format!("{{\"a\":\"{}\",\"id\":1}}", "x".repeat(SNIFF_BYTES));
        assert_eq!(sniff_id(frame.as_bytes()), None);
    }
}
