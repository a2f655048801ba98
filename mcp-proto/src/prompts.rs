use std::collections::BTreeMap;

use crate::content::{Content, Role};
use crate::implementation::Icon;
use crate::list::list;
use crate::message::message;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::raw_json::RawJson;
use crate::request::Request;
use crate::result_type::ResultType;

list! {
    /// Lists the prompts of a server, one page at a time; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/prompts: `prompts/list`.
    ListPrompts = PROMPTS_LIST;
    /// One page of [`ListPrompts`].
    ListPromptsResult {
        /// The prompts, in the order of the server.
        prompts: Vec<Prompt> = "prompts";
    }
}

message! {
    /// A text with gaps that a server fills in.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/prompts: `Prompt`.
    #[derive(Debug, Clone, PartialEq)]
    Prompt {
        /// Name to ask for it by, untrusted.
        name: String = "name", Required;
        /// Name for people.
        title: Option<String> = "title", Hint, since V2025_06_18;
        /// What it is for; untrusted.
        description: Option<String> = "description", Hint;
        /// Its gaps.
        arguments: Vec<PromptArgument> = "arguments", Sparse;
        /// Pictures of it.
        icons: Option<Vec<Icon>> = "icons", Hint, since V2025_11_25;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

message! {
    /// One gap of a prompt.
    #[derive(Debug, Clone, PartialEq, Eq)]
    PromptArgument {
        /// Name to give its value by.
        name: String = "name", Required;
        /// Name for people.
        title: Option<String> = "title", Hint, since V2025_06_18;
        /// What belongs in it; untrusted.
        description: Option<String> = "description", Hint;
        /// Whether it must be given.
        required: Option<bool> = "required", Hint;
    }
}

message! {
    /// Fills a prompt in; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/prompts: `prompts/get`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    GetPrompt skipping "_meta" {
        /// The prompt's name, exactly as listed.
        name: String = "name", Required;
        /// What to fill its gaps with.
        arguments: Option<BTreeMap<String, String>> = "arguments", Optional;
    }
}

message! {
    /// The answer to [`GetPrompt`].
    #[derive(Debug, Clone, Default, PartialEq)]
    GetPromptResult {
        /// What kind of result it is.
        result_type: Option<ResultType> = "resultType", Hint, since V2026_07_28;
        /// What the prompt is for; untrusted.
        description: Option<String> = "description", Hint;
        /// The text, as a conversation.
        messages: Vec<PromptMessage> = "messages", List;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// One turn of a prompt.
    #[derive(Debug, Clone, PartialEq)]
    PromptMessage {
        /// Who speaks.
        role: Role = "role", Required;
        /// What is said.
        content: Content = "content", Required;
    }
}

impl GetPrompt {
    /// Asks for `name` without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), arguments: None, other: OtherMembers::default() }
    }

    /// Gives the arguments.
    #[must_use]
    pub fn with_arguments(mut self, arguments: BTreeMap<String, String>) -> Self {
        self.arguments = Some(arguments);
        self
    }
}

impl Request for GetPrompt {
    const METHOD: Method = Method::PROMPTS_GET;
    type Result = GetPromptResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.name)
    }
}
