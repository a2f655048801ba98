//! Turns content blocks into text that a model can read. No block vanishes: what has no text form
//! leaves a notice in its place.

use mcp_proto::{Content, MediaContent, Resource, ResourceContents, escape};

/// Longest text that is kept whole, in bytes; of longer ones, beginning and end are kept.
pub const LONGEST_TEXT: usize = 256 * 1024;

/// Longest name, address or media type inside a notice, in bytes.
const LONGEST_LABEL: usize = 512;

/// Renders blocks, one below the other.
#[must_use]
pub fn blocks(blocks: &[Content]) -> String {
    let texts = blocks.iter().map(block).filter(|text| !text.is_empty());
    shortened(texts.collect::<Vec<_>>().join("\n"))
}

/// Renders one block.
#[must_use]
pub fn block(block: &Content) -> String {
    match block {
        Content::Text(text) => text.text.clone(),
        Content::Image(media) => media_notice("image", media),
        Content::Audio(media) => media_notice("audio", media),
        Content::Resource(embedded) => contents(&embedded.resource),
        Content::ResourceLink(link) => link_notice(link),
        other => {
            let kind = other.kind().unwrap_or_else(|| "without a type".to_owned());
            format!("[block of an unknown kind left out: {}]", label(&kind))
        }
    }
}

/// Renders one part of a resource.
#[must_use]
pub fn contents(contents: &ResourceContents) -> String {
    match (&contents.text, &contents.blob) {
        (Some(text), _) => text.clone(),
        (None, Some(blob)) => format!(
            "[binary resource left out: {}, {}, {}]",
            label(&contents.uri),
            media_type(contents.mime_type.as_deref()),
            decoded_size(blob)
        ),
        (None, None) => format!("[empty resource: {}]", label(&contents.uri)),
    }
}

/// Keeps the beginning and the end of a text that is too long, and says how much is missing.
pub(crate) fn shortened(text: String) -> String {
    if text.len() <= LONGEST_TEXT {
        return text;
    }
    let half = LONGEST_TEXT / 2;
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    let missing = text.len() - head.len() - tail.len();
    format!("{head}\n[… {missing} bytes left out …]\n{tail}")
}

fn media_notice(kind: &str, media: &MediaContent) -> String {
    format!("[{kind} left out: {}, {}]", media_type(Some(&media.mime_type)), decoded_size(&media.data))
}

fn link_notice(link: &Resource) -> String {
    let mut notice = format!("[resource: {}", label(&link.uri));
    for detail in [Some(link.name.as_str()), link.mime_type.as_deref()].into_iter().flatten() {
        if !detail.is_empty() {
            notice.push_str(", ");
            notice.push_str(&label(detail));
        }
    }
    notice.push_str("; it can be read by its address]");
    notice
}

fn label(text: &str) -> String {
    escape(text, LONGEST_LABEL).into_owned()
}

fn media_type(mime: Option<&str>) -> String {
    match mime {
        Some(mime) if !mime.is_empty() => label(mime),
        _ => "unknown type".to_owned(),
    }
}

/// How many bytes a base64 text stands for.
fn decoded_size(base64: &str) -> String {
    let digits = base64.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    format!("{} bytes", digits * 3 / 4)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rendered(blocks_json: Value) -> String {
        let parsed: Vec<Content> = serde_json::from_str(&blocks_json.to_string()).unwrap();
        blocks(&parsed)
    }

    #[test]
    fn texts_and_embedded_texts_are_joined() {
        let text = rendered(json!([
            {"type": "text", "text": "one"},
            {"type": "text", "text": ""},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
        ]));
        assert_eq!(text, "one\ntwo");
    }

    #[test]
    fn i40_no_block_vanishes_silently() {
        for (block, notice) in [
            (
                json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
                "[image left out: image/png, 3 bytes]",
            ),
            (
                json!({"type": "audio", "mimeType": "", "data": "AAA="}),
                "[audio left out: unknown type, 2 bytes]",
            ),
            (
                json!({"type": "resource", "resource": {"uri": "x:\u{1b}", "blob": "AA==", "mimeType": "a/b"}}),
                "[binary resource left out: x:\\u{1b}, a/b, 1 bytes]",
            ),
            (json!({"type": "resource", "resource": {"uri": "x:y"}}), "[empty resource: x:y]"),
            (
                json!({"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}),
                "[resource: file:///a, a, text/plain; it can be read by its address]",
            ),
            (json!({"type": "hologram", "x": 1}), "[block of an unknown kind left out: hologram]"),
            (json!({"x": 1}), "[block of an unknown kind left out: without a type]"),
            (json!({"type": "text"}), "[block of an unknown kind left out: text]"),
        ] {
            assert_eq!(rendered(json!([block])), notice);
        }
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let text = format!("start{}end", "ä".repeat(LONGEST_TEXT));
        let short = rendered(json!([{"type": "text", "text": text}]));
        assert!(short.len() < LONGEST_TEXT + 100);
        assert!(short.starts_with("start") && short.ends_with("end"));
        let missing = text.len() + "\n[… ".len() - short.len();
        assert!(short.contains("bytes left out"), "{missing}");
    }
}
