//! Subscriptions of the modern era: one request that lives as long as they do.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_proto::{Listen, Request as _, RequestId, SubscriptionFilter, encode_request};
use tokio::time::Instant;

use crate::call::{Keeper, RawCall};
use crate::error::{CallError, ProtocolFault};
use crate::pending::later;
use crate::session::Session;
use crate::start::Start;
use crate::subscription::{Source, SubscribeOptions, Subscription, SubscriptionLane};

/// Opens a subscription. Its lane stands in the pending table, beside the request, before anything is
/// sent: the acknowledgement may come at once.
pub(super) async fn open(
    session: &Session,
    wanted: SubscriptionFilter,
    options: &SubscribeOptions,
) -> Result<Subscription, CallError> {
    let shared = &session.handle().shared;
    let lane = Arc::new(SubscriptionLane::opening(wanted.clone(), options.max_resources));
    let id = shared.ids.next();
    let frame =
        encode_request(&RequestId::from(id), &Listen::METHOD, &Listen::new(wanted), session.agreed().base())
            .map_err(CallError::Encode)?;
    let mirrored = session.agreed().mirrored(shared.transport.streams(), &Listen::METHOD, None, &frame)?;
    let limit = later(Instant::now(), options.open_limit);
    let start = Start { mirrored, lane: Some(Arc::clone(&lane)), ..Start::alone(frame, limit) };
    let mut call = RawCall::new(Keeper::Session(session.clone()), id, Listen::METHOD, Ok(start));
    let honoured = poll_fn(|cx| poll_open(&mut call, &lane, cx)).await?;
    Ok(Subscription { lane, honoured, source: Some(Source::Listen(Box::new(call))) })
}

fn poll_open(
    call: &mut RawCall,
    lane: &SubscriptionLane,
    cx: &mut Context<'_>,
) -> Poll<Result<SubscriptionFilter, CallError>> {
    let ended = call.poll_answer(cx);
    // Looked at second: it was open if it is now, whatever has ended it since.
    match (lane.poll_honoured(cx), ended) {
        (Poll::Ready(honoured), _) => Poll::Ready(Ok(honoured)),
        (Poll::Pending, Poll::Pending) => Poll::Pending,
        (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
        (Poll::Pending, Poll::Ready(Ok(_))) => {
            Poll::Ready(Err(CallError::Protocol(ProtocolFault::NotAcknowledged)))
        }
    }
}
