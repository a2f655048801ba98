use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::{AbortHandle, AbortRegistration, Abortable};
use mcp_proto::{ErrorObject, Method, Payload, RequestId, ServerRequest, code, encode_error, encode_result};
use mcp_transport::{Outbound, SendError, Sent};
use tokio::time::Instant;

use crate::depth;
use crate::pending::Timer;
use crate::quota::Place;
use crate::service::not_served;
use crate::shared::Shared;

/// The requests of a legacy server that are being served. **Whoever takes one out answers it**, so that
/// a request that was withdrawn gets no answer.
///
/// ```text
///   accept ──▶ accepted ──▶ running ──▶ finish     answered
///                 └────────────┴──────▶ withdraw   by the server; or the session has ended
/// ```
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// Not begun yet: the driver takes them at its next turn.
    accepted: VecDeque<Accepted>,
    /// All that are not finished, those above too. Bounded, as each holds a [`Place`].
    open: Vec<Open>,
    next_ticket: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Open {
    /// Tells a request from a later one that the server gave the same id.
    ticket: u64,
    id: RequestId,
    abort: AbortHandle,
}

/// A request that waits to be begun.
#[derive(Debug)]
pub(crate) struct Accepted {
    ticket: u64,
    id: RequestId,
    request: ServerRequest,
    /// The call on whose stream the request came.
    stream: Option<RequestId>,
    /// How many handlers are inside of each other with this one.
    depth: u8,
    place: Place,
    abort: AbortRegistration,
}

impl Served {
    fn has(&self, id: &RequestId) -> bool {
        self.open.iter().any(|open| open.id == *id)
    }

    fn accept(
        &mut self,
        id: RequestId,
        request: ServerRequest,
        stream: Option<RequestId>,
        depth: u8,
        place: Place,
    ) {
        if self.is_closed {
            return;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let (handle, abort) = AbortHandle::new_pair();
        self.open.push(Open { ticket, id: id.clone(), abort: handle });
        self.accepted.push_back(Accepted { ticket, id, request, stream, depth, place, abort });
    }

    /// Takes a request out that is answered now; `false`: somebody else has.
    fn finish(&mut self, ticket: u64) -> bool {
        let found = self.open.iter().position(|open| open.ticket == ticket);
        found.map(|index| self.open.swap_remove(index)).is_some()
    }

    /// Stops serving a request; `false` if there is none of this id.
    fn withdraw(&mut self, id: &RequestId) -> bool {
        let found = self.open.iter().position(|open| open.id == *id);
        found.map(|index| self.open.swap_remove(index).abort.abort()).is_some()
    }

    /// Stops serving for good.
    fn close(&mut self) {
        self.is_closed = true;
        self.accepted.clear();
        self.open.drain(..).for_each(|open| open.abort.abort());
    }
}

impl Shared {
    /// Takes a request of the server in, or says why not. Never waits.
    pub(crate) fn accept(
        &self,
        id: &RequestId,
        method: &Method,
        params: &Payload,
        stream: Option<&RequestId>,
    ) -> Result<(), ErrorObject> {
        if *method == Method::ROOTS_LIST {
            // Whatever becomes of it: a server that is refused keeps the roots it has, and has to be told.
            self.roots.on_asked();
        }
        let Some(service) = &self.service else { return Err(not_served()) };
        service.check(method)?;
        let repeated = || ErrorObject::new(code::INVALID_REQUEST, "a request of this id is being served");
        if self.served().has(id) {
            return Err(repeated());
        }
        let depth = depth::of_handler(self.depth_of_asking(stream))?;
        // Before it is read: a flood costs no more than being refused, and what cannot be read counts too.
        let place = service.quota.admit(method, depth)?;
        let request = service.read(method, params)?;
        let mut served = self.served();
        // Meanwhile the answer to a call may have brought another one.
        if served.has(id) {
            return Err(repeated());
        }
        served.accept(id.clone(), request, stream.cloned(), depth, place);
        drop(served);
        self.driver.wake();
        Ok(())
    }

    /// How many handlers the call was made inside of to which a request of the server belongs. Where streams
    /// are shared nobody knows which it is; then the deepest of them counts.
    fn depth_of_asking(&self, stream: Option<&RequestId>) -> u8 {
        let table = self.table();
        match stream {
            Some(RequestId::Number(id)) => table.get(*id).map_or(0, |entry| entry.origin.depth),
            Some(RequestId::String(_)) => 0,
            None => table.values().map(|entry| entry.origin.depth).max().unwrap_or(0),
        }
    }

    /// Stops serving a request that the server has withdrawn; `false` if there is none of this id.
    pub(crate) fn withdraw(&self, id: &RequestId) -> bool {
        self.served().withdraw(id)
    }

    /// Stops serving: nothing is answered any more.
    pub(crate) fn stop_serving(&self) {
        self.served().close();
    }

    /// Begins what was accepted; the futures are the driver's to poll.
    pub(crate) fn begin_serving(self: &Arc<Self>) -> impl Iterator<Item = Serving> {
        let accepted = std::mem::take(&mut self.served().accepted);
        let shared = Arc::clone(self);
        accepted.into_iter().map(move |accepted| serving(&shared, accepted))
    }

    async fn serve(self: Arc<Self>, begun: Begun) {
        let Begun { ticket, id, request, depth, resting, place } = begun;
        let Some(service) = &self.service else { return };
        let answer = service.answer(request, self.version(), depth).await;
        drop(resting);
        // From here on nobody can withdraw it.
        if !self.served().finish(ticket) {
            return;
        }
        self.reply(&id, answer).await;
        // A server that does not read its answers is served no further ones.
        drop(place);
    }

    /// Hands an answer over, waiting for a full queue as a call does.
    async fn reply(&self, id: &RequestId, answer: Result<Payload, ErrorObject>) {
        let answer = match answer {
            Ok(result) => match self.send_response(encode_result(id, &result)).await {
                Err(SendError::TooLarge { .. }) => {
                    Err(ErrorObject::new(code::INTERNAL_ERROR, "the client's answer is too large"))
                }
                sent => Ok(sent),
            },
            Err(error) => Err(error),
        };
        let sent = match answer {
            Ok(sent) => sent,
            Err(error) => match encode_error(id, &error) {
                Ok(frame) => self.send_response(frame).await,
                Err(error) => return tracing::error!(%error, "an error object could not be written"),
            },
        };
        if !matches!(sent, Ok(Sent::Queued)) {
            tracing::debug!(request_id = %id, ?sent, "an answer to the server was not taken");
            self.counts.unsent_replies.add();
        }
    }

    async fn send_response(&self, frame: bytes::Bytes) -> Result<Sent, SendError> {
        self.transport.send(Outbound::response(frame)).await
    }
}

/// A request being served; it ends early once the request is withdrawn.
pub(crate) type Serving = Abortable<futures_util::future::BoxFuture<'static, ()>>;

/// A request whose handler runs.
struct Begun {
    ticket: u64,
    id: RequestId,
    request: ServerRequest,
    depth: u8,
    resting: Resting,
    place: Place,
}

fn serving(shared: &Arc<Shared>, accepted: Accepted) -> Serving {
    let Accepted { ticket, id, request, stream, depth, place, abort } = accepted;
    let resting = Resting::begin(shared, &request, stream.as_ref());
    let begun = Begun { ticket, id, request, depth, resting, place };
    Abortable::new(Box::pin(Arc::clone(shared).serve(begun)), abort)
}

/// While it lives, the server waits for a person or a model: the soft limits of its calls rest.
struct Resting {
    shared: Arc<Shared>,
    calls: Vec<i64>,
}

impl Resting {
    /// Lets the call on whose `stream` the server has asked rest; where streams are shared nobody knows
    /// which call it is, so every one that waits now. Naming folders takes no time worth mentioning.
    fn begin(shared: &Arc<Shared>, request: &ServerRequest, stream: Option<&RequestId>) -> Self {
        let now = Instant::now();
        let mut table = shared.table();
        let calls = match (request, stream) {
            (ServerRequest::ListRoots(_), _) | (_, Some(RequestId::String(_))) => Vec::new(),
            (_, Some(RequestId::Number(id))) => vec![*id],
            (_, None) => table.ids().collect(),
        };
        calls.iter().for_each(|&id| table.rest(id, now));
        drop(table);
        Self { shared: Arc::clone(shared), calls }
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut table = self.shared.table();
        let mut timer = Timer::Armed;
        for &id in &self.calls {
            if table.resume(id, now) == Timer::Late {
                timer = Timer::Late;
            }
        }
        drop(table);
        self.shared.wake_driver(timer);
    }
}
