//! Instruments for tests of this crate and of its users (feature `test-util`).
//!
//! - [`memory()`]: a connection without any I/O and its far end, a [`ScriptedPeer`]. It works on the
//!   paused clock, starts no task and reads no clock but tokio's.
//! - [`MemoryConnector`]: opens such connections again and again.
//! - [`ServerScript`]: a small server for both eras as a state machine, played by [`serve`].
//! - [`FaultTransport`]: makes any connection misbehave on demand.
//! - [`fixture`]: a server process that does what a test tells it, down to the byte.
//! - [`HttpHost`]: plays a [`ServerScript`] over HTTP; an [`AuthSite`] has it ask for authorization.
//! - [`NetServer`]: a listener on loopback that writes exact bytes.
//! - [`checks`]: what a test has left behind, seen from outside.
//!
//! What is here may panic: a broken expectation ends the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod auth_site;
mod behaviour;
pub mod checks;
mod connector;
mod fault;
pub mod fixture;
mod http_event;
mod http_host;
mod memory;
mod net;
mod peer;
mod server;
mod wire;

pub use auth_site::{AuthSite, TokenRequest};
pub use behaviour::{Action, Behaviour, serve, serve_all};
pub use connector::{ConnectGate, MemoryConnector};
pub use fault::{FaultConnector, FaultControl, FaultTransport};
pub use http_event::HttpEvent;
pub use http_host::{HttpAnswers, HttpHost};
pub use memory::{MemoryOptions, memory, memory_with};
pub use net::{NetConnection, NetRequest, NetServer};
pub use peer::{Received, ScriptedPeer};
pub use server::{Execution, Server, ServerEra, ServerLog, ServerScript, ToolBehaviour};
