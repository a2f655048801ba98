use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::connection::{ConnectError, Connection, Connector};
use crate::testing::memory::{MemoryOptions, memory_with};
use crate::testing::peer::ScriptedPeer;

/// How many peers may wait for [`MemoryConnector::next_peer`]; at the limit connecting waits.
const UNCLAIMED_PEERS: usize = 64;

/// Opens connections in memory and hands out the far end of each. Clones share everything.
#[derive(Clone)]
pub struct MemoryConnector {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    peers: mpsc::Sender<ScriptedPeer>,
    unclaimed: AsyncMutex<mpsc::Receiver<ScriptedPeer>>,
}

struct State {
    options: MemoryOptions,
    attempts: usize,
    failures: VecDeque<ConnectError>,
    gate: Option<Arc<Semaphore>>,
}

impl Default for MemoryConnector {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryConnector {
    /// A connector whose connections have default sizes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(MemoryOptions::default())
    }

    /// A connector whose connections have these sizes.
    #[must_use]
    pub fn with_options(options: MemoryOptions) -> Self {
        let (peers, unclaimed) = mpsc::channel(UNCLAIMED_PEERS);
        let state = State { options, attempts: 0, failures: VecDeque::new(), gate: None };
        let inner = Inner { state: Mutex::new(state), peers, unclaimed: AsyncMutex::new(unclaimed) };
        Self { inner: Arc::new(inner) }
    }

    /// Waits for the next connection and takes its far end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no peer.
    pub async fn next_peer(&self) -> ScriptedPeer {
        let peer = self.inner.unclaimed.lock().await.recv().await;
        peer.expect("the connector owns a sender, so the channel stays open")
    }

    /// Makes the next `connect` that is not failed yet fail with `error`. May be called repeatedly.
    pub fn fail_next(&self, error: ConnectError) {
        self.inner.lock().failures.push_back(error);
    }

    /// Holds up every `connect` that begins from now on, until the gate is opened or dropped.
    pub fn hold(&self) -> ConnectGate {
        let gate = Arc::new(Semaphore::new(0));
        self.inner.lock().gate = Some(Arc::clone(&gate));
        ConnectGate { gate, inner: Arc::clone(&self.inner) }
    }

    /// How many times `connect` was called, successful or not.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.inner.lock().attempts
    }
}

#[async_trait]
impl Connector for MemoryConnector {
    async fn connect(&self, by: Instant) -> Result<Connection, ConnectError> {
        let (gate, failure, options) = {
            let mut state = self.inner.lock();
            state.attempts += 1;
            (state.gate.clone(), state.failures.pop_front(), state.options.clone())
        };
        let open = async {
            if let Some(gate) = gate {
                // Opening a gate closes its semaphore for good.
                assert!(gate.acquire().await.is_err(), "a gate has no permits");
            }
            if let Some(error) = failure {
                return Err(error);
            }
            let (connection, peer) = memory_with(options);
            self.inner.peers.send(peer).await.expect("the connector owns the receiver");
            Ok(connection)
        };
        timeout_at(by, open).await.unwrap_or(Err(ConnectError::Timeout))
    }
}

impl fmt::Debug for MemoryConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryConnector").field("attempts", &self.attempts()).finish_non_exhaustive()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds up connecting, see [`MemoryConnector::hold`]. Dropping it opens it.
#[must_use = "dropping the gate opens it"]
pub struct ConnectGate {
    gate: Arc<Semaphore>,
    inner: Arc<Inner>,
}

impl ConnectGate {
    /// Lets everybody through, now and later.
    pub fn open(self) {
        drop(self);
    }
}

impl Drop for ConnectGate {
    fn drop(&mut self) {
        self.gate.close();
        let mut state = self.inner.lock();
        if state.gate.as_ref().is_some_and(|gate| Arc::ptr_eq(gate, &self.gate)) {
            state.gate = None;
        }
    }
}

impl fmt::Debug for ConnectGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectGate").field("is_open", &self.gate.is_closed()).finish()
    }
}
