use serde::{Deserialize, Serialize};

use crate::cache::CacheScope;
use crate::content::Content;
use crate::implementation::Icon;
use crate::lenient;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::request::{Paginated, Request};

/// Lists the tools of a server, one page at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListTools {
    /// Which page, as given by the page before; `None` is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One page of [`ListTools`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListToolsResult {
    /// The tools, in the order of the server.
    #[serde(deserialize_with = "lenient::list")]
    pub tools: Vec<Tool>,
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

/// Something a server can do when asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// Name to call it by, case-sensitive, untrusted.
    pub name: String,
    /// Name for people.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for a model to read; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, as received; `null` where the server wrote none.
    #[serde(default = "RawJson::null")]
    pub input_schema: RawJson,
    /// JSON Schema of the structured content, as received (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// What the server says of its behaviour (since 2025-03-26); untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Pictures of it (since 2025-11-25).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// What a server claims about a tool's behaviour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Name for people, of the time before [`Tool::title`].
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeating a call changes nothing more.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It touches things outside the server's own world.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// Runs a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallTool {
    /// The tool's name, exactly as listed.
    pub name: String,
    /// Its arguments, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RawJson>,
}

/// The answer to [`CallTool`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// What the tool says, in blocks.
    #[serde(default, deserialize_with = "lenient::list")]
    pub content: Vec<Content>,
    /// The same as a JSON value (since 2025-06-18), as received; `Some` of `null` is a value.
    #[serde(default, deserialize_with = "lenient::present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<RawJson>,
    /// Whether the tool ran and failed; `content` then tells why.
    #[serde(default, deserialize_with = "lenient::nullable")]
    pub is_error: bool,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

impl ListTools {
    /// Asks for the first page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl CallTool {
    /// Calls `name` without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), arguments: None }
    }

    /// Gives the arguments, which must be an object.
    #[must_use]
    pub fn with_arguments(mut self, arguments: RawJson) -> Self {
        self.arguments = Some(arguments);
        self
    }
}

impl Request for ListTools {
    const METHOD: Method = Method::TOOLS_LIST;
    type Result = ListToolsResult;
}

impl Paginated for ListTools {
    type Item = Tool;

    fn page(cursor: Option<String>) -> Self {
        Self { cursor }
    }

    fn split(result: ListToolsResult) -> (Vec<Tool>, Option<String>) {
        (result.tools, result.next_cursor)
    }
}

impl Request for CallTool {
    const METHOD: Method = Method::TOOLS_CALL;
    type Result = CallToolResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.name)
    }
}
