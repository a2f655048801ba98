//! Logging in with `mcpctl` where nobody here wrote the authorization server: strict rotation, several
//! processes, and grants that are taken back.
//!
//! `cargo xtask real-servers` installs it and runs these tests. Without it the tests pass and say so; in CI
//! they fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod installed;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use installed::browser::{get, grant};
use installed::web::Web;
use installed::with_servers;
use serde_json::{Value, json};
use tempfile::TempDir;

const CALL: [&str; 4] = ["call", "protected", "echo", "message=hello"];

/// A protected server, and a folder for the configuration of the command and for what it keeps.
struct Place {
    web: Web,
    folder: TempDir,
}

/// A login that has shown its URL.
struct Login {
    child: Child,
    messages: BufReader<ChildStderr>,
    url: String,
}

impl Place {
    /// `oauth` is what the configuration says of the authorization.
    fn new(web: Web, oauth: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = json!({"url": format!("http://{}/mcp", web.address()), "oauth": oauth});
        let configuration = json!({"mcpServers": {"protected": server}}).to_string();
        std::fs::write(folder.path().join(".mcp.json"), configuration).unwrap();
        Self { web, folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpctl"));
        command.args(arguments).current_dir(self.folder.path());
        command.env("XDG_CONFIG_HOME", self.folder.path()).env("XDG_STATE_HOME", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command; its exit code and all that it has said.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        said(&self.command(arguments).output().unwrap())
    }

    /// Begins a login and waits for its URL.
    fn login(&self, arguments: &[&str]) -> Login {
        let mut command = self.command(&[&["login", "protected"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut message = String::new();
        while !message.starts_with("http://") {
            message.clear();
            assert!(messages.read_line(&mut message).unwrap() > 0, "no URL is shown");
        }
        Login { child, messages, url: message.trim_end().to_owned() }
    }

    /// Logs in through the browser and the listener of the command.
    fn log_in(&self) {
        let login = self.login(&["--no-browser"]);
        assert_eq!(get(&grant(&login.url), &BTreeMap::new()).status, 200);
        assert_eq!(login.ended().0, 0);
    }

    /// Does something at the authorization server behind the backs of its clients.
    fn behind_their_backs(&self, what: &str) {
        assert_eq!(get(&format!("http://{}/{what}", self.web.address()), &BTreeMap::new()).status, 200);
    }

    /// How many files with credentials are kept.
    fn kept(&self) -> usize {
        let Ok(files) = std::fs::read_dir(self.folder.path().join("mcpctl/credentials")) else { return 0 };
        files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "json"))
            .count()
    }

    fn tokens_by(&self, grant_type: &str) -> usize {
        self.web.logged(&format!("grant.success {grant_type}"))
    }

    /// What the authorization server has refused, or taken for theft.
    fn complaints(&self) -> Vec<String> {
        let log = self.web.log().into_iter();
        log.filter(|line| {
            ["grant.error", "grant.revoked", "server_error", "broken"].iter().any(|bad| line.starts_with(bad))
        })
        .collect()
    }

    async fn finish(self) {
        self.web.finish().await;
    }
}

impl Login {
    fn paste(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ended(mut self) -> (i32, String) {
        let mut said = String::new();
        self.messages.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap(), said)
    }
}

fn said(output: &Output) -> (i32, String) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    (output.status.code().unwrap(), text.concat().trim().to_owned())
}

fn hello() -> (i32, String) {
    (0, "hello".to_owned())
}

#[test]
fn nobody_is_asked_where_nobody_can_answer() {
    with_servers(async |installed, _| {
        let place = Place::new(installed.protected().await, &json!({}));
        for arguments in [&CALL[..], &["login", "protected"]] {
            let (code, said) = place.run(arguments);
            assert_eq!(code, 5, "{said}");
            assert!(!said.contains("http://127.0.0.1"), "{said}");
        }
        assert!(place.run(&CALL).1.contains("mcpctl login protected"));
        assert_eq!((place.web.logged("registration_create.success "), place.kept()), (0, 0));
        place.finish().await;
    });
}

#[test]
fn a_login_by_browser_lasts_over_processes_and_renewals() {
    with_servers(async |installed, _| {
        let place = Place::new(installed.protected().await, &json!({}));
        place.log_in();
        assert_eq!(place.run(&CALL), hello());
        assert_eq!((place.tokens_by("authorization_code"), place.tokens_by("refresh_token")), (1, 0));
        // The server has ended the token: it is renewed for the call that it refuses.
        place.behind_their_backs("expire");
        assert_eq!(place.run(&CALL), hello());
        assert_eq!(place.tokens_by("refresh_token"), 1);
        // Its time is over by the clock: it is renewed before anything is refused.
        place.behind_their_backs("lifetime/1");
        place.behind_their_backs("expire");
        assert_eq!(place.run(&CALL), hello());
        place.behind_their_backs("lifetime/3600");
        let refused = place.web.logged("refused stale");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(place.run(&CALL), hello());
        assert_eq!(place.web.logged("refused stale"), refused);
        assert_eq!(place.web.logged("consent"), 1);
        assert_eq!(place.complaints(), [""; 0]);
        place.finish().await;
    });
}

#[test]
fn several_processes_that_need_a_new_token_use_the_refresh_token_once() {
    with_servers(async |installed, _| {
        let place = Place::new(installed.protected().await, &json!({}));
        place.log_in();
        for round in 1..=3 {
            place.behind_their_backs("expire");
            let calls: Vec<Child> = (0..4).map(|_| place.command(&CALL).spawn().unwrap()).collect();
            for call in calls {
                assert_eq!(said(&call.wait_with_output().unwrap()), hello());
            }
            assert_eq!(place.tokens_by("refresh_token"), round);
        }
        assert_eq!(place.complaints(), [""; 0]);
        place.finish().await;
    });
}

#[test]
fn tokens_that_are_bound_to_a_key_last_over_processes_and_renewals() {
    with_servers(async |installed, _| {
        let place = Place::new(installed.protected_by_keys().await, &json!({}));
        place.log_in();
        assert_eq!((place.web.logged("grant.nonce authorization_code"), place.web.logged("consent")), (1, 1));
        for calls in 1..=2 {
            assert_eq!(place.run(&CALL), hello());
            assert_eq!(place.web.logged("refused nonce"), calls, "each process is told once");
        }
        for round in 1..=2 {
            place.behind_their_backs("expire");
            let calls: Vec<Child> = (0..3).map(|_| place.command(&CALL).spawn().unwrap()).collect();
            for call in calls {
                assert_eq!(said(&call.wait_with_output().unwrap()), hello());
            }
            assert_eq!(place.tokens_by("refresh_token"), round);
        }
        assert_eq!(place.web.logged("grant.nonce refresh_token"), 2, "before the token was looked at");
        assert_eq!(place.web.logged("refused invalid_dpop_proof"), 0);
        assert_eq!(place.complaints(), [""; 0]);
        place.finish().await;
    });
}

#[test]
fn an_answer_can_be_pasted_and_a_login_replaces_the_one_before() {
    with_servers(async |installed, _| {
        let place = Place::new(installed.protected().await, &json!({}));
        for (options, logins) in [(&["--paste"][..], 1), (&["--paste", "--force"], 2)] {
            let mut login = place.login(options);
            let answer = grant(&login.url);
            login.paste(&answer);
            assert_eq!(login.ended().0, 0);
            assert_eq!(place.run(&CALL), hello());
            assert_eq!(place.tokens_by("authorization_code"), logins);
        }
        assert_eq!(place.web.logged("registration_create.success "), 1, "the client is the same one");
        assert_eq!(place.kept(), 1);
        place.finish().await;
    });
}

#[test]
fn a_confidential_client_is_taken_for_what_its_secret_says() {
    with_servers(async |installed, _| {
        let secret = "a secret: with 100 % of what has to be escaped";
        let oauth = json!({"clientId": "confidential", "clientSecret": secret});
        let place = Place::new(installed.protected().await, &oauth);
        place.log_in();
        assert_eq!(place.run(&CALL), hello());
        place.behind_their_backs("expire");
        assert_eq!(place.run(&CALL), hello());
        assert_eq!(
            (place.tokens_by("refresh_token"), place.web.logged("registration_create.success ")),
            (1, 0)
        );
        assert_eq!(place.complaints(), [""; 0]);
        place.finish().await;
    });
}

#[test]
fn what_was_granted_can_be_taken_back_from_both_sides() {
    with_servers(async |installed, _| {
        let place = Place::new(installed.protected().await, &json!({}));
        place.log_in();
        place.behind_their_backs("revoke");
        let (code, said) = place.run(&CALL);
        assert_eq!(code, 5, "{said}");
        assert!(said.contains("mcpctl login protected"), "{said}");
        place.log_in();
        assert_eq!(place.run(&CALL), hello());
        assert_eq!(place.run(&["logout", "protected"]).0, 0);
        assert_eq!((place.run(&CALL).0, place.kept()), (5, 0));
        assert_eq!(place.web.logged("grant.revoked "), 1, "{:?}", place.web.log());
        assert_eq!(place.web.logged("echo hello"), 1);
        place.finish().await;
    });
}
