use mcp_proto::{Era, ProtocolVersion};

/// What the agreed version asks of a transport over HTTP.
///
/// # Source
///
/// MCP 2025-03-26 to 2026-07-28, basic/transports: Streamable HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpProfile {
    version: ProtocolVersion,
}

impl HttpProfile {
    /// The profile of a version.
    #[must_use]
    pub fn new(version: ProtocolVersion) -> Self {
        Self { version }
    }

    /// The agreed version.
    #[must_use]
    pub fn version(self) -> ProtocolVersion {
        self.version
    }

    /// Whether the version is named in a header of each request.
    #[must_use]
    pub fn names_version(self) -> bool {
        self.version >= ProtocolVersion::V2025_06_18
    }

    /// Whether there are sessions: an id in a header, a stream of the server's own, streams that can be
    /// resumed, and a DELETE at the end.
    #[must_use]
    pub fn has_sessions(self) -> bool {
        self.version.era() == Era::Legacy
    }
}
