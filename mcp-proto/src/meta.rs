use crate::capabilities::ClientCapabilities;
use crate::encode::MetaMembers;
use crate::id::RequestId;
use crate::implementation::Implementation;
use crate::payload::DecodeError;
use crate::version::ProtocolVersion;

/// Names of `_meta` members that the protocol gives a meaning.
///
/// # Source
///
/// MCP 2026-07-28, basic: `RequestMetaObject`, `ResultMetaObject`, `NotificationMetaObject`.
pub mod meta_key {
    /// In every modern request: what the client can do for this request.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// In modern requests: which program the client is.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// In modern requests: the lowest level of log messages that are wanted with the answer.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// In requests: names the request in progress notifications.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// In every modern request: the version it is written in.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// In modern results: which program the server is.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// In modern notifications: the subscription they belong to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
}

impl MetaMembers {
    /// What every modern request of a connection carries, to be made once and then reused.
    ///
    /// `client_info` is left out when configured off.
    ///
    /// # Errors
    ///
    /// Never for values that were read from JSON or made by this crate.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic: `RequestMetaObject` (version and capabilities must, client info should).
    pub fn modern(
        version: ProtocolVersion,
        capabilities: &ClientCapabilities,
        client_info: Option<&Implementation>,
    ) -> Result<Self, DecodeError> {
        let mut members = Self::new();
        members.push(meta_key::PROTOCOL_VERSION, &version)?;
        members.push(meta_key::CLIENT_CAPABILITIES, &capabilities.for_version(version))?;
        if let Some(client_info) = client_info {
            members.push(meta_key::CLIENT_INFO, client_info)?;
        }
        Ok(members)
    }

    /// These members and a progress token: the id of the request that carries them.
    ///
    /// # Errors
    ///
    /// Never: an id always has a JSON form.
    pub fn with_progress_token(&self, token: &RequestId) -> Result<Self, DecodeError> {
        let mut members = self.clone();
        members.push(meta_key::PROGRESS_TOKEN, token)?;
        Ok(members)
    }
}
