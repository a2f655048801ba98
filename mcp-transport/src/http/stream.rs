use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use mcp_proto::{RequestId, sniff_id};
use tokio::time::{Instant, Sleep, sleep_until};

use super::backend::HttpBody;
use super::error::HttpError;
use super::exchange::{StreamRefused, open_stream};
use super::link::{Found, Lane, Link, NewStream};
use crate::profile::HttpProfile;
use crate::sse::{SseItem, SseParser};
use crate::transport::{Broken, BrokenWhy, Inbound};

/// Longest pause of ours before a stream is opened again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

type Opened = Result<Box<dyn HttpBody>, StreamRefused>;

/// One stream of events, with everything that may happen to it.
///
/// ```text
///            ended, and can be resumed             pause over
///   open ─────────────────────────────▶ waiting ─────────────▶ opening
///    ▲ │                                   ▲                    │ │
///    │ │ ended for good, or given up       └──── failed ────────┘ │ not offered, or too often
///    │ └───────────────▶ over ◀───────────────────────────────────┤
///    └────────────────────────────────────────── opened ──────────┘
/// ```
///
/// Only streams of legacy servers that number their events are resumed, with GET; a request is never
/// sent again. A stream of the server's own is opened again in the same way, with or without numbers; when
/// that has failed too often it is told, and the pauses are long from then on.
pub(super) struct EventStream {
    link: Arc<Link>,
    /// The request that is answered here; `None` for the server's own stream.
    answers: Option<RequestId>,
    lane: Arc<Lane>,
    parser: SseParser,
    state: State,
    /// The answer has come: the end of the stream means nothing any more.
    has_replied: bool,
    /// Attempts to open the stream since it last brought something.
    attempts: u32,
    /// Whether it has brought anything since it was opened.
    has_brought: bool,
    /// The last event before it was opened.
    opened_after: Option<String>,
    /// The server's own stream could not be opened, and that was told.
    is_given_up: bool,
}

enum State {
    Open,
    /// Open after the answer, until then.
    Lingering(Pin<Box<Sleep>>),
    Waiting(Pin<Box<Sleep>>),
    Opening(Pin<Box<dyn Future<Output = Opened> + Send>>),
    Over,
}

impl EventStream {
    pub(super) fn new(link: Arc<Link>, stream: NewStream) -> Self {
        let parser = SseParser::new(link.limits.max_message_bytes);
        let (answers, lane) = match stream {
            NewStream::Answer(id, lane) => (Some(id), lane),
            NewStream::Listening => (None, Arc::default()),
        };
        let state = if answers.is_some() { State::Open } else { open(&link, &parser) };
        Self {
            link,
            answers,
            lane,
            parser,
            state,
            has_replied: false,
            attempts: 0,
            has_brought: false,
            opened_after: None,
            is_given_up: false,
        }
    }

    fn on_item(&mut self, item: SseItem) -> Option<Inbound> {
        self.has_brought = true;
        match item {
            SseItem::Event(event) if !event.is_message() => None,
            SseItem::Event(event) => {
                self.has_replied |= self.answers.is_some() && sniff_id(&event.data) == self.answers;
                Some(Inbound::Message { frame: event.data, stream: self.answers.clone() })
            }
            SseItem::TooLarge { id } => {
                self.has_replied |= self.answers.is_some() && id == self.answers;
                let limit = self.link.limits.max_message_bytes;
                Some(Inbound::Broken(Broken::new(id, BrokenWhy::TooLarge { limit })))
            }
        }
    }

    /// The body has ended: resumed after a pause, or over.
    fn on_end(&mut self, why: BrokenWhy) -> Option<Inbound> {
        // A bare id moves the stream on as well: servers end a stream behind one to be asked again.
        let has_moved = self.parser.last_event_id() != self.opened_after.as_deref();
        if std::mem::take(&mut self.has_brought) || has_moved {
            self.attempts = 0;
        }
        if !self.has_replied && self.can_resume() {
            self.pause();
            return None;
        }
        match self.answers {
            Some(_) => self.finish(why),
            None => self.give_up(),
        }
    }

    /// The server's own stream does not stay open: it is tried rarely from now on.
    fn give_up(&mut self) -> Option<Inbound> {
        let pause = self.link.limits.relisten_pause;
        self.state = State::Waiting(Box::pin(sleep_until(Instant::now() + pause)));
        let is_news = !std::mem::replace(&mut self.is_given_up, true);
        if is_news {
            tracing::warn!(endpoint = %self.link.endpoint, "the server's own stream does not stay open; what it tells unasked may be missed");
        }
        is_news.then_some(Inbound::OwnStream { is_open: false })
    }

    fn can_resume(&self) -> bool {
        let has_sessions = self.link.profile().is_some_and(HttpProfile::has_sessions);
        let is_known = self.answers.is_none() || self.parser.last_event_id().is_some();
        has_sessions && is_known && self.attempts < self.link.limits.max_resumptions
    }

    fn pause(&mut self) {
        let limits = &self.link.limits;
        let ours = limits.resume_pause.saturating_mul(1 << self.attempts.min(16)).min(LONGEST_PAUSE);
        let pause = self.parser.retry().unwrap_or(ours);
        self.attempts += 1;
        self.state = State::Waiting(Box::pin(sleep_until(Instant::now() + pause)));
    }

    fn on_opened(&mut self, opened: Opened) -> Option<Inbound> {
        if self.answers.is_none() {
            self.link.end_listen();
        }
        match opened {
            Ok(body) => {
                self.parser = self.parser.resumed();
                self.opened_after = self.parser.last_event_id().map(ToOwned::to_owned);
                self.lane.put(body);
                self.state = State::Open;
                std::mem::take(&mut self.is_given_up).then_some(Inbound::OwnStream { is_open: true })
            }
            Err(StreamRefused::SessionLost) => {
                self.link.expire_session();
                self.finish(BrokenWhy::Cut)
            }
            Err(StreamRefused::NotOffered) => {
                tracing::debug!(endpoint = %self.link.endpoint, "the server does not offer this stream");
                self.finish(BrokenWhy::Cut)
            }
            Err(StreamRefused::Failed(reason)) if self.can_resume() => {
                tracing::debug!(endpoint = %self.link.endpoint, reason, "a stream could not be opened");
                self.pause();
                None
            }
            Err(StreamRefused::Failed(reason)) if self.answers.is_none() => {
                tracing::debug!(endpoint = %self.link.endpoint, reason, "the server's own stream could not be opened");
                self.give_up()
            }
            Err(StreamRefused::Failed(reason)) => {
                tracing::warn!(endpoint = %self.link.endpoint, reason, "a stream could not be opened; giving up");
                self.finish(BrokenWhy::Cut)
            }
        }
    }

    /// Nothing more will come.
    fn finish(&mut self, why: BrokenWhy) -> Option<Inbound> {
        self.state = State::Over;
        let id = self.answers.clone()?;
        // Whoever has given the request up knows already.
        self.link.forget(&id)?;
        (!self.has_replied).then_some(Inbound::StreamEnded { id, why })
    }

    /// Polls the body; `Ready` with an entry to hand up, or with `None` to look again.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Option<Inbound>> {
        if let Some(item) = self.parser.next_item() {
            return Poll::Ready(self.on_item(item));
        }
        match self.lane.poll_chunk(cx) {
            Poll::Ready(Found::Chunk(chunk)) => {
                self.parser.push(chunk);
                Poll::Ready(None)
            }
            Poll::Ready(Found::End) => Poll::Ready(self.on_end(BrokenWhy::NoReply)),
            Poll::Ready(Found::Failed(error)) => {
                tracing::debug!(%error, endpoint = %self.link.endpoint, "a stream broke");
                Poll::Ready(self.on_end(match error {
                    HttpError::Framing(why) => BrokenWhy::Framing(why),
                    HttpError::Connect(_) | HttpError::Headers(_) | HttpError::Lost(_) => BrokenWhy::Cut,
                }))
            }
            Poll::Ready(Found::Over) => {
                self.state = State::Over;
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Opens the stream with GET, after the last event that is known.
fn open(link: &Arc<Link>, parser: &SseParser) -> State {
    let (link, last) = (Arc::clone(link), parser.last_event_id().map(ToOwned::to_owned));
    State::Opening(Box::pin(async move { open_stream(&link, last.as_deref()).await }))
}

impl Stream for EventStream {
    type Item = Inbound;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Inbound>> {
        let this = &mut *self;
        loop {
            let found = match &mut this.state {
                State::Over => return Poll::Ready(None),
                State::Open => {
                    let polled = this.poll_open(cx);
                    if polled.is_pending() && this.has_replied {
                        // Most servers end the stream now, and then its connection can be kept.
                        let until = Instant::now() + this.link.limits.linger;
                        this.state = State::Lingering(Box::pin(sleep_until(until)));
                        continue;
                    }
                    ready!(polled)
                }
                State::Lingering(timer) => {
                    if timer.as_mut().poll(cx).is_ready() {
                        this.lane.end();
                        this.finish(BrokenWhy::NoReply)
                    } else {
                        ready!(this.poll_open(cx))
                    }
                }
                State::Waiting(_) | State::Opening(_) if this.lane.is_over(cx) => {
                    this.state = State::Over;
                    None
                }
                State::Waiting(timer) => {
                    ready!(timer.as_mut().poll(cx));
                    this.state = open(&this.link, &this.parser);
                    None
                }
                State::Opening(opening) => {
                    let opened = ready!(opening.as_mut().poll(cx));
                    this.on_opened(opened)
                }
            };
            if found.is_some() {
                return Poll::Ready(found);
            }
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("answers", &self.answers).finish_non_exhaustive()
    }
}
