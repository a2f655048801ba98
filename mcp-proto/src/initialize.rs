use serde::{Deserialize, Serialize};

use crate::capabilities::{ClientCapabilities, ServerCapabilities};
use crate::implementation::Implementation;
use crate::lenient;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::request::{Notification, Request};
use crate::version::ProtocolVersion;

/// Opens a legacy connection; never cancelled, never sent to a modern server.
///
/// # Source
///
/// MCP 2025-11-25, basic/lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Initialize {
    /// The version offered, a legacy one.
    pub protocol_version: ProtocolVersion,
    /// What we can do for the server.
    pub capabilities: ClientCapabilities,
    /// Who we are.
    pub client_info: Implementation,
}

/// The answer to [`Initialize`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The version the server has chosen, as received: it may be one that is not spoken here.
    pub protocol_version: String,
    /// What the server can do.
    #[serde(default, deserialize_with = "lenient::nullable")]
    pub capabilities: ServerCapabilities,
    /// Which program the server is.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub server_info: Implementation,
    /// How to use the server, for a model to read; untrusted.
    #[serde(default, deserialize_with = "lenient::hint", skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Metadata, as received.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// Ends the legacy handshake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialized {}

impl Initialize {
    /// Offers [`ProtocolVersion::NEWEST_LEGACY`].
    #[must_use]
    pub fn new(client_info: Implementation, capabilities: &ClientCapabilities) -> Self {
        Self::offering(ProtocolVersion::NEWEST_LEGACY, client_info, capabilities)
    }

    /// Offers `version`; what it cannot express of `capabilities` is left out.
    #[must_use]
    pub fn offering(
        version: ProtocolVersion,
        client_info: Implementation,
        capabilities: &ClientCapabilities,
    ) -> Self {
        Self { protocol_version: version, capabilities: capabilities.for_version(version), client_info }
    }
}

impl Request for Initialize {
    const METHOD: Method = Method::INITIALIZE;
    type Result = InitializeResult;
}

impl Notification for Initialized {
    const METHOD: Method = Method::INITIALIZED;
}
