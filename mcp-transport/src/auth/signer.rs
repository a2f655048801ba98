use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::Secret;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RsaKeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use zeroize::{Zeroize as _, Zeroizing};

/// PKCS #8's words for a key on P-256 and on P-384: the algorithm and the curve.
const P256: &[u8] = b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P384: &[u8] = b"\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22";

/// Signs what a client says about itself, so that no secret has to travel.
///
/// [`SigningKey`] has the key in memory; what keeps it elsewhere, such as a module or an agent,
/// implements this.
pub trait Signer: Send + Sync + fmt::Debug {
    /// How it signs.
    fn algorithm(&self) -> SigningAlgorithm;

    /// Which of the client's keys it is, if that has to be said.
    fn key_id(&self) -> Option<&str>;

    /// The signature of `message`, in the form that JSON Web Signatures have.
    ///
    /// Called in the midst of a request for a token: it must not take long.
    ///
    /// # Errors
    ///
    /// There is no signature.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CannotSign>;

    /// What tells this signer from others, without a word of the key: settings whose signers have the same
    /// fingerprint are the same settings. `None`: it is the same as itself alone.
    fn fingerprint(&self) -> Option<String> {
        None
    }
}

/// A way to sign.
///
/// # Source
///
/// RFC 7518, section 3.1; RFC 8037, section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// Ed25519.
    EdDsa,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// RSA-PSS with SHA-256.
    Ps256,
    /// RSA PKCS #1 with SHA-256.
    Rs256,
    /// RSA PKCS #1 with SHA-384.
    Rs384,
    /// RSA PKCS #1 with SHA-512.
    Rs512,
}

/// Something could not be signed. The text says why, and is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot sign: {0}")]
pub struct CannotSign(pub String);

/// A private key in memory. `Debug` shows its algorithm and its id.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<KeyPair>,
    algorithm: SigningAlgorithm,
    id: Option<String>,
}

/// A text is no key that can be used here. It is never quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The key does not sign in this way.
    #[error("the key cannot sign with {}", .0.as_str())]
    Algorithm(SigningAlgorithm),
    /// The text holds no private key in PEM form.
    #[error("not a private key in PEM form")]
    Pem,
    /// The key is damaged, of too short a size, or neither RSA nor on P-256, P-384 or Ed25519.
    #[error("not an RSA, P-256, P-384 or Ed25519 key that can be used")]
    Unusable,
}

enum KeyPair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl SigningAlgorithm {
    const ALL: [Self; 7] =
        [Self::EdDsa, Self::Es256, Self::Es384, Self::Ps256, Self::Rs256, Self::Rs384, Self::Rs512];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Ps256 => "PS256",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
        }
    }

    /// Reads a name of the wire.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

impl SigningKey {
    /// Reads the first private key in a text in PEM form: PKCS #8, PKCS #1 (RSA) or SEC 1 (elliptic
    /// curves).
    ///
    /// It signs with ES256, ES384 or EdDSA, as its curve has it, and with RS256 if it is an RSA key.
    ///
    /// # Errors
    ///
    /// See [`InvalidKey`].
    pub fn from_pem(pem: &Secret) -> Result<Self, InvalidKey> {
        let mut der = PrivateKeyDer::from_pem_slice(pem.expose().as_bytes()).map_err(|_| InvalidKey::Pem)?;
        let read = read(&der);
        der.zeroize();
        let (pair, algorithm) = read.ok_or(InvalidKey::Unusable)?;
        Ok(Self { pair: Arc::new(pair), algorithm, id: None })
    }

    /// Signs with this algorithm: RSA keys know several.
    ///
    /// # Errors
    ///
    /// The key is of another kind.
    pub fn with_algorithm(mut self, algorithm: SigningAlgorithm) -> Result<Self, InvalidKey> {
        use SigningAlgorithm::{Ps256, Rs256, Rs384, Rs512};
        let is_rsa = matches!(*self.pair, KeyPair::Rsa(_));
        if algorithm != self.algorithm && !(is_rsa && matches!(algorithm, Ps256 | Rs256 | Rs384 | Rs512)) {
            return Err(InvalidKey::Algorithm(algorithm));
        }
        self.algorithm = algorithm;
        Ok(self)
    }

    /// Names the key to the authorization server, which may know several of the client.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    fn public(&self) -> &[u8] {
        match &*self.pair {
            KeyPair::Ecdsa(pair) => pair.public_key().as_ref(),
            KeyPair::Ed25519(pair) => pair.public_key().as_ref(),
            KeyPair::Rsa(pair) => pair.public_key().as_ref(),
        }
    }
}

impl Signer for SigningKey {
    fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    fn key_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CannotSign> {
        let random = SystemRandom::new();
        let failed =
            |_| CannotSign("the key refuses, or the operating system gives no random bytes".to_owned());
        match &*self.pair {
            KeyPair::Ecdsa(pair) => {
                pair.sign(&random, message).map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
            KeyPair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            KeyPair::Rsa(pair) => {
                let encoding: &dyn signature::RsaEncoding = match self.algorithm {
                    SigningAlgorithm::Ps256 => &signature::RSA_PSS_SHA256,
                    SigningAlgorithm::Rs384 => &signature::RSA_PKCS1_SHA384,
                    SigningAlgorithm::Rs512 => &signature::RSA_PKCS1_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, message, &mut signature).map(|()| signature).map_err(failed)
            }
        }
    }

    fn fingerprint(&self) -> Option<String> {
        let hash = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, self.public()));
        Some(format!("{} with {hash}, called {:?}", self.algorithm.as_str(), self.id))
    }
}

/// The key in one of its three forms, and how it signs unless it is told otherwise.
fn read(der: &PrivateKeyDer<'_>) -> Option<(KeyPair, SigningAlgorithm)> {
    match der {
        PrivateKeyDer::Pkcs1(der) => {
            let pair = RsaKeyPair::from_der(der.secret_pkcs1_der()).ok()?;
            Some((KeyPair::Rsa(pair), SigningAlgorithm::Rs256))
        }
        PrivateKeyDer::Pkcs8(der) => read_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Sec1(der) => {
            let curves = [P256, P384].into_iter();
            curves.map(|curve| pkcs8(curve, der.secret_sec1_der())).find_map(|der| read_pkcs8(&der))
        }
        _ => None,
    }
}

fn read_pkcs8(der: &[u8]) -> Option<(KeyPair, SigningAlgorithm)> {
    let random = SystemRandom::new();
    let curves = [
        (&ECDSA_P256_SHA256_FIXED_SIGNING, SigningAlgorithm::Es256),
        (&ECDSA_P384_SHA384_FIXED_SIGNING, SigningAlgorithm::Es384),
    ];
    for (curve, algorithm) in curves {
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(curve, der, &random) {
            return Some((KeyPair::Ecdsa(pair), algorithm));
        }
    }
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        return Some((KeyPair::Ed25519(pair), SigningAlgorithm::EdDsa));
    }
    let pair = RsaKeyPair::from_pkcs8(der).ok()?;
    Some((KeyPair::Rsa(pair), SigningAlgorithm::Rs256))
}

/// Puts the key of a curve into the form that is read above (RFC 5208, section 5).
fn pkcs8(curve: &[u8], sec1: &[u8]) -> Zeroizing<Vec<u8>> {
    let key = tagged(0x04, &[sec1]);
    tagged(0x30, &[b"\x02\x01\x00", curve, &key])
}

/// An element of DER: tag, length and content.
fn tagged(tag: u8, content: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length: usize = content.iter().map(|part| part.len()).sum();
    let mut element = Zeroizing::new(Vec::with_capacity(length + 4));
    element.push(tag);
    let [.., high, low] = length.to_be_bytes();
    match length {
        // Longer ones are no keys, and are refused by whoever reads them.
        0..0x80 => element.push(low),
        0x80..0x100 => element.extend([0x81, low]),
        _ => element.extend([0x82, high, low]),
    }
    content.iter().for_each(|part| element.extend_from_slice(part));
    element
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("algorithm", &self.algorithm)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use ring::signature::{UnparsedPublicKey, VerificationAlgorithm};

    use super::*;

    /// Keys that openssl has made for these tests and that open nothing.
    const RSA: [&str; 2] = [
        include_str!("../../tests/data/keys/rsa-pkcs8.pem"),
        include_str!("../../tests/data/keys/rsa-pkcs1.pem"),
    ];
    const EC256: [&str; 2] = [
        include_str!("../../tests/data/keys/p256-pkcs8.pem"),
        include_str!("../../tests/data/keys/p256-sec1.pem"),
    ];
    const EC384: [&str; 2] = [
        include_str!("../../tests/data/keys/p384-pkcs8.pem"),
        include_str!("../../tests/data/keys/p384-sec1.pem"),
    ];
    const ED25519: &str = include_str!("../../tests/data/keys/ed25519-pkcs8.pem");
    const SHORT: &str = include_str!("../../tests/data/keys/rsa-short-pkcs8.pem");

    fn key(pem: &str) -> Result<SigningKey, InvalidKey> {
        SigningKey::from_pem(&pem.into())
    }

    #[track_caller]
    fn assert_signs(key: &SigningKey, public: &[u8], with: &'static dyn VerificationAlgorithm) {
        let signature = key.sign(b"message").unwrap();
        let public = UnparsedPublicKey::new(with, public);
        assert_eq!(public.verify(b"message", &signature), Ok(()), "{key:?}");
        assert!(public.verify(b"Message", &signature).is_err());
    }

    #[test]
    fn m01_each_kind_of_key_signs_in_each_form_it_is_kept_in() {
        type Way = (SigningAlgorithm, &'static dyn VerificationAlgorithm);
        let ways: [(&[&str], Way); 3] = [
            (&EC256, (SigningAlgorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED)),
            (&EC384, (SigningAlgorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED)),
            (&[ED25519], (SigningAlgorithm::EdDsa, &signature::ED25519)),
        ];
        for (forms, (algorithm, with)) in ways {
            let keys: Vec<_> = forms.iter().map(|pem| key(pem).unwrap()).collect();
            for one in &keys {
                assert_eq!(one.algorithm(), algorithm);
                // Signed with one form and checked with the other one: it is the same key.
                assert_signs(one, keys[keys.len() - 1].public(), with);
            }
        }
        let ways: [Way; 4] = [
            (SigningAlgorithm::Rs256, &signature::RSA_PKCS1_2048_8192_SHA256),
            (SigningAlgorithm::Rs384, &signature::RSA_PKCS1_2048_8192_SHA384),
            (SigningAlgorithm::Rs512, &signature::RSA_PKCS1_2048_8192_SHA512),
            (SigningAlgorithm::Ps256, &signature::RSA_PSS_2048_8192_SHA256),
        ];
        let [one, other] = RSA.map(|pem| key(pem).unwrap());
        assert_eq!(one.algorithm(), SigningAlgorithm::Rs256);
        for (algorithm, with) in ways {
            let one = one.clone().with_algorithm(algorithm).unwrap();
            assert_signs(&one, other.public(), with);
        }
    }

    #[test]
    fn what_is_no_usable_key_is_told_and_not_quoted() {
        for text in ["", "canary", "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(key(text).unwrap_err(), InvalidKey::Pem, "{text}");
        }
        let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert_eq!(key(no_key).unwrap_err(), InvalidKey::Unusable);
        assert_eq!(key(SHORT).unwrap_err(), InvalidKey::Unusable);
        let damaged = EC256[1].replacen("MHcCAQEE", "MHcCAQIE", 1);
        assert_eq!(key(&damaged).unwrap_err(), InvalidKey::Unusable);
        for algorithm in [SigningAlgorithm::Es384, SigningAlgorithm::Rs256] {
            let refused = key(EC256[0]).unwrap().with_algorithm(algorithm);
            assert_eq!(refused.unwrap_err(), InvalidKey::Algorithm(algorithm));
        }
    }

    #[test]
    fn f149_a_key_that_is_read_twice_is_one_key_and_every_other_is_another() {
        let fingerprint = |key: SigningKey| key.fingerprint().unwrap();
        let [pkcs8, sec1] = EC256.map(|pem| key(pem).unwrap());
        assert_eq!(fingerprint(pkcs8.clone()), fingerprint(sec1));
        let rsa = key(RSA[0]).unwrap();
        let new = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let new = STANDARD.encode(new.unwrap().as_ref());
        let all = [
            pkcs8.clone(),
            key(&format!("-----BEGIN PRIVATE KEY-----\n{new}\n-----END PRIVATE KEY-----\n")).unwrap(),
            pkcs8.with_id("k1"),
            key(EC384[0]).unwrap(),
            key(ED25519).unwrap(),
            rsa.clone(),
            rsa.with_algorithm(SigningAlgorithm::Ps256).unwrap(),
        ]
        .map(fingerprint);
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{one}");
        }
    }

    #[test]
    fn z01_a_key_shows_its_algorithm_and_its_id_alone() {
        let shown = format!("{:?}", key(ED25519).unwrap().with_id("k1"));
        assert_eq!(shown, r#"SigningKey { algorithm: EdDsa, id: Some("k1"), .. }"#);
        for algorithm in SigningAlgorithm::ALL {
            assert_eq!(SigningAlgorithm::parse(algorithm.as_str()), Some(algorithm));
        }
        for name in ["none", "HS256", "es256", ""] {
            assert_eq!(SigningAlgorithm::parse(name), None);
        }
    }
}
