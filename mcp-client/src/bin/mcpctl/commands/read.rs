use mcp_client::render;
use mcp_proto::{RawJson, ReadResource, ReadResourceResult};

use super::{Context, ask};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::output::safe_lines;
use crate::problem::Problem;
use crate::words::Words;

/// Reads one resource.
pub(crate) async fn run(context: &Context, target: &TargetArgs) -> Result<Exit, Problem> {
    let words = Words::split(&target.words, !target.program.is_empty(), "URI")?.without_arguments()?;
    let request = |_: &_| Ok(ReadResource::new(words.name));
    let server = context.server(target, words.server)?;
    let answer = ask(context, target, server, |options| options, request).await?;
    answer.print(&context.output, ("uri", words.name), |_| false, show)
}

fn show(result: &RawJson) -> Result<String, Problem> {
    let result: ReadResourceResult = result
        .decode()
        .map_err(|error| Problem::new(Exit::Failed, format!("the answer is not a resource: {error}")))?;
    let parts: Vec<String> = result.contents.iter().map(|part| safe_lines(&render::contents(part))).collect();
    Ok(parts.join("\n"))
}
