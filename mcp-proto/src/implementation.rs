use serde::{Deserialize, Serialize};

use crate::lenient;

/// Names a client or server program.
///
/// Both name and version are empty when the peer did not say. Everything here is the peer's own
/// claim: it identifies nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// Name for machines.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Name for people (since 2025-06-18).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Version of the program, in its own form.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub version: String,
    /// What the program is for (since 2025-11-25).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where to read about it (since 2025-11-25).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Pictures of it (since 2025-11-25).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
}

/// A picture to show beside a name (since 2025-11-25).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// Where the picture is: an `https:` or `data:` URI, untrusted.
    pub src: String,
    /// Its media type.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its sizes, `48x48` or `any`.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<String>>,
    /// The background it is made for, `dark` or `light`.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

impl Implementation {
    /// Names a program.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// Adds the name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}
