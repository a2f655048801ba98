use std::time::Duration;

use super::client_record::InvalidClient;
use super::error_reply::ErrorReply;
use super::random::NoRandomness;
use super::store::StoreError;

/// How much of the scopes that a server asks for a message shows, in bytes.
const SHOWN_SCOPE_BYTES: usize = 200;

/// A request has no valid authorization, and why. No text of it holds a secret or raw bytes of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// What the server has made of the client cannot be used. Configure a client that it knows.
    #[error("the client cannot be used: {0}")]
    Client(#[from] InvalidClient),
    /// Nothing new is begun, as the authorization of this server was closed.
    #[error("the authorization of this server was closed")]
    Closed,
    /// The configuration does not fit what the server offers; the text says which key to set.
    #[error("{0}")]
    Config(String),
    /// The authorization server, or the person, has refused.
    #[error("the authorization server refuses: {0}")]
    Denied(ErrorReply),
    /// The token has too narrow a scope, and only a person can have it widened.
    #[error("the token needs a wider scope: {}", mcp_proto::escape(.required, SHOWN_SCOPE_BYTES))]
    InsufficientScope {
        /// All scopes to ask for, separated by spaces. The message shows the first 200 bytes of them.
        required: String,
        /// Whether asking is no use: they were granted already, or asked for often enough.
        is_final: bool,
    },
    /// A login has ended without an answer.
    #[error("the login {0}")]
    Login(LoginEnd),
    /// Somebody has to log in.
    #[error("authorization is needed: {0}")]
    NeedsAuth(NeedsAuth),
    /// The operating system is at fault.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// What a server publishes may not be used. The server is at fault.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Registering was refused. Configure a client that the server knows.
    #[error("the authorization server registers no client: {0}; configure a client_id")]
    RegistrationRejected(ErrorReply),
    /// The credentials cannot be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A server cannot be reached or is not well. Nothing is lost; trying again may help.
    #[error("the authorization is not available now: {what}")]
    Unavailable {
        /// What failed.
        what: String,
        /// How long a server asks to wait.
        retry_after: Option<Duration>,
    },
}

/// Why somebody has to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NeedsAuth {
    /// The credentials belong to another client or another authorization server.
    #[error("the credentials belong to another configuration")]
    Changed,
    /// The token has expired and cannot be renewed.
    #[error("the token has expired")]
    Expired,
    /// The identity provider of an organisation takes the token of the identity no longer.
    #[error("the identity provider wants a new sign-on")]
    Identity,
    /// There are no credentials.
    #[error("nobody has logged in")]
    Missing,
    /// A login is going on.
    #[error("a login is in progress")]
    LoginInProgress,
    /// A token that was just renewed is refused.
    #[error("the server refuses a token that is new")]
    Rejected,
    /// The authorization server takes the tokens back.
    #[error("the authorization was revoked")]
    Revoked,
}

/// How a login has ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginEnd {
    /// Nobody waits for it any more, or the program stops.
    #[error("was given up")]
    Cancelled,
    /// There is no way to receive the answer.
    #[error("cannot receive an answer: no place for it on this machine is free")]
    NoListener,
    /// The person does not want to.
    #[error("was skipped")]
    Skipped,
    /// The person has not answered in time.
    #[error("took too long")]
    TimedOut,
}

/// What a server publishes may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// An endpoint has a URL that may not be used; the text says why.
    #[error("the {name} of the authorization server may not be used: {why}")]
    Endpoint {
        /// Which endpoint.
        name: &'static str,
        /// Why not.
        why: String,
    },
    /// The configured issuer is not one of those that the server names.
    #[error("the configured issuer is none of those that the server names: {named}")]
    IssuerNotNamed {
        /// Those it names.
        named: String,
    },
    /// The code flow is not offered.
    #[error("the authorization server does not offer the authorization code grant")]
    NoCodeGrant,
    /// The authorization server lacks an endpoint.
    #[error("the authorization server has no {0}")]
    NoEndpoint(&'static str),
    /// Tokens have to be bound to a key, and one side does not say that it takes proofs of the algorithm ES256.
    #[error("tokens have to be bound to a key (DPoP), which is not offered for ES256")]
    NoDpop,
    /// PKCE with S256 is not supported, or not known to be.
    #[error("the authorization server does not say that it supports PKCE with S256")]
    NoPkce,
    /// The authorization server lists what it takes, and the assertions of identity providers are not among
    /// it.
    #[error("the authorization server takes no assertions of identity providers")]
    NoIdentityAssertions,
    /// The server publishes nothing about its authorization.
    #[error("the server asks for authorization and does not say where")]
    NoResourceMetadata,
    /// None of the authorization servers publishes anything that can be used; the text names them.
    #[error("no authorization server can be used: {0}")]
    NoServer(String),
    /// Tokens have to be bound to a key, and the authorization server has issued one that is not.
    #[error("the authorization server does not bind the token to a key (DPoP)")]
    NotBound,
    /// The metadata is about another resource.
    #[error("the metadata of the server speaks of another resource: {resource}")]
    OtherResource {
        /// Of which one.
        resource: String,
    },
}

impl AuthError {
    /// Whether waiting for credentials is all that can be done.
    #[must_use]
    pub fn needs_auth(&self) -> bool {
        matches!(self, Self::InsufficientScope { is_final: false, .. } | Self::NeedsAuth(_))
    }

    /// Whether trying again without a change may help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Store(error) => {
                matches!(error, StoreError::Busy | StoreError::Conflict | StoreError::Keyring(_))
            }
            _ => false,
        }
    }

    /// What a server that is not well has cost, without an advice of that server.
    pub(super) fn unavailable(what: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_without_end_is_shown_up_to_a_limit_and_told_whole() {
        let required = "scope ".repeat(10_000);
        let error = AuthError::InsufficientScope { required: required.clone(), is_final: false };
        assert!(error.to_string().len() < 300, "{}", error.to_string().len());
        assert!(matches!(error, AuthError::InsufficientScope { required: whole, .. } if whole == required));
    }
}
