//! Authorization of requests over HTTP with OAuth 2.1.
//!
//! [`OAuth`] authorizes the requests to one server: it says which token a request carries, renews it, and
//! has a person asked where nothing else helps, for instance through [`LoopbackUi`]. As an
//! [`AuthProvider`](crate::http::AuthProvider) it does the first two for HTTP connections; a login is for
//! the layers above to call. Its own requests are made by [`OAuthClient`].
//!
//! Tokens are bound to a key where both sides offer that ([`Dpop`]): what belongs to it is in `dpop/`.
//!
//! What decides does so without I/O, one concern a file: [`Login`], [`Refresh`] and [`MachineGrant`] are
//! machines that are driven step by step, and take the answer to the last question alone. What drives them
//! is thin: `login_run.rs` for the first, `renewal_run.rs` for the other two. Four exclusions are kept apart:
//!
//! | what | where | held |
//! |---|---|---|
//! | what is known about one server | `provider.rs` | never while anything is waited for |
//! | the turn to read the store for one server | `provider.rs` | while it is read |
//! | the right to change credentials, among processes ([`LockedCredentials`]) | `store.rs` | from reading to keeping, never during a discovery or while a person thinks |
//! | the right to ask a person ([`InteractiveGate`]) | `gate.rs` | from the first question of a login to its end |
//!
//! The third is what OAuth texts call a fence: *taking the fence* is locking the record.
//! None of them is held during a request to the server that is protected.
//!
//! # Examples
//!
//! ```rust,no_run
//! use std::sync::Arc;
//!
//! use mcp_transport::auth::{
//!     FileStore, InteractiveGate, OAuth, OAuthClient, OAuthSeams, OAuthSettings, SystemRandomness, WebUrl,
//! };
//! use mcp_transport::http::{Endpoint, HttpConnector, HttpLimits, HyperBackend, TlsRoots};
//! use mcp_transport::SystemClock;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "https://example.com/mcp";
//! let server = WebUrl::parse(url)?;
//! let seams = OAuthSeams {
//!     http: Arc::new(OAuthClient::new(TlsRoots::Platform)),
//!     store: Arc::new(FileStore::new("/home/me/.config/example/oauth")),
//!     clock: Arc::new(SystemClock),
//!     randomness: Arc::new(SystemRandomness),
//!     gate: InteractiveGate::default(),
//! };
//! let oauth = OAuth::new("example", server, OAuthSettings::default(), seams);
//! let connector = HttpConnector::new(Arc::new(HyperBackend::default()), Endpoint::parse(url)?, HttpLimits::default())
//!     .with_auth(Arc::new(oauth))?;
//! # let _ = connector; Ok(()) }
//! ```

mod access;
mod access_token;
mod address;
#[cfg(unix)]
mod atomic_write;
mod authorization;
mod bearer;
mod callback;
mod challenge;
mod client_assertion;
mod client_auth;
mod client_record;
mod discovery;
mod dpop;
mod error;
mod error_reply;
mod file_identity;
#[cfg(unix)]
mod file_store;
mod form;
mod gate;
mod hook;
mod http_client;
mod identity;
mod issuer;
#[cfg(all(unix, feature = "keyring"))]
mod keyring_store;
mod login;
mod login_run;
mod machine_grant;
mod members;
mod memory_store;
mod metadata;
mod oauth_http;
mod on_thread;
mod pkce;
mod provider;
mod random;
mod record;
mod refresh;
mod registration;
mod renewal;
mod renewal_run;
mod resource;
mod revocation;
mod scope;
#[cfg(unix)]
mod sealing_key;
mod secret_file;
mod settings;
mod signer;
mod store;
mod token_exchange;
mod tokens;
mod ui;
mod unix_time;
mod web_url;
mod well_known;

pub use access::TokenStamp;
pub use access_token::AccessToken;
pub use address::{AddressClass, AddressPolicy, AddressRefused};
pub use authorization::{AuthorizationRequest, ForeignAnswer};
pub use bearer::{BearerToken, InvalidToken};
pub use callback::{CallbackHub, CallbackRefusal, LoopbackUi, Pasted, Presenter, read_callback};
pub use challenge::{Challenges, TokenChallenge};
pub use client_record::{AuthMethod, ClientRecord, ClientSource, InvalidClient};
pub use dpop::{Dpop, DpopKey, DpopNonce, DpopNonces};
pub use error::{AuthError, LoginEnd, NeedsAuth, Refusal};
pub use error_reply::ErrorReply;
pub use file_identity::FileIdentity;
#[cfg(unix)]
pub use file_store::FileStore;
pub use form::Form;
pub use gate::{GatePass, InteractiveGate};
pub use http_client::OAuthClient;
pub use identity::{FixedIdentity, IdentityKind, IdentityProvider, IdentitySource};
pub use issuer::same_issuer;
#[cfg(all(unix, feature = "keyring"))]
pub use keyring_store::KeyringStore;
pub use login::{Login, LoginInput, LoginOutput, LoginPlan, UnexpectedInput};
pub use machine_grant::MachineGrant;
pub use memory_store::MemoryStore;
pub use metadata::{ResourceMetadata, ServerMetadata};
pub use oauth_http::{MAX_ANSWER_BYTES, OAuthHttp, OAuthHttpError, OAuthRequest, OAuthResponse};
pub use pkce::{Pkce, PkceMetadata};
pub use provider::{AfterRefusal, OAuth, OAuthSeams};
pub use random::{NoRandomness, Randomness, SystemRandomness};
pub use record::{CachedMetadata, CredentialRecord};
pub use refresh::Refresh;
pub use renewal::{Renewal, RenewalInput, RenewalOutput, RenewalPlan};
pub use resource::{canonical_resource, speaks_of};
pub use revocation::Revocation;
pub use scope::{ScopeSources, Scopes};
#[cfg(unix)]
pub use sealing_key::SealingKey;
pub use secret_file::read_secret_file;
pub use settings::{
    ApplicationType, ConfiguredClient, Grant, Legacy, OAuthSettings, Redirect, ResourceParameter,
};
pub use signer::{CannotSign, InvalidKey, Signer, SigningAlgorithm, SigningKey};
pub use store::{CredentialKey, CredentialStore, FENCE_LIMIT, LockedCredentials, Saved, Stamp, StoreError};
pub use tokens::{TokenFailure, TokenReply, Tokens};
pub use ui::{AnswerVerdict, AuthUi, Consent, Delivery, RedirectWish};
pub use unix_time::UnixTime;
pub use web_url::{WebUrl, WebUrlError};
pub use well_known::{resource_metadata_places, server_metadata_places};
