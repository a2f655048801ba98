//! Server-sent events.

mod parser;

pub use parser::{SseEvent, SseItem, SseParser};
