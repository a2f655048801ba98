use mcp_proto::{CallTool, CallToolResult, RawJson};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Handlers, TimeLimit, parse};
use crate::outcome::Failure;
use crate::render;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The minted name; or `server` and `tool`.
    name: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    arguments: Option<RawJson>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Handlers {
    /// Calls a tool: `{"name"}` or `{"server","tool"}`, and `"arguments"?`, `"timeout_ms"?`.
    ///
    /// `name` is a name from the registry, `tool` the server's own one.
    /// Success is `{"result": text}`, with `"structuredContent"` beside it if the tool gave both, or
    /// `{"result": value}` if it gave no text.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call; the server is told.
    pub async fn call_tool(&self, arguments: &str) -> String {
        let outcome = self.call_tool_parsed(arguments).await;
        self.finish(outcome)
    }

    async fn call_tool_parsed(&self, arguments: &str) -> Result<Value, Failure> {
        let arguments: Arguments = parse(arguments)?;
        let (server, tool) = self.meant(&arguments)?;
        let limit = arguments.timeout_ms.check(&server)?;
        if arguments.arguments.as_ref().is_some_and(|arguments| !arguments.is_object()) {
            return Err(Failure::arguments(Some(&server), "\"arguments\" must be an object"));
        }
        // A server that can be seen has its filter; one that comes after this line was not there.
        self.server(&server)?;
        if !self.shared.allows(&server, &tool) {
            return Err(Failure::filtered_tool(&server, &tool));
        }
        let mut request = CallTool::new(tool.as_str());
        request.arguments = arguments.arguments;
        let result = self.ask(&server, request, limit).await?;
        rendered(&server, &tool, &result)
    }

    /// Which tool of which server is meant.
    fn meant(&self, arguments: &Arguments) -> Result<(String, String), Failure> {
        match (&arguments.name, &arguments.server, &arguments.tool) {
            (Some(name), None, None) => self.shared.owner_of(name).ok_or_else(|| Failure::unknown_tool(name)),
            (None, Some(server), Some(tool)) => Ok((server.clone(), tool.clone())),
            (_, server, _) => {
                let what = "give either \"name\", or \"server\" and \"tool\"";
                Err(Failure::arguments(server.as_deref(), what))
            }
        }
    }
}

fn rendered(server: &str, tool: &str, result: &CallToolResult) -> Result<Value, Failure> {
    let text = render::blocks(&result.content);
    if result.is_error {
        return Err(Failure::tool(server, tool, &text));
    }
    let structured = result.structured_content.as_ref().and_then(|raw| raw.decode::<Value>().ok());
    Ok(match structured {
        Some(structured) if text.is_empty() => json!({"result": structured}),
        Some(structured) => json!({"result": text, "structuredContent": structured}),
        None => json!({"result": text}),
    })
}
