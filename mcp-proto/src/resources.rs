use crate::cache::CacheScope;
use crate::content::Annotations;
use crate::implementation::Icon;
use crate::list::list;
use crate::message::message;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::raw_json::RawJson;
use crate::request::Request;
use crate::result_type::ResultType;

list! {
    /// Lists the resources of a server, one page at a time; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/resources: `resources/list`.
    ListResources = RESOURCES_LIST;
    /// One page of [`ListResources`].
    ListResourcesResult {
        /// The resources, in the order of the server.
        resources: Vec<Resource> = "resources";
    }
}

message! {
    /// Something a server lets be read; in content a link to it.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/resources: `Resource`, `ResourceLink`.
    #[derive(Debug, Clone, PartialEq)]
    Resource skipping "type" {
        /// Its address, untrusted.
        uri: String = "uri", Required;
        /// Name for machines; empty where the server wrote none.
        name: String = "name", OrDefault;
        /// Name for people.
        title: Option<String> = "title", Hint, since V2025_06_18;
        /// What it is, for a model to read; untrusted.
        description: Option<String> = "description", Hint;
        /// Its media type.
        mime_type: Option<String> = "mimeType", Hint;
        /// Its size in bytes.
        size: Option<u64> = "size", Hint;
        /// Hints for showing it.
        annotations: Option<Annotations> = "annotations", Hint;
        /// Pictures of it.
        icons: Option<Vec<Icon>> = "icons", Hint, since V2025_11_25;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

list! {
    /// Lists the resource templates of a server, one page at a time; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/resources: `resources/templates/list`.
    ListResourceTemplates = RESOURCE_TEMPLATES_LIST;
    /// One page of [`ListResourceTemplates`].
    ListResourceTemplatesResult {
        /// The templates, in the order of the server.
        resource_templates: Vec<ResourceTemplate> = "resourceTemplates";
    }
}

message! {
    /// A family of resources, addressed by filling in a template.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/resources: `ResourceTemplate`.
    #[derive(Debug, Clone, PartialEq)]
    ResourceTemplate {
        /// The address with its gaps, in the form of RFC 6570, unchecked.
        uri_template: String = "uriTemplate", Required;
        /// Name for machines; empty where the server wrote none.
        name: String = "name", OrDefault;
        /// Name for people.
        title: Option<String> = "title", Hint, since V2025_06_18;
        /// What it is, for a model to read; untrusted.
        description: Option<String> = "description", Hint;
        /// The media type that all of the family share.
        mime_type: Option<String> = "mimeType", Hint;
        /// Hints for showing it.
        annotations: Option<Annotations> = "annotations", Hint;
        /// Pictures of it.
        icons: Option<Vec<Icon>> = "icons", Hint, since V2025_11_25;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

message! {
    /// Reads a resource; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/resources: `resources/read`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    ReadResource skipping "_meta" {
        /// Its address.
        uri: String = "uri", Required;
    }
}

message! {
    /// The answer to [`ReadResource`].
    #[derive(Debug, Clone, Default, PartialEq)]
    ReadResourceResult {
        /// What kind of result it is.
        result_type: Option<ResultType> = "resultType", Hint, since V2026_07_28;
        /// One entry for each part of the resource; an empty list does not mean "not found".
        contents: Vec<ResourceContents> = "contents", List;
        /// How long the answer may be reused, in milliseconds.
        ttl_ms: Option<u64> = "ttlMs", Hint, since V2026_07_28;
        /// Who may be given a cached answer.
        cache_scope: Option<CacheScope> = "cacheScope", Hint, since V2026_07_28;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// What one part of a resource holds: a text, or bytes.
    #[derive(Debug, Clone, Default, PartialEq)]
    ResourceContents {
        /// The address of the part.
        uri: String = "uri", Required;
        /// Its media type.
        mime_type: Option<String> = "mimeType", Hint;
        /// The text, when it is one.
        text: Option<String> = "text", Optional;
        /// The bytes in base64, unchecked, when it is no text.
        blob: Option<String> = "blob", Optional;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

impl ReadResource {
    /// Reads the resource at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), other: OtherMembers::default() }
    }
}

impl Request for ReadResource {
    const METHOD: Method = Method::RESOURCES_READ;
    type Result = ReadResourceResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.uri)
    }
}
