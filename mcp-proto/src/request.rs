use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::method::Method;
use crate::versioned::Versioned;

/// A request: the value itself is the `params` object, and its type fixes method and result.
///
/// An answer is decoded by the request that asked for it, never by guessing among all results. What of
/// the request the version of a connection lacks is left out before it is written.
pub trait Request: Versioned + Clone + Serialize + Send + Sync + 'static {
    /// The `method` member.
    const METHOD: Method;
    /// What a successful answer holds.
    type Result: DeserializeOwned + Send + 'static;

    /// What the `Mcp-Name` header mirrors, see [`Method::mirrored_member`]: the name of a tool or prompt,
    /// the address of a resource, the id of a task.
    fn mirrored_name(&self) -> Option<&str> {
        None
    }
}

/// A notification: the value itself is the `params` object.
pub trait Notification: Versioned + Clone + Serialize + Send + Sync + 'static {
    /// The `method` member.
    const METHOD: Method;
}

/// A request whose answer comes in pages.
pub trait Paginated: Request {
    /// One entry of a page.
    type Item: Send + 'static;

    /// The request for the page at `cursor`; `None` asks for the first page.
    ///
    /// A cursor is opaque: the empty text is a cursor like any other.
    fn page(cursor: Option<String>) -> Self;

    /// Takes a page apart: its entries, and the cursor of the next page if there is one.
    fn split(result: Self::Result) -> (Vec<Self::Item>, Option<String>);
}
