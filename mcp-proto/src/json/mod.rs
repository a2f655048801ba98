//! JSON itself: what is no matter of any message.
//!
//! A frame is scanned once, which finds its payloads and proves them well formed. The reader relies on
//! that, and the writer writes what serde_json would write.

pub(crate) mod plain;
pub(crate) mod raw_text;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod scratch;
mod value;
pub(crate) mod writer;
