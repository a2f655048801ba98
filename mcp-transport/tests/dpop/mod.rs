//! Reads proofs of possession as servers do, and an authorization server that insists on them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_transport::auth::*;
use mcp_transport::http::{HeaderMap, HeaderValue};
use ring::digest::{SHA256, digest};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

use crate::auth::{Habit, NOW, Net, Person, World, challenges, ui};

/// What a server says that wants bound tokens.
pub(crate) const ASKS: &str = r#"DPoP error="invalid_token", algs="ES256""#;

/// What a proof says, whose signature is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Names the key.
    pub(crate) key: String,
    pub(crate) jti: String,
    pub(crate) nonce: Option<String>,
    /// The hash of the token.
    ath: Option<String>,
}

impl Proof {
    /// Reads the proof of a request of this method to this URL, made at [`NOW`] or up to an hour later.
    #[track_caller]
    pub(crate) fn read(proof: &str, method: &str, url: &str) -> Self {
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
        let (signed, signature) = proof.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let [header, claims] =
            [header, claims].map(|part| serde_json::from_slice::<Value>(&decode(part)).unwrap());
        assert_eq!((header["typ"].as_str(), header["alg"].as_str()), (Some("dpop+jwt"), Some("ES256")));
        let jwk = header["jwk"].as_object().unwrap();
        assert_eq!(jwk.keys().collect::<Vec<_>>(), ["crv", "kty", "x", "y"], "nothing private");
        let mut point = vec![4];
        ["x", "y"].iter().for_each(|name| point.extend(decode(jwk[*name].as_str().unwrap())));
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        key.verify(signed.as_bytes(), &decode(signature)).unwrap();
        assert_eq!((claims["htm"].as_str(), claims["htu"].as_str()), (Some(method), Some(url)));
        assert!((NOW..=NOW + 3600).contains(&claims["iat"].as_u64().unwrap()), "{claims}");
        let text = |name: &str| claims[name].as_str().map(str::to_owned);
        let key = jwk["x"].as_str().unwrap().to_owned();
        Self { key, jti: text("jti").unwrap(), nonce: text("nonce"), ath: text("ath") }
    }

    /// Whether it is of a request that presents this token.
    pub(crate) fn is_of(&self, token: &str) -> bool {
        self.ath == Some(URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes())))
    }
}

/// The authorization servers of a [`Net`], which bind tokens to keys: each proof is of use once, and a
/// refresh token only with the key of its login.
#[derive(Debug)]
pub(crate) struct Strict {
    net: Arc<Net>,
    state: Mutex<StrictState>,
}

#[derive(Debug, Default)]
struct StrictState {
    /// What proofs have to hold.
    nonce: Option<String>,
    /// Whether there is another nonce after each request.
    is_fickle: bool,
    /// Whether tokens are of the type Bearer, whatever is shown.
    is_lax: bool,
    proofs: Vec<Proof>,
    key: Option<String>,
}

impl Strict {
    pub(crate) fn new(net: &Arc<Net>) -> Arc<Self> {
        Arc::new(Self { net: Arc::clone(net), state: Mutex::default() })
    }

    /// From now on proofs have to hold this nonce.
    pub(crate) fn want_nonce(&self, nonce: &str) {
        self.state.lock().unwrap().nonce = Some(nonce.to_owned());
    }

    /// From now on the nonce changes with every request.
    pub(crate) fn be_fickle(&self) {
        self.state.lock().unwrap().is_fickle = true;
    }

    /// From now on tokens are not bound.
    pub(crate) fn be_lax(&self) {
        self.state.lock().unwrap().is_lax = true;
    }

    /// The proofs of requests for tokens, in order; `None` is not among them.
    pub(crate) fn proofs(&self) -> Vec<Proof> {
        self.state.lock().unwrap().proofs.clone()
    }

    /// Refuses a request for a token, or lets it through.
    fn judge(&self, request: &OAuthRequest) -> Result<(), Value> {
        let Some(proof) = request.headers.get("dpop") else {
            return Err(json!({"error": "invalid_dpop_proof"}));
        };
        assert!(proof.is_sensitive());
        let proof = Proof::read(proof.to_str().unwrap(), "POST", request.url.as_str());
        assert_eq!(proof.ath, None, "no token is presented");
        let mut state = self.state.lock().unwrap();
        state.proofs.push(proof.clone());
        let jtis: HashSet<&String> = state.proofs.iter().map(|proof| &proof.jti).collect();
        assert_eq!(jtis.len(), state.proofs.len(), "each proof is used once");
        assert!(state.proofs.len() < 10, "this does not end");
        if state.is_fickle {
            state.nonce = Some(format!("n-{}", state.proofs.len()));
        }
        if state.nonce != proof.nonce {
            return Err(json!({"error": "use_dpop_nonce"}));
        }
        let form = Form::parse(request.body.as_ref().unwrap().expose());
        if form.has("code") || form.has("client_secret") {
            state.key = Some(proof.key);
            return Ok(());
        }
        match state.key == Some(proof.key) {
            true => Ok(()),
            false => Err(json!({"error": "invalid_grant", "error_description": "another key"})),
        }
    }
}

#[async_trait]
impl OAuthHttp for Strict {
    async fn send(&self, request: OAuthRequest) -> Result<OAuthResponse, OAuthHttpError> {
        let path = request.url.path().to_owned();
        let is_token = path == "/token";
        if is_token && let Err(refusal) = self.judge(&request) {
            let mut headers = HeaderMap::new();
            if let Some(nonce) = &self.state.lock().unwrap().nonce {
                headers.insert("dpop-nonce", HeaderValue::from_str(nonce).unwrap());
            }
            return Ok(OAuthResponse::new(400, headers, refusal.to_string().into_bytes()));
        }
        let mut response = self.net.send(request).await?;
        if let Ok(mut body) = serde_json::from_slice::<Value>(&response.body)
            && response.status == 200
        {
            if is_token && !self.state.lock().unwrap().is_lax {
                body["token_type"] = "DPoP".into();
            }
            if path == "/.well-known/oauth-authorization-server" {
                body["dpop_signing_alg_values_supported"] = json!(["ES256"]);
            }
            response.body = body.to_string().into_bytes();
        }
        Ok(response)
    }
}

/// A world whose authorization server insists on proofs.
pub(crate) struct Bound {
    pub(crate) world: World,
    pub(crate) issuer: Arc<Strict>,
}

impl Bound {
    pub(crate) fn new() -> Self {
        let world = World::new();
        Self { issuer: Strict::new(&world.net), world }
    }

    pub(crate) fn seams(&self) -> OAuthSeams {
        OAuthSeams { http: Arc::<Strict>::clone(&self.issuer), ..self.world.seams() }
    }

    /// As one process would authorize for the site `a`.
    pub(crate) fn oauth(&self, settings: OAuthSettings) -> OAuth {
        OAuth::new("a", World::url("a"), settings, self.seams())
    }

    /// After a refusal that asks for bound tokens, and a login.
    pub(crate) async fn logged_in(&self, settings: OAuthSettings) -> Result<OAuth, AuthError> {
        let oauth = self.oauth(settings);
        let (_, stamp) = oauth.authorize().await?;
        let refused = oauth.on_refused(401, challenges(ASKS), stamp).await;
        assert_eq!(refused, Err(AuthError::NeedsAuth(NeedsAuth::Missing)));
        oauth.login(ui(&Person::new(Habit::Grants)), false).await?;
        Ok(oauth)
    }

    pub(crate) async fn kept(&self) -> Tokens {
        self.world.kept("a").await.unwrap().tokens.unwrap()
    }
}

/// The nonces in these proofs.
pub(crate) fn nonces(proofs: &[Proof]) -> Vec<Option<&str>> {
    proofs.iter().map(|proof| proof.nonce.as_deref()).collect()
}
