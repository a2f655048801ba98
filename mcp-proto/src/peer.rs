use crate::capabilities::ServerCapabilities;
use crate::discover::DiscoverResult;
use crate::implementation::Implementation;
use crate::initialize::InitializeResult;
use crate::version::{Era, ProtocolVersion};

/// What is known of a server once a connection is open, in the same form for both eras.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerInfo {
    /// The vocabulary the connection uses.
    pub era: Era,
    /// The version both sides have agreed on.
    pub version: ProtocolVersion,
    /// Which program the server is; its own claim.
    pub server: Implementation,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// How to use the server, for a model to read; untrusted.
    pub instructions: Option<String>,
}

impl PeerInfo {
    /// Takes over what `initialize` has answered, once `version` is agreed on.
    #[must_use]
    pub fn from_initialize(version: ProtocolVersion, result: InitializeResult) -> Self {
        Self {
            era: version.era(),
            version,
            server: result.server_info,
            capabilities: result.capabilities,
            instructions: result.instructions,
        }
    }

    /// Takes over what `server/discover` has answered, once `version` is agreed on.
    #[must_use]
    pub fn from_discover(version: ProtocolVersion, result: DiscoverResult) -> Self {
        Self {
            era: version.era(),
            version,
            server: result.server_info(),
            capabilities: result.capabilities,
            instructions: result.instructions,
        }
    }
}
