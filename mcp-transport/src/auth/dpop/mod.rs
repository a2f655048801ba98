//! Proof of possession: tokens that are bound to a key, so that whoever has taken one cannot use it.
//!
//! [`choice`] says when tokens are bound, [`key`] is what they are bound to and [`proof`] what goes with
//! each request. [`nonce`] are the values that servers want to see in proofs, and [`possession`] has a
//! request for a token made again once where one was missing.
//!
//! The authorization of a login is not bound to the key (`dpop_jkt`): its code is of use to nobody but
//! whoever has the verifier of PKCE, which is never left out here.
//!
//! # Source
//!
//! RFC 9449; MCP extension `io.modelcontextprotocol/auth/dpop` (draft).

mod choice;
mod key;
mod nonce;
mod possession;
mod proof;
#[cfg(test)]
pub(super) mod verify;

pub use choice::Dpop;
pub(super) use choice::{Binding, Offer};
pub use key::DpopKey;
pub use nonce::{DpopNonce, DpopNonces};
pub(super) use possession::{Possession, WANTS_NONCE};
pub(super) use proof::{DPOP, DpopProof};
