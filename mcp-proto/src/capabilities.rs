use crate::entries::Entries;
use crate::extension;
use crate::message::message;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::version::ProtocolVersion;
use crate::versioned::Versioned;

message! {
    /// What a client can do for a server; in all versions.
    ///
    /// The raw members are objects; the empty one declares support without settings.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic: `ClientCapabilities`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ClientCapabilities {
        /// Asking a person on the server's behalf.
        elicitation: Option<ElicitationCapability> = "elicitation", Declared, since V2025_06_18;
        /// Capabilities outside every specification, by name.
        experimental: Option<Entries<RawJson>> = "experimental", Hint;
        /// Extensions by identifier, with their settings; in 2025-11-25 a member that servers tolerate.
        extensions: Option<Entries<RawJson>> = "extensions", Hint, since V2025_11_25;
        /// Telling the server which folders it may work in.
        roots: Option<RootsCapability> = "roots", Declared;
        /// Running a model for the server.
        sampling: Option<SamplingCapability> = "sampling", Declared;
        /// Answering with tasks.
        tasks: Option<TasksCapability> = "tasks", Declared, only V2025_11_25;
    }
}

message! {
    /// In which ways a client can ask a person; the empty object means forms alone.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ElicitationCapability {
        /// With a form.
        form: Option<RawJson> = "form", Optional, since V2025_11_25;
        /// With a URL to open.
        url: Option<RawJson> = "url", Optional, since V2025_11_25;
    }
}

message! {
    /// That a client can name folders.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    RootsCapability {
        /// Whether changes of the list are announced.
        list_changed: bool = "listChanged", HintOrDefault, until V2025_11_25;
    }
}

message! {
    /// How far a client can run a model for a server.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    SamplingCapability {
        /// Adding content of the servers to the conversation.
        context: Option<RawJson> = "context", Optional, since V2025_11_25;
        /// Letting the model use tools.
        tools: Option<RawJson> = "tools", Optional, since V2025_11_25;
    }
}

message! {
    /// In which way one side answers with tasks (2025-11-25 only).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, basic/utilities/tasks.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    TasksCapability {
        /// Its tasks can be cancelled.
        cancel: Option<RawJson> = "cancel", Optional;
        /// Its tasks can be listed.
        list: Option<RawJson> = "list", Optional;
        /// Which requests may ask for a task, by group and method.
        requests: Option<RawJson> = "requests", Optional;
    }
}

message! {
    /// What a server can do for a client; in all versions.
    ///
    /// Reading is lenient: anything but `null` and `false` declares.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic: `ServerCapabilities`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ServerCapabilities {
        /// Completing arguments.
        completions: Option<RawJson> = "completions", DeclaredRaw, since V2025_03_26;
        /// Capabilities outside every specification, by name.
        experimental: Option<Entries<RawJson>> = "experimental", Hint;
        /// Extensions by identifier, with their settings.
        extensions: Option<Entries<RawJson>> = "extensions", Hint, since V2026_07_28;
        /// Sending log messages.
        logging: Option<RawJson> = "logging", DeclaredRaw;
        /// Prompts.
        prompts: Option<ListCapability> = "prompts", Declared;
        /// Resources and their templates.
        resources: Option<ResourcesCapability> = "resources", Declared;
        /// Answering with tasks.
        tasks: Option<TasksCapability> = "tasks", Declared, only V2025_11_25;
        /// Tools.
        tools: Option<ListCapability> = "tools", Declared;
    }
}

message! {
    /// A capability that offers a list.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ListCapability {
        /// Whether changes of the list are announced.
        list_changed: bool = "listChanged", HintOrDefault;
    }
}

message! {
    /// The capability that offers resources.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ResourcesCapability {
        /// Whether changes of the list are announced.
        list_changed: bool = "listChanged", HintOrDefault;
        /// Whether changes of one resource can be subscribed to.
        subscribe: bool = "subscribe", HintOrDefault;
    }
}

impl ClientCapabilities {
    /// The same capabilities as `version` can express them: what it does not know is left out.
    ///
    /// Before 2025-11-25 there were only forms, so that a client that can only show URLs cannot ask a
    /// person at all there. Before 2026-07-28 there were neither tasks nor skills as extensions.
    #[must_use]
    pub fn for_version(&self, version: ProtocolVersion) -> Self {
        let mut known = self.clone();
        if version < ProtocolVersion::V2025_11_25 {
            known.elicitation = known.elicitation.filter(ElicitationCapability::has_form);
        }
        if version < ProtocolVersion::V2026_07_28 {
            known.extensions = known.extensions.map(legacy_extensions).filter(|left| !left.is_empty());
        }
        // Nothing in here is refused: a capability can always be left out.
        let _ = known.fit(version);
        known
    }
}

fn legacy_extensions(all: Entries<RawJson>) -> Entries<RawJson> {
    let left = all.iter().filter(|(identifier, _)| !extension::is_modern(identifier));
    left.map(|(identifier, settings)| (identifier.to_owned(), settings.clone())).collect()
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
    /// A method that needs no capability, or that this crate does not know, is always allowed. What
    /// counts as declared depends on `version`: the first one had no capability for completions.
    ///
    /// # Source
    ///
    /// MCP 2025-06-18 and later, basic/lifecycle: only negotiated capabilities may be used.
    #[must_use]
    pub fn allow(&self, method: &Method, version: ProtocolVersion) -> bool {
        match method.family() {
            Some(("completion", _)) => self.completions.is_some() || version < ProtocolVersion::V2025_03_26,
            Some(("logging", _)) => self.logging.is_some(),
            Some(("prompts", _)) => self.prompts.is_some(),
            Some(("resources", "directory/read") | ("skills", _)) => self.has_extension(extension::SKILLS),
            Some(("resources", "subscribe" | "unsubscribe")) => {
                self.resources.as_ref().is_some_and(|resources| resources.subscribe)
            }
            Some(("resources", _)) => self.resources.is_some(),
            Some(("tasks", _)) => self.tasks.is_some() || self.has_extension(extension::TASKS),
            Some(("tools", _)) => self.tools.is_some(),
            _ => true,
        }
    }

    /// Whether the server has declared the extension `identifier`.
    #[must_use]
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.get(identifier).is_some())
    }
}
