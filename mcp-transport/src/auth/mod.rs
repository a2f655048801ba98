//! Authorization of requests over HTTP with OAuth 2.1.
//!
//! Built from the bottom. Here are the pieces that decide without I/O: what a server asks for
//! ([`Challenges`]), where its metadata is and what may be believed of it, which scopes to ask for, how
//! a client proves who it is ([`ClientRecord`]), and what an answer is worth ([`TokenReply`]). Below
//! them is the store ([`CredentialStore`]), in memory or in files that several processes share. Nothing
//! of the transports uses them yet.

mod address;
#[cfg(unix)]
mod atomic_write;
mod challenge;
mod client_auth;
mod client_record;
mod error_reply;
#[cfg(unix)]
mod file_store;
mod form;
mod issuer;
mod members;
mod memory_store;
mod metadata;
mod oauth_http;
#[cfg(unix)]
mod on_thread;
mod pkce;
mod random;
mod record;
mod resource;
mod scope;
mod store;
mod tokens;
mod unix_time;
mod web_url;
mod well_known;

pub use address::{AddressClass, AddressPolicy, AddressRefused};
pub use challenge::{BearerChallenge, Challenges};
pub use client_auth::token_request;
pub use client_record::{AuthMethod, ClientRecord, ClientSource, InvalidClient};
pub use error_reply::ErrorReply;
#[cfg(unix)]
pub use file_store::FileStore;
pub use form::Form;
pub use issuer::same_issuer;
pub use memory_store::MemoryStore;
pub use metadata::{ResourceMetadata, ServerMetadata};
pub use oauth_http::{MAX_ANSWER_BYTES, OAuthHttp, OAuthHttpError, OAuthRequest, OAuthResponse};
pub use pkce::{Pkce, PkceMetadata};
pub use random::{NoRandomness, Randomness, SystemRandomness};
pub use record::{CachedMetadata, CredentialRecord};
pub use resource::{canonical_resource, speaks_of};
pub use scope::{ScopeSources, Scopes};
pub use store::{CredentialKey, CredentialStore, FENCE_LIMIT, LockedCredentials, Saved, Stamp, StoreError};
pub use tokens::{TokenFailure, TokenReply, Tokens};
pub use unix_time::UnixTime;
pub use web_url::{WebUrl, WebUrlError};
pub use well_known::{resource_metadata_places, server_metadata_places};
