use std::fmt;

use async_trait::async_trait;
use mcp_transport::{AuthFailureKind, Rejection};
use tokio::time::Instant;

use crate::machine::Loss;

/// Brings the credentials of one server about that its connections cannot get by themselves.
///
/// Connections use and renew credentials without anybody's help. Where only a person can help, a call that
/// needs them waits for a login, if there may be one, and its clock stands still meanwhile; connecting by
/// itself never asks anybody.
#[async_trait]
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Whether calls may have a person asked. If not, they are refused at once, and a login is a matter of
    /// [`ServerHandle::login`](crate::ServerHandle::login) or of another program.
    fn may_ask(&self) -> bool;

    /// Has a person log in. Called once for everybody who waits, and not again before it has ended.
    ///
    /// It keeps limits of its own: whoever waits for it waits as long as it takes.
    ///
    /// # Errors
    ///
    /// There are no new credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropped when nobody waits for it any more, or the server is stopped: it closes what it has opened,
    /// and finishes by itself what must not be cut off.
    async fn login(&self) -> Result<(), LoginFailed>;

    /// Waits until there are credentials that were not yet found to be of no use, whoever has brought them
    /// about. Asked while the server waits for some.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: whoever asks again is told of what has happened in between.
    async fn renewed(&self);

    /// Begins nothing any more, and waits until `by` for what must not be cut off, such as keeping a token
    /// that is given only once. Answers with the number of tasks that have not ended then. Called once, when
    /// the server has been stopped and its connection is gone.
    ///
    /// # Cancel safety
    ///
    /// Dropped shortly after `by`.
    async fn close(&self, by: Instant) -> usize;
}

/// A login has brought no credentials; the text says why and is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoginFailed(pub String);

/// What a request needs that its server has refused, as far as that is a matter of authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Another configuration.
    Config,
    /// Somebody who logs in: the credentials are of no use to any request.
    Login,
    /// Another moment.
    Patience,
    /// Somebody who grants more; the credentials are good for other requests.
    WiderScope,
}

impl Needs {
    /// `None` if the refusal has nothing to do with authorization.
    pub(crate) fn of(rejection: &Rejection) -> Option<Self> {
        if rejection.wants_wider_scope() {
            return Some(Self::WiderScope);
        }
        match rejection.auth.as_ref().map(|failure| &failure.kind) {
            // What it has to say about a 403 concerns that one request.
            Some(AuthFailureKind::Config) => (rejection.status == 401).then_some(Self::Config),
            Some(AuthFailureKind::Unavailable(_)) => Some(Self::Patience),
            _ => rejection.wants_authorization().then_some(Self::Login),
        }
    }
}

/// What the refusal of a request without which there is no connection says about the next one; `None` if it
/// depends on the request.
pub(crate) fn loss_of_refusal(rejection: &Rejection) -> Option<Loss> {
    let passes = || rejection.retry_after.map_or(Loss::Transient, Loss::Later);
    match (Needs::of(rejection), rejection.status) {
        (Some(Needs::Login | Needs::WiderScope), _) => Some(Loss::Auth),
        (Some(Needs::Patience), _) => Some(passes()),
        // It is the client that the server does not want, or somebody between the two.
        (Some(Needs::Config), _) | (None, 403) => Some(Loss::Permanent),
        (None, 429 | 500..) => Some(passes()),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_transport::AuthFailure;

    use super::*;

    const SCOPE: &str = "Bearer error=\"insufficient_scope\", scope=\"write\"";

    fn refusal(status: u16, kind: Option<AuthFailureKind>) -> Rejection {
        let mut rejection = Rejection::new(status);
        rejection.auth = kind.map(|kind| AuthFailure::new(kind, "why"));
        rejection
    }

    #[test]
    fn f061_a_refusal_has_one_reading() {
        use AuthFailureKind::{Config, InsufficientScope, NeedsAuth, Unavailable};
        let mut scoped = refusal(403, None);
        scoped.challenge = Some(SCOPE.to_owned());
        for (rejection, needs, loss) in [
            (refusal(401, None), Some(Needs::Login), Some(Loss::Auth)),
            (refusal(401, Some(NeedsAuth)), Some(Needs::Login), Some(Loss::Auth)),
            (refusal(401, Some(Config)), Some(Needs::Config), Some(Loss::Permanent)),
            (refusal(401, Some(Unavailable(None))), Some(Needs::Patience), Some(Loss::Transient)),
            (scoped, Some(Needs::WiderScope), Some(Loss::Auth)),
            (
                refusal(403, Some(InsufficientScope("write".to_owned()))),
                Some(Needs::WiderScope),
                Some(Loss::Auth),
            ),
            (refusal(403, Some(Config)), None, Some(Loss::Permanent)),
            (refusal(403, None), None, Some(Loss::Permanent)),
            (refusal(404, None), None, None),
            (refusal(429, None), None, Some(Loss::Transient)),
            (refusal(503, None), None, Some(Loss::Transient)),
        ] {
            assert_eq!((Needs::of(&rejection), loss_of_refusal(&rejection)), (needs, loss), "{rejection:?}");
        }
    }

    #[test]
    fn a_server_is_left_alone_for_as_long_as_it_asks() {
        let mut rejection = refusal(401, Some(AuthFailureKind::Unavailable(Some(Duration::from_secs(7)))));
        rejection.retry_after = Some(Duration::from_secs(7));
        assert_eq!(loss_of_refusal(&rejection), Some(Loss::Later(Duration::from_secs(7))));
    }
}
