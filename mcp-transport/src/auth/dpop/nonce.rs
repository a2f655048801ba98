use http::HeaderMap;

use crate::http::Origin;

/// Longest nonce that is kept, in bytes: it goes with every proof, and many servers take heads of 8 KiB.
const MAX_NONCE_BYTES: usize = 1024;

/// Most origins whose nonces are remembered.
const MAX_ORIGINS: usize = 8;

/// A value that a server wants to see in proofs, so that none can be made long before it is used.
///
/// # Source
///
/// RFC 9449, section 8.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpopNonce(String);

/// The newest nonce of each authorization server, by its origin.
///
/// At most eight are remembered, the newest ones. They are not kept: without one a request is refused
/// once, and made again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DpopNonces(Vec<(Origin, DpopNonce)>);

impl DpopNonce {
    /// The nonce in the headers of an answer, whatever its status; `None` if there is none, or one that no
    /// nonce may look like, or of more than 1 KiB.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get("dpop-nonce")?.as_bytes();
        // Visible characters without the quote and the backslash.
        let is_nonce = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        let is_taken = !value.is_empty() && value.len() <= MAX_NONCE_BYTES && value.iter().all(is_nonce);
        is_taken.then(|| Self(String::from_utf8_lossy(value).into_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DpopNonces {
    /// Remembers the nonce in the headers of an answer from `origin`, if there is one.
    pub fn note(&mut self, origin: &Origin, headers: &HeaderMap) {
        let Some(nonce) = DpopNonce::of(headers) else { return };
        self.0.retain(|(known, _)| known != origin);
        if self.0.len() >= MAX_ORIGINS {
            self.0.remove(0);
        }
        self.0.push((origin.clone(), nonce));
    }

    /// What `origin` wants to see.
    #[must_use]
    pub fn newest(&self, origin: &Origin) -> Option<&DpopNonce> {
        self.0.iter().find(|(known, _)| known == origin).map(|(_, nonce)| nonce)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::http::Scheme;

    fn headers(nonce: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("dpop-nonce", HeaderValue::from_bytes(nonce).unwrap());
        headers
    }

    fn origin(port: u16) -> Origin {
        Origin::new(Scheme::Https, "as.example", port)
    }

    #[test]
    fn only_what_a_nonce_may_look_like_is_one() {
        for text in ["a", "eyJ7S_zG.eyJH0-Z.HX4w-7v", "!#[]~", &"n".repeat(MAX_NONCE_BYTES)] {
            assert_eq!(DpopNonce::of(&headers(text.as_bytes())).unwrap().as_str(), text);
        }
        let long = "n".repeat(MAX_NONCE_BYTES + 1);
        for bytes in [&b""[..], b"a b", b"a\"b", b"a\\b", b"a\tb", "ä".as_bytes(), b"\xff", long.as_bytes()]
        {
            assert_eq!(DpopNonce::of(&headers(bytes)), None, "{bytes:?}");
        }
        assert_eq!(DpopNonce::of(&HeaderMap::new()), None);
    }

    #[test]
    fn the_newest_nonce_of_an_origin_counts_and_an_answer_without_one_changes_nothing() {
        let mut nonces = DpopNonces::default();
        for nonce in ["one", "two"] {
            nonces.note(&origin(1), &headers(nonce.as_bytes()));
        }
        nonces.note(&origin(1), &HeaderMap::new());
        assert_eq!(nonces.newest(&origin(1)).map(DpopNonce::as_str), Some("two"));
        assert_eq!(nonces.newest(&origin(2)), None);
    }

    #[test]
    fn no_more_than_eight_origins_are_remembered() {
        let mut nonces = DpopNonces::default();
        for port in 1..=100 {
            nonces.note(&origin(port), &headers(b"n"));
            nonces.note(&origin(1), &headers(b"first"));
        }
        assert_eq!(nonces.0.len(), MAX_ORIGINS);
        assert!(nonces.newest(&origin(1)).is_some() && nonces.newest(&origin(100)).is_some());
        assert_eq!(nonces.newest(&origin(50)), None);
    }
}
