//! Reads proofs as a server does, for the tests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;

/// The header and the claims of a proof, whose signature is that of the key in its header.
#[track_caller]
pub(in crate::auth) fn checked(proof: &str) -> [Value; 2] {
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let (signed, signature) = proof.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let [header, claims] =
        [header, claims].map(|part| serde_json::from_slice::<Value>(&decode(part)).unwrap());
    let mut point = vec![4];
    ["x", "y"].iter().for_each(|name| point.extend(decode(header["jwk"][name].as_str().unwrap())));
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify(signed.as_bytes(), &decode(signature))
        .unwrap();
    [header, claims]
}
