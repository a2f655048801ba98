use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::random::{NoRandomness, Randomness as _, SystemRandomness};

/// What every sealed text begins with: the form in which it is sealed.
const FORM: &[u8] = b"mcp-sealed-1\n";

/// Seals what is kept, so that nobody reads or changes it who does not have the key: 256 bits.
///
/// ```text
/// the form ─ 12 random bytes ─ the text, encrypted ─ 16 bytes that fit to all of it and to the context
/// ```
///
/// `Debug` does not show it.
///
/// # Source
///
/// RFC 8439, section 2.8 (ChaCha20-Poly1305). A random nonce for each text is good for 2³² of them.
pub struct SealingKey(LessSafeKey);

/// A text was not sealed with this key and in this context, or somebody has changed it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotOurs;

impl SealingKey {
    /// How long a key is, in bytes.
    pub const BYTES: usize = 32;

    /// The key with these bytes.
    #[must_use]
    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        // The length is that of the algorithm, which is all that can be wrong with it.
        #[expect(clippy::expect_used, reason = "the type has the length that is asked for")]
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("a key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Seals `text`; it can be opened in the same context alone.
    pub(super) fn seal(&self, text: &[u8], context: &str) -> Result<Vec<u8>, NoRandomness> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandomness.fill(&mut nonce)?;
        let mut sealed = Zeroizing::new(Vec::with_capacity(text.len() + CHACHA20_POLY1305.tag_len()));
        sealed.extend_from_slice(text);
        let (nonce_bytes, nonce) = (nonce, Nonce::assume_unique_for_key(nonce));
        // Only a text of more than 256 GiB is refused.
        self.0.seal_in_place_append_tag(nonce, aad(context), &mut *sealed).map_err(|_| NoRandomness)?;
        Ok([FORM, &nonce_bytes, &sealed].concat())
    }

    /// Opens what was sealed. The memory is wiped when it is dropped.
    pub(super) fn open(&self, sealed: &[u8], context: &str) -> Result<Zeroizing<Vec<u8>>, NotOurs> {
        let rest = sealed.strip_prefix(FORM).ok_or(NotOurs)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(NotOurs)?;
        let mut text = Zeroizing::new(rest.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.0.open_in_place(nonce, aad(context), &mut text).map_err(|_| NotOurs)?.len();
        text.truncate(length);
        Ok(text)
    }
}

fn aad(context: &str) -> Aad<Vec<u8>> {
    Aad::from([FORM, context.as_bytes()].concat())
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_with_the_same_key_and_context_alone() {
        let key = SealingKey::new(&[7; 32]);
        for text in [&b""[..], b"canary", &[0; 100_000]] {
            let sealed = key.seal(text, "a").unwrap();
            assert_eq!(key.open(&sealed, "a").unwrap().as_slice(), text);
            assert_eq!(key.open(&sealed, "b"), Err(NotOurs), "another context");
            assert_eq!(SealingKey::new(&[8; 32]).open(&sealed, "a"), Err(NotOurs), "another key");
            assert_ne!(key.seal(text, "a").unwrap(), sealed, "each time anew");
        }
    }

    #[test]
    fn whatever_is_cut_or_changed_is_not_opened() {
        let key = SealingKey::new(&[7; 32]);
        let sealed = key.seal(b"canary", "a").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"canary"));
        for length in 0..sealed.len() {
            assert_eq!(key.open(&sealed[..length], "a"), Err(NotOurs), "{length}");
            let mut changed = sealed.clone();
            changed[length] ^= 1;
            assert_eq!(key.open(&changed, "a"), Err(NotOurs), "{length}");
        }
        let longer = [&sealed[..], b"x"].concat();
        assert_eq!(key.open(&longer, "a"), Err(NotOurs));
        assert_eq!(key.open(b"canary", "a"), Err(NotOurs), "never sealed");
    }

    #[test]
    fn z01_a_key_is_not_shown() {
        assert_eq!(format!("{:?}", SealingKey::new(&[42; 32])), "SealingKey { .. }");
    }
}
