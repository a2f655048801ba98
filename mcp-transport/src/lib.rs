#![doc = include_str!("../README.md")]

#[cfg(feature = "oauth")]
pub mod auth;
mod auth_failure;
mod clock;
mod connection;
mod error;
mod frame;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "stdio")]
pub mod process;
mod profile;
#[cfg(feature = "http")]
pub mod sse;
#[cfg(feature = "stdio")]
pub mod stdio;
#[cfg(feature = "test-util")]
pub mod testing;
mod transport;

pub use auth_failure::{AuthFailure, AuthFailureKind};
pub use clock::{SystemClock, WallClock};
pub use connection::{ConnectError, Connection, Connector};
pub use error::{CloseReason, CloseReport, Closed, Ending, Exit, Full, SendError};
pub use frame::{FrameCounters, FrameError, Framer};
pub use profile::HttpProfile;
pub use transport::{
    Abandoned, Broken, BrokenWhy, Dispatch, Inbound, MirroredHeader, Outbound, OutboundKind, Receive,
    Rejection, Sent, Streams, Transport,
};
