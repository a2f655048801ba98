use std::borrow::Cow;

use bytes::Bytes;
use mcp_proto::{
    Cancelled, DecodeError, Era, MetaMembers, Method, Notification, Payload, PeerInfo, RawJson, RequestId,
    ResultType, encode_notification, meta_key,
};
use mcp_transport::{Outbound, Streams};

use crate::error::{CallError, ProtocolFault, UnsupportedWhy};

/// What the handshake has settled: who the peer is, and which of the two vocabularies is spoken.
///
/// The only place that knows the difference. It is asked when a request is written (`check`,
/// `meta`), when a result is read (`complete`), when a call is given up (`cancel_notice`) and when
/// a message arrives (`answers_requests`, `has_batches`); subscriptions will be the fifth.
#[derive(Debug)]
pub(crate) struct Agreed {
    peer: PeerInfo,
    /// Members that every request carries in `_meta`; none in the legacy era.
    meta: MetaMembers,
}

impl Agreed {
    pub(crate) fn legacy(peer: PeerInfo) -> Self {
        Self { peer, meta: MetaMembers::new() }
    }

    pub(crate) fn modern(peer: PeerInfo, meta: MetaMembers) -> Self {
        Self { peer, meta }
    }

    pub(crate) fn peer(&self) -> &PeerInfo {
        &self.peer
    }

    /// Refuses a request that this server cannot understand or has not offered to serve.
    pub(crate) fn check(&self, method: &Method) -> Result<(), CallError> {
        let refuse = |why| Err(CallError::Unsupported { method: method.clone(), why });
        if !method.is_sendable(self.peer.era) {
            return refuse(UnsupportedWhy::Era);
        }
        if !self.peer.capabilities.allow(method) {
            return refuse(UnsupportedWhy::Capability);
        }
        Ok(())
    }

    /// The `_meta` of one request; made anew only if it differs from that of all others.
    pub(crate) fn meta(
        &self,
        id: &RequestId,
        wants_progress: bool,
        own: &[(String, RawJson)],
    ) -> Result<Cow<'_, MetaMembers>, DecodeError> {
        if !wants_progress && own.is_empty() {
            return Ok(Cow::Borrowed(&self.meta));
        }
        let mut meta = self.meta.clone();
        if wants_progress {
            meta.push(meta_key::PROGRESS_TOKEN, id)?;
        }
        for (key, value) in own {
            meta.push(key, value)?;
        }
        Ok(Cow::Owned(meta))
    }

    /// Lets a final result through.
    pub(crate) fn complete(&self, method: &Method, result: Payload) -> Result<Payload, CallError> {
        if self.peer.era == Era::Legacy {
            return Ok(result);
        }
        match ResultType::of(&result) {
            Ok(ResultType::Complete) => Ok(result),
            Ok(ResultType::InputRequired) => {
                Err(CallError::Unsupported { method: method.clone(), why: UnsupportedWhy::InputRequired })
            }
            Ok(other) => {
                let name = mcp_proto::escape(other.as_str(), 128).into_owned();
                Err(CallError::Protocol(ProtocolFault::ResultType(name)))
            }
            Err(error) => Err(CallError::Protocol(ProtocolFault::Result(error))),
        }
    }

    /// How the server is told that a request was given up; `None` where ending the request's own
    /// stream says it.
    pub(crate) fn cancel_notice(&self, streams: Streams, id: &RequestId, reason: &str) -> Option<Outbound> {
        if self.peer.era == Era::Modern && streams == Streams::PerRequest {
            return None;
        }
        notice(&Cancelled::new(id.clone()).with_reason(reason)).map(Outbound::notification).ok()
    }

    /// Whether requests of the server get an answer. A modern server may not send any.
    pub(crate) fn answers_requests(&self) -> bool {
        self.peer.era == Era::Legacy
    }

    /// Whether messages may come in arrays.
    pub(crate) fn has_batches(&self) -> bool {
        self.peer.version.has_batches()
    }
}

/// Writes a notification that carries no metadata.
pub(crate) fn notice<N: Notification>(notification: &N) -> Result<Bytes, DecodeError> {
    encode_notification(&N::METHOD, notification, &MetaMembers::new())
}
