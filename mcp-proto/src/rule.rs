//! By which rules the members of an object are read and written, one type for each.
//!
//! A member that only informs must never cost the message it came in; one that a call depends on must
//! be right.

use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error};
use serde_json::Number;

use crate::content::{BlockInside, Content};
use crate::json::raw_text::RawText;
use crate::member::Member;
use crate::member::exact_number::exact_number;
use crate::payload::{decode, decode_with, look};
use crate::raw_json::RawJson;

/// How a member of type `T` is read, what stands for it when it is absent, and when it is written.
pub(crate) trait Rule<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;

    /// `None` when the member must be there.
    fn absent() -> Option<T>;

    fn is_written(value: &T) -> bool;
}

/// Must be there and be right; always written.
pub(crate) struct Required;

/// Must be there, but may be `null` for the empty list; always written.
pub(crate) struct List;

/// May be absent or `null`, else must be right; written when there.
pub(crate) struct Optional;

/// As [`Optional`], but `null` is a value.
pub(crate) struct Present;

/// As [`Optional`], but of a wrong kind it counts as absent.
pub(crate) struct Hint;

/// As [`Hint`], for a number that goes back to the server: one that cannot be held as it is written
/// counts as absent.
pub(crate) struct ExactHint;

/// Absent and `null` mean the default, else it must be right; always written.
pub(crate) struct Nullable;

/// As [`Nullable`], for the blocks inside of a block.
pub(crate) struct BlocksInside;

/// As [`Nullable`], but not written when it is the default.
pub(crate) struct Sparse;

/// As received, and `null` when absent; always written.
pub(crate) struct OrNull;

/// Absent, `null` and a wrong kind mean the default; always written.
pub(crate) struct OrDefault;

/// As [`OrDefault`], but written only when it is not the default.
pub(crate) struct HintOrDefault;

/// Declares by being there: anything but `null` and `false` does, and what cannot be read counts as
/// the default. Written when there.
///
/// Some servers write `true`, and those in PHP write their empty object as `[]`.
pub(crate) struct Declared;

/// As [`Declared`], for what stays raw: what is no object counts as the empty one.
pub(crate) struct DeclaredRaw;

impl<T: Member> Rule<T> for Required {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }

    #[inline]
    fn absent() -> Option<T> {
        None
    }

    fn is_written(_: &T) -> bool {
        true
    }
}

impl<T: Member> Rule<Vec<T>> for List {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        null_or(deserializer)
    }

    #[inline]
    fn absent() -> Option<Vec<T>> {
        None
    }

    fn is_written(_: &Vec<T>) -> bool {
        true
    }
}

impl<T: Member> Rule<Option<T>> for Optional {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        Option::read(deserializer)
    }

    #[inline]
    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    fn is_written(value: &Option<T>) -> bool {
        value.is_some()
    }
}

impl Rule<Option<RawJson>> for Present {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
        RawJson::deserialize(deserializer).map(Some)
    }

    #[inline]
    fn absent() -> Option<Option<RawJson>> {
        Some(None)
    }

    fn is_written(value: &Option<RawJson>) -> bool {
        value.is_some()
    }
}

impl Rule<RawJson> for OrNull {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RawJson, D::Error> {
        RawJson::deserialize(deserializer)
    }

    #[inline]
    fn absent() -> Option<RawJson> {
        Some(RawJson::null())
    }

    fn is_written(_: &RawJson) -> bool {
        true
    }
}

impl<T: Member> Rule<Option<T>> for Hint {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        hint(deserializer)
    }

    #[inline]
    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    fn is_written(value: &Option<T>) -> bool {
        value.is_some()
    }
}

impl Rule<Option<Number>> for ExactHint {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Number>, D::Error> {
        let RawText(text) = RawText::deserialize(deserializer)?;
        Ok(exact_number(text))
    }

    #[inline]
    fn absent() -> Option<Option<Number>> {
        Some(None)
    }

    fn is_written(value: &Option<Number>) -> bool {
        value.is_some()
    }
}

impl<T: Member + Default> Rule<T> for Nullable {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        null_or(deserializer)
    }

    #[inline]
    fn absent() -> Option<T> {
        Some(T::default())
    }

    fn is_written(_: &T) -> bool {
        true
    }
}

impl Rule<Vec<Content>> for BlocksInside {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Content>, D::Error> {
        let blocks: Vec<BlockInside> = null_or(deserializer)?;
        Ok(blocks.into_iter().map(|BlockInside(block)| block).collect())
    }

    #[inline]
    fn absent() -> Option<Vec<Content>> {
        Some(Vec::new())
    }

    fn is_written(_: &Vec<Content>) -> bool {
        true
    }
}

impl<T: Member + Default + PartialEq> Rule<T> for Sparse {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        null_or(deserializer)
    }

    #[inline]
    fn absent() -> Option<T> {
        Some(T::default())
    }

    fn is_written(value: &T) -> bool {
        *value != T::default()
    }
}

impl<T: Member + Default> Rule<T> for OrDefault {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        hint(deserializer).map(Option::unwrap_or_default)
    }

    #[inline]
    fn absent() -> Option<T> {
        Some(T::default())
    }

    fn is_written(_: &T) -> bool {
        true
    }
}

impl<T: Member + Default + PartialEq> Rule<T> for HintOrDefault {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        hint(deserializer).map(Option::unwrap_or_default)
    }

    #[inline]
    fn absent() -> Option<T> {
        Some(T::default())
    }

    fn is_written(value: &T) -> bool {
        *value != T::default()
    }
}

impl<T: Member + Default> Rule<Option<T>> for Declared {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        let RawText(text) = RawText::deserialize(deserializer)?;
        match text {
            "null" | "false" => Ok(None),
            text => Ok(Some(decode(text).unwrap_or_default())),
        }
    }

    #[inline]
    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    fn is_written(value: &Option<T>) -> bool {
        value.is_some()
    }
}

impl Rule<Option<RawJson>> for DeclaredRaw {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        Ok(match raw.get() {
            "null" | "false" => None,
            _ if raw.is_object() => Some(raw),
            _ => Some(RawJson::empty_object()),
        })
    }

    #[inline]
    fn absent() -> Option<Option<RawJson>> {
        Some(None)
    }

    fn is_written(value: &Option<RawJson>) -> bool {
        value.is_some()
    }
}

/// Reads a member by the rule `R`.
pub(crate) struct Value<R, T>(PhantomData<(R, T)>);

impl<R, T> Default for Value<R, T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T, R: Rule<T>> DeserializeSeed<'de> for Value<R, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        R::read(deserializer)
    }
}

fn null_or<'de, D: Deserializer<'de>, T: Member + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::read(deserializer).map(Option::unwrap_or_default)
}

fn hint<'de, D: Deserializer<'de>, T: Member>(deserializer: D) -> Result<Option<T>, D::Error> {
    if look::is_first() {
        // One of a wrong kind is found to be one at the next look.
        return Option::read(deserializer);
    }
    let RawText(text) = RawText::deserialize(deserializer)?;
    match decode_with(text, |deserializer| Option::read(deserializer)) {
        // A text without any meaning (a lone surrogate) is no odd hint but a broken message.
        Err(error) if error.is_syntax() && text.starts_with('"') => Err(D::Error::custom(error)),
        read => Ok(read.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{ListToolsResult, Tool};

    #[test]
    fn an_odd_hint_is_absent_whether_it_is_read_alone_or_in_a_list() {
        for odd in [
            r#""title":5"#,
            r#""title":null,"description":["a"]"#,
            r#""annotations":[]"#,
            r#""annotations":{"title":{},"readOnlyHint":"yes","openWorldHint":true}"#,
            r#""annotations":{"title":"\ud800"}"#,
            r#""annotations":{"title":"a","title":"b"},"annotations":{"title":"c"}"#,
            r#""icons":[{"src":"a"},{}]"#,
            r#""icons":{"src":"a"}"#,
            r#""execution":{"taskSupport":1},"x":{"a":1,"a":2}"#,
        ] {
            let text = format!(r#"{{"name":"b",{odd},"inputSchema":{{}}}}"#);
            let alone: Tool = serde_json::from_str(&text).unwrap();
            let page =
                format!(r#"{{"tools":[{{"name":"a","title":"t","annotations":{{}}}},{text}],"ttlMs":"x"}}"#);
            let read: ListToolsResult = decode(&page).unwrap();
            assert_eq!((read.tools[0].title.as_deref(), &read.tools[1]), (Some("t"), &alone), "{text}");
            assert_eq!(decode::<Tool>(&text), Ok(alone), "{text}");
        }
        let broken = r#"{"name":"a","title":"\ud800","inputSchema":{}}"#;
        assert!(decode::<Tool>(broken).is_err_and(|error| error.is_syntax()));
        assert!(serde_json::from_str::<Tool>(broken).is_err());
    }
}
