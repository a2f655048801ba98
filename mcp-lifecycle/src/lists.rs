use std::num::NonZeroUsize;
use std::time::Duration;

use mcp_proto::{
    ListPrompts, ListResourceTemplates, ListResources, ListTools, Paginated, Prompt, RejectedTool, Request,
    Resource, ResourceTemplate, Tool, code,
};
use mcp_session::{CallError, CallOptions, ListKind, ListLimits, Listed, Session, Truncated};
use mcp_transport::Dispatch;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::failure::Failure;

/// How many lists a server can have.
const LISTS: usize = 4;

/// What a server offers, as it said last: when it became ready, or when it told that a list has changed.
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
    /// Fetches every list that the server declares, `at_once` of them at a time; the first page of each
    /// must come before `by`.
    pub(crate) async fn fetch(
        session: &Session,
        limits: ListLimits,
        at_once: NonZeroUsize,
        by: Instant,
    ) -> Result<Self, Failure> {
        let declared = &session.peer().capabilities;
        let (tools, resources) = (declared.tools.is_some(), declared.resources.is_some());
        let prompts = declared.prompts.is_some();
        let fetch = Fetch { session, limits, turns: Semaphore::new(at_once.get().min(LISTS)), by };
        let (tools, resources, templates, prompts) = tokio::try_join!(
            biased;
            fetch.list::<ListTools>(tools),
            fetch.list::<ListResources>(resources),
            fetch.list::<ListResourceTemplates>(resources),
            fetch.list::<ListPrompts>(prompts),
        )?;
        Ok(Self { tools, rejected_tools: session.rejected_tools(), resources, templates, prompts })
    }

    /// The same lists with this part as it is now; `None` if that is how it was.
    pub(crate) fn with(&self, part: Part) -> Option<Self> {
        let mut lists = self.clone();
        let has_changed = match part {
            Part::Prompts(prompts) => replace(&mut lists.prompts, prompts),
            Part::Resources(resources, templates) => {
                let has_changed = replace(&mut lists.resources, resources);
                replace(&mut lists.templates, templates) || has_changed
            }
            Part::Tools(tools, rejected_tools) => {
                let has_changed = replace(&mut lists.tools, tools);
                replace(&mut lists.rejected_tools, rejected_tools) || has_changed
            }
        };
        has_changed.then_some(lists)
    }

    /// Whether the server declares a list of this kind.
    pub(crate) fn are_declared(session: &Session, kind: ListKind) -> bool {
        let declared = &session.peer().capabilities;
        match kind {
            ListKind::Prompts => declared.prompts.is_some(),
            ListKind::Resources => declared.resources.is_some(),
            ListKind::Tools => declared.tools.is_some(),
            _ => false,
        }
    }
}

/// Puts `new` in the place of `old`; tells whether they differ.
fn replace<T: PartialEq>(old: &mut T, new: T) -> bool {
    std::mem::replace(old, new) != *old
}

/// What one kind of list holds, fetched anew.
#[derive(Debug)]
pub(crate) enum Part {
    Prompts(Listed<Prompt>),
    Resources(Listed<Resource>, Listed<ResourceTemplate>),
    Tools(Listed<Tool>, Vec<RejectedTool>),
}

impl Part {
    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Prompts(prompts) => prompts.items.len(),
            Self::Resources(resources, templates) => resources.items.len() + templates.items.len(),
            Self::Tools(tools, _) => tools.items.len(),
        }
    }
}

struct Fetch<'a> {
    session: &'a Session,
    limits: ListLimits,
    /// One for each list that may be under way.
    turns: Semaphore,
    by: Instant,
}

impl Fetch<'_> {
    async fn list<R: Paginated>(&self, declared: bool) -> Result<Listed<R::Item>, Failure> {
        if !declared {
            return Ok(Listed::default());
        }
        // Never closed, so that nothing but a turn comes of it.
        let _turn = self.turns.acquire().await;
        let options = CallOptions::default().with_deadline(self.by);
        let listed = self.session.list::<R>(options, self.limits).await;
        or_nothing::<R>(listed).map_err(|error| Failure::List { method: <R as Request>::METHOD, error })
    }
}

/// Many servers declare a capability and do not know all of its lists: those are empty.
pub(crate) fn or_nothing<R: Paginated>(
    listed: Result<Listed<R::Item>, CallError>,
) -> Result<Listed<R::Item>, CallError> {
    match listed {
        Err(CallError::Peer(error)) if error.code == code::METHOD_NOT_FOUND => {
            tracing::debug!(method = %<R as Request>::METHOD, "declared, but not known to the server");
            Ok(Listed::default())
        }
        listed => listed,
    }
}

/// A list that is known must not be replaced by the part of a new one that has come in time.
pub(crate) fn keep_whole<T>(listed: Listed<T>, limit: Duration) -> Result<Listed<T>, CallError> {
    match listed.truncated {
        Some(Truncated::Deadline) => {
            Err(CallError::Timeout { dispatch: Dispatch::MayHaveLeft, waited: limit })
        }
        _ => Ok(listed),
    }
}
