use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::Secret;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use zeroize::Zeroizing;

use crate::auth::random::NoRandomness;

/// The key that the tokens of one grant are bound to: on P-256, made here, and sent to nobody.
///
/// It is kept beside its tokens, as they are worth nothing without it, and is forgotten with them.
/// Clones are the same key. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct DpopKey(Arc<Pair>);

struct Pair {
    pair: EcdsaKeyPair,
    /// The private key as it is kept: PKCS #8, in base64url.
    kept: Secret,
}

impl DpopKey {
    /// Makes a new key, with the random bytes of the operating system.
    ///
    /// # Errors
    ///
    /// There are none.
    pub fn generate() -> Result<Self, NoRandomness> {
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let der = der.map_err(|_| NoRandomness)?;
        Self::read(Secret::new(URL_SAFE_NO_PAD.encode(&der))).ok_or(NoRandomness)
    }

    /// Reads a key as it is kept; `None` if it is none.
    pub(in crate::auth) fn read(kept: Secret) -> Option<Self> {
        let der = Zeroizing::new(URL_SAFE_NO_PAD.decode(kept.expose()).ok()?);
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new()).ok()?;
        Some(Self(Arc::new(Pair { pair, kept })))
    }

    /// The private key as it is kept.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.0.kept
    }

    /// The coordinates of the public key, in base64url.
    pub(super) fn coordinates(&self) -> [String; 2] {
        // An uncompressed point: one byte that says so, then both coordinates of 32 bytes.
        let point = self.0.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at_checked(32).unwrap_or_default();
        [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate))
    }

    /// The signature of `message` with ES256, in the form that JSON Web Signatures have.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, NoRandomness> {
        let signature = self.0.pair.sign(&SystemRandom::new(), message).map_err(|_| NoRandomness)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl PartialEq for DpopKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.kept == other.0.kept
    }
}

impl Eq for DpopKey {}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_and_read_as_the_same_one() {
        let [one, other] = [(); 2].map(|()| DpopKey::generate().unwrap());
        let read = DpopKey::read(one.secret().clone()).unwrap();
        assert_eq!((&read, read.coordinates()), (&one, one.coordinates()));
        assert_ne!(one, other);
        assert_ne!(one.coordinates(), other.coordinates());
        for coordinate in one.coordinates() {
            assert_eq!(URL_SAFE_NO_PAD.decode(coordinate).unwrap().len(), 32);
        }
    }

    #[test]
    fn what_is_no_key_is_none() {
        let kept = DpopKey::generate().unwrap().secret().expose().to_owned();
        for text in ["", "AAAA", "!", &kept[1..], &kept[..kept.len() - 4], &kept.replace('M', "N")] {
            assert_eq!(DpopKey::read(text.into()), None, "{text}");
        }
    }

    #[test]
    fn z01_a_key_shows_nothing() {
        let key = DpopKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), "DpopKey { .. }");
    }
}
