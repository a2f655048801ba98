#![doc = include_str!("../README.md")]

mod authorization;
pub mod blocking;
mod builder;
mod client;
pub mod config;
mod handlers;
mod offer;
mod outcome;
pub mod registry;
mod reload;
pub mod render;
mod serving;

// Starting.
pub use builder::{ClientBuilder, StartError};
pub use client::{Client, NoRoots};
pub use mcp_transport::http::EndpointError;
pub use reload::Reload;

pub use config::{
    ConfigError, ConfigFile, HttpServer, Reach, ServerConfig, ServerSettings, StdioServer, ToolFilter,
};

// Logging in.
pub use authorization::{Authorization, Insist, LoginError};

// Answering what servers ask.
pub use mcp_session::{Asker, ClientHandler, HandlerLimits};

// Using.
pub use handlers::Handlers;
pub use outcome::{Failure, FailureKind, OutcomeClass};
pub use registry::{ExcludedTool, RegisteredTool, ToolRegistry};
