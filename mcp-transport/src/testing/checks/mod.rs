//! Checks from outside: what a test has left behind, seen by the system and not by the code under test.
//!
//! A test with real processes or sockets runs inside [`isolated()`]: alone in its process, on the real
//! clock, under one outer limit, with a check at its end that nothing remains and nothing unexpected
//! was logged.
//!
//! ```no_run
//! # use mcp_transport::testing::checks::isolated;
//! #[test]
//! fn a_server_is_stopped() {
//!     isolated(async |test| {
//!         // start it, stop it
//!         test.expect_log(tracing::Level::WARN, "had to be killed");
//!     });
//! }
//! ```

mod baseline;
mod descriptors;
mod isolated;
mod log;
mod processes;
mod until;

pub use baseline::Baseline;
pub use descriptors::open_descriptors;
pub use isolated::{Isolated, isolated, isolated_on};
pub use log::{LogCapture, LogRecord};
pub use processes::{Process, children, marked, marked_by, marked_by_this_process, new_mark};
pub use until::{until, until_some};
