use serde::{Deserialize, Serialize};

use crate::cache::CacheScope;
use crate::content::Annotations;
use crate::implementation::Icon;
use crate::lenient;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::request::{Paginated, Request};

/// Lists the resources of a server, one page at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListResources {
    /// Which page, as given by the page before; `None` is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One page of [`ListResources`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListResourcesResult {
    /// The resources, in the order of the server.
    #[serde(deserialize_with = "lenient::list")]
    pub resources: Vec<Resource>,
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

/// Something a server lets be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// Its address, untrusted.
    pub uri: String,
    /// Name for machines; empty where the server wrote none.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Name for people.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, for a model to read; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its size in bytes.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Hints for showing it.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures of it (since 2025-11-25).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// Lists the resource templates of a server, one page at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListResourceTemplates {
    /// Which page, as given by the page before; `None` is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One page of [`ListResourceTemplates`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListResourceTemplatesResult {
    /// The templates, in the order of the server.
    #[serde(deserialize_with = "lenient::list")]
    pub resource_templates: Vec<ResourceTemplate>,
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

/// A family of resources, addressed by filling in a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The address with its gaps, in the form of RFC 6570, unchecked.
    pub uri_template: String,
    /// Name for machines; empty where the server wrote none.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Name for people.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, for a model to read; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type that all of the family share.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Hints for showing it.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures of it (since 2025-11-25).
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// Reads a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadResource {
    /// Its address.
    pub uri: String,
}

/// The answer to [`ReadResource`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// One entry for each part of the resource; an empty list does not mean "not found".
    #[serde(deserialize_with = "lenient::list")]
    pub contents: Vec<ResourceContents>,
    /// How long the answer may be reused, in milliseconds.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Who may be given a cached answer.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// What one part of a resource holds: a text, or bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// The address of the part.
    pub uri: String,
    /// Its media type.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64, unchecked, when it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

impl ListResources {
    /// Asks for the first page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl ListResourceTemplates {
    /// Asks for the first page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl ReadResource {
    /// Reads the resource at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into() }
    }
}

impl Request for ListResources {
    const METHOD: Method = Method::RESOURCES_LIST;
    type Result = ListResourcesResult;
}

impl Paginated for ListResources {
    type Item = Resource;

    fn page(cursor: Option<String>) -> Self {
        Self { cursor }
    }

    fn split(result: ListResourcesResult) -> (Vec<Resource>, Option<String>) {
        (result.resources, result.next_cursor)
    }
}

impl Request for ListResourceTemplates {
    const METHOD: Method = Method::RESOURCE_TEMPLATES_LIST;
    type Result = ListResourceTemplatesResult;
}

impl Paginated for ListResourceTemplates {
    type Item = ResourceTemplate;

    fn page(cursor: Option<String>) -> Self {
        Self { cursor }
    }

    fn split(result: ListResourceTemplatesResult) -> (Vec<ResourceTemplate>, Option<String>) {
        (result.resource_templates, result.next_cursor)
    }
}

impl Request for ReadResource {
    const METHOD: Method = Method::RESOURCES_READ;
    type Result = ReadResourceResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.uri)
    }
}
