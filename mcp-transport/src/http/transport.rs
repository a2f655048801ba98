use std::sync::Arc;

use async_trait::async_trait;
use mcp_proto::RequestId;
use tokio::time::Instant;

use super::closing;
use super::exchange;
use super::link::Link;
use crate::error::{CloseReport, Full, SendError};
use crate::profile::HttpProfile;
use crate::transport::{Abandoned, Dispatch, Outbound, OutboundKind, Sent, Streams, Transport};

/// The sending half of an HTTP connection.
#[derive(Debug)]
pub(super) struct HttpTransport {
    link: Arc<Link>,
}

impl HttpTransport {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }
}

#[async_trait]
impl Transport for HttpTransport {
    fn streams(&self) -> Streams {
        Streams::PerRequest
    }

    async fn send(&self, message: Outbound) -> Result<Sent, SendError> {
        let limit = self.link.limits.max_message_bytes;
        if message.frame.len() > limit {
            return Err(SendError::TooLarge { limit });
        }
        match message.kind.clone() {
            OutboundKind::Request(id) => exchange::call(&self.link, &id, message).await,
            OutboundKind::Notification => {
                self.link.check_open()?;
                exchange::notify(&self.link, message).await
            }
            OutboundKind::Response => {
                self.link.check_open()?;
                exchange::reply(&self.link, message).await
            }
        }
    }

    fn post(&self, message: Outbound) -> Result<(), Full> {
        self.link.post(message)
    }

    fn abandon(&self, id: &RequestId, notice: Option<Outbound>) -> Abandoned {
        let Some(lane) = self.link.forget(id) else {
            return Abandoned { dispatch: Dispatch::MayHaveLeft, is_told: false };
        };
        // Ends the stream at once: in the modern era that is the cancel, in the legacy era it means
        // nothing and frees the connection.
        lane.end();
        let dispatch = lane.mark.dispatch();
        let is_told =
            dispatch == Dispatch::MayHaveLeft && notice.is_none_or(|notice| self.link.insist(notice).is_ok());
        Abandoned { dispatch, is_told }
    }

    fn insist(&self, message: Outbound) -> Result<(), Full> {
        self.link.insist(message)
    }

    fn set_profile(&self, profile: HttpProfile) {
        self.link.set_profile(profile);
    }

    async fn close(&self, by: Instant) -> CloseReport {
        closing::close(&self.link, by).await
    }
}
