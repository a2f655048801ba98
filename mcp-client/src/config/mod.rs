//! Configuration files: the `mcpServers` JSON that people already have.
//!
//! ```text
//! file ──▶ ConfigFile::parse ──▶ servers (ready to start)
//!              │                 refused (one error per bad entry; its neighbours are not hurt)
//!              │                 warnings (unknown keys, secrets in plain sight)
//!              └──▶ ConfigError  (the file as a whole cannot be used)
//! ```

mod choice;
mod credentials;
mod entry;
mod error;
mod expand;
mod file;
mod http_server;
mod located;
mod oauth;
mod secrets;
mod server;
mod value;

pub use error::{ConfigError, ConfigFault, ConfigWarning, Place, Position};
pub use file::{ConfigFile, Lookup};
pub use http_server::HttpServer;
pub use server::{Reach, ServerConfig, ServerSettings, StdioServer, ToolFilter};
pub use value::{DurationFault, parse_duration};
