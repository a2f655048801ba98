use crate::message::message;

message! {
    /// Names a client or server program; in all versions.
    ///
    /// Both name and version are empty when the peer did not say. Everything here is the peer's own
    /// claim: it identifies nothing.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic: `Implementation`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    Implementation {
        /// Name for machines.
        name: String = "name", OrDefault;
        /// Name for people.
        title: Option<String> = "title", Hint, since V2025_06_18;
        /// Version of the program, in its own form.
        version: String = "version", OrDefault;
        /// What the program is for.
        description: Option<String> = "description", Hint, since V2025_11_25;
        /// Where to read about it.
        website_url: Option<String> = "websiteUrl", Hint, since V2025_11_25;
        /// Pictures of it.
        icons: Option<Vec<Icon>> = "icons", Hint, since V2025_11_25;
    }
}

message! {
    /// A picture to show beside a name (since 2025-11-25).
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic: `Icon`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    Icon {
        /// Where the picture is: an `https:` or `data:` URI, untrusted.
        src: String = "src", Required;
        /// Its media type.
        mime_type: Option<String> = "mimeType", Hint;
        /// Its sizes, `48x48` or `any`.
        sizes: Option<Vec<String>> = "sizes", Hint;
        /// The background it is made for, `dark` or `light`.
        theme: Option<String> = "theme", Hint;
    }
}

impl Implementation {
    /// Names a program.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// Adds the name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}
