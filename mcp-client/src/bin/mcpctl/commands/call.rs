use std::io::{self, IsTerminal};

use mcp_client::render;
use mcp_lifecycle::ServerHandle;
use mcp_proto::{CallTool, CallToolResult, Progress, RawJson};
use serde_json::Value;

use super::{Context, ask};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::output::{Output, safe, safe_lines};
use crate::problem::Problem;
use crate::words::{Words, tool_arguments};

/// Calls one tool.
pub(crate) async fn run(context: &Context, target: &TargetArgs) -> Result<Exit, Problem> {
    let words = Words::split(&target.words, !target.program.is_empty(), "TOOL")?;
    // A slip in the arguments is told before anything is started.
    tool_arguments(words.arguments, &Value::Null)?;
    let server = context.server(target, words.server)?;
    if !server.settings.tools.allows(words.name) {
        return Err(excluded(&server.name, words.name));
    }
    let output = context.output.clone();
    let answer = ask(
        context,
        target,
        server,
        |options| match io::stderr().is_terminal() && !output.is_json() {
            true => options.with_progress({
                let output = output.clone();
                move |progress| show_progress(&output, &progress)
            }),
            false => options,
        },
        |server| {
            let arguments = tool_arguments(words.arguments, &schema(server, words.name))?;
            Ok(CallTool::new(words.name).with_arguments(arguments))
        },
    )
    .await?;
    answer.print(&output, ("tool", words.name), says_error, show)
}

/// The tool is there, perhaps, but the configuration keeps it from being called.
fn excluded(server: &str, tool: &str) -> Problem {
    let (server, tool) = (safe(server), safe(tool));
    Problem::usage(format!(
        "server \"{server}\": the configuration excludes the tool \"{tool}\"; \
         change \"includeTools\" or \"excludeTools\" to call it"
    ))
}

/// The schema of the tool's arguments, as the server gave it; null if it has no such tool.
fn schema(server: &ServerHandle, tool: &str) -> Value {
    let lists = server.lists();
    let found = lists.as_ref().and_then(|lists| lists.tools.items.iter().find(|known| known.name == tool));
    found.and_then(|tool| tool.input_schema.decode().ok()).unwrap_or_default()
}

fn says_error(result: &RawJson) -> bool {
    result.decode::<CallToolResult>().is_ok_and(|result| result.is_error)
}

fn show(result: &RawJson) -> Result<String, Problem> {
    let result: CallToolResult = result
        .decode()
        .map_err(|error| Problem::new(Exit::Failed, format!("the answer is not a tool result: {error}")))?;
    Ok(match render::blocks(&result.content) {
        text if text.is_empty() => match &result.structured_content {
            Some(structured) => safe_lines(structured.get()),
            None => "(the tool returned nothing)".to_owned(),
        },
        text => safe_lines(&text),
    })
}

fn show_progress(output: &Output, progress: &Progress) {
    let total = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
    let message =
        progress.message.as_deref().map(|message| format!(" {}", safe(message))).unwrap_or_default();
    output.message(format!("progress {}{total}{message}", progress.progress));
}
