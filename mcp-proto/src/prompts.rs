use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cache::CacheScope;
use crate::content::{Content, Role};
use crate::implementation::Icon;
use crate::lenient;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::request::{Paginated, Request};

/// Lists the prompts of a server, one page at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListPrompts {
    /// Which page, as given by the page before; `None` is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One page of [`ListPrompts`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListPromptsResult {
    /// The prompts, in the order of the server.
    #[serde(deserialize_with = "lenient::list")]
    pub prompts: Vec<Prompt>,
    /// Where the next page is; `None` ends the list, the empty text does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How long the page may be reused, in milliseconds.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Who may be given a cached page.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// A text with gaps that a server fills in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prompt {
    /// Name to ask for it by, untrusted.
    pub name: String,
    /// Name for people.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its gaps.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// Pictures of it (since 2025-11-25).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// One gap of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Name to give its value by.
    pub name: String,
    /// Name for people.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What belongs in it; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

/// Fills a prompt in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GetPrompt {
    /// The prompt's name, exactly as listed.
    pub name: String,
    /// What to fill its gaps with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
}

/// The answer to [`GetPrompt`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// What the prompt is for; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The text, as a conversation.
    #[serde(deserialize_with = "lenient::list")]
    pub messages: Vec<PromptMessage>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// One turn of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

impl ListPrompts {
    /// Asks for the first page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl GetPrompt {
    /// Asks for `name` without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), arguments: None }
    }

    /// Gives the arguments.
    #[must_use]
    pub fn with_arguments(mut self, arguments: BTreeMap<String, String>) -> Self {
        self.arguments = Some(arguments);
        self
    }
}

impl Request for ListPrompts {
    const METHOD: Method = Method::PROMPTS_LIST;
    type Result = ListPromptsResult;
}

impl Paginated for ListPrompts {
    type Item = Prompt;

    fn page(cursor: Option<String>) -> Self {
        Self { cursor }
    }

    fn split(result: ListPromptsResult) -> (Vec<Prompt>, Option<String>) {
        (result.prompts, result.next_cursor)
    }
}

impl Request for GetPrompt {
    const METHOD: Method = Method::PROMPTS_GET;
    type Result = GetPromptResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.name)
    }
}
