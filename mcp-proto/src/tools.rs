use crate::content::Content;
use crate::implementation::Icon;
use crate::list::list;
use crate::message::message;
use crate::method::Method;
use crate::open_enum::open_enum;
use crate::other_members::OtherMembers;
use crate::raw_json::RawJson;
use crate::request::Request;
use crate::result_type::ResultType;
use crate::tasks::TaskRequest;

list! {
    /// Lists the tools of a server, one page at a time; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/tools: `tools/list`.
    ListTools = TOOLS_LIST;
    /// One page of [`ListTools`].
    ListToolsResult {
        /// The tools, in the order of the server.
        tools: Vec<Tool> = "tools";
    }
}

message! {
    /// Something a server can do when asked.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/tools: `Tool`.
    #[derive(Debug, Clone, PartialEq)]
    Tool {
        /// Name to call it by, case-sensitive, untrusted.
        name: String = "name", Required;
        /// Name for people.
        title: Option<String> = "title", Hint, since V2025_06_18;
        /// What it does, for a model to read; untrusted.
        description: Option<String> = "description", Hint;
        /// JSON Schema of the arguments, as received; `null` where the server wrote none.
        input_schema: RawJson = "inputSchema", OrNull;
        /// JSON Schema of the structured content, as received; of an object until 2025-11-25.
        output_schema: Option<RawJson> = "outputSchema", Optional, since V2025_06_18;
        /// What the server says of its behaviour; untrusted.
        annotations: Option<ToolAnnotations> = "annotations", Hint, since V2025_03_26;
        /// How it can be run.
        execution: Option<Box<ToolExecution>> = "execution", Hint, only V2025_11_25;
        /// Pictures of it.
        icons: Option<Vec<Icon>> = "icons", Hint, since V2025_11_25;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

message! {
    /// What a server claims about a tool's behaviour (since 2025-03-26).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ToolAnnotations {
        /// Name for people, of the time before [`Tool::title`].
        title: Option<String> = "title", Hint;
        /// It changes nothing.
        read_only_hint: Option<bool> = "readOnlyHint", Hint;
        /// It may destroy something.
        destructive_hint: Option<bool> = "destructiveHint", Hint;
        /// Repeating a call changes nothing more.
        idempotent_hint: Option<bool> = "idempotentHint", Hint;
        /// It touches things outside the server's own world.
        open_world_hint: Option<bool> = "openWorldHint", Hint;
    }
}

message! {
    /// How a tool can be run (2025-11-25 only).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ToolExecution {
        /// Whether a call may ask for a task; `None` means [`TaskSupport::Forbidden`].
        task_support: Option<TaskSupport> = "taskSupport", Hint;
    }
}

open_enum! {
    /// Whether a call of a tool may ask for a task (2025-11-25 only).
    TaskSupport {
        /// It must not.
        Forbidden = "forbidden",
        /// It may.
        Optional = "optional",
        /// It must.
        Required = "required",
    }
}

message! {
    /// Runs a tool; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/tools: `tools/call`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    CallTool skipping "_meta" {
        /// The tool's name, exactly as listed.
        name: String = "name", Required;
        /// Its arguments, an object.
        arguments: Option<RawJson> = "arguments", Optional;
        /// Asks for a task instead of a result.
        task: Option<TaskRequest> = "task", Optional, only V2025_11_25;
    }
}

message! {
    /// The answer to [`CallTool`].
    #[derive(Debug, Clone, Default, PartialEq)]
    CallToolResult {
        /// What kind of result it is.
        result_type: Option<ResultType> = "resultType", Hint, since V2026_07_28;
        /// What the tool says, in blocks.
        content: Vec<Content> = "content", Nullable;
        /// The same as a JSON value, as received; `Some` of `null` is a value. An object until 2025-11-25.
        structured_content: Option<RawJson> = "structuredContent", Present, since V2025_06_18;
        /// Whether the tool ran and failed; `content` then tells why.
        is_error: bool = "isError", Nullable;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

impl CallTool {
    /// Calls `name` without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), arguments: None, task: None, other: OtherMembers::default() }
    }

    /// Gives the arguments, which must be an object.
    #[must_use]
    pub fn with_arguments(mut self, arguments: RawJson) -> Self {
        self.arguments = Some(arguments);
        self
    }
}

impl Request for CallTool {
    const METHOD: Method = Method::TOOLS_CALL;
    type Result = CallToolResult;

    fn mirrored_name(&self) -> Option<&str> {
        Some(&self.name)
    }
}
