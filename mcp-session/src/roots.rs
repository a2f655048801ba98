use std::sync::atomic::{AtomicU64, Ordering};

use mcp_proto::{Era, Method, RootsListChanged};
use mcp_transport::{CloseReason, Closed, Dispatch, Outbound, SendError, Sent};
use tokio::time::{Instant, timeout_at};

use crate::era::notice;
use crate::error::{CallError, UnsupportedWhy};
use crate::session::Session;

/// Whether the server was told that the roots have changed, and has not asked for them since. As long as
/// that holds, a further change need not be told: whoever asks then is answered with it.
#[derive(Debug, Default)]
pub(crate) struct RootsNotice {
    /// How many times the server has asked.
    asked: AtomicU64,
    /// When it was told last, as the number of times that it had asked before the telling began, and one more.
    told: AtomicU64,
}

impl RootsNotice {
    /// The server asks for the roots: what changes from here on is news.
    pub(crate) fn on_asked(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// Begins to tell of a change, unless the server was told already. Two may tell at once: which of them
    /// arrives nobody knows before it has.
    fn begin(&self) -> Option<Telling<'_>> {
        let mark = self.asked.load(Ordering::SeqCst) + 1;
        (self.told.load(Ordering::SeqCst) < mark).then_some(Telling { notice: self, mark })
    }
}

/// A notice on its way.
struct Telling<'a> {
    notice: &'a RootsNotice,
    mark: u64,
}

impl Telling<'_> {
    /// It has left; that counts for nothing if the server has asked meanwhile.
    fn done(self) {
        self.notice.told.fetch_max(self.mark, Ordering::SeqCst);
    }
}

impl Session {
    /// Tells the server that the roots have changed: its next `roots/list` is answered otherwise.
    ///
    /// The [`ClientHandler`](crate::ClientHandler) must have declared that it tells of changes
    /// ([`RootsCapability::list_changed`](mcp_proto::RootsCapability::list_changed)), and must answer with the
    /// new roots from now on. Changes that follow before the server has asked are not told again. A modern
    /// server has no such notice, as it asks anew each time: nothing is sent to it. Waits while the server
    /// does not read, at most until `by`.
    ///
    /// # Errors
    ///
    /// - [`CallError::Unsupported`] with [`UnsupportedWhy::Undeclared`]: the handler has not declared it.
    /// - [`CallError::Timeout`], [`CallError::SessionGone`], [`CallError::Http`]: the server may not have been
    ///   told.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the server untold; the next change is told then.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/roots.
    pub async fn roots_changed(&self, by: Instant) -> Result<(), CallError> {
        let shared = &self.handle().shared;
        if !shared.service.as_ref().is_some_and(|service| service.tells_of_roots()) {
            let why = UnsupportedWhy::Undeclared;
            return Err(CallError::Unsupported { method: Method::ROOTS_LIST_CHANGED, why });
        }
        if self.peer().era == Era::Modern {
            return Ok(());
        }
        let Some(telling) = shared.roots.begin() else { return Ok(()) };
        let message =
            Outbound::notification(notice(&RootsListChanged::default()).map_err(CallError::Encode)?);
        let started = Instant::now();
        let sent = timeout_at(by, shared.transport.send(message))
            .await
            .map_err(|_| CallError::Timeout { dispatch: Dispatch::MayHaveLeft, waited: started.elapsed() })?;
        match sent {
            Ok(Sent::Rejected(mut rejection)) => {
                shared.redact_rejection(&mut rejection);
                Err(CallError::Http(rejection))
            }
            Ok(Sent::Failed(why)) => Err(why.into()),
            Ok(_) => {
                telling.done();
                Ok(())
            }
            Err(SendError::Refused(closed)) => {
                Err(CallError::SessionGone { dispatch: Dispatch::Refused, closed })
            }
            Err(SendError::Closed(closed)) => {
                Err(CallError::SessionGone { dispatch: Dispatch::NotSent, closed })
            }
            Err(error) => {
                let closed = Closed::new(CloseReason::Broken(error.to_string()), "");
                Err(CallError::SessionGone { dispatch: Dispatch::NotSent, closed })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_until_the_server_has_asked() {
        let notice = RootsNotice::default();
        notice.begin().unwrap().done();
        for _ in 0..2 {
            assert!(notice.begin().is_none(), "it is going to ask");
        }
        notice.on_asked();
        assert!(notice.begin().is_some());
        notice.begin().expect("what was not sent is sent the next time").done();
        assert!(notice.begin().is_none());
    }

    #[test]
    fn what_is_still_being_told_is_not_relied_on() {
        let notice = RootsNotice::default();
        let (first, second) = (notice.begin().unwrap(), notice.begin().expect("nobody was told yet"));
        notice.on_asked();
        first.done();
        let third = notice.begin().expect("it may have asked before the first notice came");
        third.done();
        second.done();
        assert!(notice.begin().is_none(), "a late one takes nothing back");
    }
}
