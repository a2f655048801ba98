use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_rustls::TlsConnector;

use super::backend::{Origin, Scheme};
use super::error::HttpConnectError;
use super::resolve::Resolve;
use super::tls::Tls;
use super::watched::{Stream, Watched};

/// Head start of one address before the next one is tried beside it (RFC 8305, section 8).
const HEAD_START: Duration = Duration::from_millis(250);

/// How long a connection may take, name resolution included; FAULTS give TLS as much again.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take.
const TLS_LIMIT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before the system asks the other side whether it is still there,
/// how long it waits before it asks again, and how often it asks.
///
/// A stream of events may have nothing to say for hours. Without this a peer that has vanished without a
/// word (a machine switched off, a forgetful router) would be found out by nobody; with it the stream
/// breaks after a minute.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// Opens connections to one origin.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) origin: Origin,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) tls: Arc<Tls>,
}

impl Dialer {
    /// Opens one connection, over TLS if the origin asks for it.
    pub(super) async fn dial(&self) -> Result<Watched, HttpConnectError> {
        let by = Instant::now() + CONNECT_LIMIT;
        let tcp = timeout_at(by, self.connect()).await.map_err(|_| self.too_slow(CONNECT_LIMIT))??;
        // Requests are small and each is waited for: nothing is gained by holding bytes back.
        tcp.set_nodelay(true).map_err(|error| self.failed(&error))?;
        let probes =
            TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL).with_retries(PROBES);
        SockRef::from(&tcp).set_tcp_keepalive(&probes).map_err(|error| self.failed(&error))?;
        match self.origin.scheme {
            Scheme::Http => Ok(Watched::new(Stream::Plain(tcp))),
            Scheme::Https => {
                let by = Instant::now() + TLS_LIMIT;
                timeout_at(by, self.secure(tcp)).await.map_err(|_| self.too_slow(TLS_LIMIT))?
            }
        }
    }

    async fn connect(&self) -> Result<TcpStream, HttpConnectError> {
        let dns = |reason: String| HttpConnectError::Dns { host: self.origin.host.clone(), reason };
        let found = self.resolver.resolve(&self.origin.host, self.origin.port).await;
        let addresses = found.map_err(|error| dns(error.to_string()))?;
        if addresses.is_empty() {
            return Err(dns("it has no address".to_owned()));
        }
        first_of(in_turns(addresses)).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => HttpConnectError::Refused { origin: self.origin.to_string() },
            _ => self.failed(&error),
        })
    }

    async fn secure(&self, tcp: TcpStream) -> Result<Watched, HttpConnectError> {
        let refused = |reason: String| HttpConnectError::Tls { origin: self.origin.to_string(), reason };
        let config = self.tls.config().map_err(|error| refused(error.to_string()))?;
        let name =
            ServerName::try_from(self.origin.host.clone()).map_err(|error| refused(error.to_string()))?;
        match TlsConnector::from(config).connect(name, tcp).await {
            Ok(stream) => Ok(Watched::new(Stream::Tls(Box::new(stream)))),
            // The reason of rustls; an error of the socket below is the network's.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(refused(error.to_string())),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn too_slow(&self, limit: Duration) -> HttpConnectError {
        HttpConnectError::Timeout { origin: self.origin.to_string(), limit }
    }

    fn failed(&self, error: &io::Error) -> HttpConnectError {
        HttpConnectError::Failed { origin: self.origin.to_string(), reason: error.to_string() }
    }
}

/// Alternates between the address families, the resolver's favourite first.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_v6_first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == is_v6_first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut turns = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return turns;
        }
        turns.extend(pair.into_iter().flatten());
    }
}

/// Connects to whichever address answers first. Each has a head start over the next; a failure
/// passes the turn on at once.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    attempts.extend(waiting.next().map(TcpStream::connect));
    let mut next_turn = Box::pin(sleep_until(Instant::now() + HEAD_START));
    loop {
        let finished = poll_fn(|cx| match attempts.poll_next_unpin(cx) {
            Poll::Ready(Some(result)) => Poll::Ready(Some(result)),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if waiting.len() == 0 => Poll::Pending,
            Poll::Pending => std::pin::Pin::new(&mut next_turn).poll(cx).map(|()| None),
        });
        match finished.await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => failure = error,
            None => {}
        }
        match waiting.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        next_turn.as_mut().reset(Instant::now() + HEAD_START);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse =
            |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let given = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"]);
        assert_eq!(in_turns(given), parse(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "[::3]:1"]));
        let given = parse(&["10.0.0.1:1", "[::1]:1"]);
        assert_eq!(in_turns(given.clone()), given);
        assert!(in_turns(Vec::new()).is_empty());
    }
}
