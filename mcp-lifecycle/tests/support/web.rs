//! A server over HTTP, alone behind a supervisor.

use std::sync::Arc;

use mcp_lifecycle::{ServerHandle, ServerOptions, ServerSpec, Supervisor, SupervisorOptions};
use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::in_seconds;

/// A supervisor with the one server behind `url`.
pub fn start(url: &str, options: ServerOptions) -> (Supervisor, ServerHandle) {
    start_with(url, options, HttpLimits::default())
}

/// As [`start`], with limits of its own.
pub fn start_with(url: &str, options: ServerOptions, limits: HttpLimits) -> (Supervisor, ServerHandle) {
    let supervisor = Supervisor::start(&Handle::current(), SupervisorOptions::default().with_seed(1));
    let endpoint = Endpoint::parse(url).unwrap();
    let connector = HttpConnector::new(Arc::new(HyperBackend::default()), endpoint, limits);
    let spec = ServerSpec::new("web", Arc::new(connector)).with_options(options);
    let handle = supervisor.add(spec).unwrap();
    (supervisor, handle)
}

/// The clock is real: what takes longer than this does not come.
pub fn soon() -> Instant {
    in_seconds(20)
}
