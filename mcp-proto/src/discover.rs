use serde::{Deserialize, Serialize};

use crate::cache::CacheScope;
use crate::capabilities::ServerCapabilities;
use crate::implementation::Implementation;
use crate::lenient;
use crate::method::Method;
use crate::request::Request;

/// Asks a server for its versions and capabilities; also the liveness probe of the modern era.
///
/// # Source
///
/// MCP 2026-07-28, server/discover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discover {}

/// The answer to [`Discover`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The versions the server speaks, as received: some may not be spoken here.
    pub supported_versions: Vec<String>,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Which program the server is; on the wire a member of `_meta`.
    pub server_info: Implementation,
    /// How to use the server, for a model to read; untrusted.
    pub instructions: Option<String>,
    /// How long the answer may be reused, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Who may be given a cached answer.
    pub cache_scope: Option<CacheScope>,
}

impl Request for Discover {
    const METHOD: Method = Method::DISCOVER;
    type Result = DiscoverResult;
}

/// The result as it is written, with `serverInfo` in `_meta`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    supported_versions: Vec<String>,
    #[serde(default, deserialize_with = "lenient::nullable")]
    capabilities: ServerCapabilities,
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    cache_scope: Option<CacheScope>,
    #[serde(rename = "_meta", default, deserialize_with = "lenient::hint")]
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<WireMeta>,
}

#[derive(Serialize, Deserialize)]
struct WireMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo", default, deserialize_with = "lenient::hint")]
    #[serde(skip_serializing_if = "Option::is_none")]
    server_info: Option<Implementation>,
}

impl From<Wire> for DiscoverResult {
    fn from(wire: Wire) -> Self {
        Self {
            supported_versions: wire.supported_versions,
            capabilities: wire.capabilities,
            server_info: wire.meta.and_then(|meta| meta.server_info).unwrap_or_default(),
            instructions: wire.instructions,
            ttl_ms: wire.ttl_ms,
            cache_scope: wire.cache_scope,
        }
    }
}

impl From<DiscoverResult> for Wire {
    fn from(result: DiscoverResult) -> Self {
        let is_named = result.server_info != Implementation::default();
        Self {
            supported_versions: result.supported_versions,
            capabilities: result.capabilities,
            instructions: result.instructions,
            ttl_ms: result.ttl_ms,
            cache_scope: result.cache_scope,
            meta: is_named.then_some(WireMeta { server_info: Some(result.server_info) }),
        }
    }
}
