use crate::capabilities::ClientCapabilities;
use crate::encode::MetaMembers;
use crate::id::RequestId;
use crate::implementation::Implementation;
use crate::payload::DecodeError;
use crate::version::ProtocolVersion;
use crate::versioned::Versioned;

/// Names of `_meta` members that the protocol gives a meaning.
///
/// # Source
///
/// MCP 2026-07-28, basic: `RequestMetaObject`, `ResultMetaObject`, `NotificationMetaObject`.
pub mod meta_key {
    /// In requests: what the application says along a trace, see [`TraceContext`](crate::TraceContext).
    pub const BAGGAGE: &str = "baggage";
    /// In every modern request: what the client can do for this request.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// In modern requests: which program the client is.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// In modern requests: the lowest level of log messages that are wanted with the answer.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// In results that say a request has become a task: what to tell the model at once (2025-11-25 only).
    pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
    /// In requests: names the request in progress notifications.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// In every modern request: the version it is written in.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// In messages about a task: which one, as an object with a `taskId` (2025-11-25 only).
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// In modern results: which program the server is.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// In modern notifications: the subscription they belong to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// In requests: which trace they belong to, see [`TraceContext`](crate::TraceContext).
    pub const TRACEPARENT: &str = "traceparent";
    /// In requests: what single vendors say along a trace, see [`TraceContext`](crate::TraceContext).
    pub const TRACESTATE: &str = "tracestate";

    /// Whether `key` follows the grammar of `_meta` keys: a prefix of labels that is optional and ends
    /// with `/`, then a name.
    #[must_use]
    pub fn is_valid(key: &str) -> bool {
        let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
        prefix.is_none_or(|prefix| prefix.split('.').all(is_label)) && is_name(name)
    }

    /// Whether the prefix of `key` is kept for the protocol: its second label says so.
    #[must_use]
    pub fn is_reserved(key: &str) -> bool {
        let prefix = key.rsplit_once('/').map(|(prefix, _)| prefix);
        let second = prefix.and_then(|prefix| prefix.split('.').nth(1));
        matches!(second, Some("mcp" | "modelcontextprotocol"))
    }

    fn is_label(label: &str) -> bool {
        label.starts_with(|first: char| first.is_ascii_alphabetic())
            && label.ends_with(|last: char| last.is_ascii_alphanumeric())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    }

    fn is_name(name: &str) -> bool {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        name.is_empty()
            || (name.starts_with(|first: char| first.is_ascii_alphanumeric())
                && name.ends_with(|last: char| last.is_ascii_alphanumeric())
                && name.bytes().all(is_inner))
    }
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
            let mut client_info = client_info.clone();
            // Nothing in here is refused: names and pictures can always be left out.
            let _ = client_info.fit(version);
            members.push(meta_key::CLIENT_INFO, &client_info)?;
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

#[cfg(test)]
mod tests {
    use super::meta_key::{is_reserved, is_valid};

    #[test]
    fn keys_follow_the_grammar() {
        for key in ["a", "progressToken", "a-b_c.d9", "com.example/x", "a-1.b/c", "x/", "7", ""] {
            assert!(is_valid(key), "{key}");
        }
        for key in
            ["-a", "a-", "a b", "ü", "/a", "1a.b/x", "a-.b/x", "a..b/x", "a_b/x", "a/b/c", "com.example/-x"]
        {
            assert!(!is_valid(key), "{key}");
        }
    }

    #[test]
    fn the_second_label_reserves_a_prefix() {
        for key in
            ["io.modelcontextprotocol/x", "dev.mcp/x", "org.modelcontextprotocol.api/x", "com.mcp.tools/x"]
        {
            assert!(is_reserved(key), "{key}");
        }
        for key in ["mcp/x", "com.example.mcp/x", "com.mcpx/x", "progressToken", "dev.mcp"] {
            assert!(!is_reserved(key), "{key}");
        }
    }
}
