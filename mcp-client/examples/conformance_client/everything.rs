use std::collections::BTreeMap;

use mcp_proto::{CallTool, GetPrompt, Prompt, RawJson, ReadResource};
use serde_json::Value;

use crate::Outcome;
use crate::arguments;
use crate::stage::Stage;

/// Uses all that the server offers: calls each tool, reads each resource, gets each prompt.
pub(crate) async fn run(stage: &Stage) -> Outcome<()> {
    for offered in stage.client.registry().tools() {
        let schema = offered.tool.input_schema.decode().unwrap_or(Value::Null);
        let arguments = RawJson::encode(&arguments::from_schema(&schema))?;
        stage.ask(CallTool::new(&offered.tool.name).with_arguments(arguments)).await?;
    }
    let lists = stage.server.lists().ok_or("the server is not ready any more")?;
    for resource in &lists.resources.items {
        stage.ask(ReadResource::new(&resource.uri)).await?;
    }
    for prompt in &lists.prompts.items {
        stage.ask(GetPrompt::new(&prompt.name).with_arguments(gaps(prompt))).await?;
    }
    Ok(())
}

/// A text for each gap that must be filled.
fn gaps(prompt: &Prompt) -> BTreeMap<String, String> {
    let required = prompt.arguments.iter().filter(|argument| argument.required == Some(true));
    required.map(|argument| (argument.name.clone(), "text".to_owned())).collect()
}
