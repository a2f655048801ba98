use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::Secret;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Where unguessable values come from: verifiers, states, identifiers of assertions.
///
/// Injected so that a test can tell what they will be; for use there is [`SystemRandomness`].
pub trait Randomness: Send + Sync + fmt::Debug {
    /// Fills `bytes`.
    ///
    /// # Errors
    ///
    /// The source has failed.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

/// The source of randomness has failed. The operating system is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random bytes")]
pub struct NoRandomness;

/// The random bytes of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandomness;

impl Randomness for SystemRandomness {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        SystemRandom::new().fill(bytes).map_err(|_| NoRandomness)
    }
}

/// A text of 43 characters that is safe in URLs and holds 256 random bits.
pub(super) fn token(randomness: &dyn Randomness) -> Result<Secret, NoRandomness> {
    let mut bytes = [0; 32];
    randomness.fill(&mut bytes)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}
