//! Readers for members that servers get wrong, used through `#[serde(deserialize_with)]`.
//!
//! A member that only informs must never cost the message it came in.

use serde::de::{self, Deserialize, DeserializeOwned, Deserializer};

use crate::raw_json::RawJson;

/// Reads a hint: `null` and values of a wrong kind count as absent.
///
/// The value is first taken as its text: serde's untagged enums would make a tree of it, which takes 32
/// bytes for each `0,` of a list.
pub(crate) fn hint<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    if_right(&RawJson::deserialize(deserializer)?).map(Option::flatten)
}

/// Reads a value with a harmless default, which stands in for `null` and for a wrong kind.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    hint(deserializer).map(Option::unwrap_or_default)
}

/// Reads a list for which some servers write `null`; its entries must be right.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads a declaration that counts by being there: anything but `null` and `false` declares.
///
/// Some servers write `true`, and those in PHP write their empty object as `[]`.
pub(crate) fn declared<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let raw = RawJson::deserialize(deserializer)?;
    match raw.get() {
        "false" | "null" => Ok(None),
        _ => if_right(&raw).map(|read| Some(read.unwrap_or_default())),
    }
}

/// Reads a value that may be of a wrong kind, but not without any meaning (a lone surrogate): that is
/// no odd value but a broken message.
fn if_right<T: DeserializeOwned, E: de::Error>(raw: &RawJson) -> Result<Option<T>, E> {
    match raw.decode() {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_syntax() => Err(E::custom(error)),
        Err(_) => Ok(None),
    }
}

/// Reads a value whose `null` is a value, not an absence.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

/// Reads a value with a harmless default, which stands in for `null` alone.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
