use mcp_client::render;
use mcp_proto::{GetPrompt, GetPromptResult, RawJson};

use super::{Context, ask};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::output::{safe, safe_lines};
use crate::problem::Problem;
use crate::words::{Words, prompt_arguments};

/// Fills one prompt in.
pub(crate) async fn run(context: &Context, target: &TargetArgs) -> Result<Exit, Problem> {
    let words = Words::split(&target.words, !target.program.is_empty(), "NAME")?;
    let arguments = prompt_arguments(words.arguments)?;
    let request = |_: &_| Ok(GetPrompt::new(words.name).with_arguments(arguments));
    let server = context.server(target, words.server)?;
    let answer = ask(context, target, server, |options| options, request).await?;
    answer.print(&context.output, ("prompt", words.name), |_| false, show)
}

fn show(result: &RawJson) -> Result<String, Problem> {
    let result: GetPromptResult = result
        .decode()
        .map_err(|error| Problem::new(Exit::Failed, format!("the answer is not a prompt: {error}")))?;
    let turn = |message: &mcp_proto::PromptMessage| {
        let text = render::blocks(std::slice::from_ref(&message.content));
        format!("{}: {}", safe(message.role.as_str()), safe_lines(&text))
    };
    Ok(result.messages.iter().map(turn).collect::<Vec<_>>().join("\n"))
}
