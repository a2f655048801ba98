//! A small MCP server without any I/O, for both eras.

mod catalog;
mod log;
mod state;
mod tools;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

pub use log::{Execution, ServerLog};
pub use state::Server;

use crate::error::Exit;

/// Describes a server; [`start`](Self::start) makes the state machine for one connection.
///
/// Out of the box it has the tools `echo`, `stats`, `hang`, `fail`, `error` and `crash`, three
/// resources, one template and two prompts, each list in one page. All servers that were started from
/// clones of one script write to one [`ServerLog`].
#[derive(Debug, Clone)]
pub struct ServerScript {
    era: ServerEra,
    name: String,
    tools: Vec<(String, ToolBehaviour)>,
    /// By tool, where it is not the one that all have.
    input_schemas: BTreeMap<String, Value>,
    extra_tools: usize,
    resources: usize,
    prompts: usize,
    page_size: usize,
    flood: usize,
    crash_before_initialize: Option<Exit>,
    log: ServerLog,
}

/// Which vocabulary a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEra {
    /// Whichever the client begins with.
    Both,
    /// `initialize`; knows no `server/discover`.
    Legacy,
    /// `server/discover` and `_meta` on every request; knows no `initialize`.
    Modern,
}

/// What a tool does when it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolBehaviour {
    /// Ends the connection without an answer.
    Crash(Exit),
    /// Answers `message`, or `payload` letters, after `delay_ms`; reports `progress` times before that.
    Echo,
    /// Answers with a JSON-RPC error of this code.
    Error(i64),
    /// Answers with a result that is marked as an error.
    Fail,
    /// Never answers.
    Hang,
    /// As `Echo`, after this time.
    Slow(Duration),
    /// Answers the counters of the server as JSON: `{"calls":N,"cancelled":N,"answered":N}`.
    Stats,
}

impl ServerScript {
    /// A server of this era with the standard tools.
    #[must_use]
    pub fn new(era: ServerEra) -> Self {
        let standard = [
            ("echo", ToolBehaviour::Echo),
            ("stats", ToolBehaviour::Stats),
            ("hang", ToolBehaviour::Hang),
            ("fail", ToolBehaviour::Fail),
            ("error", ToolBehaviour::Error(mcp_proto::code::INTERNAL_ERROR)),
            ("crash", ToolBehaviour::Crash(Exit::Signal(11))),
        ];
        Self {
            era,
            name: "fixture".to_owned(),
            tools: standard.into_iter().map(|(name, tool)| (name.to_owned(), tool)).collect(),
            input_schemas: BTreeMap::new(),
            extra_tools: 0,
            resources: 3,
            prompts: 2,
            page_size: 0,
            flood: 0,
            crash_before_initialize: None,
            log: ServerLog::default(),
        }
    }

    /// A legacy server with the standard tools.
    #[must_use]
    pub fn legacy() -> Self {
        Self::new(ServerEra::Legacy)
    }

    /// A modern server with the standard tools.
    #[must_use]
    pub fn modern() -> Self {
        Self::new(ServerEra::Modern)
    }

    /// The vocabulary it speaks.
    #[must_use]
    pub fn with_era(mut self, era: ServerEra) -> Self {
        self.era = era;
        self
    }

    /// The name it gives itself.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a tool, or changes what one does.
    #[must_use]
    pub fn with_tool(mut self, name: impl Into<String>, behaviour: ToolBehaviour) -> Self {
        let name = name.into();
        self.tools.retain(|(known, _)| *known != name);
        self.tools.push((name, behaviour));
        self
    }

    /// Lists a tool with this input schema instead of the one that all have.
    #[must_use]
    pub fn with_input_schema(mut self, tool: impl Into<String>, schema: Value) -> Self {
        self.input_schemas.insert(tool.into(), schema);
        self
    }

    /// Lists this many more tools, of about 600 bytes each; they echo.
    #[must_use]
    pub fn with_extra_tools(mut self, tools: usize) -> Self {
        self.extra_tools = tools;
        self
    }

    /// How many resources there are; 0: the server declares none.
    #[must_use]
    pub fn with_resources(mut self, resources: usize) -> Self {
        self.resources = resources;
        self
    }

    /// How many prompts there are; 0: the server declares none.
    #[must_use]
    pub fn with_prompts(mut self, prompts: usize) -> Self {
        self.prompts = prompts;
        self
    }

    /// How many entries a page of a list has; 0: one page.
    #[must_use]
    pub fn with_page_size(mut self, entries: usize) -> Self {
        self.page_size = entries;
        self
    }

    /// How many log notifications precede each answer to a tool call.
    #[must_use]
    pub fn with_flood(mut self, notifications: usize) -> Self {
        self.flood = notifications;
        self
    }

    /// Ends like this on any request before `initialize`, as some legacy servers do.
    #[must_use]
    pub fn with_crash_before_initialize(mut self, exit: Exit) -> Self {
        self.crash_before_initialize = Some(exit);
        self
    }

    /// Whether it knows the modern vocabulary.
    #[must_use]
    pub fn speaks_modern(&self) -> bool {
        self.era != ServerEra::Legacy
    }

    /// What all servers started from this script and its clones have seen.
    #[must_use]
    pub fn log(&self) -> ServerLog {
        self.log.clone()
    }

    /// The server for one connection.
    #[must_use]
    pub fn start(&self) -> Server {
        Server::new(self.clone(), self.log.open())
    }
}
