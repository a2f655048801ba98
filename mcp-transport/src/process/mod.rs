//! Child processes: one factory owns, watches, stops and reaps them all.

mod error;

pub use error::SpawnError;
