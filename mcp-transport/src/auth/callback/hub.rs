use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcp_proto::Secret;
use ring::digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::super::form::Form;
use super::super::ui::{AnswerVerdict, Delivery};
use super::page::Page;
use super::request::{CallbackRefusal, MAX_HEAD_BYTES, read_callback};

/// How long the head of a request may take.
const HEAD_LIMIT: Duration = Duration::from_secs(5);

/// How long the login may take to judge an answer, and the browser to take the page.
const PAGE_LIMIT: Duration = Duration::from_secs(5);

/// Connections of one port at the same time.
const MAX_CONNECTIONS: usize = 16;

/// Answers that wait for a login to look at them.
const MAX_WAITING: usize = 4;

/// Listens for the answers of authorizations, one listener a port, and hands each to its login.
///
/// Listens on loopback alone, and on a port only as long as a login needs it. Clones are the same hub.
#[derive(Clone)]
pub struct CallbackHub(Arc<Hub>);

struct Hub {
    ports: Mutex<HashMap<u16, Known>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A port that is in use, or was just now.
struct Known {
    port: Weak<Port>,
    /// Turns true when nobody listens any more.
    is_over: watch::Receiver<bool>,
}

/// A port that is listened on, as long as somebody holds it.
pub(super) struct Port {
    number: u16,
    logins: Mutex<Logins>,
    _stop: DropGuard,
}

#[derive(Default)]
struct Logins {
    waiting: HashMap<StateHash, Waiting>,
    /// States whose answer has come.
    over: HashSet<StateHash>,
}

struct Waiting {
    path: String,
    sender: mpsc::Sender<Delivery>,
}

/// States are looked up by hash: how long that takes tells nothing about them.
type StateHash = Vec<u8>;

/// One login that waits for its answer. Dropping it ends that.
pub(super) struct Place {
    port: Arc<Port>,
    state: StateHash,
    answers: mpsc::Receiver<Delivery>,
}

/// Which addresses of loopback to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loopback {
    /// 127.0.0.1.
    Four,
    /// 127.0.0.1, and ::1 if there is one: where `localhost` may lead.
    Both,
}

impl Default for CallbackHub {
    fn default() -> Self {
        let (ports, tasks, stop) = Default::default();
        Self(Arc::new(Hub { ports, tasks, stop }))
    }
}

impl CallbackHub {
    /// Ends all listening; answers by `by` with the number of tasks that were not done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops waiting.
    pub async fn close(&self, by: Instant) -> usize {
        self.0.stop.cancel();
        self.0.tasks.close();
        // Running out of time leaves the rest to the runtime; their number is the answer.
        let _ = timeout_at(by, self.0.tasks.wait()).await;
        self.0.tasks.len()
    }

    /// Listens on a port of loopback, 0 for any, together with everybody who does so already.
    pub(super) async fn listen(&self, number: u16, on: Loopback) -> io::Result<Arc<Port>> {
        loop {
            let is_over = {
                let mut ports = self.0.ports();
                ports.retain(|_, known| !*known.is_over.borrow());
                match ports.get(&number).filter(|_| number != 0) {
                    None => break,
                    Some(known) => match known.port.upgrade() {
                        Some(port) => return Ok(port),
                        None => known.is_over.clone(),
                    },
                }
            };
            wait_until_over(is_over).await;
        }
        if self.0.stop.is_cancelled() {
            return Err(io::Error::other("the program stops"));
        }
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).await?;
        let number = four.local_addr()?.port();
        // Many machines have no IPv6; then there is nothing to miss.
        let six = match on {
            Loopback::Both => TcpListener::bind((Ipv6Addr::LOCALHOST, number)).await.ok(),
            Loopback::Four => None,
        };
        let stop = self.0.stop.child_token();
        let (over, is_over) = watch::channel(false);
        let port = Arc::new(Port { number, logins: Mutex::default(), _stop: stop.clone().drop_guard() });
        self.0.ports().insert(number, Known { port: Arc::downgrade(&port), is_over });
        let (hub, weak) = (Arc::clone(&self.0), Arc::downgrade(&port));
        self.0.tasks.spawn(async move {
            let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            let accepting = accept_all(&hub, &four, six.as_ref(), &weak, &places);
            stop.run_until_cancelled(accepting).await;
            drop((four, six));
            over.send_replace(true);
        });
        Ok(port)
    }
}

impl Port {
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Waits for the answer that bears `state` and comes to `path`.
    pub(super) fn expect(self: &Arc<Self>, state: &Secret, path: &str) -> Place {
        let (sender, answers) = mpsc::channel(MAX_WAITING);
        let state = hash(state);
        self.logins().waiting.insert(state.clone(), Waiting { path: path.to_owned(), sender });
        Place { port: Arc::clone(self), state, answers }
    }

    fn logins(&self) -> MutexGuard<'_, Logins> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an answer goes, or the page that says why it goes nowhere.
    fn route(&self, path: &str, parameters: &Form) -> Result<(mpsc::Sender<Delivery>, StateHash), Page> {
        let logins = self.logins();
        if !logins.waiting.values().any(|login| login.path == path) {
            return Err(Page::NotFound);
        }
        let state = parameters.get("state").map(hash).ok_or(Page::Foreign)?;
        if logins.over.contains(&state) {
            return Err(Page::Over);
        }
        match logins.waiting.get(&state).filter(|login| login.path == path) {
            Some(login) => Ok((login.sender.clone(), state)),
            None => Err(Page::Foreign),
        }
    }
}

impl Place {
    /// The next answer; `None` once there is nothing to listen with.
    pub(super) async fn answer(&mut self) -> Option<Delivery> {
        self.answers.recv().await
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.port.logins().waiting.remove(&self.state);
    }
}

impl Hub {
    fn ports(&self) -> MutexGuard<'_, HashMap<u16, Known>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn wait_until_over(mut is_over: watch::Receiver<bool>) {
    // If its task is gone without a word, nobody listens either.
    let _ = is_over.wait_for(|is_over| *is_over).await;
}

async fn accept_all(
    hub: &Arc<Hub>,
    four: &TcpListener,
    six: Option<&TcpListener>,
    port: &Weak<Port>,
    places: &Arc<Semaphore>,
) {
    loop {
        // Those who come while all places are taken wait in the system's queue.
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return };
        let accepted = match six {
            None => four.accept().await,
            Some(six) => {
                let (four, six) = (Box::pin(four.accept()), Box::pin(six.accept()));
                futures_util::future::select(four, six).await.factor_first().0
            }
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, for example: others must give some back first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let port = Weak::clone(port);
        let stop = hub.stop.clone();
        hub.tasks.spawn(async move {
            let served = stop.run_until_cancelled(serve(stream, &port)).await;
            if let Some(Err(error)) = served {
                tracing::debug!(%error, "a browser went away");
            }
            drop(place);
        });
    }
}

/// Answers one request. What it holds is neither logged nor repeated.
async fn serve(mut stream: TcpStream, port: &Weak<Port>) -> io::Result<()> {
    let Ok(head) = timeout(HEAD_LIMIT, read_head(&mut stream)).await else { return Ok(()) };
    let page = match (head?, port.upgrade()) {
        (None, _) => Page::Foreign,
        (_, None) => Page::Over,
        (Some(head), Some(port)) => match read_callback(head.expose().as_bytes(), port.number()) {
            Err(CallbackRefusal::NotFound) => Page::NotFound,
            Err(_) => Page::Foreign,
            Ok((path, parameters)) => deliver(port, &path, parameters).await,
        },
    };
    let written = async {
        stream.write_all(page.response().as_bytes()).await?;
        stream.shutdown().await
    };
    timeout(PAGE_LIMIT, written).await.unwrap_or(Ok(()))
}

async fn deliver(port: Arc<Port>, path: &str, parameters: Form) -> Page {
    let (login, state) = match port.route(path, &parameters) {
        Ok(found) => found,
        Err(page) => return page,
    };
    let (verdict, judged) = oneshot::channel();
    // A login that is flooded with answers takes the first ones.
    if login.try_send(Delivery { parameters, verdict }).is_err() {
        return Page::Over;
    }
    let page = match timeout(PAGE_LIMIT, judged).await {
        Ok(Ok(AnswerVerdict::Granted)) => Page::Granted,
        Ok(Ok(AnswerVerdict::Denied)) => Page::Denied,
        Ok(Ok(AnswerVerdict::Foreign(_))) => return Page::Foreign,
        _ => return Page::Over,
    };
    port.logins().over.insert(state);
    page
}

/// Reads up to the empty line; `None` if that does not come within the limit.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<Secret>> {
    let mut head = zeroize::Zeroizing::new(Vec::with_capacity(MAX_HEAD_BYTES));
    let mut chunk = zeroize::Zeroizing::new([0; 1024]);
    loop {
        let read = stream.read(&mut *chunk).await?;
        head.extend_from_slice(chunk.get(..read).unwrap_or_default());
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(std::str::from_utf8(&head).ok().map(Secret::from));
        }
        if read == 0 || head.len() + chunk.len() > MAX_HEAD_BYTES {
            return Ok(None);
        }
    }
}

fn hash(state: &Secret) -> StateHash {
    digest::digest(&digest::SHA256, state.expose().as_bytes()).as_ref().to_vec()
}

impl fmt::Debug for CallbackHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackHub").field("ports", &self.0.ports().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("port", &self.port()).finish_non_exhaustive()
    }
}
