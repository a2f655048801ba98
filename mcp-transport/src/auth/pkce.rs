use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::Secret;
use ring::digest;

use super::metadata::ServerMetadata;
use super::random::{NoRandomness, Randomness, token};

/// Proves that who redeems a code is who asked for it. Made for one attempt and never used again.
///
/// # Source
///
/// RFC 7636, sections 4.1 and 4.2, with the method `S256` alone.
#[derive(Debug)]
pub struct Pkce {
    verifier: Secret,
}

/// What to do with a server that does not say whether it supports PKCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PkceMetadata {
    /// Go on; some large providers do not say so and support it.
    Lenient,
    /// Refuse, as MCP demands. The default.
    #[default]
    Strict,
}

impl Pkce {
    /// A new verifier of 43 characters.
    ///
    /// # Errors
    ///
    /// There is no randomness.
    pub fn new(randomness: &dyn Randomness) -> Result<Self, NoRandomness> {
        Ok(Self { verifier: token(randomness)? })
    }

    /// What the token endpoint gets.
    #[must_use]
    pub fn verifier(&self) -> &Secret {
        &self.verifier
    }

    /// What the authorization endpoint gets: the SHA-256 of the verifier.
    #[must_use]
    pub fn challenge(&self) -> String {
        let hash = digest::digest(&digest::SHA256, self.verifier.expose().as_bytes());
        URL_SAFE_NO_PAD.encode(hash)
    }
}

impl PkceMetadata {
    /// Whether a code may be asked for from the server with this metadata.
    #[must_use]
    pub fn allows(self, metadata: &ServerMetadata) -> bool {
        match &metadata.code_challenge_methods_supported {
            Some(methods) => methods.iter().any(|method| method == "S256"),
            None => self == Self::Lenient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::SystemRandomness;

    #[test]
    fn p02_the_challenge_is_that_of_the_specification() {
        // RFC 7636, appendix B.
        let pkce = Pkce { verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into() };
        assert_eq!(pkce.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn p02_verifiers_are_fresh_and_of_the_right_shape() {
        let [one, other] = [(); 2].map(|()| Pkce::new(&SystemRandomness).unwrap());
        assert_ne!(one.verifier(), other.verifier());
        let text = one.verifier().expose();
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        assert!((43..=128).contains(&text.len()) && text.bytes().all(is_unreserved), "shape");
        assert!(!format!("{one:?}").contains(text));
    }

    #[test]
    fn p01_a_server_must_support_s256_and_say_so() {
        let with = |methods: Option<&[&str]>| ServerMetadata {
            code_challenge_methods_supported: methods
                .map(|methods| methods.iter().map(|method| (*method).to_owned()).collect()),
            ..ServerMetadata::default()
        };
        for (methods, strict, lenient) in [
            (None, false, true),
            (Some(&[][..]), false, false),
            (Some(&["plain"]), false, false),
            (Some(&["s256"]), false, false),
            (Some(&["plain", "S256"]), true, true),
        ] {
            let metadata = with(methods);
            assert_eq!(PkceMetadata::Strict.allows(&metadata), strict, "{methods:?}");
            assert_eq!(PkceMetadata::Lenient.allows(&metadata), lenient, "{methods:?}");
        }
    }
}
