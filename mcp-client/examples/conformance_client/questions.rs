use async_trait::async_trait;
use mcp_proto::{
    ClientCapabilities, CreateMessage, CreateMessageResult, Elicit, ElicitResult, ElicitationCapability,
    ErrorObject, ListRootsResult, RootsCapability, SamplingCapability, SamplingContent,
};
use mcp_session::{Asker, ClientHandler};

/// Answers what the server asks its client, without a person or a model.
///
/// Forms are accepted as they are proposed, no URL is opened, a model always says the same, and there
/// is no folder.
#[derive(Debug)]
pub(crate) struct Questions;

#[async_trait]
impl ClientHandler for Questions {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::form());
        capabilities.roots = Some(RootsCapability::default());
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities
    }

    async fn list_roots(&self, _: &Asker) -> Result<ListRootsResult, ErrorObject> {
        Ok(ListRootsResult::new(Vec::new()))
    }

    async fn create_message(&self, _: &Asker, _: CreateMessage) -> Result<CreateMessageResult, ErrorObject> {
        Ok(CreateMessageResult::new("none", SamplingContent::text("text")))
    }

    async fn elicit(&self, _: &Asker, request: Elicit) -> Result<ElicitResult, ErrorObject> {
        Ok(match request {
            Elicit::Form(form) => ElicitResult::accept(form.requested_schema.defaults()),
            _ => ElicitResult::decline(),
        })
    }
}
