use std::time::Duration;

/// A request has no authorization that the server would accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct AuthFailure {
    /// What can be done about it.
    pub kind: AuthFailureKind,
    /// The same for a person, safe to show.
    pub message: String,
}

/// What can be done about a request without authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthFailureKind {
    /// The configuration has to change.
    Config,
    /// Somebody has to log in again, for more than before; the scopes are separated by spaces.
    InsufficientScope(String),
    /// Somebody has to log in.
    NeedsAuth,
    /// It may work later, after this long if the server says so.
    Unavailable(Option<Duration>),
}

impl AuthFailure {
    /// Describes a failure; `message` must be safe to show.
    #[must_use]
    pub fn new(kind: AuthFailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Whether waiting for a login is all that can be done.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        matches!(self.kind, AuthFailureKind::InsufficientScope(_) | AuthFailureKind::NeedsAuth)
    }
}
