//! Child processes: one factory owns, watches, stops and reaps them all.
//!
//! [`LocalProcesses`] is the factory of this crate. It has one table behind a lock and one permanent
//! thread that starts, watches and reaps; everybody else holds handles. Nothing here needs an async
//! runtime to come to its end: a runtime that is gone, or blocked, delays no stop.
//!
//! Three rules keep signals from ever reaching a stranger:
//!
//! - each child leads a process group of its own, and only that group or the child is signalled;
//! - an exit is *seen* through a pidfd and the child is left unreaped while its group is swept, so
//!   that neither its number nor its group's can have been given to somebody else;
//! - signals are sent under the lock of the table, and a child that has been reaped is not in it.
//!
//! Linux only.

mod command;
mod environment;
mod error;
mod exec;
mod exit_watch;
mod factory;
mod ladder;
mod launch;
mod local;
mod stderr;
mod table;
mod watcher;

pub use command::Command;
pub use environment::{INHERITED, Inherited, filter_environment};
pub use error::SpawnError;
pub use factory::{Child, Process, ProcessEnd, ProcessFactory};
pub use ladder::Graces;
pub(crate) use launch::os_error;
pub use local::LocalProcesses;
