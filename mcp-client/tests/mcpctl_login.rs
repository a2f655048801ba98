//! Logging in from the command line: by browser, by paste, or not at all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod web;

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_transport::testing::checks::until;
use mcp_transport::testing::{AuthSite, ServerScript};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use tempfile::TempDir;
use web::{Web, grant, page};

/// A server that asks for authorization, and a folder for what the command keeps.
struct Place {
    site: Arc<AuthSite>,
    script: ServerScript,
    web: Web,
    folder: TempDir,
}

/// How a run has ended.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Place {
    fn new() -> Self {
        let (site, script) = (Arc::new(AuthSite::default()), ServerScript::legacy());
        let web = Web::guarded(script.clone(), &site);
        let place = Self { site, script, web, folder: tempfile::tempdir().unwrap() };
        let servers = json!({"guarded": {"url": place.web.url}});
        let configuration = json!({"mcpServers": servers}).to_string();
        std::fs::write(place.folder.path().join(".mcp.json"), configuration).unwrap();
        place
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpctl"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env(name, self.folder.path());
        }
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().unwrap();
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Calls a tool; answers with the exit code and what was said about it.
    fn call(&self) -> (i32, String) {
        let run = self.run(&["call", "guarded", "echo", "message=hello"]);
        (run.code, format!("{}{}", run.stdout.trim(), run.stderr))
    }

    /// Begins a login and waits for its URL.
    fn login(&self, arguments: &[&str]) -> Login {
        let mut command = self.command(&[&["login", "guarded"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let url = url_in(&mut messages);
        Login { child, messages, url }
    }

    fn log_in(&self, arguments: &[&str]) {
        let login = self.login(arguments);
        let shown = page(&grant(&login.url));
        assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
        assert_eq!(login.ended().code, 0);
    }

    /// The files that are kept, but for locks.
    fn kept(&self) -> Vec<Vec<u8>> {
        let folder = self.folder.path().join("mcpctl/credentials");
        let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
        let files = files.map(|file| file.unwrap().path());
        files
            .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    }
}

/// A login that has shown its URL.
struct Login {
    child: Child,
    messages: BufReader<ChildStderr>,
    url: String,
}

impl Login {
    fn paste(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ended(mut self) -> Run {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.messages.read_to_string(&mut stderr).unwrap();
        Run { code: self.child.wait().unwrap().code().unwrap(), stdout, stderr }
    }
}

/// Reads messages until the URL of an authorization comes.
fn url_in(messages: &mut impl std::io::BufRead) -> String {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        assert!(messages.read_line(&mut line).unwrap() > 0, "no URL: {said}");
        if line.starts_with("http://") {
            return line.trim_end().to_owned();
        }
        said += &line;
    }
}

#[test]
fn l07_without_a_login_a_call_ends_with_5_and_nothing_is_registered() {
    let place = Place::new();
    let (code, said) = place.call();
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("mcpctl login guarded") && said.lines().count() == 1, "{said}");
    let document: Value =
        serde_json::from_str(&place.run(&["call", "guarded", "echo", "message=x", "--json"]).stdout).unwrap();
    assert_eq!(document["error"]["kind"], "needs_authorization");
    let listed = place.run(&["list"]);
    assert!(listed.code == 3 && listed.stdout.contains("mcpctl login guarded"), "{}", listed.stdout);
    assert_eq!(place.run(&["status"]).code, 5);
    assert_eq!((place.site.registered(), place.site.issued()), (0, 0));
    assert_eq!(place.script.log().runs("echo"), 0);
}

#[test]
fn a_login_by_browser_outlives_the_process_until_it_is_revoked_or_forgotten() {
    let place = Place::new();
    let login = place.login(&["--no-browser"]);
    // A stranger, and a stale tab, change nothing.
    let (callback, _) =
        grant(&login.url).split_once('?').map(|(url, query)| (url.to_owned(), query.to_owned())).unwrap();
    assert!(page(&format!("{callback}?code=x&state=y")).starts_with("HTTP/1.1 400"));
    let shown = page(&grant(&login.url));
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    let run = login.ended();
    assert_eq!((run.code, run.stdout.trim()), (0, "logged in to server \"guarded\""), "{}", run.stderr);
    assert_eq!(place.call(), (0, "hello".to_owned()));
    assert_eq!((place.site.registered(), place.site.issued()), (1, 1));
    // Renewed without anybody's help, and kept.
    place.site.expire();
    assert_eq!(place.call(), (0, "hello".to_owned()));
    assert_eq!(place.call(), (0, "hello".to_owned()));
    assert_eq!(place.site.issued(), 2);
    // Taken back.
    place.site.revoke();
    assert_eq!(place.call().0, 5);
    place.log_in(&["--no-browser"]);
    assert_eq!(place.call(), (0, "hello".to_owned()));
    assert_eq!(place.site.registered(), 1, "the client is the same one");
    assert_eq!(place.run(&["logout", "guarded"]).code, 0);
    assert_eq!((place.call().0, place.kept()), (5, Vec::new()));
}

#[test]
fn l08_an_answer_can_be_pasted_and_what_is_none_is_asked_for_again() {
    let place = Place::new();
    let mut login = place.login(&["--paste"]);
    login.paste("what?");
    let answer = grant(&login.url);
    login.paste(&answer);
    let run = login.ended();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("not the URL at which the browser ends"), "{}", run.stderr);
    assert_eq!(place.call(), (0, "hello".to_owned()));
    let kept = place.kept();
    // The person thinks better of it, or goes away: what was there stays.
    for last_word in [Some("skip"), None] {
        let mut login = place.login(&["--paste", "--force"]);
        match last_word {
            Some(word) => login.paste(word),
            None => drop(login.child.stdin.take()),
        }
        let run = login.ended();
        assert_eq!(run.code, 5, "{}", run.stderr);
        assert!(run.stderr.contains("was skipped"), "{}", run.stderr);
    }
    assert_eq!(place.kept(), kept, "byte for byte");
    assert_eq!(place.call(), (0, "hello".to_owned()));
}

#[test]
fn l07_where_nobody_is_a_login_ends_with_5_before_anything_is_asked_or_shown() {
    let place = Place::new();
    let run = place.run(&["login", "guarded"]);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(!run.stderr.contains("http://"), "{}", run.stderr);
    assert_eq!((place.site.paths(), place.kept()), (Vec::<String>::new(), Vec::new()));
    for (arguments, code) in
        [(&["login", "nobody", "--paste"][..], 2), (&["logout", "nobody"], 2), (&["login"], 2)]
    {
        assert_eq!(place.run(arguments).code, code, "{arguments:?}");
    }
}

#[test]
fn a_login_that_is_not_needed_asks_nobody_unless_it_is_forced() {
    let place = Place::new();
    place.log_in(&["--no-browser"]);
    let run = place.run(&["login", "guarded", "--no-browser", "--json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, document), (0, json!({"server": "guarded", "ok": true, "asked": false})));
    assert_eq!(place.site.issued(), 1);
    let login = place.login(&["--no-browser", "--scope", "read write"]);
    assert!(login.url.contains("scope=read+write"), "{}", login.url);
    page(&grant(&login.url));
    assert_eq!(login.ended().code, 0);
    assert_eq!(place.site.issued(), 2);
}

#[test]
fn f172_the_browser_is_opened_with_the_url_as_its_one_argument() {
    let place = Place::new();
    let (opener, told) = (place.folder.path().join("xdg-open"), place.folder.path().join("told"));
    std::fs::write(&opener, "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > told.tmp && mv told.tmp told\n")
        .unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    // A terminal, without which nobody is asked.
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let path = format!("{}:{}", place.folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = place.command(&["login", "guarded"]);
    command.env("PATH", path).env("DISPLAY", ":0").stdout(Stdio::null()).stderr(terminal);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut messages = BufReader::new(File::from(master));
    let url = url_in(&mut messages);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(until(Duration::from_secs(20), "the opener was started", || told.exists()));
    assert_eq!(std::fs::read_to_string(told).unwrap(), format!("1\n{url}\n"));
    page(&grant(&url));
    assert!(child.wait().unwrap().success());
}
