use mcp_proto::ReadResource;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Handlers, TimeLimit, parse};
use crate::outcome::Failure;
use crate::render;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    server: String,
    uri: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Handlers {
    /// Reads a resource: `{"server", "uri", "timeout_ms"?}`.
    ///
    /// Success is `{"result": text}`: its parts one below the other. Parts that are no text leave a
    /// notice with type and size.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call; the server is told.
    pub async fn read_resource(&self, arguments: &str) -> String {
        let outcome = self.read_resource_parsed(arguments).await;
        self.finish(outcome)
    }

    async fn read_resource_parsed(&self, arguments: &str) -> Result<Value, Failure> {
        let Arguments { server, uri, timeout_ms } = parse(arguments)?;
        let result = self.ask(&server, ReadResource::new(uri), timeout_ms.check(&server)?).await?;
        let parts: Vec<String> = result.contents.iter().map(render::contents).collect();
        Ok(json!({"result": render::shortened(parts.join("\n"))}))
    }
}
