use mcp_proto::{CallTool, RawJson};
use serde::Serialize;

use crate::Outcome;
use crate::stage::Stage;

/// The tool whose schema is sent back, and the one that takes it.
const SOURCE: &str = "json_schema_2020_12_tool";
const ECHO: &str = "json_schema_echo";

/// The arguments of the tool that takes a schema.
#[derive(Serialize)]
struct Arguments<'a> {
    schema: &'a RawJson,
}

/// Sends the schema of one tool to another one, as it was received.
pub(crate) async fn run(stage: &Stage) -> Outcome<()> {
    let registry = stage.client.registry();
    let source = registry.tools().iter().find(|offered| offered.tool.name == SOURCE);
    let schema = &source.ok_or_else(|| format!("there is no tool {SOURCE}"))?.tool.input_schema;
    stage.ask(CallTool::new(ECHO).with_arguments(RawJson::encode(&Arguments { schema })?)).await
}
