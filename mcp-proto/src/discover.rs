use serde::{Deserialize, Serialize};

use crate::cache::CacheScope;
use crate::capabilities::ServerCapabilities;
use crate::entries::Entries;
use crate::implementation::Implementation;
use crate::message::message;
use crate::meta::meta_key;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::request::Request;
use crate::result_type::ResultType;
use crate::versioned::Versioned;

/// Asks a server for its versions and capabilities; also the liveness probe of the modern era (since
/// 2026-07-28).
///
/// # Source
///
/// MCP 2026-07-28, server/discover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discover {}

message! {
    /// The answer to [`Discover`].
    #[derive(Debug, Clone, PartialEq, Eq)]
    DiscoverResult {
        /// What kind of result it is.
        result_type: Option<ResultType> = "resultType", Hint;
        /// The versions the server speaks, as received: some may not be spoken here.
        supported_versions: Vec<String> = "supportedVersions", Required;
        /// What the server can do.
        capabilities: ServerCapabilities = "capabilities", Nullable;
        /// How to use the server, for a model to read; untrusted.
        instructions: Option<String> = "instructions", Hint;
        /// How long the answer may be reused, in milliseconds.
        ttl_ms: Option<u64> = "ttlMs", Hint;
        /// Who may be given a cached answer.
        cache_scope: Option<CacheScope> = "cacheScope", Hint;
        /// Metadata, as received; it names the server.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

impl DiscoverResult {
    /// Which program the server is, as its metadata says.
    #[must_use]
    pub fn server_info(&self) -> Implementation {
        let meta = self.meta.as_ref().and_then(|meta| meta.decode::<Entries<RawJson>>().ok());
        let info = meta.as_ref().and_then(|meta| meta.get(meta_key::SERVER_INFO));
        info.and_then(|info| info.decode().ok()).unwrap_or_default()
    }
}

impl Versioned for Discover {}

impl Request for Discover {
    const METHOD: Method = Method::DISCOVER;
    type Result = DiscoverResult;
}
