use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use mcp_proto::{ErrorObject, Frame, Message, RequestId, parse_frame};
use tokio::time::timeout;

use super::authorizer::{AfterChallenge, AuthStamp};
use super::backend::{DispatchMark, HttpBody, HttpRequest, HttpResponse};
use super::body::{Whole, read_whole};
use super::endpoint::{Endpoint, Redirect};
use super::error::HttpError;
use super::link::{Lane, Link};
use super::retry_after::retry_after;
use crate::auth_failure::{AuthFailure, AuthFailureKind};
use crate::error::{CloseReason, SendError};
use crate::transport::{BrokenWhy, MirroredHeader, Outbound, Rejection, Sent};

/// Brings the session id with the answer to `initialize`, and sends it back with all that follows.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Names the version that was agreed on.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A longer one is refused: it goes with every request, and many servers and proxies take heads of 8 KiB.
const MAX_SESSION_ID_BYTES: usize = 1024;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Longest challenge that is kept, in bytes. A longer one is not cut: half a secret could not be taken out.
const CHALLENGE_BYTES: usize = 4 * 1024;

/// How long the body of an error may take: the status says the essential.
const ERROR_BODY_LIMIT: Duration = Duration::from_secs(5);

/// Why an HTTP exchange has brought no answer to work with.
pub(super) enum Failure {
    /// No authorization that the server would accept: it has not acted on the request, if it saw it, and has
    /// answered with this status.
    Auth(AuthFailure, StatusCode),
    Http(HttpError),
    /// A redirect that is not followed, and why.
    Redirect(StatusCode, &'static str),
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

/// What the body of an answer holds, by its content type.
enum Content {
    Events,
    Json,
    Unnamed,
    Other(String),
}

/// The headers that every request of a connection carries.
pub(super) fn base_headers(endpoint: &Endpoint) -> HeaderMap {
    let mut headers = endpoint.headers().clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if !headers.contains_key(header::USER_AGENT) {
        let agent = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    }
    headers
}

/// The headers of a stream that is opened with GET.
fn listening_headers(link: &Link, last_event_id: Option<&str>) -> HeaderMap {
    let mut headers = link.headers();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    // An id that no header can carry cannot be resumed from; then the stream begins anew.
    if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    headers
}

/// The headers of a message.
fn headers_of(link: &Link, mirrored: &[MirroredHeader]) -> HeaderMap {
    let mut headers = link.headers();
    for MirroredHeader { name, value } in mirrored {
        match (HeaderName::try_from(name.as_ref()), HeaderValue::try_from(value.as_str())) {
            (Ok(name), Ok(value)) => {
                headers.insert(name, value);
            }
            // The layer above encodes values; the server will say which one it misses.
            _ => tracing::warn!(header = %mcp_proto::escape(name, 64), "a mirrored header cannot be sent"),
        }
    }
    headers
}

/// Makes a request, authorized; one that is refused for want of authorization is sent once more, if
/// there is another one, and once more with another proof. The `headers` are asked for with each.
async fn fetch(
    link: &Link,
    method: &Method,
    headers: impl Fn() -> HeaderMap,
    body: Bytes,
    mark: &DispatchMark,
) -> Result<HttpResponse, Failure> {
    let (mut is_repeated, mut is_proved_again) = (false, false);
    loop {
        let (response, stamp) = follow(link, method, &headers, body.clone(), mark).await?;
        let (Some(auth), Some(stamp)) = (&link.auth, stamp) else { return Ok(response) };
        if !matches!(response.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            auth.accepted(&response.headers, stamp);
            return Ok(response);
        }
        // Whoever gives the request up from here on may know that the server has not acted on it.
        mark.refuse();
        let HttpResponse { status, headers: refusal, body: why } = response;
        let after = auth.challenged(status, &refusal, stamp).await;
        match after.map_err(|failure| Failure::Auth(failure, status))? {
            AfterChallenge::Repeat if !is_repeated => is_repeated = true,
            AfterChallenge::ProveAgain if !is_proved_again => is_proved_again = true,
            AfterChallenge::ProveAgain => {
                let what = "the server does not take the nonce that it names";
                return Err(Failure::Auth(
                    AuthFailure::new(AuthFailureKind::Unavailable(None), what),
                    status,
                ));
            }
            AfterChallenge::Repeat | AfterChallenge::Unrelated => {
                return Ok(HttpResponse::new(status, refusal, why));
            }
        }
        discard(link, why).await;
    }
}

/// Makes a request; a redirect on the same origin that keeps the method is followed. Each request on the
/// way is authorized for itself; the answer comes with the stamp of the last one.
async fn follow(
    link: &Link,
    method: &Method,
    headers: impl Fn() -> HeaderMap,
    body: Bytes,
    mark: &DispatchMark,
) -> Result<(HttpResponse, Option<AuthStamp>), Failure> {
    let mut target = link.endpoint.target().to_owned();
    let mut redirects = 0;
    loop {
        let mut authorized = headers();
        let stamp = match &link.auth {
            None => None,
            Some(auth) => {
                let decorated = auth.decorate(method, &target, &mut authorized).await;
                Some(decorated.map_err(|failure| Failure::Auth(failure, StatusCode::UNAUTHORIZED))?)
            }
        };
        let mut request = HttpRequest::new(method.clone(), target.clone(), authorized);
        request.body = body.clone();
        request.mark = mark.clone();
        let response = link.pool.request(request).await?;
        let status = response.status;
        if !matches!(status, StatusCode::PERMANENT_REDIRECT | StatusCode::TEMPORARY_REDIRECT) {
            return Ok((response, stamp));
        }
        if redirects == link.limits.max_redirects {
            return Err(Failure::Redirect(status, "no more redirects are followed"));
        }
        redirects += 1;
        target = match link.endpoint.redirect(&target, response.headers.get(header::LOCATION)) {
            Redirect::SameOrigin(target) => target,
            Redirect::Refused(why) => return Err(Failure::Redirect(status, why)),
        };
        discard(link, response.body).await;
    }
}

/// Makes a call: everything from the request to its answer, or to the stream that brings it.
pub(super) async fn call(link: &Link, id: &RequestId, message: Outbound) -> Result<Sent, SendError> {
    let lane = link.admit(id)?;
    let sent = ask(link, id, &lane, message).await;
    // A lane whose request was refused or not sent stays, to say so to whoever ends the call.
    if matches!(sent, Ok(Sent::Answered(_) | Sent::Failed(_) | Sent::Rejected(_))) {
        link.forget(id);
    }
    sent
}

async fn ask(link: &Link, id: &RequestId, lane: &Arc<Lane>, message: Outbound) -> Result<Sent, SendError> {
    let is_opening = link.profile().is_none() && opens_session(&message.frame);
    let has_session = link.has_session();
    let Outbound { frame, mirrored, .. } = message;
    let fetched = fetch(link, &Method::POST, || headers_of(link, &mirrored), frame, &lane.mark).await;
    let response = match fetched {
        Ok(response) => response,
        Err(failure) => return on_failure(link, failure),
    };
    if !response.status.is_success() {
        let rejection = read_rejection(link, response).await;
        if has_session && names_lost_session(&rejection) {
            lane.mark.refuse();
            return Err(SendError::Refused(link.expire_session()));
        }
        return Ok(Sent::Rejected(Box::new(rejection)));
    }
    if is_opening && let Err(why) = take_session(link, &response.headers) {
        return Ok(Sent::Failed(why));
    }
    if matches!(response.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) || is_empty(&response.headers)
    {
        discard(link, response.body).await;
        return Ok(Sent::Failed(BrokenWhy::NoReply));
    }
    if response.headers.contains_key(header::CONTENT_ENCODING) {
        // None was offered.
        return Ok(Sent::Failed(BrokenWhy::Framing("the answer is encoded, which was not asked for".into())));
    }
    match content(&response.headers) {
        Content::Events => {
            let is_taken = link.hand_over(id.clone(), Arc::clone(lane), response.body);
            Ok(if is_taken { Sent::Streaming } else { Sent::Failed(BrokenWhy::Cut) })
        }
        Content::Other(content_type) => Ok(Sent::Failed(BrokenWhy::NotMcp { content_type })),
        content @ (Content::Json | Content::Unnamed) => {
            Ok(read_answer(link, response.body, matches!(content, Content::Unnamed)).await)
        }
    }
}

/// Reads an answer that is one JSON text; where nothing says that it is, its first byte must.
async fn read_answer(link: &Link, body: Box<dyn HttpBody>, is_unnamed: bool) -> Sent {
    let limit = link.limits.max_message_bytes;
    match read_whole(body, limit).await {
        Ok(Whole::Complete(answer)) if answer.trim_ascii().is_empty() => Sent::Failed(BrokenWhy::NoReply),
        Ok(Whole::Complete(answer)) if is_unnamed && !looks_like_json(&answer) => {
            Sent::Failed(BrokenWhy::NotMcp { content_type: String::new() })
        }
        Ok(Whole::Complete(answer)) => Sent::Answered(answer),
        Ok(Whole::TooLarge(_)) => Sent::Failed(BrokenWhy::TooLarge { limit }),
        Err(error) => Sent::Failed(broken(error)),
    }
}

/// Sends a notification. The first of them confirms the handshake: from there on the server may speak, and
/// is asked for its own stream. Nothing else begins it, not even a reply to what the server asks before.
pub(super) async fn notify(link: &Link, message: Outbound) -> Result<Sent, SendError> {
    let sent = tell(link, message).await?;
    if matches!(sent, Sent::Queued) {
        link.listen().await;
    }
    Ok(sent)
}

/// Sends the answer to a request of the server, which is given no longer than `post_limit` to take it:
/// whoever waits for that can do nothing else about it.
pub(super) async fn reply(link: &Link, message: Outbound) -> Result<Sent, SendError> {
    match timeout(link.limits.post_limit, tell(link, message)).await {
        Ok(sent) => sent,
        Err(_) => {
            tracing::warn!(endpoint = %link.endpoint, "an answer to the server was not taken in time");
            Ok(Sent::Failed(BrokenWhy::Cut))
        }
    }
}

/// Sends a message that expects no answer, and waits until the server has taken it.
pub(super) async fn tell(link: &Link, message: Outbound) -> Result<Sent, SendError> {
    let has_session = link.has_session();
    let Outbound { frame, mirrored, .. } = message;
    let mark = DispatchMark::default();
    let fetched = fetch(link, &Method::POST, || headers_of(link, &mirrored), frame, &mark).await;
    let response = match fetched {
        Ok(response) => response,
        Err(failure) => return on_failure(link, failure),
    };
    if response.status.is_success() {
        // A stream of events has nothing to answer here and need not end: it is closed.
        if !matches!(content(&response.headers), Content::Events) {
            discard(link, response.body).await;
        }
        return Ok(Sent::Queued);
    }
    let rejection = read_rejection(link, response).await;
    if has_session && names_lost_session(&rejection) {
        return Err(SendError::Refused(link.expire_session()));
    }
    Ok(Sent::Rejected(Box::new(rejection)))
}

/// Opens a stream with GET: the server's own, or one that is resumed after an event.
pub(super) async fn open_stream(
    link: &Link,
    last_event_id: Option<&str>,
) -> Result<Box<dyn HttpBody>, StreamRefused> {
    let headers = || listening_headers(link, last_event_id);
    let fetched = fetch(link, &Method::GET, headers, Bytes::new(), &DispatchMark::default()).await;
    let response = fetched.map_err(|failure| match failure {
        // There may be another one by the time that this is tried again.
        Failure::Auth(failure, _) => StreamRefused::Failed(failure.message),
        Failure::Http(error) => StreamRefused::Failed(error.to_string()),
        Failure::Redirect(..) => StreamRefused::NotOffered,
    })?;
    match response.status {
        status if status.is_success() && matches!(content(&response.headers), Content::Events) => {
            Ok(response.body)
        }
        StatusCode::NOT_FOUND if link.has_session() => Err(StreamRefused::SessionLost),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(StreamRefused::Failed(format!("HTTP status {}", status.as_u16())))
        }
        _ => {
            discard(link, response.body).await;
            Err(StreamRefused::NotOffered)
        }
    }
}

/// Why a stream could not be opened.
#[derive(Debug)]
pub(super) enum StreamRefused {
    /// It may work later.
    Failed(String),
    /// The server has no such stream.
    NotOffered,
    /// The server no longer knows the session.
    SessionLost,
}

/// Tells the server that the session is over. Servers may refuse, and often do.
pub(super) async fn delete_session(link: &Link) {
    if !link.has_session() {
        return;
    }
    let headers = || {
        let mut headers = link.headers();
        headers.remove(header::CONTENT_TYPE);
        headers
    };
    match fetch(link, &Method::DELETE, headers, Bytes::new(), &DispatchMark::default()).await {
        Ok(response) => {
            tracing::debug!(status = response.status.as_u16(), "told the server that the session is over");
            discard(link, response.body).await;
        }
        Err(Failure::Auth(error, _)) => tracing::debug!(%error, "the end of the session could not be told"),
        Err(Failure::Http(error)) => tracing::debug!(%error, "the end of the session could not be told"),
        Err(Failure::Redirect(_, why)) => tracing::debug!(why, "the end of the session could not be told"),
    }
}

fn on_failure(link: &Link, failure: Failure) -> Result<Sent, SendError> {
    match failure {
        Failure::Auth(failure, status) => {
            let mut rejection = Rejection::new(status.as_u16());
            if let AuthFailureKind::Unavailable(wait) = failure.kind {
                rejection.retry_after = wait;
            }
            rejection.text.clone_from(&failure.message);
            rejection.auth = Some(failure);
            Ok(Sent::Rejected(Box::new(rejection)))
        }
        // Whoever cannot be reached is gone for all calls, and its owner must know.
        Failure::Http(HttpError::Connect(error)) => {
            Err(SendError::Closed(link.shut(CloseReason::Broken(error.to_string()))))
        }
        Failure::Http(error) => Ok(Sent::Failed(broken(error))),
        Failure::Redirect(status, why) => {
            let mut rejection = Rejection::new(status.as_u16());
            why.clone_into(&mut rejection.text);
            Ok(Sent::Rejected(Box::new(rejection)))
        }
    }
}

fn broken(error: HttpError) -> BrokenWhy {
    match error {
        HttpError::Framing(why) => BrokenWhy::Framing(why),
        HttpError::Headers(why) => BrokenWhy::Headers(why),
        HttpError::Connect(_) | HttpError::Lost(_) => BrokenWhy::Cut,
    }
}

/// The one method name that this crate knows: its answer brings the session id.
fn opens_session(frame: &Bytes) -> bool {
    matches!(
        parse_frame(frame),
        Ok(Frame::Single(Message::Request { method, .. })) if method == mcp_proto::Method::INITIALIZE
    )
}

/// Takes the session id out of the answer to `initialize`: visible ASCII and not too long, or it is
/// refused.
fn take_session(link: &Link, headers: &HeaderMap) -> Result<(), BrokenWhy> {
    let Some(id) = headers.get(SESSION_ID) else { return Ok(()) };
    let is_visible = id.as_bytes().iter().all(|byte| (0x21..=0x7e).contains(byte));
    if id.is_empty() || id.len() > MAX_SESSION_ID_BYTES || !is_visible {
        return Err(BrokenWhy::SessionId);
    }
    let mut id = id.clone();
    id.set_sensitive(true);
    link.set_session(id);
    Ok(())
}

/// 404 says that the session is gone; some servers say 400 with an error of their own instead.
fn names_lost_session(rejection: &Rejection) -> bool {
    match (rejection.status, &rejection.error) {
        (404, _) => true,
        (400, Some(error)) if error.code == -32000 => {
            let text = error.message.to_ascii_lowercase();
            text.contains("session") || text.contains("not initialized")
        }
        _ => false,
    }
}

/// Reads what a server says about a request it refuses.
async fn read_rejection(link: &Link, response: HttpResponse) -> Rejection {
    let mut rejection = Rejection::new(response.status.as_u16());
    rejection.retry_after = retry_after(&response.headers, &*link.clock);
    rejection.challenge = challenge(&response.headers);
    let is_json = matches!(content(&response.headers), Content::Json | Content::Unnamed);
    let read = timeout(ERROR_BODY_LIMIT, read_whole(response.body, link.limits.max_error_bytes)).await;
    let Ok(Ok(Whole::Complete(mut body) | Whole::TooLarge(mut body))) = read else { return rejection };
    // The last piece may have brought more than was asked for.
    body.truncate(link.limits.max_error_bytes);
    if is_json && let Some(error) = error_in(&body) {
        rejection.error = Some(error);
    } else {
        // Whole: a secret that is cut in half would no longer be known as one.
        rejection.text = String::from_utf8_lossy(&body).into_owned();
    }
    rejection
}

/// What the server says about how it wants to be authorized.
fn challenge(headers: &HeaderMap) -> Option<String> {
    let challenges: Vec<_> = headers.get_all(header::WWW_AUTHENTICATE).iter().collect();
    let lossy = |value: &&HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let text = challenges.iter().map(lossy).collect::<Vec<_>>().join(", ");
    let is_kept = !challenges.is_empty() && text.len() <= CHALLENGE_BYTES;
    is_kept.then(|| mcp_proto::escape(&text, CHALLENGE_BYTES).into_owned())
}

fn error_in(body: &Bytes) -> Option<ErrorObject> {
    match parse_frame(body) {
        Ok(Frame::Single(Message::Response { outcome: Err(error), .. })) => Some(error),
        _ => None,
    }
}

/// Reads a body that nobody wants, so that its connection can be kept, unless it is long or slow.
async fn discard(link: &Link, body: Box<dyn HttpBody>) {
    let read = timeout(ERROR_BODY_LIMIT, read_whole(body, link.limits.max_error_bytes)).await;
    if !matches!(read, Ok(Ok(Whole::Complete(_)))) {
        tracing::debug!("a body that was not asked for was cut off");
    }
}

fn content(headers: &HeaderMap) -> Content {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Content::Unnamed };
    let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if kind.eq_ignore_ascii_case(b"application/json") {
        Content::Json
    } else if kind.eq_ignore_ascii_case(b"text/event-stream") {
        Content::Events
    } else if kind.is_empty() {
        Content::Unnamed
    } else {
        Content::Other(mcp_proto::escape(&String::from_utf8_lossy(kind), 128).into_owned())
    }
}

fn is_empty(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_LENGTH).is_some_and(|length| length == "0")
}

fn looks_like_json(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f070_content_types_in_odd_shape() {
        let kind = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            match content(&headers) {
                Content::Events => "events".to_owned(),
                Content::Json => "json".to_owned(),
                Content::Unnamed => "unnamed".to_owned(),
                Content::Other(other) => other,
            }
        };
        for (value, expected) in [
            ("application/json", "json"),
            ("Application/JSON;charset=UTF-8", "json"),
            ("text/event-stream; charset=utf-8", "events"),
            (" TEXT/EVENT-STREAM", "events"),
            ("", "unnamed"),
            ("text/html", "text/html"),
            ("application/json-seq", "application/json-seq"),
        ] {
            assert_eq!(kind(value), expected, "{value}");
        }
        assert!(matches!(content(&HeaderMap::new()), Content::Unnamed));
        for (body, expected) in [("{}", true), (" \n[", true), ("<html>", false), ("", false)] {
            assert_eq!(looks_like_json(body.as_bytes()), expected);
        }
    }

    #[test]
    fn a_lost_session_is_told_in_several_ways() {
        let with = |status, code, text: &str| {
            let mut rejection = Rejection::new(status);
            rejection.error = Some(ErrorObject::new(code, text));
            names_lost_session(&rejection)
        };
        assert!(names_lost_session(&Rejection::new(404)));
        assert!(with(404, -32001, "Session not found"));
        assert!(with(400, -32000, "Bad Request: No valid session ID provided"));
        assert!(with(400, -32000, "Bad Request: Server not initialized"));
        assert!(!with(400, -32000, "Bad Request: no such tool"));
        assert!(!with(400, -32602, "session"));
        assert!(!names_lost_session(&Rejection::new(400)));
    }
}
