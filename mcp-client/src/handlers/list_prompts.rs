use mcp_proto::{ListPrompts, Prompt, PromptArgument};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Handlers, TimeLimit, parse};
use crate::outcome::Failure;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    server: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Handlers {
    /// Lists the prompts of a server: `{"server", "timeout_ms"?}`.
    ///
    /// Success is `{"prompts":[{"name","description"?,"arguments"?:[{"name","description"?,
    /// "required"?}]}]}`; `"truncated": true` stands beside it if the server had more than the limits
    /// allow.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call; the server is told.
    pub async fn list_prompts(&self, arguments: &str) -> String {
        let outcome = self.list_prompts_parsed(arguments).await;
        self.finish(outcome)
    }

    async fn list_prompts_parsed(&self, arguments: &str) -> Result<Value, Failure> {
        let Arguments { server, timeout_ms } = parse(arguments)?;
        let listed = self.ask_for_list::<ListPrompts>(&server, timeout_ms.check(&server)?).await?;
        let mut out = json!({"prompts": listed.items.iter().map(entry).collect::<Vec<_>>()});
        super::mark_truncated(&mut out, listed.truncated.is_some());
        Ok(out)
    }
}

fn entry(prompt: &Prompt) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(prompt.name));
    super::insert_text(&mut entry, "description", prompt.description.as_deref());
    if !prompt.arguments.is_empty() {
        let arguments: Vec<Value> = prompt.arguments.iter().map(argument).collect();
        entry.insert("arguments".to_owned(), Value::Array(arguments));
    }
    Value::Object(entry)
}

fn argument(argument: &PromptArgument) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(argument.name));
    super::insert_text(&mut entry, "description", argument.description.as_deref());
    if let Some(required) = argument.required {
        entry.insert("required".to_owned(), json!(required));
    }
    Value::Object(entry)
}
