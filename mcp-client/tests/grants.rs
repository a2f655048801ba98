//! Clients that are configured to be authorized without a person, against an authorization server that
//! tells what it was shown.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod web;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mcp_client::{Client, ConfigFile};
use mcp_transport::testing::{AuthSite, ServerScript, TokenRequest};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use web::Web;

const PEM: &str = include_str!("data/keys/p256-pkcs8.pem");
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// A server, and the folder of a configuration that names it.
struct Stage {
    site: Arc<AuthSite>,
    web: Web,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        Self::playing(ServerScript::legacy())
    }

    fn playing(script: ServerScript) -> Self {
        let site = Arc::new(AuthSite::default().with_scope("tools"));
        let web = Web::guarded(script, &site);
        Self { site, web, folder: tempfile::tempdir().unwrap() }
    }

    fn origin(&self) -> &str {
        self.web.url.strip_suffix("/mcp").unwrap()
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.path().join(name), content).unwrap();
    }

    /// A client whose only server is authorized for like this.
    fn client(&self, oauth: &Value) -> Client {
        let text = json!({"mcpServers": {"guarded": {"url": self.web.url, "oauth": oauth}}}).to_string();
        let config = read(self.folder.path(), &text);
        Client::builder().config(config).start(&Handle::current()).unwrap()
    }

    /// Has such a client make a call; answers with what the authorization server was shown for it.
    async fn call(&self, oauth: Value) -> Vec<TokenRequest> {
        let client = self.client(&oauth);
        assert_eq!(call(&client).await["result"], "hello", "{oauth}");
        assert!(client.shutdown().await.is_clean());
        assert_eq!(self.site.registered(), 0, "nobody registers");
        let requests = self.site.token_requests();
        for request in &requests {
            assert_eq!(request.value("scope"), "tools", "as the challenge says: {request:?}");
            assert_eq!(request.value("resource"), self.web.url, "{request:?}");
        }
        requests
    }
}

fn read(folder: &Path, text: &str) -> ConfigFile {
    let lookup = |name: &str| match name {
        "SECRET" => Some("from-a-variable".to_owned()),
        "PEM" => Some(PEM.to_owned()),
        _ => None,
    };
    let config = ConfigFile::parse("mcp.json", Some(folder), text, &lookup).unwrap();
    assert!(config.refused.is_empty(), "{:?}", config.refused);
    config
}

async fn call(client: &Client) -> Value {
    let arguments = json!({"server": "guarded", "tool": "echo", "arguments": {"message": "hello"}});
    serde_json::from_str(&client.handlers().call_tool(&arguments.to_string()).await).unwrap()
}

/// Header and claims of an assertion.
fn claims(assertion: &str) -> [Value; 2] {
    let mut parts = assertion.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
    [(); 2].map(|()| serde_json::from_slice(&parts.next().unwrap()).unwrap())
}

#[tokio::test]
async fn m02_a_client_shows_its_secret_from_a_variable_or_a_file() {
    let stage = Stage::new();
    let [request] = &stage
        .call(json!({"grantType": "client_credentials", "issuer": stage.origin(), "clientId": "me",
            "clientSecret": "${SECRET}"}))
        .await[..]
    else {
        panic!("one token is enough")
    };
    let basic = request.authorization.as_ref().unwrap().strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(basic).unwrap(), b"me:from-a-variable");
    assert_eq!((request.value("grant_type"), request.value("client_secret")), ("client_credentials", ""));

    let stage = Stage::new();
    stage.write("secret", "from-a-file\n");
    let [request] = &stage
        .call(json!({"grantType": "client_credentials", "issuer": stage.origin(), "clientId": "me",
            "clientSecretFile": "secret", "tokenEndpointAuthMethod": "client_secret_post"}))
        .await[..]
    else {
        panic!("one token is enough")
    };
    assert_eq!((request.value("client_id"), request.value("client_secret")), ("me", "from-a-file"));
    assert_eq!(request.authorization, None);
}

#[tokio::test]
async fn m01_a_client_signs_with_its_key_from_a_file_or_a_variable() {
    for key in [json!({"privateKeyFile": "keys/me.pem"}), json!({"privateKey": "${PEM}"})] {
        let stage = Stage::new();
        fs::create_dir(stage.folder.path().join("keys")).unwrap();
        stage.write("keys/me.pem", PEM);
        let mut oauth = json!({"grantType": "client_credentials", "clientId": "me", "keyId": "k1",
            "signingAlgorithm": "ES256", "tokenEndpointAuthMethod": "private_key_jwt"});
        oauth.as_object_mut().unwrap().extend(key.as_object().unwrap().clone());
        let [request] = &stage.call(oauth).await[..] else { panic!("one token is enough") };
        let [header, claims] = claims(request.value("client_assertion"));
        assert_eq!((&header["alg"], &header["kid"]), (&json!("ES256"), &json!("k1")));
        assert_eq!((&claims["iss"], &claims["aud"]), (&json!("me"), &json!(stage.origin())));
        assert_eq!((&request.authorization, request.value("client_secret")), (&None, ""));
    }
}

#[tokio::test]
async fn an_organisation_vouches_with_a_token_from_a_file() {
    let stage = Stage::new();
    stage.write("identity", "id-1\n");
    stage.write("secret", "there-secret");
    let [exchange, request] = &stage
        .call(json!({"grantType": "enterprise_managed", "issuer": stage.origin(), "clientId": "me",
            "clientSecret": "${SECRET}", "identityTokenFile": "identity",
            "identityProvider": {"tokenEndpoint": format!("{}/idp/token", stage.origin()),
                "clientId": "there", "clientSecretFile": "secret",
                "tokenEndpointAuthMethod": "client_secret_post"}}))
        .await[..]
    else {
        panic!("one question to each")
    };
    assert_eq!((exchange.path.as_str(), request.path.as_str()), ("/idp/token", "/token"));
    let shown = |request: &TokenRequest, name: &str| request.value(name).to_owned();
    assert_eq!(shown(exchange, "subject_token"), "id-1");
    assert_eq!(shown(exchange, "audience"), stage.origin());
    assert_eq!(
        (shown(exchange, "client_id"), shown(exchange, "client_secret")),
        ("there".to_owned(), "there-secret".to_owned())
    );
    assert_eq!((request.value("grant_type"), request.value("assertion")), (JWT_BEARER, "vouched-id-1"));
    let basic = request.authorization.as_ref().unwrap().strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(basic).unwrap(), b"me:from-a-variable");
}

#[tokio::test]
async fn a_workload_shows_the_token_that_its_platform_keeps_fresh() {
    let stage = Stage::new();
    stage.write("token", "workload-1");
    let client = stage.client(&json!({"grantType": "workload_identity", "issuer": stage.origin(),
        "clientId": "me", "identityTokenFile": "token"}));
    let shown = async |token: &str| {
        assert_eq!(call(&client).await["result"], "hello");
        let request = stage.site.token_requests().pop().unwrap();
        assert_eq!((request.value("grant_type"), request.value("assertion")), (JWT_BEARER, token));
    };
    shown("workload-1").await;
    stage.write("token", "workload-2");
    stage.site.expire();
    shown("workload-2").await;
    assert_eq!(stage.site.issued(), 2);
    assert!(client.shutdown().await.is_clean());
}

/// The extensions that each message declares which declares capabilities.
fn declared(messages: &[Value]) -> Vec<Value> {
    let legacy = |message: &Value| message["params"].get("capabilities").cloned();
    let modern = |message: &Value| {
        message["params"]["_meta"].get("io.modelcontextprotocol/clientCapabilities").cloned()
    };
    let all = messages.iter().filter_map(|message| legacy(message).or_else(|| modern(message)));
    all.map(|capabilities| capabilities["extensions"].clone()).collect()
}

#[tokio::test]
async fn an_extension_of_authorization_is_declared_with_its_grant_and_by_nobody_else() {
    const CREDENTIALS: &str = "io.modelcontextprotocol/oauth-client-credentials";
    const ENTERPRISE: &str = "io.modelcontextprotocol/enterprise-managed-authorization";
    for (script, at_least) in [(ServerScript::legacy(), 1), (ServerScript::modern(), 3)] {
        for (grant, expected) in [
            ("client_credentials", json!({CREDENTIALS: {}})),
            ("enterprise_managed", json!({ENTERPRISE: {}})),
            ("workload_identity", Value::Null),
        ] {
            let stage = Stage::playing(script.clone());
            let mut oauth = json!({"grantType": grant, "issuer": stage.origin(), "clientId": "me",
                "clientSecret": "${SECRET}"});
            if grant != "client_credentials" {
                oauth["identityToken"] = json!("id-1");
            }
            if grant == "enterprise_managed" {
                oauth["identityProvider"] =
                    json!({"tokenEndpoint": format!("{}/idp/token", stage.origin()), "clientId": "there"});
            }
            stage.call(oauth).await;
            let declared = declared(&stage.web.messages.lock().unwrap());
            assert!(declared.len() >= at_least, "{grant}: {declared:?}");
            assert!(declared.iter().all(|extensions| *extensions == expected), "{grant}: {declared:?}");
        }
        // Nor is it declared to a server that is not authorized for at all.
        let web = Web::start(script);
        let text = json!({"mcpServers": {"guarded": {"url": web.url}}}).to_string();
        let config = read(Path::new("/"), &text);
        let client = Client::builder().config(config).start(&Handle::current()).unwrap();
        assert_eq!(call(&client).await["result"], "hello");
        assert!(client.shutdown().await.is_clean());
        let declared = declared(&web.messages.lock().unwrap());
        assert!(declared.len() >= at_least && declared.iter().all(Value::is_null), "{declared:?}");
    }
}
