use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot};

/// Names that are looked up at the same time; each takes a thread.
const LOOKUPS: usize = 8;

/// Turns host names into addresses.
#[async_trait]
pub trait Resolve: Send + Sync + fmt::Debug {
    /// The addresses of `host`, best first.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the resolver failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not wait for the resolver.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the operating system.
///
/// It blocks, for as long as it likes, so each lookup has a thread of its own rather than one of the
/// runtime, whose end it would hold up. `localhost` is answered without it.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        if host == "localhost" || host.ends_with(".localhost") {
            let both = [IpAddr::from(Ipv6Addr::LOCALHOST), IpAddr::from(Ipv4Addr::LOCALHOST)];
            return Ok(both.map(|address| SocketAddr::new(address, port)).to_vec());
        }
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (sender, answer) = oneshot::channel();
        let host = host.to_owned();
        std::thread::Builder::new().name("mcp-resolve".to_owned()).spawn(move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // Whoever asked may be gone; then nobody wants to know.
            let _ = sender.send(found);
            drop(place);
        })?;
        answer.await.map_err(io::Error::other)?
    }
}
