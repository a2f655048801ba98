use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::net::NetRequest;

/// Guards an [`HttpHost`](super::HttpHost): an authorization server and the door of its resource, on one
/// origin, without any I/O.
///
/// It lets whoever registers register, grants what is asked for as soon as the URL of an authorization is
/// opened, and keeps strict order: a code and a refresh token are good once, and one that comes twice ends
/// the grant. Access tokens are `access-1`, `access-2`, …
///
/// Clients that act for themselves are given tokens too, if they prove who they are or show an assertion. At
/// `/idp/token` an identity provider vouches for whoever shows a token of an identity: with `vouched-TOKEN`.
#[derive(Debug, Default)]
pub struct AuthSite {
    /// The scope that every request to the resource needs, if it needs one.
    scope: Option<String>,
    state: Mutex<State>,
}

/// A request for a token, as it came.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TokenRequest {
    /// The path: that of the authorization server or of the identity provider.
    pub path: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The parameters of the form.
    pub form: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct State {
    /// What the resource accepts.
    access: BTreeSet<String>,
    /// What renews a grant.
    refresh: BTreeSet<String>,
    /// Codes that nobody has redeemed.
    codes: BTreeSet<String>,
    granted: usize,
    issued: usize,
    registered: usize,
    paths: Vec<String>,
    requests: Vec<TokenRequest>,
}

/// What is answered instead of passing a request on.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: &'static str,
    /// Further lines of the head, each with its line end.
    pub(super) headers: String,
    pub(super) body: Value,
}

impl Reply {
    fn new(status: &'static str, body: Value) -> Self {
        Self { status, headers: String::new(), body }
    }
}

impl AuthSite {
    /// Every request to the resource needs this scope, which is named in the challenge.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Takes every access token back; refresh tokens stay good.
    pub fn expire(&self) {
        self.state().access.clear();
    }

    /// Takes everything back.
    pub fn revoke(&self) {
        let mut state = self.state();
        state.access.clear();
        state.refresh.clear();
    }

    /// How many access tokens were given out.
    pub fn issued(&self) -> usize {
        self.state().issued
    }

    /// How many clients have registered.
    pub fn registered(&self) -> usize {
        self.state().registered
    }

    /// The paths of all requests to the authorization server, in the order in which they came.
    pub fn paths(&self) -> Vec<String> {
        self.state().paths.clone()
    }

    /// All requests for tokens, in the order in which they came.
    pub fn token_requests(&self) -> Vec<TokenRequest> {
        self.state().requests.clone()
    }

    /// Answers a request to the host at `origin`; `None` if it is to be passed on.
    pub(super) fn answer(&self, origin: &str, request: &NetRequest) -> Option<Reply> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if path == "/mcp" {
            return self.judge(origin, request);
        }
        self.state().paths.push(path.to_owned());
        Some(match path {
            "/.well-known/oauth-protected-resource/mcp" => Reply::new(
                "200 OK",
                json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}),
            ),
            "/.well-known/oauth-authorization-server" => Reply::new(
                "200 OK",
                json!({"issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                       "token_endpoint": format!("{origin}/token"),
                       "registration_endpoint": format!("{origin}/register"),
                       "code_challenge_methods_supported": ["S256"]}),
            ),
            "/register" => {
                let mut state = self.state();
                state.registered += 1;
                Reply::new("201 Created", json!({"client_id": format!("client-{}", state.registered)}))
            }
            "/authorize" => self.authorize(&form(query)),
            "/token" => self.token(&self.noted(path, request)),
            "/idp/token" => vouch(&self.noted(path, request)),
            _ => Reply::new("404 Not Found", Value::Null),
        })
    }

    /// Whether a request may pass to the resource.
    fn judge(&self, origin: &str, request: &NetRequest) -> Option<Reply> {
        let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if token.is_some_and(|token| self.state().access.contains(token)) {
            return None;
        }
        let scope = self.scope.as_ref().map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
        let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
        let mut reply = Reply::new("401 Unauthorized", Value::Null);
        reply.headers = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"{scope}\r\n");
        Some(reply)
    }

    fn authorize(&self, query: &BTreeMap<String, String>) -> Reply {
        let value = |name: &str| query.get(name).cloned().unwrap_or_default();
        let mut state = self.state();
        state.granted += 1;
        let code = format!("code-{}", state.granted);
        let answer = format!("{}?code={code}&state={}", value("redirect_uri"), value("state"));
        state.codes.insert(code);
        let mut reply = Reply::new("302 Found", Value::Null);
        reply.headers = format!("location: {answer}\r\n");
        reply
    }

    fn noted(&self, path: &str, request: &NetRequest) -> TokenRequest {
        let form = form(&String::from_utf8_lossy(&request.body));
        let authorization = request.header("authorization").map(str::to_owned);
        let request = TokenRequest { path: path.to_owned(), authorization, form };
        self.state().requests.push(request.clone());
        request
    }

    fn token(&self, request: &TokenRequest) -> Reply {
        let value = |name: &str| request.value(name);
        let mut state = self.state();
        let is_granted = match value("grant_type") {
            "authorization_code" => !value("code_verifier").is_empty() && state.codes.remove(value("code")),
            "refresh_token" => state.refresh.remove(value("refresh_token")),
            "client_credentials" => request.is_proven(),
            "urn:ietf:params:oauth:grant-type:jwt-bearer" => !value("assertion").is_empty(),
            _ => false,
        };
        if !is_granted {
            state.access.clear();
            state.refresh.clear();
            return Reply::new("400 Bad Request", json!({"error": "invalid_grant"}));
        }
        state.issued += 1;
        let (access, refresh) = (format!("access-{}", state.issued), format!("refresh-{}", state.issued));
        state.access.insert(access.clone());
        state.refresh.insert(refresh.clone());
        Reply::new(
            "200 OK",
            json!({"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600}),
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenRequest {
    /// A parameter of the form; empty if there is none.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        self.form.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Whether the client has proved who it is, in whatever way.
    fn is_proven(&self) -> bool {
        let is_basic = self.authorization.as_ref().is_some_and(|value| value.starts_with("Basic "));
        is_basic || !self.value("client_secret").is_empty() || !self.value("client_assertion").is_empty()
    }
}

/// Vouches for an identity to whoever is named as the audience.
fn vouch(request: &TokenRequest) -> Reply {
    let (token, audience) = (request.value("subject_token"), request.value("audience"));
    if token.is_empty() || audience.is_empty() {
        return Reply::new("400 Bad Request", json!({"error": "invalid_request"}));
    }
    Reply::new(
        "200 OK",
        json!({"access_token": format!("vouched-{token}"), "token_type": "N_A",
               "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}),
    )
}

/// Reads a query or a form; what comes twice is there once.
fn form(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8(digits).expect("two hexadecimal digits");
                u8::from_str_radix(&digits, 16).expect("two hexadecimal digits")
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).expect("a text")
}
