//! Processes that share a credential file renew one after the other, and none presents a token twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]
#![cfg(all(unix, feature = "oauth"))]

use std::collections::HashSet;
use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_transport::SystemClock;
use mcp_transport::auth::*;
use mcp_transport::http::{HeaderMap, TlsRoots};
use mcp_transport::testing::NetServer;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// How often each process has its token refused.
const ROUNDS: usize = 10;

const PROCESSES: usize = 3;

/// What tells a process of its server and its folder.
const URL: &str = "MCP_TEST_RENEWAL_URL";
const FOLDER: &str = "MCP_TEST_RENEWAL_FOLDER";

fn oauth(url: &str, folder: &Path) -> OAuth {
    let server = WebUrl::parse(url).unwrap();
    let seams = OAuthSeams {
        http: Arc::new(OAuthClient::new(TlsRoots::Platform)),
        store: Arc::new(FileStore::new(folder)),
        clock: Arc::new(SystemClock),
        randomness: Arc::new(SystemRandomness),
        gate: InteractiveGate::default(),
    };
    OAuth::new("shared", server, OAuthSettings::default(), seams)
}

/// Leaves the tokens `a1` and `r1` in the folder.
async fn plant(url: &str, folder: &Path) {
    let server = WebUrl::parse(url).unwrap();
    let issuer = server.origin().to_string();
    let mut record =
        CredentialRecord::new(url, issuer.as_str(), ClientRecord::new(ClientSource::Registered, "c"));
    let body = json!({"access_token": "a1", "refresh_token": "r1", "expires_in": 3600});
    let response = OAuthResponse::new(200, HeaderMap::new(), body.to_string().into_bytes());
    let reply = TokenReply::read(&response, &mcp_proto::Redactor::default()).unwrap();
    let now = UnixTime::from(std::time::SystemTime::now());
    record.tokens = Some(Tokens::granted(reply, Scopes::default(), now));
    let mut document = ServerMetadata::default();
    document.token_endpoint = Some(format!("{issuer}/token"));
    document.issuer = Some(issuer);
    record.metadata = Some(CachedMetadata { document, fetched_at: now });
    let store = FileStore::new(folder);
    let key = CredentialKey::new("shared", &server);
    let locked = store.lock(&key, Instant::now() + Duration::from_secs(5)).await.unwrap();
    locked.save(&record).await.unwrap();
}

/// What one of the processes does.
async fn renew(url: &str, folder: &Path) {
    let oauth = oauth(url, folder);
    for _ in 0..ROUNDS {
        let (token, stamp) = oauth.authorize().await.unwrap();
        assert!(token.is_some());
        // It works, and then does not any more: for each process at another time.
        oauth.on_accepted(stamp);
        let after = oauth.on_refused(401, Challenges::default(), stamp).await;
        assert_eq!(after, Ok(AfterRefusal::Repeat));
    }
}

/// Answers token requests with strict rotation; tells which refresh tokens were presented.
async fn serve(server: &NetServer, presented: &std::sync::Mutex<Vec<String>>) {
    let mut tasks = JoinSet::new();
    let (sender, mut requests) = tokio::sync::mpsc::channel(16);
    loop {
        tokio::select! {
            mut connection = server.accept() => {
                let sender = sender.clone();
                tasks.spawn(async move {
                    if let Some(request) = connection.next_request().await {
                        sender.send((connection, request)).await.unwrap();
                    }
                });
            }
            Some((mut connection, request)) = requests.recv() => {
                assert_eq!(request.target, "/token");
                let form = Form::parse(std::str::from_utf8(&request.body).unwrap());
                let token = form.get("refresh_token").unwrap().expose().to_owned();
                let number = {
                    let mut presented = presented.lock().unwrap();
                    presented.push(token.clone());
                    presented.len()
                };
                if token == format!("r{number}") {
                    let [access, refresh] = ["a", "r"].map(|kind| format!("{kind}{}", number + 1));
                    let body = json!({"access_token": access, "refresh_token": refresh, "expires_in": 3600});
                    connection.json("200 OK", "", &body).await;
                } else {
                    connection.json("400 Bad Request", "", &json!({"error": "invalid_grant"})).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn f163_processes_that_share_a_store_present_each_refresh_token_once() {
    // The processes are runs of this very test.
    if let (Ok(url), Some(folder)) = (env::var(URL), env::var_os(FOLDER)) {
        return renew(&url, Path::new(&folder)).await;
    }
    let (server, folder) = (NetServer::bind().await, tempfile::tempdir().unwrap());
    let url = server.url();
    plant(&url, folder.path()).await;
    let mut processes: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut command = Command::new(env::current_exe().unwrap());
            let name = "f163_processes_that_share_a_store_present_each_refresh_token_once";
            command.args(["--exact", name, "--nocapture"]);
            command.env(URL, &url).env(FOLDER, folder.path()).stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let presented = std::sync::Mutex::default();
    let ended = tokio::task::spawn_blocking(move || {
        let outputs = processes.drain(..).map(|process| process.wait_with_output().unwrap());
        outputs.collect::<Vec<_>>()
    });
    let outputs = tokio::select! {
        () = serve(&server, &presented) => unreachable!("it goes on"),
        outputs = timeout(Duration::from_secs(60), ended) => outputs.unwrap().unwrap(),
    };
    for output in outputs {
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{output:?}");
    }
    let presented = presented.into_inner().unwrap();
    let each_once: HashSet<_> = presented.iter().collect();
    assert_eq!(each_once.len(), presented.len(), "{presented:?}");
    // Each round had its token replaced, by this process or by another one.
    assert!((ROUNDS..=ROUNDS * PROCESSES).contains(&presented.len()), "{presented:?}");
    let store = FileStore::new(folder.path());
    let kept = store.load(&CredentialKey::new("shared", &WebUrl::parse(&url).unwrap())).await.unwrap();
    let kept = kept.unwrap().tokens.unwrap().refresh_token.unwrap();
    assert_eq!(kept.expose(), format!("r{}", presented.len() + 1), "the last one is kept");
}
