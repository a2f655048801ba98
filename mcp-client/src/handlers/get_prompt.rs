use std::collections::BTreeMap;

use mcp_proto::{GetPrompt, PromptMessage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Handlers, TimeLimit, parse};
use crate::outcome::Failure;
use crate::render;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    server: String,
    name: String,
    arguments: Option<BTreeMap<String, String>>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Handlers {
    /// Fills a prompt in: `{"server", "name", "arguments"?, "timeout_ms"?}`.
    ///
    /// Arguments are texts. Success is `{"messages":[{"role","content"}],"description"?}`, where a
    /// content is a text.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call; the server is told.
    pub async fn get_prompt(&self, arguments: &str) -> String {
        let outcome = self.get_prompt_parsed(arguments).await;
        self.finish(outcome)
    }

    async fn get_prompt_parsed(&self, arguments: &str) -> Result<Value, Failure> {
        let Arguments { server, name, arguments, timeout_ms } = parse(arguments)?;
        let request = GetPrompt::new(name).with_arguments(arguments.unwrap_or_default());
        let result = self.ask(&server, request, timeout_ms.check(&server)?).await?;
        let mut out = Map::new();
        out.insert("messages".to_owned(), result.messages.iter().map(message).collect());
        super::insert_text(&mut out, "description", result.description.as_deref());
        Ok(Value::Object(out))
    }
}

fn message(message: &PromptMessage) -> Value {
    json!({"role": message.role.as_str(), "content": render::shortened(render::block(&message.content))})
}
