use serde::{Deserialize, Serialize};

use crate::lenient;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::version::ProtocolVersion;

/// What a client can do for a server.
///
/// Objects whose members this crate does not interpret stay raw; the empty object declares support.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Asking a person on the server's behalf (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<RawJson>,
    /// Capabilities outside every specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<RawJson>,
    /// Extensions by identifier (since 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<RawJson>,
    /// Telling the server which folders it may work in.
    #[serde(default, deserialize_with = "lenient::declared", skip_serializing_if = "Option::is_none")]
    pub roots: Option<ListCapability>,
    /// Running a model for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<RawJson>,
}

/// What a server can do for a client.
///
/// Reading is lenient: anything but `null` and `false` declares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Completing arguments (since 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<RawJson>,
    /// Capabilities outside every specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<RawJson>,
    /// Extensions by identifier (since 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<RawJson>,
    /// Sending log messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<RawJson>,
    /// Prompts.
    #[serde(default, deserialize_with = "lenient::declared", skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// Resources and their templates.
    #[serde(default, deserialize_with = "lenient::declared", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// Tools.
    #[serde(default, deserialize_with = "lenient::declared", skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
}

/// A capability that offers a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCapability {
    /// Whether changes of the list are announced.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
}

/// The capability that offers resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// Whether changes of the list are announced.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
    /// Whether changes of one resource can be subscribed to.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_false")]
    pub subscribe: bool,
}

impl ClientCapabilities {
    /// The same capabilities as `version` can express them: what it does not know is left out.
    #[must_use]
    pub fn for_version(&self, version: ProtocolVersion) -> Self {
        let mut known = self.clone();
        if version < ProtocolVersion::V2025_06_18 {
            known.elicitation = None;
        }
        if version < ProtocolVersion::V2026_07_28 {
            known.extensions = None;
        } else if let Some(roots) = &mut known.roots {
            roots.list_changed = false;
        }
        known
    }
}

impl ServerCapabilities {
    /// Whether the server has declared what `method` needs.
    ///
    /// A method that needs no capability, or that this crate does not know, is always allowed.
    ///
    /// # Source
    ///
    /// MCP 2025-06-18 and later, basic/lifecycle: only negotiated capabilities may be used.
    #[must_use]
    pub fn allow(&self, method: &Method) -> bool {
        let method = method.as_str();
        match method.split_once('/') {
            Some(("tools", _)) => self.tools.is_some(),
            Some(("resources", "subscribe" | "unsubscribe")) => {
                self.resources.is_some_and(|resources| resources.subscribe)
            }
            Some(("resources", _)) => self.resources.is_some(),
            Some(("prompts", _)) => self.prompts.is_some(),
            Some(("logging", _)) => self.logging.is_some(),
            _ => true,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
