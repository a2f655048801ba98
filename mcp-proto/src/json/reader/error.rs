use std::borrow::Cow;
use std::fmt::Display;

use serde::de::{Error, Expected, Unexpected};

use crate::payload::SYNTAX;

/// Why a value could not be read: what was expected, never what was received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ReadError(pub(crate) Cow<'static, str>);

impl ReadError {
    /// The text breaks the rules of JSON, rather than those of a type.
    pub(crate) const SYNTAX: Self = Self(Cow::Borrowed(SYNTAX));

    fn expected(expected: &dyn Expected) -> Self {
        Self(Cow::Owned(format!("expected {expected}")))
    }
}

impl Error for ReadError {
    #[cold]
    fn custom<T: Display>(text: T) -> Self {
        Self(without_received(&text.to_string()))
    }

    #[cold]
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::expected(expected)
    }

    #[cold]
    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::expected(expected)
    }
}

impl From<serde_json::Error> for ReadError {
    #[cold]
    fn from(error: serde_json::Error) -> Self {
        Self(meaning_of(&error))
    }
}

/// What an error of serde_json says that is not quoted from what the server wrote.
pub(crate) fn meaning_of(error: &serde_json::Error) -> Cow<'static, str> {
    use serde_json::error::Category;
    match error.classify() {
        Category::Data => {
            let text = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            without_received(text.strip_suffix(&place).unwrap_or(&text))
        }
        Category::Eof => Cow::Borrowed("the JSON text is cut off"),
        Category::Io => Cow::Borrowed("the JSON text could not be written"),
        Category::Syntax => Cow::Borrowed(SYNTAX),
    }
}

/// Keeps of an error's text what comes from our types: the rest quotes what the server wrote.
fn without_received(text: &str) -> Cow<'static, str> {
    // Passed on by a type that had read a part of the value on its own.
    if text.starts_with(SYNTAX) {
        return Cow::Borrowed(SYNTAX);
    }
    if text.starts_with("missing field `") || text.starts_with("duplicate field `") {
        return Cow::Owned(text.to_owned());
    }
    // "invalid type: string "…", expected a sequence": the last comma of this kind is serde's own.
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => Cow::Owned(format!("expected {expected}")),
        None => Cow::Borrowed("the value does not fit"),
    }
}
