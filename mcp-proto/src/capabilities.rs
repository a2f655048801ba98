use serde::{Deserialize, Serialize};

use crate::entries::Entries;
use crate::lenient;
use crate::message::message;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::version::ProtocolVersion;

message! {
    /// What a client can do for a server.
    ///
    /// The raw members are objects; the empty one declares support without settings.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic: `ClientCapabilities`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ClientCapabilities {
        /// Asking a person on the server's behalf (since 2025-06-18).
        elicitation: Option<ElicitationCapability> = "elicitation", Declared;
        /// Capabilities outside every specification, by name.
        experimental: Option<Entries<RawJson>> = "experimental", Hint;
        /// Extensions by identifier, with their settings (since 2026-07-28).
        extensions: Option<Entries<RawJson>> = "extensions", Hint;
        /// Telling the server which folders it may work in.
        roots: Option<ListCapability> = "roots", Declared;
        /// Running a model for the server.
        sampling: Option<SamplingCapability> = "sampling", Declared;
        /// Answering with tasks (2025-11-25 only).
        tasks: Option<ClientTasksCapability> = "tasks", Declared;
    }
}

message! {
    /// In which ways a client can ask a person; the empty object means forms alone.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ElicitationCapability {
        /// With a form.
        form: Option<RawJson> = "form", Optional;
        /// With a URL to open (since 2025-11-25).
        url: Option<RawJson> = "url", Optional;
    }
}

message! {
    /// How far a client can run a model for a server.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    SamplingCapability {
        /// Adding content of the servers to the conversation (since 2025-11-25).
        context: Option<RawJson> = "context", Optional;
        /// Letting the model use tools (since 2025-11-25).
        tools: Option<RawJson> = "tools", Optional;
    }
}

message! {
    /// In which way a client answers with tasks (2025-11-25 only).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ClientTasksCapability {
        /// Its tasks can be cancelled.
        cancel: Option<RawJson> = "cancel", Optional;
        /// Its tasks can be listed.
        list: Option<RawJson> = "list", Optional;
        /// Which requests may ask for a task, by group and method.
        requests: Option<RawJson> = "requests", Optional;
    }
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
    ///
    /// Before 2025-11-25 there were only forms, so that a client that can only show URLs cannot ask a
    /// person at all there.
    #[must_use]
    pub fn for_version(&self, version: ProtocolVersion) -> Self {
        let mut known = self.clone();
        if version < ProtocolVersion::V2025_06_18 {
            known.elicitation = None;
        }
        if version < ProtocolVersion::V2025_11_25 {
            known.elicitation = known.elicitation.filter(ElicitationCapability::has_form);
            known.elicitation = known.elicitation.map(|_| ElicitationCapability::default());
            known.sampling = known.sampling.map(|_| SamplingCapability::default());
        }
        if version != ProtocolVersion::V2025_11_25 {
            known.tasks = None;
        }
        if version < ProtocolVersion::V2026_07_28 {
            known.extensions = None;
        } else if let Some(roots) = &mut known.roots {
            roots.list_changed = false;
        }
        known
    }
}

impl ElicitationCapability {
    /// Forms, and URLs.
    #[must_use]
    pub fn form_and_url() -> Self {
        Self { url: Some(RawJson::empty_object()), ..Self::form() }
    }

    /// Forms alone.
    #[must_use]
    pub fn form() -> Self {
        Self { form: Some(RawJson::empty_object()), ..Self::default() }
    }

    /// Whether a person can be asked with a form; declaring nothing means that alone.
    #[must_use]
    pub fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }

    /// Whether a person can be asked to open a URL.
    #[must_use]
    pub fn has_url(&self) -> bool {
        self.url.is_some()
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
