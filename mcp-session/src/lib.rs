#![doc = include_str!("../README.md")]

mod call;
mod counters;
mod driver;
mod era;
mod error;
mod gate;
mod handshake;
mod inbound;
mod inbox;
mod list;
mod options;
mod pending;
mod progress;
mod session;
mod shared;
mod slot;
mod tool_headers;

// Opening a connection.
pub use driver::Driver;
pub use handshake::{Opening, open};
pub use options::{EraPolicy, IdSource, SessionOptions};

// Using it.
pub use call::{Call, RawCall};
pub use counters::Counters;
pub use inbox::{ListKind, SessionEvent};
pub use list::{ListLimits, Listed, Truncated};
pub use options::{CallOptions, ProgressHandler};
pub use session::Session;

// Sharing a server among many callers.
pub use gate::{Gate, GateError, LiveSession};

// What can go wrong.
pub use error::{
    CallError, CallOutcome, HandshakeError, HeaderFault, MetaError, ProtocolFault, UnsupportedWhy,
};
