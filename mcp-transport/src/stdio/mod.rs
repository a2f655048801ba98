//! Servers as child processes: one message per line on their standard input and output.
//!
//! A connection has two halves that share one link. The sending half is used by many callers: a
//! quiet connection is written to by the caller itself, a busy one queues and its driver writes what
//! has gathered in one go. The receiving half is polled by one driver; it reads, flushes the queue,
//! sees the process end, and keeps the only timer.
//!
//! Needs a tokio runtime with I/O enabled to open and to use a connection; ending one does not.

mod connector;
mod exit;
mod limits;
mod link;
mod outgoing;
mod queue;
mod receive;
mod spare;
mod transport;
mod writer;

pub use connector::StdioConnector;
pub use limits::StdioLimits;
