use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};

use mcp_proto::{Method, Paginated};

use crate::error::{CallError, ProtocolFault};
use crate::gate::Permit;
use crate::options::CallOptions;
use crate::session::Session;
use crate::start::Pass;

/// How much of a list is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListLimits {
    /// Most pages; default 100.
    pub max_pages: usize,
    /// Most entries; default 10 000.
    pub max_items: usize,
    /// Most bytes of pages, as they come; default 32 MiB. The page that goes beyond is left out.
    pub max_bytes: usize,
}

/// The entries of a list, in the order of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Why there may be more; `None` if this is the whole list.
    pub truncated: Option<Truncated>,
}

/// Why a list was not fetched to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Truncated {
    /// Its pages are longer than what is fetched.
    #[error("the pages of the list have more bytes than the limit")]
    Bytes,
    /// The time was up.
    #[error("the time was up before the list ended")]
    Deadline,
    /// It has more entries than are fetched.
    #[error("the list has more entries than the limit")]
    Items,
    /// It has more pages than are fetched.
    #[error("the list has more pages than the limit")]
    Pages,
}

/// The empty list, whole.
impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), truncated: None }
    }
}

impl<T> Listed<T> {
    /// What was fetched, without room for more: a list is kept for as long as its server.
    fn new(mut items: Vec<T>, truncated: Option<Truncated>) -> Self {
        items.shrink_to_fit();
        Self { items, truncated }
    }
}

impl Default for ListLimits {
    fn default() -> Self {
        Self { max_pages: 100, max_items: 10_000, max_bytes: 32 * 1024 * 1024 }
    }
}

impl ListLimits {
    /// Sets the most pages.
    #[must_use]
    pub fn with_max_pages(mut self, pages: usize) -> Self {
        self.max_pages = pages;
        self
    }

    /// Sets the most entries.
    #[must_use]
    pub fn with_max_items(mut self, items: usize) -> Self {
        self.max_items = items;
        self
    }

    /// Sets the most bytes of pages.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// Fetches page after page, under one permit if there is one.
pub(crate) async fn fetch<R: Paginated>(
    session: &Session,
    permit: Option<Permit>,
    options: CallOptions,
    limits: ListLimits,
) -> Result<Listed<R::Item>, CallError> {
    let mut options = session.handle().for_whole_list(options);
    let is_gated = permit.is_some();
    let mut pass = permit.map_or(Pass::Session, Pass::GateAndBack);
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut cursor = None;
    let mut seen = SeenPages::default();
    let listing = (R::METHOD == Method::TOOLS_LIST).then(|| session.tool_headers().begin_listing());
    for page in 0.. {
        if page == limits.max_pages {
            return Ok(Listed::new(items, Some(Truncated::Pages)));
        }
        let mut call =
            session.clone().start(R::METHOD, &R::page(cursor.clone()), None, options.clone(), pass);
        // What was waited before the list began is no matter of the pages after the first.
        options.began = None;
        let (result, kept) = match poll_fn(|cx| call.poll_answer(cx)).await {
            Ok(answered) => answered,
            Err(error) if page > 0 && error.is_timeout() => {
                return Ok(Listed::new(items, Some(Truncated::Deadline)));
            }
            Err(error) => return Err(error),
        };
        bytes += result.as_bytes().len();
        if bytes > limits.max_bytes {
            return Ok(Listed::new(items, Some(Truncated::Bytes)));
        }
        let decoded = result.decode().map_err(|error| CallError::Protocol(ProtocolFault::Result(error)))?;
        let (entries, next) = R::split(decoded);
        // A list of one page has nothing to be compared with.
        let is_whole = cursor.is_none() && next.is_none();
        if !is_whole
            && seen.brings_nothing_new(cursor.as_deref(), digest(result.as_bytes()), entries.is_empty())
        {
            break;
        }
        if items.is_empty() {
            items = entries;
        } else {
            items.extend(entries);
        }
        if items.len() > limits.max_items || (items.len() == limits.max_items && next.is_some()) {
            items.truncate(limits.max_items);
            return Ok(Listed::new(items, Some(Truncated::Items)));
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
        pass = match kept.into_place() {
            _ if !is_gated => Pass::Session,
            // Nobody could see that another page follows, before it was read.
            None => Pass::Again,
            Some(place) => match place.take_permit() {
                Some(permit) => Pass::GateAndBack(permit),
                None => match place.slot.ended(&session.handle().shared.transport).await {
                    error if error.is_timeout() => {
                        return Ok(Listed::new(items, Some(Truncated::Deadline)));
                    }
                    error => return Err(error),
                },
            },
        };
    }
    if let Some(listing) = listing {
        session.tool_headers().end_listing(listing);
    }
    Ok(Listed::new(items, None))
}

/// What came at each cursor so far. Only digests are kept: a cursor may be megabytes long.
#[derive(Debug, Default)]
struct SeenPages(BTreeMap<u64, u64>);

impl SeenPages {
    /// Whether the cursor was followed before and the page is empty or what came then.
    fn brings_nothing_new(&mut self, cursor: Option<&str>, page: u64, is_empty: bool) -> bool {
        let before = self.0.insert(digest(&cursor), page);
        before.is_some_and(|before| is_empty || before == page)
    }
}

fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_cursor_ends_the_list_only_when_it_leads_to_nothing_new() {
        let mut seen = SeenPages::default();
        assert!(!seen.brings_nothing_new(None, 1, false));
        assert!(!seen.brings_nothing_new(Some(""), 2, true), "an empty page at a new cursor is no end");
        assert!(!seen.brings_nothing_new(Some(""), 3, false), "other entries at the same cursor are new");
        assert!(seen.brings_nothing_new(Some(""), 3, false), "the same entries at the same cursor");
        assert!(seen.brings_nothing_new(Some(""), 4, true), "no entries at a repeated cursor");
    }
}
