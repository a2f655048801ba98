use serde::{Deserialize, Serialize};

use crate::capabilities::{ClientCapabilities, ServerCapabilities};
use crate::implementation::Implementation;
use crate::message::message;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::raw_json::RawJson;
use crate::request::{Notification, Request};
use crate::version::ProtocolVersion;
use crate::versioned::Versioned;

message! {
    /// Opens a legacy connection; never cancelled, never sent to a modern server (until 2025-11-25).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, basic/lifecycle.
    #[derive(Debug, Clone, PartialEq, Eq)]
    Initialize skipping "_meta" {
        /// The version offered, a legacy one.
        protocol_version: ProtocolVersion = "protocolVersion", Required;
        /// What we can do for the server.
        capabilities: ClientCapabilities = "capabilities", Required;
        /// Who we are.
        client_info: Implementation = "clientInfo", Required;
    }
}

message! {
    /// The answer to [`Initialize`].
    #[derive(Debug, Clone, PartialEq, Eq)]
    InitializeResult {
        /// The version the server has chosen, as received: it may be one that is not spoken here.
        protocol_version: String = "protocolVersion", Required;
        /// What the server can do.
        capabilities: ServerCapabilities = "capabilities", Nullable;
        /// Which program the server is.
        server_info: Implementation = "serverInfo", OrDefault;
        /// How to use the server, for a model to read; untrusted.
        instructions: Option<String> = "instructions", Hint;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

/// Ends the legacy handshake (until 2025-11-25).
///
/// # Source
///
/// MCP 2025-11-25, basic/lifecycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialized {}

impl Initialize {
    /// Offers [`ProtocolVersion::NEWEST_LEGACY`].
    #[must_use]
    pub fn new(client_info: Implementation, capabilities: &ClientCapabilities) -> Self {
        Self::offering(ProtocolVersion::NEWEST_LEGACY, client_info, capabilities)
    }

    /// Offers `version`; what it cannot express of the other two is left out.
    #[must_use]
    pub fn offering(
        version: ProtocolVersion,
        client_info: Implementation,
        capabilities: &ClientCapabilities,
    ) -> Self {
        let capabilities = capabilities.for_version(version);
        let mut offered =
            Self { protocol_version: version, capabilities, client_info, other: OtherMembers::default() };
        // Nothing in here is refused: names and pictures can always be left out.
        let _ = offered.client_info.fit(version);
        offered
    }
}

impl Request for Initialize {
    const METHOD: Method = Method::INITIALIZE;
    type Result = InitializeResult;
}

impl Versioned for Initialized {}

impl Notification for Initialized {
    const METHOD: Method = Method::INITIALIZED;
}
