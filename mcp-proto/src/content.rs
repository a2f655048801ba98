use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::json::raw_text::RawText;
use crate::json::reader::beginning::beginning;
use crate::member::Member;
use crate::message::{NameReader, Object, Skipped, message};
use crate::open_enum::open_enum;
use crate::payload::{DecodeError, decode, look};
use crate::raw_json::{RawJson, kind_of};
use crate::resources::{Resource, ResourceContents};
use crate::version::ProtocolVersion;
use crate::versioned::{NotInVersion, Versioned};

open_enum! {
    /// Who speaks, or whom something is for.
    Role {
        /// The model.
        Assistant = "assistant",
        /// The person.
        User = "user",
    }
}

/// One block of what a tool returns or a prompt says.
///
/// A block of a kind that this crate does not know, or that lacks what its kind needs, is kept as it
/// is and never costs the blocks beside it.
///
/// # Source
///
/// MCP 2026-07-28, server/tools and client/sampling: `ContentBlock`, `SamplingMessageContentBlock`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// A sound (since 2025-03-26).
    Audio(MediaContent),
    /// A picture.
    Image(MediaContent),
    /// Anything else, as received.
    Other(RawJson),
    /// A resource with its contents.
    Resource(EmbeddedResource),
    /// The address of a resource that can be read (since 2025-06-18).
    ResourceLink(Box<Resource>),
    /// A text.
    Text(TextContent),
    /// What a tool has answered; only in a conversation with a model (since 2025-11-25).
    ToolResult(ToolResultContent),
    /// A model wants to use a tool; only in a conversation with a model (since 2025-11-25).
    ToolUse(ToolUseContent),
}

message! {
    /// A text block; in all versions.
    #[derive(Debug, Clone, Default, PartialEq)]
    TextContent skipping "type" {
        /// The text.
        text: String = "text", Required;
        /// Hints for showing it.
        annotations: Option<Annotations> = "annotations", Hint;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

message! {
    /// A picture (in all versions) or a sound (since 2025-03-26).
    #[derive(Debug, Clone, Default, PartialEq)]
    MediaContent skipping "type" {
        /// The bytes in base64, unchecked.
        data: String = "data", Required;
        /// The media type.
        mime_type: String = "mimeType", Required;
        /// Hints for showing it.
        annotations: Option<Annotations> = "annotations", Hint;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

message! {
    /// A resource that comes with its contents; in all versions.
    #[derive(Debug, Clone, PartialEq)]
    EmbeddedResource skipping "type" {
        /// The contents.
        resource: ResourceContents = "resource", Required;
        /// Hints for showing it.
        annotations: Option<Annotations> = "annotations", Hint;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

message! {
    /// What a tool has answered in a conversation with a model (since 2025-11-25).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/sampling: `ToolResultContent`.
    #[derive(Debug, Clone, Default, PartialEq)]
    ToolResultContent skipping "type" {
        /// Which use of a tool it answers, by the id of its [`ToolUseContent`].
        tool_use_id: String = "toolUseId", Required;
        /// What the tool says, in blocks. Those of a conversation are none here: a tool's answer or use
        /// inside of it is kept as [`Content::Other`].
        content: Vec<Content> = "content", BlocksInside;
        /// The same as a JSON value, as received; `Some` of `null` is a value.
        structured_content: Option<RawJson> = "structuredContent", Present;
        /// Whether the tool ran and failed; `content` then tells why.
        is_error: bool = "isError", Sparse;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// A model wants to use a tool (since 2025-11-25).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/sampling: `ToolUseContent`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    ToolUseContent skipping "type" {
        /// Names this use in the [`ToolResultContent`] that answers it.
        id: String = "id", Required;
        /// The tool's name.
        name: String = "name", Required;
        /// Its arguments, an object, as received.
        input: RawJson = "input", Required;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// Hints for showing something; none of them is to be relied on.
    #[derive(Debug, Clone, Default, PartialEq)]
    Annotations {
        /// Whom it is for.
        audience: Option<Vec<Role>> = "audience", Hint;
        /// How much it matters, from 0 to 1 by the specification, unchecked.
        priority: Option<f64> = "priority", Hint;
        /// When it last changed, in ISO 8601 by the specification, unchecked.
        last_modified: Option<String> = "lastModified", Hint, since V2025_06_18;
    }
}

impl Content {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), ..TextContent::default() })
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// Whether `version` has this kind of block; unknown kinds are not judged.
    fn is_in(&self, version: ProtocolVersion) -> bool {
        match self {
            Self::Image(_) | Self::Other(_) | Self::Resource(_) | Self::Text(_) => true,
            Self::Audio(_) => version >= ProtocolVersion::V2025_03_26,
            Self::ResourceLink(_) => version >= ProtocolVersion::V2025_06_18,
            Self::ToolResult(_) | Self::ToolUse(_) => version >= ProtocolVersion::V2025_11_25,
        }
    }

    /// The `type` member, where there is one.
    #[must_use]
    pub fn kind(&self) -> Option<String> {
        match self {
            Self::Audio(_) => Some("audio".to_owned()),
            Self::Image(_) => Some("image".to_owned()),
            Self::Other(raw) => raw.kind().map(Cow::into_owned),
            Self::Resource(_) => Some("resource".to_owned()),
            Self::ResourceLink(_) => Some("resource_link".to_owned()),
            Self::Text(_) => Some("text".to_owned()),
            Self::ToolResult(_) => Some("tool_result".to_owned()),
            Self::ToolUse(_) => Some("tool_use".to_owned()),
        }
    }
}

impl Member for Content {}

impl Versioned for Content {
    fn fits(&self, version: ProtocolVersion) -> bool {
        self.is_in(version)
            && match self {
                Self::Audio(block) | Self::Image(block) => block.fits(version),
                Self::Other(_) => true,
                Self::Resource(block) => block.fits(version),
                Self::ResourceLink(block) => block.fits(version),
                Self::Text(block) => block.fits(version),
                Self::ToolResult(block) => block.fits(version),
                Self::ToolUse(block) => block.fits(version),
            }
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        if !self.is_in(version) {
            return Err(NotInVersion { what: "this kind of content", version });
        }
        match self {
            Self::Audio(block) | Self::Image(block) => block.fit(version),
            Self::Other(_) => Ok(()),
            Self::Resource(block) => block.fit(version),
            Self::ResourceLink(block) => block.fit(version),
            Self::Text(block) => block.fit(version),
            Self::ToolResult(block) => block.fit(version),
            Self::ToolUse(block) => block.fit(version),
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Tagged<'a> {
            Audio(&'a MediaContent),
            Image(&'a MediaContent),
            Resource(&'a EmbeddedResource),
            ResourceLink(&'a Resource),
            Text(&'a TextContent),
            ToolResult(&'a ToolResultContent),
            ToolUse(&'a ToolUseContent),
        }
        match self {
            Self::Audio(block) => Tagged::Audio(block).serialize(serializer),
            Self::Image(block) => Tagged::Image(block).serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
            Self::Resource(block) => Tagged::Resource(block).serialize(serializer),
            Self::ResourceLink(block) => Tagged::ResourceLink(block).serialize(serializer),
            Self::Text(block) => Tagged::Text(block).serialize(serializer),
            Self::ToolResult(block) => Tagged::ToolResult(block).serialize(serializer),
            Self::ToolUse(block) => Tagged::ToolUse(block).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_block(deserializer, Place::Message)
    }
}

/// A block inside of a tool's answer.
///
/// If an answer could be inside of one, each level would be read as often as there are levels around
/// it: the time for a frame would be its length times its depth.
pub(crate) struct BlockInside(pub(crate) Content);

impl Member for BlockInside {}

impl<'de> Deserialize<'de> for BlockInside {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_block(deserializer, Place::ToolResult).map(Self)
    }
}

/// What a block is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Message,
    ToolResult,
}

/// A kind of block that this crate knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Audio,
    Image,
    Resource,
    ResourceLink,
    Text,
    ToolResult,
    ToolUse,
}

impl Kind {
    /// The kind with that name, if it can be at that place.
    fn of(name: &str, place: Place) -> Option<Self> {
        Some(match name {
            "audio" => Self::Audio,
            "image" => Self::Image,
            "resource" => Self::Resource,
            "resource_link" => Self::ResourceLink,
            "text" => Self::Text,
            "tool_result" if place == Place::Message => Self::ToolResult,
            "tool_use" if place == Place::Message => Self::ToolUse,
            _ => return None,
        })
    }

    fn read<'de, S: Source<'de>>(self, source: S) -> Result<Content, S::Error> {
        match self {
            Self::Audio => source.object().map(Content::Audio),
            Self::Image => source.object().map(Content::Image),
            Self::Resource => source.object().map(Content::Resource),
            Self::ResourceLink => source.object().map(Box::new).map(Content::ResourceLink),
            Self::Text => source.object().map(Content::Text),
            Self::ToolResult => source.object().map(Content::ToolResult),
            Self::ToolUse => source.object().map(Content::ToolUse),
        }
    }
}

/// What a block is read from, once its kind is known.
trait Source<'de> {
    type Error;

    fn object<T: Object + DeserializeOwned>(self) -> Result<T, Self::Error>;
}

/// The text of the whole block.
impl Source<'_> for &str {
    type Error = DecodeError;

    fn object<T: Object + DeserializeOwned>(self) -> Result<T, DecodeError> {
        decode(self)
    }
}

/// The members behind the kind.
struct Behind<A>(A);

impl<'de, A: MapAccess<'de>> Source<'de> for Behind<A> {
    type Error = A::Error;

    fn object<T: Object + DeserializeOwned>(self) -> Result<T, A::Error> {
        T::read(self.0, Skipped::Already)
    }
}

/// Reads a block: at the [first look](look) as it comes, else from its text.
#[inline]
fn read_block<'de, D: Deserializer<'de>>(deserializer: D, place: Place) -> Result<Content, D::Error> {
    if look::is_first() {
        return deserializer.deserialize_newtype_struct(TEXT_BLOCK, AsItComes(place));
    }
    // Not serde's tagged enum: that one buffers the block as a tree, which loses raw values.
    let RawText(text) = RawText::deserialize(deserializer)?;
    if !text.starts_with('{') {
        return Err(D::Error::custom("a content block must be an object"));
    }
    let kind = kind_of(text).and_then(|name| Kind::of(&name, place));
    match kind.map(|kind| kind.read(text)) {
        Some(Ok(block)) => Ok(block),
        // Its texts or numbers have no meaning at all (a lone surrogate): that is no odd block but a
        // broken message.
        Some(Err(error)) if error.is_syntax() => Err(D::Error::custom(error)),
        _ => RawJson::of_checked(text).map(Content::Other).map_err(D::Error::custom),
    }
}

/// As almost every block begins, and goes on with nothing but its text.
const TEXT_BLOCK: &str = beginning!(r#"{"type":"text","text":"#);

/// Reads a block that begins with its kind and is as that kind asks for; refuses all others.
struct AsItComes(Place);

impl<'de> Visitor<'de> for AsItComes {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content block")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content::text(text))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let kind = match map.next_key_seed(NameReader(|name: &str| name == "type"))? {
            Some(true) => map.next_value_seed(NameReader(|name: &str| Kind::of(name, self.0)))?,
            Some(false) | None => None,
        };
        let kind = kind.ok_or_else(|| A::Error::custom("a block of another kind"))?;
        kind.read(Behind(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::CallToolResult;

    #[test]
    fn inside_a_tools_answer_is_no_other_answer_and_no_use_of_a_tool() {
        let text = r#"{"type":"text","text":"a"}"#;
        let used = r#"{"type":"tool_use","id":"1","name":"w","input":{}}"#;
        let answer = |inside: &str| {
            format!(r#"{{"type":"tool_result","toolUseId":"1","content":[{inside}],"isError":true}}"#)
        };
        let written = answer(&[text, used, &answer(text)].join(","));
        let read: Content = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
        let Content::ToolResult(result) = read else { panic!("{read:?}") };
        assert_eq!(result.content[0], Content::text("a"));
        assert!(matches!(result.content[1..], [Content::Other(_), Content::Other(_)]), "{result:?}");
        assert!(matches!(serde_json::from_str(used), Ok(Content::ToolUse(_))));
    }

    /// What is read of `block` in the text of a result, and in a look without a second one.
    fn read_both_ways(block: &str) -> [Option<Content>; 2] {
        let result = format!(r#"{{"content":[{{"type":"text","text":"before"}},{block}]}}"#);
        let read = decode::<CallToolResult>(&result).ok();
        let read = read.map(|mut result| result.content.pop().unwrap());
        [read, serde_json::from_str(block).ok()]
    }

    #[test]
    fn what_is_read_as_it_comes_is_what_a_closer_look_would_find() {
        let odd = [
            r#"{"type":"text","text":"a","type":"image"}"#,
            r#"{"type":"weird","text":"a","type":"text"}"#,
            r#"{"type":"text","text":"a","t\u0079pe":"x"}"#,
            r#"{"type":"text","text":"a","text":"b"}"#,
            r#"{"type":"text","text":"\ud800","type":"x"}"#,
            r#"{"type":"text","text":5}"#,
            r#"{"type":"text"}"#,
            r#"{"type":5,"text":"a"}"#,
            r#"{"text":"a","type":"text"}"#,
            r#"{"t\u0079pe":"te\u0078t","text":"a"}"#,
            r#"{"type":"weird","x":"\ud800"}"#,
            r#"{"type":"text","text":"a","x":"\ud800","y":[1e400]}"#,
            r#"{"type":"image","data":"a"}"#,
            r#"{"type":"resource","resource":{"uri":"a"},"annotations":7}"#,
            r#"{"type":"resource_link","uri":"a","size":-1}"#,
            r#"{"type":"tool_result","toolUseId":"a","content":[{"type":"tool_use"},{"text":1}]}"#,
            "{}",
        ];
        for block in odd {
            let [read, expected] = read_both_ways(block);
            assert!(expected.is_some() || block.contains(r#""text":"\ud800","type""#), "{block}");
            assert_eq!(read, expected, "{block}");
        }
        for broken in [r#"{"type":"text","text":"\ud800"}"#, "5", r#"["type","text"]"#, "null"] {
            assert_eq!(read_both_ways(broken), [None, None], "{broken}");
        }
    }

    proptest! {
        #[test]
        fn a_block_that_begins_as_almost_every_one_is_read_as_any_other(
            beginning in prop::sample::select(vec![
                r#"{"type":"text","text":"#,
                r#"{"type":"text","text": "#,
                r#"{ "type":"text","text":"#,
                r#"{"text":"x","type":"text","text":"#,
                r#"{"type":"text","t\u0065xt":"#,
                r#"{"type":"image","text":"#,
            ]),
            text in prop::sample::select(vec![
                r#""""#, r#""a""#, r#""a \"long\" text\nof several lines, é""#, r#""\ud800""#, r#""\\""#, "7", "null", "{}",
            ]),
            end in prop::sample::select(vec![
                "}", " }", r#","annotations":null}"#, r#","text":"b"}"#, r#","type":"image"}"#, r#","x":"}"}"#,
            ]),
        ) {
            let [read, expected] = read_both_ways(&[beginning, text, end].concat());
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn answers_in_answers_are_not_looked_into() {
        // Whoever looked into each of them would find the text without a meaning.
        let (opening, closing) =
            (r#"{"type":"tool_result","toolUseId":"1","content":["#, r#"],"a":1,"a":2}"#);
        let inmost = r#"{"type":"text","text":"\ud800"}"#;
        let nested = |levels| [&opening.repeat(levels), inmost, &closing.repeat(levels)].concat();
        assert!(decode::<Content>(&nested(1)).is_err());
        for levels in [2, 60] {
            assert!(matches!(decode(&nested(levels)), Ok(Content::ToolResult(_))), "{levels}");
        }
    }
}
