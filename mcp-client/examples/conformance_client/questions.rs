use mcp_client::ClientBuilder;
use mcp_proto::{CreateMessageResult, ElicitResult, SamplingContent};

/// Answers what servers ask their client, without a person or a model.
///
/// There is no folder, a model always says the same, and forms are accepted as they are proposed.
pub(crate) fn answer(client: ClientBuilder) -> ClientBuilder {
    client
        .roots([])
        .on_sampling(async |_, _| Ok(CreateMessageResult::new("none", SamplingContent::text("text"))))
        .on_elicitation(async |_, form| Ok(ElicitResult::accept(form.requested_schema.defaults())))
}
