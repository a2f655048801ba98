//! Any text as the value of a header; and its first line as the schema of a tool, the rest as arguments.

use std::collections::BTreeSet;

use mcp_proto::{ParamHeaders, RawJson, encode_header_value};

const OPENING: &str = "=?base64?";
const CLOSING: &str = "?=";

/// Fails if mirroring what `data` holds breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert_eq!(read_value(&encode_header_value(text)), text.as_bytes());
    let (schema, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    if let (Ok(schema), Ok(arguments)) = (RawJson::from_text(schema), RawJson::from_text(arguments)) {
        mirror(&schema, &arguments);
    }
}

fn mirror(schema: &RawJson, arguments: &RawJson) {
    let headers = match ParamHeaders::of_schema(schema) {
        Ok(headers) => headers,
        Err(error) => return assert_shown(&error.to_string()),
    };
    assert!(headers.size_bytes() <= 16 * 1024);
    assert_eq!(headers.mirror(None), Ok(Vec::new()));
    let mirrored = match headers.mirror(Some(arguments)) {
        Ok(mirrored) => mirrored,
        Err(error) => return assert_shown(&error.to_string()),
    };
    assert!(mirrored.len() <= 64);
    let mut names = BTreeSet::new();
    for (name, value) in mirrored {
        let own = name.strip_prefix("Mcp-Param-").expect("the prefix of the protocol");
        let is_token = |byte: u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
        assert!(!own.is_empty() && own.bytes().all(is_token), "{name:?}");
        assert!(names.insert(name.to_ascii_lowercase()), "{name:?} twice");
        assert!(std::str::from_utf8(&read_value(&value)).is_ok(), "{value:?}");
    }
}

fn assert_shown(error: &str) {
    assert!(error.len() < 4096 && !error.chars().any(char::is_control), "{error:?}");
}

/// What a reader who knows the encoding gets of `value`, which must be legal in a header.
fn read_value(value: &str) -> Vec<u8> {
    assert!(value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)), "{value:?}");
    assert!(!value.starts_with(' ') && !value.ends_with(' '), "{value:?}");
    let inner = value.strip_prefix(OPENING).and_then(|rest| rest.strip_suffix(CLOSING));
    inner.map_or_else(|| value.as_bytes().to_vec(), decode_base64)
}

/// Standard base64 with padding, strictly.
fn decode_base64(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 4, 0, "{text:?}");
    let letters = text.trim_end_matches('=');
    assert!(text.len() - letters.len() <= 2, "{text:?}");
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for letter in letters.bytes() {
        let digit = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => panic!("{text:?}"),
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.extend(u8::try_from(bits >> count & 255));
        }
    }
    bytes
}
