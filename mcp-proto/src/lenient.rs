//! Readers for members that servers get wrong, used through `#[serde(deserialize_with)]`.
//!
//! A member that only informs must never cost the message it came in.

use serde::de::{Deserialize, Deserializer, IgnoredAny};

use crate::raw_json::RawJson;

/// Reads a hint: `null` and values of a wrong kind count as absent.
pub(crate) fn hint<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Maybe::<T>::deserialize(deserializer).map(|read| match read {
        Maybe::Right(value) => value,
        Maybe::Wrong(IgnoredAny) => None,
    })
}

/// Reads a value with a harmless default, which stands in for `null` and for a wrong kind.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
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
    T: Deserialize<'de> + Default,
{
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Declared<T> {
        Flag(bool),
        Full(T),
        Odd(IgnoredAny),
    }
    Option::<Declared<T>>::deserialize(deserializer).map(|read| match read {
        None | Some(Declared::Flag(false)) => None,
        Some(Declared::Full(value)) => Some(value),
        Some(Declared::Flag(true) | Declared::Odd(IgnoredAny)) => Some(T::default()),
    })
}

/// Reads a value whose `null` is a value, not an absence.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Maybe<T> {
    Right(Option<T>),
    Wrong(IgnoredAny),
}

/// Reads a value with a harmless default, which stands in for `null` alone.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
