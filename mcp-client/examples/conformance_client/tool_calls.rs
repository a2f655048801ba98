use mcp_proto::{CallTool, RawJson};

use crate::Outcome;
use crate::order::ToolCall;
use crate::stage::Stage;

/// Makes the calls that the suite gives, one after another.
pub(crate) async fn run(stage: &Stage, calls: &[ToolCall]) -> Outcome<()> {
    for ToolCall { name, arguments } in calls {
        let call = CallTool::new(name);
        stage
            .ask(match arguments {
                None => call,
                Some(arguments) => call.with_arguments(RawJson::from(arguments.clone())),
            })
            .await?;
    }
    Ok(())
}
