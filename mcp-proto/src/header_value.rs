use std::borrow::Cow;

/// What a value in base64 is wrapped in.
const OPENING: &str = "=?base64?";
const CLOSING: &str = "?=";

/// Writes a text as the value of a header that mirrors a part of the body.
///
/// A text of visible ASCII with spaces inside stays as it is. Anything else, and a text that looks
/// encoded already, is written as `=?base64?…?=` over its UTF-8 bytes. The empty text stays empty.
///
/// # Source
///
/// MCP 2026-07-28, basic/transports/streamable-http: value encoding; SEP-2243.
#[must_use]
pub fn encode_header_value(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !looks_encoded(text);
    if is_plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{OPENING}{}{CLOSING}", base64(text.as_bytes())))
}

/// In any case of letters, since a server may compare without regard to it.
fn looks_encoded(text: &str) -> bool {
    let head = text.as_bytes().get(..OPENING.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(OPENING.as_bytes())) && text.ends_with(CLOSING)
}

/// Standard base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let value = group.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
        let value = value << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = usize::try_from(value >> (18 - 6 * place) & 63).unwrap_or_default();
            match ALPHABET.get(digit) {
                Some(letter) if place <= group.len() => text.push(char::from(*letter)),
                _ => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn m82_values_of_the_specification() {
        let table: &[(&str, &str)] = &[
            ("us-west1", "us-west1"),
            ("Hello, World", "Hello, World"),
            ("a  b", "a  b"),
            ("", ""),
            ("42", "42"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
            ("\tindented", "=?base64?CWluZGVudGVk?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?BASE64?x?=", "=?base64?PT9CQVNFNjQ/eD89?="),
            ("=?base64?open", "=?base64?open"),
        ];
        for (text, expected) in table {
            assert_eq!(encode_header_value(text), *expected, "{text:?}");
        }
    }

    /// The other direction, for the test alone.
    fn decode(value: &str) -> String {
        let Some(inner) = value.strip_prefix(OPENING).and_then(|rest| rest.strip_suffix(CLOSING)) else {
            return value.to_owned();
        };
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
        for letter in inner.trim_end_matches('=').chars() {
            bits = bits << 6 | u32::try_from(alphabet.find(letter).unwrap()).unwrap();
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push(u8::try_from(bits >> count & 255).unwrap());
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    proptest! {
        #[test]
        fn f179_any_text_becomes_legal_header_bytes_and_comes_back(text in any::<String>()) {
            let value = encode_header_value(&text);
            prop_assert!(value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)), "{}", value);
            prop_assert!(!value.starts_with(' ') && !value.ends_with(' '));
            prop_assert_eq!(decode(&value), text);
        }
    }
}
