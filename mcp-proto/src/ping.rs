use serde::{Deserialize, Serialize};

use crate::method::Method;
use crate::request::Request;
use crate::versioned::Versioned;

/// Asks whether the peer lives; in both directions (until 2025-11-25).
///
/// # Source
///
/// MCP 2025-11-25, basic/utilities/ping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {}

/// A result that says no more than that the request was done; whatever else it holds is passed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyResult {}

impl Request for Ping {
    const METHOD: Method = Method::PING;
    type Result = EmptyResult;
}

impl Versioned for Ping {}

impl Versioned for EmptyResult {}
