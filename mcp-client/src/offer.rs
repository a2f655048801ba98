use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_lifecycle::{Lists, ServerHandle};
use mcp_proto::escape;

use crate::config::ToolFilter;
use crate::registry::{Contribution, RegisteredTool, ToolRegistry, duplicates};

/// Most names in one warning.
const SHOWN_DUPLICATES: usize = 10;

/// What is offered of all servers, collected anew only when some list or state has changed.
///
/// Nothing is told when a server parks, returns or goes: each look asks what is true now, so a
/// withdrawn tool cannot be seen any more once its server's state says so.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    filters: BTreeMap<String, ToolFilter>,
    sources: BTreeMap<String, Arc<Lists>>,
    registry: Arc<ToolRegistry>,
    /// Minted names of all servers that are still there, also of those that offer nothing now.
    owners: BTreeMap<String, Owner>,
}

/// A server and one of its tools.
type Owner = (String, String);

impl Offer {
    pub(crate) fn set_filter(&mut self, server: String, filter: ToolFilter) {
        // What was collected with another one is collected anew.
        self.sources.remove(&server);
        self.filters.insert(server, filter);
    }

    pub(crate) fn forget_filter(&mut self, server: &str) {
        self.filters.remove(server);
    }

    /// As it was before.
    pub(crate) fn restore_filter(&mut self, server: String, before: Option<ToolFilter>) {
        match before {
            Some(filter) => self.set_filter(server, filter),
            None => self.forget_filter(&server),
        }
    }

    pub(crate) fn known_filter(&self, server: &str) -> Option<ToolFilter> {
        self.filters.get(server).cloned()
    }

    pub(crate) fn filter(&self, server: &str) -> ToolFilter {
        self.filters.get(server).cloned().unwrap_or_default()
    }

    pub(crate) fn registry(&self) -> Arc<ToolRegistry> {
        Arc::clone(&self.registry)
    }

    pub(crate) fn owner_of(&self, name: &str) -> Option<Owner> {
        self.owners.get(name).cloned()
    }

    /// Looks at the servers again.
    pub(crate) fn refresh(&mut self, servers: &[ServerHandle]) {
        let present: BTreeMap<&str, Option<Arc<Lists>>> =
            servers.iter().map(|server| (server.name(), server.lists())).collect();
        self.owners.retain(|_, (server, _)| present.contains_key(server.as_str()));
        let now: BTreeMap<String, Arc<Lists>> =
            present.iter().filter_map(|(name, lists)| Some(((*name).to_owned(), lists.clone()?))).collect();
        let is_same = now.len() == self.sources.len()
            && now
                .iter()
                .all(|(name, lists)| self.sources.get(name).is_some_and(|old| Arc::ptr_eq(old, lists)));
        if !is_same {
            self.collect(now);
        }
    }

    fn collect(&mut self, sources: BTreeMap<String, Arc<Lists>>) {
        for (server, lists) in &sources {
            if self.sources.get(server).is_none_or(|old| !Arc::ptr_eq(old, lists)) {
                report_duplicates(server, lists);
            }
        }
        let everything = ToolFilter::default();
        let contributions = sources.iter().map(|(server, lists)| Contribution {
            server,
            tools: &lists.tools.items,
            rejected: &lists.rejected_tools,
            filter: self.filters.get(server).unwrap_or(&everything),
        });
        let registry = ToolRegistry::collect(contributions);
        self.owners.retain(|_, (server, _)| !sources.contains_key(server));
        let owner =
            |tool: &RegisteredTool| (tool.name.clone(), (tool.server.clone(), tool.tool.name.clone()));
        self.owners.extend(registry.tools().iter().map(owner));
        self.registry = Arc::new(registry);
        self.sources = sources;
    }
}

/// Says once for each list which of its names stand for more than one tool.
fn report_duplicates(server: &str, lists: &Lists) {
    let names = duplicates(&lists.tools.items);
    if !names.is_empty() {
        let names: Vec<_> = names.into_iter().take(SHOWN_DUPLICATES).map(|name| escape(name, 128)).collect();
        tracing::warn!(server, ?names, "several tools have one name; the first of each stays");
    }
}
