//! Instruments for tests of this crate and of its users (feature `test-util`).
//!
//! - [`memory()`]: a connection without any I/O and its far end, a [`ScriptedPeer`]. It works on the
//!   paused clock, starts no task and reads no clock but tokio's.
//! - [`MemoryConnector`]: opens such connections again and again.
//!
//! What is here may panic: a broken expectation ends the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod connector;
mod memory;
mod peer;
mod wire;

pub use connector::{ConnectGate, MemoryConnector};
pub use memory::{MemoryOptions, memory, memory_with};
pub use peer::{Received, ScriptedPeer};
