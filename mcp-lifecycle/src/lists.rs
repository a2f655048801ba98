use mcp_proto::{
    ListPrompts, ListResourceTemplates, ListResources, ListTools, Paginated, Prompt, RejectedTool, Request,
    Resource, ResourceTemplate, Tool, code,
};
use mcp_session::{CallError, CallOptions, ListLimits, Listed, Session};
use tokio::time::Instant;

use crate::failure::Failure;

/// What a server offers, as it said when it became ready; of its tools, as it said last.
///
/// A list that the server does not declare is empty. One that was too long, or too slow after its
/// first page, says so in its `truncated`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Lists {
    /// Its tools.
    pub tools: Listed<Tool>,
    /// Tools that are left out of [`tools`](Self::tools), see [`Session::rejected_tools`].
    pub rejected_tools: Vec<RejectedTool>,
    /// Its resources.
    pub resources: Listed<Resource>,
    /// Its resource templates.
    pub templates: Listed<ResourceTemplate>,
    /// Its prompts.
    pub prompts: Listed<Prompt>,
}

impl Lists {
    /// Fetches every list that the server declares; the first page of each must come before `by`.
    pub(crate) async fn fetch(session: &Session, limits: ListLimits, by: Instant) -> Result<Self, Failure> {
        let declared = &session.peer().capabilities;
        let (tools, resources) = (declared.tools.is_some(), declared.resources.is_some());
        let prompts = declared.prompts.is_some();
        let fetch = Fetch { session, limits, by };
        Ok(Self {
            tools: fetch.list::<ListTools>(tools).await?,
            rejected_tools: session.rejected_tools(),
            resources: fetch.list::<ListResources>(resources).await?,
            templates: fetch.list::<ListResourceTemplates>(resources).await?,
            prompts: fetch.list::<ListPrompts>(prompts).await?,
        })
    }
}

struct Fetch<'a> {
    session: &'a Session,
    limits: ListLimits,
    by: Instant,
}

impl Fetch<'_> {
    async fn list<R: Paginated>(&self, declared: bool) -> Result<Listed<R::Item>, Failure> {
        if !declared {
            return Ok(Listed::default());
        }
        let options = CallOptions::default().with_deadline(self.by);
        match self.session.list::<R>(options, self.limits).await {
            // Many servers declare a capability and do not know all of its lists.
            Err(CallError::Peer(error)) if error.code == code::METHOD_NOT_FOUND => {
                tracing::debug!(method = %<R as Request>::METHOD, "declared, but not known to the server");
                Ok(Listed::default())
            }
            Err(error) => Err(Failure::List { method: <R as Request>::METHOD, error }),
            Ok(list) => Ok(list),
        }
    }
}
