use mcp_proto::{ListResources, Resource};
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
    /// Lists the resources of a server: `{"server", "timeout_ms"?}`.
    ///
    /// Success is `{"resources":[{"uri","name","description"?,"mimeType"?}]}`; `"truncated": true`
    /// stands beside it if the server had more than the limits allow.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call; the server is told.
    pub async fn list_resources(&self, arguments: &str) -> String {
        let outcome = self.list_resources_parsed(arguments).await;
        self.finish(outcome)
    }

    async fn list_resources_parsed(&self, arguments: &str) -> Result<Value, Failure> {
        let Arguments { server, timeout_ms } = parse(arguments)?;
        let listed = self.ask_for_list::<ListResources>(&server, timeout_ms.check(&server)?).await?;
        let mut out = json!({"resources": listed.items.iter().map(entry).collect::<Vec<_>>()});
        super::mark_truncated(&mut out, listed.truncated.is_some());
        Ok(out)
    }
}

fn entry(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("uri".to_owned(), json!(resource.uri));
    entry.insert("name".to_owned(), json!(resource.name));
    super::insert_text(&mut entry, "description", resource.description.as_deref());
    super::insert_text(&mut entry, "mimeType", resource.mime_type.as_deref());
    Value::Object(entry)
}
